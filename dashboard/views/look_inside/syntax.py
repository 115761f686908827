"""Syntax: is the tree of a word in the activations?"""

from __future__ import annotations

import streamlit as st

from analyses.answers import Answer
from analyses.close_ups.syntax import chart, in_words, syntax, words_of
from dashboard.background import at_once
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, how_to_read, picture
from dashboard.markup import code, text
from dashboard.selection import current_run
from models.languages import ContextFreeLanguage


def show() -> None:
    """The page."""
    st.title("Syntax")
    st.markdown("**Is the tree of a word in the activations?**")
    run = current_run()
    known = run.language
    if not isinstance(known, ContextFreeLanguage):
        st.info(
            f"{text(known.name)} has no trees. Choose a run on a grammar, or train one: "
            "nested, linear, or a grammar of your own."
        )
        return
    with explain_errors():
        word = max(words_of(run, 30, 0), key=len)
        st.caption(f"A word, {code(' '.join(word))}, and its tree:")
        st.code(str(next(known.trees(word))), language=None, wrap_lines=True)
        key = f"syntax of {run.path}, {run.model_hash()}"
        table = at_once(key, lambda told: syntax(run, progress=told))
        if table is None:
            return
        said = in_words(table)
        st.markdown(text(said))
        figure = chart(table)
        picture(figure, f"Structural probes by site. {said}")
        how_to_read(
            "A structural probe is a linear map under which the squared distance of two symbols' "
            "activations is their distance in the tree, or the squared length of one its depth "
            "(Hewitt and Manning 2019). The score is Spearman's correlation with the truth, with "
            "95% intervals over words. A third of the words fits the probe, a third chooses the "
            "site, a third scores. Controls: the untrained model; trees of other words of the same "
            "length, which say how much the length alone tells; and, as a line, the place in the "
            "word, without any model."
        )
        downloads("syntax", Answer(table, said, {"run": run.name}), lambda: figure)
