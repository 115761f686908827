"""The drawing of all pages: titles, verdicts, charts with words for those who see none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import altair as alt
import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer, question, sections
from analyses.charts.accuracy import training_charts
from analyses.claims import Grade
from analyses.rendering import Once
from analyses.track_record import track_record
from dashboard import controls
from dashboard.glossary import explained
from dashboard.markup import code, message, text
from models.errors import UserError
from models.languages import Word
from models.runs.run import Run

LOG = logging.getLogger(__name__)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Keeps what fails inside it from the rest of the page: a reader sees one line, never a
    traceback. A part of a page that can fail for itself stands in one of its own."""
    try:
        yield
    except Exception as error:
        root = error if isinstance(error, UserError) else error.__cause__  # of what Streamlit keeps
        if isinstance(root, UserError):
            st.error(message(root), icon=":material/error:")
            return
        LOG.exception("a part of the page %s failed", st.context.url)
        st.error(
            f"This part cannot be shown ({text(type(error).__name__)}). If it is still so when "
            "the page is loaded again, a file may be damaged. What happened stands in the terminal "
            "in which `lab dashboard` runs.",
            icon=":material/error:",
        )


COLOURS: dict[Grade, Literal["green", "orange", "red", "gray"]] = {
    "holds": "green",
    "fragile": "orange",
    "no better than its controls": "red",
    "not weighed": "gray",
}
"""The colours of the grades, which are always written out beside."""


GRADES: dict[Grade, str] = {
    "holds": "Beyond every control, by its interval.",
    "fragile": "Beyond the controls, but not in every way that was tested.",
    "no better than its controls": "Not surely beyond a control, or beyond the least that counts.",
    "not weighed": "There is no interval or no control that could refute it, or the network does "
    "not know its language.",
}


HEADLINE = 140
"""Letters of the longest finding that is written large."""


def judged(result: Answer, name: str = "") -> None:
    """The finding of an answer in one sentence, whether to believe it, and how often the question
    of this name claims something where there is nothing."""
    verdict = result.verdict
    if len(verdict.short) <= HEADLINE:
        st.markdown(f"#### {text(verdict.short)}")
    else:
        st.markdown(text(verdict.short))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(text(verdict.grade), color=COLOURS[verdict.grade], help=GRADES[verdict.grade])
        if record := track_record(name):  # on a narrow screen it is in a part below alone
            wide = st.container(key=f"wide_{controls.is_second():d}")
            wide.caption(text(record.partition(" (")[0]))


Parts = dict[str, Callable[[], object]]
"""What draws each part of a page, by its name."""


def tabs(key: str, parts: Parts) -> None:
    """Draws the part of a page that the reader opens; of the second of two runs the same part.

    Args:
        key: the key of the choice, which stands in the link.
    """
    named = {text(name): draw for name, draw in parts.items()}
    shown = st.session_state.get(key)
    if controls.is_second():
        with explain_errors():
            named[shown if shown in named else next(iter(named))]()
        return
    if shown not in named:
        st.session_state.pop(key, None)  # another run had it
    places = st.tabs([text(name) for name in parts], key=key, bind="query-params")
    for place, draw in zip(places, named.values(), strict=True):
        if place.open:
            with place, explain_errors():
                draw()


def link_to(address: str, label: str, **query: str) -> None:
    """A link to another page about the same run.

    Args:
        query: parts of the link that are no choice on that page: what a reader has chosen there
            before would win over the link.
    """
    links = st.session_state.get(LINKS, {})  # a page that is drawn by itself has no others
    if address in links:
        kept = {"run": st.session_state["run"]} if "run" in st.session_state else {}
        kept |= {LECTURE: "true"} if st.session_state.get(LECTURE) else {}
        st.page_link(links[address], label=text(label), query_params={**kept, **query})


LECTURE = "lecture"
"""Set while the pages are a lecture, in the session and in the link."""
LINKS = "pages"
"""Streamlit's pages by address, which app.py makes for each drawing."""


