"""Does a rule hold on longer words? The network is asked words that it accepts, and near misses.

A rule that was learned from words up to a length may fail beyond it, and random words do not show
it: hardly any of them comes close to being accepted. Here words are drawn from the rule itself, and
then changed by one edit: a symbol more, less or another, or two neighbours in the other order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.envelope import Constraint, counts
from interp.automata.equivalence import Word, in_order
from interp.automata.extraction import Accepts, run

WORDS, NEAR_MISSES = 100, 400
"""So many times a word is drawn, and edited, at each length; equal words are asked once."""
LENGTHS = 4
"""Words are drawn at so many lengths, the longest that the rule accepts words of."""
MOST = 50_000
"""The most states and sums that are looked at after a number of symbols; longer words of a rule
that has more are not drawn."""
EXAMPLES = 3
"""So many words on which rule and network disagree are shown."""
Node = tuple[Any, tuple[int, ...]]  # a state, and the sums of the equations so far


@dataclass(frozen=True)
class Claim:
    """A rule that is put to the test.

    Attributes:
        dfa: a complete automaton.
        symbols: the alphabet.
        constraints: equations that the counts of a word obey besides, if the rule counts.
    """

    dfa: DFA
    symbols: tuple[str, ...]
    constraints: tuple[Constraint, ...] = ()

    def __call__(self, words: Sequence[Word]) -> Bool[np.ndarray, " words"]:
        """The rule's verdicts on words."""
        right = counts(words, self.symbols) @ self.weights == self.goal
        return run(self.dfa, words) & right.all(axis=1)

    @property
    def weights(self) -> np.ndarray:
        """The weight of every symbol in every equation, [symbols, equations]."""
        rows = [equation.weights for equation in self.constraints]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.symbols)).T

    @property
    def goal(self) -> tuple[int, ...]:
        """The sum that every equation must reach."""
        return tuple(equation.constant for equation in self.constraints)


