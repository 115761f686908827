"""Where each head looks on the typed line, and what hangs on each look."""

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
from models.languages import BOS, Word
from models.runs.run import Run

LOOKS = {"attention": "Where it looks", "moved": "What hangs on it"}
_on_word = of_model(lambda model, run, word: on_word(model, word))


def show(run: Run, word: Word) -> None:
    """Every head while it reads one symbol, and one head on the whole line; nothing for a network
    without heads, or for a long line."""
    if lack(run, ("heads",)) or len(word) > LONGEST:
        return
    shown = list(LOOKS.items())[: 1 if lack(run, ("verdict",)) else 2]
    tokens = [BOS, *word]
    names = [f"{i} {token}" for i, token in enumerate(tokens)]
    table = _on_word(run, word)
    strongest = table.loc[table["moved"].abs().idxmax()]
    st.header("Where each head looks, and what hangs on it", divider="gray")
    reads = f"reads_{run.language.name}"
    read = controls.segments("While it reads", names, reads, int(strongest["query"]))
    parts, head, query = table["part"].unique().tolist(), head_key(run), names.index(read)
    part = controls.selectbox("Head", parts, parts.index(strongest["part"]), key=head)
    of_head = table[table["part"] == part]
    st.markdown(_sentence(of_head[of_head["query"] == query], tokens, query, len(shown) > 1))
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


def _sentence(looks: pd.DataFrame, tokens: list[str], query: int, judges: bool) -> str:
    """What a head looks at while it reads one symbol, and what hangs on that look."""
    most = looks.loc[looks["attention"].idxmax()]
    change = f"{abs(most['moved']):.2f} {'lower' if most['moved'] > 0 else 'higher'}"
    return text(
        f"While it reads {tokens[query]}, {most['part']} looks most at {tokens[most['key']]}: "
        f"{most['attention']:.0%} of its attention."
        + f" If it could not look there, END's logit at the end would be {change}."
        * judges
    )
