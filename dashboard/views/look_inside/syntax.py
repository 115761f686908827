"""Syntax: is the tree of a word in the activations, and how deep may it be?"""

from __future__ import annotations

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.close_ups.grammar import dependencies as depends
from analyses.close_ups.grammar import depths as by_depth
from analyses.close_ups.grammar import syntax as trees
from dashboard import controls
from dashboard.background import at_once
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, how_to_read, picture
from dashboard.markup import code, text
from dashboard.selection import current_run, once
from models.languages import ContextFreeLanguage, Word
from models.runs.run import Run

TREE, DEEP, DEPENDS = "the tree", "how deep", "what depends on what"
SHOWN = 3
"""Examples of dependencies for each number of attractors."""


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
    views = {TREE: _tree, DEEP: _deep, DEPENDS: _depends}
    shown = controls.segments("Show", list(views), "syntax_of")
    with explain_errors():
        views[shown](run)


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
    st.caption(
        "With the other controller, the word may go on the same way up to where it stops here. "
        "Then another symbol must come. An attractor is a symbol between that speaks for the "
        "opposite."
    )
    key = f"dependencies of {run.path}, {run.model_hash()}, {' '.join(symbols)}"
    table = at_once(key, lambda told: depends.dependencies(run, symbols=symbols, progress=told))
    if table is None:
        return
    answer = Answer(table, depends.in_words(table), {"run": run.name, "symbols": typed})
    _show(answer, depends.chart(table))
    how_to_read(
        "Both words right: after the word the model prefers its next symbol to the other one, and "
        "after the changed word the other one. Effect: an activation of the word is put into the "
        "run of the changed word; how much of the difference between the two comes back? The "
        "residual stream is patched before each block, and what a head reads is its value vector. "
        "Attention: from the last symbol before the place. Half of the pairs choose which head is "
        "named, the other half are shown, with 95% intervals. Effects of the untrained model are "
        "shares of the trained model's difference. The rank correlation says whether the heads "
        "that look at the controller are those through which it acts."
    )
    downloads("dependencies", answer, lambda: depends.chart(table))


@once(show_spinner="Computing ...")
def _pairs(run: Run, symbols: Word) -> pd.DataFrame:
    """Some of the dependencies, in words."""
    return depends.examples(run, depends.pairs_of(run, SHOWN, 0, symbols))


def _show(answer: Answer, figure: ChartType) -> None:
    """What was found, in words and as a picture."""
    st.markdown(text(answer.sentence))
    picture(figure, answer.sentence)
