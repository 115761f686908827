"""The study of automata: how lines are drawn, who learns from them, and what is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answers
from analyses.charts.discovery import by_class, recovery_chart
from analyses.command_line.app import main
from analyses.options.lines import Recover
from analyses.rules import of_automata, recovery
from analyses.rules.automaton_file import read_automaton
from analyses.rules.of_automata import Target, _different, _Draw, findings, recovered, targets
from interp.automata.extraction import run
from models.errors import UserError
from models.languages import RegularLanguage
from models.training.recipes import recipe

SIDE_BY_SIDE = "0\t0\tb\tb\n0\t0\tc\tc\n0\t1\ta\ta\n1\t1\tc\tc\n1\t0\tb\tb\n0\n1\n"
"""Never a a side by side, with c left out."""
EVEN = "0\t0\tb\tb\n0\t0\tc\tc\n0\t1\ta\ta\n1\t1\tb\tb\n1\t1\tc\tc\n1\t0\ta\ta\n0\n"
FEW = "0\t1\ta\ta\n1\t1\tb\tb\n1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two automata, and few lines of each."""
    monkeypatch.setattr(of_automata, "LINES", 120)
    monkeypatch.setattr(of_automata, "DRAWN", 180)
    (tmp_path / "03.02.TSL.2.1.0.att").write_text(SIDE_BY_SIDE)
    (tmp_path / "even.att").write_text(EVEN)
    return tmp_path


def test_lines_are_half_members_of_all_lengths_and_all_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "even.att"
    file.write_text(EVEN)
    dfa, symbols = read_automaton(file)
    draw = _Draw.of(Target(file, 0), dfa, symbols)
    sides = {"lines": draw.lines, **draw.tests}
    for name, lines in sides.items():
        assert len(set(lines.words)) == 1000
        assert lines.labels.sum() == 500
        assert run(dfa, lines.words).tolist() == lines.labels.tolist()
        for label in (True, False):
            some = Counter(
                len(w) for w, yes in zip(lines.words, lines.labels, strict=True) if yes == label
            )
            assert set(some) == set(range(31, 51) if name == "LR" else range(20, 30))
            assert max(some.values()) - min(some.values()) <= (20 if name == "lines" else 2)
    learned, labels = draw.corpus.sides("train")
    assert dict(zip(learned, labels.tolist(), strict=True)) == dict(
        zip(draw.lines.words, draw.lines.labels.tolist(), strict=True)
    )
    other = _Draw.of(Target(file, 1), dfa, symbols)
    assert len(set(other.lines.words) & set(draw.lines.words)) < 50
    monkeypatch.setattr(of_automata, "SHORT", range(7, 9))  # here half of all words are drawn
    draw = _Draw.of(Target(file, 0), dfa, symbols)
    assert not set(draw.tests["SR"].words) & set(
        draw.corpus.sides("train", "validation", "test")[0]
    )


def test_words_are_drawn_evenly_and_of_the_next_length_where_one_has_no_more() -> None:
    known = RegularLanguage.from_regex("x", "a*b", "ab")  # one word of each length
    words = _different(known, np.random.default_rng(0), range(1, 6), 3, known=[("a", "b")])
    assert sorted(map(len, words)) == [1, 3, 4]
    even = RegularLanguage.from_regex("x", "(a|b)*", "ab")
    rng = np.random.default_rng(0)
    drawn = Counter(w for _ in range(600) for w in _different(even, rng, range(3, 4), 4, known=()))
    assert len(drawn) == 8
    assert all(abs(n - 300) < 60 for n in drawn.values())
    with pytest.raises(LookupError, match="too few words of 1 to 5 symbols"):
        _different(known, np.random.default_rng(0), range(1, 6), 6, known=())


def test_an_automaton_of_few_words_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "few.att").write_text(FEW)
    with pytest.raises(UserError, match=r"few\.att has too few words of 20 to 29 symbols of one"):
        recovered(Target(tmp_path / "few.att", 0), tmp_path, False, "cpu")


def test_class_and_window_are_those_of_the_name_or_are_decided(folder: Path) -> None:
    abouts = [target.about(*read_automaton(target.file)) for target in targets(folder, 1)]
    assert abouts == [
        {"automaton": "03.02.TSL.2.1.0", "class": "TSL", "window": 2, "states": 3, "seed": 0},
        {"automaton": "even", "class": "Zp", "window": 2, "states": 2, "seed": 0},
    ]


