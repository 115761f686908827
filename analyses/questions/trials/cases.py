"""Cases of an interchange, drawn from prefixes: what is exchanged, and what is right then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int

from analyses.questions.trials.prefixes import Future, Prefixes, answers_of
from analyses.words import ANALYSIS_SEED
from interp.causal.alignment import Cases
from models.base import LanguageModel
from models.languages import Word
from models.runs.run import Run

Change = Literal["here", "read again", "carried", "carried in proportion", "prefix", "state"]
"""Which positions of the base are changed.

"here": the last one of the prefix; the answer is read there. All others read answers there and
after every further symbol, and base and source have one length. "read again": all these positions,
each from the same place of the source with the same further symbols. "carried": all these
positions, by the difference between the two prefixes alone; what further symbols do to the variable
the model must do itself. "carried in proportion": the same, divided by the length so far, as an
average over the word holds it. "prefix": the positions of the prefix. "state": its last position,
from which a recurrent network goes on.
"""
Meaning = tuple[Mapping[int, int], ...]
"""For each variable of the state, the value that each of its values stands for."""
TRIED = 24  # pairs that are looked at for each that is kept


@dataclass(frozen=True)
class _Drawn:
    """Pairs of prefixes, and the state of the base with one variable of the source.

    Attributes:
        base, source: the numbers of the prefixes.
        part: the number of the variable.
        wanted: the state.
    """

    base: Int[np.ndarray, " case"]
    source: Int[np.ndarray, " case"]
    part: Int[np.ndarray, " case"]
    wanted: Int[np.ndarray, "case variable"]

    def __getitem__(self, rows: np.ndarray) -> _Drawn:
        return _Drawn(self.base[rows], self.source[rows], self.part[rows], self.wanted[rows])

    @property
    def states(self) -> list[tuple[int, ...]]:
        return list(map(tuple, self.wanted.tolist()))


def _meant(prefixes: Prefixes) -> Meaning:
    """Every value stands for itself."""
    return tuple({v: v for v in np.unique(column).tolist()} for column in prefixes.states.T)


def arbitrary(prefixes: Prefixes, seed: int) -> Meaning:
    """The control: every value stands for another one, drawn at random."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed, 2])
    orders = [rng.permutation(np.unique(column)).tolist() for column in prefixes.states.T]
    return tuple(dict(zip(order, [*order[1:], *order[:1]], strict=True)) for order in orders)


def drawn_cases(
    run: Run,
    model: LanguageModel,
    prefixes: Prefixes,
    among: Int[np.ndarray, " some"],
    change: Change,
    count: int,
    seed: int,
    meaning: Meaning | None = None,
) -> Cases | None:
    """Cases whose base and source are of the prefixes ``among``; None if there are none.

    In "here" each pair of behaviours, of the base before and after, is equally frequent, and so are
    the states of one behaviour. In all other changes each state is equally frequent, and what the
    base does by itself is never right.
    """
    if not len(among):
        return None
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    meaning = meaning or _meant(prefixes)
    pairs = _pairs(prefixes, among, TRIED * count, rng, meaning, change == "here")
    if change == "here":
        pairs = pairs[np.array([state in prefixes.behaviours for state in pairs.states])]
        bases = map(tuple, prefixes.states[pairs.base].tolist())
        behaviours = [prefixes.behaviours[state] for state in (*bases, *pairs.states)]
        pairs = pairs[_balanced(rng, np.reshape(behaviours, (2, -1)).T, count)]
        futures = [
            Future((), prefixes.allowed[None, prefixes.states.tolist().index(list(state))])
            for state in pairs.states
        ]
    else:
        valid = [state in prefixes.futures for state in pairs.states]
        pairs = pairs[np.array(valid) & (pairs.wanted != prefixes.states[pairs.base]).any(axis=1)]
        pairs = pairs[_balanced(rng, pairs.wanted, 4 * count)]
        options = [prefixes.futures[state] for state in pairs.states]
        futures = [some[int(rng.integers(len(some)))] for some in options]
        mask = _told(run, [prefixes.words[i] for i in pairs.base], futures)
        kept = np.flatnonzero(mask)[:count]
        pairs, futures = pairs[kept], [futures[i] for i in kept]
    return _cases(run, model, prefixes, pairs, futures, change) if len(pairs.base) else None


