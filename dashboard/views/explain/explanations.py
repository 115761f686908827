"""One word under every explanation method, beside the rationale and the exact Shapley values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.leaderboard import REPLACEMENTS
from analyses.options.words import SHORTEST, Explanations
from analyses.questions.words.explanations import LONGEST, chart, replacement_in_words
from analyses.words import ANALYSIS_SEED, apart, member, near_miss
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import chips, explain_errors, judged, picture, reading, says, seeds_of
from dashboard.markup import text
from dashboard.selection import asked, current_run, suggested, truth_of, word_input, word_key
from dashboard.views.explain.leaderboard import columns_of, scale_of_the_verdict
from interp.explanations.games import EXACT_LIMIT
from interp.explanations.moved_attention import LARGEST, TOLERANCE
from models.languages import DUTCH, LabelledCorpus, Language, Word, printed_lines
from models.runs.run import Run

MOVED = {
    name: st.column_config.NumberColumn(format="%.3f")
    for name in (
        *("divergence", "change"),
        *("permuted divergence", "permuted change", "permuted kept"),
    )
}
SOME = 5  # members to pick from, and as many near misses; also the number of their lengths


def show() -> None:
    """The page."""
    run = current_run()
    choose = member if run.objective.verdict_alone else near_miss
    default = suggested(run, Explanations().n, choose)
    left, right = st.columns(2)
    typed = word_input(run, default, at=left)
    with right:
        pick(run, typed)
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
    options = {} if typed == " ".join(default) else {"word": typed}
    with explain_errors():
        result = asked(run, "explanations", replacement=replacement, **options)
        if result is not None:
            _answered(result)
    seeds_of(run, "explanations")


def _answered(result: Answer) -> None:
    """The answer of every method on the word, and how right it is."""
    findings = result.findings
    sets = findings["rationales"]
    several = f" One of {sets:d} sets of positions is enough." if sets > 1 else ""
    chips(tuple(findings["word"]), tuple(findings["rationale"] or ()))
    truth = {True: "it is", False: "it is not", None: "not known"}[findings["in_language"]]
    st.caption(
        f'The model\'s probability of "in the language": {findings["probability"]:.3f} (truth: '
        f"{text(truth)}). {_rule(findings)}{several}"
    )
    judged("explanations", result)
    scale = scale_of_the_verdict()
    figure = chart(result, scale)
    picture(figure, f"Attribution per symbol and method. {result.sentence}")
    reading("explanations: rows", longest=EXACT_LIMIT)
    st.subheader("How right was each, and at what cost?")
    scores = pd.DataFrame(findings["agreement"])
    numbers = scores.columns[4:]
    scores[numbers] = scores[numbers].astype(float)
    shown = columns_of(numbers)
    st.dataframe(scores, hide_index=True, height="content", column_config=shown)
    st.caption(says("explanations: scores"))
    _moved(pd.DataFrame(findings["moved_attention"]))
    downloads("explanations", result, lambda: figure)


def _rule(findings: Mapping[str, Any]) -> str:
    """Which positions decide, and by what rule."""
    if findings["rationale_rule"] == LabelledCorpus.rationale_rule:
        return "The rule of these lines is not known, so no method can be held against it."
    return (
        "In colour: the rationale, the positions that decide by a published rule: "
        f"{text(findings['rationale_rule'])}."
    )


def _moved(table: pd.DataFrame) -> None:
    """The distance that each head's attention can be moved with the verdict unchanged."""
    if table.empty:
        return
    st.subheader("Could other attention give the same verdict?")
    st.dataframe(table, hide_index=True, column_config=MOVED)
    reading("explanations: moved attention", largest=f"{LARGEST:.2f}", tolerance=TOLERANCE)


def pick(run: Run, typed: str) -> None:
    """A select of the language's own words; the choice is typed into the box above."""
    lines = _lines(run)
    if not lines or controls.is_second():
        return
    key = f"line_of_{word_key(run)}"
    st.session_state[key] = typed if typed in lines else None

    def choose() -> None:
        if chosen := st.session_state[key]:
            st.session_state[word_key(run)] = chosen

    st.selectbox(
        "or pick one",
        list(lines),
        key=key,
        on_change=choose,
        format_func=lambda line: f"{lines[line]}: {line}",
        placeholder=f"a line of {run.language.name}",
    )


def _lines(run: Run) -> dict[str, str]:
    """Words to pick from, with what each of them is. For the Dutch lines these are all of them, for
    other languages short members and near misses."""
    language = run.language
    if language.name in DUTCH:
        return {
            " ".join(word): f"{group}, {_kind(language, word)}" for group, word in printed_lines()
        }
    window = [k for k in language.lengths(run.config.max_n) if SHORTEST <= k <= LONGEST]
    rng = np.random.default_rng(ANALYSIS_SEED)
    words: list[Word] = []
    with suppress(LookupError):  # no words of these lengths, or no others
        lengths = language.positive_lengths(window)[:SOME]
        drawn = language.sample(rng, SOME, lengths, label=True, split=apart(language)).words
        rows = zip(drawn.ids, drawn.lengths, strict=True)
        members = {language.vocabulary.decode(ids[:length]) for ids, length in rows}
        words += sorted(members, key=lambda word: (len(word), word))
        words += [language.counterfactual(word, rng) for word in words]
    return {" ".join(word): _kind(language, word) for word in words}


def _kind(language: Language, word: Word) -> str:
    """Is the word in the language?"""
    return {True: "in", False: "not in", None: "not known"}[truth_of(language, word)]