def test_the_study_is_kept_and_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--automata", str(folder), "--out", str(folder), "--seeds", "1", "--workers", "1"]
    assert main(["recover", "automata", *arguments, "--no-rivals"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "mean over 2 automata and 1 draw(s): lab rule 100.0% and 100.0%, 2 of 2 exact" in said
    alone = Answers(folder, "recovery-automata").latest()
    assert alone is not None
    assert recovery_chart(alone).to_dict()["facet"]["column"]["field"] == "test"
    assert alone.table["way"].tolist() == 2 * ["lab rule", "classes", "annealing", "RPNI", "EDSM"]
    assert alone.table["says"].tolist()[1] == "never contains a a side by side (with c left out)"

    steps = replace(recipe(""), steps=2, evaluate_every=1)
    monkeypatch.setattr(of_automata, "lstm_configuration", lambda options, corpus: steps)
    monkeypatch.setattr(of_automata, "_by_finders", None)  # what is kept is not found again
    both = recovery.recover(Recover("automata", folder, 1, automata=folder, workers=1)).table
    network = both[both["way"] == "LSTM"]
    assert network["exact"].isna().all()
    assert network[["SR", "LR"]].stack().between(0.2, 0.99).all()  # it has hardly learned
    pd.testing.assert_frame_equal(both.drop(network.index).reset_index(drop=True), alone.table)
    assert not list(folder.rglob("checkpoints"))


def test_the_shortest_code_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival's automaton is the choice where the search has none as short."""
    target = targets(folder, 1)[1]
    dfa, symbols = read_automaton(target.file)
    wrong = read_automaton(targets(folder, 1)[0].file)[0]
    for other in ("annealed", "rpni"):
        monkeypatch.setattr(of_automata, other, lambda *lines: wrong)
    monkeypatch.setattr(of_automata, "edsm", lambda *lines: dfa)
    searched = of_automata.search(*_few(symbols))
    monkeypatch.setattr(of_automata, "search", lambda *lines: searched)
    draw = _Draw.of(target, dfa, symbols)
    rows = {row["way"]: row for row in of_automata._by_finders(draw, dfa, symbols)}
    assert [rows[way]["exact"] for way in ("lab rule", "EDSM", "classes", "RPNI")] == [1, 1, 0, 0]
    assert rows["lab rule"]["says"] == rows["EDSM"]["says"] == "has an even number of a"
    at = np.array([run(wrong, lines.words) == lines.labels for lines in draw.tests.values()])
    assert [rows["RPNI"][test] for test in ("SR", "LR")] == at.mean(axis=1).tolist()


def _few(symbols: list[str]) -> tuple[list[tuple[str, ...]], np.ndarray, list[str]]:
    """Two lines, of which nothing can be learned."""
    return [(symbols[0],), (symbols[1],)], np.array([True, False]), symbols


def test_classes_in_which_another_way_is_better_are_named() -> None:
    rows = [
        {
            "automaton": kind,
            "class": kind,
            "seed": 0,
            "way": way,
            "exact": exact,
            "SR": sr,
            "LR": lr,
        }
        for kind, way, exact, sr, lr in [
            *[("SL", "lab rule", 1.0, 1.0, 0.9), ("SL", "RPNI", 0.0, 0.5, 0.919)],
            *[("SF", "lab rule", 0.0, 0.9, 0.9), ("SF", "RPNI", 1.0, 1.0, 0.9)],
        ]
    ]
    network = [row | {"way": "LSTM", "exact": np.nan, "SR": 0.6, "LR": 0.95} for row in rows[::2]]
    sentence, found = findings(pd.DataFrame([*rows, *network]))
    assert "lab rule 95.0% and 90.0%, 1 of 2 exact; RPNI 75.0% and 91.0%, 1 of 2" in sentence
    assert "LSTM 60.0% and 95.0%." in sentence
    assert sentence.endswith("another: SF (SR, RPNI), SF (LR, LSTM), SL (LR, LSTM).")
    assert len(found["behind"]) == 3
    table = by_class(pd.DataFrame(rows)).set_index(["class", "way"])
    assert table.loc[("SF", "RPNI")].tolist() == [1.0, 1.0, 0.9]
