"""What the kept answers of a run say in a few words, and how far each can be believed."""

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
    kept = {name: found for name in registered() if (found := answers.latest(name)) is not None}
    rows = [
        (name, found.verdict.short, found.verdict.grade, found.verdict.why)
        for name, found in kept.items()
        if found.model_hash == answers.model_hash
    ]
    return pd.DataFrame(rows, columns=["question", "finding", "grade", "why"])
