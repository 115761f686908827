"""The record of each question: how often it claims something of networks whose truth is known.

`lab score --null` counts it; the counts lie beside this file.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from interp.statistics import brackets, wilson

NOTHING = "nothing to find"
FILE = Path(__file__).with_name("track_record.csv")
"""One row per question and truth. Columns: question, networks (what is there in them), claimed (of
how many of them something is claimed), count."""


@cache
def _rows() -> list[dict[str, str]]:
    with FILE.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def track_record(name: str) -> str:
    """The record of a question in one sentence per kind of networks, those with nothing to find
    first; "" of a question that was not on trial."""
    rows = [row for row in _rows() if row["question"] == name]
    rows.sort(key=lambda row: row["networks"] != NOTHING)
    told = [
        f"This question claims something of {int(row['claimed']) / int(row['count']):.0%}"
        f"{brackets(*wilson(int(row['claimed']), int(row['count'])), '.0%')} of networks with "
        f"{row['networks']} ({row['claimed']} of {row['count']})."
        for row in rows
    ]
    if rows and not any(int(row["claimed"]) for row in rows):
        told.append("It claimed nothing at all: so few false claims do not speak for it.")
    return " ".join(told)
