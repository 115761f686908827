"""Heads: what each is needed for, what it writes, and where it looks on a typed word."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.heads import chart, grid
from analyses.charts.marks import in_a_row
from analyses.questions.parts import head as one_head
from dashboard import controls
from dashboard.drawing import Parts, chooses, explain_errors, link_to, picture, reading, says
from dashboard.markup import text
from dashboard.selection import (
    WIDTH,
    current_run,
    head_key,
    kept_or_computed,
    model_of,
    of_model,
)
from dashboard.views.line import word_of
from dashboard.views.question import told
from interp.heads.needed import NEEDED
from interp.heads.qk_and_ov import has_rotary_positions
from models.runs.run import Run
from models.transformer.model import HookedTransformer


def show() -> None:
    """The page."""
    run = current_run()
    result = kept_or_computed(run, "heads")
    if result is None:
        with explain_errors():
            _one_head(run, _choose(run))
        return
    chosen: dict[str, str] = {}
    more: Parts = {
        "One head": lambda: _one_head(run, chosen["part"]),
        "All heads and parts": partial(
            picture, chart(result), f"Accuracy lost per ablated head. {result.sentence}"
        ),
    }
    if result.verdict.grade in ("holds", "fragile"):
        more["Pairs of heads"] = partial(_pairs, result)
    told("heads", result, partial(_glance, run, result, chosen), more)


def _choose(run: Run, most: str = "L0H0") -> str:
    """The head of the reader's choice.

    Args:
        most: the head before the reader chooses.
    """
    model = run.config.model
    parts = [f"L{i}H{head}" for i in range(model.n_layers) for head in range(model.n_heads)]
    return controls.selectbox("Head", parts, parts.index(most), key=head_key(run), width=WIDTH)


def _pairs(result: Answer) -> None:
    """The pairs that lose surely more, or less, together than the sum of both heads."""
    if not (pairs := result.findings["pairs"]):
        st.markdown("No two heads are shown to stand in for each other, or to be needed together.")
        return
    table = pd.DataFrame(pairs).rename(columns={"corrected": "p"})
    shares = dict.fromkeys(("together", "first", "second", "beyond"), "{:.1%}")
    st.dataframe(table.style.format({**shares, "p": "{:.1g}"}), hide_index=True)
    reading("heads: pairs", limit=f"{NEEDED:.0%}")


def _glance(run: Run, result: Answer, chosen: dict[str, str]) -> ChartType:
    """The grid of heads, coloured by a measure; a click chooses a head.

    Args:
        chosen: takes up the head that the reader chose.
    """
    table, kinds = result.table, dict[str, list[str]]()
    for measure in table[table["head"] >= 0]["measure"].unique():
        kind, _, variant = measure.partition(", ")
        kinds.setdefault(kind, []).append(variant)
    place = st.container()
    with st.container(horizontal=True, gap="medium"):
        part = chosen["part"] = _choose(run, result.findings["most"])
        measure = kind = controls.segments("Measure", list(kinds), "measure")
        if len(kinds[kind]) > 1:
            key = f"{kind.split()[0]}_by"
            measure += ", " + controls.segments(VARIANTS[kind], kinds[kind], key)
    with place, st.container(horizontal=True, gap="medium"):
        words = f"{measure} of every head: layers down, heads across. The model is"
        before, after = (grid(table, measure, name, part) for name in ("untrained", "trained"))
        picture(after, f"{words} trained.", **chooses(head_key(run), "part", f"grid_{part}"))
        picture(before, f"{words} untrained.")
    st.caption(
        f"{says(f'heads: {kind}')} In the frame is {text(part)}. Click another to look inside it."
    )
    return in_a_row([after, before]).properties(title=measure)


VARIANTS = {
    "accuracy lost": "Without the head",
    "direct logit": "Words",
    "attention": "Type",
    "shared directions": "Of its",
}


def _one_head(run: Run, part: str) -> None:
    """A head's ablation on the typed word, and its circuits."""
    word = word_of(run, "attention is")
    layer, head = (int(number) for number in part[1:].split("H"))
    st.subheader(f"{text(part)} on this line")
    _verdicts(_without(run, word).query("layer == @layer and head == @head"))
    link_to("try", "Where it looks on this word, and what hangs on that")
    _circuits(run, part, layer, head)


CIRCUITS = {
    "QK": "**QK circuit**: the score a query gives a key",
    "OV": "**OV circuit**: what attending to a token adds to each logit",
}


def _circuits(run: Run, part: str, layer: int, head: int) -> None:
    """A head by its weights alone."""
    if not run.config.model.residual:
        st.caption(says("heads: no residual stream"))
        return
    with model_of(run) as model:
        assert isinstance(model, HookedTransformer)
        circuits = one_head.circuits(model, run, layer, head)
        rotary = has_rotary_positions(model)
    with st.container(horizontal=True, gap="medium"):
        for name in CIRCUITS:
            with st.container(width="content"):
                st.markdown(CIRCUITS[name])
                picture(one_head.circuit_chart(circuits, name), f"The {name} circuit of {part}.")
    reading("heads: circuits")
    if rotary:
        st.caption(says("heads: rotary"))


_without = of_model(one_head.verdicts_without)


def _verdicts(table: pd.DataFrame) -> None:
    """The verdict with the head and without it."""
    st.markdown("**The verdict without this head**")
    logits = {"as it is": table["before"].iloc[0], **table.set_index("method")["after"]}
    rows = [(z, logit, "in" if logit > 0 else "not in") for z, logit in logits.items()]
    shown = pd.DataFrame(rows, columns=["head's output (z)", "END's logit", "verdict"])
    st.dataframe(shown, hide_index=True, width="content")
