"""Activation patching: which activation carries the difference between two words?

A pair of words of equal length, clean and corrupted, differs in the behaviour that a metric
measures. One activation of the corrupted run is replaced by its value in the clean run; the effect
says how much of the difference came along:

    effect = (metric(patched) - metric(corrupted)) / (metric(clean) - metric(corrupted))

0: nothing happened; 1: the patched activation alone brings the clean behaviour back
(Meng et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.model import HookedModel, LogitAt, Metric, ResumableModel, activations

BY_POSITION = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell")
BY_HEAD_AND_POSITION = ("z", "q", "k", "v")
AFTER_MIXING = ("q", "z", "attn_out", "resid_mid", "mlp_out", "resid_post")
"""What, of the last block, reaches the logits of its own position alone."""

ENOUGH_ROWS = 128
"""Words that fill a forward pass: with more, only sites of one position share it."""


@dataclass(frozen=True)
class Site:
    """One activation: a hook, a position and, for what has heads, a head."""

    component: str
    layer: int
    position: int
    head: int | None = None

    @property
    def hook(self) -> str:
        inside = "attn." if self.component in BY_HEAD_AND_POSITION else ""
        return f"blocks.{self.layer}.{inside}hook_{self.component}"


def all_sites(model: HookedModel, component: str, positions: int) -> list[Site]:
    """Every site of a component, by layer, then head, then position.

    Raises:
        ValueError: the component is none of those that can be patched, or the model has none.
    """
    if component not in BY_POSITION + BY_HEAD_AND_POSITION:
        known = ", ".join(BY_POSITION + BY_HEAD_AND_POSITION)
        raise ValueError(f"unknown component {component!r}: use one of {known}")
    heads = range(model.cfg.n_heads) if component in BY_HEAD_AND_POSITION else [None]
    if Site(component, 0, 0).hook not in model.hook_dict:
        raise ValueError(f"this model has no {component}: leave it out")
    return [
        Site(component, layer, position, head)
        for layer in range(model.cfg.n_layers)
        for head in heads
        for position in range(positions)
    ]


@torch.no_grad()
def patch(
    model: HookedModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    metric: Metric,
    components: Sequence[str] = ("resid_pre", "z"),
    rows: int = 2048,
) -> pd.DataFrame:
    """Patches every site of the components, one at a time, for every pair.

    Many sites share one forward pass: each is a copy of the corrupted batch with its own activation
    replaced. Of a ``ResumableModel`` only what a site can change is computed: from its layer on
    and, under a causal mask, from its position on. A site that cannot change what the metric reads
    is not run at all: its effect is exactly 0.

    Args:
        clean, corrupted: token ids with BOS; row i of both is a pair.
        metric: as ``logit_at`` makes it, it says where it reads, which spares the rest.
        rows: the most words in one forward pass, which bounds the memory.

    Returns:
        One row per site and pair: component, layer, head (-1 where there is none), position, pair,
        metric, clean, corrupted (the two unpatched metrics) and effect. The effect is NaN where the
        model does not tell the two words apart (to float32's rounding).

    Raises:
        ValueError: the two batches differ in shape.
    """
    if clean.shape != corrupted.shape:
        raise ValueError(
            f"expected clean and corrupted of one shape, got {tuple(clean.shape)} and "
            f"{tuple(corrupted.shape)}: pair words of equal length"
        )
    sites = [site for c in components for site in all_sites(model, c, clean.shape[1])]
    sources = activations(model, clean, sorted({site.hook for site in sites}))
    clean_value, corrupted_value = metric(model(clean)), metric(model(corrupted))
    value = corrupted_value.expand(len(sites), -1).clone()
    idle = _without_effect(model, clean, corrupted, metric, sites)
    run = (
        _resumed(model, clean, corrupted)
        if isinstance(model, ResumableModel)
        else _tiled(model, corrupted)
    )
    for chunk in _chunks(sites, idle.all(dim=1).tolist(), max(1, rows // len(clean)), len(clean)):
        some = [sites[index] for index in chunk]
        source = sources[some[0].hook].to(corrupted.device)
        value[chunk] = _measured(metric, run(some, source, metric), len(some))
    value = torch.where(idle.to(value.device), corrupted_value, value)
    return _table(sites, *(v.cpu().numpy() for v in (value, clean_value, corrupted_value)))


def _without_effect(
    model: HookedModel, clean: Tensor, corrupted: Tensor, metric: Metric, sites: Sequence[Site]
) -> Bool[Tensor, "site pair"]:
    """True where a causal mask keeps a site from changing what the metric reads.

    Those are the sites before the first difference and those after the position that is read; and
    of attention's last layer those at another position, unless its keys and values carry them on.
    """
    if model.cfg.attention_dir != "causal":
        return torch.zeros(len(sites), len(clean), dtype=torch.bool)
    differs = (clean != corrupted).cpu()
    first = torch.where(differs.any(dim=1), differs.int().argmax(dim=1), clean.shape[1])
    position = torch.tensor([site.position for site in sites])[:, None]
    idle = position < first
    if isinstance(metric, LogitAt):
        read = _read(metric, clean.shape[1])
        last = model.cfg.n_layers - 1 if "blocks.0.attn.hook_z" in model.hook_dict else -1
        final = torch.tensor([s.layer == last and s.component in AFTER_MIXING for s in sites])
        idle = idle | (position > read) | (final[:, None] & (position != read))
    return idle


def _read(metric: LogitAt, positions: int) -> Int[Tensor, " pair"]:
    """Where the metric reads, one position for all pairs or one per pair."""
    at = torch.as_tensor(metric.positions).cpu().reshape(-1)
    return torch.where(at < 0, at + positions, at)


def _chunks(sites: Sequence[Site], idle: Sequence[bool], size: int, pairs: int) -> list[list[int]]:
    """Indices of the sites that one forward pass takes: of one hook, none more than ``size``, and
    not much further to the left than need be, as the leftmost says how much is computed."""
    order = [index for index in range(len(sites)) if not idle[index]]
    order.sort(key=lambda index: (sites[index].hook, sites[index].position))
    chunks: list[list[int]] = []
    for index in order:
        if chunks:
            last, before = chunks[-1], sites[chunks[-1][-1]]
            full = len(last) == size or (
                len(last) * pairs >= ENOUGH_ROWS and before.position != sites[index].position
            )
            if before.hook == sites[index].hook and not full:
                last.append(index)
                continue
        chunks.append([index])
    return chunks


def _measured(metric: Metric, logits: Tensor, copies: int) -> Float[Tensor, "site pair"]:
    """The metric of each copy of the batch."""
    pairs = len(logits) // copies
    if isinstance(metric, LogitAt):
        at = metric.positions
        repeated = at if isinstance(at, int) else at.repeat(copies)
        return replace(metric, positions=repeated)(logits).view(copies, pairs)
    return torch.stack([metric(copy) for copy in logits.view(copies, pairs, *logits.shape[1:])])


Run = Callable[[list[Site], Tensor, Metric], Float[Tensor, "row pos d_vocab"]]
"""Logits with each of the sites, all of one hook, patched in its own copy of the batch."""


def _replacement(sites: list[Site], source: Tensor, first: int) -> Callable[..., Tensor]:
    """Puts the source's activations into copies of the batch that begin at position ``first``."""
    copies = torch.arange(len(sites), device=source.device)
    position = torch.tensor([site.position for site in sites], device=source.device)

    def put(activation: Tensor, hook: object = None) -> Tensor:
        tiled = activation.view(len(sites), -1, *activation.shape[1:]).clone()
        if sites[0].head is None:
            tiled[copies, :, position - first] = source[:, position].transpose(0, 1)
        else:
            head = torch.tensor([site.head for site in sites], device=source.device)
            tiled[copies, :, position - first, head] = source[:, position, head].transpose(0, 1)
        return tiled.flatten(0, 1)

    return put


def _tiled(model: HookedModel, corrupted: Tensor) -> Run:
    """On any hooked model: whole forward passes."""

    def run(sites: list[Site], source: Tensor, metric: Metric) -> Tensor:
        hook = sites[0].hook, _replacement(sites, source, 0)
        return model.run_with_hooks(corrupted.repeat(len(sites), 1), fwd_hooks=[hook])

    return run


def _resumed(model: ResumableModel, clean: Tensor, corrupted: Tensor) -> Run:
    """On a model that goes on from a kept run: only what the sites can change."""
    source, kept = model.keep(clean), model.keep(corrupted)
    layers, positions = model.cfg.n_layers, corrupted.shape[1]

    def run(sites: list[Site], found: Tensor, metric: Metric) -> Tensor:
        component, layer, copies = sites[0].component, sites[0].layer, len(sites)
        first, last = sites[0].position, sites[-1].position
        if component == "resid_post" and layer < layers - 1:
            component, layer = "resid_pre", layer + 1
        alone = isinstance(metric, LogitAt) and bool(
            (_read(metric, positions) == positions - 1).all()
        )
        window = kept.streams[layer][:, first : last + 1].repeat(copies, 1, 1)
        if component == "resid_pre":
            window = _replacement(sites, found, first)(window)
        elif component in ("k", "v"):
            which = ("k", "v").index(component)
            memory = [old.repeat(copies, 1, 1, 1) for old in kept.memory[layer]]
            put = _replacement(sites, source.memory[layer][which].transpose(1, 2), 0)
            memory[which] = put(memory[which].transpose(1, 2)).transpose(1, 2)
            final = alone and layer == layers - 1
            window, first = model.reread(kept, layer, (memory[0], memory[1]), window, first, final)
            layer += 1
        else:
            with model.hooks(fwd_hooks=[(sites[0].hook, _replacement(sites, found, first))]):
                window = model.local(kept, layer, window, first)
            layer += 1
        logits, first = model.resume(kept, layer, window, first, alone)
        whole = kept.logits.repeat(copies, 1, 1)
        whole[:, first : first + logits.shape[1]] = logits
        return whole

    return run


def _table(
    sites: Sequence[Site], value: np.ndarray, clean: np.ndarray, corrupted: np.ndarray
) -> pd.DataFrame:
    pairs, value = len(clean), value.astype(np.float64)
    apart = (clean - corrupted).astype(np.float64)
    told_apart = ~np.isclose(clean, corrupted, rtol=1e-5, atol=1e-6)
    effect = np.full(value.shape, np.nan)
    np.divide(value - corrupted, apart, where=told_apart, out=effect)
    return pd.DataFrame(
        {
            "component": np.repeat([site.component for site in sites], pairs),
            "layer": np.repeat([site.layer for site in sites], pairs),
            "head": np.repeat([-1 if site.head is None else site.head for site in sites], pairs),
            "position": np.repeat([site.position for site in sites], pairs),
            "pair": np.tile(np.arange(pairs), len(sites)),
            "metric": value.ravel(),
            "clean": np.tile(clean, len(sites)),
            "corrupted": np.tile(corrupted, len(sites)),
            "effect": effect.ravel(),
        }
    )
