"""A network from a folder that ``transformers`` writes: config.json, tokenizer and *.safetensors.

Weights and configuration may be those of TransformerLens, too. Nothing in it is executed, nothing
but tensors is unpickled, and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.base import all_finite, memory
from models.errors import UserError, lab
from models.foreign.lens_folder import WRITE_CONFIG, bridge_of, configuration
from models.foreign.network import Asked, Foreign, bridged, built
from models.foreign.tokens import alphabet, border, listed
from models.foreign.trial import named_by, tried
from models.plain_files import MOST_BYTES, plain_size, read_bytes

MOST_LAYERS = 1000
"""No network comes near to this; to make the modules of more would take memory before it can be
seen how much."""
SIZES = {
    "vocab_size": 1,
    "hidden_size": 1,
    "num_attention_heads": 1,
    "num_hidden_layers": 0,
    "initializer_range": 0,  # the untrained network is drawn with it
}
"""The least that numbers may be, by the names that `transformers` gives them in all networks."""
BYTES_OF_A_WEIGHT = 8
"""The bytes of a weight while a folder is read: itself in float32, and as it is written."""
ROUNDING = 1e-5
"""Logits that differ by more than this share of the largest one differ by more than rounding."""
REFUSED = {
    "auto_map": "asks for code of its own (auto_map), and the lab runs no code of a folder: if "
    "transformers knows this kind of network, remove auto_map",
    "quantization_config": "is of a quantised network (quantization_config), and the lab reads "
    "whole weights: save it without, with dequantize and save_pretrained of transformers",
    "transformers_weights": "names a file of weights (transformers_weights), and none but "
    "model.safetensors and its parts are read: rename the file, and remove transformers_weights",
}
"""Keys of a configuration that ask for what is not done, and what is told of them."""
INDEX = "model.safetensors.index.json"
"""The file that names the parts of the weights."""
OF_TOKENIZERS = ("tokenizer.json", "vocab*", "merges*", "*.model")
"""The names of files that tokenizers are read from."""
READ = (".json", ".safetensors", ".model", ".txt", ".jinja", ".tokenizer")
"""The endings of all files that a network may be read from."""
HUGGING_FACE, LENS = "transformers", "TransformerLens"
SAVE = "save the network anew, with save_pretrained of transformers"
WRITE = f"{SAVE}; for a network of TransformerLens write it with `{WRITE_CONFIG}`"
MOST_LETTERS = 200
"""So many letters of a library's error are told."""
T = TypeVar("T")


def read(folder: Path, options: Asked, device: torch.device) -> Foreign:
    """A network of a folder.

    Raises:
        UserError: something lacks or is damaged; it would run code or load a pickle; it is no
            causal language model, or of a kind that TransformerLens does not know; it does not fit
            into memory; a symbol is no single token.
    """
    _quiet()
    content = _check_files(folder)
    path = folder / "config.json"
    config = _tried(folder, path.name, lambda: configuration(path, content), LENS)
    lens = config is not None
    if lens:
        _check_size(folder, config, config.n_layers, LENS)
        setup, size = config, config.vocab_size
    else:
        config, setup = _configurations(folder, content.get("model_type"))
        size = config.get_text_config().vocab_size
    tokenizer = _tokenizer(folder, options.vocabulary, size, None if lens else config)
    begin = border(tokenizer, options.begin, "begin", tokenizer.bos_token_id, setup.bos_token_id)
    end = border(tokenizer, options.end, "end", tokenizer.eos_token_id, setup.eos_token_id)
    symbols, ids = alphabet(tokenizer, options.symbols, {begin[1], end[1]}, size)
    tokens = _probe([begin[1], end[1], *ids], device)
    bridge = (_of_lens if lens else _of_transformers)(folder, config, tokens)
    room, reads = int(bridge.cfg.n_ctx) - 1, options.reads or named_by(config)
    network = Foreign(
        *(bridge, symbols, ids, begin, end, room, options.least, reads or "softmax"),
        *(device, config, _digest(folder)),
    )
    return network if reads else tried(network)


