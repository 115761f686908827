"""The command line: answers on stdout, and a user's mistake as one line and exit status 2."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import tiny_config, without_pictures

from analyses.command_line.app import COMMANDS, main
from analyses.questions.words import leaderboard as of_run
from models.errors import UserError
from models.plants.plant import plant, write
from models.runs.run import Run
from models.training.evaluation import predict
from models.training.loop import train
from models.training.state import STATE

TINY = ["--steps", "12", "--batch-size", "8", "--evaluate-every", "3", "--max-n", "4"]
SHAPE = ["--model.d-model", "8", "--model.n-heads", "2", "--model.d-mlp", "16"]
LINES = "".join(
    f"{'A' if i % 2 else 'B'}\t{'x ' * (i % 2)}y z {'y ' * (i // 2)}\n" for i in range(60)
)


def fault(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What a refused command says: exactly one line, on stderr."""
    assert main([str(arg) for arg in args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lab: ")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")
    return said.err


def answer(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What an accepted command prints."""
    assert main([str(arg) for arg in args]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished tiny run that no test of this module changes."""
    made = Run.create(tmp_path_factory.mktemp("runs") / "anbn-s0", tiny_config())
    train(made, device="cpu")
    return made


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "--help")
    for command in COMMANDS:
        assert f"lab {command}" in said


def test_languages(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in json.loads(answer(capsys, "languages", "--json"))}
    assert {"an", "anbn", "anbncn", "dieren", "dyck2", "parity"} < set(rows)
    assert rows["tomita1"]["near miss"] == "0"
    assert rows["anbncn"]["type"] == "mildly context-sensitive"
    assert rows["anbn"]["example"] == "a a a b b b"
    assert "context-free" in answer(capsys, "languages")


@pytest.mark.parametrize(
    ("asked", "start"),
    [
        (["anbn"], "S:"),
        (["mine", "--grammar", "<NP> -> 'a' N\nN -> 'b'"], "<NP>"),
        (["doubled", "--grammar", "X -> 'a>b' X | 'a>b'"], "X; a>x is an a of the source"),
    ],
)
def test_rules_are_said_to_begin_where_they_do(
    asked: list[str], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Production rules, from {start}" in answer(capsys, "languages", *asked)


@pytest.mark.slow
def test_values_that_miss_their_sum_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict of a planted network rises in a step, and few points of the line lie beside it."""
    run = tmp_path / "majority"
    write(plant("majority-10"), run)
    asked = ["analyse", run, "explanations", "--samples", 20, "--draws", 2]
    with without_pictures():
        few, many = (answer(capsys, *asked, "--steps", steps) for steps in (2, 800))
    missed = "integrated gradients (log odds) by"
    assert missed in few.partition("Values miss the sum that they should have")[2]
    assert missed not in many


@pytest.mark.slow
def test_train_evaluate_predict_analyse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    said = answer(capsys, "train", "anbn", "--seed", 3, "--out", out, *TINY, *SHAPE)
    assert "12 steps" in said
    run = Run(out / "anbn-s3")
    assert run.record["status"] == "finished"
    assert run.config.model.d_model == 8
    assert not run.config.model.bias  # the recipe's choice, which no option changed
    content = json.loads(answer(capsys, "evaluate", run.path, "--max-n", 3, "--json"))
    assert content["language"] == "anbn"
    assert [row["n"] for row in content["by_length"]] == [1, 2, 3]
    assert set(content["by_length"][0]) == {"length", "n", "count", "exact", "recognition"}
    odd = json.loads(answer(capsys, "evaluate", run.path, "--lengths", "3:4", "--json"))
    assert [(r["length"], r["n"]) for r in odd["by_length"]] == [(3, None), (4, 2)]
    assert odd["by_length"][0]["exact"] is None
    said = json.loads(answer(capsys, "predict", run.path, "a a b", "--json"))
    assert [step["symbol"] for step in said["steps"]] == ["a", "a", "b"]
    assert isinstance(said["accepted"], bool)
    assert said["accepted"] == ("<end>" in said["steps"][-1]["next"])
    assert "the language" in answer(capsys, "predict", run.path, "aab")
    assert "patching: Nothing inside this network is claimed" in answer(
        capsys, "analyse", run.path, "patching", "--n", 3
    )
    assert (run.results / "patching-1" / "patching.svg").exists()
    assert "kept from before" in answer(capsys, "analyse", run.path, "patching", "--n", 3)
    assert "kept from before" not in answer(
        capsys, "analyse", run.path, "patching", "--n", 3, "--again"
    )
    first = run.steps()[0]
    then = ("analyse", run.path, "patching", "--n", 3, "--step", first, "--json")
    digest = Run(run.path, first).model_hash()
    assert json.loads(answer(capsys, *then))["model_hash"] == digest != run.model_hash()
    newest = json.loads(answer(capsys, "show", run.path, "patching", "--json"))
    assert newest["model_hash"] == run.model_hash()  # though the other step was asked last


@pytest.mark.slow
def test_what_is_built_in_for_counting_is_asked_for_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, name, counting in (
        ((), "anbncn-s0", 0),
        (("--recipe", "counting"), "anbncn-counting-s0", 1),
    ):
        answer(capsys, "train", "anbncn", *more, "--out", tmp_path, *TINY, *SHAPE)
        run = Run(tmp_path / name)
        assert run.record["config"]["recipe"] == ("counting" if counting else "plain")
        found = run.config.model.counting
        assert (found.averaging_heads, found.counters) == (counting, bool(counting))


def test_languages_say_which_recipes_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(answer(capsys, "languages", "--json"))
    recipes = {row["name"]: row["recipes"] for row in rows}
    assert (recipes["anbn"], recipes["dieren"]) == ("plain counting", "plain")


@pytest.mark.slow
@pytest.mark.torture
def test_a_corpus_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(of_run.Options, words=4)
    monkeypatch.setattr(of_run, "QUESTION", replace(of_run.QUESTION, options=quick))
    lines = tmp_path / "lines.tsv"
    lines.write_text(LINES)
    answer(capsys, "train", "--corpus", lines, "--out", tmp_path / "runs", *TINY, *SHAPE)
    path = tmp_path / "runs" / "lines-s0"
    lines.unlink()  # the run holds its own copy
    run = Run(path)
    assert run.language.chomsky == "finite sample"
    assert run.config.objective == "verdict"
    with without_pictures():
        said = answer(capsys, "analyse", path, "all")
    for name in ("accuracy", "heads", "patching", "explanations", "leaderboard", "discovery"):
        assert (run.results / f"{name}-1" / f"{name}.parquet").exists()
    for name in ("probing", "interventions"):
        assert f"{name}: not here: nothing is known of the hidden state" in said


def test_resume_goes_on_and_says_when_there_is_nothing_to_do(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "finished already" in answer(capsys, "resume", run.path)
    fresh = Run.create(tmp_path / "anbn-s0", tiny_config())
    answer(capsys, "resume", fresh.path, "--device", "cpu")
    assert fresh.record["status"] == "finished"
    assert fresh.model_hash() == run.model_hash()


def test_a_training_that_begins_anew_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(step: int, loss: float | None) -> None:
        if step == 3:
            raise KeyboardInterrupt

    lost = Run.create(tmp_path / "anbn-s0", tiny_config(steps=4, evaluate_every=1))
    with pytest.raises(KeyboardInterrupt):
        train(lost, "cpu", stop)
    (lost.path / STATE).unlink()
    assert main(["resume", str(lost.path), "--device", "cpu"]) == 0
    assert "has no saved state: its training begins anew" in " ".join(
        capsys.readouterr().err.split()
    )


def test_of_a_network_that_was_taught_verdicts_alone_only_they_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.create(tmp_path / "run", tiny_config(objective="verdict"))
    answer(capsys, "resume", run.path, "--device", "cpu")
    told = answer(capsys, "predict", run.path, "a b")
    assert "may follow" not in told
    assert "if it ended here" in told
    model, taught = run.model(), run.objective
    said = json.loads(answer(capsys, "predict", run.path, "a b", "--json"))
    assert said["accepted"] == predict(model, ("a", "b"), taught)[1]
    assert said["steps"] == [
        {"symbol": word[-1], "accepted": predict(model, word, taught)[1]}
        for word in (("a",), ("a", "b"))
    ]


def test_the_only_run_of_a_folder_is_meant(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(answer(capsys, "predict", run.path.parent, "ab", "--json"))["steps"]


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["fly"], "unknown command 'fly': choose one of languages, train"),
        (["analize"], "unknown command 'analize': did you mean analyse?"),
        (["train"], "no language given"),
        (["train", "klingon"], "unknown language 'klingon': choose one of an, anbn"),
        (["train", __file__], "is a file, not a language: give it as --corpus or --grammar"),
        (["train", "anbn", "--corpus", "x.tsv"], "are two things to train on: leave one out"),
        (["train", "--corpus", "x.tsv", "--symbols", "q"], "--symbols and --corpus are two things"),
        (["sweep", "leaderboard", "an", "anbn", "an"], "an is named twice: drop one"),
        (["demo", "an", "an"], "an is named twice: drop one"),
        (["train", "dieern"], "unknown language 'dieern': did you mean dieren?"),
        (["train", "anbn", "--stepz", "3"], "did you mean --steps? (see `lab train --help`)"),
        (["train", "anbn", "--steps", "many"], "--steps"),
        (["train", "anbn", "--steps", "0"], "it must be at least 1"),
        (["train", "anbn", "--model.n-heads", "7"], "does not divide"),
        (["train", "dieren", "--recipe", "counting"], "has no recipe 'counting': choose one of"),
        (["demo", "--recipe", "fast"], "unknown recipe 'fast': choose one of plain, counting"),
        (["train", "anbn", "--seed", "-1"], "seed is -1: it must be at least 0"),
        (["train", "anbn", "--seed", "18446744073709551616"], "it must be at most 4294967295"),
        (["train", "anbn", "--learning-rate", "inf"], "learning_rate is inf: it must be at most"),
        (["train", "anbn", "--weight-decay", "inf"], "weight_decay is inf: it must be at most"),
        (["train", "anbn", "--model.eps", "nan"], "eps is nan"),
        (["rule", "x.tsv", "--seed", "-1"], "--seed is -1: it must be at least 0"),
        (["sweep", "leaderboard", "--steps", "0"], "--steps is 0: it must be at least 1"),
        (["train", "anbn", "--objective", "guess"], "objective is 'guess': choose one of next-sym"),
        (["train", "anbn", "--wings", "2"], "see `lab train --help`"),
        (["train", "--corpus", "missing.tsv"], "cannot read missing.tsv (No such file"),
        (["evaluate", "nowhere"], "nowhere is not a run"),
        (["analyse"], "lab analyse RUN"),
        (["resume", "nowhere"], "nowhere is not a run"),
        (["dashboard", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_mistakes(
    args: list[str],
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert part in fault(capsys, *args)
    assert list(tmp_path.iterdir()) == []  # nothing half written


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["predict", "RUN", "a x b"], "unknown symbol 'x': use only a b"),
        (["evaluate", "RUN", "--lengths", "9:3"], "write FIRST:LAST"),
        (["evaluate", "RUN", "--max-n", "10000"], "are too many to read at once: choose shorter w"),
        (["evaluate", "RUN", "--max-n", "2000"], "choose a --count of at most 8, or shorter words"),
        (["evaluate", "RUN", "--max-n", "0"], "it must be at least 1"),
        (["evaluate", "RUN", "--count", "0"], "it must be at least 1"),
        (["analyse", "RUN", "astrology"], "unknown question 'astrology': choose one of accuracy"),
        (["analyse", "RUN", "patchin"], "unknown question 'patchin': did you mean patching?"),
        (["analyse", "RUN", "patching", "--pears", "3"], "did you mean --pairs?"),
        (["analyse", "RUN", "patching", "--json", "--csv"], "exclude each other"),
        (["analyse", "RUN", "--csv"], "--csv belongs to one question"),
        (["show", "RUN", "patching"], "keeps no answer to patching: ask with `lab analyse"),
        (["show", "RUN", "patchin"], "did you mean patching?"),
        (["analyse", "RUN", "patching", "--word", "a c"], "unknown symbol 'c'"),
        (["analyse", "RUN", "patching", "--word", "a a b"], "no counterfactual"),
        (["analyse", "RUN", "patching", "--pairs", "0"], "it must be at least 1"),
        (
            ["analyse", "RUN", "patching", "--word", "ab", "--corrupted", "abb"],
            "words of one length",
        ),
        (
            ["analyse", "RUN", "patching", "--word", "ab", "--corrupted", "ab"],
            "two different words",
        ),
        (["analyse", "RUN", "patching", "--n", "-5"], "--n is -5: it must be at least 1"),
        (["analyse", "RUN", "heads", "--seed", "-1"], "--seed is -1: it must be at least 0"),
        (["evaluate", "RUN", "--seed", "4294967296"], "it must be at most 4294967295"),
        (["analyse", "RUN", "explanations", "--word", ""], "the word is empty"),
        (["analyse", "RUN", "explanations", "--word", "a"], "explain one of 2 to"),
        (["analyse", "RUN", "probing", "--words", "2"], "at least 8"),
        (["analyse", "RUN", "interventions", "--pairs", "2"], "at least 8"),
        (["analyse", "RUN", "discovery", "--words", "1"], "at least 10"),
    ],
)
def test_mistakes_about_a_run(
    args: list[str], part: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.path.rglob("*"))
    assert part in fault(capsys, *(run.path if arg == "RUN" else arg for arg in args))
    assert sorted(run.path.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"A x y\n", "line 1: expected one tab, found 0"),
        (b"A\tx y\n\nB\ty\n", "line 2: the line is empty"),
        (b"A\tx y\nA\ty\n", "found 1 label(s)"),
        (b"A\tx\nB\ty\nC\tz\n", "found 3 label(s)"),
        (b"A\tx\nB\t\xff\0\n", "not UTF-8"),
        (b"A\tx y\nB\tx y\n", "has both labels"),
        (b"", "found 0 label(s)"),
    ],
)
def test_malformed_corpora_leave_nothing_behind(
    content: bytes, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.tsv"
    lines.write_bytes(content)
    assert part in fault(capsys, "train", "--corpus", lines, "--out", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.torture
def test_what_is_refused_late_leaves_no_folder_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder would stand in the way of the right command."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "runs"
    assert "no CUDA device" in fault(capsys, "train", "anbn", "--out", out, "--device", "cuda")
    assert "no CUDA device" in fault(capsys, "demo", "an", "--out", out, "--device", "cuda")
    assert "no CUDA device" in fault(capsys, "sweep", "capacity", "--out", out, "--device", "cuda")
    assert "no CUDA device" in fault(
        capsys, "sweep", "leaderboard", "an", "--out", out, "--device", "cuda"
    )
    few = tmp_path / "few.tsv"
    few.write_text("A\tx y\nB\ty x\n")
    assert "too few different lines" in fault(capsys, "train", "--corpus", few, "--out", out)
    assert not out.exists()


def test_no_address_is_told_of_a_port_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.execve", lambda *_: None)  # or it would take the place of the tests
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = fault(capsys, "dashboard", tmp_path, "--port", port)
    assert f"port {port} cannot be served" in said
    assert said.endswith("choose another with --port\n")


def test_patching_compares_the_two_words_that_are_given(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--word", "a a b b", "--corrupted", "a b b b"]
    found = json.loads(answer(capsys, "analyse", run.path, "patching", *words, "--json"))
    assert found["findings"]["counterfactuals"] == [["a", "b", "b", "b"]]
    assert found["findings"]["changed_positions"] == [2]
    before = [row["effect"] for row in found["table"] if row["position"] == 1]
    assert before == [0] * len(before)  # a causal model cannot know there what comes


def test_a_run_that_answers_nothing_is_a_fault(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("has no heads")

    monkeypatch.setattr("analyses.command_line.one_run.ask", refuse)
    assert main(["analyse", str(run.path)]) == 2
    assert "answers no question: has no heads" in capsys.readouterr().err


def test_a_run_is_never_overwritten(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = run.model_hash()
    said = fault(capsys, "train", "anbn", "--out", run.path.parent)
    assert "exists already" in said
    assert "lab resume" not in said  # it is finished
    assert run.model_hash() == before


def test_a_training_that_cannot_be_locked_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".anbn-s7.lab-lock").mkdir()
    words = ["train", "anbn", "--seed", "7", "--steps", "1", "--max-n", "4", "--out", str(tmp_path)]
    assert main(words) == 2
    assert ".anbn-s7.lab-lock is in the way of a lock" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [".anbn-s7.lab-lock"]


def test_damaged_checkpoints_are_refused(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    weights = max(copy.glob("checkpoints/*/model.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "truncated or damaged" in fault(capsys, "predict", copy, "ab")
    shutil.copyfile(min(copy.glob("checkpoints/*/model.safetensors")), weights)
    assert "not the file that was written" in fault(capsys, "evaluate", copy)
    weights.unlink()
    assert "cannot read" in fault(capsys, "analyse", copy, "heads")


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    said = fault(capsys, "train", "anbn", "--out", blocked / "runs", *TINY, *SHAPE)
    assert "cannot write" in said
    assert blocked.read_text() == "in the way"


def test_a_read_only_folder(run: Run, read_only: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``run`` has imported all that training needs; the other user may not read it."""
    assert "cannot write" in fault(capsys, "train", "anbn", "--out", read_only / "runs", *TINY)
    assert not list(read_only.iterdir())


def test_a_folder_that_was_removed_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the command is begun in. Some libraries end the process there."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "the folder that you are in was removed" in fault(capsys, "runs")


def test_all_answers_are_shown_by_name_too(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "show", run.path, "all")
    assert "not asked yet: accuracy" in said
    assert said == answer(capsys, "show", run.path)
