"""The parts of a page below its picture, as the tests open them."""

from __future__ import annotations

from collections.abc import Iterator

from compared import plainly
from streamlit.testing.v1 import AppTest


def part(page: AppTest, name: str) -> AppTest:
    """The page with the part of this name open."""
    found = [
        (strip.key, tab.label)
        for strip in page.get("tab_container")
        for tab in strip.children.values()
        if plainly(tab.label) == name
    ]
    ((key, label),) = found
    page.session_state[key] = label
    page.query_params.pop(key, None)  # else the part that the link names would win
    return page.run()


def parts(page: AppTest) -> Iterator[AppTest]:
    """The page with each of its parts open, one after the other."""
    for name in [plainly(tab.label) for tab in page.tabs]:
        yield part(page, name)
