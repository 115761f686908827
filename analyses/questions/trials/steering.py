"""Steering: does the end move by k if k is added to a counter?

The trials themselves are ``interp.probing.steering_trials``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.questions.trials.last_blocks import LastBlocks, states_of_others
from interp.model import activations, sites_of
from interp.probing.steering import direction
from interp.probing.steering_trials import SteeringTrials
from models.base import LanguageModel
from models.languages.counting import CountingLanguage
from models.runs.run import Run

FURTHEST = 5  # the largest k that a counter is moved by
RANDOM = {
    "added": "random direction",
    "added in proportion": "random direction in proportion",
}
"""The control of each way to move a counter."""


def steering_refusal(run: Run) -> str | None:
    """Why no counter can be moved; None where one can be moved."""
    language = run.language
    if not isinstance(language, CountingLanguage) or language.blocks < 2:
        return f"{language.name} has no two blocks whose difference could be moved"
    if run.config.model.sees_ahead:
        return f"{run.name} is an encoder: it sees the whole word at once, so no end can move"
    if _reach(run) < 1:
        return f"the training window ends at n = {run.config.max_n}: too early to move an end"
    return None


def _reach(run: Run) -> int:
    """The largest k such that an end moved by k, up or down, stays in the training window."""
    return min(FURTHEST, (run.config.max_n - 1) // 2)


def steering(
    run: Run, model: LanguageModel, progress: Callable[[str], None] = lambda site: None
) -> pd.DataFrame:
    """The rows of the experiment "steering" in ``analyses.questions.inside.interventions``."""
    language = run.language
    assert isinstance(language, CountingLanguage)
    furthest = _reach(run)
    ks = np.array([k for k in range(-furthest, furthest + 1) if k])
    sizes = np.arange(furthest + 1, run.config.max_n - furthest + 1)
    words = LastBlocks.of(language, sizes, 2 * furthest)
    members = LastBlocks.of(language, np.arange(1, run.config.max_n + 1), 0)
    # The states of these words stand in for moved ones.
    others = LastBlocks.of(language, members.n, 4 * furthest)
    sites = sites_of(model)
    seen = activations(model, members.tokens, list(sites.values()))
    states = activations(model, others.tokens, list(sites.values()))
    # A recurrent network goes on from a moved state: there the counter is moved once.
    recurrent = run.config.model.family.recurrent
    first = torch.arange(words.tokens.shape[1]) == words.start[:, None]
    at = first if recurrent else words.last
    k = torch.as_tensor(ks).repeat_interleave(len(sizes))[:, None]
    amount = (k * at.repeat(len(ks), 1)).double()
    length = torch.arange(1, words.tokens.shape[1] + 1)  # of the word with BOS, at each position
    trials = SteeringTrials(ks, _ends_under(model, words, len(ks)))
    tables = []
    for site, hook in sites.items():
        progress(site)
        x, d = seen[hook][members.last], members.difference[members.last]
        position = torch.arange(members.last.shape[1]).expand_as(members.last)[members.last]
        ways = {"added": (direction(x, d), amount)}
        if not recurrent:
            ways["added in proportion"] = (direction(x, d / (position + 1)), amount / length)
        for method, (way, scale) in ways.items():
            names = {"steered": method, "random direction": RANDOM[method]}
            table = trials.along(hook, way, scale)
            tables.append(table.assign(method=table["method"].map(names), site=site))
        instead = trials.by(hook, states_of_others(words, others, states[hook], k[:, 0], at))
        tables.append(instead.assign(method="state of another word", site=site))
    variable = "-".join(language.vocabulary.symbols[-2:])
    return pd.concat(tables, ignore_index=True).assign(variable=variable)


def _ends_under(
    model: LanguageModel, words: LastBlocks, copies: int
) -> Callable[..., Float[np.ndarray, "k batch"]]:
    """A function from hooks to where each copy of the words ends."""
    tokens = words.tokens.repeat(copies, 1)

    @torch.no_grad()
    def ends(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, "k batch"]:
        return words.ends(model.run_with_hooks(tokens, fwd_hooks=list(hooks)))

    return ends
