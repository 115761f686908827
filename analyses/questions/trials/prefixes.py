"""The causal model of a language: its state after a prefix, and which symbols may then follow.

An interchange puts one prefix into the state of another. What is right then is what the language
says of prefixes that really are in this state, now and after every further symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from analyses.words import ANALYSIS_SEED, sample_window
from models.languages import END_ID, Word
from models.languages.counting import CountingLanguage
from models.runs.run import Run

WORDS = 400  # of which prefixes are taken
MOST = 1200  # prefixes: in a language of many symbols nearly all of them differ
LONGEST = 40  # symbols of a prefix, and of what follows it: every training step reads them
State = tuple[int, ...]


@dataclass(frozen=True)
class Future:
    """A continuation of a prefix in some word, up to the first violation of the language.

    Attributes:
        rest: the symbols.
        allowed: the answers that are right after the prefix and after each of these symbols.
    """

    rest: Word
    allowed: Bool[np.ndarray, "step answer"]


@dataclass(frozen=True)
class Prefixes:
    """Different prefixes of words. None violates the language: after that no state has a meaning.

    Attributes:
        words: the prefixes.
        variables: the hidden variables that together are the state.
        states: the values of these variables after each prefix.
        allowed: True for the answers that are right after each prefix.
        ends: may the word end after this prefix?
        futures: the continuations that may follow, by state.
    """

    words: list[Word]
    variables: tuple[str, ...]
    states: Int[np.ndarray, "prefix variable"]
    allowed: Bool[np.ndarray, "prefix answer"]
    ends: Bool[np.ndarray, " prefix"]
    futures: dict[State, list[Future]]

    @classmethod
    def of(cls, run: Run, seed: int) -> Prefixes | None:
        """Prefixes of fresh words of the window; in a counting language, those that reach the last
        block. None where no variables tell by themselves what may follow.

        Where the state is a count, what follows leads to the end of a word.
        """
        language = run.language
        words = sample_window(run, WORDS, seed).words
        traced, allowed = language.trace(words), language.allowed(words)
        inside = np.arange(words.tokens.shape[1]) <= words.lengths[:, None]
        valid = inside & (traced["valid"] == 1)
        last = valid.cumprod(axis=1).sum(axis=1) - 1
        kept = valid & (np.arange(valid.shape[1]) > 0) & (np.arange(valid.shape[1]) <= LONGEST)
        if isinstance(language, CountingLanguage):
            kept &= traced["block"] == language.blocks - 1
        places = {tuple(words.ids[w, :p].tolist()): (w, p) for w, p in np.argwhere(kept)}
        places = dict(list(places.items())[:MOST])
        if not places:
            return None
        at = tuple(np.array(list(places.values())).T)
        sets = allowed[..., answers_of(run)]
        variables = _deciding(run, {name: traced[name][at] for name in traced}, sets[at])
        if not variables:
            return None
        states = np.stack([traced[name][at] for name in variables], axis=1)
        counted = language.variables[variables[0]] == "count"
        futures: dict[State, list[Future]] = {}
        for state, (w, p) in zip(map(tuple, states.tolist()), places.values(), strict=True):
            stop = min(int(last[w]), p + LONGEST)
            if not counted or allowed[w, stop, END_ID]:
                rest = language.vocabulary.decode(words.ids[w, p:stop])
                futures.setdefault(state, []).append(Future(rest, sets[w, p : stop + 1]))
        return cls(
            [language.vocabulary.decode(ids) for ids in places],
            variables,
            states,
            sets[at],
            allowed[*at, END_ID],
            futures,
        )

    @cached_property
    def behaviours(self) -> dict[State, int]:
        """The number of the set of answers that is right in a state, by state."""
        numbers = np.unique(self.allowed, axis=0, return_inverse=True)[1].reshape(-1)
        states = map(tuple, self.states.tolist())
        return dict(zip(states, numbers.tolist(), strict=True))

    @cached_property
    def lengths(self) -> Int[np.ndarray, " prefix"]:
        return np.array([len(word) for word in self.words])

    def parts(self, seed: int) -> tuple[np.ndarray, ...]:
        """Three parts: to fit, to choose, and to score. Each state is spread evenly over them."""
        order = np.random.default_rng([ANALYSIS_SEED, seed]).permutation(len(self.words))
        order = order[np.lexsort(self.states[order].T)]
        return order[::3], order[1::3], order[2::3]


def answers_of(run: Run) -> list[int]:
    """The tokens of which the run was taught whether they may follow."""
    vocabulary = run.language.vocabulary
    return [vocabulary.ids[token] for token in run.objective.tokens(vocabulary)]


def _deciding(
    run: Run, values: dict[str, np.ndarray], sets: Bool[np.ndarray, "prefix answer"]
) -> tuple[str, ...]:
    """The first variable that decides alone what may follow; else all counts, if they do so
    together; else none."""
    names = run.language.main_variables
    counts = [name for name in names if run.language.variables[name] == "count"]
    candidates: Sequence[tuple[str, ...]] = [*((name,) for name in names), tuple(counts)]
    behaviours = len(np.unique(sets, axis=0))
    for some in candidates:
        if some and behaviours > 1:
            states = np.stack([values[name] for name in some], axis=1)
            both = np.concatenate([states, sets], axis=1)
            if len(np.unique(both, axis=0)) == len(np.unique(states, axis=0)):
                return some
    return ()
