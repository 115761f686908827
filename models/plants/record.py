"""plan.json: what is known of a planted network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, with_config
from typing_extensions import TypedDict

from models.runs.records import AS_WRITTEN, read_record

PLAN = "plan.json"


VariableRecord = TypedDict(
    "VariableRecord",
    {
        "name": str,
        "kind": str,
        "made by": str,
        "reads": list[str],
        "directions": Annotated[list[list[float]], Field(min_length=1)],
    },
)
"""A variable of the program: the part that makes it ("embed", "L0H1" or "L0 mlp"), what it reads,
and the direction of each of its dimensions in the stream."""


@with_config(AS_WRITTEN)
class PlanRecord(TypedDict):
    """The part of the file that other tools read."""

    program: str
    rule: str
    heads: list[str]
    mlps: list[str]
    edges: list[list[str]]
    dials: dict[str, Any]
    variables: list[VariableRecord]
    verdict: str


def read_plan(run: Path) -> PlanRecord | None:
    """The plan of a run's folder; None for a network that nobody planted.

    Raises:
        UserError: the file is damaged.
    """
    if not (run / PLAN).exists():
        return None
    return read_record(run / PLAN, PlanRecord, "plant the network again")
