"""Syntax: is the tree of a word in the activations, and how deep may it be?"""

from __future__ import annotations

import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.close_ups import depths as by_depth
from analyses.close_ups import syntax as trees
from dashboard import controls
from dashboard.background import at_once
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, how_to_read, picture
from dashboard.markup import code, text
from dashboard.selection import current_run
from models.languages import ContextFreeLanguage
from models.runs.run import Run

TREE, DEEP = "the tree", "how deep"


def show() -> None:
    """The page."""
    st.title("Syntax")
    st.markdown("**Is the tree of a word in the activations, and how deep may it be?**")
    run = current_run()
    if not isinstance(run.language, ContextFreeLanguage):
        st.info(
            f"{text(run.language.name)} has no trees. Choose a run on a grammar, or train one: "
            "nested, linear, or a grammar of your own."
        )
        return
    shown = controls.segments("Show", [TREE, DEEP], "syntax_of")
    with explain_errors():
        {TREE: _tree, DEEP: _deep}[shown](run)


def _tree(run: Run) -> None:
    """A word with its tree, and structural probes."""
    known = run.language
    assert isinstance(known, ContextFreeLanguage)
    word = max(trees.words_of(run, 30, 0), key=len)
    st.caption(f"A word, {code(' '.join(word))}, and its tree:")
    st.code(str(next(known.trees(word))), language=None, wrap_lines=True)
    key = f"syntax of {run.path}, {run.model_hash()}"
    table = at_once(key, lambda told: trees.syntax(run, progress=told))
    if table is None:
        return
    answer = Answer(table, trees.in_words(table), {"run": run.name})
    _show(answer, trees.chart(table))
    how_to_read(
        "A structural probe is a linear map under which the squared distance of two symbols' "
        "activations is their distance in the tree, or the squared length of one its depth "
        "(Hewitt and Manning 2019). The score is Spearman's correlation with the truth, with 95% "
        "intervals over words. A third of the words fits the probe, a third chooses the site, a "
        "third scores. Controls: the untrained model; trees of other words of the same length, "
        "which say how much the length alone tells; and, as a line, the place in the word, without "
        "any model."
    )
    downloads("syntax", answer, lambda: trees.chart(table))


def _deep(run: Run) -> None:
    """How right by depth of embedding."""
    key = f"depths of {run.path}, {run.model_hash()}"
    table = at_once(key, lambda told: by_depth.depths(run, progress=told))
    if table is None:
        return
    answer = Answer(table, by_depth.in_words(table), {"run": run.name})
    _show(answer, by_depth.chart(table))
    how_to_read(
        "Depth: how often parts of one kind stand in the middle of each other, such as a relative "
        "clause inside a relative clause. Up to 64 different words of each depth are asked about, "
        "with 95% intervals (Wilson). The set before the last symbol: may exactly those symbols "
        "follow there that the language allows? In `nested` this is where the outermost verb "
        "agrees with its noun. Verdicts: on each word, and on one that differs in one symbol."
    )
    downloads("depths", answer, lambda: by_depth.chart(table))


def _show(answer: Answer, figure: ChartType) -> None:
    """What was found, in words and as a picture."""
    st.markdown(text(answer.sentence))
    picture(figure, answer.sentence)
