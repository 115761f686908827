"""Many runs from one file: trained once, judged once, and told in one table."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from rich.console import Console

from analyses.answer_files import kept_in
from analyses.charts.sweeps import POINTS, chart, curves
from analyses.command_line.app import main
from analyses.console import table_of
from analyses.jobs.trained import trained
from analyses.options.studies import Sweep
from analyses.questions.behaviour.accuracy import exact_to
from analyses.rendering import render
from analyses.studies.sweeps import estimate
from analyses.studies.sweeps import run as sweeps
from analyses.studies.sweeps.exam import Exam, _exam_words, judged
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.plan import plan, plan_of
from analyses.studies.sweeps.run import COLUMNS, _complete, sweep
from analyses.studies.sweeps.summary import readable, summary
from interp.statistics import nested_bootstrap
from models.base import build
from models.errors import UserError
from models.languages import language
from models.runs.folders import find_runs
from models.runs.run import Run
from models.training.evaluation import evaluate
from models.training.loop import train
from models.training.state import saved_step
from models.training.trainer import Trainer

TINY = """
question = "Which?"
languages = ["anbn", "parity"]
seeds = 2
[test]
windows = 2
count = 4
[fixed]
max_length = 6
steps = 4
batch_size = 8
evaluate_every = 2
"model.d_model" = 8
"model.d_mlp" = 8
[vary]
"model.n_layers" = [1, 2]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def asked(file: Path, **options: object) -> Sweep:
    """In this process, into a folder beside the file."""
    return Sweep(str(file), **{"out": file.with_name("out"), "workers": 1, **options})