@cache
def _written(file: str) -> Mapping[str, str]:
    return sections(Path(__file__).with_name(file))


def _filled(words: str, values: Mapping[str, object]) -> str:
    """The words, with values in the place of the names in braces; as code between backticks."""
    for name, value in values.items():
        words = words.replace(f"`{{{name}}}`", code(value)).replace(f"{{{name}}}", text(value))
    return words


def says(part: str, **values: object) -> str:
    """Markdown that a part of a page says, as captions.md in this folder has it.

    Args:
        values: the values in the place of the names in braces.
    """
    return _filled(_written("captions.md")[part], values)


def reading(part: str, opened: bool = False, **values: object) -> None:
    """The reading of a picture or a table; terms of the glossary show their meaning.

    Args:
        part: the part of a page, as how_to_read.md in this folder has it, or else the answer to the
            question of this name.
        opened: it is in sight at once.
        values: the values in the place of the names in braces.
    """
    words = _written("how_to_read.md").get(part) or question(part).how_to_read
    with st.container() if opened else st.expander("How to read this"):
        st.markdown(explained(_filled(words, values)) or "Nothing is written of how to read it.")


FRAME = 120
"""Pixels that axes and legend add to the height of a plot."""


def picture(figure: ChartType, alt_text: str, fills: bool = False, **events: Any) -> ChartType:
    """A chart that follows the theme, with words for those who cannot see it; returns it as given.

    Args:
        fills: it is as wide as its place, if it is one plot whose height is a number.
        events: ``chooses``, where a click into the chart does something.
    """
    # Streamlit would otherwise squeeze axes and legend into the height of the plot alone.
    # A legend at the side would be cut off where the page is narrow.
    # Flush labels would stand beside the first and last rows of a heatmap, not at their middle.
    # The words say what is to be seen; a reader of the screen needs no list of unnamed marks.
    dark = st.context.theme.type == "dark"
    config = {
        "axis": {"labelFlush": False},
        "mark": {"aria": False},
        "legend": {"orient": "top"},
        "text": {"color": "#dddcda" if dark else "#33322f"},
    }
    height: Any = getattr(figure, "height", None)
    fills = fills and isinstance(height, int)
    # Its height is then that of plot, axes and legend together.
    changes = {"width": None, "height": height + FRAME} if fills else {"autosize": "pad"}
    once = Once(figure, config=config, **changes)
    if controls.is_second():  # the choice is made beside the first run
        events = {}
    width: Literal["stretch", "content"] = "stretch" if fills else "content"
    st.altair_chart(cast(alt.Chart, once), width=width, alt=alt_text, **events)
    return figure


def chooses(key: str, field: str, clicked: str) -> dict[str, Any]:
    """Events of ``picture``: a click on a cell makes the choice of this key.

    Args:
        field: the field of the cell whose value is chosen.
        clicked: the key of the picture: another one for each choice, so that each begins with
            nothing clicked.
    """

    def choose() -> None:
        if cells := st.session_state[clicked]["selection"]["cell"]:
            st.session_state[key] = cells[0][field]

    return {"on_select": choose, "key": clicked}


def training_curves(run: Run) -> None:
    """Loss and right verdicts so far, side by side where there is room."""
    loss, share = training_charts(run.metrics())
    left, right = st.columns(2)
    with left:
        picture(loss, f"Loss of {run.name} by training step.", fills=True)
    with right:
        words = f"Share of {run.name} that is right in the training window, by step."
        picture(share, words, fills=True)


def chips(word: Word, marked: tuple[int, ...]) -> None:
    """The word, with its marked positions in colour."""
    parts = [
        f":orange-background[**{text(symbol)}**]" if i in marked else text(symbol)
        for i, symbol in enumerate(word)
    ]
    st.markdown("#### " + " ".join(parts))


def share(value: float | None) -> str:
    """A share in per cent; a dash where there is none."""
    return "-" if value is None or pd.isna(value) else f"{value:.1%}"
