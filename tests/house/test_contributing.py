"""CONTRIBUTING.md is true: its example, in a package of its own, is a question like any other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from compared import plainly
from conftest import tiny_config
from parts import part
from streamlit.testing.v1 import AppTest

from analyses.answers import Answers, Question, question
from analyses.claims import NOTHING_KNOWN
from analyses.command_line.app import main
from analyses.registry import BUILT_IN, registered
from models.errors import UserError
from models.runs.run import Run
from models.training.loop import train

ROOT = Path(__file__).parents[2]
PAGE = """
from dashboard.pages import pages
from dashboard.drawing import explain_errors
from dashboard.selection import choose_run
import streamlit as st
with explain_errors():
    choose_run(st.container(), steps=False)
    pages()["stream_norm"].show_one()
"""


def example(language: str) -> str:
    """The one block of the guide in this language."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{language}\n(.*?)```", guide, flags=re.DOTALL)
    return str(block)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as another package: its file, and what pip writes of its entry point."""
    (tmp_path / "your_package").mkdir()
    (tmp_path / "your_package" / "stream_norm.py").write_text(example("python"))
    about = tmp_path / "your_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1\n")
    _, entry = example("toml").splitlines()
    (about / "entry_points.txt").write_text(
        f"[structure_lab.questions]\n{entry.replace(chr(34), '')}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registered.cache_clear()
    yield tmp_path
    registered.cache_clear()
    for name in [name for name in sys.modules if name.startswith("your_package")]:
        del sys.modules[name]


@pytest.fixture
def runs(package: Path) -> Path:
    """Two seeds of a second each."""
    folder = package / "runs"
    for seed in (0, 1):
        train(Run.create(folder / f"anbn-s{seed}", tiny_config(seed=seed)), "cpu")
    return folder


@pytest.mark.slow
def test_the_example_is_registered_once_and_works_everywhere(
    runs: Path,
    package: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(registered()) == [*BUILT_IN, "stream_norm"]
    first = Run(runs / "anbn-s0")

    # its script
    script = [sys.executable, "-m", "your_package.stream_norm", str(first.path), "--words", "20"]
    path = os.pathsep.join((str(package), str(ROOT)))
    done = subprocess.run(
        script, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"stream_norm: {NOTHING_KNOWN}" in done.stdout

    # its command, which finds what the script left; and its options, checked
    assert main(["analyse", str(first.path), "stream_norm", "--words", "20"]) == 0
    assert "kept from before" in capsys.readouterr().out
    assert main(["analyse", str(first.path), "stream_norm", "--words", "1"]) == 2
    assert "an interval needs at least 2" in capsys.readouterr().err

    # its means over seeds
    assert main(["seeds", str(runs), "stream_norm", "--workers", "1", "--csv"]) == 0
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert set(table["variable"]) == {"trained", "untrained"}
    assert (table["seeds"] == 2).all()

    # its page, with the sentence, the picture, the seeds and the downloads
    monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
    page = AppTest.from_string(PAGE, default_timeout=120).run()
    assert not page.exception
    kept = Answers(first.path, "stream_norm").latest()
    assert kept is not None
    said = [plainly(element.value) for element in page.markdown]
    assert f"#### {NOTHING_KNOWN}" in said
    assert f"**{question('stream_norm').asks}**" in said
    assert len(page.get("vega_lite_chart")) == 1
    part(page, "Controls and limits")
    assert page.header[0].value == "Over 2 seeds"
    assert page.subheader[0].value == "Tested"
    part(page, "Numbers, files, code")
    assert len(page.get("download_button")) == 6
    pd.testing.assert_frame_equal(page.dataframe[-1].value, kept.table)


def test_the_demo_asks_it_briefly(package: Path) -> None:
    found = question("stream_norm")
    assert isinstance(found, Question)
    assert found.brief == found.options(words=20)


def test_what_is_no_question_is_refused_in_one_line(package: Path) -> None:
    entries = package / "your_package-1.dist-info" / "entry_points.txt"
    entries.write_text("[structure_lab.questions]\nother = your_package.stream_norm:QUESTION\n")
    registered.cache_clear()
    with pytest.raises(UserError, match="is no question named 'other'"):
        question("other")


def test_nobody_takes_the_name_of_a_question_of_ours(package: Path) -> None:
    entries = package / "your_package-1.dist-info" / "entry_points.txt"
    entries.write_text("[structure_lab.questions]\nheads = your_package.stream_norm:QUESTION\n")
    registered.cache_clear()
    assert question("heads").asks.startswith("Which heads")
