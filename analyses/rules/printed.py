"""The verdicts on the 26 printed Dutch lines, a test that was not drawn by the lab."""

from __future__ import annotations

import pandas as pd

from models.languages import LabelledCorpus, printed_lines
from models.runs.run import Run
from models.training.evaluation import predict


def printed_verdicts(run: Run) -> pd.DataFrame | None:
    """A row per line: group, line, accepted. Only `dieren` has them."""
    if run.language.name != "dieren" or isinstance(run.language, LabelledCorpus):
        return None
    model = run.model()
    return pd.DataFrame(
        [
            {
                "group": group,
                "line": " ".join(word),
                "accepted": predict(model, word, run.objective)[1],
            }
            for group, word in printed_lines()
        ]
    )


def summary(verdicts: pd.DataFrame) -> str:
    """The accepted lines of each group, and the number of verdicts that are the lecture's."""
    accepted = verdicts.groupby("group")["accepted"].agg(["sum", "count"])
    groups = ", ".join(
        f"{g}: {row['sum']} of {row['count']} accepted" for g, row in accepted.iterrows()
    )
    right = int((verdicts["accepted"] == (verdicts["group"] == "A")).sum())
    return f"The 26 printed lines: {groups}; {right} of {len(verdicts)} by their own groups."
