"""The page of tokens cuts what is typed as the tokeniser does, and follows the slider."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compared import plainly
from streamlit.testing.v1 import AppTest

from models.languages import language
from models.languages.tokens import Tokeniser

pytestmark = pytest.mark.slow
SCRIPT = 'from dashboard.pages import pages\npages()["tokens"].draw()'


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SCRIPT, default_timeout=120)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception
    return page


def said(page: AppTest) -> str:
    return " ".join(plainly(each.value) for each in page.markdown)


def test_a_typed_word_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"tokens_merges_dieren": "7", "tokens_word_dieren": "leeuw olifant leeuu"}
    page = opened(tmp_path, monkeypatch, **asked)
    assert not page.error
    assert "`leeuw_` `o` `l` `i` `f` `an` `t_` `lee` `u` `u` `_`" in " ".join(said(page).split())
    rows = page.dataframe[0].value
    cutter = Tokeniser.learn(language("dieren"), "bpe:7")
    assert [*zip(rows["left"], rows["right"], strict=True)] == cutter.merges
    page.slider[0].set_value(0).run()
    assert "`l` `e` `e` `u` `w` `_`" in " ".join(said(page).split())


def test_merges_of_a_text_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lectures' line is there; another line is cut itself until a word is typed."""
    page = opened(tmp_path, monkeypatch, tokens_language="a text of mine")
    page.slider[0].set_value(8).run()
    assert "`Pe` `t` `e` `r_` `P` `i` `pe` `r_` `pick` `ed_`" in " ".join(said(page).split())
    table = page.dataframe[0].value
    assert table["count"].tolist() == [4, 3, 2, 2, 2, 2, 2, 1]
    assert any("lab languages --text 'Peter" in each.value for each in page.caption)
    page.text_input(key="tokens_text").set_value("aap aapje").run()
    assert not page.error
    assert "`aap_` `aap" in " ".join(said(page).split())
    page.text_input(key="tokens_word_a-text-of-mine").set_value("jaap").run()
    assert "`j` `aap_`" in " ".join(said(page).split())
    page.text_input(key="tokens_text").set_value(" ").run()
    assert ["the text has no letters" in each.value for each in page.error] == [True]


def test_an_unknown_letter_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(tmp_path, monkeypatch, tokens_language="anbn", tokens_word_anbn="aab7")
    assert [plainly(each.value) for each in page.error] == ["unknown letter '7': use only a b"]
