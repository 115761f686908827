"""What takes long to make is made once, and again where the file is not what was written."""

from __future__ import annotations

import io
import os
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

from analyses import rendering
from analyses.cache import kept_text

LONG = "café\n<script>\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRUCTURE_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made_anew() -> str:
    raise AssertionError("it was made again")


def test_a_text_is_made_once(cache: Path) -> None:
    assert kept_text("x", lambda: LONG) == LONG
    assert kept_text("x", made_anew) == LONG
    with pytest.raises(AssertionError):
        kept_text("y", made_anew)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "pipe", "folder"])
def test_a_damaged_file_is_no_text(cache: Path, damage: str) -> None:
    kept_text("x", lambda: LONG)
    file = cache / "x"
    content = file.read_bytes()
    file.unlink()
    if damage == "pipe":
        os.mkfifo(file)
    elif damage == "folder":
        file.mkdir()
    else:
        changed = {"cut": content[:-3], "changed": content.replace(b"c", b"k"), "empty": b""}
        file.write_bytes(changed[damage])
    assert kept_text("x", lambda: LONG) == LONG


def test_a_cache_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STRUCTURE_LAB_CACHE", str(tmp_path / "file"))
    assert kept_text("x", lambda: LONG) == LONG


def test_the_page_of_a_chart_is_altair_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_script", rendering._script.__wrapped__)
    chart = alt.Chart(pd.DataFrame({"a": [1, 2]})).mark_bar().encode(x="a:Q")
    own = io.StringIO()
    chart.save(own, format="html", inline=True, json_kwds={"cls": rendering._InsideScript})
    for _ in range(2):  # made, and read
        assert rendering._rendered(chart, "html") == own.getvalue().encode()
