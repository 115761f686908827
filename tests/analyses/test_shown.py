"""What every command has in common: --json, --csv, --help, progress, and lists of what is there."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from conftest import tiny_config

from analyses import console
from analyses.answers import Answer, answer, question
from analyses.command_line.app import COMMANDS, main
from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES, TAKES
from analyses.console import PLAIN, _progress_lines, option_values, shown
from analyses.options.commands import Train
from analyses.options.parts import Patching
from analyses.options.shared import Asks, Shows
from analyses.registry import BUILT_IN, options_of
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

FURTHER = STUDIES | SHOWN | SHOWN_OF
"""What `lab sweep` and `lab show` do by a further word."""
OPTIONS = ("--json", "--csv", "--out", "--workers", "--device")
TABLE = """
languages    json csv  -   -       -
train        -    -    out -       device
finetune     -    -    out -       device
resume       -    -    -   -       device
runs         json csv  -   -       -
evaluate     json csv  -   -       -
predict      json csv  -   -       -
generate     json csv  -   -       -
analyse      json csv  -   -       -
seeds        json csv  -   workers -
show         json csv  -   -       -
report       -    -    -   -       -
rule         json csv  out -       device
sweep        json csv  out workers device
recover      json csv  out workers device
plant        json csv  out -       -
score        json csv  out workers -
dashboard    -    -    -   -       -
demo         json csv  out workers device
completion   -    -    -   -       -
leaderboard  json csv  out workers device
few-labels   json csv  out workers device
size         json csv  -   -       -
hooks        json csv  -   -       -
scaling      json csv  -   -       -
"""
"""Which command takes what. --json and --csv: whatever prints a table. --out: whatever makes runs
that have no folder yet. --workers: whatever does several things that may go side by side. --device:
whatever trains."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished tiny run that was asked one question, and with a damaged one."""
    folder = tmp_path_factory.mktemp("runs")
    run = Run.create(folder / "anbn-s0", tiny_config())
    train(run, device="cpu")
    answer(run, "patching", Patching(n=2, pairs=3))
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def refused(run: Run, name: str, options: None, how: Asks) -> tuple[Answer, bool]:
    """Knows patching; of all else it says that it does not apply."""
    if name != "patching":
        raise UserError("has no heads")
    return answer(run, name, Patching(n=2, pairs=3))


def taken(command: str) -> set[str]:
    """The options of a command."""
    if command in ("train", "finetune"):
        return set(option_values(Train, Train(recipe(""))))
    every = TAKES | FURTHER | {"analyse": Asks}
    return set(option_values(every[command]))


def test_the_table_of_all_commands_and_options() -> None:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    assert [name for name, *_ in rows] == [*COMMANDS, *FURTHER]
    for name, *marks in rows:
        wanted = {f"--{mark}" for mark in marks if mark != "-"}
        assert taken(name) & set(OPTIONS) == wanted, name
        assert "--help" in taken(name) or name == "analyse"
    for name in BUILT_IN:
        wanted = {"--workers", "--device"} if name == "influence" else set()
        assert set(option_values(options_of(name))) & set(OPTIONS) == wanted, name


