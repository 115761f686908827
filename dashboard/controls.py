"""The choices that a page offers: each is part of its link, and explained by the glossary.

Where two runs stand side by side, a choice is drawn once, beside the first, and holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st

from dashboard.glossary import meaning
from dashboard.markup import text

T = TypeVar("T")
N = TypeVar("N", int, float)

SECOND = "second"
"""In the session's state while the second of two runs is drawn."""


@contextmanager
def beside() -> Iterator[None]:
    """What is drawn inside belongs to the second run."""
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
    fits = list(options).__contains__
    default = options[first]
    return _choice(
        st.selectbox, label, options, first, key=key, default=default, fits=fits, **looks
    )


def segments(label: str, options: Sequence[T], key: str, first: int = 0, **looks: Any) -> T:
    """One of a few options, side by side."""
    looks = {"format_func": text, **looks}
    fits, default = list(options).__contains__, options[first]
    chosen = _choice(
        st.segmented_control,
        label,
        options,
        key=key,
        default=default,
        fits=fits,
        drawn={"default": default, "required": True},
        **looks,
    )
    return default if chosen is None else chosen


def slider(label: str, low: N, high: N, first: N, *step: N, key: str, **looks: Any) -> N:
    """A number of a range."""

    def fits(value: N) -> bool:
        return low <= value <= high

    return _choice(
        st.slider, label, low, high, first, *step, key=key, default=first, fits=fits, **looks
    )


def number(label: str, low: int, high: int, first: int, *, key: str) -> int:
    """A whole number of a range, typed."""
    return _choice(
        st.number_input,
        label,
        low,
        high,
        first,
        key=key,
        default=first,
        fits=lambda value: low <= value <= high,
    )


def select_slider(label: str, options: Sequence[T], first: T, *, key: str, **looks: Any) -> T:
    """One of several options in their order."""
    fits = list(options).__contains__
    return _choice(
        st.select_slider,
        label,
        options,
        key=key,
        default=first,
        fits=fits,
        drawn={"value": first},
        **looks,
    )


def several(label: str, options: Sequence[T], first: Sequence[T], key: str) -> list[T]:
    """Some of a few options, side by side; all that are first chosen, where none is left."""
    return _some(st.pills, label, options, first, key, selection_mode="multi")


def many(label: str, options: Sequence[T], first: Sequence[T], key: str) -> list[T]:
    """As ``several``, of many options."""
    return _some(st.multiselect, label, options, first, key)


def _some(
    draw: Callable[..., list[T]],
    label: str,
    options: Sequence[T],
    first: Sequence[T],
    key: str,
    **looks: Any,
) -> list[T]:
    chosen = _choice(
        draw,
        label,
        options,
        key=key,
        default=list(first),
        fits=lambda values: set(values) <= set(options),
        drawn={"default": first},
        **looks,
    )
    return chosen or list(first)


def toggle(label: str, *, key: str, **looks: Any) -> bool:
    """Yes or no; no before the reader chooses."""
    return _choice(st.toggle, label, key=key, default=False, **looks)


def text_input(label: str, first: str, *, key: str, **looks: Any) -> str:
    """A line of text."""
    return (
        _choice(st.text_input, label, key=key, default=first, drawn={"value": first}, **looks) or ""
    )


def text_area(label: str, first: str, *, key: str, **looks: Any) -> str:
    """Several lines of text."""
    return (
        _choice(st.text_area, label, key=key, default=first, drawn={"value": first}, **looks) or ""
    )


def button(label: str, **looks: Any) -> bool:
    """Was it clicked? It stands beside the first run alone."""
    return not is_second() and st.button(text(label), **looks)


def _choice(
    draw: Callable[..., T],
    label: str,
    *arguments: Any,
    key: str,
    default: T,
    fits: Callable[[Any], bool] = lambda value: True,
    drawn: dict[str, Any] | None = None,
    **looks: Any,
) -> T:
    """Draws a choice, or takes what was chosen beside the first run.

    Args:
        label: as a reader is to see it; it may hold anything.
        fits: is a choice that was made for another run one that this run has?
        drawn: further arguments of the widget.
    """
    known = st.session_state.get(key, default)
    if is_second():
        return known if fits(known) else default
    if not fits(known):
        del st.session_state[key]
    explains = {"help": looks.pop("help", None) or meaning(label)}
    return draw(
        text(label), *arguments, key=key, bind="query-params", **(drawn or {}), **explains, **looks
    )
