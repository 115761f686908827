"""Which explanation method tells the truth: over many models, and on many words of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analyses.answers import Answer, Answers, answer
from analyses.charts.leaderboard import (
    FOUND,
    MEANINGS,
    MEASURES,
    PANELS,
    REPLACEMENTS,
    against_reliance,
    panels,
)
from analyses.options.studies import CLEAN, PLANTED
from analyses.options.words import Leaderboard, Replacement
from analyses.questions.words import leaderboard as of_run
from analyses.questions.words.explanations import on_scale
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.studies import leaderboard
from analyses.studies.reliance import credited
from dashboard import controls
from dashboard.background import offer
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, judged, picture, says, seeds_of, share
from dashboard.markup import text
from dashboard.selection import asked, chosen, current_run, has_model, runs_folder
from interp.explanations.games import SCALES
from models.languages import language
from models.runs.run import Run, find_runs

FEW = 12  # words explained at once where nothing is kept: some ten seconds
COSTS = ("calls", "seconds")
SAID_FIRST = 2
"""Claims that are shown first: the networks they are about, and the first of the lectures'."""


def show() -> None:
    """The page."""
    with st.expander("What the measures say"):
        st.markdown(
            "\n".join(f"- **{text(name)}**: {text(says)}" for name, says in MEANINGS.items())
        )
    left, right = st.columns([1, 2])
    offered = list(REPLACEMENTS)
    kinds = controls.several("Hidden symbols become", offered, offered, "replacements", at=left)
    measures = controls.several(
        "Measures", list(MEASURES), list(PANELS), "measures", many=True, at=right
    )
    left, right = st.columns([1, 2])
    membership = controls.segments("Words", list(MEMBERSHIPS), "membership", at=left)
    query = _Asked(kinds, measures, membership, scale_of_the_verdict(right))
    with explain_errors():
        _many_models(query)
    if find_runs(runs_folder()) and has_model(run := current_run()):
        _one_model(run, query)


def scale_of_the_verdict(at: DeltaGenerator | None = None) -> str:
    """The scale of the verdict that is explained, for the methods that have both."""
    return controls.segments("Methods explain", list(SCALES), "scale", at=at)


@dataclass(frozen=True)
class _Asked:
    """The choices of the page.

    Attributes:
        kinds: the replacements of hidden symbols.
        measures: the panels and columns.
        membership: members or non-members.
        scale: the scale of the verdict, for the methods that have both.
    """

    kinds: Sequence[Replacement]
    measures: Sequence[str]
    membership: str
    scale: str

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """These rows of a board."""
        rows = rows[rows["replacement"].isin(self.kinds)]
        return on_scale(rows[rows["membership"] == self.membership], self.scale)


# -- over many models -----------------------------------------------------------------------------


def _many_models(query: _Asked) -> None:
    """The kept leaderboard: its claims, picture and table of a language, the planted shortcut."""
    st.header("Over many models", divider="gray")
    folders = (runs_folder(), runs_folder() / "leaderboard")
    result = next(
        (kept for folder in folders if (kept := Answers(folder, leaderboard.NAME).latest())), None
    )
    if result is None:
        st.info(says("leaderboard: none", folder=runs_folder()))
        return
    claims = result.findings["claims"]
    for claim in claims[:SAID_FIRST]:
        st.markdown(text(claim))
    if more := claims[SAID_FIRST:]:
        with st.expander(f"{len(more):d} more claims that were tested"):
            st.markdown("\n".join(f"- {text(claim)}" for claim in more))
    names = list(dict.fromkeys(result.table["language"]))
    name = controls.segments("Language", names, "language")
    rows = result.table[result.table["language"] == name]
    kinds = list(dict.fromkeys(rows["architecture"]))
    kind = controls.segments("Architecture", kinds, "architecture")
    rows = query.of(rows[rows["architecture"] == kind])
    right = ", ".join(share(value) for value in result.findings["right"][name][kind])
    figure = _ranking(rows, query.measures, f"{name}, {kind}, means over training seeds")
    st.caption(
        says(
            "leaderboard: many models",
            seeds=rows["seeds"].max(),
            words=result.arguments["words"],
            membership=query.membership,
            right=right,
        )
    )
    _table(rows, query.measures)
    if figure is not None:
        downloads("leaderboard", result, lambda: figure, of_run=False)
    _shortcut(result, kind, query)


def _shortcut(result: Answer, kind: str, query: _Asked) -> None:
    """Which method tells a model that leans on a planted shortcut from a clean one?"""
    rows = result.table[result.table["measure"] == FOUND]
    rows = query.of(rows[rows["architecture"] == kind])
    if rows.empty:
        return
    symbol = language(PLANTED).shortcut
    st.subheader("Which method finds the planted shortcut?")
    st.markdown(says("leaderboard: shortcut", planted=PLANTED, symbol=symbol, clean=CLEAN))
    _ranking(rows, [FOUND], "Models told apart by the shortcut")
    _table(rows, [FOUND])
    rows = credited(result)
    rows = on_scale(rows[rows["architecture"] == kind], query.scale)
    if rows.empty:
        return
    st.subheader("Does a method's credit follow what the network does?")
    st.markdown(says("leaderboard: reliance", symbol=symbol))
    picture(against_reliance(rows), "A method's credit for the shortcut against real reliance.")