def _pairs(
    prefixes: Prefixes,
    among: Int[np.ndarray, " some"],
    count: int,
    rng: np.random.Generator,
    meaning: Meaning,
    any_length: bool,
) -> _Drawn:
    """Sources of all states equally often; bases too, or else of the length of the source."""
    states = np.unique(prefixes.states[among], axis=0, return_inverse=True)[1].reshape(-1)
    source = _of_group(rng, states, rng.integers(states.max() + 1, size=count))
    if any_length:
        base = _of_group(rng, states, rng.integers(states.max() + 1, size=count))
    else:
        lengths = np.unique(prefixes.lengths[among], return_inverse=True)[1]
        base = _of_group(rng, lengths, lengths[source])
    base, source = among[base], among[source]
    part = rng.integers(len(prefixes.variables), size=count)
    wanted = prefixes.states[base].copy()
    for number, means in enumerate(meaning):
        rows = part == number
        wanted[rows, number] = [means[v] for v in prefixes.states[source[rows], number].tolist()]
    return _Drawn(base, source, part, wanted)


def _of_group(
    rng: np.random.Generator, groups: Int[np.ndarray, " some"], wanted: Int[np.ndarray, " count"]
) -> Int[np.ndarray, " count"]:
    """For each wanted group the place of one of its members; groups are numbered from 0 on."""
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    first = np.cumsum(sizes) - sizes
    return order[first[wanted] + (rng.random(len(wanted)) * sizes[wanted]).astype(int)]


def _balanced(
    rng: np.random.Generator, kinds: Int[np.ndarray, "row column"], count: int
) -> Int[np.ndarray, " count"]:
    """Rows of all kinds equally often."""
    if not len(kinds):
        return np.zeros(0, dtype=int)
    kind = np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)
    return _of_group(rng, kind, rng.integers(kind.max() + 1, size=count))


def _told(run: Run, bases: list[Word], futures: list[Future]) -> Bool[np.ndarray, " case"]:
    """Where the answers after further symbols are not those that the base would have anyway."""
    words = run.language.vocabulary.words(
        [(*base, *future.rest) for base, future in zip(bases, futures, strict=True)]
    )
    allowed = run.language.allowed(words)[..., answers_of(run)]
    return np.array(
        [
            bool((sets[len(base) : len(base) + len(future.rest) + 1] != future.allowed)[1:].any())
            for sets, base, future in zip(allowed, bases, futures, strict=True)
        ]
    )


def _cases(
    run: Run,
    model: LanguageModel,
    prefixes: Prefixes,
    pairs: _Drawn,
    futures: list[Future],
    change: Change,
) -> Cases:
    vocabulary, answers = run.language.vocabulary, answers_of(run)
    words = [
        vocabulary.words(
            [(*prefixes.words[i], *future.rest) for i, future in zip(some, futures, strict=True)]
        )
        for some in (pairs.base, pairs.source)
    ]
    base, source = (torch.as_tensor(some.tokens) for some in words)
    first = torch.as_tensor(prefixes.lengths[pairs.base])
    more = torch.as_tensor([len(future.rest) for future in futures])
    if change == "here":
        first, put = (
            model.verdict_positions(torch.as_tensor(prefixes.lengths[some]))
            for some in (pairs.base, pairs.source)
        )
        first, put = first[:, None], put[:, None]
    position = torch.arange(base.shape[1]).expand(base.shape)
    if change == "here":
        to, taken, weight = first, first, torch.ones(len(base), 1)
        read = position == first
    else:
        last = first[:, None]
        read = (position >= last) & (position <= last + more[:, None])
        moved = {"prefix": position <= last, "state": position == last}.get(change, read)
        to = torch.where(moved, position, -1)
        carried = change.startswith("carried")
        put = taken = last.expand(base.shape) if carried else position
        weight = torch.ones(base.shape)
        if change == "carried in proportion":
            weight = (last + 1) / (position + 1)
    target = torch.zeros(*base.shape, len(answers), dtype=torch.bool)
    target[read] = torch.as_tensor(np.concatenate([future.allowed for future in futures]))
    units = np.stack([pairs.base, pairs.source], axis=1)
    part, tokens = torch.as_tensor(pairs.part), torch.as_tensor(answers)
    return Cases(base, source, units, to, put, taken, weight, read, target, tokens, part)
