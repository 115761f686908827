"""A language model that the lab did not make: read from a folder, asked for verdicts on words.

The folder is one that ``transformers`` writes: config.json, a tokenizer and *.safetensors. Nothing
in it is executed or unpickled, and nothing is fetched. The network is wrapped by TransformerLens'
``TransformerBridge``, so that it has hooks too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.base import memory
from models.errors import UserError, unknown
from models.languages import Word
from models.objectives import LEAST
from models.reading import read_bytes

MOST_SYMBOLS = 60
"""The most symbols of an alphabet."""
MOST_LAYERS = 1000
"""No network comes near to this; to make the modules of more would take memory before it can be
seen how much."""
BATCH_NUMBERS = 2**25
"""About so many logits are in memory at a time."""
BYTES_OF_A_WEIGHT = 8
"""What a weight takes in memory while a folder is read: itself in float32, and as it is written."""
ROUNDING = 1e-5
"""Logits that differ by more than this share of the largest one differ by more than rounding."""
REMOTE = "auto_map"
"""The key of a configuration that names code of the folder's own."""
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """How a network is asked about words.

    Attributes:
        symbols: the alphabet; without any, all tokens that are not special, if they are few.
        begin: the token that every word begins with; by default the one that the folder names.
        end: the token after a word; by default the one that the folder names.
        least: a token whose probability is smaller may not come next.
    """

    symbols: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    least: float = LEAST


@dataclass(frozen=True)
class Foreign:
    """A network that says whether a word over an alphabet is one of its own.

    A word is accepted if each of its symbols may come after those before it, and the end token
    after the last. "May" means a probability of ``least`` or more, of all tokens together. It is
    how the lab reads the verdicts of its own language models.

    Attributes:
        model: the ``TransformerBridge``; tokens [batch, pos] to logits [batch, pos, d_vocab].
        symbols: the alphabet.
        ids: the token of each symbol.
        begin, end: the tokens around a word: name and number.
        room: the symbols of the longest word that fits into the network's context.
        least: as in ``Asked``.
        device: where the network answers.
        config: of ``transformers``.
        digest: SHA-256 of the folder's files.
    """

    model: Any = field(repr=False)
    symbols: tuple[str, ...]
    ids: tuple[int, ...]
    begin: tuple[str, int]
    end: tuple[str, int]
    room: int
    least: float
    device: torch.device
    config: Any = field(repr=False)
    digest: str

    def __call__(self, words: Sequence[Word]) -> Bool[np.ndarray, " words"]:
        """The verdicts on words of any lengths; one that does not fit into the context is not
        accepted."""
        answers = np.zeros(len(words), dtype=bool)
        for rows, tokens, logits in self._read(words):
            end = torch.full_like(tokens[:, :1], self.end[1])
            following = torch.cat([tokens[:, 1:], end], dim=1)[..., None]
            likely = logits.log_softmax(dim=-1).take_along_dim(following, dim=-1)[..., 0]
            answers[rows] = (likely >= math.log(self.least)).all(dim=1).cpu().numpy()
        return answers

    def drawn(self, count: int, longest: int, seed: int) -> list[Word]:
        """Words that the network makes, symbol by symbol, each as likely as it says.

        Tokens other than the symbols and the end are left out. A word of ``longest`` symbols is cut
        there, whether the network would end it or not.
        """
        rng = np.random.default_rng([seed, 0xF0E])
        words: list[Word] = [()] * count
        growing = np.arange(count)
        for _ in range(min(longest, self.room)):
            kept = []
            for rows, _, logits in self._read([words[row] for row in growing]):
                choices = logits[:, -1, [self.end[1], *self.ids]].softmax(dim=-1).cpu().numpy()
                which = (choices.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)
                for row, choice in zip(growing[rows], which, strict=True):
                    if choice:
                        words[row] = (*words[row], self.symbols[choice - 1])
                        kept.append(row)
            growing = np.array(kept, dtype=int)
        return words

    def untaught(self, seed: int) -> Foreign:
        """The same network with the random weights that it would begin with."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = _bridged(_built(self.config).to(self.device))
        return replace(self, model=model)

    def _read(
        self, words: Sequence[Word]
    ) -> Iterator[
        tuple[
            Int[np.ndarray, " rows"],
            Int[Tensor, "rows pos"],
            Float[Tensor, "rows pos d_vocab"],
        ]
    ]:
        """Batches of words of one length: their rows, their tokens and their logits. Nothing is
        padded, so no network sees what is no part of a word."""
        number = dict(zip(self.symbols, self.ids, strict=True))
        lengths = np.array([len(word) for word in words], dtype=int)
        for length in np.unique(lengths[lengths <= self.room]).tolist():
            here = np.flatnonzero(lengths == length)
            most = max(1, BATCH_NUMBERS // ((length + 1) * self.config.vocab_size))
            for rows in np.array_split(here, -(-len(here) // most)):
                lines = [[self.begin[1], *(number[s] for s in words[row])] for row in rows]
                tokens = torch.tensor(lines, device=self.device)
                yield rows, tokens, self.model(tokens)


def read(folder: Path, asked: Asked, device: torch.device) -> Foreign:
    """A network of a folder.

    Raises:
        UserError: something lacks or is damaged; it would run code or load a pickle; it is no
            causal language model, or of a kind that TransformerLens does not know; it does not fit
            into memory; a symbol is no single token.
    """
    _quiet()
    _check_files(folder)
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    safe = {"local_files_only": True, "trust_remote_code": False}
    config = _tried(folder, lambda: AutoConfig.from_pretrained(str(folder), **safe))
    _check_kind(folder, config)
    tokenizer = _tried(folder, lambda: AutoTokenizer.from_pretrained(str(folder), **safe))
    named = config
    if (folder / "generation_config.json").exists():
        named = _tried(folder, lambda: GenerationConfig.from_pretrained(str(folder), **safe))
    size = config.get_text_config().vocab_size
    begin = _border(tokenizer, asked.begin, "begin", tokenizer.bos_token_id, named.bos_token_id)
    end = _border(tokenizer, asked.end, "end", tokenizer.eos_token_id, named.eos_token_id)
    symbols, ids = _alphabet(tokenizer, asked.symbols, {begin[1], end[1]}, size)
    model = _weights(folder, config).to(device)
    tokens = _probe([begin[1], end[1], *ids], device)
    logits = _causal(folder, model, tokens)
    bridge = _tried(folder, lambda: _bridged(model))
    if _differ(bridge(tokens), logits):
        raise UserError(
            f"{folder} says something else through TransformerLens than through transformers: "
            f"{type(model).__name__} is not to be trusted there, choose another kind of network"
        )
    room = int(bridge.cfg.n_ctx) - 1
    return Foreign(
        *(bridge, symbols, ids, begin, end, room, asked.least, device, config, _digest(folder))
    )


# -- the folder -----------------------------------------------------------------------------------


def _check_files(folder: Path) -> None:
    """Raises UserError if a folder lacks what is read, or asks for what is not done."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give the folder that holds config.json")
    if (folder / "run.json").exists():
        raise UserError(f"{folder} is a run of this lab: write `lab analyse {folder} discovery`")
    if (folder / "adapter_config.json").exists():
        raise UserError(f"{folder} holds an adapter, no whole network: merge it into its network")
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        if name == "config.json" or path.exists():
            cure = "save the network anew, with save_pretrained of transformers"
            try:
                content = json.loads(read_bytes(path, cure))
            except ValueError:
                raise UserError(f"{path} is no JSON: {cure}") from None
            if not isinstance(content, dict):
                raise UserError(f"{path} is no JSON object: {cure}")
            if REMOTE in content:
                raise UserError(
                    f"{path} asks for code of its own ({REMOTE}), and the lab runs no code of a "
                    f"folder: if transformers knows this kind of network, remove {REMOTE}"
                )
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder} has no *.safetensors, and other weights are not read, because they may hold "
            "code: save them with safe_serialization=True"
        )


