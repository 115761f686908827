"""The scoreboard: which lens finds what planted networks do, and which proxy can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from analyses.answers import Answers
from analyses.charts.circuit import graph_chart
from analyses.scoring import board, planted, summary
from analyses.scoring.grades import MAIN, TRUTH
from analyses.scoring.paper import ASKS, QUESTIONS, Question
from dashboard import controls
from dashboard.drawing import Parts, picture, reading, says
from dashboard.markup import text
from dashboard.selection import runs_folder
from dashboard.views.compare.sweeps import find_studies
from dashboard.views.question import below


def show() -> None:
    """The page."""
    folders = find_studies(runs_folder(), board.NAME)
    result = Answers(folders[0], board.NAME).latest() if folders else None
    if result is None:
        st.info(says("scoreboard: none", folder=runs_folder()))
        return
    table = result.table
    left, right = st.columns([2, 3])
    questions = [q for q in QUESTIONS if q in set(table["question"])]
    question: Question = controls.selectbox(
        "Question", questions, key="question", format_func=ASKS.__getitem__, at=left
    )
    settings = list(dict.fromkeys(table["setting"]))
    picked = controls.several("What hides the networks", settings, settings, "settings", at=right)
    rows = table[(table["question"] == question) & table["setting"].isin(picked)]
    if rows.empty:
        st.info("Nothing was asked there: choose another setting.")
        return
    summed = summary.summed_up(rows)
    picture(
        summary.panel(summed, question),
        f"{MAIN[question]} of each lens, by what hides the networks, with 95% intervals.",
        fills=True,
    )
    more: Parts = {
        "All lenses": partial(_lenses, summed, question),
        "By program": partial(_programs, rows, question),
    }
    meta = summary.meta_score(rows)
    if not (meta := meta[meta["setting"] == summary.ALL]).empty:
        more["Do proxies tell?"] = partial(_proxies, meta)
    if question == "edges":
        more["One network"] = partial(_one_network, rows)
    more["In words"] = partial(_listed, result.findings["sentences"])
    if bad := summary.faults(rows):
        more[f"Faults: {len(bad):d}"] = partial(_listed, bad)
    below(board.NAME, result, summary.chart(summed), more, of_run=False)


def _listed(sentences: Sequence[str]) -> None:
    """Sentences as a list."""
    st.markdown("\n".join(f"- {text(sentence)}" for sentence in sentences))


def _lenses(summed: pd.DataFrame, question: Question) -> None:
    """The lenses as numbers."""
    board_of = summary.compact(summed).drop(columns=["question", "what"])
    st.dataframe(board_of.round({"untrained": 2, "milliseconds": 0}), hide_index=True)
    reading("scoreboard: lenses", score=MAIN[question])


def _programs(rows: pd.DataFrame, question: Question) -> None:
    """Each lens by program, in any measure of the question."""
    measure = controls.segments("Measure", list(TRUTH[question]), "measure")
    part = rows[(rows["network"] != summary.UNTRAINED) & (rows["measure"] == measure)]
    wide = part.pivot_table("value", "lens", "program", aggfunc="mean").round(2)
    order = wide.mean(axis=1).sort_values(ascending=False, kind="stable").index
    st.dataframe(wide.loc[order])


def _one_network(rows: pd.DataFrame) -> None:
    """A plan beside what a lens found of it."""
    columns = st.columns(3)
    part = rows[(rows["network"] != summary.UNTRAINED) & (rows["fault"] == "")]
    places = part[["program", "setting", "seed"]].drop_duplicates()
    names = [f"{p}-{s}-s{seed}" for p, s, seed in places.itertuples(index=False)]
    name = controls.selectbox("Network", names, key="network", at=columns[0])
    kept = Answers(runs_folder() / board.FOLDER / name, board.KEPT).latest()
    if kept is None:
        st.info("What was found there is not kept any more: run `lab score` again.")
        return
    lens = controls.selectbox("Lens", list(kept.findings["scores"]), key="lens", at=columns[1])
    table = planted.found_by(kept.findings, lens)
    shown = table[table["mark"] != ""]
    marked = {(row.sender, row.receiver): row.mark for row in shown.itertuples()}
    st.markdown(text(planted.counted(marked)))
    picture(
        graph_chart(table, list(marked), marked),
        "The plan of the network and the edges that the lens ranks first: hits, missed, others.",
    )
    reading("scoreboard: one network")


def _proxies(meta: pd.DataFrame) -> None:
    """Does what can be measured without the truth order the lenses as the truth does?"""
    shown = meta.drop(columns=["question", "setting"]).round(2)
    st.dataframe(shown.rename(columns={"mean": "rank correlation"}), hide_index=True)
    reading("scoreboard: proxies")
