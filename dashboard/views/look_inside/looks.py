"""The looks of each head on the typed line, and what hangs on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.heads import lines_chart, looks_chart
from analyses.charts.marks import in_a_row
from analyses.needs import lack
from analyses.questions.parts.looks import on_word
from dashboard import controls
from dashboard.drawing import Parts, chooses, picture, tabs
from dashboard.markup import text
from dashboard.selection import WIDTH, head_key, of_model
from dashboard.views.line import LONGEST
from dashboard.views.question import below
from models.base import LanguageModel
from models.languages import BOS, Word
from models.runs.run import Run

TIMES = 2
"""So many times as much as in the untrained network must hang on a look that is told."""
NOTHING = "No look on this line adds much more to END's logit, or takes more away, than untrained."
UNREAD = "Heads of the last layer cannot matter here: only the last symbol reads what they write."
LOOKS = {"attention": "Where it looks", "moved": "What hangs on it"}


def _of_line(model: LanguageModel, run: Run, word: Word) -> tuple[pd.DataFrame, float]:
    """The looks on a line, and the most that hangs on one of the untrained network."""
    return on_word(model, word), float(on_word(run.untrained(), word)["moved"].abs().max())


_looks = of_model(_of_line)


def show(run: Run, word: Word, more: Parts) -> None:
    """Draws every head while it reads one symbol; the parts alone for a network without heads, or
    for a long line.

    Args:
        more: further parts of the page.
    """
    if lack(run, ("heads",)) or len(word) > LONGEST:
        tabs("part_of_line", more)
        return
    shown = list(LOOKS.items())[: 1 if lack(run, ("verdict",)) else 2]
    tokens = [BOS, *word]
    names = [f"{i} {token}" for i, token in enumerate(tokens)]
    table, floor = _looks(run, word)
    strongest = table.loc[table["moved"].abs().idxmax()]
    if len(shown) > 1 and run.step:
        beyond = abs(strongest["moved"]) > TIMES * floor
        query, key = (names[strongest[side]] for side in ("query", "key"))
        said = text(
            f"Most hangs on the look of {strongest['part']} from {query} at {key} "
            f"({strongest['attention']:.0%} of its attention): it adds {strongest['moved']:+.2f} "
            "to END's logit, which is above 0 in the language."
        )
        st.markdown(
            f"{said if beyond else NOTHING} Of the untrained network no look on this line adds or "
            f"takes away more than {floor:.2f}."
        )
    place = st.container()
    head, parts = head_key(run), table["part"].unique().tolist()
    with st.container(horizontal=True, gap="medium"):
        key, most = f"reads_{run.language.name}", int(strongest["query"])
        read = controls.segments("While it reads", names, key, most)
        most = parts.index(strongest["part"])
        part = controls.selectbox("Head", parts, most, key=head, width=WIDTH)
    query = names.index(read)
    of_head = table[table["part"] == part]
    unread = run.config.model.causal and query < len(word) and len(shown) > 1
    by_symbol = _by_symbol(table[table["query"] == query], names, len(shown) > 1)
    st.markdown(f"{by_symbol} {UNREAD * unread}")
    figures = list[ChartType]()
    with place, st.container(horizontal=True, gap="medium"):
        for value, title in shown:
            with st.container(width="content"):
                st.markdown(f"**{text(title)}** while it reads {text(read)}: every head")
                figure = looks_chart(table, tokens, query, value, part)
                picture(figure, title, **chooses(head, "part", f"{value}_{part}_{query}"))
                figures.append(figure.properties(title=f"{title} while it reads {read}"))
    answer = Answer(table, "", {"run": run.name, "word": list(word)})
    on_line = partial(_one_head, shown, of_head, tokens, query)
    below(
        "looks-on-a-line",
        answer,
        in_a_row(figures),
        {"One head on the whole line": on_line, **more},
    )


def _one_head(
    shown: list[tuple[str, str]], table: pd.DataFrame, tokens: Sequence[str], query: int
) -> None:
    """One head at every symbol of the line."""
    with st.container(horizontal=True, gap="medium"):
        for value, title in shown:
            with st.container(width="content"):
                st.markdown(f"**{text(title)}**: {text(table['part'].iloc[0])} on the whole line")
                picture(lines_chart(table, tokens, query, value), title)


def _by_symbol(looks: pd.DataFrame, names: list[str], moves: bool) -> str:
    """The head that looks most at each of the symbols that are looked at most."""
    best = looks.loc[looks.groupby("key")["attention"].idxmax()].nlargest(4, "attention")
    told = "; ".join(
        f"{names[look.key]} {look.part} ({look.attention:.0%}"
        + (f", {round(look.moved, 2) + 0.0:+.2f})" if moves else ")")
        for look in best.itertuples()
    )
    adds = ", and what this look adds to END's logit" if moves else ""
    return text(
        f"While it reads {names[looks['query'].iloc[0]]}, the head that looks most at a symbol (in "
        f"brackets the share of its attention{adds}): {told}."
    )
