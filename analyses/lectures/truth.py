"""The truth about a word: the rule of its language, and what a reader of the word must keep."""

from __future__ import annotations

from functools import cache

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import EDGE, SEVERAL
from interp.automata.extraction import canonical
from interp.automata.rule_search import rule_of
from models.languages import FormalLanguage, Word

LEFT_OUT = ("accepting", "valid")
"""Variables that the verdict shows already."""
MOST_STATES = 40
"""States of an automaton that is put into words; larger ones take long, and have no short words."""


@cache
def rule_in_words(language: FormalLanguage) -> str | None:
    """The rule of a language, which completes "a word is in it if it ...". None if there are no
    short words for it."""
    if language.rule is not None:
        return language.rule
    if language.dfa is None or len(language.dfa.states) > MOST_STATES:
        return None
    symbols = language.vocabulary.symbols
    rule = rule_of(canonical(language.dfa, symbols), symbols)
    return None if rule is None else rule.text


def variables_of(language: FormalLanguage, word: Word) -> pd.DataFrame:
    """The variables that a reader must keep: one row per prefix and variable.

    Columns: position, place ("3 b"), variable, kind, value.
    """
    traced = language.trace(language.vocabulary.words([word]))
    places = [f"{i} {symbol}" for i, symbol in enumerate(("<bos>", *word))]
    rows = [
        (position, places[position], name, language.variables[name], int(value))
        for name, values in traced.items()
        if name not in LEFT_OUT
        for position, value in enumerate(values[0])
    ]
    return pd.DataFrame(rows, columns=["position", "place", "variable", "kind", "value"])


def reader_of(language: FormalLanguage, word: Word) -> pd.DataFrame:
    """The knowledge of a reader after each symbol: one row per prefix.

    Columns: symbol, the hidden variables by name, "may follow", and for a language that a stack
    reads, if the word is in it, "stack" (top first).
    """
    words = language.vocabulary.words([word])
    traced = {name: values[0] for name, values in language.trace(words).items()}
    allowed = language.allowed(words)[0]
    table = pd.DataFrame({"symbol": ["<bos>", *word], **traced})
    table["may follow"] = [
        " ".join(language.vocabulary.decode(row.nonzero()[0])) for row in allowed
    ]
    if (stacks := language.stacks(word)) is not None:
        table["stack"] = stacks
    return table


def variables_chart(table: pd.DataFrame) -> ChartType:
    """A strip per variable, with its value after each symbol; states and blocks have a colour each.

    Args:
        table: the table of ``variables_of``.
    """
    places = table.drop_duplicates("position")["place"].tolist()
    names = table.drop_duplicates("variable")["variable"].tolist()
    top = float(table["value"].where(table["kind"] == "count", 0).max())
    base = alt.Chart(table).encode(
        x=alt.X("place:N", sort=places, title="after").axis(labelAngle=-60, labelOverlap=False),
        y=alt.Y("variable:N", sort=names, title=None),
        tooltip=["place", "variable", "value"],
    )
    named = base.transform_filter("datum.kind == 'category'").mark_rect(stroke=EDGE)
    counted = base.transform_filter("datum.kind == 'count'").mark_rect(stroke=EDGE)
    numbers = list(range(int(table["value"].max()) + 1))
    colours = [SEVERAL[i % len(SEVERAL)] for i in numbers]
    named = named.encode(
        color=alt.Color("value:O", legend=None).scale(domain=numbers, range=colours)
    )
    counted = counted.encode(
        color=alt.Color("value:Q", legend=None).scale(domain=[0, max(top, 1)], scheme="blues")
    )
    kinds = set(table["kind"])
    cells = [cell for cell, kind in ((named, "category"), (counted, "count")) if kind in kinds]
    dark = f"datum.kind == 'count' && datum.value > {0.55 * max(top, 1)}"
    shown = base.mark_text(fontSize=12).encode(
        text="value:Q", color=alt.condition(dark, alt.value("white"), alt.value("black"))
    )
    return (
        alt.layer(*cells, shown)
        .resolve_scale(color="independent")
        .properties(width=max(120, 30 * len(places)), height=26 * len(names))
    )
