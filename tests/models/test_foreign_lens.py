"""Networks of TransformerLens: their verdicts against its formulas, and folders that are odd."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hooked_networks import CONTEXT, NAMES, SHAPES, config_of, logits_of, saved, weights_of
from torch import Tensor, nn
from transformer_lens import TransformerBridgeConfig
from transformer_lens.model_bridge.sources.native import boot

from analyses.command_line.app import main
from models.errors import UserError
from models.foreign import lens_folder
from models.foreign.folder import read
from models.foreign.network import Asked
from models.foreign.tokens import listed

CPU = torch.device("cpu")
SHAPE = "norm and mlp"
WORDS = [word for n in range(5) for word in product("ab", repeat=n)]
TOKENS = torch.randint(4, (3, CONTEXT), generator=torch.Generator().manual_seed(0))
ASKED = Asked(vocabulary=NAMES, least=0.1, reads="softmax")


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = config_of(SHAPE)
    return saved(config, weights_of(config), tmp_path_factory.mktemp("lens") / "hooked")


@pytest.mark.parametrize("shape", SHAPES)
def test_verdicts_and_margins_are_those_of_its_formulas(shape: str, tmp_path: Path) -> None:
    config = config_of(shape)
    weights = weights_of(config)
    network = read(saved(config, weights, tmp_path / "network"), ASKED, CPU)
    assert (network.symbols, network.begin, network.end) == (("a", "b"), ("<bos>", 0), ("<eos>", 1))
    assert network.room == CONTEXT - 1
    expected = logits_of(config, weights, TOKENS)
    torch.testing.assert_close(network.model(TOKENS), expected, rtol=1e-4, atol=1e-4)

    verdicts = []
    for word in WORDS:
        ids = [0, *(NAMES.split().index(symbol) for symbol in word), 1]
        chances = logits_of(config, weights, torch.tensor([ids[:-1]]))[0].softmax(dim=-1)
        verdicts.append(bool((chances[range(len(word) + 1), ids[1:]] >= 0.1).all()))
        margins = chances[:, [1, 2, 3]].log() - np.log(0.1)
        np.testing.assert_allclose(network.margins([word]), margins, rtol=1e-3, atol=1e-3)
    assert network(WORDS).tolist() == verdicts
    assert set(verdicts) == {True, False}


@pytest.mark.parametrize("name", ["model.safetensors", "weights.pth"])
def test_weights_have_three_endings(name: str, hooked: Path, tmp_path: Path) -> None:
    config = config_of(SHAPE)
    other = read(saved(config, weights_of(config), tmp_path / "network", name), ASKED, CPU)
    network = read(hooked, ASKED, CPU)
    assert torch.equal(other.model(TOKENS), network.model(TOKENS))
    assert other.digest != network.digest  # the name counts, as in every folder


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict"])
def test_weights_may_lie_in_a_checkpoint(key: str, hooked: Path, tmp_path: Path) -> None:
    folder = changed(hooked, tmp_path, lambda f: torch.save({key: state(f), "step": 3}, f / FILE))
    assert torch.equal(
        read(folder, ASKED, CPU).model(TOKENS), read(hooked, ASKED, CPU).model(TOKENS)
    )


def test_numbers_of_half_the_size_are_read(hooked: Path, tmp_path: Path) -> None:
    def halved(folder: Path) -> None:
        put(folder, **{name: w.half() if w.is_floating_point() else w
                       for name, w in state(folder).items()})  # fmt: skip

    half = read(changed(hooked, tmp_path, halved), ASKED, CPU).model(TOKENS)
    whole = read(hooked, ASKED, CPU).model(TOKENS)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, whole, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("positions", ["standard", "rotary"])
@pytest.mark.parametrize("norm", ["LN", "RMS", None])
def test_what_the_refusals_say_to_write_is_read(
    positions: str, norm: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a network of TransformerLens 4, with the lines that the refusals name."""
    sizes = {"d_model": 16, "d_head": 8, "n_layers": 2, "n_ctx": CONTEXT, "d_vocab": 4}
    config = TransformerBridgeConfig(
        **sizes, normalization_type=norm, positional_embedding_type=positions, seed=3
    )
    model = boot(config)
    with torch.no_grad():
        for number, (name, weight) in enumerate(model.state_dict().items()):
            if name.endswith("bias"):
                weight += 0.1 * number
    monkeypatch.chdir(tmp_path)
    exec(lens_folder.WRITE_CONFIG, {"Path": Path, "json": json, "model": model})
    exec("torch.save(model.state_dict(), 'model.pt')", {"torch": torch, "model": model})
    assert torch.equal(read(tmp_path, ASKED, CPU).model(TOKENS), model(TOKENS))
    torch.save(model.tl_parameters(), FILE)  # the names of HookedTransformer, not its positions
    assert torch.equal(read(tmp_path, ASKED, CPU).model(TOKENS), model(TOKENS))


