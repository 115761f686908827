"""Dials: they make a planted network hard to read, and leave its verdicts as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.plants.compiler import Plan
from models.plants.program import Program, Select, Steps, Variable
from models.plants.settings import Dials
from models.transformer.attention import Attention, bias_of
from models.transformer.mlp import MLP
from models.transformer.model import HookedTransformer

JUNK = 4
"""Dimensions of the stream into which idle parts write; nothing reads them but other idle parts."""
UNITS = 4
"""Hidden units of an idle piece of an MLP."""


# -- idle parts -----------------------------------------------------------------------------------


@torch.no_grad()
def add_decoys(
    model: HookedTransformer, plan: Plan, dials: Dials, junk: slice, generator: torch.Generator
) -> frozenset[tuple[int, int]]:
    """Gives all heads that have nothing to do random weights, and each MLP its idle units.

    Args:
        junk: the dimensions of the stream that are theirs.

    Returns:
        (layer, head) of those that cancel.
    """
    cancel: set[tuple[int, int]] = set()

    def draw(shape: tuple[int, ...] | torch.Size, size: float = 1.0) -> Tensor:
        return size * torch.randn(shape, generator=generator)

    for layer, block in enumerate(model.blocks):
        attn, mlp = block.attn, block.mlp
        assert isinstance(attn, Attention)
        assert isinstance(mlp, MLP)
        idle = [head for head in range(attn.n_heads) if (layer, head) not in plan.heads]
        for head in idle:
            for weight in (attn.W_Q, attn.W_K, attn.W_V):
                weight[head] = draw(weight[head].shape, attn.d_head**-0.5)
                weight[head, junk.stop :] = 0  # the constant of a norm is large
            attn.W_O[head][:, junk] = draw((attn.d_value, junk.stop - junk.start), 0.5)
        if dials.cancelling:
            first, second = idle[:2]
            for weight in (attn.W_Q, attn.W_K, attn.W_V):
                weight[second] = weight[first]
            attn.W_O[first] = draw(attn.W_O[first].shape, 0.5)
            attn.W_O[second] = -attn.W_O[first]
            cancel |= {(layer, first), (layer, second)}
        if dials.decoys:
            units = slice(mlp.W_in.shape[1] - UNITS, None)
            mlp.W_in[: junk.stop, units] = draw(mlp.W_in[: junk.stop, units].shape, 0.5)
            mlp.W_out[units, junk] = draw((UNITS, junk.stop - junk.start), 0.5)
    return frozenset(cancel)


# -- another stream -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stream:
    """The layout of features in the stream of the network that comes out.

    Attributes:
        write: a direction for each feature.
        read: the map that gets each feature out again, as far as it can be.
    """

    write: Float[Tensor, "feature d_model"]
    read: Float[Tensor, "d_model feature"]


def stream_of(
    size: int, program: Program, plan: Plan, dials: Dials, generator: torch.Generator
) -> _Stream:
    """The directions of ``size`` features, by the dials.

    Values of categories share directions, as far as errors of reading do nothing: where an MLP
    looks for a combination, or a head for a single key. Numbers, on which thresholds are set, and
    what heads compare to find many keys alike, keep directions at right angles to everything.
    """
    write = torch.eye(size, dtype=torch.float64)
    values = _values_that_share(program, plan) if dials.superposed else []
    if values:
        rest = [index for index in range(size) if index not in values]
        rank = min(len(values) - 1, max(1, round((1 - dials.superposed) * len(values))))
        packed = torch.randn(len(values), rank, generator=generator, dtype=torch.float64)
        packed, _ = torch.linalg.qr(packed)  # orthonormal columns: a projection
        write = torch.zeros(size, len(rest) + rank, dtype=torch.float64)
        write[rest, torch.arange(len(rest))] = 1
        write[values, len(rest) :] = packed / packed.norm(dim=1, keepdim=True)
    if dials.rotate:
        width = write.shape[1]
        turn = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
        write = write @ turn[0]
    read = torch.linalg.pinv(write)
    through = (write @ read).diagonal()
    return _Stream(write, read / through)


def _values_that_share(program: Program, plan: Plan) -> list[int]:
    alone = set[Variable]()
    for variable in program.variables:
        if isinstance(variable, Steps):
            alone |= set(variable.reads)
        elif isinstance(variable, Select):
            many = variable.match is not None and variable.match.sum(axis=0).max() > 1
            alone |= set(variable.reads) if many or variable.size == 1 else set()
    return [
        index
        for variable, dims in plan.dims.items()
        if dims.stop - dims.start > 1 and variable not in alone
        for index in range(dims.start, dims.stop)
    ]


@torch.no_grad()
def restreamed(model: HookedTransformer, stream: _Stream, norm: float = 0.0) -> HookedTransformer:
    """The same network with its features in another stream.

    Args:
        norm: the size of a constant that keeps RMSNorm steady; 0 leaves the norm out. The stream's
            last feature is then this constant.
    """
    width = stream.write.shape[1]
    config = replace(
        model.config, d_model=width, norm="rms" if norm else "none", head_width=model.config.d_head
    )
    copy = HookedTransformer(config, model.vocabulary).eval()
    write, read = stream.write.float(), stream.read.float()
    copy.embed.weight.copy_(model.embed.weight @ write)
    if model.pos_embed is not None:
        assert copy.pos_embed is not None
        copy.pos_embed.weight.copy_(model.pos_embed.weight @ write)
    if norm:
        copy.embed.weight.add_(norm * write[-1])
    scale = norm / width**0.5 if norm else 1.0
    for layer in range(config.n_layers):
        for reads in ("attn.q", "attn.k", "attn.v", "mlp.fc_in"):
            old, new = (_linear(net, f"blocks.{layer}.{reads}") for net in (model, copy))
            new.weight.copy_(old.weight @ read.T)
            bias_of(new).copy_(bias_of(old))
        for writes in ("attn.o", "mlp.fc_out"):
            old, new = (_linear(net, f"blocks.{layer}.{writes}") for net in (model, copy))
            new.weight.copy_(write.T @ old.weight)
            bias_of(new).copy_(bias_of(old) @ write)
        if norm:
            for name in ("ln1", "ln2"):
                copy.get_parameter(f"blocks.{layer}.{name}.weight").fill_(scale)
    copy.W_U.copy_(read @ model.W_U * scale)
    copy.b_U.copy_(model.b_U)
    return copy


def _linear(model: HookedTransformer, name: str) -> torch.nn.Linear:
    module = model.get_submodule(name)
    assert isinstance(module, torch.nn.Linear)
    return module


@torch.no_grad()
def add_noise(model: HookedTransformer, noise: float, generator: torch.Generator) -> None:
    """Adds Gaussian noise to every weight and bias but those of the unembedding.

    Args:
        noise: the noise as a share of the mean size of the weights, for each head and hidden unit
            by itself. Where all are zero, as the queries of a head that attends evenly, it is a
            share of 1.
    """

    def add(weight: Tensor) -> None:
        used = weight[weight != 0].abs()
        size = noise * (float(used.mean()) if len(used) else 1.0)
        weight.add_(size * torch.randn(weight.shape, generator=generator))

    add(model.embed.weight)
    for block in model.blocks:
        attn, mlp = block.attn, block.mlp
        assert isinstance(attn, Attention)
        assert isinstance(mlp, MLP)
        for head in range(attn.n_heads):
            for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O):
                add(weight[head])
        for unit in range(mlp.W_in.shape[1]):
            add(mlp.W_in[:, unit])
            add(mlp.W_out[unit])
