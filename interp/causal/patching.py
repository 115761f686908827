"""Activation patching: which activation carries the difference between two words?

A pair of words of equal length, clean and corrupted, differs in the behaviour that a metric
measures. One activation of the corrupted run is replaced by its value in the clean run. The effect
is the share of the difference that comes back:

    effect = (metric(patched) - metric(corrupted)) / (metric(clean) - metric(corrupted))

0 means that nothing happened; 1 means that the patched activation alone brings the clean behaviour
back (Meng et al. 2022). This direction is called denoising. If the two words are exchanged, it is
noising: the effect says what the activation alone can break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric, ReadAt
from interp.causal.patched_runs import bytes_of, sweep, tiled
from interp.causal.sites import PLACE, Site, all_sites
from interp.model import HookedModel
from interp.statistics import bootstrap_mean


def patch(
    model: HookedModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    metric: Metric | Mapping[str, Metric],
    components: Sequence[str] = ("resid_pre", "z"),
    *,
    whole: bool = False,
    memory: int = 2**28,
) -> pd.DataFrame:
    """Patches every site of the components, one at a time, for every pair.

    Many sites share one forward pass: each has a copy of the corrupted batch in which its own
    activation is replaced. With a ``ResumableModel`` only what a site can change is computed: from
    its layer on and, under a causal mask, from its position on. A site that cannot change what the
    metrics read is not run at all; its effect is exactly 0.

    Args:
        clean, corrupted: token ids with BOS; row i of both is a pair.
        metric: one metric, or several by name, which are all read off the same passes. A metric of
            ``interp.causal.metrics`` says where it reads, so that the rest need not be computed.
            Any other metric always gets all pairs at once.
        components: some of ``interp.causal.sites.COMPONENTS``.
        whole: patch each site at all positions at once.
        memory: bytes that the sweep may take, apart from the model and the table. It decides how
            many pairs and sites are worked on together, which is at least one of each.

    Returns:
        One row per metric, site and pair: metric (its name; "metric" for a lone one), the columns
        ``PLACE``, pair, clean and corrupted (the metric of the two unpatched runs), patched, and
        effect (no unit; the others have the metric's). The effect is NaN if the model does not tell
        the two words apart (to float32's rounding).

    Raises:
        ValueError: the two batches differ in shape, or a component cannot be patched.
    """
    if clean.shape != corrupted.shape:
        raise ValueError(
            f"expected clean and corrupted of one shape, got {tuple(clean.shape)} and "
            f"{tuple(corrupted.shape)}: pair words of equal length"
        )
    metrics = dict(metric) if isinstance(metric, Mapping) else {"metric": metric}
    length = clean.shape[1]
    sites = [site for c in components for site in all_sites(model, c, length, whole)]
    stays, passes = bytes_of(model, components, length)
    values, baselines = [], []
    divisible = all(isinstance(measure, ReadAt) for measure in metrics.values())
    together = max(1, memory // 2 // stays) if divisible else max(1, len(clean))
    for group in torch.arange(len(clean)).split(together):
        some = {
            name: measure.among(group) if isinstance(measure, ReadAt) else measure
            for name, measure in metrics.items()
        }
        rows = max(1, memory // 2 // passes // len(group))
        value, baseline = sweep(model, clean[group], corrupted[group], some, sites, rows)
        values.append(value.cpu())
        baselines.append(baseline.cpu())
    return _table_of(
        list(metrics), sites, torch.cat(values, dim=2).numpy(), torch.cat(baselines, dim=2).numpy()
    )


@torch.no_grad()
def patched_logits(
    model: HookedModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    site: Site,
) -> Float[Tensor, "pair pos d_vocab"]:
    """The logits of the corrupted run with one site patched."""
    _, sources = model.run_with_cache(clean, names_filter=[site.hook], return_cache_object=False)
    return tiled(model, corrupted, sources)([site])


def over_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the pairs that the model tells apart, with 95% bootstrap intervals.

    Args:
        table: the table of ``patch``.

    Returns:
        One row per metric and site, in the table's order: metric, the columns ``PLACE``, effect,
        low, high (both NaN with a single pair) and pairs (over how many effect is the mean).
    """
    parts = []
    for _, rows in table.groupby("metric", sort=False):
        pairs = rows["pair"].nunique()
        effect = rows["effect"].to_numpy().reshape(-1, pairs).T
        told_apart = ~np.isnan(effect).all(axis=1)
        summary = rows.iloc[::pairs][["metric", *PLACE]].assign(
            effect=np.nan, low=np.nan, high=np.nan, pairs=int(told_apart.sum())
        )
        if told_apart.any():
            mean, low, high = bootstrap_mean(effect[told_apart])
            summary["effect"] = mean
            if told_apart.sum() > 1:
                summary["low"], summary["high"] = low, high
        parts.append(summary)
    return pd.concat(parts, ignore_index=True)


def _table_of(
    metrics: Sequence[str],
    sites: Sequence[Site],
    value: Float[np.ndarray, "metric site pair"],
    baseline: Float[np.ndarray, "metric run pair"],
) -> pd.DataFrame:
    """The table of ``patch``.

    Args:
        metrics: their names.
        value: the metrics with each site patched.
        baseline: the metrics of the clean and of the corrupted run, in this order.
    """
    clean, corrupted = baseline[:, :1], baseline[:, 1:]
    told_apart = ~np.isclose(clean, corrupted, rtol=1e-5, atol=1e-6)
    effect = np.full(value.shape, np.nan)
    wide = value.astype(np.float64)
    apart = clean.astype(np.float64) - corrupted
    np.divide(wide - corrupted, apart, where=told_apart, out=effect)
    count = prod(value.shape[1:])
    places = pd.DataFrame([site.place for site in sites], columns=PLACE)
    places = places.iloc[np.tile(np.repeat(np.arange(len(sites)), value.shape[2]), len(metrics))]
    return pd.DataFrame(
        {
            "metric": np.repeat(metrics, count),
            **{name: places[name].to_numpy() for name in PLACE},
            "pair": np.tile(np.arange(value.shape[2]), len(metrics) * len(sites)),
            "clean": np.broadcast_to(clean, value.shape).ravel(),
            "corrupted": np.broadcast_to(corrupted, value.shape).ravel(),
            "patched": wide.ravel(),
            "effect": effect.ravel(),
        }
    )
