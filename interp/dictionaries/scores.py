"""Scores of a dictionary: its latents against variables whose values are known.

A fact is a value of a variable ("tokens = a"), true or false at each position. A latent answers yes
where its code is above a threshold. Latents and thresholds are chosen on some positions and scored
on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import normalize

from interp.dictionaries.dictionary import Dictionary

GROWS = 0.03
"""The growth of F1 from which on a further latent shares a fact (Chanin et al. 2024)."""
EQUAL = 1e-4
"""Latents whose F1 differs by less are equally good, and the evenness of their codes decides."""
SURE = 0.95
"""The precision from which on a latent implies a fact."""
MOST_SHARED = 8
"""Latents that are tried for one fact."""
CHANCE_DRAWS = 100


def f1(guess: Bool[Tensor, "n *cells"], true: Bool[Tensor, "n *cells"]) -> Float[Tensor, "*cells"]:
    """2 TP / (2 TP + FP + FN) over the first axis; 0 where nothing is true and none is guessed."""
    both = (guess & true).sum(dim=0)
    return 2 * both / (guess.sum(dim=0) + true.sum(dim=0)).clamp_min(1)


@dataclass(frozen=True)
class Readers:
    """The threshold with which each latent reads each fact, chosen for the largest F1.

    Attributes:
        thresholds: a latent says yes where its code is above it; infinite if the latent is silent.
        fits: F1 on the positions that chose it.
        evenness: the correlation of each code with each fact there. It decides between latents of
            the same F1.
    """

    thresholds: Float[Tensor, "fact latent"]
    fits: Float[Tensor, "fact latent"]
    evenness: Float[Tensor, "fact latent"]

    @classmethod
    def of(cls, codes: Float[Tensor, "n latent"], facts: Bool[Tensor, "n fact"]) -> Readers:
        """The best threshold for every pair. A code of 0 never says yes: the latent is silent."""
        values, order = codes.sort(dim=0, descending=True)
        count = torch.arange(1, len(codes) + 1)[:, None]
        # A threshold lies between two different codes; the last one lies above 0.
        after = torch.cat([values[1:], torch.zeros_like(values[:1])]).clamp_min(0.0)
        ends = values > after
        thresholds, fits = [], []
        for fact in facts.T:
            right = fact[order].cumsum(dim=0)
            score = (2 * right / (count + fact.sum())).masked_fill(~ends, -1.0)
            best, at = score.max(dim=0)
            middle = (values + after).gather(0, at[None])[0] / 2
            thresholds.append(torch.where(best > 0, middle, torch.inf))
            fits.append(best.clamp_min(0.0))
        return cls(torch.stack(thresholds), torch.stack(fits), _correlations(facts, codes))

    @property
    def ranked(self) -> Int[Tensor, "fact latent"]:
        """The latents of each fact, the one first that reads it best where it was chosen."""
        return (self.fits + EQUAL * self.evenness).argsort(dim=1, descending=True, stable=True)

    @property
    def best(self) -> Int[Tensor, " fact"]:
        """The first of ``ranked``."""
        return self.ranked[:, 0]

    def says(self, codes: Float[Tensor, "n latent"], fact: int) -> Bool[Tensor, "n latent"]:
        """True where a latent says yes to a fact."""
        return codes > self.thresholds[fact]


def _correlations(
    facts: Bool[Tensor, "n fact"], codes: Float[Tensor, "n latent"]
) -> Float[Tensor, "fact latent"]:
    """Pearson's correlation; 0 where one of both does not vary."""
    true, z = facts.double(), codes.double()
    true, z = (values - values.mean(dim=0) for values in (true, z))
    sizes = true.norm(dim=0)[:, None] * z.norm(dim=0)
    return torch.where(sizes > 0, true.T @ z / sizes.clamp_min(1e-30), 0.0).float()


def best_f1(
    readers: Readers, codes: Float[Tensor, "n latent"], facts: Bool[Tensor, "n fact"]
) -> Float[Tensor, " fact"]:
    """F1 of one latent for each fact, on positions that chose neither latent nor threshold."""
    best = readers.best
    answers = codes[:, best] > readers.thresholds[torch.arange(len(best)), best]
    return f1(answers, facts)


def chance_f1(facts: Bool[Tensor, "n fact"]) -> Float[Tensor, " fact"]:
    """F1 of who always says yes, 2 p / (1 + p): nothing that is independent of a fact which holds
    at a share p of the positions has a larger one."""
    share = facts.float().mean(dim=0)
    return 2 * share / (1 + share)


