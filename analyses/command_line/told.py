"""How the commands give tables."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from analyses.console import OUT, shown, table_of
from analyses.options.shared import Shows


def told(
    options: Shows, name: str, table: pd.DataFrame, said: str, brief: pd.DataFrame | None = None
) -> None:
    """An answer as JSON, as CSV, or as a table with a sentence.

    Args:
        name: of the rows in the JSON.
        brief: what is printed in place of the table.
    """
    if not shown(options, table, {name: as_rows(table), "answer": said}):
        OUT.print(table_of(table if brief is None else brief))
        OUT.print(said)


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as JSON has it: null for what is missing."""
    return json.loads(table.to_json(orient="records", force_ascii=False))
