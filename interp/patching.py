"""Activation patching: which activation carries the difference between two words?

A pair of words of equal length, clean and corrupted, differs in the behaviour that a metric
measures. One activation of the corrupted run is replaced by its value in the clean run; the effect
says how much of the difference came along:

    effect = (metric(patched) - metric(corrupted)) / (metric(clean) - metric(corrupted))

0: nothing happened; 1: the patched activation alone brings the clean behaviour back
(Meng et al. 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.model import HookedModel, Metric, activations

BY_POSITION = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
BY_HEAD_AND_POSITION = ("z", "q", "k", "v")


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
        ValueError: the component is none of those that can be patched.
    """
    if component not in BY_POSITION + BY_HEAD_AND_POSITION:
        known = ", ".join(BY_POSITION + BY_HEAD_AND_POSITION)
        raise ValueError(f"unknown component {component!r}: use one of {known}")
    heads = range(model.cfg.n_heads) if component in BY_HEAD_AND_POSITION else [None]
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

    The sites of a layer share one forward pass: each is a copy of the corrupted batch with its own
    activation replaced.

    Args:
        clean, corrupted: token ids with BOS; row i of both is a pair.
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
    pairs, length = clean.shape
    sites = [site for c in components for site in all_sites(model, c, length)]
    sources = activations(model, clean, sorted({site.hook for site in sites}))
    tables = []
    for start, chunk in _chunks(sites, max(1, rows // pairs)):
        values = _patched(
            model, corrupted, sources[chunk[0].hook].to(corrupted.device), chunk, metric
        )
        for site, value in zip(chunk, values.cpu().numpy(), strict=True):
            tables.append((start, site, value))
    clean_value, corrupted_value = (metric(model(t)).cpu().numpy() for t in (clean, corrupted))
    return _table(tables, clean_value, corrupted_value)


def _chunks(sites: list[Site], size: int) -> list[tuple[int, list[Site]]]:
    """Runs of sites that share a hook, none longer than ``size``."""
    chunks: list[tuple[int, list[Site]]] = []
    for index, site in enumerate(sites):
        if chunks and chunks[-1][1][0].hook == site.hook and len(chunks[-1][1]) < size:
            chunks[-1][1].append(site)
        else:
            chunks.append((index, [site]))
    return chunks


def _patched(
    model: HookedModel, corrupted: Tensor, source: Tensor, sites: list[Site], metric: Metric
) -> Float[Tensor, "site pair"]:
    """The metric with each of the sites, all of one hook, patched in its own copy of the batch."""
    pairs = len(corrupted)
    copies = torch.arange(len(sites), device=corrupted.device)
    position = torch.tensor([site.position for site in sites], device=corrupted.device)

    def replace(activation: Tensor, hook: object) -> Tensor:
        tiled = activation.view(len(sites), pairs, *activation.shape[1:]).clone()
        if sites[0].head is None:
            tiled[copies, :, position] = source[:, position].transpose(0, 1)
        else:
            head = torch.tensor([site.head for site in sites], device=corrupted.device)
            tiled[copies, :, position, head] = source[:, position, head].transpose(0, 1)
        return tiled.flatten(0, 1)

    logits = model.run_with_hooks(
        corrupted.repeat(len(sites), 1), fwd_hooks=[(sites[0].hook, replace)]
    )
    return torch.stack([metric(copy) for copy in logits.view(len(sites), pairs, *logits.shape[1:])])


def _table(
    tables: list[tuple[int, Site, np.ndarray]], clean: np.ndarray, corrupted: np.ndarray
) -> pd.DataFrame:
    pairs = len(clean)
    sites = [site for _, site, _ in tables]
    value = np.stack([value for _, _, value in tables]).astype(np.float64)
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
