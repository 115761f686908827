"""Training lines in the order of what they did, without any training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from analyses.answers import Progress, quiet
from analyses.options.influence import Influence as Asked
from analyses.options.influence import InfluenceMethod
from analyses.questions.influence.values import margins_of_each, target_words
from analyses.questions.influence.views import METHODS, Training
from analyses.words import given
from models.base import LanguageModel
from models.languages import Words
from models.languages.disfluencies import said_and_meant
from models.runs.run import Run
from models.training.without_lines import lines_of

NAMED: dict[InfluenceMethod, str] = dict(
    zip(("dot", "cosine", "fisher", "ek-fac", "tracin"), METHODS, strict=True)
)


def for_word(run: Run, asked: Asked, progress: Progress = quiet) -> pd.DataFrame:
    """What each line adds to the log odds of the right answer on ``asked.word``, the most first.

    Columns: line, label, influence.
    """
    word = given(run.language, asked.word, ())
    words = run.language.vocabulary.words([word])
    influence = _influence(run, asked, words, progress)
    table = _lines(run).assign(influence=influence[0])
    return table.sort_values("influence", ascending=False, ignore_index=True)


def suspects(run: Run, asked: Asked, progress: Progress = quiet) -> pd.DataFrame:
    """The lines whose labels may be wrong, the likeliest first.

    A line with a wrong label often has to be learned by heart: it adds most to its own likelihood.

    Columns: line, label, itself (what a line adds to its own log likelihood), harm (what it takes
    from the log odds of the right answer on words that are no lines, on average).
    """
    words = target_words(run, asked.targets)
    influence = _influence(run, asked, words, progress)
    own = np.diag(influence[len(words) :])
    table = _lines(run).assign(itself=own, harm=-influence[: len(words)].mean(axis=0))
    return table.sort_values("itself", ascending=False, ignore_index=True)


def _lines(run: Run) -> pd.DataFrame:
    heard, labels = said_and_meant(lines_of(run), run.language)
    decoded = (
        run.language.vocabulary.decode(ids[:length])
        for ids, length in zip(heard.ids, heard.lengths, strict=True)
    )
    return pd.DataFrame(
        {"line": [" ".join(word) for word in decoded], "label": np.where(labels, "in", "out")}
    )


def _influence(
    run: Run, asked: Asked, words: Words, told: Progress
) -> Float[np.ndarray, "target line"]:
    """The influence on the words, then on the lines themselves, by the method that was asked."""
    steps = [step for step in run.steps() if step <= run.step]
    training = Training(run, steps, [run.model(step) for step in steps], lines_of(run), asked.seed)

    def values(model: LanguageModel) -> Iterator[Tensor]:
        return margins_of_each(run, model, words)

    return training.influences(values, told)["trained", NAMED[asked.method]]
