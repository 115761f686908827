"""The Model page for every architecture, without a browser."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY, tiny_config, tiny_of
from parts import part, parts
from streamlit.testing.v1 import AppTest

from models.families import FAMILIES
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train

SHOW = """
from dashboard.pages import pages
pages()["model"].draw()
"""
STEPS, NAMES, COSTS = "Step by step", "Parameters by name", "Where the compute goes"
MEASURES, HOOKS = "How far back, and in how many dimensions", "Every activation by name"
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
    return healthy(AppTest.from_string(SHOW, default_timeout=120).run())


def healthy(page: AppTest) -> AppTest:
    assert not page.exception
    assert not page.error
    return page


def charts(page: AppTest) -> int:
    return len(page.get("vega_lite_chart"))


def assert_drawn(page: AppTest, steps: int, costs: int) -> None:
    """So many charts in each part, below the drawing that stands above them all."""
    names = [tab.label for tab in page.tabs]
    shown = [charts(healthy(opened)) - 1 for opened in parts(page)]
    expected = {STEPS: steps, NAMES: 0, COSTS: costs, MEASURES: 0, HOOKS: 0}
    assert dict(zip(names, shown, strict=True)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: config.positions)
def test_a_transformer(
    tmp_path: Path, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(tmp_path, config, monkeypatch)
    steps = {"none": 7, "rotary": 9, "t5": 9}[config.positions]
    assert_drawn(page, steps, costs=2)
    numbers = sum(p.numel() for p in run_of(page, tmp_path))
    assert part(page, NAMES).metric[0].value == f"{numbers:,}"
    (head,) = (c for c in part(page, STEPS).segmented_control if c.label == "Head")
    healthy(head.set_value(1).run())
    assert any("head 1 is one of 2" in caption.value for caption in page.caption)


def run_of(page: AppTest, path: Path) -> list:
    return list(Run(path / page.session_state["run"]).model().parameters())


@pytest.mark.parametrize("architecture", RIVALS)
def test_a_rival(tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(architecture=architecture, n_layers=1, d_model=8)
    page = opened(tmp_path, config, monkeypatch)
    steps = {"lstm": 2, "gru": 1, "rnn": 1, "cnn": 3, "ngram": 1}[architecture]
    assert_drawn(page, steps, costs=0 if architecture == "ngram" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [n for n, family in FAMILIES.items() if family.two_sided])
def test_two_sides(tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and states of an LSTM are drawn; of attention across, and of costs, it says no more."""
    config = tiny_of(architecture)
    page = opened(
        tmp_path, config, monkeypatch, language="copy", objective="sequence-to-sequence", max_n=8
    )
    told = [info.value.split(":")[0] for opened in parts(page) for info in opened.info]
    steps = 2 if config.family.recurrent else 0
    assert_drawn(page, steps, costs=0)
    assert told == [
        *([] if steps else ["The steps of cross-attention are not drawn"]),
        "What two sides cost is not counted here",
    ]


@pytest.mark.slow
def test_measuring_and_a_word_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(tmp_path, replace(TINY, positions="learned", n_ctx=32), monkeypatch)
    before = charts(part(page, COSTS))
    healthy(page.toggle(key="measure").set_value(True).run())
    assert charts(page) == before + 1
    page.text_input(key="word_anbn").set_value("a " * 41).run()
    assert "steps are drawn for up to 40" in page.error[0].value


def test_how_far_back_and_in_how_many_dimensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig(architecture="lstm", n_layers=1, d_model=8)
    page = opened(tmp_path, config, monkeypatch)
    steps = part(page, COSTS).dataframe[-1].value
    assert steps["path length"].tolist() == [3, 7, 15, 31]
    before = charts(part(page, MEASURES))
    for asked, name in (("reach", "influence by distance"), ("dimension", "effective dimension")):
        healthy(page.segmented_control(key="measured_of_model").set_value(name).run())
        assert charts(page) == before + 1
        page.session_state[f"part_of_{asked}"] = "Controls and limits"  # a part inside a part
        healthy(page.run())
        assert any("Nothing inside this network is claimed" in m.value for m in page.markdown)
