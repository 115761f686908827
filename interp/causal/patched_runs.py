"""Forward passes with many sites patched at once; only what the sites can change is computed.

``interp.causal.patching`` is built on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from interp.causal.metrics import Metric, ReadAt
from interp.causal.sites import Site
from interp.model import HookedModel, Recording, ResumableModel, is_resumable

AFTER_MIXING = (
    *("q", "pattern", "z", "attn_out", "resid_mid"),
    *("neuron", "mlp_out", "resid_post"),
)
"""Components that in the last block reach only the logits of their own position."""

ENOUGH_ROWS = 64
"""A forward pass with this many words is full: then only sites at the same position may join."""

# -- planning -------------------------------------------------------------------------------------


def bytes_of(model: HookedModel, components: Sequence[str], length: int) -> tuple[int, int]:
    """Bytes that a pair takes while its sites are patched, and that a word takes in a pass."""
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

    Such sites stand before the first symbol in which the words of a pair differ, or after all
    positions that are read. In the last layer of attention they also stand at positions that are
    not read, unless keys and values carry them to those that are.
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
    """Divides the sites among forward passes; each pass is a list of their indices.

    A pass has sites of one hook, at most ``size`` of them. Its leftmost site decides how much is
    computed, so that a full pass takes no sites of other positions.
    """
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
"""A function of sites of one hook. It returns logits in which each site is patched in its own copy
of the batch. If only the last position is read, it returns the logits of this position alone."""


@torch.inference_mode()
def sweep(
    model: HookedModel,
    clean: Tensor,
    corrupted: Tensor,
    metrics: Mapping[str, Metric],
    sites: Sequence[Site],
    rows: int,
) -> tuple[Float[Tensor, "metric site pair"], Float[Tensor, "metric run pair"]]:
    """The metrics with each site patched, and those of the clean and of the corrupted run.

    Args:
        rows: the most sites in one forward pass.
    """
    length, pairs = clean.shape[1], len(clean)
    alone = all(
        isinstance(m, ReadAt) and bool((m.where(length) == length - 1).all())
        for m in metrics.values()
    )
    hooks = sorted({site.hook for site in sites})
    clean_logits, sources = model.run_with_cache(
        clean, names_filter=hooks, return_cache_object=False
    )
    if is_resumable(model):
        carried = any(site.component in ("k", "v") for site in sites)
        recording = model.record(corrupted)
        source = model.record(clean) if carried else recording
        run = _resumed(model, source, recording, sources, alone)
        logits = recording.logits
    else:
        run, logits = tiled(model, corrupted, sources), model(corrupted)
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
    """A hook that puts the source's activations into copies of the batch, one site in each copy.

    Args:
        source: activations of the clean run, [pair, pos, ...], or [pair, head, query, key] for
            patterns.
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
    """Sets a hook without TransformerLens' book-keeping, which looks at all hooks of the model."""
    handle = point.register_forward_hook(lambda module, args, output: put(output, module))
    try:
        yield
    finally:
        handle.remove()


def tiled(model: HookedModel, corrupted: Tensor, sources: Mapping[str, Tensor]) -> Run:
    """The ``Run`` of any hooked model: it computes whole forward passes."""

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
    """The ``Run`` of a model that starts from a recording: it computes what the sites can change.

    Args:
        source, recording: recordings of the clean and of the corrupted batch.
        alone: whether only the last position is read.
    """
    layers, positions = model.cfg.n_layers, recording.logits.shape[1]

    def run(sites: list[Site]) -> Tensor:
        component, layer, copies = sites[0].component, sites[0].layer, len(sites)
        at = [site.position for site in sites if site.position is not None]
        first, last = (at[0], at[-1] + 1) if at else (0, positions)
        values = sources[sites[0].hook]
        if component == "resid_post" and layer < layers - 1:
            component, layer = "resid_pre", layer + 1
        window = recording.streams[layer][:, first:last].repeat(copies, 1, 1)
        if component == "resid_pre":
            window = _replacement(sites, values, first)(window, None)
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
            with _hooked(point, _replacement(sites, values, first)):
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