@pytest.mark.parametrize(
    "command",
    [
        *([name] for name in COMMANDS),
        *(["sweep", name] for name in STUDIES),
        *(["show", name] for name in SHOWN),
        *(["show", "RUN", name] for name in SHOWN_OF),
        *(["analyse", "RUN", name] for name in BUILT_IN),
    ],
    ids=" ".join,
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert not stop.value.code
    assert f"lab {' '.join(command)}" in " ".join(capsys.readouterr().out.split())


def test_train_shows_the_defaults_of_the_language(capsys: pytest.CaptureFixture[str]) -> None:
    for words, config in (
        (["anbn"], recipe("anbn")),
        (["dieren"], recipe("dieren")),
        (["--regex", "a*b"], recipe("")),
        (["anbncn", "--recipe", "counting"], recipe("anbncn", name="counting")),
        (
            ["anbn", "--model.architecture", "lstm"],
            recipe("anbn", ModelConfig(architecture="lstm")),
        ),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words, "--help"])
        help_text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert f"spans it. (default: {config.steps})" in help_text
        assert f"(default: {config.model.d_model})" in help_text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == "structure-lab 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (["languages"], {"name", "type", "symbols", "example", "near miss", "recipes"}),
        (["runs", "RUNS"], {"run", "language", "status", "step", "recognition", "exact_to"}),
        (["evaluate", "RUN", "--max-n", "2"], {"length", "n", "exact"}),
        (["predict", "RUN", "a a b"], {"symbol", "next"}),
        (["generate", "RUN"], {"word", "ended", "in_language"}),
        (["show", "RUN", "hooks"], {"name", "shape", "meaning"}),
        (["show", "RUN"], {"question", "answer"}),
        (["show", "RUN", "patching"], {"component", "layer", "effect"}),
        (["analyse", "RUN", "patching", "--n", "2"], {"component", "layer", "effect"}),
    ],
)
def test_the_answer_as_json_and_the_table_as_csv(
    words: list[str], columns: set[str], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [{"RUN": str(runs / "anbn-s0"), "RUNS": str(runs)}.get(word, word) for word in words]
    table = pd.read_csv(StringIO(said(capsys, *words, "--csv")))
    assert columns <= set(table.columns)
    content = json.loads(said(capsys, *words, "--json"))
    rows = (
        content
        if isinstance(content, list)
        else next(x for key, x in content.items() if isinstance(x, list) and key != "claims")
    )
    assert len(rows) == len(table) > 0
    assert main([*words, "--json", "--csv"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_all_questions_as_json(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyses.command_line.one_run.usual", lambda: ["patching", "heads"])
    monkeypatch.setattr("analyses.command_line.one_run.answered", refused)
    found = json.loads(said(capsys, "analyse", runs / "anbn-s0", "--json"))
    assert found["patching"]["sentence"]
    assert found["heads"] == {"not here": "has no heads"}


def test_runs_lists_what_cannot_be_opened_too(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["run"]: row for row in json.loads(said(capsys, "runs", runs, "--json"))}
    assert rows["anbn-s0"]["status"] == "finished"
    assert (rows["anbn-s0"]["language"], rows["anbn-s0"]["step"]) == ("anbn", 12)
    assert "broken" in rows["broken"]["status"]
    assert "anbn-s0" in said(capsys, "runs", runs)
    assert "train one with" in said(capsys, "runs", tmp_path)
    assert main(["runs", str(tmp_path / "nowhere")]) == 2


def test_show_tells_an_answer_of_another_version_from_none(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(runs / "anbn-s0")
    answer(run, "patching", Patching(n=2, pairs=3))
    monkeypatch.setattr("analyses.answers.code_of", lambda name: "another")
    whole = said(capsys, "show", run.path)
    assert "answered by another version of the lab: accuracy, patching\n" in whole
    assert "patching" not in whole.partition("not asked yet: ")[2]


def test_show_prints_what_is_kept(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(runs / "anbn-s0")
    kept, known = answer(run, "patching", Patching(n=2, pairs=3))
    assert known
    whole = said(capsys, "show", run.path)
    assert kept.sentence in whole
    assert "not asked yet: " in whole
    assert "discovery" in whole
    one = said(capsys, "show", run.path, "patching")
    assert kept.sentence in one
    for variable in question("patching").headline(kept)["variable"]:
        assert variable in one
    run.update(status="training")  # as if it had gone on
    assert kept.sentence in said(capsys, "show", run.path, "patching")


def test_an_answer_about_another_step_is_not_the_run_s(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    early, _ = answer(Run(trained.path, 5), "patching", Patching(n=2, pairs=3))
    whole = said(capsys, "show", trained.path)
    assert early.sentence not in whole
    assert "patching: The answer is about another checkpoint; `lab analyse " in whole
    assert said(capsys, "show", trained.path, "--json") == "[]\n"


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 6.0, 7.0, 11.5])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    report = _progress_lines()
    for done in range(4):
        report(done, 9, "patching")
    assert capsys.readouterr().err == "patching: 1 of 9\npatching: 3 of 9\n"


def test_progress_without_a_terminal_says_how_many_minutes_are_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the pace since the first report: what was done before it, a resumed run did long ago."""
    clock = iter([0.0, 10.0, 16.0, 22.0, 30.0, 36.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    report = _progress_lines()
    for done in (500, 503, 506):
        report(done, 1000, "training")
    report(0, 10, "another task")
    report(1, 10, "another task")
    assert capsys.readouterr().err.splitlines() == [
        "training: 500 of 1000",
        "training: 503 of 1000, about 17 min left",
        "training: 506 of 1000, about 16 min left",
        "another task: 0 of 10",
        "another task: 1 of 10",
    ]


def test_csv_commands_no_terminal_and_no_spreadsheet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = ["=1+1", "+a", "-b", "@SUM(A1)", "\x1b[2Jx", "a\u202eb", "+", "-", "-0.5", "plain"]
    cells += ["=1", "@2", "\uff1d1+1", "="]
    table = pd.DataFrame({"=word": cells, "value": -1.5})
    assert shown(Shows(csv=True), table)
    printed = capsys.readouterr().out
    again = pd.read_csv(StringIO(printed), keep_default_na=False)
    assert again["'=word"].tolist() == [
        *("'=1+1", "'+a", "'-b", "'@SUM(A1)", "\\x1b[2Jx", "a\\u202eb"),
        *("+", "-", "-0.5", "plain"),
        *("'=1", "'@2", "'\uff1d1+1", "="),
    ]
    assert again["value"].eq(-1.5).all()
    assert set(printed) <= {*map(chr, range(32, 127)), "\n", "\uff1d"}


def test_json_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    word = "\x1b[2Ja\u202eb\x9b1mé"
    assert shown(Shows(json=True), pd.DataFrame(), {word: [word]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {word: [word]}
    assert set(printed) <= {*map(chr, range(32, 127)), "é", "\n"}


def test_what_is_no_number_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN is not JSON: an interval of one value has no bounds."""
    console.print_json({"low": float("nan"), "rows": [{"high": float("inf")}, {"n": 1}]})
    assert capsys.readouterr().out == '{"low": null, "rows": [{"high": null}, {"n": 1}]}\n'


def test_the_terminal_shows_what_turns_the_direction_of_writing_by_its_number() -> None:
    out = PLAIN(file=StringIO(), width=200)
    out.print("a\u202eb\u2067c\u200fd\x1b[2J")
    assert isinstance(out.file, StringIO)
    assert out.file.getvalue() == "a\\u202eb\\u2067c\\u200fd\\x1b[2J\n"
