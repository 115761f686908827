"""Which explanation method tells the truth: over many models, and on many words of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer, Answers
from analyses.charts.automaton import note
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
from analyses.options.words import Replacement
from analyses.questions.words import leaderboard as of_run
from analyses.questions.words.explanations import on_scale
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.studies import leaderboard
from analyses.studies.reliance import credited
from dashboard import controls
from dashboard.drawing import Parts, picture, says, share
from dashboard.markup import text
from dashboard.selection import current_run, has_model, kept_or_computed, runs_folder
from dashboard.views.question import below, related, told
from interp.explanations.games import SCALES
from models.languages import language
from models.runs.folders import find_runs
from models.runs.run import Run

SAID_FIRST = 2
"""Claims that are shown first: the networks they are about, and the first of the lectures'."""


def show() -> None:
    """The page."""
    folders = (runs_folder(), runs_folder() / "leaderboard")
    many = next(
        (kept for folder in folders if (kept := Answers(folder, leaderboard.NAME).latest())), None
    )
    views: Parts = {} if many is None else {"many models": partial(_many_models, many)}
    if find_runs(runs_folder()) and has_model(run := current_run()):
        views |= {f"{run.name} alone": partial(_one_model, run)}
    if views:
        views[controls.segments("Over", list(views), "leaderboard_over")]()
    else:
        st.caption(says("leaderboard: none", folder=runs_folder()))


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


def _choices() -> _Asked:
    """The reader's choices, below the picture that they change."""
    offered = list(REPLACEMENTS)
    with st.container(horizontal=True, gap="medium"):
        kinds = controls.several("Hidden symbols become", offered, offered, "replacements")
        membership = controls.segments("Words", list(MEMBERSHIPS), "membership")
        scale = controls.segments("Methods explain", list(SCALES), "scale")
    measures = controls.several("Measures", list(MEASURES), list(PANELS), "measures", many=True)
    return _Asked(kinds, measures, membership, scale)


def _meanings() -> None:
    """The measures in words."""
    st.markdown("\n".join(f"- **{text(name)}**: {text(says)}" for name, says in MEANINGS.items()))


# -- over many models -----------------------------------------------------------------------------


def _many_models(result: Answer) -> None:
    """The kept leaderboard: its claims, picture and table of a language, the planted shortcut."""
    claims = result.findings["claims"]
    for claim in claims[:SAID_FIRST]:
        st.markdown(text(claim))
    place = st.container()
    with st.container(horizontal=True, gap="medium"):
        names = list(dict.fromkeys(result.table["language"]))
        name = controls.segments("Language", names, "language")
        of_language = result.table[result.table["language"] == name]
        kinds = list(dict.fromkeys(of_language["architecture"]))
        kind = controls.segments("Architecture", kinds, "architecture")
    query = _choices()
    rows = query.of(of_language[of_language["architecture"] == kind])
    right = ", ".join(share(value) for value in result.findings["right"][name][kind])
    with place:
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
    more: Parts = {}
    found = result.table[result.table["measure"] == FOUND]
    if not (found := query.of(found[found["architecture"] == kind])).empty:
        more["The planted shortcut"] = partial(_shortcut, found)
    relied = credited(result)
    if not (relied := on_scale(relied[relied["architecture"] == kind], query.scale)).empty:
        more["Credit and reliance"] = partial(_reliance, relied)
    if others := claims[SAID_FIRST:]:
        listed = "\n".join(f"- {text(claim)}" for claim in others)
        more["More claims that were tested"] = partial(st.markdown, listed)
    more["How to read this"] = _meanings
    below("leaderboard", result, figure, more, of_run=False)


def _shortcut(rows: pd.DataFrame) -> None:
    """Which method tells a model that leans on a planted shortcut from a clean one?"""
    symbol = language(PLANTED).shortcut
    st.markdown(says("leaderboard: shortcut", planted=PLANTED, symbol=symbol, clean=CLEAN))
    _ranking(rows, [FOUND], "Models told apart by the shortcut")


def _reliance(rows: pd.DataFrame) -> None:
    """Does a method's credit follow what the network does?"""
    st.markdown(says("leaderboard: reliance", symbol=language(PLANTED).shortcut))
    picture(against_reliance(rows), "A method's credit for the shortcut against real reliance.")


# -- one model ------------------------------------------------------------------------------------


def _one_model(run: Run) -> None:
    """Every method on many words of this run."""
    result = kept_or_computed(run, "leaderboard")
    if result is None:
        related("explanations", run)
        return
    means = partial(_means, run, result)
    told("leaderboard", result, means, {"How to read this": _meanings})


def _means(run: Run, result: Answer) -> ChartType:
    """Every method's means over the words that the reader chooses."""
    place, table = st.container(), result.table
    query = _choices()
    verdicts = controls.segments("The model's verdicts", ["all", "right", "wrong"], "verdicts")
    table = table[table["membership"] == query.membership]
    if verdicts in ("right", "wrong"):
        table = table[table["right"] == (verdicts == "right")]
    hidden = result.findings["replacements"].items()
    st.caption(
        says(
            "leaderboard: words",
            count=result.table["word"].nunique(),
            right=share(result.findings["right"]),
            hidden="; ".join(f"{kind}: {name}" for kind, name in hidden if kind in query.kinds),
            rule=result.findings["rationale_rule"],
        )
    )
    with place:
        if table.empty:
            st.info(f"None of the {text(query.membership)} is among these words.")
            return note("No word was chosen.")
        words = f"{run.name}, means over words"
        figure = _ranking(query.of(_board(table)), query.measures, words)
        count = table["word"].nunique()
        st.caption(says("leaderboard: means", count=count, membership=query.membership))
    return figure


_board = st.cache_data(max_entries=64, show_spinner="Computing ...")(of_run.board)
"""Means over words; a thousand resamples per method and measure take a while."""


# -- the same for both ----------------------------------------------------------------------------


def _ranking(rows: pd.DataFrame, measures: Sequence[str], words: str) -> ChartType:
    """The picture of the measures that these rows have."""
    there = [measure for measure in measures if (rows["measure"] == measure).any()]
    if missing := [measure for measure in measures if measure not in there]:
        st.info(f"Not defined here: {text(', '.join(missing))}.")
    if not there:
        return note("No chosen measure is defined here.")
    figure = panels(rows[rows["measure"].isin(there)], there)
    return picture(figure, f"{words}: {', '.join(there)} by method.")