# -- one model ------------------------------------------------------------------------------------


def _one_model(run: Run, query: _Asked) -> None:
    """Every method on many words of this run."""
    st.header(f"{text(run.name)} alone", divider="gray")
    answers = Answers.of(run, "leaderboard")
    result = chosen(answers, kept) if (kept := answers.current()) else None
    result = result or asked(run, "leaderboard", words=FEW)
    if result is None:
        return
    if result.findings["words"] < Leaderboard().words:
        with explain_errors():
            offer(
                f"leaderboard of {run.path}, {run.model_hash()}",
                f"Ask about {Leaderboard().words:d} words",
                lambda report: answer(run, "leaderboard", Leaderboard(), report),
                help="The answer is kept in the run's folder.",
            )
    judged("leaderboard", result)
    words = result.table.drop_duplicates("word")
    verdicts = controls.segments("The model's verdicts", ["all", "right", "wrong"], "verdicts")
    asked_of = result.table
    if verdicts in ("right", "wrong"):
        asked_of = asked_of[asked_of["right"] == (verdicts == "right")]
    hidden = result.findings["replacements"].items()
    st.caption(
        says(
            "leaderboard: words",
            count=len(words),
            right=share(result.findings["right"]),
            hidden="; ".join(f"{kind}: {name}" for kind, name in hidden if kind in query.kinds),
            rule=result.findings["rationale_rule"],
        )
    )
    asked_of = asked_of[asked_of["membership"] == query.membership]
    if asked_of.empty:
        which = "is explained" if verdicts == "all" else f"has a verdict that is {text(verdicts)}"
        st.info(f"None of the {text(query.membership)} {which}.")
        return
    rows = query.of(_board(asked_of))
    figure = _ranking(rows, query.measures, f"{run.name}, means over words")
    count = asked_of["word"].nunique()
    st.caption(says("leaderboard: means", count=count, membership=query.membership))
    _table(rows, query.measures)
    with st.expander("The words"):
        shown = ["text", "membership", "probability", "right"]
        st.dataframe(
            asked_of.drop_duplicates("word")[shown],
            hide_index=True,
            column_config={"probability": st.column_config.NumberColumn(format="%.3f")},
        )
    seeds_of(run, "leaderboard")
    if figure is not None:
        downloads("leaderboard", result, lambda: figure)


_board = st.cache_data(max_entries=64, show_spinner="Computing ...")(of_run.board)
"""Means over words; a thousand resamples per method and measure take a while."""


# -- the same for both ----------------------------------------------------------------------------


def _ranking(rows: pd.DataFrame, measures: Sequence[str], words: str) -> Any:
    """The picture of the measures that these rows have; None if they have none."""
    there = [measure for measure in measures if (rows["measure"] == measure).any()]
    if missing := [measure for measure in measures if measure not in there]:
        st.info(f"Not defined here: {text(', '.join(missing))}.")
    if not there:
        return None
    figure = panels(rows[rows["measure"].isin(there)], there)
    picture(figure, f"{words}: {', '.join(there)} by method.")
    return figure


def _table(rows: pd.DataFrame, measures: Sequence[str]) -> None:
    """The measures as numbers: a row per method and replacement, with its costs."""
    numbers = _wide(rows, measures)
    st.dataframe(numbers, hide_index=True, column_config=columns_of(numbers.columns[4:]))


def _wide(rows: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Columns: method, scale, family, replacement; a measure's mean, low and high; the costs."""
    keys = ["method", "scale", "family", "replacement"]
    order = pd.MultiIndex.from_frame(rows[keys].drop_duplicates())
    grid = rows.pivot(index=keys, columns="measure", values=["mean", "low", "high"]).loc[order]
    columns = {
        measure if part == "mean" else f"{measure}, {part}": grid[part, measure]
        for measure in (*measures, *(cost for cost in COSTS if cost not in measures))
        for part in (("mean", "low", "high") if measure in measures else ("mean",))
        if (part, measure) in grid
    }
    return pd.DataFrame(columns).reset_index()


def columns_of(numbers: Iterable[str]) -> dict[str, Any]:
    """Settings of these columns for st.dataframe: formats, and what each measures."""
    formats = {"calls": "%.0f", "seconds": "%.4f", "error": "%.4f"}
    shown: dict[str, Any] = {"method": st.column_config.TextColumn(pinned=True)}
    for column in numbers:
        name = column.split(", ")[0]
        shown[column] = st.column_config.NumberColumn(
            format=formats.get(name, "%.2f"), help=MEANINGS[name]
        )
    return shown
