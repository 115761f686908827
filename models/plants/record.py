"""plan.json: what is known of a planted network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from models.runs.records import AS_WRITTEN, read_record

PLAN = "plan.json"


@with_config(AS_WRITTEN)
class PlanRecord(TypedDict):
    """What other tools read of the file."""

    program: str
    rule: str
    heads: list[str]
    mlps: list[str]
    edges: list[list[str]]
    variables: list[dict[str, Any]]
    verdict: str


def read_plan(run: Path) -> PlanRecord | None:
    """The plan of a run's folder; None for a network that nobody planted.

    Raises:
        UserError: the file is damaged.
    """
    if not (run / PLAN).exists():
        return None
    return read_record(run / PLAN, PlanRecord, "plant the network again")
