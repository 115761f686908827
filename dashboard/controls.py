"""The choices that a page offers: each is part of its link, and explained by the glossary.

Where two runs stand side by side, a choice is drawn once, beside the first, and holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.glossary import meaning
from dashboard.markup import text

T = TypeVar("T")
N = TypeVar("N", int, float)

SECOND = "second"
"""In the session's state while the second of two runs is drawn."""


@contextmanager
def beside() -> Iterator[None]:
    """Marks all that is drawn inside as the second run's."""
    st.session_state[SECOND] = True
    try:
        yield
    finally:
        del st.session_state[SECOND]


def is_second() -> bool:
    """Is this the second of two runs?"""
    return SECOND in st.session_state


def first_run() -> str:
    """The name of the chosen run, beside which a second one may stand."""
    return str(st.session_state.get("run", ""))


def selectbox(label: str, options: Sequence[T], first: int = 0, *, key: str, **looks: Any) -> T:
    """One of several options, ``options[first]`` before the reader chooses."""
    return _one("selectbox", label, options, options[first], key=key, index=first, **looks)


def segments(label: str, options: Sequence[T], key: str, first: int = 0, **looks: Any) -> T:
    """One of a few options, side by side."""
    looks = {"format_func": text, "default": options[first], "required": True, **looks}
    chosen = _one("segmented_control", label, options, options[first], key=key, **looks)
    return options[first] if chosen is None else chosen


def select_slider(label: str, options: Sequence[T], first: T, *, key: str, **looks: Any) -> T:
    """One of several options in their order."""
    return _one("select_slider", label, options, first, key=key, value=first, **looks)


def slider(label: str, low: N, high: N, first: N, *step: N, key: str, **looks: Any) -> N:
    """A number of a range."""
    return _number("slider", label, low, high, first, *step, key=key, **looks)


def number(label: str, low: int, high: int, first: int, *, key: str, **looks: Any) -> int:
    """A whole number of a range, typed."""
    return _number("number_input", label, low, high, first, key=key, **looks)


def several(
    label: str,
    options: Sequence[T],
    first: Sequence[T],
    key: str,
    many: bool = False,
    **looks: Any,
) -> list[T]:
    """Some of a few options side by side, or of many in a list; all that are first chosen, where
    none is left."""
    fits = set(options).issuperset
    looks |= {"default": first} | ({} if many else {"selection_mode": "multi"})
    draw = "multiselect" if many else "pills"
    return _choice(draw, label, options, key=key, first=list(first), fits=fits, **looks) or [*first]


def toggle(label: str, *, key: str, **looks: Any) -> bool:
    """Yes or no; no before the reader chooses."""
    return bool(_choice("toggle", label, key=key, first=False, **looks))


def text_input(label: str, first: str, *, key: str, **looks: Any) -> str:
    """A line of text."""
    return _choice("text_input", label, key=key, first=first, value=first, **looks) or ""


def text_area(label: str, first: str, *, key: str, **looks: Any) -> str:
    """Several lines of text."""
    return _choice("text_area", label, key=key, first=first, value=first, **looks) or ""


def _one(draw: str, label: str, options: Sequence[T], first: T, **looks: Any) -> Any:
    fits = list(options).__contains__
    return _choice(draw, label, options, first=first, fits=fits, **looks)


def _number(draw: str, label: str, low: N, high: N, first: N, *step: N, **looks: Any) -> Any:
    def fits(value: N) -> bool:
        return low <= value <= high

    return _choice(draw, label, low, high, first, *step, first=first, fits=fits, **looks)


def button(label: str, **looks: Any) -> bool:
    """Was it clicked? It stands beside the first run alone."""
    return not is_second() and st.button(text(label), **looks)


def _choice(
    draw: str,
    label: str,
    *arguments: Any,
    key: str,
    first: Any,
    fits: Callable[[Any], bool] = lambda value: True,
    at: DeltaGenerator | None = None,
    **looks: Any,
) -> Any:
    """Draws a choice, or takes what was chosen beside the first run.

    Args:
        draw: the name of Streamlit's widget.
        label: the label as a reader sees it; it may hold anything.
        first: the choice before the reader chooses.
        fits: is a choice that was made for another run one that this run has?
        at: the column in which it is drawn.
    """
    value = st.session_state.get(key, first)
    if is_second():
        return value if fits(value) else first
    if not fits(value):
        del st.session_state[key]
    looks["help"] = looks.get("help") or meaning(label)
    widget = getattr(at or st, draw)
    return widget(text(label), *arguments, key=key, bind="query-params", **looks)
