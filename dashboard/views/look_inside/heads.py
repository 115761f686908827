"""Heads: what each is needed for, what it writes, and where it looks on a typed word."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.heads import chart, grid
from analyses.questions.parts import head as one_head
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import (
    chooses,
    explain_errors,
    judged,
    link_to,
    picture,
    reading,
    says,
    seeds_of,
)
from dashboard.markup import text
from dashboard.selection import (
    current_run,
    head_key,
    kept_or_computed,
    model_of,
    of_model,
    short_word,
)
from interp.heads.needed import NEEDED
from interp.heads.qk_and_ov import has_rotary_positions
from models.languages import Word
from models.runs.run import Run
from models.transformer.model import HookedTransformer


def show() -> None:
    """The page."""
    run = current_run()
    result = kept_or_computed(run, "heads")
    if result is not None:
        judged("heads", result)
    # This comes before the grid, because the grid frames the head that a link or a key chose.
    parts = _parts(run)
    first = parts.index(result.findings["most"]) if result is not None else 0
    part = controls.selectbox("Head", parts, first, key=head_key(run))
    if result is not None:
        _glance(run, result.table, part)
    st.header(f"{text(part)} on a word", divider="gray")
    with explain_errors():
        _one_head(run, short_word(run, "attention is"), part)
    if result is not None:
        st.header("All heads and parts", divider="gray")
        figure = chart(result)
        picture(figure, f"Accuracy lost per ablated head. {result.sentence}")
        reading("heads")
        if result.verdict.grade in ("holds", "fragile"):
            _pairs(result)
        seeds_of(run, "heads")
        downloads("heads", result, lambda: figure)


def _pairs(result: Answer) -> None:
    """The pairs that lose surely more, or less, together than the sum of both heads."""
    st.header("Pairs of heads", divider="gray")
    if not (pairs := result.findings["pairs"]):
        st.markdown("No two heads are shown to stand in for each other, or to be needed together.")
        return
    table = pd.DataFrame(pairs).rename(columns={"corrected": "p"})
    shares = dict.fromkeys(("together", "first", "second", "beyond"), "{:.1%}")
    st.dataframe(table.style.format({**shares, "p": "{:.1g}"}), hide_index=True)
    reading("heads: pairs", limit=f"{NEEDED:.0%}")


def _parts(run: Run) -> list[str]:
    model = run.config.model
    return [f"L{layer}H{head}" for layer in range(model.n_layers) for head in range(model.n_heads)]


def _glance(run: Run, table: pd.DataFrame, part: str) -> None:
    """The grid of heads, coloured by a measure; a click chooses a head."""
    kinds: dict[str, list[str]] = {}
    for measure in table[table["head"] >= 0]["measure"].unique():
        kind, _, variant = measure.partition(", ")
        kinds.setdefault(kind, []).append(variant)
    kind = controls.segments("Measure", list(kinds), "measure")
    measure = kind
    if len(kinds[kind]) > 1:
        measure += ", " + controls.segments(VARIANTS[kind], kinds[kind], f"{kind.split()[0]}_by")
    with st.container(horizontal=True, gap="medium"):
        words = f"{measure} of every head: layers down, heads across. The model is"
        figure = grid(table, measure, "trained", part)
        picture(figure, f"{words} trained.", **chooses(head_key(run), "part", f"grid_{part}"))
        picture(grid(table, measure, "untrained", part), f"{words} untrained.")
    st.caption(f"{says(f'heads: {kind}')} Click a head to look inside.")


VARIANTS = {
    "accuracy lost": "Without the head",
    "direct logit": "Words",
    "attention": "Type",
    "shared directions": "Of its",
}


def _one_head(run: Run, word: Word, part: str) -> None:
    """A head's ablation and circuits."""
    layer, head = (int(number) for number in part[1:].split("H"))
    with st.container(width=290):
        _verdicts(_without(run, word).query("layer == @layer and head == @head"))
    link_to("try", "Where it looks on this word, and what hangs on that")
    _circuits(run, part, layer, head, {"run": run.name, "head": part})


CIRCUITS = {
    "QK": "**QK circuit**: the score a query gives a key",
    "OV": "**OV circuit**: what attending to a token adds to each logit",
}


def _circuits(run: Run, part: str, layer: int, head: int, findings: Mapping[str, object]) -> None:
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
    figure = one_head.circuit_chart(circuits, "QK") | one_head.circuit_chart(circuits, "OV")
    downloads(f"circuits-{part}", Answer(circuits, "", dict(findings)), lambda: figure)


_without = of_model(one_head.verdicts_without)


def _verdicts(table: pd.DataFrame) -> None:
    """The verdict with the head and without it."""
    st.markdown("**The verdict without this head**")
    logits = {"as it is": table["before"].iloc[0], **table.set_index("method")["after"]}
    rows = [(z, logit, "in" if logit > 0 else "not in") for z, logit in logits.items()]
    st.dataframe(
        pd.DataFrame(rows, columns=["head's output (z)", "END's logit", "verdict"]),
        hide_index=True,
        column_config={"END's logit": st.column_config.NumberColumn(format="%.2f")},
    )
