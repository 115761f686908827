"""Attribution patching: activation patching of all sites at once, to first order.

One backward pass gives the gradient of the metric at each activation of the corrupted run. The
gradient times the difference between clean and corrupted activation estimates what patching in this
direction, denoising, would do (Nanda 2023). The estimate is wrong wherever the model is not linear
between the two runs. So compare it with the exact effects of ``interp.causal.patching.patch``,
which have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.causal.patching import table_of
from interp.causal.sites import Site, all_sites
from interp.model import HookedModel


def attribution_patch(
    model: HookedModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    metric: Metric,
    components: Sequence[str] = ("resid_pre", "z"),
    *,
    whole: bool = False,
) -> pd.DataFrame:
    """Estimates the effect of every site of the components for every pair, in one backward pass.

    Arguments, columns and errors are those of ``patch`` for a single metric. "patched" is corrupted
    plus the estimated change.
    """
    length = clean.shape[1]
    sites = [site for c in components for site in all_sites(model, c, length, whole)]
    hooks = sorted({site.hook for site in sites})
    found: dict[str, Tensor] = {}

    def begin(x: Tensor, hook: object) -> Tensor:
        return x.detach().requires_grad_()  # gradients then need no parameter that requires one

    def keep(name: str) -> Callable[[Tensor, object], Tensor]:
        def heard(x: Tensor, hook: object) -> Tensor:
            found[name] = x
            return x  # a bridge gives the hook a copy, and uses it only if the hook returns it

        return heard

    start: list[tuple[str, Callable[..., Any]]] = [("blocks.0.hook_resid_pre", begin)]
    with torch.enable_grad():
        logits = model.run_with_hooks(corrupted, fwd_hooks=start + [(h, keep(h)) for h in hooks])
        at_corrupted = metric(logits)
        gradients = dict(
            zip(
                hooks,
                torch.autograd.grad(at_corrupted.sum(), [found[h] for h in hooks]),
                strict=True,
            )
        )
    with torch.no_grad():
        clean_logits, cache = model.run_with_cache(
            clean, names_filter=hooks, return_cache_object=False
        )
        baseline = torch.stack([metric(clean_logits), at_corrupted.detach()])
        change = {h: (cache[h] - found[h].detach()) * gradients[h] for h in hooks}
        value = baseline[1] + torch.stack(
            [part for c in components for part in _by_site(change, sites, c, whole)]
        )
    return table_of(["metric"], sites, value[None].cpu().numpy(), baseline[None].cpu().numpy())


def _by_site(
    change: dict[str, Tensor], sites: Sequence[Site], component: str, whole: bool
) -> list[Tensor]:
    """The estimated change of each site of a component, in the sites' order, [pair] each."""
    hooks = {site.hook for site in sites if site.component == component}
    parts = {hook: _summed(change[hook], component, whole) for hook in hooks}
    values = []
    for site in sites:
        if site.component == component:
            unit = site.neuron if site.head is None else site.head
            index: list[Any] = [i for i in (unit, site.position, site.key) if i is not None]
            values.append(parts[site.hook][(slice(None), *index)])
    return values


def _summed(x: Tensor, component: str, whole: bool) -> Tensor:
    """Sums a change over all axes but [pair, head or neuron, pos, key], and with ``whole`` over pos
    and key too; a component without one of these axes has the others."""
    if component == "pattern":
        return x.sum(dim=(2, 3)) if whole else x
    if component == "neuron":
        x = x.transpose(1, 2)
    elif x.dim() == 4:
        x = x.sum(dim=-1).transpose(1, 2)
    else:
        x = x.sum(dim=-1)
    return x.sum(dim=-1) if whole else x
