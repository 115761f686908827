"""Further tests with the state of a language: steering to a state, and causal scrubbing.

The trials themselves are ``interp.causal.alignment`` and ``interp.causal.scrubbing``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from analyses.questions.trials.cases import drawn_cases
from analyses.questions.trials.exchanging import CHOOSE, SCORE, exchange_sites
from analyses.questions.trials.prefixes import Prefixes, answers_of
from analyses.words import ANALYSIS_SEED
from interp.causal.alignment import Cases, answered
from interp.causal.scrubbing import scrubbed
from interp.model import activations
from interp.probing.steering import random_direction
from interp.statistics import crossed_bootstrap
from models.base import LanguageModel
from models.runs.run import Run

STEERED, RANDOM_STATE = "state means", "random direction, as far"
SAME = "same {}"
DRAWS = 2  # of random directions


def state_steering(
    run: Run,
    model: LanguageModel,
    prefixes: Prefixes,
    seed: int,
    progress: Callable[[str], None] = lambda site: None,
) -> pd.DataFrame:
    """The rows of the method "state means" in ``analyses.questions.inside.interventions``.

    The means are those of the prefixes that fit. A state without one is left out.
    """
    fit, choose, score = prefixes.parts(seed)
    tokens, at = _read(run, model, prefixes)
    number = np.unique(prefixes.states, axis=0, return_inverse=True)[1].reshape(-1)
    tables = []
    for split, among, count in (("choose", choose, CHOOSE), ("score", score, SCORE)):
        cases = drawn_cases(run, model, prefixes, among, "here", count, seed)
        if cases is None:
            continue
        bases, wanted = number[cases.units[:, 0]], _wanted(prefixes, cases, number)
        valid = np.isin(bases, number[fit]) & np.isin(wanted, number[fit])
        if not valid.any():
            continue
        for site, hook in exchange_sites(model).items():
            progress(f"{site}, steered to a state")
            x = activations(model, tokens, [hook])[hook][torch.arange(len(tokens)), at].double()
            means = torch.stack([x[fit[number[fit] == s]].mean(dim=0) for s in np.unique(number)])
            move = (means[wanted] - means[bases]).nan_to_num()
            ways = {STEERED: [move], RANDOM_STATE: [_turned(move, d) for d in range(DRAWS)]}
            right = np.stack(
                [
                    np.mean([_moved(model, hook, cases, shift) for shift in moves], axis=0)
                    for moves in ways.values()
                ],
                axis=1,
            )
            value, low, high = crossed_bootstrap(right[valid], cases.units[valid])
            table = pd.DataFrame({"method": list(ways), "value": value, "low": low, "high": high})
            units = len(np.unique(cases.units[valid]))
            tables.append(table.assign(site=site, split=split, words=int(valid.sum()), units=units))
    if not tables:
        return pd.DataFrame()
    table = pd.concat(tables, ignore_index=True)
    variable = ", ".join(prefixes.variables)
    return table.assign(variable=variable, amount=1, measure="next symbols")


def _wanted(
    prefixes: Prefixes, cases: Cases, number: Int[np.ndarray, " prefix"]
) -> Int[np.ndarray, " case"]:
    """The number of the state of each base with the exchanged variable of the source."""
    base, source = cases.units.T
    wanted, part = prefixes.states[base].copy(), cases.part.numpy()
    rows = np.arange(len(base))
    wanted[rows, part] = prefixes.states[source, part]
    numbers = dict(zip(map(tuple, prefixes.states.tolist()), number.tolist(), strict=True))
    return np.array([numbers[state] for state in map(tuple, wanted.tolist())])


def _turned(move: Float[Tensor, "case d"], seed: int) -> Float[Tensor, "case d"]:
    """The move, as far, but all in one random direction."""
    direction = random_direction(move[0], seed)
    return move.norm(dim=1, keepdim=True) * direction / direction.norm().clamp_min(1e-12)


def _moved(
    model: LanguageModel, hook: str, cases: Cases, move: Float[Tensor, "case d"]
) -> Bool[np.ndarray, " case"]:
    """In which cases the answers are right once the activation at the position is moved."""
    moved = torch.zeros(*cases.base.shape, move.shape[1])
    moved[torch.arange(len(moved)), cases.to[:, 0]] = move.float()
    return answered(model, hook, cases, moved, lambda whole, part: whole)


def scrubbing(
    run: Run,
    model: LanguageModel,
    prefixes: Prefixes,
    seed: int,
    progress: Callable[[str], None] = lambda site: None,
) -> pd.DataFrame:
    """The rows of the experiment "scrubbing" in ``analyses.questions.inside.interventions``.

    Each set of next symbols has the same weight, however many prefixes have it.
    """
    tokens, at = _read(run, model, prefixes)
    state = np.unique(prefixes.states, axis=0, return_inverse=True)[1].reshape(-1)
    behaviour = np.array([prefixes.behaviours[tuple(s)] for s in prefixes.states.tolist()])
    variable = ", ".join(prefixes.variables)
    hypotheses = {
        SAME.format(variable): state,
        SAME.format("next symbols"): behaviour,
        SAME.format("position"): prefixes.lengths,
        "arbitrary classes": np.random.default_rng([ANALYSIS_SEED, seed]).permutation(state),
    }
    answers, target = answers_of(run), torch.as_tensor(prefixes.allowed).float()

    def loss(logits: Float[Tensor, "word d_vocab"]) -> Float[Tensor, " word"]:
        scores = logits[:, answers].cpu()
        return binary_cross_entropy_with_logits(scores, target, reduction="none").sum(dim=1)

    weights = 1 / np.bincount(behaviour)[behaviour]
    tables = []
    for site, hook in exchange_sites(model).items():
        progress(f"{site}, scrubbed")
        table = scrubbed(model, hook, tokens, at, loss, hypotheses, weights, seed)
        tables.append(table.assign(site=site))
    table = pd.concat(tables, ignore_index=True).assign(variable=variable, amount=1, split="all")
    return table.assign(units=table["words"])


def _read(
    run: Run, model: LanguageModel, prefixes: Prefixes
) -> tuple[Int[Tensor, "prefix pos"], Int[Tensor, " prefix"]]:
    """The prefixes as tokens, and where the answers after each of them are read."""
    words = run.language.vocabulary.words(prefixes.words)
    return torch.as_tensor(words.tokens), model.verdict_positions(torch.as_tensor(words.lengths))
