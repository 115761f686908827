"""Discovery: the rule behind the network's verdicts, in words, with how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.discovery import heads_chart, length_chart
from analyses.questions.rule.discovery import chart
from dashboard.drawing import picture, reading, says, share
from dashboard.markup import code, text
from dashboard.views import question


def show() -> None:
    """The page."""
    question.show("discovery", _answered)


def _answered(result: Answer) -> None:
    """The automaton, and how far it holds."""
    findings = result.findings
    metrics(findings)
    picture(chart(result), f"The extracted automaton. {result.sentence}")
    st.caption(
        says(
            "discovery: automaton",
            queries=findings["queries"],
            states=findings["untrained"]["n_states"],
            right=share(findings["untrained"]["agreement_truth"]),
        )
    )
    details(findings)


def metrics(findings: Mapping[str, Any]) -> None:
    """The numbers of how far the automaton holds; nothing where the language counts."""
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


def _counts(about: Mapping[str, Any]) -> bool:
    """Do a shape and equations stand in the place of the automaton? Then it was rejected."""
    return bool(about["status"] == "counts")


def _bits(about: Mapping[str, Any]) -> None:
    """Code lengths on their one scale, and the states that words up to a length need."""
    if about.get("bits") is None or "growth" not in about:
        return
    st.header("Code length and growth", divider="gray")
    changes = [times for times, other in about["sensitive"].items() if other]
    choice = (
        f"Another wins if they count {' or '.join(changes)} times."
        if changes
        else ("The choice is the same if they count half or twice.")
    )
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


def details(facts: Mapping[str, Any]) -> None:
    """The automaton as a regular expression, where it is small enough; the equations of a language
    that counts, the lengths, and the heads."""
    if facts["regex"] and not _counts(facts):
        st.code(facts["regex"], language=None, wrap_lines=True)
    if "envelope" in facts:
        seen = facts["envelope"]
        st.header("Beyond regular languages", divider="gray")
        st.markdown(
            f"Accepted words have the shape {code(seen['shape'] or 'any')}, and obey "
            f"**{text(seen['constraints'])}**. "
            f"Of {seen['asked']:d} fresh words and near misses, {seen['inside']:.1%} of those that "
            f"obey are accepted, and {seen['outside']:.1%} of the others are rejected."
        )
        grows = facts.get("states_by_length", {}).items()
        if grows:
            st.dataframe(
                pd.DataFrame(grows, columns=["words up to (symbols)", "states of the automaton"]),
                hide_index=True,
                width="content",
            )
    if _counts(facts):
        return
    _bits(facts)
    if len(facts["by_length"]) > 1:
        st.header("By length", divider="gray")
        picture(length_chart(facts), "Held-out lines that rule and network get right, by length.")
    if facts["heads"]:
        st.header("Where in the network is the rule?", divider="gray")
        picture(heads_chart(facts), "What each head carries of each transition of the automaton.")
        reading("rule of run: details")