def content(folder: Path) -> dict[str, tuple[int, int]]:
    """What was written and when."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.glob("*-s*/**/*")
    }


@pytest.mark.slow
def test_one_command_makes_runs_table_and_figure(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = file.with_name("out")
    command = ["sweep", str(file), "--out", str(out), "--workers", "1"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("Which?\n")
    assert "n_layers" in said
    assert [path.name for path in find_runs(out)] == [
        f"{name}-n_layers-{layers}-s{seed}"
        for name in ("anbn", "parity")
        for layers in (1, 2)
        for seed in (0, 1)
    ]
    kept = sweeps.load(out)
    assert kept is not None
    assert list(kept.table.columns) == ["run", "language", "seed", "model.n_layers", *COLUMNS]
    assert kept.arguments["by"] == ["model.n_layers"]
    assert kept.arguments["question"] == "Which?"
    assert kept.arguments["file"] == TINY
    assert (out / "results/sweep-1/sweep.html").stat().st_size > 10_000
    assert kept.sentence.startswith("anbn: ")
    before = content(out)
    assert main(command) == 0  # nothing is trained or judged again
    assert content(out) == before
    again = sweeps.load(out)
    assert again is not None
    pd.testing.assert_frame_equal(again.table, kept.table)


@pytest.mark.slow
def test_a_row_is_what_evaluate_says(file: Path) -> None:
    result = sweep(asked(file))
    rows = result.table[result.table["run"] == "anbn-n_layers-2-s1"]
    run = Run(file.with_name("out") / "anbn-n_layers-2-s1")
    assert (run.config.max_n, run.config.model.n_layers, run.config.seed) == (3, 2, 1)
    assert rows["length"].tolist() == [2, 4, 6, 8, 10, 12]
    assert rows["n"].tolist() == [1, 2, 3, 4, 5, 6]
    assert set(rows["window"]) == {6}
    assert set(rows["count"]) == {4}
    assert set(rows["steps"]) == {4}
    assert set(rows["model.n_layers"]) == {2}
    parameters = sum(p.numel() for p in run.model().parameters())
    assert set(rows["parameters"]) == {parameters}
    words = _exam_words("anbn", tuple(rows["length"]), 4, 0, True)
    assert all((sample.labels.sum(), len(sample.labels)) == (2, 4) for sample in words)
    ordinary = judged(run, Exam(windows=2, count=4, hard=False))
    expected = evaluate(run.model(), run.language, run.objective, rows["length"].tolist(), 4)
    keys = ("length", "exact", "recognition", "members", "others")
    assert ordinary[[*keys]].to_numpy().tolist() == [
        [getattr(score, key) for key in keys] for score in expected
    ]


def test_hard_words_are_near_misses_of_lengths_that_have_them() -> None:
    """Of tomita7 every word of up to three symbols is a member; of anbn only even lengths have one.
    Near misses of anbncn are a substitution or a moved symbol away, random words are not."""
    assert Exam(lengths="1:6").tested("tomita7", 1) == (4, 5, 6)
    assert Exam(lengths="1:6", hard=False).tested("tomita7", 1) == (1, 2, 3, 4, 5, 6)
    assert Exam(windows=2).tested("anbn", 2) == (2, 4, 6, 8)
    known = language("anbncn")

    def furthest(hard: bool) -> int:
        (sample,) = _exam_words("anbncn", (15,), 40, 0, hard)
        others = sample.words.ids[~sample.labels]
        return max(len(known.rationale(known.vocabulary.decode(row)) or ()) for row in others)

    assert furthest(hard=True) <= 2 < furthest(hard=False)


@pytest.mark.slow
def test_another_exam_is_another_question(file: Path) -> None:
    sweep(asked(file))
    weights = {
        name: stat for name, stat in content(file.with_name("out")).items() if "step-" in name
    }
    file.write_text(TINY.replace("count = 4", "count = 6"))
    result = sweep(asked(file))
    assert set(result.table["count"]) == {6}
    assert weights.items() <= content(file.with_name("out")).items()


@pytest.mark.slow
def test_a_part_of_a_sweep_takes_no_place(file: Path) -> None:
    whole, part = sweep(asked(file, seeds=1)), sweep(asked(file, seeds=1, languages=("parity",)))
    kept = [each.record.arguments["languages"] for each in kept_in(file.with_name("out"), "sweep")]
    assert kept == [["parity"], ["anbn", "parity"]]
    assert set(part.table["run"]) < set(whole.table["run"])


@pytest.mark.slow
def test_a_file_that_grew_adds_its_runs(file: Path) -> None:
    sweep(asked(file, languages=("anbn",), seeds=1))
    before = content(file.with_name("out"))
    assert len(find_runs(file.with_name("out"))) == 2
    file.write_text(TINY.replace("[1, 2]", "[3, 2, 1]"))
    result = sweep(asked(file))
    assert len(find_runs(file.with_name("out"))) == 2 * 3 * 2
    assert result.table["model.n_layers"].unique().tolist() == [3, 2, 1]
    assert before.items() <= content(file.with_name("out")).items()


@pytest.mark.slow
def test_what_cannot_be_is_refused_before_anything_is_written(file: Path) -> None:
    out = file.with_name("out")
    file.write_text(TINY.replace("max_length = 6", 'max_length = 6\n"model.n_heads" = 3'))
    with pytest.raises(UserError, match="anbn-n_layers-1 is impossible: d_model 8"):
        sweep(asked(file))
    assert not out.exists()
    with pytest.raises(UserError, match="--workers is 0"):
        asked(file, workers=0)
    file.write_text(TINY)
    sweep(asked(file, languages=("parity",), seeds=1))
    before = content(out)
    with pytest.raises(
        UserError, match="parity-n_layers-1-s0 holds a run of other settings or lines: choose"
    ):
        sweep(asked(file, steps=3))
    assert content(out) == before
    (file.parent / "not a folder").touch()
    with pytest.raises(UserError, match=r"cannot write .*not a folder"):
        sweep(asked(file, out=file.parent / "not a folder" / "out"))


@pytest.mark.slow
def test_what_diverged_is_named_and_left_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are judged; a sweep of which nothing is left is refused."""
    step, broken = Trainer.advance, {1}

    def advance(self: Trainer) -> object:
        value = step(self)
        if self.config.seed in broken:
            with torch.no_grad():
                next(self.model.parameters())[0] = torch.nan
        return value

    monkeypatch.setattr(Trainer, "advance", advance)
    found = sweep(asked(file, languages=("parity",)))
    assert found.table["seed"].unique().tolist() == [0]
    assert found.findings["left_out"] == [
        f"parity-n_layers-{n}-s1: its training diverged" for n in (1, 2)
    ]
    broken.add(0)
    with pytest.raises(UserError, match="every training of the sweep diverged: choose a smaller"):
        sweep(asked(file, languages=("parity",), out=file.with_name("none")))


