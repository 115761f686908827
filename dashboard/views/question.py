"""The common page of a question: its sentence, picture, seeds and downloads. Many questions have a
page of their own instead, with more to choose and to click."""

from __future__ import annotations

from analyses.answers import question
from dashboard.downloads import downloads
from dashboard.drawing import heading, judged, picture, seeds_of
from dashboard.selection import current_run, kept_or_computed


def title_of(name: str) -> str:
    """A question's name as a title."""
    return name.replace("_", " ").capitalize()


def show(name: str) -> None:
    """The page."""
    heading(title_of(name), name)
    run = current_run()
    result = kept_or_computed(run, name)
    if result is None:
        return
    judged(name, result)
    figure = question(name).chart(result)
    picture(figure, f"{title_of(name)}. {result.sentence}")
    seeds_of(run, name)
    downloads(name, result, lambda: figure)