def _configurations(folder: Path, kind: object) -> tuple[Any, Any]:
    """The configuration of ``transformers``, and the one that names the tokens around a word.

    Args:
        kind: the model_type of config.json.
    """
    from transformers import CONFIG_MAPPING, AutoConfig, GenerationConfig

    path = folder / "config.json"
    if not (isinstance(kind, str) and kind in CONFIG_MAPPING):
        raise UserError(
            f"{path} has the model_type {kind!r}, no kind of network that transformers knows "
            f"here: {WRITE}"
        )
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder} has no *.safetensors, and other weights are not read, because they may hold "
            "code: save them with safe_serialization=True"
        )
    safe = {"local_files_only": True, "trust_remote_code": False}
    config = _tried(folder, path.name, lambda: AutoConfig.from_pretrained(str(folder), **safe))
    _check_kind(folder, config)
    name = "generation_config.json"
    if not (folder / name).exists():
        return config, config
    return config, _tried(
        folder, name, lambda: GenerationConfig.from_pretrained(str(folder), **safe)
    )


def _tokenizer(folder: Path, vocabulary: str | None, size: int, config: Any) -> Any:
    """The folder's tokenizer, or one of the names given.

    Args:
        size: the tokens that the network knows.
        config: the configuration of ``transformers``; None if config.json is none.
    """
    from transformers import AutoTokenizer, PretrainedConfig

    if vocabulary is not None:
        return listed(vocabulary.split(), size)
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    safe["config"] = config or PretrainedConfig()
    tokenizer: Any = None
    try:
        tokenizer = _tried(
            folder, "the tokenizer", lambda: AutoTokenizer.from_pretrained(str(folder), **safe)
        )
    except UserError:
        if any(path for kind in OF_TOKENIZERS for path in folder.glob(kind)):
            raise  # it is there, and damaged
    # Some libraries make one without a file, which knows no more than the end of a text.
    if tokenizer is None or set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise UserError(
            f"{folder} has no tokenizer: name the network's {size} tokens in the order of their "
            "numbers, as in --vocabulary '<bos> <eos> a b'"
        )
    return tokenizer


# -- the folder -----------------------------------------------------------------------------------


