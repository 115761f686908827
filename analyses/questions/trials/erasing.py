"""Erasure: which words are still right when a variable cannot be read any more?

The trials themselves are ``interp.probing.erasure_trials``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.questions.inside.probing import targets
from analyses.words import ANALYSIS_SEED, WordTensors, sample_window
from interp.model import activations, sites_of
from interp.probing.erasure_trials import Right, erasure_trials
from models.base import LanguageModel
from models.languages import Sample
from models.runs.run import Run
from models.training.evaluation import verdicts


def _asked_words(run: Run, count: int, seed: int) -> Sample:
    """Different words to get right: members where every position is taught, else members and
    others."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed, 1])  # other words than those that fit erasers
    language = run.language
    lengths = language.lengths(run.config.max_n)
    label = None if run.objective.verdict_alone else True
    drawn = language.sample(rng, count, lengths, label, split="test")
    first = np.sort(np.unique(drawn.words.ids, axis=0, return_index=True)[1])
    return drawn[first]


def _judge(run: Run, model: LanguageModel, sample: Sample) -> Right:
    """A function that takes hooks and says which words are right with them: whether all their next
    symbols are, or their verdict."""
    objective = run.objective
    truth = objective.truth(run.language, sample.words, model.config.readout, model.device)

    @torch.no_grad()
    def right(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, " batch"]:
        logits = model.run_with_hooks(truth.tokens, fwd_hooks=list(hooks))
        if objective.verdict_alone:
            hits = verdicts(model, logits, sample.words) == sample.labels
        else:
            hits = objective.exact(logits, truth)
        return hits.astype(float)

    return right


def erasure(
    run: Run,
    model: LanguageModel,
    words: int,
    seed: int,
    progress: Callable[[str], None],
) -> pd.DataFrame:
    """The rows of the experiment "erasure" in ``analyses.questions.inside.interventions``.

    One half of some fresh words of the window fits erasers and probes, the other half scores the
    probes. The words that the model should get right are different ones.
    """
    sample = sample_window(run, words, seed)
    states = targets(run.language, sample.words)
    labels = {hook: site for site, hook in sites_of(model).items()}
    table = erasure_trials(
        activations(model, WordTensors.of(sample.words).tokens, list(labels)),
        {name: states[name] for name in run.language.main_variables},
        np.arange(words) % 2 == 0,
        _judge(run, model, _asked_words(run, words // 2, seed)),
        seed,
        lambda hook: progress(labels[hook]),
    )
    return table.assign(site=table["site"].map(labels)) if len(table) else table
