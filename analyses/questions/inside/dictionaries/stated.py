"""The truth of any run on a formal language: the state after each prefix, and when it is moved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Int

from analyses.questions.inside.dictionaries.truth import Truth, Variable, facts_of, halves_of
from analyses.questions.inside.probing import alike
from analyses.questions.trials.cases import drawn_cases
from analyses.questions.trials.prefixes import Prefixes, answers_of
from analyses.words import WordTensors, sample_window
from interp.dictionaries.clamping import Clamps
from models.base import LanguageModel
from models.languages import FormalLanguage
from models.runs.run import Run

CASES = 300
"""Moves that are tried with every dictionary."""


def state_truth(run: Run, model: LanguageModel, count: int, seed: int) -> Truth:
    """The hidden variables of the language up to its first violation; each value is a fact."""
    language = run.language
    assert isinstance(language, FormalLanguage)
    words = sample_window(run, count, seed).words
    traced = language.trace(words)
    alive = np.arange(words.tokens.shape[1]) <= words.lengths[:, None]
    alive &= traced["valid"] == 1
    variables: list[Variable] = []
    for name in language.main_variables:
        values = np.where(alive, traced[name], -1)
        if any(alike(values[alive], other.values[alive]) for other in variables):
            continue  # another name for the same
        facts = {int(value): f"{name} = {value}" for value in np.unique(values[alive])}
        variables.append(Variable(name, values, facts))
    numbers, names, fit, score = facts_of(variables, *halves_of(run, words, alive, seed))
    choosing, clamps = _clamps(run, model, numbers, seed)
    return Truth(WordTensors.of(words), names, fit, score, choosing=choosing, clamps=clamps)


def _clamps(
    run: Run, model: LanguageModel, numbers: Mapping[tuple[str, int], int], seed: int
) -> tuple[Clamps, Clamps] | tuple[None, None]:
    """Two sets of cases: a prefix gets the value of another one's variable; right is what the
    language allows in the state that this makes. None if no variables decide alone what may
    follow."""
    pool = Prefixes.of(run, seed)
    if pool is None:
        return None, None
    first, _, second = pool.parts(seed)
    choosing, scored = (_drawn(run, model, pool, at, numbers, seed) for at in (first, second))
    return (None, None) if choosing is None or scored is None else (choosing, scored)


def _drawn(
    run: Run,
    model: LanguageModel,
    pool: Prefixes,
    among: Int[np.ndarray, " some"],
    numbers: Mapping[tuple[str, int], int],
    seed: int,
) -> Clamps | None:
    cases = drawn_cases(run, model, pool, among, "here", CASES, seed)
    if cases is None:
        return None
    base, source = cases.units.T
    moved = [
        tuple(numbers.get((pool.variables[p], int(pool.states[prefix, p])), -1) for prefix in two)
        for p, *two in zip(cases.part.tolist(), base, source, strict=True)
    ]
    off, on = torch.tensor(moved).T
    rows = ((off >= 0) & (on >= 0)).nonzero()[:, 0]
    if not len(rows):
        return None
    at = cases.to[:, 0]
    every = Clamps(
        *(cases.base, at, off, on, at, torch.tensor(answers_of(run))),
        torch.as_tensor(pool.allowed[base]),
        cases.target[torch.arange(len(at)), at],
    )
    return every[rows]