def test_random_weights_are_others_and_hang_on_the_seed(hooked: Path) -> None:
    """Also where the configuration names a seed."""
    network = read(hooked, ASKED, CPU)
    first, again, other = (network.untaught(seed).model(TOKENS) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, network.model(TOKENS))


def test_a_tokenizer_of_the_folder_is_read(hooked: Path, tmp_path: Path) -> None:
    folder = changed(hooked, tmp_path, lambda f: listed(NAMES.split(), 4).save_pretrained(f))
    network = read(folder, Asked(reads="softmax"), CPU)
    assert (network.symbols, network.begin, network.end) == (("a", "b"), ("<bos>", 0), ("<eos>", 1))


def test_no_network_is_reached(hooked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration names the tokenizer of GPT-2."""

    def refused(*args: object) -> None:
        raise AssertionError(f"a connection was opened: {args}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert config_of(SHAPE)["tokenizer_name"] == "gpt2"
    assert read(hooked, ASKED, CPU).room == CONTEXT - 1


# -- folders that are odd -------------------------------------------------------------------------

CONFIG, FILE = "config.json", "model.pt"


class Evil:
    """What a pickle may do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was-run",)


def changed(folder: Path, where: Path, change: Callable[[Path], object]) -> Path:
    copy = Path(shutil.copytree(folder, where / "copy"))
    change(copy)
    return copy


def state(folder: Path) -> dict[str, Tensor]:
    return dict(torch.load(folder / FILE, weights_only=True))


def put(folder: Path, **weights: Any) -> None:
    """Changes weights; None removes them."""
    changed = state(folder) | weights
    torch.save({name: w for name, w in changed.items() if w is not None}, folder / FILE)


def edit(folder: Path, **values: Any) -> None:
    content = json.loads((folder / CONFIG).read_text()) | values
    (folder / CONFIG).write_text(json.dumps(content))


def without(folder: Path, key: str) -> None:
    content = json.loads((folder / CONFIG).read_text())
    del content[key]
    (folder / CONFIG).write_text(json.dumps(content))


def packed(folder: Path) -> None:
    """300 MiB of nothing in a file of 300 KB."""
    path = folder / FILE
    parts = {part: zipfile.ZipFile(path).read(part) for part in zipfile.ZipFile(path).namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.writestr("model/more", bytes(300 * 2**20))


def biased_gate(folder: Path) -> None:
    config = config_of("gated")
    weights = weights_of(config)
    weights["blocks.1.mlp.b_out"] += 1
    saved(config, weights, folder)


def moved(folder: Path) -> None:
    (folder / FILE).unlink()


def fifo(folder: Path) -> None:
    moved(folder)
    os.mkfifo(folder / FILE)


W_Q, W_IN = "blocks.0.attn.W_Q", "blocks.0.mlp.W_in"
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / CONFIG).unlink(), r"config.json .*json.dumps\(model.cfg.to_dict"),
    "no object": (lambda f: (f / CONFIG).write_text("[]"), r"no JSON object: .*json.dumps\(model"),
    "no kind": (lambda f: without(f, "d_head"), r"model_type None.*json.dumps\(model.cfg"),
    "code": (lambda f: edit(f, auto_map={"A": "b.C"}), "code of its own"),
    "no context": (lambda f: without(f, "n_ctx"), "n_ctx is None, and it is a whole number from 4"),
    "a text": (lambda f: edit(f, d_model="16"), "d_model is '16', and it is a whole number"),
    "no words": (lambda f: edit(f, d_vocab=0), "d_vocab is 0"),
    "too deep": (lambda f: edit(f, n_layers=2000), "2000 layers: choose one with 1000"),
    "far too deep": (lambda f: edit(f, n_layers=10**30), "n_layers is 1000"),
    "too long": (lambda f: edit(f, n_ctx=10**7), "takes about .* GiB"),
    "too many heads": (lambda f: edit(f, n_heads=10**9), "takes about .* GiB"),
    "no heads": (lambda f: edit(f, n_heads=-2), "cannot be read by TransformerLens .it is damaged"),
    "a text for heads": (lambda f: edit(f, n_heads="x"), "cannot be read by TransformerLens"),
    "no width": (lambda f: edit(f, d_mlp=10**30), "cannot be read by TransformerLens"),
    "unknown act": (lambda f: edit(f, act_fn="x\n"), r"Unsupported act_fn='x\\n'\. Supported: "),
    "alibi": (lambda f: edit(f, positional_embedding_type="alibi"), "Unsupported positional_em"),
    "unscaled": (lambda f: edit(f, use_attn_scale=False), "'use_attn_scale' is False, and Transf"),
    "local": (lambda f: edit(f, use_local_attn=True), "'use_local_attn' is True, and TransformerL"),
    "parallel": (lambda f: edit(f, parallel_attn_mlp=True), "'parallel_attn_mlp' is True, and"),
    "odd flag": (lambda f: edit(f, **{"a\nb": True}), r"'a\\nb' is True, and TransformerLens"),
    "experts": (lambda f: edit(f, num_experts=4), "'num_experts' is 4, and TransformerLens"),
    "of transformers": (lambda f: edit(f, architecture="GPT2LMHeadModel"), "is 'GPT2LMHeadModel',"),
    "other words": (lambda f: edit(f, d_vocab_out=3), "'d_vocab_out' is 3, and TransformerLens"),
    "both ways": (lambda f: edit(f, attention_dir="bidirectional"), "is 'bidirectional', and"),
    "unknown draw": (lambda f: edit(f, init_mode="muP"), "init_mode='mup' is not supported"),
    "odd eps": (lambda f: edit(f, eps="x"), "network cannot be read by TransformerLens"),
    "no weights": (moved, "has 0 files of weights: give it one"),
    "two weights": (lambda f: shutil.copy(f / FILE, f / "x.pth"), "has 2 files of weights"),
    "no file": (fifo, "model.pt is not a plain file"),
    "empty": (lambda f: (f / FILE).write_bytes(b""), "weights cannot be read by TransformerLens"),
    "cut": (lambda f: (f / FILE).write_bytes((f / FILE).read_bytes()[:5000]), "cannot be read by"),
    "a module": (lambda f: torch.save(nn.Linear(2, 2), f / FILE),
                 r"more than tensors, .* `torch.save\(model.state_dict\(\), 'model.pt'\)`"),
    "evil": (lambda f: torch.save({W_Q: Evil()}, f / FILE), "more than tensors"),
    "a list": (lambda f: torch.save([1], f / FILE), "no state dict: write it with `torch.save"),
    "no tensors": (lambda f: put(f, x=3), "is no state dict"),
    "whole numbers": (lambda f: put(f, x=torch.ones(3, dtype=torch.int)), "is no state dict"),
    "missing": (lambda f: put(f, **{W_Q: None}), "lacks the weights blocks.0.attn.q.weight: save"),
    "a layer more": (lambda f: edit(f, n_layers=3), "lacks the weights blocks.2.attn.k.bias: save"),
    "a layer less": (lambda f: edit(f, n_layers=1), "weights 'blocks.1.attn.k.bias', and config"),
    "further": (lambda f: put(f, odd=torch.ones(3)), "don't know how to convert key 'odd'"),
    "other heads": (lambda f: edit(f, n_heads=4, d_head=4), r"W_Q' has shape \(2, 16, 8\), exp"),
    "other shape": (lambda f: edit(f, d_mlp=25), r"mlp.in.bias have the shape \[24\], and config"),
    "biases of a gate": (biased_gate, "has the weights 'blocks.1.mlp.out.bias', and config.json"),
    "no number": (lambda f: put(f, **{"pos_embed.W_pos": torch.full((CONTEXT, 16), torch.nan)}),
                  "answers with no numbers: its weights are damaged"),
    "expanded": (lambda f: put(f, **{W_IN: torch.ones(1).expand(10**6, 10**6)}),
                 r"has 1\d{12} numbers, and config.json asks for"),
    "packed": (packed, r"has weights of 0\.3 GiB for a network of at most 0\.0: save it anew$"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line(
    fault: str,
    hooked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change, said = FAULTS[fault]
    folder, out = changed(hooked, tmp_path, change), tmp_path / "out"
    monkeypatch.chdir(tmp_path)
    words = ["rule", "--model", str(folder), "--out", str(out), "--vocabulary", NAMES]
    assert main(words) == 2
    found = capsys.readouterr()
    assert not found.out
    assert len(found.err.splitlines()) == 1
    assert re.search(said, found.err), found.err
    assert not out.exists()
    assert not (tmp_path / "was-run").exists()


def test_names_of_tokens_are_asked_for(hooked: Path) -> None:
    with pytest.raises(UserError, match="has no tokenizer: name the network's 4 tokens in the ord"):
        read(hooked, Asked(), CPU)
