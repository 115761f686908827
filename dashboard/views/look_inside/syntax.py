"""Syntax: is the tree of a word in the activations, and how deep may it be?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.needs import lack
from analyses.questions.inside import syntax as trees
from analyses.questions.parts import dependencies as depends
from dashboard import controls
from dashboard.drawing import says
from dashboard.markup import code
from dashboard.selection import current_run, once
from dashboard.views.question import View, live, one_of
from models.languages import ContextFreeLanguage, Word
from models.runs.run import Run

SHOWN = 3
"""Examples of dependencies for each number of attractors."""


def show() -> None:
    """The page."""
    views: dict[str, View] = {"the tree": _tree}
    if not lack(current_run(), ["trees"]):
        views |= {"how deep": "depths", "what depends on what": _depends}
    one_of(views, "syntax_of")


def _tree(run: Run) -> None:
    """A word with its tree, and structural probes."""
    language, word = run.language, max(trees.words_of(run, 30, 0), key=len)
    st.caption(f"A word, {code(' '.join(word))}, and its tree:")
    if isinstance(language, ContextFreeLanguage):
        tree = str(next(language.trees(word)))
    else:
        known = language.tree_distances(word)
        assert known is not None
        tree = "\n".join(
            f"{'    ' * depth}{symbol}" for symbol, depth in zip(word, known[1], strict=True)
        )
    st.code(tree, language=None, wrap_lines=True)
    live("syntax")


def _depends(run: Run) -> None:
    """Which earlier symbol decides, and which heads read it."""
    typed = controls.text_input(
        "Only where one of these comes next",
        "",
        key=f"depends_{run.language.name}",
        help=f"Symbols: {code(' '.join(run.language.vocabulary.symbols))}. Empty: anything.",
    )
    symbols = run.language.vocabulary.parse(typed)
    pairs = _pairs(run, symbols)
    st.dataframe(pairs, hide_index=True, height="content")
    st.caption(says("syntax: dependencies"))
    live("dependencies", symbols=typed)


@once(show_spinner="Computing ...")
def _pairs(run: Run, symbols: Word) -> pd.DataFrame:
    """Some of the dependencies, in words."""
    return depends.examples(run, depends.pairs_of(run, SHOWN, 0, symbols))
