"""All benchmarks, a table each. Targets are reported, not asserted."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.benchmarks.attribution_speed import attribution_speed
from tests.benchmarks.discovery_speed import discovery_speed
from tests.benchmarks.measure import Result, Seconds
from tests.benchmarks.model_speed import model_speed
from tests.benchmarks.patching_speed import patching_speed
from tests.benchmarks.probing_speed import probing_speed
from tests.benchmarks.together_speed import together_speed
from tests.benchmarks.training_speed import training_speed
from tests.benchmarks.variant_speed import variant_speed

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "model speed": model_speed,
    "variant speed": variant_speed,
    "training speed": training_speed,
    "patching speed": patching_speed,
    "probing speed": probing_speed,
    "attribution speed": attribution_speed,
}
PACKAGES = ("torch", "transformer-lens", "scikit-learn", "shap")


def draw(title: str, results: list[Result]) -> Table:
    """A row per comparison: which ratio, its median and quartiles, and the target."""
    columns = ("task", "ratio of times", "median", "quartiles", "target", "met")
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for r in results:
        slowdown = r.kind == "slowdown"
        rates = ""
        if r.ours_per_second and r.peer_per_second:
            rates = f"\n{r.ours_per_second:,.0f} against {r.peer_per_second:,.0f} words a second"
        table.add_row(
            r.task + rates,
            f"ours / {r.peer}" if slowdown else f"{r.peer} / ours",
            f"{r.ratio:.2f}",
            f"{r.low:.2f}-{r.high:.2f}",
            f"{'<=' if slowdown else '>='} {r.target:.2f}",
            "[green]yes" if r.met else "[red]no",
        )
    return table


def draw_seconds(title: str, results: list[Seconds]) -> Table:
    """A row for each whose time it is."""
    columns = ("task", "who", "median s", "range", "target", "met")
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for r in results:
        target = "-" if r.target is None else f"<= {r.target:.0f}"
        met = {None: "-", True: "[green]yes", False: "[red]no"}[r.met]
        table.add_row(r.task, r.who, f"{r.median:.1f}", f"{r.low:.1f}-{r.high:.1f}", target, met)
    return table


def main() -> None:
    """Runs all benchmarks, prints the tables and, if asked to, writes them as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    path: Path | None = parser.parse_args().json
    console = Console()
    report: dict[str, object] = {"versions": {name: version(name) for name in PACKAGES}}
    for title, benchmark in BENCHMARKS.items():
        with console.status(f"{title} ..."):
            results = list(benchmark())
        console.print(draw(f"{title}: CPU time in one thread", results))
        report[title] = [result.to_json() for result in results]
    with console.status("together speed ..."):
        joint = list(together_speed())
    if joint:
        console.print(draw("together speed: wall clock, this GPU", joint))
    else:
        console.print("together speed: no CUDA device\n")
    report["together speed"] = [result.to_json() for result in joint]
    with console.status("discovery speed ..."):
        timed = list(discovery_speed())
    console.print(draw_seconds("discovery speed: wall clock, this machine", timed))
    report["discovery speed"] = [result.to_json() for result in timed]
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
