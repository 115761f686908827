"""The record of each question: how often it claims something of networks whose truth is known.

`lab score --null` counts it; the counts lie beside this file.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from interp.statistics import brackets, wilson

FILE = Path(__file__).with_name("track_record.csv")
"""One row per question and truth. Columns: question, networks (what is there in them), claimed (of
how many of them something is claimed), count."""


@cache
def _rows() -> list[dict[str, str]]:
    with FILE.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def track_record(name: str) -> str:
    """The record of a question in one sentence; "" of a question that was not on trial."""
    parts = []
    for row in _rows():
        if row["question"] == name:
            claimed, count = int(row["claimed"]), int(row["count"])
            share = f"{claimed / count:.0%}{brackets(*wilson(claimed, count), '.0%')}"
            parts.append(f"of {share} of {count} networks with {row['networks']}")
    return f"On trial this question claimed something {', '.join(parts)}." if parts else ""
