"""The looks of each head on the typed line, and what hangs on each of them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.heads import lines_chart, looks_chart
from analyses.needs import lack
from analyses.questions.parts.looks import on_word
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import chooses, picture, reading
from dashboard.markup import text
from dashboard.selection import LONGEST, head_key, of_model
from models.base import LanguageModel
from models.languages import BOS, Word
from models.runs.run import Run

TIMES = 2
"""So many times as much as in the untrained network must hang on a look that is told."""
NOTHING = "No look on this line changes END's logit by much more than without training."
LOOKS = {"attention": "Where it looks", "moved": "What hangs on it"}


def _of_line(model: LanguageModel, run: Run, word: Word) -> tuple[pd.DataFrame, float]:
    """The looks on a line, and the most that hangs on one of the untrained network."""
    return on_word(model, word), float(on_word(run.untrained(), word)["moved"].abs().max())


_looks = of_model(_of_line)


def show(run: Run, word: Word) -> None:
    """Draws every head while it reads one symbol, and one head on the whole line; nothing for a
    network without heads, or for a long line."""
    if lack(run, ("heads",)) or len(word) > LONGEST:
        return
    shown = list(LOOKS.items())[: 1 if lack(run, ("verdict",)) else 2]
    tokens = [BOS, *word]
    names = [f"{i} {token}" for i, token in enumerate(tokens)]
    table, floor = _looks(run, word)
    strongest = table.loc[table["moved"].abs().idxmax()]
    st.header("Where each head looks, and what hangs on it", divider="gray")
    if len(shown) > 1:
        beyond = abs(strongest["moved"]) > TIMES * floor
        said = f"Most hangs on {_told(strongest, names)}: {_lost(strongest)}"
        st.markdown(
            f"{said if beyond else NOTHING} Of the untrained network no look on this line changes "
            f"it by more than {floor:.2f}."
        )
    reads = f"reads_{run.language.name}"
    read = controls.segments("While it reads", names, reads, int(strongest["query"]))
    parts, head, query = table["part"].unique().tolist(), head_key(run), names.index(read)
    part = controls.selectbox("Head", parts, parts.index(strongest["part"]), key=head)
    of_head = table[table["part"] == part]
    here = of_head[of_head["query"] == query]
    most = here.loc[here["attention"].idxmax()]
    says = f": {_lost(most)}" if len(shown) > 1 else "."
    st.markdown(f"While it reads {text(read)}, most attention has {_told(most, names)}{says}")
    with st.container(horizontal=True, gap="medium"):
        for value, title in shown:
            with st.container(width="content"):
                st.markdown(f"**{text(title)}** while it reads {text(read)}: every head")
                figure = looks_chart(table, tokens, query, value, part)
                picture(figure, title, **chooses(head, "part", f"{value}_{part}_{query}"))
    with st.container(horizontal=True, gap="medium"):
        for value, title in shown:
            with st.container(width="content"):
                st.markdown(f"**{text(title)}**: {text(part)} on the whole line")
                picture(lines_chart(of_head, tokens, query, value), title)
    reading("looks on a line")
    facts = {"run": run.name, "word": list(word)}
    downloads("looks-on-a-line", Answer(table, "", facts), lambda: figure)


def _told(look: pd.Series, names: list[str]) -> str:
    """A look, in words."""
    return text(
        f"the look of {look['part']} from {names[look['query']]} at {names[look['key']]} "
        f"({look['attention']:.0%} of its attention)"
    )


def _lost(look: pd.Series) -> str:
    """The loss without a look, in words."""
    change = f"{abs(look['moved']):.2f} {'lower' if look['moved'] > 0 else 'higher'}"
    return text(f"without it END's logit, above 0 in the language, would be {change}.")
