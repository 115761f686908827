"""How many times faster than named peers: one table, and what changed since the kept figures.

Targets are reported, not asserted. --keep keeps the figures that were measured last.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.benchmarks.attribution_speed import attribution_speed
from tests.benchmarks.dashboard_speed import dashboard_speed
from tests.benchmarks.discovery_speed import discovery_speed
from tests.benchmarks.generation_speed import generation_speed
from tests.benchmarks.kept import (
    KEPT,
    LAST,
    Record,
    change,
    changes,
    keep,
    key,
    nearer,
    other_versions,
    read,
    record_of,
    write,
)
from tests.benchmarks.kept import rows as results_of
from tests.benchmarks.measure import Result
from tests.benchmarks.model_speed import model_speed
from tests.benchmarks.patching_speed import patching_speed
from tests.benchmarks.probing_speed import probing_speed
from tests.benchmarks.start_speed import start_speed
from tests.benchmarks.together_speed import together_speed
from tests.benchmarks.training_speed import training_speed
from tests.benchmarks.variant_speed import variant_speed

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "start": start_speed,
    "model": model_speed,
    "variant": variant_speed,
    "training": training_speed,
    "patching": patching_speed,
    "probing": probing_speed,
    "attribution": attribution_speed,
    "together": together_speed,  # no row without a CUDA device
    "generation": generation_speed,
    "discovery": discovery_speed,
    "dashboard": dashboard_speed,
}


def draw(record: Record, before: Record) -> Table:
    """A row per comparison: what each side does, the ratio, its quartiles, and what it was."""
    table = Table(
        "what, ours, the peer's",
        *("times faster", "quartiles", "target", "ms, ours", "the peer's", "kept"),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title="The peer's CPU time over ours, one thread on each side",
        title_justify="left",
    )
    old = results_of(before)
    for r in results_of(record).values():
        target = "" if r.target is None else f"{'[green]' if r.met else '[red]'}{r.target:.2f}"
        was = old.get(key(r))
        colour = {"slower": "[red]", "faster": "[green]", "": ""}[change(was, r) if was else ""]
        table.add_row(
            f"[bold]{r.task}[/bold]\n{r.ours}\n{r.peer}",
            f"{r.ratio:.2f}",
            f"{r.low:.2f}-{r.high:.2f}",
            target,
            f"{1000 * r.our_seconds:,.2f}",
            f"{1000 * r.peer_seconds:,.2f}",
            f"{colour}{was.ratio:.2f}" if was else "",
        )
    return table


def compared(record: Record, kept: dict[str, Record]) -> tuple[Record, list[str]]:
    """The record to compare with, and what to say: that of this processor, else the newest."""
    if not kept:
        return {}, ["Nothing was kept before."]
    before = kept.get(record["processor"]) or max(kept.values(), key=lambda r: r["date"])
    since = f"since {before['date']}, commit {before['commit']}"
    lines = changes(before, record) + other_versions(before, record)
    said = [f"Changed {since}:", *lines] if lines else [f"Nothing changed {since}."]
    if before["processor"] != record["processor"]:
        said.append(f"That was another processor: {before['processor']}.")
    return before, said


def main() -> None:
    """Measures, or keeps what was measured last."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--keep", action="store_true", help=f"make {LAST.name} the kept figures")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, help="measure these alone")
    options = parser.parse_args()
    console = Console()
    if options.keep:
        record = keep()
        console.print(f"kept in {KEPT}" if record else "nothing was measured: make bench")
        raise SystemExit(0 if record else 2)
    results: dict[str, list[Result]] = {}
    for name in options.only or BENCHMARKS:
        with console.status(f"{name} ..."):
            results[name] = list(BENCHMARKS[name]())
    record = record_of(results, read(LAST))
    before, _ = compared(record, read(KEPT))
    for name, own in results.items():
        if changes(before, record_of({name: own}, {})):
            with console.status(f"{name}, once more ..."):
                results[name] = nearer(before, own, list(BENCHMARKS[name]()))
    record = record_of(results, record)
    write(LAST, record)
    before, said = compared(record, read(KEPT))
    console.print(draw(record, before))
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    console.print(f"{record['processor']}; {versions}")
    for line in said:
        console.print(line, markup=False)
    if missing := [name for name in BENCHMARKS if name not in record["results"]]:
        console.print(f"Not measured on this commit: {', '.join(missing)}")
    console.print("Keep these figures: .venv/bin/python -m tests.benchmarks --keep")


if __name__ == "__main__":
    main()
