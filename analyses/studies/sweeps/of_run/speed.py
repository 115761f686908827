"""The steps after which a run is without mistakes, and stays so."""

from __future__ import annotations

from models.runs.records import Evaluation
from models.runs.run import Run


def flawless(line: Evaluation) -> bool:
    """Was there no mistake in the training window?"""
    return line["exact"] in (1.0, None) and line["recognition"] == 1.0


def speed(run: Run) -> dict[str, float | None]:
    """The time at which a run became flawless in the training window for good.

    Returns:
        steps, seconds: the training up to the first evaluation from which on no evaluation has a
            mistake; None if the last one has a mistake: it was not trained long enough to tell.
    """
    first = None
    for line in reversed(run.metrics()):
        if not flawless(line):
            break
        first = line
    if first is None:
        return {"steps": None, "seconds": None}
    return {"steps": first["step"], "seconds": first["seconds"]}
