"""Floating-point operations of a forward pass, part by part, by formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from models.model_config import ModelConfig
from models.transformer.linear import CHUNK


@dataclass(frozen=True)
class Part:
    """A part of the forward pass: the work of some modules, less that of some modules inside them.

    Attributes:
        name: of the part.
        order: how its work grows with the number of positions and the sizes, in O notation.
        linear: floating-point operations per position, two for a multiplication with its addition.
        square: floating-point operations per pair of positions.
        constant: floating-point operations of a word, whatever its length.
        step: a part that works on so many positions together works on whole ones.
        modules: the modules that do the work.
        without: modules inside them that belong to other parts.
    """

    name: str
    order: str
    linear: int
    square: int
    modules: tuple[str, ...]
    without: tuple[str, ...] = ()
    step: int = 1
    constant: int = 0

    def flops(self, positions: int) -> int:
        """The floating-point operations of a word."""
        whole = -(-positions // self.step) * self.step
        return self.linear * whole + self.square * positions**2 + self.constant


def parts(config: ModelConfig, d_vocab: int) -> list[Part]:
    """The parts with matrix products; norms, sums, activations and the softmax are left out."""
    if config.family.tabular:
        return []
    if config.family.whole:
        return _of_whole(config, d_vocab)
    blocks = [f"blocks.{layer}" for layer in range(config.n_layers)]
    found = PARTS[config.family.name](config, blocks) if config.family.name in PARTS else []
    unembedding = 2 * config.d_model * d_vocab
    return [*found, Part("unembedding", "O(N D V)", unembedding, 0, ("unembed",))]


def _of_transformer(config: ModelConfig, blocks: Sequence[str]) -> list[Part]:
    inner, looks, names = (
        config.n_heads * config.d_value,
        config.learned_heads * config.d_head,
        "qkvo",
    )
    if config.scores == "identity":
        looks, names = 0, "vo"
    linear = 4 * config.d_model * (inner + looks) * len(blocks)
    maps = tuple(f"{block}.attn.{name}" for block in blocks for name in names)
    attn = tuple(f"{block}.attn" for block in blocks)
    found = [Part(f"attention: {', '.join(names)}", "O(N D²)", linear, 0, maps)]
    heads, keys, values = config.n_heads * len(blocks), config.d_head, config.d_value
    if config.scores == "linear":
        near = 0 if config.sees_ahead else CHUNK  # keys that a query meets one by one
        values += near > 0  # the sum of the weights is one value more
        flops = 2 * heads * (near * (keys + values) + 2 * keys * values)
        sums = Part("attention: sums", "O(N D²/H)", flops, 0, attn, maps, max(1, near))
        found.append(sums)
    else:
        pairs = 2 * heads * (keys + values)
        found.append(Part("attention: pairs", "O(N² D)", 0, pairs, attn, maps))
    if config.mlp != "none":
        matrices = 3 if config.mlp == "gated" else 2
        flops = 2 * matrices * config.d_model * config.d_mlp * len(blocks)
        mlps = tuple(f"{block}.mlp" for block in blocks)
        found.append(Part("MLP", "O(N D²)", flops, 0, mlps))
    return found


def _of_whole(config: ModelConfig, d_vocab: int) -> list[Part]:
    """A feedforward network reads every symbol once, and nothing at BOS."""
    ends = 2 * d_vocab * config.d_mlp  # of one symbol at the input, of all tokens at the output
    inside = 2 * (config.n_layers - 1) * config.d_mlp**2
    blocks = tuple(f"blocks.{layer}" for layer in range(config.n_layers))
    return [
        Part("hidden layers", "O(N V D + D²)", ends, 0, blocks, constant=inside - ends),
        Part("unembedding", "O(D V)", 0, 0, ("unembed",), constant=ends),
    ]


def _of_recurrence(gates: int, config: ModelConfig, blocks: Sequence[str]) -> list[Part]:
    flops = 4 * gates * config.d_model**2 * len(blocks)
    return [Part("recurrence", "O(N D²)", flops, 0, tuple(blocks))]


def _of_convolution(config: ModelConfig, blocks: Sequence[str]) -> list[Part]:
    square = 2 * config.d_model**2 * len(blocks)
    kernels = tuple(f"{block}.conv.kernel" for block in blocks)
    outs = tuple(f"{block}.conv.out" for block in blocks)
    return [
        Part("convolution", "O(k N D²)", config.kernel_size * square, 0, kernels),
        Part("W_out", "O(N D²)", square, 0, outs),
    ]


PARTS: dict[str, Callable[[ModelConfig, Sequence[str]], list[Part]]] = {
    "transformer": _of_transformer,
    "lstm": partial(_of_recurrence, 4),
    "gru": partial(_of_recurrence, 3),
    "rnn": partial(_of_recurrence, 1),
    "cnn": _of_convolution,
}
"""What the layers of a family do, by its name."""
