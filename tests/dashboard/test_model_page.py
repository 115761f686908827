"""The Model page for every architecture, without a browser."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY, tiny_config, tiny_of
from streamlit.testing.v1 import AppTest

from models.families import FAMILIES
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train

SHOW = """
import streamlit as st
from dashboard.views.look_inside import model
from dashboard.drawing import explain_errors
from dashboard.selection import choose_run
with explain_errors():
    choose_run(st.container(), steps=False)
    model.show()
"""
VARIANTS: list[ModelConfig] = [
    TINY,
    replace(TINY, positions="rotary", norm_placement="sandwich", mlp="gated"),
    replace(TINY, positions="t5", mask="bidirectional", norm_placement="post"),
]
RIVALS: list[str] = ["rnn", "lstm", "gru", "cnn", "ngram"]


def opened(
    path: Path, config: ModelConfig, monkeypatch: pytest.MonkeyPatch, **changes: object
) -> AppTest:
    objective = "verdict" if config.sees_ahead else "next-symbols"
    changes = {"objective": objective, **changes}
    run = Run.create(path / "run", tiny_config(model=config, **changes))
    train(run, "cpu")
    monkeypatch.setattr(sys, "argv", ["app.py", str(path)])
    page = AppTest.from_string(SHOW, default_timeout=120).run()
    assert not page.exception
    assert not page.error
    return page


def charts(page: AppTest) -> int:
    return len(page.get("vega_lite_chart"))


@pytest.mark.slow
@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: config.positions)
def test_a_transformer(
    tmp_path: Path, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(tmp_path, config, monkeypatch)
    steps = {"none": 7, "rotary": 9, "t5": 9}[config.positions]
    assert charts(page) == 1 + steps + 2 + 3  # drawing, steps, costs, kernels
    assert page.metric[0].value == f"{sum(p.numel() for p in run_of(page, tmp_path)):,}"
    page.segmented_control[1].set_value(1).run()
    assert not page.exception
    assert any("head 1 is one of 2" in caption.value for caption in page.caption)


def run_of(page: AppTest, path: Path) -> list:
    return list(Run(path / page.session_state["run"]).model().parameters())


@pytest.mark.parametrize("architecture", RIVALS)
def test_a_rival(tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(architecture=architecture, n_layers=1, d_model=8)
    page = opened(tmp_path, config, monkeypatch)
    steps = {"lstm": 2, "gru": 1, "rnn": 1, "cnn": 3, "ngram": 1}[architecture]
    assert charts(page) == 1 + steps + (0 if architecture == "ngram" else 2) + 3


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [n for n, family in FAMILIES.items() if family.two_sided])
def test_two_sides(tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and states of an LSTM are drawn; of attention across, and of costs, it says no more."""
    config = tiny_of(architecture)
    page = opened(
        tmp_path, config, monkeypatch, language="copy", objective="sequence-to-sequence", max_n=8
    )
    told = [info.value.split(":")[0] for info in page.info]
    steps = 2 if config.family.recurrent else 0
    assert charts(page) == 1 + steps + 3
    assert told == [
        *([] if steps else ["The steps of cross-attention are not drawn"]),
        "What two sides cost is not counted here",
    ]


@pytest.mark.slow
def test_measuring_and_a_word_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(tmp_path, replace(TINY, positions="learned", n_ctx=32), monkeypatch)
    before = charts(page)
    page.toggle[0].set_value(True).run()
    assert not page.exception
    assert charts(page) == before + 1
    page.text_input[0].set_value("a " * 41).run()
    assert "steps are drawn for up to 40" in page.error[0].value


def test_how_far_back_and_in_how_many_dimensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig(architecture="lstm", n_layers=1, d_model=8)
    page = opened(tmp_path, config, monkeypatch)
    steps = page.dataframe[-1].value
    assert steps["path length"].tolist() == [3, 7, 15, 31]
    before = charts(page)
    choice = next(c for c in page.segmented_control if c.label == "Measure")
    for name in ("influence by distance", "effective dimension"):
        choice.set_value(name).run()
        assert not page.exception
        assert not page.error
        assert charts(page) == before + 1
        assert any("Nothing inside this network is claimed" in m.value for m in page.markdown)
        choice = next(c for c in page.segmented_control if c.label == "Measure")
