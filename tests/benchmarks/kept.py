"""The figures that are kept, so that a slowdown is seen: ``kept.json``, in git.

A ratio is a property of the code, of the peers' versions and of the processor. So the file holds
one record per processor, the newest; git remembers the older ones. ``make bench`` writes
``last.json``, which git ignores, and tells what has changed since the record. With --keep the last
figures become the record.

A change is told if the quartiles of the two ratios do not overlap, and if the medians are further
apart than ``DRIFT``: two processes that run the same code differ by a few per cent, because memory
is laid out anew, and on a quiet machine quartiles are narrower than that.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from tests.benchmarks.measure import Result

HERE = Path(__file__).parent
KEPT, LAST = HERE / "kept.json", HERE / "last.json"
PACKAGES = ("torch", "transformer-lens", "scikit-learn", "shap", "aalpy", "numpy")
DRIFT = 1.05

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
    return record


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


def told(before: Record, now: Record) -> list[str]:
    """What has changed since the record, a line each: what got slower, then what got faster."""
    old, new = rows(before), rows(now)
    lines = []
    for wanted in ("slower", "faster"):
        for which in (k for k in new if k in old):
            if change(old[which], new[which]) == wanted:
                a, b = old[which], new[which]
                lines.append(f"{wanted}: {b.task}, beside {b.peer}: {a.ratio:.2f} -> {b.ratio:.2f}")
    for package, was in before["versions"].items():
        if (is_ := now["versions"].get(package)) != was:
            lines.append(f"beside another version: {package} {was} -> {is_}")
    return lines
