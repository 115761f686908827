"""The runs of a folder, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analyses.answers import Answers
from analyses.studies.sweeps.of_run.speed import flawless
from models.errors import UserError
from models.runs.files import is_locked
from models.runs.folders import find_runs
from models.runs.run import Run


def runs_of(folder: Path) -> pd.DataFrame:
    """One row per run.

    Columns: run, language, type (in the Chomsky hierarchy), model, seed, objective, status, step,
    recognition (share of right verdicts in the training window), exact_to (all next-symbol sets are
    right up to this size), flawless_step and flawless_seconds (training until the first evaluation
    without any mistake in the training window; none if there was one in all of them). A run that
    cannot be opened has its fault as its status.
    """
    columns = ["run", "language", "type", "model", "seed", "objective", "status", "step"]
    columns += ["recognition", "exact_to", "flawless_step", "flawless_seconds"]
    table = pd.DataFrame([_row(path) for path in find_runs(folder)], columns=columns)
    whole = ("seed", "step", "exact_to", "flawless_step")
    return table.astype(dict.fromkeys(whole, "Int64") | {"flawless_seconds": "Float64"})


def _row(path: Path) -> dict[str, Any]:
    try:
        run = Run(path)
        metrics, accuracy = run.metrics(), Answers.of(run, "accuracy").current()
        # An answer about chosen lengths does not know the sizes below them.
        accuracy = [kept for kept in accuracy if kept.record.arguments.get("lengths") is None]
        exact_to = accuracy[0].record.findings.get("exact_to") if accuracy else None
        last: Mapping[str, Any] = run.evaluation() or {}
        record, saved = run.record, max(run.steps(), default=0)
        first: Mapping[str, Any] = next((line for line in metrics if flawless(line)), {})
        return {
            "run": run.name,
            "language": run.config.language,
            "type": run.language.chomsky,
            "model": run.config.model.kind or "decoder",
            "seed": run.config.seed,
            "objective": run.config.objective,
            "status": _status(run),
            "step": last.get("step", record.get("selected_step", record.get("steps", saved))),
            "recognition": last.get("recognition"),
            "exact_to": exact_to if isinstance(exact_to, int) else None,
            "flawless_step": first.get("step"),
            "flawless_seconds": first.get("seconds"),
        }
    except UserError as error:
        return {"run": path.name, "status": str(error)}


def _status(run: Run) -> str:
    """ "finished", "training", or "interrupted" where no process works on it any more."""
    if run.record["status"] != "training" or is_locked(run.path):
        return str(run.record["status"])
    # It may have ended between the two looks.
    return "interrupted" if (now := str(Run(run.path).record["status"])) == "training" else now
