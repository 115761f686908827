"""Training lines in the order of what they did, by every method, without any training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analyses.answers import Progress, quiet
from analyses.options.training import InfluenceMethod
from analyses.questions.training.of_lines.values import (
    check_answers,
    losses,
    margins_of_each,
    target_words,
)
from analyses.questions.training.of_lines.views import METHODS, Found, Training
from analyses.words import given
from models.base import LanguageModel
from models.languages import FormalLanguage, Words
from models.languages.disfluencies import said_and_meant
from models.runs.run import Run
from models.training.without_lines import lines_of

NAMED: dict[InfluenceMethod, str] = dict(
    zip(("dot", "cosine", "fisher", "ek-fac", "tracin"), METHODS, strict=True)
)
Lists = dict[InfluenceMethod, pd.DataFrame]
"""A table of lines for each method."""


def for_word(run: Run, text: str, seed: int = 0, progress: Progress = quiet) -> Lists:
    """Each line's addition to the log odds of the right answer on a word, the most first.

    Columns: line, label, influence, untrained (the same at the first weights). The methods differ
    in their units, and so do the two columns.

    Raises:
        UserError: see ``lines_of``; or symbols are hidden or tagged; or the word is empty or has
            an unknown symbol.
    """
    check_answers(run)
    word = given(run.language, text, ())
    scores = _found(run, seed, run.language.vocabulary.words([word]), progress)
    lines = _lines(run)
    tables: Lists = {}
    for name, method in NAMED.items():
        trained, untrained = (scores[model, method][0] for model in ("trained", "untrained"))
        table = lines.assign(influence=trained, untrained=untrained)
        tables[name] = table.sort_values("influence", ascending=False, ignore_index=True)
    return tables


def suspects(run: Run, targets: int, seed: int = 0, progress: Progress = quiet) -> Lists:
    """The lines whose labels may be wrong, the likeliest first.

    A line with a wrong label often has to be learned by heart: it adds most to its own likelihood.
    The gradient cosine has no such list: that of a line with itself is 1.

    Columns: line, label, truth (the label by the language's rule; not for a corpus, whose rule
    nobody knows), itself (what a line adds to its own log likelihood), harm (what it takes from the
    log odds of the right answer on words that are no lines, on average), untrained (itself, at the
    first weights), loss (of the line, in nats; it needs no gradients).

    Raises:
        UserError: see ``lines_of`` and ``target_words``.
    """
    words = target_words(run, targets)
    scores = _found(run, seed, words, progress)
    lines = _lines(run)
    if isinstance(run.language, FormalLanguage):
        heard, _ = said_and_meant(lines_of(run), run.language)
        lines["truth"] = np.where(run.language.labels(heard), "in", "out")
    with torch.no_grad():
        lost = losses(run, run.model(), lines_of(run)).numpy()
    tables: Lists = {}
    for name, method in NAMED.items():
        if name == "cosine":
            continue
        trained = scores["trained", method]
        table = lines.assign(
            itself=np.diag(trained[len(words) :]),
            harm=-trained[: len(words)].mean(axis=0),
            untrained=np.diag(scores["untrained", method][len(words) :]),
            loss=lost,
        )
        tables[name] = table.sort_values("itself", ascending=False, ignore_index=True)
    return tables


def _lines(run: Run) -> pd.DataFrame:
    heard, labels = said_and_meant(lines_of(run), run.language)
    lines = [" ".join(word) for word in run.language.vocabulary.decoded(heard)]
    return pd.DataFrame({"line": lines, "label": np.where(labels, "in", "out")})


def _found(run: Run, seed: int, words: Words, progress: Progress) -> Found:
    """The influence on the words, then on the lines themselves."""
    steps = [step for step in run.steps() if step <= run.step]
    training = Training(run, steps, [run.model(step) for step in steps], lines_of(run), seed)

    def values(model: LanguageModel) -> Iterator[Tensor]:
        return margins_of_each(run, model, words)

    return training.influences(values, progress)