def splitting(
    readers: Readers, codes: Float[Tensor, "n latent"], facts: Bool[Tensor, "n fact"]
) -> Int[Tensor, " fact"]:
    """The number of latents that share each fact; 1 is the best.

    They are joined by "or", one after the other, as long as F1 grows by more than ``GROWS``. All
    positions are those that chose the thresholds.
    """
    counts = []
    for number, fact in enumerate(facts.T):
        answers = readers.says(codes, number)
        joined, score, count = torch.zeros_like(fact), 0.0, 0
        while count < MOST_SHARED:
            more = f1(answers | joined[:, None], fact[:, None].expand_as(answers))
            if count and float(more.max()) - score <= GROWS:
                break
            joined = joined | answers[:, more.argmax()]
            score, count = float(more.max()), count + 1
        counts.append(count)
    return torch.tensor(counts)


def absorption(
    readers: Readers,
    chosen_on: tuple[Float[Tensor, "m latent"], Bool[Tensor, "m fact"]],
    codes: Float[Tensor, "n latent"],
    facts: Bool[Tensor, "n fact"],
) -> Float[Tensor, " fact"]:
    """The share of a fact's positions at which its latent is silent, and a more special one, which
    implies the fact, is on in its place (after Chanin et al. 2024). None is the best.

    A latent implies a fact if at least ``SURE`` of the positions where it is on have it, among
    those that chose the thresholds. NaN for a fact that never holds.

    Args:
        chosen_on: codes and facts of the positions that chose the thresholds.
    """
    old, old_facts = chosen_on
    on = (old > 0).float()
    implies = (on.T @ old_facts.float()) / on.sum(dim=0)[:, None].clamp_min(1) >= SURE
    implies &= (on.sum(dim=0) > 0)[:, None]
    shares = []
    for number, (fact, latent) in enumerate(zip(facts.T, readers.best.tolist(), strict=True)):
        silent = fact & ~(codes[:, latent] > readers.thresholds[number, latent])
        others = implies[:, number].clone()
        others[latent] = False
        taken = silent & (codes[:, others] > 0).any(dim=1)
        shares.append(taken.sum() / fact.sum())
    return torch.stack(shares)


def matched(
    latents: Float[Tensor, "latent d"], wanted: Float[Tensor, "wanted d"]
) -> Float[Tensor, " wanted"]:
    """The cosine of each wanted direction with the one that is matched to it.

    The matching is one to one, and has the largest sum (Hungarian; Kuhn 1955). A wanted direction
    without a partner has 0.
    """
    cosines = normalize(wanted, dim=1) @ normalize(latents, dim=1).T
    row, column = linear_sum_assignment(cosines.double().numpy(), maximize=True)
    matches = torch.zeros(len(wanted))
    matches[torch.as_tensor(row)] = cosines[row, column].float()
    return matches


def mcc(latents: Float[Tensor, "latent d"], wanted: Float[Tensor, "wanted d"]) -> float:
    """The mean cosine of known directions with the latents matched to them: 1 is perfect."""
    return float(matched(latents, wanted).mean())


def chance_mcc(wanted: Float[Tensor, "wanted d"], width: int, draws: int = CHANCE_DRAWS) -> float:
    """``mcc`` of random directions: the mean over draws of ``width`` of them."""
    generator = torch.Generator().manual_seed(0)
    shape = width, wanted.shape[1]
    return float(
        np.mean([mcc(torch.randn(shape, generator=generator), wanted) for _ in range(draws)])
    )


def stability(decoders: Sequence[Float[Tensor, "_ d"]]) -> list[float]:
    """For each decoder, how far the others have the same directions: the mean matched cosine. It is
    1 for a single one. Latents without a partner, in either, count as 0."""
    if len(decoders) < 2:
        return [1.0] * len(decoders)
    overlaps = np.zeros((len(decoders), len(decoders)))
    for i, one in enumerate(decoders):
        for j, other in enumerate(decoders[:i]):
            total = float(matched(one, other).sum()) if len(one) and len(other) else 0.0
            overlaps[i, j] = overlaps[j, i] = total / max(len(one), len(other), 1)
    return (overlaps.sum(axis=1) / (len(decoders) - 1)).tolist()


def variance_explained(
    dictionary: Dictionary, codes: Float[Tensor, "n latent"], y: Float[Tensor, "n d_out"]
) -> float:
    """1 - squared error of the output / squared distance from the mean; 1 is perfect."""
    missed = (y - dictionary.decode(codes)).square().sum()
    return float(1 - missed / (y - y.mean(dim=0)).square().sum())
