"""What an answer shows of itself in a notebook."""

from __future__ import annotations

import re

import pandas as pd

from analyses.answers import SHOWN, Answer


def test_all_text_is_escaped() -> None:
    evil = "<script>&"
    answer = Answer(pd.DataFrame({evil: [evil, "plain"]}), evil)
    shown = answer._repr_html_()
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;&amp;") == 3


def test_a_long_table_is_cut() -> None:
    answer = Answer(pd.DataFrame({"n": range(500), "third": 1 / 3}), "Said.")
    shown = answer._repr_html_()
    assert shown.startswith("<div><p>Said.</p>")
    assert "500 rows and 2 columns" in shown
    assert len(re.findall("<tr", shown)) <= SHOWN + 2  # the head, and the dots
    assert "<td>0.333</td>" in shown
    assert "<td>499</td>" in shown
    assert repr(answer).startswith("Said.\n\n")
    assert len(repr(answer).splitlines()) < SHOWN + 8


def test_there_are_no_colours() -> None:
    """So that it can be read on a light and on a dark page."""
    shown = Answer(pd.DataFrame({"a": [1.0]}), "Said.")._repr_html_()
    assert not re.search(r"color|background|#\w{3}", shown)
