"""One word under every explanation method, beside the rationale and the exact Shapley values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.leaderboard import MEANINGS, REPLACEMENTS
from analyses.options.words import Explanations
from analyses.questions.words.explanations import chart, replacement_in_words
from analyses.words import member, near_miss
from dashboard import controls
from dashboard.drawing import Parts, chips, explain_errors, picture, reading, says
from dashboard.markup import text
from dashboard.selection import asked, current_run, suggested
from dashboard.views.line import line_of
from dashboard.views.question import told
from interp.explanations.games import EXACT_LIMIT, SCALES
from interp.explanations.moved_attention import LARGEST, TOLERANCE
from models.languages import LabelledCorpus, Word
from models.runs.run import Run


def show() -> None:
    """The page."""
    run = current_run()
    replaced = "; ".join(
        f"**{text(name)}**: {text(replacement_in_words(name, run.language))}"
        for name in REPLACEMENTS
    )
    replacement = controls.segments(
        "Hidden symbols become",
        list(REPLACEMENTS),
        "replacement",
        help="To find out what a symbol does, LIME, SHAP and methods like them hide it. A hidden "
        f"symbol is replaced, never deleted, so the word keeps its length. {replaced}.",
    )
    options = {} if line_of(run) == " ".join(first(run)) else {"word": line_of(run)}
    with explain_errors():
        result = asked(run, "explanations", replacement=replacement, **options)
        if result is not None:
            _answered(result)


def first(run: Run) -> Word:
    """The line that is explained by itself."""
    return suggested(run, Explanations().n, member if run.objective.verdict_alone else near_miss)


def _answered(result: Answer) -> None:
    """The answer of every method on the word, and how right it is."""
    findings = result.findings
    chips(tuple(findings["word"]), tuple(findings["rationale"] or ()))
    more: Parts = {"How right, and at what cost": partial(_scores, findings)}
    if findings["moved_attention"]:
        more["Attention moved"] = partial(_moved, pd.DataFrame(findings["moved_attention"]))
    told("explanations", result, partial(_rows, result), more, longest=EXACT_LIMIT)


def _rows(result: Answer) -> ChartType:
    """The attribution of every symbol, a row per method."""
    place = st.container()
    st.caption(_in_words(result.findings))
    figure = chart(result, controls.segments("Methods explain", list(SCALES), "scale"))
    with place:
        return picture(figure, f"Attribution per symbol and method. {result.sentence}")


def _scores(findings: Mapping[str, Any]) -> None:
    """The agreement of every method with the truth, and its cost."""
    scores = pd.DataFrame(findings["agreement"])
    numbers = scores.columns[4:]
    scores[numbers] = scores[numbers].astype(float)
    formats = {"calls": "%.0f", "seconds": "%.4f", "error": "%.4f"}
    shown = {
        name: st.column_config.NumberColumn(format=formats.get(name, "%.2f"), help=MEANINGS[name])
        for name in numbers
    }
    pinned = {"method": st.column_config.TextColumn(pinned=True)}
    st.dataframe(scores, hide_index=True, height="content", column_config=pinned | shown)
    st.caption(says("explanations: scores"))


def _in_words(findings: Mapping[str, Any]) -> str:
    """The model's verdict on the word, and what is in colour by what rule."""
    sets, rule = findings["rationales"], text(findings["rationale_rule"])
    several = f" One of {sets:d} sets of positions is enough." if sets > 1 else ""
    by = f"In colour: the rationale, the positions that decide by a published rule: {rule}."
    if findings["rationale_rule"] == LabelledCorpus.rationale_rule:
        by = "The rule of these lines is not known, so no method can be held against it."
    probability = f"{findings['probability']:.3f}"
    return f'The model\'s probability of "in the language": {probability}. {by}{several}'


def _moved(table: pd.DataFrame) -> None:
    """Could other attention give the same verdict? How far each head's can be moved."""
    st.dataframe(table, hide_index=True)
    reading("explanations: moved attention", largest=f"{LARGEST:.2f}", tolerance=TOLERANCE)
