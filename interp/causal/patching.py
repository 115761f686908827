"""Activation patching: which activation carries the difference between two words?

A pair of words of equal length, clean and corrupted, differs in the behaviour that a metric
measures. One activation of the corrupted run is replaced by its value in the clean run; the effect
says how much of the difference came along:

    effect = (metric(patched) - metric(corrupted)) / (metric(clean) - metric(corrupted))

0: nothing happened; 1: the patched activation alone brings the clean behaviour back
(Meng et al. 2022). With the two words exchanged it says what the activation alone can break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from interp.causal.metrics import Metric, ReadAt
from interp.model import HookedModel, Recording, ResumableModel, require_stream
from interp.statistics import bootstrap_mean

BY_POSITION = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell")
BY_HEAD_AND_POSITION = ("z", "q", "k", "v")
COMPONENTS = (*BY_POSITION, *BY_HEAD_AND_POSITION, "pattern", "neuron")
"""What can be patched: by position; by head and position; the pattern by head, query (its position)
and key; a single hidden unit of an MLP by position."""

PLACE = ["component", "layer", "head", "neuron", "position", "key"]
"""The columns that name a site; -1 where one does not apply, or stands for all positions."""

AFTER_MIXING = (
    *("q", "pattern", "z", "attn_out", "resid_mid"),
    *("neuron", "mlp_out", "resid_post"),
)
"""What, of the last block, reaches the logits of its own position alone."""

ENOUGH_ROWS = 64
"""Words that fill a forward pass: with more, only sites of one position share it."""


@dataclass(frozen=True)
class Site:
    """One activation.

    Attributes:
        component: one of ``COMPONENTS``.
        layer: of the block.
        position: where, BOS is 0; None: at all positions at once.
        head, key, neuron: where the component has them.
    """

    component: str
    layer: int
    position: int | None
    head: int | None = None
    key: int | None = None
    neuron: int | None = None

    @property
    def hook(self) -> str:
        inside = "attn." if self.component in (*BY_HEAD_AND_POSITION, "pattern") else ""
        name = "mlp.hook_post" if self.component == "neuron" else f"hook_{self.component}"
        return f"blocks.{self.layer}.{inside}{name}"

    @property
    def place(self) -> tuple[object, ...]:
        """The values of the columns ``PLACE``."""
        values = (getattr(self, name) for name in PLACE)
        return tuple(-1 if value is None else value for value in values)


def all_sites(
    model: HookedModel, component: str, positions: int, whole: bool = False
) -> list[Site]:
    """Every site of a component, by layer, then head or neuron, then position, then key.

    Args:
        positions: the length of the words, BOS included.
        whole: all positions of a site at once.

    Raises:
        ValueError: the component is none of those that can be patched; the model has none; or it is
            no place where the stream can be changed, as resid_mid of a ``TransformerBridge``.
    """
    if component not in COMPONENTS:
        raise ValueError(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}")
    if Site(component, 0, 0).hook not in model.hook_dict:
        raise ValueError(f"this model has no {component}: leave it out")
    require_stream(model, Site(component, 0, 0).hook)
    layers, at = range(model.cfg.n_layers), [None] if whole else range(positions)
    if component == "neuron":
        units = product(layers, range(model.cfg.d_mlp), at)
        return [Site(component, layer, p, neuron=unit) for layer, unit, p in units]
    if component == "pattern" and not whole:
        causal = model.cfg.attention_dir == "causal"
        return [
            Site(component, layer, query, head, key)
            for layer, head, query in product(layers, range(model.cfg.n_heads), range(positions))
            for key in range(query + 1 if causal else positions)
        ]
    heads: Sequence[int | None] = [None]
    if component in (*BY_HEAD_AND_POSITION, "pattern"):
        heads = range(model.cfg.n_heads)
    return [Site(component, layer, p, head) for layer, head, p in product(layers, heads, at)]


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

    Many sites share one forward pass: each is a copy of the corrupted batch with its own activation
    replaced. Of a ``ResumableModel`` only what a site can change is computed: from its layer on
    and, under a causal mask, from its position on. A site that cannot change what the metrics read
    is not run at all: its effect is exactly 0.

    Args:
        clean, corrupted: token ids with BOS; row i of both is a pair.
        metric: one, or several by name, all read off the same passes. Those of
            ``interp.causal.metrics`` say where they read, which spares the rest; another one is
            always given all pairs.
        whole: patch each site at all positions at once.
        memory: bytes that the sweep may take, model and table aside: it says how many pairs and
            sites are worked on together, at the least one of each.

    Returns:
        One row per metric, site and pair: metric (its name; "metric" for a lone one), the columns
        ``PLACE``, pair, clean and corrupted (the metric of the two unpatched runs), patched, and
        effect. The effect is NaN where the model does not tell the two words apart (to float32's
        rounding).

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
    stays, passes = _bytes(model, components, length)
    values, baselines = [], []
    divisible = all(isinstance(each, ReadAt) for each in metrics.values())
    together = max(1, memory // 2 // stays) if divisible else max(1, len(clean))
    for group in torch.arange(len(clean)).split(together):
        some = {
            name: each.among(group) if isinstance(each, ReadAt) else each
            for name, each in metrics.items()
        }
        rows = max(1, memory // 2 // passes // len(group))
        value, baseline = _sweep(model, clean[group], corrupted[group], some, sites, rows)
        values.append(value.cpu())
        baselines.append(baseline.cpu())
    return table_of(
        list(metrics), sites, torch.cat(values, dim=2).numpy(), torch.cat(baselines, dim=2).numpy()
    )


@torch.no_grad()
def patched_logits(
    model: HookedModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    site: Site,
) -> Float[Tensor, "pair pos d_vocab"]:
    """All that the model says in the corrupted run with one site patched."""
    _, sources = model.run_with_cache(clean, names_filter=[site.hook], return_cache_object=False)
    return _tiled(model, corrupted, sources)([site])


def over_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the pairs that the model tells apart, with 95% bootstrap intervals.

    Returns:
        One row per metric and site, in the table's order: metric, the columns ``PLACE``, effect,
        low, high (both NaN with a single pair) and pairs, how many there were.
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


# -- planning -------------------------------------------------------------------------------------


def _bytes(model: HookedModel, components: Sequence[str], length: int) -> tuple[int, int]:
    """What a pair takes as long as its sites are patched; and what one word takes in a pass."""
    cfg = model.cfg
    stream, square = length * cfg.d_model, cfg.n_heads * length**2
    hidden = length * (cfg.d_mlp or cfg.d_model)
    kept = {"pattern": square, "neuron": hidden}
    stays = cfg.n_layers * sum([7 * stream, *(kept.get(c, stream) for c in components)])
    passes = 18 * stream + 3 * hidden + 3 * square + 2 * length * cfg.d_vocab
    width = next(cast(nn.Module, model).parameters(), torch.zeros(())).element_size()
    return stays * width, passes * width


def _without_effect(
    model: HookedModel,
    clean: Tensor,
    corrupted: Tensor,
    metrics: Sequence[Metric],
    sites: Sequence[Site],
) -> Bool[Tensor, "site pair"]:
    """True where a causal mask keeps a site from changing what any metric reads.

    Those are the sites before the first difference and those after all positions that are read; and
    of attention's last layer those at other positions, unless its keys and values carry them on.
    """
    if model.cfg.attention_dir != "causal":
        return torch.zeros(len(sites), len(clean), dtype=torch.bool)
    length = clean.shape[1]
    differs = (clean != corrupted).cpu()
    first = torch.where(differs.any(dim=1), differs.int().argmax(dim=1), length)
    whole = torch.tensor([site.position is None for site in sites])[:, None]
    position = torch.tensor([site.position or 0 for site in sites])[:, None]
    idle = torch.where(whole, first == length, position < first)
    if all(isinstance(metric, ReadAt) for metric in metrics):
        read = torch.stack(
            [m.where(length).expand(len(clean)) for m in metrics if isinstance(m, ReadAt)]
        )
        last = model.cfg.n_layers - 1 if "blocks.0.attn.hook_z" in model.hook_dict else -1
        final = torch.tensor([s.layer == last and s.component in AFTER_MIXING for s in sites])
        elsewhere = (position != read[:, None]).all(dim=0)
        idle = idle | (~whole & ((position > read.amax(dim=0)) | (final[:, None] & elsewhere)))
    return idle


def _chunks(sites: Sequence[Site], idle: Sequence[bool], size: int, pairs: int) -> list[list[int]]:
    """Indices of the sites that one forward pass takes: of one hook, none more than ``size``, and
    not much further to the left than need be, as the leftmost says how much is computed."""
    order = [index for index in range(len(sites)) if not idle[index]]
    order.sort(key=lambda index: (sites[index].hook, sites[index].position or 0))
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


# -- running --------------------------------------------------------------------------------------

Run = Callable[[list[Site]], Float[Tensor, "row pos d_vocab"]]
"""Logits with each of the sites, all of one hook, patched in its own copy of the batch; where only
the last position is read, these alone."""


@torch.inference_mode()
def _sweep(
    model: HookedModel,
    clean: Tensor,
    corrupted: Tensor,
    metrics: Mapping[str, Metric],
    sites: Sequence[Site],
    rows: int,
) -> tuple[Float[Tensor, "metric site pair"], Float[Tensor, "metric run pair"]]:
    """The metrics with each site patched, and of the clean and the corrupted run."""
    length, pairs = clean.shape[1], len(clean)
    alone = all(
        isinstance(m, ReadAt) and bool((m.where(length) == length - 1).all())
        for m in metrics.values()
    )
    hooks = sorted({site.hook for site in sites})
    clean_logits, sources = model.run_with_cache(
        clean, names_filter=hooks, return_cache_object=False
    )
    if isinstance(model, ResumableModel):
        carried = any(site.component in ("k", "v") for site in sites)
        recording = model.record(corrupted)
        source = model.record(clean) if carried else recording
        run = _resumed(model, source, recording, sources, alone)
        logits = recording.logits
    else:
        run, logits = _tiled(model, corrupted, sources), model(corrupted)
    baseline = torch.stack(
        [torch.stack([metric(clean_logits), metric(logits)]) for metric in metrics.values()]
    )
    value = baseline[:, 1:].repeat(1, len(sites), 1)
    idle = _without_effect(model, clean, corrupted, list(metrics.values()), sites)
    for chunk in _chunks(sites, idle.all(dim=1).tolist(), rows, pairs):
        patched = run([sites[index] for index in chunk])
        patched = patched.view(len(chunk), pairs, *patched.shape[1:])
        for number, metric in enumerate(metrics.values()):
            value[number, chunk] = _measured(metric, patched)
    return torch.where(idle.to(value.device), baseline[:, 1:], value), baseline


def _measured(
    metric: Metric, logits: Float[Tensor, "site pair pos d_vocab"]
) -> Float[Tensor, "site pair"]:
    if isinstance(metric, ReadAt):
        if logits.shape[2] == 1:  # the last position alone
            return metric.of_one(logits[:, :, 0])
        return metric(logits)
    return torch.stack([metric(copy) for copy in logits])


def _replacement(
    sites: list[Site], source: Tensor, first: int = 0
) -> Callable[[Tensor, object], Tensor]:
    """A hook that puts the source's activations into copies of the batch.

    Args:
        source: of the clean run, [pair, pos, ...], or [pair, head, query, key] for patterns.
        first: the position at which the copies begin.
    """
    device, pattern = source.device, sites[0].component == "pattern"
    copies = torch.arange(len(sites), device=device)

    def index(name: str) -> Tensor | None:
        values = [getattr(site, name) for site in sites]
        return None if values[0] is None else torch.tensor(values, device=device)

    position, head, key = index("position"), index("head"), index("key")
    unit = head if head is not None else index("neuron")

    def put(activation: Tensor, hook: object) -> Tensor:
        copied = activation.view(len(sites), -1, *activation.shape[1:]).clone()
        tiled, given = copied, source
        if pattern:  # [..., query, head, key], as the others have it
            tiled, given = copied.transpose(2, 3), source.transpose(1, 2)
        if position is None:
            given = given[:, first : first + tiled.shape[2]]
            if unit is None:
                tiled[:] = given
            else:
                tiled[copies, :, :, unit] = given[:, :, unit].movedim(2, 0)
        else:
            there: list[Any] = [copies, slice(None), position - first]
            here: list[Any] = [slice(None), position]
            for further in (unit, key):
                if further is not None:
                    there.append(further)
                    here.append(further)
            tiled[tuple(there)] = given[tuple(here)].transpose(0, 1)
        return copied.flatten(0, 1)

    return put


@contextmanager
def _hooked(point: nn.Module, put: Callable[[Tensor, object], Tensor]) -> Iterator[None]:
    """Past TransformerLens' book-keeping, which looks at every hook point of the model."""
    handle = point.register_forward_hook(lambda module, args, output: put(output, module))
    try:
        yield
    finally:
        handle.remove()


