"""Discovery: the rule behind the network's verdicts, in words, with how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.discovery import heads_chart, length_chart
from analyses.questions.rule.discovery import chart
from dashboard.drawing import Parts, picture, reading, says, share
from dashboard.markup import code, text
from dashboard.selection import current_run, kept_or_computed
from dashboard.views import question


def show() -> None:
    """The page."""
    result = kept_or_computed(current_run(), "discovery")
    if result is not None:
        question.told("discovery", result, partial(_automaton, result), details(result.findings))


def _automaton(result: Answer) -> ChartType:
    """The automaton, and how far it holds."""
    findings = result.findings
    figure = picture(chart(result), f"The extracted automaton. {result.sentence}")
    st.caption(
        says(
            "discovery: automaton",
            queries=findings["queries"],
            states=findings["untrained"]["n_states"],
            right=share(findings["untrained"]["agreement_truth"]),
        )
    )
    said(findings)
    return figure


def said(findings: Mapping[str, Any]) -> None:
    """The numbers of how far the automaton holds, and its regular expression, where that is small
    enough; nothing where the language counts."""
    if _counts(findings):
        return
    facts = {
        "States": str(findings["n_states"]),
        "Agrees on fresh words": share(findings["agreement"]),
        "Agrees at other lengths": share(findings["agreement_other_lengths"]),
        "Held-out labels right": share(findings["agreement_truth"]),
    }
    if findings["agreement_truth_beyond"] is not None:
        facts["Right beyond the window"] = share(findings["agreement_truth_beyond"])
    with st.container(horizontal=True, gap="large"):
        for label, value in facts.items():
            st.metric(text(label), text(value), width="content")
    if findings["regex"]:
        st.code(findings["regex"], language=None, wrap_lines=True)


def _counts(about: Mapping[str, Any]) -> bool:
    """Do a shape and equations stand in the place of the automaton? Then it was rejected."""
    return bool(about["status"] == "counts")


def _bits(about: Mapping[str, Any]) -> None:
    """Code lengths on their one scale, and the states that words up to a length need."""
    changes = [times for times, other in about["sensitive"].items() if other]
    choice = "The choice is the same if they count half or twice."
    if changes:
        choice = f"Another wins if they count {' or '.join(changes)} times."
    st.markdown(
        f"The rule takes {about['bits_of_the_rule']:.0f} bits, with its exceptions "
        f"{about['bits']:.0f}; without a rule the lines' labels take {about['bits_without']:.0f}. "
        f"{text(choice)}"
    )
    st.dataframe(
        pd.DataFrame(about["growth"].items(), columns=["words up to (symbols)", "states needed"]),
        hide_index=True,
        width="content",
    )


def _beyond(facts: Mapping[str, Any]) -> None:
    """The shape and the equations of a language that counts."""
    seen = facts["envelope"]
    st.markdown(
        f"Accepted words have the shape {code(seen['shape'] or 'any')}, and obey "
        f"**{text(seen['constraints'])}**. "
        f"Of {seen['asked']:d} fresh words and near misses, {seen['inside']:.1%} of those that "
        f"obey are accepted, and {seen['outside']:.1%} of the others are rejected."
    )
    if grows := facts.get("states_by_length", {}).items():
        st.dataframe(
            pd.DataFrame(grows, columns=["words up to (symbols)", "states of the automaton"]),
            hide_index=True,
            width="content",
        )


def _heads(facts: Mapping[str, Any]) -> None:
    """The heads that carry each transition."""
    picture(heads_chart(facts), "What each head carries of each transition of the automaton.")
    reading("discovery: heads")


def details(facts: Mapping[str, Any]) -> Parts:
    """Parts about the rule that a network says: the equations of a language that counts, code
    lengths, the lengths of words, and the heads."""
    parts: Parts = {}
    if "envelope" in facts:
        parts["Beyond regular languages"] = partial(_beyond, facts)
    if _counts(facts):
        return parts
    if facts.get("bits") is not None and "growth" in facts:
        parts["Code length and growth"] = partial(_bits, facts)
    if len(facts["by_length"]) > 1:
        words = "Held-out lines that rule and network get right, by length."
        parts["By length"] = partial(picture, length_chart(facts), words)
    if facts["heads"]:
        parts["Where in the network"] = partial(_heads, facts)
    return parts
