"""The page Scoreboard: its numbers are those of the table, as far as settings are chosen."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from parts import part, parts
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, healthy

from analyses.answers import Answer, save
from analyses.scoring import board, summary

SCRIPT = SHOW.format(page="scoreboard")
EDGES = [["embed", "L0H0.v"], ["L0H0", "logits"], ["embed", "logits"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    return tmp_path


def page() -> AppTest:
    return healthy(AppTest.from_string(SCRIPT, default_timeout=120).run())


def test_without_a_scoreboard_the_page_names_the_command(folder: Path) -> None:
    assert "`lab score`" in page().info[0].value


def test_the_page_shows_the_table_by_setting(folder: Path) -> None:
    rng = np.random.default_rng(0)
    lenses = ("a", "b", "c", "random", summary.ORACLE)
    table = pd.DataFrame(
        {"lens": lens, "question": "edges", "program": program, "setting": setting, "seed": 0}
        | {"variable": "", "network": summary.PLANTED, "measure": measure, "value": rng.random()}
        | {"fault": "it printed" if (lens, program) == ("b", "one") else ""}
        | {"calls": 5, "milliseconds": 2.0}
        for lens, program, setting, measure in product(
            lenses, ("one", "two"), ("open", "decoys"), ("AUROC", "average precision", "CPR")
        )
    )
    save(folder, board.NAME, board.QUESTION, Answer(table, "", {"sentences": ["Said."]}, {}), None)
    found = {"edges": EDGES, "planned": [True, True, False], "scores": {"a": [3.0, 1.0, 2.0]}}
    kept = folder / board.FOLDER / "one-open-s0"
    save(kept, board.KEPT, board.QUESTION, Answer(table[:1], "", found, {}), None)
    shown = page()
    first = shown.dataframe[0].value
    wanted = summary.compact(summary.summed_up(table))
    assert first["lens"].tolist() == wanted["lens"].tolist()
    assert first["score"].tolist() == wanted["score"].tolist()
    for name, words in (
        ("One network", "Of the 2 edges of the plan 1 were found"),
        ("In words", "Said."),
        ("Faults: 1", "it printed (2 times)"),
    ):
        assert any(words in text.value for text in healthy(part(shown, name)).markdown)
    for opened in parts(shown):
        healthy(opened)
    part(shown, "All lenses")
    alone = healthy(shown.pills(key="settings").set_value(["open"]).run())
    own = summary.compact(summary.summed_up(table[table["setting"] == "open"]))
    assert alone.dataframe[0].value["score"].tolist() == own["score"].tolist()
