"""The rules that lines do not exclude, and the lines that would decide: a click is an answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from analyses.rules.narrowing import Narrowed, Question, keep_answers, narrowed, questions
from analyses.rules.record import LINES, known, others, question
from dashboard.drawing import Parts
from dashboard.markup import text
from dashboard.views.discover.learners import learn_again
from models.languages import Word, read_lines

ASKED = 3
"""Lines that are asked about at a time."""


@st.cache_data(max_entries=32, show_spinner="Comparing the rules ...")
def narrowed_by(
    record: dict[str, Any], answers: dict[Word, bool], folder: Path
) -> tuple[Narrowed, list[Question]]:
    """The rules left, and the lines that decide between them, kept by Streamlit.

    Args:
        record: "best" and "space" of a finished record.
        folder: the folder of the discovery.
    """
    lengths = [len(word) for word in read_lines(folder / LINES)[1]]
    space = narrowed(record, answers, lengths)
    return space, questions(space.left)


def ask(
    folder: Path,
    record: dict[str, Any],
    answers: dict[Word, bool],
    space: Narrowed,
    lines: list[Question],
    parts: Parts,
) -> None:
    """The lines to answer, and the answers.

    Args:
        folder: the folder of the discovery.
        record: a finished record with a space of rules.
        answers: the answers to its lines.
        space: the rules that the answers leave.
        lines: the lines that decide between them.
        parts: takes up the part of the page that lists the rules.
    """
    if len(space.left) > 1:
        parts["Other rules that fit"] = partial(_other_rules, record, answers, space)
    st.header("Lines that would decide", divider="gray")
    st.markdown(text(_left_open(space, lines)))
    for line in lines[:ASKED]:
        _to_answer(folder, record, answers, line)
    if answers:
        _given(folder, record, answers)
    if space.struck:
        with st.expander(f"{len(space.struck):d} struck out by your answers"):
            st.markdown(
                "\n".join(f"- ~~{text(known(rule).removeprefix('it '))}~~" for rule in space.struck)
            )


def _other_rules(record: dict[str, Any], answers: dict[Word, bool], space: Narrowed) -> None:
    """The rules that fit beside the first one, as ``ask`` takes them."""
    rest = record | {"space": space.left[1:]}
    st.markdown(text(question(rest, "Lines and answers" if answers else "The lines")))
    st.markdown(_listed_rules(others(rest)))


def _listed_rules(rows: Sequence[dict[str, Any]]) -> str:
    """Rules as a list in Markdown."""
    return "\n".join(
        f"- {text(row['rule'])}  \n:small[{text(row['class'])}; {text(row['bits'])} bits; "
        f"differs from the rule above on {text(row['differs on'])}]"
        for row in rows
    )


def _left_open(space: Narrowed, lines: Sequence[Question]) -> str:
    """The choice that is still to be made, in a sentence."""
    if not space.left:
        return "No rule of the space is left: learn again with the answers."
    if len(space.left) == 1:
        return "One rule is left."
    if not lines:
        return "No line of known words tells the rules that are left apart."
    return "Which label does a line have? An answer strikes out the rules that contradict it."


def _to_answer(
    folder: Path, record: dict[str, Any], answers: dict[Word, bool], line: Question
) -> None:
    """A line with a button for each label."""
    typed = " ".join(line.line)
    accepted, other = record["labels"]
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{text(typed)}**  \n:small[{text(accepted)} by {line.accepting:d} of the rules, "
            f"{text(other)} by {line.rejecting:d}]",
            width="stretch",
        )
        for yes, label in ((True, accepted), (False, other)):
            if st.button(text(label), key=f"answer {yes} {typed}", width="content"):
                keep_answers(folder, record, answers | {line.line: yes})
                st.rerun()


def _given(folder: Path, record: dict[str, Any], answers: dict[Word, bool]) -> None:
    """The answers, each with a button that takes it back, and a button that learns from them."""
    st.subheader("Your answers")
    for line, yes in answers.items():
        typed = " ".join(line)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{text(typed)}: **{text(record['labels'][not yes])}**")
            if st.button("Take back", key=f"take back {typed}", width="content"):
                keep_answers(folder, record, {k: v for k, v in answers.items() if k != line})
                st.rerun()
    if st.button("Learn again with these answers", type="primary"):
        st.session_state["begun"] = learn_again(folder, record, answers)
        st.rerun()
