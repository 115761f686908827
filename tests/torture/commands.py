"""The commands that are tortured, as small as they can be: train, analyse, rule, sweep.

Each can be begun in an empty folder, and again where it was cut off. What it has made in the end is
compared with what an undisturbed one makes.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analyses.command_line.app import main
from analyses.rules import discover
from models.runs.folders import find_runs
from models.runs.run import Run

TINY = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_mlp": 16}
SMALL = [f"--model.{name.replace('_', '-')}={value}" for name, value in TINY.items()]
STEPS = "6"
TRAIN = ["train", "anbn", "--steps", STEPS, "--max-n", "3", "--evaluate-every", "2", *SMALL]
SWEEP = """question = "Is it whole?"
languages = ["anbn", "an"]
seeds = 1
[test]
windows = 2
count = 2
[fixed]
steps = 4
max_n = 3
evaluate_every = 2
"model.n_layers" = 1
"model.n_heads" = 2
"model.d_model" = 8
"model.d_mlp" = 16
"""


@contextmanager
def tiny() -> Iterator[None]:
    """`lab rule` trains one tiny network, and nobody draws pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discover, "CANDIDATES", ({**TINY, "positions": "none", "steps": 4},))
        patch.setattr("analyses.rendering.render", lambda figure, suffix: b"picture")
        yield


def prepare(command: str, folder: Path) -> None:
    """What must be there before the command begins."""
    if command == "analyse":
        assert main([*TRAIN, "--out", str(folder)]) == 0
    elif command == "rule":
        rng = random.Random(0)
        lines = {" ".join(rng.choices("abc", k=rng.randint(1, 5))) for _ in range(60)}
        rows = [f"{'in' if 'a' in line else 'out'}\t{line}\n" for line in sorted(lines)]
        (folder / "lines.tsv").write_text("".join(rows))
    elif command == "sweep":
        (folder / "small.toml").write_text(SWEEP)


def words(command: str, folder: Path) -> list[str]:
    """The command as it is typed, the first time or again."""
    run = folder / "anbn-s0"
    if command == "train":
        return ["resume", str(run)] if run.exists() else [*TRAIN, "--out", str(folder)]
    if command == "analyse":
        return ["analyse", str(run), "accuracy", "--count", "2"]
    if command == "rule":
        out = ["--out", str(folder), "--networks", "1", "--no-rivals"]
        return ["rule", str(folder / "lines.tsv"), *out]
    return ["sweep", str(folder / "small.toml"), "--out", str(folder / "swept"), "--workers", "1"]


def begin(command: str, folder: Path) -> int:
    """Does it; returns the exit status."""
    with tiny():
        return main(words(command, folder))


def outcome(folder: Path) -> dict[str, Any]:
    """All that must be the same in the end, however often it was cut off."""
    found: dict[str, Any] = {}
    for place in (folder, folder / "swept"):
        for path in find_runs(place):
            run = Run(path)
            found[f"{path.name} status"] = run.record["status"]
            found[f"{path.name} steps"] = [line["step"] for line in run.metrics()]
            weights = [run.model_and_hash(step)[1] for step in run.steps()]
            found[f"{path.name} weights"] = list(zip(run.steps(), weights, strict=True))
    for path in sorted(folder.rglob("*.parquet")):
        table = pd.read_parquet(path).drop(columns="seconds", errors="ignore")
        # The folder of an answer ends in a number: an answer that is kept again has the next one.
        answer = path.parent.with_name(path.parent.name.rpartition("-")[0])
        found[str(answer.relative_to(folder))] = table.to_csv()
    for path in folder.rglob("record.json"):
        found["record"] = timeless(json.loads(path.read_text()))
    return found


def timeless(content: Any) -> Any:
    """The same without how long it took and where it lies."""
    if isinstance(content, dict):
        return {
            key: timeless(value)
            for key, value in content.items()
            if key not in ("seconds", "options")
        }
    return [timeless(value) for value in content] if isinstance(content, list) else content


def leftovers(folder: Path, and_locks: bool = True) -> list[str]:
    """Half written files, locks and empty folders below a folder."""
    found = []
    for place, inside, files in os.walk(folder):
        if not inside and not files and Path(place) != folder:
            found.append(place)
        hidden = [name for name in (*inside, *files) if name.endswith(".partial")]
        hidden += [name for name in files if name.endswith(".lab-lock") and and_locks]
        found += [str(Path(place) / name) for name in hidden]
    return found


COMMANDS = ("train", "analyse", "rule", "sweep")
