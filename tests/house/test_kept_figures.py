"""Benchmarks bind what they time to one thread, and tell what has changed since kept figures."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import sklearn.linear_model  # noqa: F401 - it brings libraries that torch does not bind
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from analyses.studies.findings import tables
from tests.benchmarks import dashboard_speed, kept, measure, start_speed, training_speed
from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.measure import Result, Side, UnboundError, compare, one_thread, seconds

ROW = Result("task", "ours", "peer: does", 1.5, 2.0, 1.9, 2.1, 9, 0.01, 0.02)


def threads() -> dict[str, int]:
    """How many each library may use, by its file."""
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def test_every_library_is_bound_and_freed_again() -> None:
    with threadpool_limits(2):
        torch.set_num_threads(2)
        before = threads()
        with one_thread():
            assert set(threads().values()) == {1}
            assert torch.get_num_threads() == 1
        assert threads().items() >= before.items()  # numba may have loaded one more
    torch.set_num_threads(1)


def test_work_in_another_thread_is_an_error() -> None:
    x = np.random.default_rng(0).normal(size=2_000_000)

    def elsewhere() -> None:
        thread = Thread(target=np.sort, args=(x,))
        thread.start()
        thread.join()

    with pytest.raises(UnboundError, match=r"^peer computed .* in other threads$"):
        seconds(Side("peer", "sorts", elsewhere))
    assert seconds(Side("ours", "sorts", lambda: np.sort(x))) > 0


def test_threads_that_still_look_for_work_are_waited_for() -> None:
    """What is called once before the threads are bound leaves them awake."""
    x = np.random.default_rng(0).normal(size=(900, 900))
    started, over = time.monotonic(), Event()

    def spin() -> None:
        while time.monotonic() < started + 2:
            pass
        over.set()

    thread = Thread(target=spin)
    thread.start()
    sides = (Side(who, "multiplies", lambda: x @ x) for who in ("ours", "peer"))
    compare("product", *sides, rounds=2)
    assert over.is_set()
    thread.join()


def test_twice_the_work_is_half_as_fast() -> None:
    x = np.random.default_rng(0).normal(size=20_000)
    twice = Side("peer", "sorts twice", lambda: (np.sort(x), np.sort(x)))
    found = compare("sorting", Side("ours", "sorts once", lambda: np.sort(x)), twice, 1.5, 5)
    assert 1.5 < found.ratio < 2.7
    assert found.low <= found.ratio <= found.high
    assert found.met
    assert found.peer == "peer: sorts twice"
    assert found.peer_seconds > found.our_seconds


LONG = ("attribution", "patching", "variant")  # more than ten seconds each


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.torture) if name in LONG else name
        for name in sorted(set(BENCHMARKS) - {"discovery", "dashboard", "start"})
    ],
)
def test_both_sides_of_a_comparison_still_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every benchmark checks that first, and stops where they differ; nothing is timed here."""
    monkeypatch.setattr(measure, "calls_for", lambda side: 1)
    monkeypatch.setattr(measure, "_round", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(training_speed, "SHAPES", {"small": (1, 1, 16)})
    rows = list(BENCHMARKS[name]())
    assert [row.ratio for row in rows] == [2.0] * len(rows)
    assert rows or name == "together"  # without a CUDA device


@pytest.mark.slow
@pytest.mark.torture
def test_the_pages_of_many_runs_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_speed, "RUNS", 3)
    monkeypatch.setattr(dashboard_speed, "ROUNDS", 1)
    rows = list(BENCHMARKS["dashboard"]())
    assert len(rows) == len(dashboard_speed.PAGES)


@pytest.mark.slow
@pytest.mark.torture
def test_the_start_of_a_command_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_speed, "COMMANDS", ("--help", "show RUN"))
    monkeypatch.setattr(start_speed, "ROUNDS", 1)
    rows = list(BENCHMARKS["start"]())
    assert [row.task for row in rows] == ["lab --help", "lab show RUN"]
    assert all(row.our_seconds > 0 and row.peer_seconds > 0 for row in rows)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (1.5, 1.4, 1.6, "slower"),
        (2.6, 2.5, 2.7, "faster"),
        (1.7, 1.5, 1.95, ""),  # the quartiles overlap
        (1.85, 1.84, 1.86, ""),  # within what two processes differ by
    ],
)
def test_a_change_is_told_if_quartiles_and_drift_are_passed(
    ratio: float, low: float, high: float, said: str
) -> None:
    now = replace(ROW, ratio=ratio, low=low, high=high)
    assert kept.change(ROW, now) == said
    lines = kept.changes(kept.record_of({"b": [ROW]}, {}), kept.record_of({"b": [now]}, {}))
    assert lines == ([f"{said}: task, beside peer: does: 2.00 -> {ratio:.2f}"] if said else [])


def test_what_is_seen_once_is_not_told() -> None:
    before = kept.record_of({"b": [ROW]}, {})
    slow, usual = replace(ROW, ratio=1.0, low=0.9, high=1.1), replace(ROW, ratio=2.02)
    assert kept.nearer(before, [slow], [usual]) == [usual]
    new = replace(slow, task="new")
    assert kept.nearer(before, [new], [new]) == [new]


def test_the_last_figures_become_those_of_their_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(kept, "LAST", tmp_path / "last.json")
    monkeypatch.setattr(kept, "DOCS", tmp_path)
    page, template = (tmp_path / folder / "findings" for folder in ("pages", "."))
    template.mkdir()
    (template / "speed.md").write_text(
        '{{ table("speed").where(task="task").mean("ratio", "plain", "peer") }} times'
    )
    assert kept.keep() is None
    part = kept.record_of({"a": [ROW]}, {})
    whole = kept.record_of({"b": [ROW]}, part)  # of the same code: one adds to the other
    assert set(whole["results"]) == {"a", "b"}
    assert set(kept.record_of({"b": [ROW]}, {**part, "commit": "another"})["results"]) == {"b"}
    kept.write(kept.KEPT, {"another": {}})
    kept.write(kept.LAST, whole)
    assert kept.keep() == whole
    assert kept.read(kept.KEPT) == {"another": {}, kept.processor(): whole}
    assert kept.rows(whole) == {kept.key(ROW): ROW}
    assert (page / "speed.md").read_text().endswith("2.00 times")
    older = {**whole, "versions": {**whole["versions"], "shap": "0.1"}}
    said = [f"beside another shap: 0.1 -> {whole['versions']['shap']}"]
    assert kept.other_versions(older, whole) == said


def test_the_table_of_the_page_is_a_kept_record() -> None:
    ratios = tables.load(kept.DOCS, "speed").rows["ratio"].to_list()
    records = [kept.rows(record).values() for record in kept.read(kept.KEPT).values()]
    assert ratios in [[row.ratio for row in record] for record in records]