def _check_files(folder: Path) -> dict[str, Any]:
    """The content of config.json. Raises UserError if a folder lacks what is read, or asks for what
    is not done."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give the folder that holds config.json")
    if (folder / "run.json").exists():
        raise UserError(
            f"{folder} is a run of this lab: write `{lab('analyse', folder, 'discovery')}`"
        )
    if (folder / "adapter_config.json").exists():
        raise UserError(f"{folder} holds an adapter, no whole network: merge it into its network")
    parts = [path.name for path in folder.glob("*.safetensors")]
    contents: dict[str, dict[str, Any]] = {}
    for name in ("config.json", "tokenizer_config.json", INDEX):
        path, cure = folder / name, WRITE if name == "config.json" else SAVE
        if name == "config.json" or path.exists():
            try:
                contents[name] = content = json.loads(read_bytes(path, cure))
            except (ValueError, RecursionError):
                raise UserError(f"{path} is no JSON: {cure}") from None
            if not isinstance(content, dict):
                raise UserError(f"{path} is no JSON object: {cure}")
            for key, why in REFUSED.items():
                if content.get(key) is not None:
                    raise UserError(f"{path} {why}")
            named = content.get("weight_map", {})
            for part in named.values() if isinstance(named, dict) else [named]:
                if part not in parts:
                    raise UserError(
                        f"{path} names {part!r}, no *.safetensors of this folder: put the file "
                        "back, or save the network anew, with save_pretrained of transformers"
                    )
    for path in _files(folder):
        most = sys.maxsize if path in _weights_of(folder) else None
        plain_size(path, SAVE, most)
    return contents["config.json"]


def _weights_of(folder: Path) -> list[Path]:
    """The files of weights: *.safetensors, or, if there are none, what ``torch.save`` writes."""
    kinds = ("*.safetensors",), ("*.pt", "*.pth")
    found = ([path for kind in each for path in folder.glob(kind)] for each in kinds)
    return sorted(next(filter(None, found), []))


def _digest(folder: Path) -> str:
    """SHA-256 of all files that a network may be read from."""
    digest = hashlib.sha256()
    for path in _files(folder):
        with path.open("rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    """All files that a network may be read from."""
    paths = (*folder.iterdir(), *folder.glob("additional_chat_templates/*"))
    return sorted({*_weights_of(folder), *(path for path in paths if path.suffix in READ)})


def _tried(folder: Path, part: str, work: Callable[[], T], library: str = HUGGING_FACE) -> T:
    """The part of a folder that a library reads. An odd folder may make it raise anything; of the
    words of ``transformers`` only the name of a field is told.

    Args:
        part: the name of the part, for an error.
        work: reads the part.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            return work()
    except (MemoryError, UserError):
        raise
    except Exception as error:
        field = re.search(r"field '(\w+)'", str(error))
        why = f"its {field[1]} is none that may be" if field else "it is damaged, or of a new kind"
        if "divisible" in str(error):
            why = "its width does not divide among its heads"
        elif library == LENS and isinstance(error, ValueError | NotImplementedError):
            why = " ".join(str(error).split())[:MOST_LETTERS]
        way = " with save_pretrained" if library == HUGGING_FACE else ""
        raise UserError(
            f"{folder}: {part} cannot be read by {library} ({why}): correct it, or save the "
            f"network anew{way}"
        ) from None


# -- the network ----------------------------------------------------------------------------------


def _check_kind(folder: Path, config: Any) -> None:
    """Raises UserError for a network that is no causal one, or does not fit into memory."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise UserError(
            f"{folder} is of the type {config.model_type}, no causal language model: give one that "
            "AutoModelForCausalLM of transformers reads"
        )

    kinds = [str(name) for name in config.architectures or ()]
    if kinds and all(re.search(r"For(Sequence|Token|Question|Multiple)", name) for name in kinds):
        raise UserError(
            f"{folder} holds a {kinds[0]}, no language model: save the whole language model"
        )
    sizes = config.get_text_config()
    for name, least in SIZES.items():
        if (size := getattr(sizes, name, least)) < least:
            raise UserError(
                f"{folder}: config.json says that {name} is {size}: correct it, or save the "
                "network anew with save_pretrained"
            )
    _check_size(folder, config, getattr(sizes, "num_hidden_layers", 0), HUGGING_FACE)


def _check_size(folder: Path, config: Any, layers: int, library: str) -> None:
    """Raises UserError for a network that does not fit into memory, or whose files do not."""
    if layers > MOST_LAYERS:
        raise UserError(f"{folder} has {layers} layers: choose one with {MOST_LAYERS} at most")

    def weights() -> int:
        with torch.device("meta"):  # where a tensor has a shape and takes no memory
            model = built(config)
        return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))

    count, capacity = _tried(folder, "config.json", weights, library), memory()
    demand = BYTES_OF_A_WEIGHT * count
    if demand > capacity:
        raise UserError(
            f"{folder} takes about {demand / 2**30:.1f} GiB, and this machine has "
            f"{capacity / 2**30:.1f}: choose a smaller network"
        )
    stored = _tried(
        folder, "the weights", lambda: sum(map(_unpacked, _weights_of(folder))), library
    )
    if stored > demand + MOST_BYTES:
        way = ", with save_pretrained of transformers" if library == HUGGING_FACE else ""
        raise UserError(
            f"{folder} has weights of {stored / 2**30:.1f} GiB for a network of at most "
            f"{demand / 2**30:.1f}: save it anew{way}"
        )


def _unpacked(path: Path) -> int:
    """The bytes of a file of weights; ``torch.save`` packs none, but another program may."""
    if path.suffix != ".safetensors" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sum(part.file_size for part in archive.infolist())
    return path.stat().st_size


def _of_lens(folder: Path, config: Any, tokens: Int[Tensor, "two pos"]) -> Any:
    """The bridge of TransformerLens' own network. Raises UserError if it is not to be trusted."""
    paths = _weights_of(folder)
    if len(paths) != 1:
        raise UserError(
            f"{folder} has {len(paths)} files of weights: give it one, model.safetensors or, "
            f"written with torch.save(model.state_dict(), 'model.pt'), model.pt"
        )
    bridge = _tried(folder, "the weights", lambda: bridge_of(paths[0], config, tokens.device), LENS)
    _check_causal(folder, bridge, _tried(folder, "the network", lambda: bridge(tokens), LENS))
    return bridge


