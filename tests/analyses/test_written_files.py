"""A file that a reader names for a picture or a page: nothing but such a file is replaced."""

from __future__ import annotations

import os
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

from analyses.command_line.app import main
from analyses.rendering import draw

COMMANDS = (["report", "RUN"], ["show", "RUN", "scaling"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["run.json", "thesis.docx", "", ".", "folder", "/dev/full"])
def test_another_kind_of_file_is_refused(
    command: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / name if name not in ("", ".", "/dev/full") else Path(name)
    if name.endswith((".json", ".docx")):
        file.write_text("mine")
    words = [str(tmp_path) if word == "RUN" else word for word in command]
    assert main([*words, "--file", str(file) if name else ""]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "end its name in ." in said or "--file is empty: name a file that ends in ." in said
    if name.endswith((".json", ".docx")):
        assert file.read_text() == "mine"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("content", [b"my notes", b"PK\x03\x04", b"<h1>Structure Lab</h1>"])
def test_a_file_of_this_ending_with_something_else_is_kept(
    command: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.html"
    file.write_bytes(content)
    words = [str(tmp_path) if word == "RUN" else word for word in command]
    assert main([*words, "--file", str(file)]) == 2
    assert "notes.html is not of the lab: choose another name" in capsys.readouterr().err
    assert file.read_bytes() == content
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    assert main([*words, "--file", str(pipe)]) == 2
    assert "is no plain file" in capsys.readouterr().err


def test_a_picture_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    for suffix in ("html", "svg", "png"):
        file = tmp_path / f"points.{suffix}"
        written = set()
        for x in (1, 2):
            draw(alt.Chart(pd.DataFrame({"x": [x], "y": [0]})).mark_point().encode(x="x"), file)
            written.add(file.read_bytes())
        assert len(written) == 2
