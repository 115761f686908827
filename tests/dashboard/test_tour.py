"""The tours lead over pages that there are, and each stop shows what its link says."""

from __future__ import annotations

import sys
from inspect import getmodule, getsource
from pathlib import Path

import pytest
from compared import plainly
from streamlit.testing.v1 import AppTest

from dashboard.pages import OWN
from dashboard.tours import TOURS
from models.languages import language

SCRIPT = """
import streamlit as st
from dashboard.pages import pages
from dashboard.drawing import LINKS
shown = pages()["{page}"]
links = {{a: st.Page(p.draw, title=p.title, url_path=a) for a, p in pages().items()}}
st.session_state[LINKS] = links
st.navigation(list(links.values()), position="hidden")
shown.draw()
"""
LINE = TOURS["linguist"].stops[2].shown["word_dieren"]


def opened(page: str, **query: str) -> AppTest:
    shown = AppTest.from_string(SCRIPT.format(page=page), default_timeout=60)
    for name, value in query.items():
        shown.query_params[name] = value
    shown.run()
    assert not shown.exception
    return shown


@pytest.mark.parametrize("name", TOURS)
def test_every_stop_is_on_a_page(name: str) -> None:
    assert {stop.page for stop in TOURS[name].stops} <= set(OWN)
    for stop in TOURS[name].stops:
        assert stop.do[-1] + stop.see[-1] in ("..", ".?")


@pytest.mark.parametrize("name", TOURS)
def test_every_stop_opens_a_part_of_its_page(name: str) -> None:
    for stop in TOURS[name].stops:
        for key, part in stop.shown.items():
            if key.startswith("part_of_"):
                assert key == f"part_of_{stop.page}"
                module = getmodule(OWN[stop.page].show)
                assert module is not None
                assert f'"{part}"' in getsource(module)


def test_the_line_of_the_tour_is_what_it_says() -> None:
    rule, words = language("dieren"), tuple(LINE.split())
    assert rule.contains(words)
    assert not rule.contains((*words[:-1], "muis"))
    assert rule.contains((words[0], "hond", *words[2:]))


def links(page: AppTest) -> list[tuple[str, str]]:
    return [(plainly(link.proto.label), link.proto.query_string) for link in page.get("page_link")]


def test_a_tour_begins_at_any_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    stops = TOURS["linguist"].stops
    shown = links(opened("tour"))[: len(stops)]
    assert shown == [
        (f"{i}. {stop.title}", f"tour=linguist&stop={i}") for i, stop in enumerate(stops, 1)
    ]
    page = opened("story", tour="linguist", stop="7")
    assert f"**{stops[6].title}**" in [each.value for each in page.markdown]
    assert "stop 7 of 9" in page.caption[0].value
    assert page.session_state["show"] == "the automaton"
    (back, _), (on, query) = links(page)[:2]
    assert (back, on) == ("Back", f"Next: {stops[7].title}")
    assert query == "tour=linguist&stop=8"
    (button,) = (each for each in page.button if each.label == "Show the rule")
    button.click().run()  # from here on the choices are the reader's
    assert page.session_state["show"] == "the rule"
    assert opened("story", tour="linguist", stop="7", show="the rule").session_state["show"] == (
        "the rule"
    )


@pytest.mark.parametrize(("tour", "number"), [("nobody", "1"), ("linguist", "99")])
def test_a_wrong_link_shows_the_page_alone(
    tour: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    page = opened("story", tour=tour, stop=number)
    assert not [each for each in page.caption if "stop" in each.value]
