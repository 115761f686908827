"""Two who write the same and ten who read it: every run and every answer is whole at all times."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest
import victims
from commands import TRAIN, begin, leftovers, outcome, tiny, words

from analyses.answers import Answers
from analyses.command_line.app import main
from analyses.studies.listing import runs_of
from models.languages import LANGUAGES, FormalLanguage
from models.runs.folders import find_runs
from models.runs.run import Run

pytestmark = pytest.mark.slow
NAMES = ("dieren", "dyck2", "shuffle2", "parity")


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_may_ask_one_language_at_once(full: bool) -> None:
    """As browser tabs do: its tables grow to what they are when one asks alone."""
    alone_at_it, both = threading.Barrier(1), threading.Barrier(2)

    def drawn(made: FormalLanguage, readers: threading.Barrier = alone_at_it) -> bytes:
        readers.wait()
        lengths = range(2, 60, 2)
        return made.sample(np.random.default_rng(0), 40, lengths, hard=True).words.ids.tobytes()

    def made(name: str) -> FormalLanguage:
        language = LANGUAGES[name]()
        assert isinstance(language, FormalLanguage)
        return language

    alone = {name: drawn(made(name)) for name in NAMES}
    with switching_often(), ThreadPoolExecutor(2) as pool:
        for i in range(1000 if full else 24):
            name = NAMES[i % len(NAMES)]
            assert set(pool.map(drawn, [made(name)] * 2, [both] * 2)) == {alone[name]}


def write(place: str, rounds: int, together: Barrier) -> None:
    """Makes, trains and asks the runs that another process makes, trains and asks too."""
    victims.silent()
    for i in range(rounds):
        folder = Path(place) / str(i)
        together.wait()
        with tiny():  # no pictures
            status = main([*TRAIN, "--out", str(folder)])
            together.wait()
            assert main([*words("analyse", folder), "--again"]) == 0
        with (Path(place) / "statuses").open("a") as told:
            told.write(f"{i} {status}\n")
    (Path(place) / "done").touch()


def read(place: str) -> None:
    """Five threads look at the newest runs for as long as somebody writes."""

    def look(_: int) -> None:
        while not (Path(place) / "done").exists():
            newest = max(Path(place).glob("[0-9]*"), key=lambda path: int(path.name), default=None)
            if newest is not None:
                whole(newest)
            time.sleep(0.01)  # the writers are to get on

    victims.silent()
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(look, range(5)))


def whole(folder: Path) -> None:
    assert set(runs_of(folder)["status"]) <= {"training", "finished"}
    for path in find_runs(folder):
        run = Run(path)
        assert [line["step"] for line in run.metrics()] in ([], [2], [2, 4], [2, 4, 6])
        for step in run.steps():
            run.model_and_hash(step)
        found = Answers(path, "accuracy").latest()
        assert found is None or set(found.table["n"]) >= {1, 2, 3}


def test_two_write_and_ten_read(tmp_path: Path, full: bool) -> None:
    if not full:
        pytest.skip("make torture does: four processes have to start")
    context, rounds = victims.server(), 1000
    calm, place = tmp_path / "calm", tmp_path / "place"
    place.mkdir()
    assert begin("train", calm) == begin("analyse", calm) == 0
    expected, together = outcome(calm), context.Barrier(2)
    writers = [context.Process(target=write, args=(str(place), rounds, together)) for _ in "ab"]
    readers = [context.Process(target=read, args=(str(place),)) for _ in "ab"]
    for each in (*writers, *readers):
        each.start()
    for writer in writers:
        writer.join()
    (place / "done").touch()  # also after a writer that failed
    for reader in readers:
        reader.join()
    assert [each.exitcode for each in (*writers, *readers)] == [0] * 4
    told = sorted((place / "statuses").read_text().splitlines())
    assert told == sorted(f"{i} {status}" for i in range(rounds) for status in (0, 2))
    for i in range(rounds):
        assert outcome(place / str(i)) == expected
        assert leftovers(place / str(i)) == []
