"""The size of a model of any shape, without building it: its weights, and what attention holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from models.languages import Vocabulary
from models.model_config import ModelConfig

FLOAT = 4
"""Bytes of a number in float32."""
HEADS = ("q", "k", "v")
"""Maps that hold one matrix for each head."""


@dataclass(frozen=True)
class _Part:
    """One tensor of a model; those of one layer stand for all layers.

    Attributes:
        part: its name, such as "blocks.{layer}.attn.q.weight".
        shape: the shape of one of them, such as "64 x 64".
        layers: the number of them.
        matrices: the number of matrices in all layers together; queries, keys and values have one
            for each head, and what is no matrix has none.
        weights: the number of weights in all layers together.
    """

    part: str
    shape: str
    layers: int
    matrices: int
    weights: int


def parts_of(config: ModelConfig, tokens: int) -> list[_Part]:
    """The parts of a model.

    Args:
        tokens: the number of tokens of the vocabulary, BOS and END among them.
    """
    vocabulary = Vocabulary(tuple(f"token{i}" for i in range(tokens - 2)))
    layers = 1 if config.family.tabular else config.n_layers
    pair, encoders = config.family.two_sided, config.encoder_layers
    kinds = {"blocks.0.": "encoder", "blocks.1.": "decoder"} if pair else {"blocks.0.": "layer"}
    counts = {"encoder": encoders, "decoder": layers - encoders, "layer": layers}
    if config.family.whole and layers > 1:  # the first reads symbols, the others hidden layers
        kinds = {"blocks.0.": "first", "blocks.1.": "later"}
        counts = {"first": 1, "later": layers - 1}
    with torch.device("meta"):  # where a tensor has a shape and takes no memory
        model = config.family.model(replace(config, n_layers=len(kinds)), vocabulary, 0)
    parts = []
    for name, weight in model.state_dict().items():
        kind = kinds.get(name[: len("blocks.0.")])
        count = counts[kind] if kind else 1
        one_head = re.search(rf"attn\.[{''.join(HEADS)}]\.weight$", name) is not None
        width = config.d_value if name.endswith("v.weight") else config.d_head
        heads = weight.shape[0] // width if one_head else 1
        parts.append(
            _Part(
                re.sub(r"^blocks\.\d\.", f"blocks.{{{kind}}}.", name),
                " x ".join(map(str, weight.shape)),
                count,
                count * heads if weight.ndim > 1 else 0,
                count * weight.numel(),
            )
        )
    return parts


def _attention_bytes(config: ModelConfig, positions: int) -> int:
    """Bytes of one word's attention patterns in float32, all heads of all layers together.

    They are N x N numbers for each head. PyTorch's fused attention never holds them whole; a lens
    that looks at patterns does.
    """
    return FLOAT * positions**2 * _patterns_of(config)


def _patterns_of(config: ModelConfig) -> int:
    """The number of matrices of attention: a decoder's block of two sides has those of
    cross-attention too."""
    if not config.family.attends:
        return 0
    across = config.n_layers - config.encoder_layers if config.family.two_sided else 0
    return config.n_heads * (config.n_layers + across)


def _as_bytes(size: int) -> str:
    """A number of bytes in the largest unit of which there is one at least."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(max(size.bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{size / 1024**power:,.6g} {units[power]}"


def in_words(parts: Sequence[_Part], config: ModelConfig, positions: int) -> str:
    """A summary of the parts: weights, matrices and bytes."""
    whole = sum(part.weights for part in parts)
    if config.family.tabular:
        return f"{whole:,} counts."
    matrices = [part for part in parts if part.matrices]
    text = (
        f"{whole:,} weights, {sum(part.weights for part in matrices):,} of them in "
        f"{sum(part.matrices for part in matrices):,} matrices: {_as_bytes(FLOAT * whole)} in "
        "float32, and four times as much in training with Adam."
    )
    if config.family.attends:
        text += (
            f" The attention patterns of a word of {positions:,} tokens are "
            f"{_patterns_of(config):,} matrices of {positions:,} x {positions:,}: "
            f"{_as_bytes(_attention_bytes(config, positions))}."
        )
    return text
