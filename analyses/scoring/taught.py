"""Trained networks whose training lines are known, and trainings that lacked some of them.

OUT/scores/LANGUAGE-trained-sSEED/run     the network: a normal run
OUT/scores/LANGUAGE-trained-sSEED/results what networks say that were trained without some lines
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn.utils import parameters_to_vector

from analyses.answers import Answer, Answers, save
from analyses.options.training import Influence
from analyses.questions.training.of_lines.trainings import halves, margins_after
from analyses.questions.training.of_lines.values import target_words
from analyses.questions.training.of_lines.views import rates
from analyses.scoring.keys import LineKey
from analyses.scoring.paper import LineWords
from models.base import LanguageModel
from models.config import TrainConfig
from models.languages.vocabulary import END_ID
from models.runs.files import locked
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe
from models.training.without_lines import lines_of
from models.transformer.model import HookedTransformer

LINES, TARGETS, TRAININGS = 200, 20, 40
STEPS, BATCH, LONGEST = 400, 32, 10
"""Steps and batch of a training, and the most symbols of its words."""
RUN, KEPT = "run", "taught"


def taught(
    language: str, seed: int, where: Path
) -> tuple[HookedTransformer, HookedTransformer, LineKey]:
    """A trained network, the same before its first step, and what is asked about its lines.

    The first call trains the network and ``TRAININGS`` others on half of its lines; they are kept.

    Args:
        language: one of ``TAUGHT``.
        where: the folder of this network.
    """
    run = _run(language, seed, where / RUN)
    words, lines = target_words(run, TARGETS), lines_of(run)
    kept = halves(len(lines), TRAININGS, seed)
    margins = _margins(run, kept, where)
    steps = run.steps()
    models = [run.model(step) for step in steps]
    weights = torch.stack([parameters_to_vector(m.parameters()).detach() for m in models])
    paper = LineWords(
        tokens=torch.as_tensor(words.tokens),
        token=END_ID,
        at=-1,
        symbols=tuple(run.language.vocabulary.symbols),
        longest=LONGEST,
        seed=seed,
        right=torch.as_tensor(run.language.labels(words)),
        ends=torch.as_tensor(words.lengths),
        lines=torch.as_tensor(lines.tokens),
        labels=torch.as_tensor(run.language.labels(lines)),
        line_ends=torch.as_tensor(lines.lengths),
        weights=weights,
        rates=tuple(rates(run, steps)),
    )
    start = replace(paper, weights=weights[:1], rates=(1.0,))
    key = LineKey("lines", paper, start, margins, kept)
    return _decoder(models[-1]), _decoder(models[0]), key


def small_config(language: str, seed: int, **how: Any) -> TrainConfig:
    """The training of a small network that is taught verdicts.

    Args:
        how: further fields.
    """
    config = recipe(language)
    model = replace(config.model, d_model=32, d_mlp=64)
    return replace(config, seed=seed, model=model, objective="verdict", **how)


def _run(language: str, seed: int, path: Path) -> Run:
    how = {"lines": LINES, "max_n": LONGEST, "steps": STEPS, "batch_size": BATCH}
    with locked(path):
        if not path.exists():
            Run.create(path, small_config(language, seed, learning_rate=1e-3, **how))
        train(Run(path), "cpu")
    return Run(path)


def _margins(run: Run, kept: np.ndarray, where: Path) -> np.ndarray:
    """Margins of networks that were trained on some of the lines, [training, target]."""
    query = {"targets": TARGETS, "trainings": len(kept)}
    if (answer := Answers(where, KEPT, run.model_hash()).asked(query)) is None:
        options = Influence(targets=TARGETS, seed=run.config.seed, workers=1, device="cpu")
        margins = margins_after(run, options, kept, lambda what: None)
        table = pd.DataFrame(margins).rename(columns=str)
        text = f"{len(kept)} trainings of {run.name} on half of its lines."
        answer = save(where, KEPT, text, Answer(table, text, {}, query, run.model_hash()), None)
    return answer.table.to_numpy()


def _decoder(model: LanguageModel) -> HookedTransformer:
    assert isinstance(model, HookedTransformer)
    return model