@pytest.mark.slow
def test_what_failed_is_tried_again_and_told(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run fails once, another always; the table has all but that one."""
    tried = Counter[str]()

    def broken(path: Path, *arguments: object, **options: object) -> object:
        tried[path.name] += 1
        if path.name == "parity-n_layers-1-s0" and tried[path.name] == 1:
            raise OSError("a moment of weakness")
        if path.name == "parity-n_layers-2-s1":
            raise OSError("no space")
        return trained(path, *arguments, **options)

    monkeypatch.setattr(sweeps, "trained", broken)
    out = file.with_name("out")
    command = ["sweep", str(file), "--languages", "parity", "--out", str(out), "--workers", "1"]
    assert main(command) == 2
    assert tried == {
        "parity-n_layers-1-s0": 2,
        "parity-n_layers-1-s1": 1,
        "parity-n_layers-2-s0": 1,
        "parity-n_layers-2-s1": 2,
    }
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("lab: 1 of the runs failed twice; the table has")
    found = sweeps.load(out)
    assert found is not None
    assert found.table["run"].nunique() == 3
    assert found.findings["failed"] == 1
    assert found.findings["left_out"] == ["parity-n_layers-2-s1 failed twice: OSError: no space"]
    monkeypatch.setattr(sweeps, "trained", trained)
    assert main(command) == 0
    found = sweeps.load(out)
    assert found is not None
    assert (found.table["run"].nunique(), found.findings["left_out"]) == (4, [])


@pytest.mark.slow
def test_the_table_grows_while_the_sweep_goes_on(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "_Paced", lambda action: action)  # after every run
    seen = []

    def look(done: float, total: float, what: str) -> None:
        found = sweeps.load(file.with_name("out"))
        if found is not None:
            left = found.findings["left"]
            seen.append((found.table["run"].nunique(), left))
            assert found.sentence.startswith(f"So far {4 - left} of 4 runs. ") == (left > 0)

    found = sweep(asked(file, languages=("parity",)), look)
    assert seen == [(1, 3), (2, 2), (3, 1)]
    assert (found.table["run"].nunique(), found.findings["left"]) == (4, 0)
    assert len(kept_in(file.with_name("out"), "sweep")) == 1


def test_a_paced_action_takes_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, done = [0.0], list[float]()
    monkeypatch.setattr(sweeps.time, "monotonic", lambda: now[0])

    def action() -> None:
        done.append(now[0])
        now[0] += 2.0

    paced = sweeps._Paced(action)
    while now[0] < 60:
        paced()
        now[0] += 1.0
    assert done == [10, 30, 50]  # 2 seconds of 20


def test_a_dry_run_trains_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hours are those of all runs that are left, from the seconds of a step."""
    monkeypatch.setattr(estimate, "_timed", lambda config, device: 3600.0 * config.model.n_layers)
    out = file.with_name("out")
    monkeypatch.setattr(
        estimate, "kept", lambda path, exam: None if path.name != "anbn-n_layers-2-s0" else "kept"
    )
    assert main(["sweep", str(file), "--out", str(out), "--dry-run", "--csv"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("setting")
    assert not out.exists()
    assert table["runs"].tolist() == 4 * [2]
    assert table["finished"].to_dict() == {
        "anbn-n_layers-1": 0,
        "anbn-n_layers-2": 1,
        "parity-n_layers-1": 0,
        "parity-n_layers-2": 0,
    }
    # 4 steps, and 2 runs but for the one that is finished
    assert table["hours"].tolist() == [8.0, 8.0, 8.0, 16.0]
    runs, _ = plan(read(file))
    for run in runs:
        built = build(run.config.model, language(run.config.language).vocabulary)
        learned = sum(tensor.numel() for tensor in built.state_dict().values())
        assert table.loc[run.name.rpartition("-s")[0], "parameters"] == learned
    assert main(["sweep", str(file), "--out", str(out), "--dry-run", "--workers", "3"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "8 runs in 4 settings, 1 of them finished; " in said
    assert "about 40.0 hours on one core, about 13.3 hours with 3 workers" in said


@pytest.mark.slow
def test_a_dry_run_times_real_steps(file: Path) -> None:
    table = estimate.estimated(plan_of(asked(file)), "auto")
    assert (table["hours"] > 0).all()
    assert list(file.parent.iterdir()) == [file]


def test_few_of_many_settings_are_timed() -> None:
    assert estimate._spread(list(range(100)), 4) == [0, 33, 66, 99]
    assert estimate._spread([7], 4) == [7]


def test_a_scheduler_that_cannot_be_leaves_no_folder(file: Path) -> None:
    out = file.with_name("never") / "made"
    with pytest.raises(UserError, match="no Dask scheduler answers"):
        sweep(asked(file, out=out, scheduler="foo://127.0.0.1:1"))
    assert not out.parent.exists()


def test_a_worker_that_does_not_see_the_folder_says_so(file: Path) -> None:
    (planned, *_), _ = plan(read(file))
    with pytest.raises(UserError, match=r"the worker on \S+ does not see .*elsewhere: all"):
        _complete(file.parent / "elsewhere", {"run": planned.config}, Exam(), "cpu")


def test_where_there_is_no_sweep(tmp_path: Path) -> None:
    assert sweeps.load(tmp_path) is None


# -- the summary ----------------------------------------------------------------------------------


def made_up() -> pd.DataFrame:
    """Three seeds at sizes 3 to 5: one perfect, one that takes every word, one that fails at 4."""
    members = [[1.0, 1, 1], [1, 1, 1], [1, 0.5, 1]]
    others = [[1.0, 1, 1], [0, 0, 0], [1, 1, 0]]
    exact = [[1.0, 1, 1], [0, 1, 1], [1, 0.5, 1]]
    rows = [
        {
            "language": "anbn", "seed": seed, "variant": "v", "length": 2 * n, "n": n, "window": 6,
            "members": members[seed][n - 3], "others": others[seed][n - 3],
            "exact": exact[seed][n - 3],
        }
        for seed in range(3)
        for n in (3, 4, 5)
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"exact": "Float64", "members": "Float64", "n": "Int64"})


def test_the_summary_by_hand() -> None:
    (row,) = summary(made_up(), ["variant"]).to_dict("records")
    by_length = [np.array(seed) for seed in ([1.0, 1, 1], [0.5, 0.5, 0.5], [1, 0.75, 0.5])]
    mean, low, high = nested_bootstrap(by_length)
    assert row["best"] == 1.0
    assert mean == np.mean([1.0, 0.5, (2.5 / 3 + 2 / 3) / 2])
    assert high > 1  # three seeds: stretched beyond what a share can be
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((mean, low, 1))
    assert (row["seeds"], row["perfect"]) == (3, 1)
    assert (row["exact_to_min"], row["exact_to_max"]) == (0, 5)
    assert (row["language"], row["variant"]) == ("anbn", "v")


def test_how_far_a_run_is_exact() -> None:
    table = made_up()
    assert [exact_to(rows) for _, rows in table.groupby("seed")] == [5, 0, 3]
    assert exact_to(table.assign(exact=pd.NA)) is None


def test_lengths_without_a_member_weigh_nothing() -> None:
    table = made_up()
    table.loc[table["n"] == 5, ["members", "exact"]] = pd.NA
    (row,) = summary(table, []).to_dict("records")
    assert row["mean"] == pytest.approx(np.mean([1.0, 0.5, (0.75 + 2 / 3) / 2]))
    assert row["perfect"] == 1
    assert row["exact_to_max"] == 4


def test_verdict_runs_are_exact_to_nothing() -> None:
    short = summary(made_up().assign(exact=pd.NA), [])
    assert short[["exact_to_min", "exact_to_max"]].isna().all(axis=None)
    assert readable(short, [])["exact to"].tolist() == ["-"]


def test_people_read_it_at_a_hundred_columns() -> None:
    long = {"language": "anbncndn", "variant": "transformer", "objective": "next-symbols"}
    table = made_up().assign(**long, **{"model.n_layers": 1})
    by = ["variant", "objective", "model.n_layers"]
    shown = readable(summary(table, by), by)
    assert shown.iloc[0].to_dict() == {
        **long, "n_layers": 1, "best": 1.0, "mean": 0.75, "95%": "10-100%",
        "perfect": "1 of 3", "exact to": "0 to 5",
    }  # fmt: skip
    text = io.StringIO()
    Console(file=text, width=100).print(table_of(shown))
    assert "10-100%" in text.getvalue()
    assert len([line for line in text.getvalue().splitlines() if line.strip()]) == 3
    single = readable(summary(table[table["seed"] == 0], by), by)
    assert single["95%"].tolist() == ["-"]


def test_the_chart_has_a_line_per_seed() -> None:
    table = made_up()
    drawn = curves(table, ["variant"])
    assert len(drawn) == 9
    assert set(drawn["setting"]) == {"v"}
    assert drawn["right"].tolist()[:3] == [1.0, 1.0, 1.0]
    long = pd.concat([table.assign(length=table["length"] + 6 * k) for k in range(200)])
    assert len(curves(long, [])) == 3 * POINTS
    arguments = {"by": ["variant"]}
    figure = chart(sweeps.Answer(pd.concat([long] * 20), "", arguments=arguments))
    assert render(figure, "svg").startswith(b"<svg")


# -- many processes -------------------------------------------------------------------------------

LONG = TINY.replace("steps = 4", "steps = 400").replace("evaluate_every = 2", "evaluate_every = 20")
LONG = LONG.replace("seeds = 2", "seeds = 3").replace("[1, 2]", "[2]")


def until(happened: Callable[[], bool], seconds: float = 300) -> None:
    """Waits for something that other processes do."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own, which does not outlive the test."""
    started = subprocess.Popen([sys.executable, "-m", *arguments], stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        family = [psutil.Process(started.pid), *psutil.Process(started.pid).children(True)]
        for each in family:
            each.kill()
        started.wait()


@contextmanager
def heard() -> Iterator[None]:
    """What is started here can be interrupted, even where these tests run behind a script, whose
    processes hear no Ctrl-C and hand that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def in_mid_run(out: Path, pid: int) -> Run | None:
    """The run that a process trains now and could resume from a saved step, well before its end."""
    for path in find_runs(out):
        run = Run(path)
        sessions = run.record.get("sessions", [])
        if sessions and sessions[-1]["pid"] == pid and run.record["status"] == "training":
            return run if 0 < saved_step(run) <= run.config.steps // 2 else None
    return None


def kill_in_mid_run(worker: psutil.Process, out: Path) -> Run:
    """Kills a worker between two saved states, and says whose run it was."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if in_mid_run(out, worker.pid):
            worker.suspend()  # so that nothing moves between the look and the shot
            if run := in_mid_run(out, worker.pid):
                worker.kill()
                return run
            worker.resume()
        time.sleep(0.01)
    raise AssertionError("the worker never trained")


@pytest.mark.slow
@pytest.mark.torture
def test_a_killed_worker_costs_no_run(tmp_path: Path) -> None:
    """A scheduler and two workers of their own; one of them is killed while it trains."""
    file, out, contact = tmp_path / "long.toml", tmp_path / "out", tmp_path / "scheduler.json"
    file.write_text(LONG)
    here = ("--host", "127.0.0.1", "--no-dashboard")
    one, killed = ("--languages", "anbn"), list[Run]()
    with process(
        *("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", str(contact)), *here
    ) as scheduler:
        until(contact.exists)
        address = json.loads(contact.read_text())["address"]
        worker = ("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *here)
        with process(*worker) as mortal, process(*worker):

            def shoot() -> None:
                try:
                    killed.append(kill_in_mid_run(psutil.Process(mortal.pid), out))
                except BaseException:
                    scheduler.kill()  # or the sweep would wait for ever
                    raise

            hunter = Thread(target=shoot)
            hunter.start()
            status = main(["sweep", str(file), "--out", str(out), *one, "--scheduler", address])
            hunter.join()
    assert status == 0
    (victim,) = killed
    runs = [Run(path) for path in find_runs(out)]
    assert len(runs) == 3
    for run in runs:
        assert run.record["status"] == "finished"
        assert [line["step"] for line in run.metrics()] == list(range(20, 401, 20))
        first, *more = run.record["sessions"]
        assert first["from_step"] == 0
        assert len(more) == (run.path == victim.path)
    first, second = victim.record["sessions"]
    assert second["pid"] != first["pid"]
    assert second["from_step"] > 0
    undisturbed = Run.create(tmp_path / "undisturbed", victim.config)
    train(undisturbed)
    assert victim.model_hash() == undisturbed.model_hash()
    kept = sweeps.load(out)
    assert kept is not None
    assert kept.table["run"].nunique() == 3


@pytest.mark.torture
@pytest.mark.slow
def test_ctrl_c_ends_all_and_the_sweep_goes_on(tmp_path: Path) -> None:
    """The terminal interrupts every process of the group; the second time the rest is trained."""
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(LONG)
    command = ["sweep", str(file), "--out", str(out), "--languages", "anbn"]
    with heard():
        started = subprocess.Popen(
            [sys.executable, "-m", "analyses.command_line", *command, "--workers", "2"],
            stderr=subprocess.PIPE,
            process_group=0,
            text=True,
        )
    try:
        until(lambda: any(saved_step(Run(path)) for path in find_runs(out)))
        os.killpg(started.pid, signal.SIGINT)
        _, said = started.communicate(timeout=300)
    finally:
        started.kill()
    *progress, last = said.splitlines()
    assert (started.returncode, last) == (130, "lab: stopped; what is finished is kept")
    assert all(" of 3" in line for line in progress)

    def left() -> list[psutil.Process]:
        alive = (p for p in psutil.process_iter(["status"]) if p.info["status"] != "zombie")
        return [p for p in alive if os.getpgid(p.pid) == started.pid]

    until(lambda: not left())
    stopped = {run.name: saved_step(run) for run in map(Run, find_runs(out))}
    assert 1 <= len(stopped) <= 3
    assert main([*command, "--workers", "1"]) == 0
    for name, step in stopped.items():
        run = Run(out / name)
        assert run.record["sessions"][-1]["from_step"] in (0, step)
        assert [line["step"] for line in run.metrics()] == list(range(20, 401, 20))
    assert kept_in(out, "sweep")[0].record.findings["settings"][0]["seeds"] == 3
