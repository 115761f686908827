"""Floating-point operations of a forward pass, part by part, by formula."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name

from models.model_config import ModelConfig
from models.transformer.linear import CHUNK


@dataclass(frozen=True)
class Work:
    """A part of the forward pass: the work of some modules, less that of some modules inside them.

    Attributes:
        name: the name of the part.
        order: the growth of its work with the number of positions and the sizes, in O notation.
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


def operations(config: ModelConfig, d_vocab: int) -> list[Work]:
    """The parts with matrix products; norms, sums, activations and the softmax are left out. Empty
    where the family has no formula for them."""
    path = config.family.operations_path
    return resolve_name(path)(config, d_vocab) if path else []


def of_transformer(config: ModelConfig, d_vocab: int) -> list[Work]:
    """Attention and MLPs: ``Family.operations_path``."""
    inner, looks, names = (
        config.n_heads * config.d_value,
        config.learned_heads * config.d_head,
        "qkvo",
    )
    if config.scores == "identity":
        looks, names = 0, "vo"
    linear = 4 * config.d_model * (inner + looks) * config.n_layers
    attn = _in_blocks(config, "attn")
    maps = tuple(f"{module}.{name}" for module in attn for name in names)
    parts = [Work(f"attention: {', '.join(names)}", "O(N D²)", linear, 0, maps)]
    heads, keys, values = config.n_heads * config.n_layers, config.d_head, config.d_value
    if config.scores == "linear":
        near = 0 if config.sees_ahead else CHUNK  # keys that a query meets one by one
        values += near > 0  # the sum of the weights is one value more
        flops = 2 * heads * (near * (keys + values) + 2 * keys * values)
        sums = Work("attention: sums", "O(N D²/H)", flops, 0, attn, maps, max(1, near))
        parts.append(sums)
    else:
        pairs = 2 * heads * (keys + values)
        parts.append(Work("attention: pairs", "O(N² D)", 0, pairs, attn, maps))
    if config.mlp != "none":
        matrices = 3 if config.mlp == "gated" else 2
        flops = 2 * matrices * config.d_model * config.d_mlp * config.n_layers
        parts.append(Work("MLP", "O(N D²)", flops, 0, _in_blocks(config, "mlp")))
    return [*parts, _unembedding(config, d_vocab)]


def of_recurrence(config: ModelConfig, d_vocab: int) -> list[Work]:
    """States that go from position to position: ``Family.operations_path``."""
    maps = sum(box.maps for box in config.family.boxes)
    flops = 4 * maps * config.d_model**2 * config.n_layers
    recurrence = Work("recurrence", "O(N D²)", flops, 0, _in_blocks(config))
    return [recurrence, _unembedding(config, d_vocab)]


def of_convolution(config: ModelConfig, d_vocab: int) -> list[Work]:
    """Kernels and the maps after them: ``Family.operations_path``."""
    square = 2 * config.d_model**2 * config.n_layers
    kernels, outs = _in_blocks(config, "conv.kernel"), _in_blocks(config, "conv.out")
    return [
        Work("convolution", "O(k N D²)", config.kernel_size * square, 0, kernels),
        Work("W_out", "O(N D²)", square, 0, outs),
        _unembedding(config, d_vocab),
    ]


def of_whole(config: ModelConfig, d_vocab: int) -> list[Work]:
    """A feedforward network reads every symbol once, and nothing at BOS."""
    ends = 2 * d_vocab * config.d_mlp  # of one symbol at the input, of all tokens at the output
    inside = 2 * (config.n_layers - 1) * config.d_mlp**2
    blocks = _in_blocks(config)
    return [
        Work("hidden layers", "O(N V D + D²)", ends, 0, blocks, constant=inside - ends),
        Work("unembedding", "O(D V)", 0, 0, ("unembed",), constant=ends),
    ]


def _unembedding(config: ModelConfig, d_vocab: int) -> Work:
    return Work("unembedding", "O(N D V)", 2 * config.d_model * d_vocab, 0, ("unembed",))


def _in_blocks(config: ModelConfig, module: str = "") -> tuple[str, ...]:
    """The names of a module in all blocks; of the blocks themselves by default."""
    names = (f"blocks.{layer}.{module}" for layer in range(config.n_layers))
    return tuple(name.rstrip(".") for name in names)
