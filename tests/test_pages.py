"""The pages of every lens on models that are no plain decoder, without a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import tiny_config
from streamlit.testing.v1 import AppTest
from test_kinds import KINDS, SIZES, TASKS

from analyses.results import answer
from models.config import ModelConfig
from models.runs import Run
from models.training import train

SHOW = """
import streamlit as st
from dashboard.views import {page}
from dashboard.shared import choose_run, explain_errors
with explain_errors():
    choose_run()
    {page}.show()
"""
PAGES = ("home", "try_it", "probing", "heads", "patching", "attribution", "discovery")


@pytest.fixture(scope="module", params=["encoder", "lstm", "ngram"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny run that every question was asked of, as far as it applies."""
    model = ModelConfig(**{**SIZES, **KINDS[request.param]})
    supervision = "last" if model.is_encoder else "every"
    folder = tmp_path_factory.mktemp("pages")
    config = tiny_config(model=model, supervision=supervision, steps=3)
    run = Run.create(folder / request.param.replace(" ", "-"), config)
    train(run, "cpu")
    for name, (_, options) in TASKS.items():
        if name != "heads" or model.architecture == "transformer":
            answer(run, name, options)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_or_says_why_not(
    runs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
    page = AppTest.from_string(SHOW.format(page=name), default_timeout=120).run()
    assert not page.exception
    assert all(error.value.startswith("The model says") for error in page.error)  # after 3 steps
    (run,) = (Run(path) for path in runs.iterdir())
    if name == "heads" and run.config.model.architecture != "transformer":
        assert "has no attention heads" in page.info[0].value
        assert "\n" not in page.info[0].value
    else:
        assert len(page.get("vega_lite_chart"))
