"""The plan of a planted network, as it is read back from the file beside its weights."""

from __future__ import annotations

from models.errors import UserError
from models.plants.program import Program, twice
from models.plants.programs import PROGRAMS
from models.plants.record import PLAN, PlanRecord, VariableRecord, read_plan
from models.runs.run import Run


def after(variable: VariableRecord) -> int:
    """Half layers that have passed when a variable is there (``compiler._Place.after``)."""
    layer, _, part = variable["made by"].removeprefix("L").replace("H", " H").partition(" ")
    if not part:
        return 0  # the embedding
    return 2 * int(layer) + (1 if part.startswith("H") else 2)


def program_of(plan: PlanRecord) -> Program:
    """The program itself, with its copies."""
    program, copies = PROGRAMS[plan["program"]](), plan["dials"].get("copies", "one")
    return program if copies == "one" else twice(program, copies)


def plan_of(run: Run) -> PlanRecord | None:
    """The plan of a planted network; None of any other run.

    Raises:
        UserError: the file is damaged, or is the plan of another network.
    """
    plan = read_plan(run.path)
    if plan is None:
        return None
    width = {len(row) for variable in plan["variables"] for row in variable["directions"]}
    planted = plan["program"] in PROGRAMS and plan["program"] == run.config.language
    names = [variable.name for variable in program_of(plan).variables] if planted else []
    records = [variable["name"] for variable in plan["variables"]]
    if names != records or width != {run.config.model.d_model}:
        raise UserError(f"{run.path / PLAN} is not the plan of this network: plant it again")
    return plan