def _digest(folder: Path) -> str:
    """SHA-256 of all files that a network may be read from."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".safetensors", ".model", ".txt"):
            with path.open("rb") as file:
                digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _tried(folder: Path, work: Callable[[], T]) -> T:
    """What a library reads from a folder. An odd folder may make it raise anything."""
    try:
        return work()
    except (MemoryError, UserError):
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{folder} cannot be read ({said[:200]}): check its files, or save it anew with "
            "save_pretrained of transformers"
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

    layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
    if layers > MOST_LAYERS:
        raise UserError(f"{folder} has {layers} layers: choose one with {MOST_LAYERS} at most")

    def weights() -> int:
        with torch.device("meta"):  # where a tensor has a shape and takes no memory
            built = _built(config)
        return sum(each.numel() for each in (*built.parameters(), *built.buffers()))

    needed, here = BYTES_OF_A_WEIGHT * _tried(folder, weights), memory()
    if needed > here:
        raise UserError(
            f"{folder} takes about {needed / 2**30:.1f} GiB, and this machine has "
            f"{here / 2**30:.1f}: choose a smaller network"
        )


def _built(config: Any) -> nn.Module:
    """A network with random weights."""
    from transformers import AutoModelForCausalLM

    how = {"attn_implementation": "eager", "dtype": torch.float32, "trust_remote_code": False}
    return AutoModelForCausalLM.from_config(config, **how)


def _weights(folder: Path, config: Any) -> nn.Module:
    """The network with its weights, in float32. There may be none that are missing or of another
    shape: ``transformers`` would draw them at random."""
    from transformers import AutoModelForCausalLM

    model, about = _tried(
        folder,
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
    others = {str(name) for name, *_ in about["mismatched_keys"]}
    if lacking := sorted({*about["missing_keys"], *others}):
        raise UserError(
            f"{folder} lacks {len(lacking)} of the weights that its config.json asks for, such as "
            f"{lacking[0]}: save the whole language model with its own config.json"
        )
    return model


def _probe(ids: Sequence[int], device: torch.device) -> Int[Tensor, "two pos"]:
    """Two rows of tokens that differ in the last one alone."""
    one = [ids[i % len(ids)] for i in range(4)]
    other = [*one[:-1], next(i for i in ids if i != one[-1])]
    return torch.tensor([one, other], device=device)


@torch.no_grad()
def _causal(
    folder: Path, model: nn.Module, tokens: Int[Tensor, "two pos"]
) -> Float[Tensor, "two pos d_vocab"]:
    """The network's logits on the probe. Raises UserError if they are no numbers, or if what stands
    later changes what it says before."""
    logits: Tensor = model.eval()(input_ids=tokens).logits
    if not logits.isfinite().all():
        raise UserError(f"{folder} answers with no numbers: its weights are damaged")
    if _differ(*logits[:, :-1]):
        raise UserError(
            f"{folder} is no causal language model: what it says of a symbol depends on later ones"
        )
    return logits


def _differ(one: Tensor, other: Tensor) -> bool:
    """Do logits differ by more than rounding?"""
    return bool((one - other).abs().max() > ROUNDING * other.abs().max())


def _bridged(model: nn.Module) -> Any:
    """A network with TransformerLens' hooks, which learns no more."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
    return bridge.eval().requires_grad_(False)