def _of_transformers(folder: Path, config: Any, tokens: Int[Tensor, "two pos"]) -> Any:
    """The bridge of a network of ``transformers``. Raises UserError if it is not to be trusted."""
    model = _weights(folder, config).to(tokens.device).eval().requires_grad_(False)
    logits = _tried(folder, "the network", lambda: model(input_ids=tokens).logits)
    _check_causal(folder, model, logits)
    bridge = _tried(folder, "the network", lambda: bridged(model))
    if _differ(bridge(tokens), logits):
        raise UserError(
            f"{folder} says something else through TransformerLens than through transformers: "
            f"{type(model).__name__} is not to be trusted there, choose another kind of network"
        )
    return bridge


def _weights(folder: Path, config: Any) -> nn.Module:
    """The network with its weights, in float32. There may be none that are missing or of another
    shape: ``transformers`` would draw them at random."""
    from transformers import AutoModelForCausalLM

    model, about = _tried(
        folder,
        "the weights",
        lambda: AutoModelForCausalLM.from_pretrained(
            str(folder),
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        ),
    )
    for name, shape, target in sorted(about["mismatched_keys"]):
        raise UserError(
            f"{folder}: the weights {name} have the shape {[*shape]}, and config.json asks for "
            f"{[*target]}: save network and config.json together"
        )
    if lacking := sorted(about["missing_keys"]):
        raise UserError(
            f"{folder} lacks {len(lacking)} of the weights that its config.json asks for, such as "
            f"{lacking[0]}: save the whole language model with its own config.json"
        )
    layers = config.get_text_config().num_hidden_layers
    if further := sorted(name for name in about["unexpected_keys"] if f".{layers}." in name):
        raise UserError(
            f"{folder} has weights of more than the {layers} layers of its config.json, such as "
            f"{further[0]}: save network and config.json together"
        )
    return model


def _probe(ids: Sequence[int], device: torch.device) -> Int[Tensor, "two pos"]:
    """Two rows of tokens that differ in the last one alone."""
    first = [ids[i % len(ids)] for i in range(4)]
    second = [*first[:-1], next(i for i in ids if i != first[-1])]
    return torch.tensor([first, second], device=device)


def _check_causal(folder: Path, model: nn.Module, logits: Float[Tensor, "two pos d_vocab"]) -> None:
    """Raises UserError if the logits of the probe are no numbers, or if what stands later changes
    what the network says before."""
    if not (logits.isfinite().all() and all_finite(model)):
        raise UserError(f"{folder} answers with no numbers: its weights are damaged")
    if _differ(*logits[:, :-1]):
        raise UserError(
            f"{folder} is no causal language model: what it says of a symbol depends on later ones"
        )


def _differ(logits: Tensor, reference: Tensor) -> bool:
    """Do logits differ by more than rounding?"""
    return bool((logits - reference).abs().max() > ROUNDING * reference.abs().max())


def _quiet() -> None:
    """Silences the bars and the advice of ``transformers`` between the lab's own lines."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
