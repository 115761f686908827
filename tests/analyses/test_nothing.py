"""How often questions claim something of networks that have nothing to find, and of right ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import without_pictures

from analyses.answers import question
from analyses.command_line.app import main
from analyses.options.behaviour import Accuracy
from analyses.options.parts import Patching
from analyses.options.plants import Score
from analyses.scoring import nothing
from analyses.scoring.nothing import (
    NOTHING,
    NULL,
    PLANTED,
    RIGHT,
    TRUTH,
    _sentences,
    _summed_up,
    null,
    of_truths,
)
from analyses.studies.findings.tables import load
from analyses.track_record import FILE, track_record
from models.base import LanguageModel
from models.runs.run import Run


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nothing, "LEARNED", ("first", "anbn"))
    monkeypatch.setattr(nothing, "STEPS", 2)
    few = {"accuracy": Accuracy(max_n=5, all_words=6), "patching": Patching(n=2, pairs=3)}
    asked = {name: replace(question(name), brief=options) for name, options in few.items()}
    monkeypatch.setattr(nothing, "question", asked.__getitem__)


def same(one: LanguageModel, other: LanguageModel) -> bool:
    """Have both the same weights?"""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(weight, beside) for weight, beside in pairs)


@pytest.mark.usefixtures("brief")
def test_networks_of_every_kind_are_asked_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ["score", "--null", "--seeds", "1", "--out", str(tmp_path), "--workers", "1"]
    how += ["--programs", "anbn-10"]
    with without_pictures():
        assert main([*how, "--questions", "accuracy", "patching", "--json"]) == 0
    table = pd.DataFrame(json.loads(capsys.readouterr().out)["table"])
    assert len(table) == 2 * (2 * (2 + len(NULL)) + 1)
    assert set(table["kind"]) == {RIGHT, PLANTED, *NULL}
    known = table[table["kind"] == PLANTED].set_index("question")
    assert known.loc["accuracy", "claimed"]
    assert set(known["setting"]) == {"open"}
    assert set(table.loc[table["kind"] != PLANTED, "setting"]) == {""}
    assert not table.loc[table["kind"].isin(["before training", "one step"]), "claimed"].any()
    runs = {path.name for path in (tmp_path / "null").iterdir() if path.is_dir()}
    assert {"first-s0", "anbn-s0", "first-one-step-s0", "anbn-10-planted-s0"} <= runs
    trained, begun, stepped = (
        Run(tmp_path / "null" / f"first{kind}-s0") for kind in ("", "-before-training", "-one-step")
    )
    assert same(begun.model(), trained.model(0))
    assert not same(begun.model(), trained.model())
    assert not same(begun.model(), stepped.model())
    before = (tmp_path / "null" / "first-s0" / "run.json").stat().st_mtime_ns
    again = Score(null=True, seeds=1, out=tmp_path, workers=1, questions=("accuracy",))
    null(replace(again, programs=("anbn-10",)))
    assert (tmp_path / "null" / "first-s0" / "run.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("brief")
def test_a_permuted_network_reads_other_symbols(tmp_path: Path) -> None:
    from analyses.jobs.trained import trained

    run: Run = trained(tmp_path / "first-s0", nothing._config("first", 0))
    changed, own = NULL["symbols permuted"](run), run.model()
    with torch.no_grad():
        one, other = changed(torch.tensor([[0, 2, 3]])), own(torch.tensor([[0, 3, 2]]))
    torch.testing.assert_close(one, other)
    untrained = NULL["before training"](run)(torch.tensor([[0, 2, 3]]))
    assert not torch.allclose(untrained, one)


def test_false_and_right_claims_are_counted_over_networks() -> None:
    rows = [
        {"question": "q", "truth": truth, "kind": kind, "claimed": claimed}
        | {"alone": alone, "ahead": ahead}
        for truth, kind, claimed, alone, ahead in [
            *[(NOTHING, "one step", False, i < 5, float(i < 5) * 3) for i in range(20)],
            *[(TRUTH[RIGHT], RIGHT, True, True, ahead) for ahead in (1.0, 2.9, 3.5, 9.0)],
        ]
    ]
    summary = _summed_up(pd.DataFrame(rows))
    table = summary.set_index(["networks", "of"])
    assert table.loc[(NOTHING, "claimed"), "share"] == 0
    assert table.loc[(NOTHING, "alone"), ["share", "count"]].tolist() == [0.25, 20]
    assert table.loc[(NOTHING, "alone"), "high"] == pytest.approx(0.469, abs=1e-3)  # Wilson's
    assert table.loc[("right answers", "claimed"), "power"] == 0.5  # two of four lie beyond 3
    assert np.isnan(table.loc[("one step", "alone"), "power"])
    assert list(_sentences(summary)) == [
        "q claims something of 0% [0%, 16%] of 20 networks with nothing to find and of 100% "
        "[51%, 100%] of 4 networks with right answers."
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["LENS.py", "--null"], "--null asks questions, and LENS.py holds lenses"),
        (["--questions", "probing"], "--questions are those of --null"),
        (["--null", "--questions", "probign"], "probing"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", *options, "--out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_record_of_a_question_is_what_the_kept_table_counts() -> None:
    """Counts of networks that nobody had seen, asked as it is asked now."""
    table = load(Path("docs"), "null-fresh").rows.query("question != 'leaderboard, 40 words'")
    counts = of_truths(_summed_up(table)).query("of == 'claimed'")
    counts["claimed"] = (counts["share"] * counts["count"]).round().astype(int)
    written = counts[["question", "networks", "claimed", "count"]].to_csv(index=False)
    assert FILE.read_text(encoding="utf-8") == written, written


def test_a_record_is_told_beside_the_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"question": "q", "networks": networks, "claimed": claimed, "count": count}
        for networks, claimed, count in [(NOTHING, 3, 100), (TRUTH[RIGHT], 20, 40)]
    ]
    monkeypatch.setattr("analyses.track_record._rows", lambda: rows)
    assert track_record("q") == (
        "This question claims something of 3% [1%, 8%] of networks with nothing to find (3 of "
        "100). This question claims something of 50% [35%, 65%] of networks with right answers "
        "(20 of 40)."
    )
    for row in rows:
        row["claimed"] = 0
    assert track_record("q").endswith(
        "It claimed nothing at all: so few false claims do not speak for it."
    )
    assert track_record("another") == ""
