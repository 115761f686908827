"""The scorecard of a run: each kept answer in a few words, and how far it can be believed."""

from __future__ import annotations

import pandas as pd

from analyses.answers import Answers
from analyses.registry import registered
from models.runs.run import Run


def scorecard(run: Run) -> pd.DataFrame:
    """One row per question that the run keeps an answer to about the checkpoint looked at.

    Columns: question, finding, grade, why.
    """
    answers = Answers.of(run)
    kept = {name: answer for name in registered() if (answer := answers.latest(name)) is not None}
    rows = [
        (name, answer.verdict.short, answer.verdict.grade, answer.verdict.why)
        for name, answer in kept.items()
        if answer.model_hash == answers.model_hash
    ]
    return pd.DataFrame(rows, columns=["question", "finding", "grade", "why"])
