"""A question on a page: its answer, picture, seeds and downloads, whatever is asked. Many questions
have a page of their own, with more to choose and to click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import streamlit as st

from analyses.answers import Answer, question
from analyses.needs import lack
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, judged, picture, reading, seeds_of
from dashboard.markup import text
from dashboard.selection import asked, current_run, kept_or_computed
from models.runs.run import Run

View = str | Callable[[Run], object]
"""A question that is asked on a page, by its name, or what draws a run."""


def title_of(name: str) -> str:
    """A question's name as a title."""
    return name.replace("_", " ").replace("-", " ").capitalize()


def show(name: str, draw: Callable[[Answer], object] | None = None) -> None:
    """The page of one question: the answer that the run keeps, or a button that has it computed.

    Args:
        draw: as ``told`` takes it.
    """
    result = kept_or_computed(current_run(), name)
    if result is not None:
        told(name, result, draw)


def show_some(names: list[str]) -> None:
    """The page of several questions. The reader chooses one. The run can be asked all of them."""
    run = current_run()
    there = [name for name in names if not lack(run, question(name).needs)]
    if not there:
        st.info(f"None of these questions can be asked of {text(run.name)}.")
        return
    asks = {name: f"{title_of(name)}: {question(name).asks}" for name in there}
    name = controls.selectbox("Question", there, key="more_questions", format_func=asks.get)
    live(name, **_typed(name))


def _typed(name: str) -> dict[str, str]:
    """The options of a question that are text, as the reader types them."""
    texts = [field.name for field in fields(question(name).options) if field.default == ""]
    return {
        label: controls.text_input(label.capitalize(), "", key=f"{name}_{label}") for label in texts
    }


def live(name: str, **arguments: Any) -> Answer | None:
    """The answer with the page's own options, and all that belongs to it. None as long as it is
    computed; the page then shows how far that is.

    Raises:
        UserError: the run cannot be asked.
    """
    result = asked(current_run(), name, **arguments)
    if result is not None:
        told(name, result)
    return result


def one_of(views: Mapping[str, View], key: str) -> None:
    """One of several views of the run, by the reader's choice."""
    view = views[controls.segments("Show", list(views), key)]
    with explain_errors():
        live(view) if isinstance(view, str) else view(current_run())


def told(name: str, result: Answer, draw: Callable[[Answer], object] | None = None) -> None:
    """The finding of an answer, its picture, how to read it, other seeds, and downloads.

    Args:
        draw: draws what a page shows in the place of the picture and its reading.
    """
    chart = question(name).chart
    judged(name, result)
    if draw is None:
        picture(chart(result), text(result.sentence))
        reading(name)
    else:
        draw(result)
    seeds_of(current_run(), name)
    downloads(name, result, lambda: chart(result))