def near_misses(
    accepts: Accepts, claim: Claim, lengths: Sequence[int], seed: int = 0
) -> pd.DataFrame:
    """The network's verdicts on words of a rule, and on words one edit away that it rejects.

    Args:
        accepts: the network's verdicts on a batch of words.
        claim: the rule.
        lengths: rising. A row's words have up to so many symbols, and those that the rule accepts
            have more than the length before.
        seed: seed of the draws.

    Returns:
        A row per length and kind ("accepted by the rule", "one edit away"), if there are such
        words: words, agree (the number of words on which network and rule agree), examples (the
        shortest words on which they do not).
    """
    rng = np.random.default_rng([seed, 0xED17])
    rows = []
    for shorter, length in pairwise([lengths[0] // 2, *lengths]):
        inside = _members(claim, range(shorter + 1, length + 1), WORDS, rng)
        near = _edited(inside, claim.symbols, rng) if inside else set()
        short = [word for word in in_order(near) if 0 < len(word) <= length]
        outside = [word for word, yes in zip(short, claim(short), strict=True) if not yes]
        for kind, words in (("accepted by the rule", inside), ("one edit away", outside)):
            if words:
                right = accepts(words) == (words is inside)
                wrong = [word for word, fine in zip(words, right, strict=True) if not fine]
                about = {"words": len(words), "agree": int(right.sum())}
                rows.append({"length": length, "kind": kind, **about, "examples": wrong[:EXAMPLES]})
    return pd.DataFrame(rows, columns=["length", "kind", "words", "agree", "examples"])


def _members(
    claim: Claim, lengths: Sequence[int], count: int, rng: np.random.Generator
) -> list[Word]:
    """Random words that a rule accepts, in order and each once.

    They have the longest of the lengths of which there are any, and are drawn evenly among the
    words of a length.
    """
    ways = _ways(claim, max(lengths))
    ends: dict[int, dict[Node, float]] = {
        length: {(q, sums): ways[length][q, sums] for q, sums in ways[length]
                 if q in claim.dfa.final_states and sums == claim.goal}
        for length in sorted(lengths, reverse=True)
        if length < len(ways)
    }  # fmt: skip
    some = [length for length, nodes in ends.items() if nodes][:LENGTHS]
    drawn = rng.choice(some, count).tolist() if some else []
    return in_order(_word(claim, ends[length], ways[:length], rng) for length in drawn)


def _ways(claim: Claim, longest: int) -> list[dict[Node, float]]:
    """The states and sums after every number of symbols, each with the number of words that lead
    there, as a share of the largest. It is cut where they are too many."""
    rows, goal = claim.dfa.transitions, claim.goal
    bounds = _bounds(claim)
    steps = list(zip(claim.symbols, claim.weights.tolist(), strict=True))
    ways: list[dict[Node, float]] = [{(claim.dfa.initial_state, (0,) * len(goal)): 1.0}]
    for left in reversed(range(longest)):
        after: dict[Node, float] = defaultdict(float)
        for (state, sums), number in ways[-1].items():
            for symbol, weights in steps:
                if (target := rows[state][symbol]) in bounds:
                    total = tuple(a + b for a, b in zip(sums, weights, strict=True))
                    after[target, total] += number
        kept = {
            (q, sums): number
            for (q, sums), number in after.items()
            # Else the symbols that are left cannot bring the sums to the goal.
            if all(
                left * low <= end - at <= left * high
                for at, end, (low, high) in zip(sums, goal, bounds[q], strict=True)
            )
        }
        if not kept or len(kept) > MOST:
            break
        largest = max(kept.values())
        ways.append({node: number / largest for node, number in kept.items()})
    return ways


def _bounds(claim: Claim) -> dict[Any, list[tuple[int, int]]]:
    """For each state from which a word can still be accepted, and for each equation, the smallest
    and the largest weight of a symbol that may follow."""
    states = list(claim.dfa.states)
    number = {q: i for i, q in enumerate(states)}
    to = np.array([[number[claim.dfa.transitions[q][s]] for s in claim.symbols] for q in states])
    reach = np.eye(len(states), dtype=bool)
    np.put_along_axis(reach, to, True, axis=1)
    for _ in range(len(states).bit_length()):
        reach = reach @ reach
    alive = reach[:, [number[q] for q in claim.dfa.final_states]].any(axis=1)
    bounds = {}
    for q in np.flatnonzero(alive).tolist():
        after = reach[q] & alive
        weights = claim.weights[after[to[after]].any(axis=0)]
        low, high = (choose(weights, axis=0, initial=0).tolist() for choose in (np.min, np.max))
        bounds[states[q]] = list(zip(low, high, strict=True))
    return bounds


def _word(
    claim: Claim, ends: dict[Node, float], ways: list[dict[Node, float]], rng: np.random.Generator
) -> Word:
    """A random word that leads from the start to one of the ends, drawn from its last symbol on."""
    steps = list(zip(claim.symbols, claim.weights.tolist(), strict=True))
    came: dict[tuple[Node, str], float] = {(node, ""): number for node, number in ends.items()}
    word: list[str] = []
    for layer in reversed(ways):
        (state, sums), symbol = _drawn(came, rng)
        word.append(symbol)
        came = {}
        for one, weights in steps:
            earlier = tuple(a - b for a, b in zip(sums, weights, strict=True))
            for q, row in claim.dfa.transitions.items():
                if row[one] == state and (q, earlier) in layer:
                    came[(q, earlier), one] = layer[q, earlier]
    word.append(_drawn(came, rng)[1])
    return tuple(word[:0:-1])


def _drawn(numbers: dict[tuple[Node, str], float], rng: np.random.Generator) -> tuple[Node, str]:
    chances = np.array(list(numbers.values()))
    return list(numbers)[int(rng.choice(len(chances), p=chances / chances.sum()))]


def _edited(words: Sequence[Word], symbols: Sequence[str], rng: np.random.Generator) -> set[Word]:
    """Words at one random edit: a symbol more, one less, another one, or two neighbours swapped."""
    made: set[Word] = set()
    for index in range(NEAR_MISSES):
        word = words[index % len(words)]
        at, other = int(rng.integers(len(word))), symbols[int(rng.integers(len(symbols)))]
        before, here, after = word[:at], word[at], word[at + 1 :]
        edits = (
            (*before, other, here, *after),
            (*before, here, other, *after),
            (*before, *after),
            (*before, other, *after),
            (*before, *after[:1], here, *after[1:]),
        )
        made.add(edits[int(rng.integers(len(edits)))])
    return made
