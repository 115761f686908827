"""Requirements of the lenses on a model, and how they read its activations.

All lenses take a ``HookedModel``: our models, a ``TransformerBridge``, or anything else with the
hooks that a lens reads. Where a lens asks for more, its argument has one of the other types. A
model that lacks something gets a ValueError of one line that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import TypeIs, get_protocol_members, is_protocol


class _Parts(type(Protocol)):  # type: ignore[misc]  # its name differs between Pythons
    """Asks a model for its parts, of which torch keeps the modules and weights out of sight: from
    Python 3.12 on ``isinstance`` would see none of them."""

    def __instancecheck__(cls, instance: object) -> bool:
        if not is_protocol(cls):
            return bool(super().__instancecheck__(instance))
        return all(hasattr(instance, name) for name in get_protocol_members(cls))


@runtime_checkable
class HookedModel(Protocol, metaclass=_Parts):
    """TransformerLens' hook interface.

    The lenses read n_layers, n_heads, d_model, d_mlp, d_vocab and attention_dir of ``cfg``. If it
    has them, they also read n_key_value_heads (grouped queries), parallel_attn_mlp,
    positional_embedding_type ("rotary") and output_logits_soft_cap. A forward pass takes tokens,
    [batch, pos], and gives logits, [batch, pos, d_vocab]. The hooks have TransformerLens' names,
    such as "blocks.0.hook_resid_pre" and "blocks.0.attn.hook_z".
    """

    @property
    def cfg(self) -> Any: ...

    @property
    def hook_dict(self) -> Any: ...

    def __call__(self, tokens: Tensor) -> Tensor: ...

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any: ...

    def run_with_cache(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class ReadableModel(HookedModel, Protocol):
    """A hooked model of which the weights are read too: those of its blocks and the unembedding.

    Direct logit attribution reads ``attn.W_O`` and ``attn.b_O`` of each block. Edges and circuits
    also read ``attn.W_Q``, ``W_K``, ``W_V`` and their biases, and call ``ln1``, ``ln2`` and
    ``mlp``: they need pre-norm blocks. A bias that is None or lacking is none. With grouped queries
    ``W_K`` and ``W_V`` have a row per group. If attention and MLP are parallel, ``ln2`` may lack:
    the MLP then reads what ``ln1`` gives.

    If any norm but ``ln_final`` stands between a part and the logits, the model needs a method
    ``norms_on_the_way(layer, part)``. It names all norms on that way in order, for the parts
    "embed", "attn" and "mlp". It returns None where there is no such way, as without a residual.
    """

    @property
    def blocks(self) -> Any: ...

    def hooks(self, *args: Any, **kwargs: Any) -> Any: ...

    def get_submodule(self, target: str) -> Any: ...

    @property
    def W_U(self) -> Tensor: ...

    @property
    def b_U(self) -> Tensor: ...


@runtime_checkable
class CircuitModel(ReadableModel, Protocol):
    """A readable model that begins with an embedding."""

    @property
    def W_E(self) -> Tensor: ...


@runtime_checkable
class Recording(Protocol):
    """One run of a batch: what enters each block, the keys and values it reads, and the logits."""

    @property
    def streams(self) -> Sequence[Float[Tensor, "batch pos d_model"]]: ...

    @property
    def memory(self) -> Sequence[tuple[Tensor, Tensor]]: ...

    @property
    def logits(self) -> Float[Tensor, "batch pos d_vocab"]: ...


@runtime_checkable
class ResumableModel(HookedModel, Protocol):
    """A Transformer that computes only what changes in a run, not the whole of it.

    ``record(tokens)`` runs it and keeps what other runs start from. The other three methods take x,
    the stream before block ``layer`` at a window of positions ``first``, ``first`` + 1, ...; the
    recording has the other positions. The rows of x are copies of the recorded batch. ``resume``
    computes the logits. ``reread`` computes one block that reads other keys and values. Both also
    return the first position at which their output may differ. ``local`` computes one block on the
    window alone, with the recorded keys and values. With ``last_alone`` only the last position of
    the last block is computed.
    """

    def hooks(self, *args: Any, **kwargs: Any) -> Any: ...

    def record(self, tokens: Tensor) -> Recording: ...

    def resume(
        self, recording: Any, layer: int, x: Tensor, first: int, last_alone: bool = False
    ) -> tuple[Tensor, int]: ...

    def reread(
        self,
        recording: Any,
        layer: int,
        memory: tuple[Tensor, Tensor],
        x: Tensor,
        first: int,
        last_alone: bool = False,
    ) -> tuple[Tensor, int]: ...

    def local(self, recording: Any, layer: int, x: Tensor, first: int) -> Tensor: ...


def one_stream(model: HookedModel) -> bool:
    """Do all heads read the stream that they write to? Cross-attention reads another one."""
    return not any(".cross_attn." in name for name in model.hook_dict)


def has_residual(model: HookedModel) -> bool:
    """Does a block pass on what it reads, beside what its parts compute of it?"""
    named = getattr(model, "norms_on_the_way", None)
    return named is None or named(0, "embed") is not None


def require_hooks(model: HookedModel, *names: str) -> None:
    """Raises ValueError if the model lacks one of these hooks, which a lens reads or changes."""
    lacking = [name for name in names if name not in model.hook_dict]
    if lacking:
        raise ValueError(
            f"{type(model).__name__} has no {', '.join(lacking)}: use another lens, or give a "
            "model with these hooks of TransformerLens"
        )


def require_stream(model: HookedModel, *names: str) -> None:
    """Raises ValueError if a change at one of these hooks would not stay in the residual stream.

    In a ``TransformerBridge`` hook_resid_mid stands where the MLP's norm reads the stream. A change
    there reaches the MLP and nothing else.
    """
    require_hooks(model, *names)
    for name in names:
        called = getattr(model.hook_dict[name], "name", name)
        if name.endswith("hook_resid_mid") and called != name:
            raise ValueError(
                f"{name} of {type(model).__name__} is {called}, which the MLP alone reads: change "
                "the stream at hook_resid_pre or hook_resid_post, or change hook_attn_out"
            )


def is_readable(model: object) -> TypeIs[ReadableModel]:
    """Has the model all that a ``ReadableModel`` has?"""
    return not _lacking(model, ReadableModel)


def is_resumable(model: object) -> TypeIs[ResumableModel]:
    """Has the model all that a ``ResumableModel`` has?"""
    return not _lacking(model, ResumableModel)


def require(model: object, protocol: type[Any]) -> None:
    """Raises ValueError if the model lacks something that a protocol of this file names."""
    if lacking := _lacking(model, protocol):
        raise ValueError(
            f"{type(model).__name__} is no {protocol.__name__}, it lacks {', '.join(lacking)}: use "
            "another lens, or give the model properties with these names"
        )


def _lacking(model: object, protocol: type[Any]) -> list[str]:
    """The names in a protocol that a model has not.

    ``isinstance`` of a protocol does not see submodules from Python 3.12 on: it looks attributes up
    without ``__getattr__``, and there PyTorch keeps them.
    """
    return [name for name in dir(protocol) if name[0] != "_" and not hasattr(model, name)]


SITES: Mapping[str, str] = {
    "attn_out": "hook_attn_out",
    "resid_mid": "hook_resid_mid",
    "mlp_post": "mlp.hook_post",
    "mlp_out": "hook_mlp_out",
    "conv_post": "conv.hook_post",
    "conv_out": "hook_conv_out",
    "cell": "hook_cell",
    "resid_post": "hook_resid_post",
}
"""The hooks in a layer by what they show, in the order of computation."""
STREAM = ("resid_mid", "cell", "resid_post")
"""The parts that are passed on: the residual stream, and the cells of an LSTM."""


def sites_of(
    model: HookedModel, parts: Iterable[str] = STREAM, embedding: str = "blocks.0.hook_resid_pre"
) -> dict[str, str]:
    """The hooks "embed", "L0 resid_post" and so on, in the order of computation.

    Args:
        parts: some of ``SITES``, in their order. The model may lack some.
        embedding: the hook called "embed".
    """
    hooks = {"embed": embedding}
    for layer in range(model.cfg.n_layers):
        hooks |= {f"L{layer} {part}": f"blocks.{layer}.{SITES[part]}" for part in parts}
    return {label: hook for label, hook in hooks.items() if hook in model.hook_dict}


@torch.no_grad()
def activations(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    names: Sequence[str],
    batch_size: int = 256,
) -> dict[str, Tensor]:
    """Runs the model and keeps the activations at the named hooks, and no others.

    Args:
        names: names of the hooks.
        batch_size: the most words in one forward pass.

    Returns:
        By hook name, its activations on the CPU, [batch, ...].

    Raises:
        ValueError: the model lacks one of the hooks, or an activation is NaN or infinite.
    """
    require_hooks(model, *names)
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    for chunk in tokens.split(batch_size):
        _, cache = model.run_with_cache(chunk, names_filter=list(names))
        for name in names:
            parts[name].append(cache[name].cpu())
    whole = {name: torch.cat(part) for name, part in parts.items()}
    for name, values in whole.items():
        if not name.endswith(SCORES):
            require_finite(values, name)
    return whole


SCORES = "hook_attn_scores"
"""Scores of keys that are out of sight are minus infinity."""


def require_finite(values: Tensor | np.ndarray, what: str) -> None:
    """Raises ValueError if some values are NaN or infinite: no lens could say anything of them.

    Args:
        what: the site or the numbers, for the error.
    """
    finite = torch.isfinite(values) if isinstance(values, Tensor) else np.isfinite(values)
    if wrong := int((~finite).sum()):
        count = prod(values.shape)
        raise ValueError(f"{what}: {wrong} of {count} numbers are NaN or infinite")
