"""Sizes against built models, and against the figures that the lectures print."""

from __future__ import annotations

import json

import pytest
import torch

from analyses.command_line.app import main
from models.base import build
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.sizes import _as_bytes, _attention_bytes, in_words, parts_of

SHAPES = {
    "plain": ModelConfig(),
    "large": ModelConfig(n_layers=5, n_heads=3, d_model=24, head_width=7, d_mlp=10),
    "gated": ModelConfig(mlp="gated", norm="rms", bias=False, positions="t5"),
    "additive": ModelConfig(
        scores="additive", positions="learned", n_ctx=30, norm_placement="post"
    ),
    "identity": ModelConfig(scores="identity", positions="concatenated", residual=False),
    "attention only": ModelConfig(mlp="none", n_layers=3, norm="none"),
    **{
        kind: ModelConfig(architecture=kind, n_layers=3)
        for kind in ("rnn", "lstm", "gru", "cnn", "ngram", "feedforward")
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_parts_add_up_to_the_model(name: str) -> None:
    config, vocabulary = SHAPES[name], Vocabulary(tuple("abcde"))
    weights = build(config, vocabulary).state_dict().values()
    parts = parts_of(config, len(vocabulary))
    assert sum(part.weights for part in parts) == sum(weight.numel() for weight in weights)
    assert sum(part.layers for part in parts) == len(weights)


def test_gpt_3() -> None:
    """175,181,291,520 weights in 27,938 matrices: of each layer 96 x 3 for heads, W_O and two of
    the MLP; and the embedding and the unembedding. The lecture counts no biases and no norms."""
    config = ModelConfig(
        n_layers=96, n_heads=96, d_model=12288, d_mlp=4 * 12288, bias=False, norm="none"
    )
    parts = parts_of(config, 50257)
    matrices = [part for part in parts if part.matrices]
    assert sum(part.weights for part in matrices) == 175_181_291_520
    assert sum(part.matrices for part in matrices) == 27_938
    assert 2 * 50257 * 12288 + 12 * 96 * 12288**2 == 175_181_291_520
    by_part = {part.part: part for part in parts}
    assert by_part["blocks.{layer}.attn.q.weight"].matrices == 96 * 96
    assert "175,181,291,520 of them in 27,938 matrices" in in_words(parts, config, 2048)


def test_attention_takes_much_memory() -> None:
    """An image of 128 x 128 points, 48 layers of 16 heads: 768 GiB. A matrix of a ViT with 196
    patches: 150 KiB."""
    image = ModelConfig(n_layers=48, n_heads=16)
    assert _attention_bytes(image, 128 * 128) == 768 * 2**30
    assert _as_bytes(_attention_bytes(image, 128 * 128)) == "768 GiB"
    one = ModelConfig(n_layers=1, n_heads=1)
    assert _attention_bytes(one, 196) == 153_664
    assert round(_attention_bytes(one, 196) / 1024) == 150


def test_patterns_take_what_the_formula_says() -> None:
    config = ModelConfig(n_layers=3, n_heads=4)
    model = build(config, Vocabulary(("a", "b")))
    tokens = torch.full((1, 17), 2)
    _, cache = model.run_with_cache(tokens, names_filter=lambda name: name.endswith("hook_pattern"))
    assert sum(pattern.nbytes for pattern in cache.values()) == _attention_bytes(config, 17)


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**50, "1 PiB")],
)
def test_bytes_are_told_in_the_largest_unit(size: int, told: str) -> None:
    assert _as_bytes(size) == told


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "size", "--model.n-layers", "3", "--tokens", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    model = build(ModelConfig(n_layers=3), Vocabulary(tuple("abcde")))
    whole = sum(weight.numel() for weight in model.parameters())
    assert sum(part["weights"] for part in said["parts"]) == whole
    assert said["answer"].startswith(f"{whole:,} weights")
    assert main(["show", "size", "--tokens", "2"]) == 2
    assert "tokens is 2: it must be at least 3" in capsys.readouterr().err
    assert main(["show", "size", "--model.architecture", "ngram"]) == 0
    assert "168 counts." in capsys.readouterr().out