def _quiet() -> None:
    """No bars and no advice of ``transformers`` between the lab's own lines."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# -- the tokens -----------------------------------------------------------------------------------


def _border(
    tokenizer: Any, given: str | None, option: str, own: int | None, named: Any
) -> tuple[str, int]:
    """The token before or after a word: the one given; else the tokenizer's; else the one that the
    configuration names (the first, if it names several)."""
    if given is not None:
        return given, _token(tokenizer, given)
    first = named[0] if isinstance(named, list) and named else named
    number = first if own is None else own
    known = None if number is None else tokenizer.convert_ids_to_tokens(number)
    if known is None:
        raise UserError(f"the folder names no {option} token: name one with --{option}")
    return str(known), int(number)


def _token(tokenizer: Any, symbol: str) -> int:
    """The number of a symbol that is one token: as it stands in the vocabulary, or as text."""
    known = tokenizer.get_vocab()
    if symbol in known:
        return int(known[symbol])
    cut = tokenizer.encode(symbol, add_special_tokens=False)
    parts = tokenizer.convert_ids_to_tokens(cut)
    if len(cut) > 1 and tokenizer.unk_token_id not in cut:
        raise UserError(
            f"the tokenizer cuts {symbol!r} into {len(cut)} tokens ({', '.join(parts)}): name "
            "symbols that are one token each"
        )
    if not cut or tokenizer.unk_token_id in cut:
        if len(known) <= MOST_SYMBOLS:
            raise unknown("symbol", symbol, known)
        raise UserError(f"the tokenizer does not know {symbol!r}: name one of its tokens")
    return int(cut[0])


def _alphabet(
    tokenizer: Any, given: Sequence[str], border: set[int], size: int
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The symbols and their tokens.

    Args:
        border: the tokens before and after a word, which are no symbols.
        size: the tokens that the network knows.
    """
    special = border | set(tokenizer.all_special_ids)
    by_number = sorted((number, token) for token, number in tokenizer.get_vocab().items())
    symbols = tuple(given) or tuple(token for n, token in by_number if n not in special)
    if not 0 < len(symbols) <= MOST_SYMBOLS:
        what = f"{len(symbols)} symbols are named"
        if not given:
            what = f"the tokenizer has {len(symbols)} tokens that are not special"
        raise UserError(f"{what}: name those of the words with --symbols, {MOST_SYMBOLS} at most")
    ids = tuple(_token(tokenizer, symbol) for symbol in symbols)
    for index, (symbol, number) in enumerate(zip(symbols, ids, strict=True)):
        if number in border:
            raise UserError(f"{symbol!r} begins or ends a word: it can be no symbol, leave it out")
        if number in ids[:index]:
            raise UserError(f"{symbol!r} is the same token as another symbol: drop one")
    if (most := max(*ids, *border)) >= size:
        raise UserError(
            f"the tokenizer gives the number {most}, and the network knows {size} tokens: they do "
            "not belong together"
        )
    return symbols, ids
