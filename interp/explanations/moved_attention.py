"""Moved attention: the furthest weights that leave the verdict unchanged.

If other weights give the same verdict, the weights alone do not explain it (Jain and Wallace 2019,
"Attention is not Explanation", section 4.2). What is moved is what attention as an explanation
shows: the weights of the query where the verdict is read. Other queries keep theirs.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.adam import Adam
from interp.causal.metrics import Metric
from interp.heads.attention import attention
from interp.model import HookedModel

TOLERANCE = 0.01
"""The largest change of the probability that counts as none, as in the paper."""
LARGEST = float(np.log(2))
"""The largest Jensen-Shannon divergence there is, in nats."""


def moved_attention(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    at: int,
    log_odds: Metric,
    tolerance: float = TOLERANCE,
    steps: int = 60,
    starts: int = 4,
    permutations: int = 64,
    seed: int = 0,
) -> pd.DataFrame:
    """The furthest weights that keep the verdict, for each head alone and for all heads at once.

    Adam moves the weights away under a penalty for a change of the probability. Then the furthest
    point is taken whose probability is within the tolerance by a run of the model: on the lines
    from the head's own weights to the found ones and to all weight on one key, or a permutation.
    So the divergence is reached for sure; a better search could reach a larger one.

    Args:
        word: token ids with BOS.
        at: the query where the verdict is read.
        log_odds: the verdict.
        tolerance: the largest change of the probability.
        steps: steps of the optimiser.
        starts: random starts of each search.
        permutations: number of random permutations of the weights, for comparison.
        seed: seed of starts and permutations.

    Returns:
        One row per head, and a last one of all heads at once. Columns: part ("L0H1", "all heads"),
        divergence (Jensen-Shannon, in nats, 0 to ``LARGEST``; of all heads the mean), change (of
        the probability there), permuted divergence and permuted change (the medians of the
        permutations), permuted kept (the share of the permutations within the tolerance).

    Raises:
        ValueError: the model has no attention.
    """
    patterns, may = attention(model, word[None])
    base = patterns[:, 0, :, at].to(word.device)  # [layer, head, key]
    sees = may[0, at].to(word.device)
    layers, heads = base.shape[:2]
    parts = torch.eye(layers * heads, dtype=torch.bool, device=word.device)
    parts = torch.cat([parts, parts.any(dim=0, keepdim=True)]).unflatten(1, (layers, heads))
    verdict = _Verdict(model, word, at, log_odds)
    before = verdict(base[None], parts[-1:]).detach()
    generator = torch.Generator().manual_seed(seed)

    def score(weights: Tensor, moved: Tensor) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            change = (verdict(weights, moved) - before).abs()
            return _divergence(base, weights, moved).cpu().numpy(), change.cpu().numpy()

    rows = parts.repeat_interleave(starts, dim=0)
    turns = torch.linspace(1, -1, starts, device=word.device).repeat(len(parts))
    optima = _search(base, sees, rows, turns, verdict, before, tolerance, steps, generator)
    # 0 is the head's own weights; the steps are finer there, where little may be allowed.
    share = torch.linspace(0, 1, 41, device=word.device) ** 2
    ends = torch.cat(
        [
            optima.unflatten(0, (len(parts), starts)),
            _corners(base, sees).expand(len(parts), -1, -1, -1, -1),
        ],
        dim=1,
    )
    ways = (base + share[:, None, None, None] * (ends - base)[:, :, None]).flatten(1, 2)
    shuffled = _permuted(base, sees, permutations, generator)
    table = []
    for name, part, way in zip(_names(layers, heads), parts, ways, strict=True):
        tried = torch.cat([way, shuffled])
        far, change = score(tried, part.expand(len(tried), -1, -1))
        best = np.where(change <= tolerance, far, -1.0).argmax()
        table.append((name, far[best], change[best], far[-permutations:], change[-permutations:]))
    frame = pd.DataFrame(table, columns=["part", "divergence", "change", "far", "changes"])
    return frame.assign(
        **{
            "permuted divergence": frame["far"].map(np.median),
            "permuted change": frame["changes"].map(np.median),
            "permuted kept": frame["changes"].map(lambda c: float((c <= tolerance).mean())),
        }
    ).drop(columns=["far", "changes"])


def _names(layers: int, heads: int) -> list[str]:
    return [f"L{i}H{j}" for i in range(layers) for j in range(heads)] + ["all heads"]


class _Verdict:
    """The probability under other weights of the query where it is read."""

    def __init__(
        self, model: HookedModel, word: Int[Tensor, " pos"], at: int, log_odds: Metric
    ) -> None:
        self.model, self.word, self.at, self.log_odds = model, word, at, log_odds

    def __call__(
        self,
        weights: Float[Tensor, "row layer head key"],
        moved: Bool[Tensor, "row layer head"],
    ) -> Float[Tensor, " row"]:
        """
        Args:
            moved: the heads whose weights are replaced; the others compute their own.
        """

        def put(pattern: Tensor, layer: int) -> Tensor:
            pattern = pattern.clone()
            here = moved[:, layer, :, None]
            pattern[:, :, self.at] = torch.where(here, weights[:, layer], pattern[:, :, self.at])
            return pattern

        hooks = [
            (
                f"blocks.{layer}.attn.hook_pattern",
                lambda pattern, hook, layer=layer: put(pattern, layer),
            )
            for layer in range(weights.shape[1])
        ]
        tokens = self.word.expand(len(weights), -1)
        log_odds: Tensor = self.log_odds(self.model.run_with_hooks(tokens, fwd_hooks=hooks))
        return log_odds.sigmoid()


def _search(
    base: Float[Tensor, "layer head key"],
    sees: Bool[Tensor, " key"],
    moved: Bool[Tensor, "row layer head"],
    turns: Float[Tensor, " row"],
    verdict: _Verdict,
    before: Float[Tensor, " one"],
    tolerance: float,
    steps: int,
    generator: torch.Generator,
) -> Float[Tensor, "row layer head key"]:
    """Weights far from the heads' own, which change the probability little or not at all.

    A search starts near the own weights (``turns`` is 1), near even ones (0), or where the own
    weights are turned around (-1).
    """
    drawn = torch.randn((len(moved), *base.shape), generator=generator).to(base)
    scores = (drawn + turns[:, None, None, None] * base.clamp_min(1e-3).log()).requires_grad_()
    optimiser = Adam([scores], lr=0.2)
    with torch.enable_grad():
        for _ in range(steps):
            weights = scores.masked_fill(~sees, -torch.inf).softmax(dim=-1)
            excess = ((verdict(weights, moved) - before).abs() - 0.9 * tolerance).clamp_min(0)
            loss = (20 * excess - _divergence(base, weights, moved)).sum()
            (scores.grad,) = torch.autograd.grad(loss, scores)
            optimiser.step()
    return scores.detach().masked_fill(~sees, -torch.inf).softmax(dim=-1)


def _corners(
    base: Float[Tensor, "layer head key"], sees: Bool[Tensor, " key"]
) -> Float[Tensor, "end layer head key"]:
    """All weight on the key that has the least, and all on the one that has the most."""
    least = base.masked_fill(~sees, torch.inf).argmin(dim=-1)
    most = base.argmax(dim=-1)
    return torch.nn.functional.one_hot(torch.stack([least, most]), base.shape[-1]).to(base)


def _divergence(
    base: Float[Tensor, "layer head key"],
    weights: Float[Tensor, "row layer head key"],
    moved: Bool[Tensor, "row layer head"],
) -> Float[Tensor, " row"]:
    """Jensen and Shannon's divergence of the moved heads' weights from their own, their mean."""
    middle = (base + weights) / 2
    by_head = sum(
        (x * (x.clamp_min(1e-12).log() - middle.clamp_min(1e-12).log())).sum(dim=-1) / 2
        for x in (base.expand_as(weights), weights)
    )
    assert isinstance(by_head, Tensor)
    return (by_head * moved).sum(dim=(1, 2)) / moved.sum(dim=(1, 2))


def _permuted(
    base: Float[Tensor, "layer head key"],
    sees: Bool[Tensor, " key"],
    count: int,
    generator: torch.Generator,
) -> Float[Tensor, "row layer head key"]:
    """The heads' own weights in another order, each head's in its own."""
    keys = sees.nonzero()[:, 0]
    drawn = torch.rand((count, *base.shape[:2], len(keys)), generator=generator)
    order = drawn.argsort(dim=-1).to(base.device)
    shuffled = base.expand(count, -1, -1, -1).clone()
    shuffled[..., keys] = base[..., keys].expand(count, -1, -1, -1).gather(-1, order)
    return shuffled
