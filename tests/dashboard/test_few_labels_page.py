"""The page Few labels: it shows the study's own figures, and says how to make one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from parts import part
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, healthy

from analyses.answers import Answer, save
from analyses.studies import few_labels as study

SCRIPT = SHOW.format(page="few-labels")
WAYS = (study.PROBE, "all", study._subspace(4))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    return tmp_path


def page() -> AppTest:
    return healthy(AppTest.from_string(SCRIPT, default_timeout=120).run())


def test_without_a_study_the_page_names_the_command(folder: Path) -> None:
    assert "`lab sweep few-labels`" in page().info[0].value


def test_the_page_shows_means_over_seeds(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"target": "nested", "seed": seed, "parent": parent, "way": way, "lines": lines}
        | {"rate": 1e-3, "right": rng.random(), "hard": rng.random(), "forgotten": np.nan}
        for seed in range(3)
        for parent in study.PARENTS
        for way in WAYS
        for lines in (10, 100)
    ]
    table = pd.DataFrame(rows)
    said = study._said(table)
    answer = Answer(table, " ".join(said), {"sentences": said}, {"dimensions": [4]})
    save(folder / "few-labels", study.NAME, study.QUESTION, answer, None)
    shown = page()
    (means,) = study.wide(study.over_seeds(table), "right").values()
    pd.testing.assert_frame_equal(shown.dataframe[0].value, means)
    assert any("3 seeds" in text.value for text in shown.markdown)
    intrinsic = healthy(part(shown, "Intrinsic dimension")).dataframe[0].value
    pd.testing.assert_frame_equal(intrinsic, study.intrinsic(table, [4]))
    part(shown, "nested")
    hard = healthy(shown.segmented_control(key="labels_measure").set_value("hard").run())
    (other,) = study.wide(study.over_seeds(table), "hard").values()
    pd.testing.assert_frame_equal(hard.dataframe[0].value, other)