def _tiled(model: HookedModel, corrupted: Tensor, sources: Mapping[str, Tensor]) -> Run:
    """On any hooked model: whole forward passes."""

    def run(sites: list[Site]) -> Tensor:
        hook = sites[0].hook
        put = _replacement(sites, sources[hook])
        return model.run_with_hooks(corrupted.repeat(len(sites), 1), fwd_hooks=[(hook, put)])

    return run


def _resumed(
    model: ResumableModel,
    source: Recording,
    recording: Recording,
    sources: Mapping[str, Tensor],
    alone: bool,
) -> Run:
    """On a model that goes on from a recording: only what the sites can change.

    Args:
        source, recording: of the clean and of the corrupted batch.
        alone: only the last position is read.
    """
    layers, positions = model.cfg.n_layers, recording.logits.shape[1]

    def run(sites: list[Site]) -> Tensor:
        component, layer, copies = sites[0].component, sites[0].layer, len(sites)
        at = [site.position for site in sites if site.position is not None]
        first, last = (at[0], at[-1] + 1) if at else (0, positions)
        found = sources[sites[0].hook]
        if component == "resid_post" and layer < layers - 1:
            component, layer = "resid_pre", layer + 1
        window = recording.streams[layer][:, first:last].repeat(copies, 1, 1)
        if component == "resid_pre":
            window = _replacement(sites, found, first)(window, None)
        elif component in ("k", "v"):
            which = ("k", "v").index(component)
            memory = [old.repeat(copies, 1, 1, 1) for old in recording.memory[layer]]
            put = _replacement(sites, source.memory[layer][which].transpose(1, 2))
            memory[which] = put(memory[which].transpose(1, 2), None).transpose(1, 2)
            final = alone and layer == layers - 1
            window, first = model.reread(
                recording, layer, (memory[0], memory[1]), window, first, final
            )
            layer += 1
        else:
            point = model.hook_dict[sites[0].hook]
            with _hooked(point, _replacement(sites, found, first)):
                window = model.local(recording, layer, window, first)
            layer += 1
        logits, first = model.resume(recording, layer, window, first, alone)
        if alone:
            reached = first + logits.shape[1] == positions
            return logits[:, -1:] if reached else recording.logits[:, -1:].repeat(copies, 1, 1)
        whole = recording.logits.repeat(copies, 1, 1)
        whole[:, first : first + logits.shape[1]] = logits
        return whole

    return run


def table_of(
    metrics: Sequence[str],
    sites: Sequence[Site],
    value: Float[np.ndarray, "metric site pair"],
    baseline: Float[np.ndarray, "metric run pair"],
) -> pd.DataFrame:
    """The table of ``patch``; the baseline is of the clean and of the corrupted run."""
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
