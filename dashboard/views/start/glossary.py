"""The glossary: every term that the pages use."""

from __future__ import annotations

import streamlit as st

from dashboard import controls
from dashboard.glossary import Term, entries, terms
from dashboard.markup import text


def show() -> None:
    """The page."""
    wanted = controls.text_input("Find", "", key="find", placeholder="LEACE")
    matches = _matching(wanted)
    if not matches:
        st.info("No term has these letters in its name or meaning.")
    for group in dict.fromkeys(term.group for term in matches):
        st.header(text(group), divider="gray")
        st.markdown(entries(term for term in matches if term.group == group))


def _matching(wanted: str) -> list[Term]:
    """The terms that have these letters in their name; else those that have them in what they
    mean."""
    letters = wanted.strip().lower()
    named = [term for term in terms().values() if letters in term.name.lower()]
    return named or [term for term in terms().values() if letters in term.meaning.lower()]
