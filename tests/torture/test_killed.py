"""Killed at random moments: what is there is whole, and goes on to the same bits."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import commands
import pytest
import victims
from commands import COMMANDS, leftovers, outcome, timeless

from analyses.answers import Progress, quiet
from analyses.options.lines import Discover
from analyses.rules.discover import discover
from analyses.rules.record import FOLDER, LINES
from analyses.studies.listing import runs_of
from models.runs.files import is_locked

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

pytestmark = pytest.mark.slow


def whole(folder: Path) -> None:
    """Every run can be opened, with all of its checkpoints; every table and record can be read."""
    for place in (folder, folder / "swept"):
        if place.exists():
            assert set(runs_of(place)["status"]) <= {
                "training",
                "interrupted",
                "finished",
                "diverged",
            }
    outcome(folder)


def test_a_learning_ends_with_one_record(tmp_path: Path) -> None:
    """Also if it was stopped and begun again, as a page does it, or if two learn the same lines."""
    commands.prepare("rule", tmp_path)
    lines = tmp_path / "lines.tsv"
    first = lines.read_text().splitlines()[0]
    with lines.open("a") as file:  # with both labels, which the record notes
        file.write("".join(f"{label}\t{first.split(chr(9))[1]}\n" for label in ("in", "out")))

    def learned(out: Path, lines: Path = lines, progress: Progress = quiet) -> Any:
        return timeless(discover(Discover(lines, out, networks=1, rivals=False), progress))

    with commands.tiny():
        held = set[bool]()
        folder = tmp_path / "calm" / FOLDER / "lines"
        calm = learned(tmp_path / "calm", progress=lambda *_: held.add(is_locked(folder)))
        assert held == {True}  # nobody else writes the record meanwhile
        assert calm["notes"]
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(learned, [tmp_path / "two"] * 2)) == [calm] * 2
        for moment in (0, 3):
            out, moments = tmp_path / f"stopped{moment}", iter(range(moment))

            def stop(*_: object, moments: Iterator[int] = moments) -> None:
                if next(moments, None) is None:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                learned(out, progress=stop)
            assert learned(out, out / FOLDER / "lines" / LINES) == calm


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_random_moments(command: str, tmp_path: Path, full: bool) -> None:
    """Each folder is killed up to three times in a row, by one signal after the other, and then
    ends as an undisturbed one: same weights, tables and records, nothing left behind."""
    if not full:
        pytest.skip("make torture does; test_training kills a training at a dozen moments")
    context, rng = victims.server(), random.Random(command)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    commands.prepare(command, fresh)
    calm = Path(shutil.copytree(fresh, tmp_path / "calm"))
    for _ in range(2):  # the first one also imports
        shutil.rmtree(calm)
        shutil.copytree(fresh, calm)
        start = time.monotonic()
        victim = victims.start(context, command, calm, tmp_path / f"calm{start}")
        victim.join(300)
        assert victim.exitcode == 0
        lasts = time.monotonic() - start
    expected: dict[str, Any] = outcome(calm)
    kills, moments = 0, 40
    while kills < moments:
        folder = Path(shutil.copytree(fresh, tmp_path / f"killed{kills}"))
        for _ in range(min(rng.choice((1, 1, 2, 3)), moments - kills)):
            victim = victims.start(context, command, folder, tmp_path / f"begun{kills}")
            time.sleep(rng.uniform(0, lasts))
            victims.end(victim, SIGNALS[kills % len(SIGNALS)])
            kills += 1
            whole(folder)
        assert commands.begin(command, folder) == 0
        assert outcome(folder) == expected
        assert leftovers(folder, and_locks=False) == []
        shutil.rmtree(folder)
