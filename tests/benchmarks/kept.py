"""The figures that are kept, so that a slowdown is seen: ``kept.json``, in git.

A ratio is a property of the code, of the peers' versions and of the processor. So the file holds
one record per processor, the newest; git remembers the older ones. ``make bench`` writes
``last.json``, which git ignores, and tells what has changed since the record. With --keep the last
figures become the record, and the table that the page on speed is written from.

A change is told if the quartiles of the two ratios do not overlap, if the medians are further apart
than ``DRIFT``, and if a second measurement says so too. Quartiles alone are not enough. They show
how rounds differ within a process, but two processes that run the same code also differ: memory is
laid out anew, and others use the machine. On a busy one 3.69 (3.31-3.78) was 3.20 (3.07-3.27) four
minutes later.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pandas as pd

from analyses.studies.findings import pages, tables
from tests.benchmarks.measure import Result

HERE = Path(__file__).parent
KEPT, LAST = HERE / "kept.json", HERE / "last.json"
DOCS = HERE.parents[1] / "docs"
QUESTION = "How many times faster is the lab than a named peer?"
PACKAGES = ("torch", "transformer-lens", "scikit-learn", "shap", "aalpy", "numpy")
DRIFT = 1.1

Record = dict[str, Any]
Change = Literal["slower", "faster", ""]


def processor() -> str:
    """Its name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the code, with a plus if files differ from it."""
    said = []
    for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "-uno"]):
        done = subprocess.run(
            ["git", "-C", str(HERE), *command], capture_output=True, text=True, check=False
        )
        said.append(done.stdout.strip())
    return said[0] + "+" * bool(said[1])


def record_of(results: Mapping[str, Sequence[Result]], last: Record) -> Record:
    """What is kept of a measurement: the results of each benchmark.

    What was not measured now is taken from the last record, if that is of the same code, versions
    and processor.
    """
    about = {
        "processor": processor(),
        "commit": commit(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    found = {name: [result.to_json() for result in own] for name, own in results.items()}
    alike = all(last.get(name) == value for name, value in about.items())
    others = last["results"] if alike else {}
    return {**about, "date": date.today().isoformat(), "results": {**others, **found}}


def read(path: Path) -> Any:
    """The file's content; nothing if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def keep() -> Record | None:
    """Makes the last figures the record of their processor; None if nothing was measured."""
    record: Record = read(LAST)
    if not record:
        return None
    write(KEPT, {**read(KEPT), record["processor"]: record})
    publish(record)
    return record


def publish(record: Record) -> None:
    """Keeps a record as the table of the page on speed, and writes the page."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    where = f"{record['processor']}, {record['date']}, commit {record['commit']}; {versions}"
    table = pd.DataFrame(asdict(result) for result in rows(record).values())
    with TemporaryDirectory() as folder:
        file = Path(folder, "speed.csv")
        table.assign(where=where).to_csv(file, index=False)
        tables.keep(file, "speed", DOCS, "make bench", QUESTION)
    pages.write(DOCS, "speed")


def rows(record: Record) -> dict[tuple[str, str], Result]:
    """The results by what identifies them."""
    results = (Result(**row) for own in record.get("results", {}).values() for row in own)
    return {key(result): result for result in results}


def key(result: Result) -> tuple[str, str]:
    """The task, and what the peer does in it."""
    return result.task, result.peer


def change(before: Result, now: Result) -> Change:
    """Whether ours has become slower or faster beside the peer, or neither for certain."""
    if now.high < before.low and now.ratio * DRIFT < before.ratio:
        return "slower"
    if now.low > before.high and now.ratio > before.ratio * DRIFT:
        return "faster"
    return ""


def nearer(before: Record, first: Sequence[Result], second: Sequence[Result]) -> list[Result]:
    """Of each result the one that has changed less: what is told has then been seen twice."""
    old = rows(before)

    def distance(result: Result) -> float:
        return abs(log(result.ratio / old[key(result)].ratio)) if key(result) in old else 0.0

    return [min(pair, key=distance) for pair in zip(first, second, strict=True)]


def changes(before: Record, now: Record) -> list[str]:
    """A line for each change since the record: what got slower, then what got faster."""
    old, new = rows(before), rows(now)
    lines = []
    for wanted in ("slower", "faster"):
        for which, b in new.items():
            a = old.get(which)
            if a is not None and change(a, b) == wanted:
                lines.append(f"{wanted}: {b.task}, beside {b.peer}: {a.ratio:.2f} -> {b.ratio:.2f}")
    return lines


def other_versions(before: Record, now: Record) -> list[str]:
    """A line for each package that was another one."""
    was, is_now = before["versions"], now["versions"]
    return [f"beside another {n}: {was[n]} -> {is_now[n]}" for n in was if was[n] != is_now.get(n)]
