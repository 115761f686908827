"""Moving a counter: does the end of a word move by k where k is added to the counter?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.questions.erasing import stream_hooks
from interp.model import activations
from interp.probing.steering import adding, direction, random_direction
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.languages import END_ID
from models.languages.counting import CountingLanguage
from models.runs.run import Run

FURTHEST = 5
DRAWS = 3  # of random directions
RECURRENT = ("lstm", "gru")
RANDOM = {
    "added": "random direction",
    "added in proportion": "random direction in proportion",
}
"""The control of each way to move a counter."""


def steering_refusal(run: Run) -> str | None:
    """Why no counter can be moved; None where one can."""
    language = run.language
    if not isinstance(language, CountingLanguage) or language.blocks < 2:
        return f"{language.name} has no two blocks whose difference could be moved"
    if run.config.model.is_encoder:
        return f"{run.name} is an encoder: it sees the whole word, and no end moves along it"
    if reach(run) < 1:
        return f"the training window ends at n = {run.config.max_n}: too early to move an end"
    return None


def reach(run: Run) -> int:
    """The largest k: an end that is moved by it, up or down, stays in the training window."""
    return min(FURTHEST, (run.config.max_n - 1) // 2)


@dataclass(frozen=True)
class LastBlocks:
    """Words x^n y^n ... z^m, of which the last block alone may have another size.

    Attributes:
        n: the size of all earlier blocks.
        tokens: BOS first.
        last: True at the symbols of the last block.
        start: the position of its first symbol.
    """

    n: Int[np.ndarray, " batch"]
    tokens: Int[Tensor, "batch pos"]
    last: Bool[Tensor, "batch pos"]
    start: Int[Tensor, " batch"]

    @classmethod
    def of(cls, language: CountingLanguage, n: Int[np.ndarray, " batch"], more: int) -> LastBlocks:
        """The last block has ``more`` symbols than the others."""
        *first, last = language.vocabulary.symbols
        spelled = [
            (*(s for s in first for _ in range(size)), *[last] * (size + more)) for size in n
        ]
        words = language.vocabulary.words(spelled)
        start = torch.as_tensor(len(first) * n + 1)
        position = torch.arange(words.tokens.shape[1])
        inside = position <= torch.as_tensor(words.lengths)[:, None]
        return cls(n, torch.as_tensor(words.tokens), inside & (position >= start[:, None]), start)

    @property
    def difference(self) -> Int[Tensor, "batch pos"]:
        """How many symbols the last block lacks after each position of it."""
        position = torch.arange(self.tokens.shape[1])
        return torch.as_tensor(self.n)[:, None] - (position - self.start[:, None] + 1)

    def ends(self, logits: Float[Tensor, "copies pos d_vocab"]) -> Float[np.ndarray, "k batch"]:
        """After which symbol of the last block END's logit is first above 0; NaN if after none.

        The logits are those of one or several copies of the words, one copy after the other.
        """
        says = (logits[..., END_ID] > 0).unflatten(0, (-1, len(self.n))) & self.last
        first = says.int().argmax(dim=-1) - self.start + 1
        return torch.where(says.any(dim=-1), first.double(), torch.nan).cpu().numpy()


def steering(
    run: Run, model: LanguageModel, progress: Callable[[str], None] = lambda site: None
) -> pd.DataFrame:
    """The rows of the experiment "steering" in ``analyses.questions.interventions``."""
    language = run.language
    assert isinstance(language, CountingLanguage)
    furthest = reach(run)
    ks = np.array([k for k in range(-furthest, furthest + 1) if k])
    sizes = np.arange(furthest + 1, run.config.max_n - furthest + 1)
    words = LastBlocks.of(language, sizes, 2 * furthest)
    members = LastBlocks.of(language, np.arange(1, run.config.max_n + 1), 0)
    others = LastBlocks.of(
        language, members.n, 4 * furthest
    )  # whose states stand in for moved ones
    sites = stream_hooks(model)
    seen = activations(model, members.tokens, list(sites.values()))
    states = activations(model, others.tokens, list(sites.values()))
    copies = words.tokens.repeat(len(ks), 1)
    # A recurrent network goes on from a moved state: there the counter is moved once.
    recurrent = run.config.model.architecture in RECURRENT
    first = torch.arange(words.tokens.shape[1]) == words.start[:, None]
    at = first if recurrent else words.last
    k = torch.as_tensor(ks).repeat_interleave(len(sizes))[:, None]
    amount = (k * at.repeat(len(ks), 1)).double()
    length = torch.arange(1, words.tokens.shape[1] + 1)  # of the word with BOS, at each position

    @torch.no_grad()
    def ends(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, "k batch"]:
        return words.ends(model.run_with_hooks(copies, fwd_hooks=list(hooks)))

    unsteered = ends()
    rows = []
    for site, hook in sites.items():
        progress(site)
        x, d = seen[hook][members.last], members.difference[members.last]
        position = torch.arange(members.last.shape[1]).expand_as(members.last)[members.last]
        ways = {"added": (direction(x, d), amount)}
        if not recurrent:
            ways["added in proportion"] = (direction(x, d / (position + 1)), amount / length)
        for method, (way, scale) in ways.items():
            shift = ends((hook, adding(way, scale))) - unsteered
            rows += _rows(site, method, ks, shift[None])
            drawn = [random_direction(way, seed) for seed in range(DRAWS)]
            shifts = [ends((hook, adding(each, scale))) - unsteered for each in drawn]
            rows += _rows(site, RANDOM[method], ks, np.stack(shifts))
        instead = _states(words, others, states[hook], k[:, 0], at)
        rows += _rows(site, "state of another word", ks, (ends((hook, instead)) - unsteered)[None])
    variable = "-".join(language.vocabulary.symbols[-2:])
    return pd.DataFrame(rows).assign(variable=variable)


def _states(
    words: LastBlocks,
    others: LastBlocks,
    states: Float[Tensor, "other pos d"],
    k: Int[Tensor, " copies"],
    at: Bool[Tensor, "batch pos"],
) -> Callable[..., Tensor]:
    """A hook that puts in place what the word of size n + k has after as many last symbols.

    What no linear direction may do: it shows whether the site carries the counter at all.
    """
    copy, position = at.repeat(len(k) // len(words.n), 1).nonzero(as_tuple=True)
    word = copy % len(words.n)
    other = torch.as_tensor(words.n)[word] + k[copy] - 1  # the sizes of the others begin with 1
    there = others.start[other] + position - words.start[word]

    def hook(x: Float[Tensor, "copies pos d"], hook: object) -> Float[Tensor, "copies pos d"]:
        x = x.clone()
        x[copy, position] = states[other, there].to(x)
        return x

    return hook


def _rows(
    site: str, method: str, ks: Int[np.ndarray, " k"], shift: Float[np.ndarray, "draw k batch"]
) -> list[dict[str, str | int | float]]:
    """By k the mean shift of the words that ended, and the share that moved by exactly k."""
    exact = (shift == ks[:, None]).mean(axis=0)  # no end is no exact one
    value, low, high = bootstrap_mean(exact.T)
    rows: list[dict[str, str | int | float]] = []
    for i, k in enumerate(ks.tolist()):
        row = {"site": site, "method": method, "amount": k}
        number = {"value": value[i], "low": low[i], "high": high[i], "words": exact.shape[1]}
        rows.append(row | {"measure": "moved by k"} | {n: float(v) for n, v in number.items()})
        ended = shift[:, i].ravel()
        ended = ended[~np.isnan(ended)]
        interval = bootstrap_mean(ended) if len(ended) else (np.nan,) * 3
        number = dict(zip(("value", "low", "high"), map(float, interval), strict=True))
        rows.append(row | {"measure": "shift", "words": len(ended) / len(shift)} | number)
    return rows
