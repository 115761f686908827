"""Training lines: what each of them did to the answer on a word, whose labels may be wrong, and how
right the methods are that say so."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
import torch
from altair.typing import ChartType

from analyses.answers import Answer, Answers, weighed
from analyses.options.training import InfluenceMethod, Lines
from analyses.options.words import Explanations
from analyses.questions.training import lines
from analyses.questions.training.of_lines import drawn, drawn_lines, listed
from analyses.questions.training.of_lines.culprits import can_be_turned
from analyses.questions.training.of_lines.values import check_answers, margins
from analyses.words import member
from dashboard import controls
from dashboard.background import at_once
from dashboard.drawing import Parts, explain_errors, judged, picture, reading, says, share
from dashboard.markup import code, message
from dashboard.selection import current_run, model_of, once
from dashboard.views.line import line_of
from dashboard.views.question import told
from models.errors import UserError, lab
from models.runs.run import Run
from models.training.without_lines import lines_of

NAME = "influence"
WORD, SUSPECTS, COMPARED = "one word", "labels in doubt", "how right the methods are"
LARGEST = 3 * 10**7
"""Lines times weights. The gradients of more would take gigabytes from all who use the server."""
METHOD: InfluenceMethod = "ek-fac"
METHODS = sorted(listed.NAMED, key=lambda name: name != METHOD)


def show() -> None:
    """The page."""
    run = current_run()
    try:
        check_answers(run)
        count, weights = _sizes(run)
    except UserError as error:
        st.info(message(error))
        return
    views = {WORD: _word, SUSPECTS: _suspects, COMPARED: _compared}
    shown = controls.segments("Show", list(views), "lines_of")
    if shown != COMPARED and count * weights > LARGEST:
        word = None if shown == SUSPECTS else " ".join(member(run, Explanations().n))
        command = lab("analyse", run.path, "lines", word=word, step=run.seen_at)
        st.info(
            f"{count:,d} lines and {weights:,d} weights are too much for a page, which shares its "
            f"memory with all others. {code(command)} lists them."
        )
        return
    with explain_errors():
        views[shown](run)


@once(show_spinner="Reading the lines ...")
def _sizes(run: Run) -> tuple[int, int]:
    """The number of lines, and of weights. Raises UserError as ``lines_of``."""
    return len(lines_of(run)), sum(tensor.numel() for tensor in run.model().parameters())


def _word(run: Run) -> None:
    """The lines that raised the log odds of the right answer on a word, and those that lowered
    them."""
    typed = line_of(run)
    method = _method(list(METHODS))
    key = f"influence on {typed} of {run.path}, {run.model_hash()}"
    tables = at_once(key, lambda report: listed.for_word(run, typed, progress=report))
    if tables is None:
        return
    table = tables[method]
    remark = "It is a training line itself. " if typed in set(table["line"]) else ""
    probability = share(_probability(run, typed))
    st.caption(remark + says("training lines: word", probability=probability))
    result = _weighed(run, table, method, typed)
    if not result.claims:  # the answers are too sure to have a gradient
        judged(result)
        return
    caption = f"The lines that raised most and that lowered most. {result.sentence}"
    told("lines", result, partial(picture, drawn_lines.chart(table), caption, fills=True))


@once(show_spinner=False)
def _weighed(run: Run, table: pd.DataFrame, method: InfluenceMethod, word: str | None) -> Answer:
    """The claims of the question "lines" about a table."""
    result = Answer(
        table, lines.SILENCE[word is None], {"word": word, "method": listed.NAMED[method]}
    )
    return weighed(run, lines.QUESTION, Lines(word, method), result)


def _suspects(run: Run) -> None:
    """The lines whose labels may be wrong."""
    if not can_be_turned(run):
        st.info(says("training lines: no labels", run=run.name, taught=run.objective.taught))
        return
    method = _method([name for name in METHODS if name != "cosine"])
    key = f"suspects of {run.path}, {run.model_hash()}"
    tables = at_once(key, lambda report: listed.suspects(run, lines.TARGETS, progress=report))
    if tables is None:
        return
    table = tables[method]
    result = _weighed(run, table, method, None)
    read: Parts = {"How to read this": partial(reading, "lines: suspects", opened=True)}
    told("lines", result, partial(_suspects_table, table), read)


def _suspects_table(table: pd.DataFrame) -> ChartType:
    """The lines, the most suspect one first; returns their picture."""
    bar = st.column_config.ProgressColumn
    st.dataframe(
        drawn_lines.scaled(table, "itself", "harm", "untrained"),
        hide_index=True,
        column_order=["itself", "label", "truth", "line", "untrained", "harm", "loss"],
        column_config={
            "itself": bar(format="%.2f", min_value=0, max_value=1),
            "untrained": bar(format="%.2f", min_value=0, max_value=1),
            "harm": st.column_config.NumberColumn(format="%.2f"),
            "loss": st.column_config.NumberColumn(format="%.3f"),
        },
    )
    return lines.suspects_chart(table)


def _compared(run: Run) -> None:
    """The kept answer: the methods beside trainings that lacked lines."""
    result = Answers.of(run, NAME).latest()
    command = lab("analyse", run.path, NAME, step=run.seen_at)
    if result is None:
        st.info(says("training lines: not asked", run=run.name, command=command))
        return
    if result.model_hash != run.model_hash():
        st.warning(f"This answer is about another checkpoint: {code(command)} renews it.")
    words = f"Each method beside its controls. {result.sentence}"
    more: Parts = {
        part.capitalize(): partial(st.dataframe, table, hide_index=True, height="content")
        for part, table in drawn.side_by_side(result.table).items()
    }
    told(NAME, result, partial(picture, drawn.chart(result.table, columns=1), words), more)


def _method(names: list[InfluenceMethod]) -> InfluenceMethod:
    return controls.selectbox("Method", names, key="lines_method", format_func=listed.NAMED.get)


@once(show_spinner=False)
def _probability(run: Run, word: str) -> float:
    vocabulary = run.language.vocabulary
    with model_of(run) as model, torch.no_grad():
        return float(margins(run, model, vocabulary.words([vocabulary.parse(word)])).sigmoid())
