"""The truth of a planted network: its program at every position, and when a variable is moved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from analyses.questions.inside.dictionaries.truth import Truth, Variable, facts_of, halves_of
from analyses.words import WordTensors, sample_window
from interp.dictionaries.clamping import Clamps
from models.languages import END_ID, Word
from models.plants.plans import after, program_of
from models.plants.program import Program, Values
from models.plants.record import PlanRecord, VariableRecord
from models.runs.run import Run

TRIED = 150
"""Moves of each variable that are tried."""
KEPT = 15
"""Moves of each variable that are kept: so many that flip the verdict, and as many that do not."""
PLACES = {"resid_pre": 0, "resid_mid": 1, "attn_out": 1, "resid_post": 2, "mlp_out": 2}
"""The half layers of its block that have passed at a hook of the stream, or of what is added."""
TINY = 1e-6


def planted_truth(run: Run, plan: PlanRecord, count: int, seed: int, hook: str) -> Truth:
    """The variables that are there at a site.

    A category has a fact for each value. A number has one for each sign, if it takes both; else it
    has one for being above the middle of its range. At a hook that is neither the stream nor what
    is added to it, directions and moves are not known.
    """
    words = sample_window(run, count, seed).words
    read = run.language.vocabulary.decoded(words)
    program = program_of(plan)
    traced = [program.trace(word) for word in read]
    inside = np.arange(words.tokens.shape[1]) <= words.lengths[:, None]
    here, half = at_site(plan, hook)
    tokens = run.language.vocabulary.tokens
    places = halves_of(run, words, inside, seed)
    fits = np.zeros_like(inside)
    fits[places[0]] = True
    made = [_Planned.of(record, traced, inside, fits, tokens) for record in here]
    numbers, names, fit, score = facts_of([planned.variable for planned in made], *places)
    tensors = WordTensors.of(words)
    if half is None:
        return Truth(tensors, names, fit, score)
    before = [record["name"] for record in plan["variables"] if after(record) <= half]
    moves = _Moves(program, read, traced, before, made, numbers)
    choosing, clamps = (moves.drawn(tensors, np.unique(part.word), seed) for part in (fit, score))
    return Truth(
        *(tensors, names, fit, score),
        directions=torch.tensor([row for record in here for row in record["directions"]]),
        signed=torch.tensor([planned.signed for planned in made for _ in planned.varies]),
        varies=torch.tensor([one for planned in made for one in planned.varies]),
        choosing=choosing,
        clamps=clamps,
    )


def at_site(plan: PlanRecord, hook: str) -> tuple[list[VariableRecord], int | None]:
    """The variables at a hook, and how many half layers have passed there; None where it is neither
    the stream nor what is added to it."""
    place = re.fullmatch(rf"blocks\.(\d+)\.hook_({'|'.join(PLACES)})", hook)
    if place is None:
        layer = re.match(r"blocks\.(\d+)\.", hook)
        last = 2 * int(layer[1]) + 2 if layer else np.inf
        return [record for record in plan["variables"] if after(record) <= last], None
    half = 2 * int(place[1]) + PLACES[place[2]]
    alone = place[2].endswith("out")
    there = [(record, after(record)) for record in plan["variables"]]
    return [v for v, at in there if at == half or (at < half and not alone)], half


@dataclass(frozen=True)
class _Planned:
    """A variable at a site.

    Attributes:
        variable: the numbers of its values, and the facts.
        typical: the variable after a move to each value, by the value's number: the mean vector
            where it has this value, or 0 if the value needs no latent.
        varies: does each dimension vary where dictionaries are trained?
        signed: is it a number of both signs?
        given: is it the token or the position?
    """

    variable: Variable
    typical: Mapping[int, Float[np.ndarray, " size"]]
    varies: Sequence[bool]
    signed: bool
    given: bool

    @classmethod
    def of(
        cls,
        planned: VariableRecord,
        traced: Sequence[Mapping[str, Values]],
        inside: Bool[np.ndarray, "word pos"],
        fit: Bool[np.ndarray, "word pos"],
        tokens: Sequence[str],
    ) -> _Planned:
        name, size = planned["name"], len(planned["directions"])
        all_values = np.zeros((*inside.shape, size))
        for row, values in zip(all_values, traced, strict=True):
            row[: len(values[name])] = values[name]
        occurring = all_values[inside]
        signed = size == 1 and occurring.min() < -TINY and occurring.max() > TINY
        if size > 1:
            numbers = np.where(all_values.sum(axis=2) > 0.5, all_values.argmax(axis=2), size)
            called = tokens if size == len(tokens) else list(map(str, range(size)))
            facts = {value: f"{name} = {called[value]}" for value in range(size)}
        elif signed:
            numbers = 1 + (all_values[..., 0] > TINY) - (all_values[..., 0] < -TINY)
            facts = {0: f"{name} < 0", 2: f"{name} > 0"}
        else:
            middle = (occurring.min() + occurring.max()) / 2
            numbers = (all_values[..., 0] > middle).astype(int)
            flag = bool(np.isin(occurring.round(6), (0, 1)).all())
            facts = {1: name if flag else f"{name} is high"}
        numbers = np.where(inside, numbers, -1)
        typical = {
            int(value): all_values[fit & (numbers == value)].mean(axis=0) * (value in facts)
            for value in np.unique(numbers[fit])
        }
        varies = np.ptp(all_values[fit], axis=0) > TINY
        given = after(planned) == 0
        return cls(Variable(name, numbers, facts), typical, varies.tolist(), bool(signed), given)


@dataclass(frozen=True)
class _Moves:
    """Draws moves of variables.

    Attributes:
        words, traced: the words, and the values of all variables in each.
        before: the variables that are made at the site or before it: a move leaves them as they
            are.
        made: the variables that are moved.
        numbers: the number of each fact, by variable and value.
    """

    program: Program
    words: Sequence[Word]
    traced: Sequence[Mapping[str, Values]]
    before: Sequence[str]
    made: Sequence[_Planned]
    numbers: Mapping[tuple[str, int], int]

    def drawn(
        self, tensors: WordTensors, among: Int[np.ndarray, " some"], seed: int
    ) -> Clamps | None:
        """Moves in some of the words. Half of them are where the verdict is read, because others
        matter less often. None if there are none."""
        rng = np.random.default_rng([seed, 1])
        cases: list[tuple[int, int, int, int, bool, bool]] = []
        for planned in self.made:
            left = {True: KEPT, False: KEPT}
            for _ in range(TRIED):
                case = self._tried(planned, int(rng.choice(among)), rng)
                if case is not None and left[flips := case[4] != case[5]]:
                    left[flips] -= 1
                    cases.append(case)
        if not cases:
            return None
        word, at, off, on, was, becomes = (torch.tensor(part) for part in zip(*cases, strict=True))
        read = torch.zeros_like(word) if self.program.ahead else tensors.last[word]
        answers = torch.tensor([END_ID])
        return Clamps(
            tensors.tokens[word], at, off, on, read, answers, was[:, None], becomes[:, None]
        )

    def _tried(
        self, planned: _Planned, word: int, rng: np.random.Generator
    ) -> tuple[int, int, int, int, bool, bool] | None:
        """One move: word, position, the facts that end and begin, the verdict without and with."""
        traced, name = self.traced[word], planned.variable.name
        end = 0 if self.program.ahead else len(self.words[word])
        at = end if rng.random() < 0.5 else int(rng.integers(len(self.words[word]) + 1))
        old = int(planned.variable.values[word, at])
        new = int(rng.choice(list(planned.typical)))
        off, on = (self._fact(planned, value) for value in (old, new))
        if old == new or off is None or on is None:
            return None
        if (at == 0 and (planned.given or not self.program.ahead)) or (planned.given and new == 0):
            return None  # heads rest on BOS, and must find it as it is
        given = {name: traced[name] for name in self.before}
        given[name] = given[name].copy()
        given[name][at] = planned.typical[new]
        verdict = self.program.verdict.name
        moved = self.program.trace(self.words[word], given)[verdict]
        was, becomes = (bool(values[end, 0] > 0.5) for values in (traced[verdict], moved))
        return word, at, off, on, was, becomes

    def _fact(self, planned: _Planned, value: int) -> int | None:
        """The number of a value's fact; -1 if it needs no latent, None if it is too rare."""
        if value not in planned.variable.facts:
            return -1
        return self.numbers.get((planned.variable.name, value))
