"""Model: its architecture with all shapes, one head step by step, and where the compute goes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
import torch

from analyses.charts import architecture
from analyses.lectures import costs
from analyses.lectures.worked_example import (
    Step,
    head_steps,
    layer_steps,
    step_chart,
    window_step,
    window_table,
)
from analyses.questions.parts import reach
from dashboard import controls
from dashboard.drawing import Parts, explain_errors, picture, says, tabs
from dashboard.markup import formula, text
from dashboard.selection import current_run, model_of, once
from dashboard.views.line import word_of
from dashboard.views.question import live
from models.rivals.ngram import HookedNGram
from models.runs.run import Run
from models.transformer.model import HookedTransformer


def show() -> None:
    """The page."""
    run = current_run()
    tokens: torch.Tensor | None = None
    with explain_errors():
        word = word_of(run, "steps are")
        tokens = torch.as_tensor(run.language.vocabulary.words([word]).tokens)
    if tokens is not None:
        with explain_errors():
            _drawing(run, tokens.shape[1])
    parts: Parts = {} if tokens is None else {"Step by step": partial(_steps, run, tokens)}
    parts |= {
        "Parameters by name": partial(_parameters, run),
        "Where the compute goes": partial(_costs, run),
        "How far back, and in how many dimensions": _measures,
        "Every activation by name": partial(_hooks, run),
    }
    tabs("part_of_model", parts)


def _drawing(run: Run, positions: int) -> None:
    with model_of(run) as model:
        figure = architecture.drawing(model, positions)
    config = run.config.model
    picture(figure, f"The layers of a {config.architecture}, from tokens to logits, with shapes.")


def _parameters(run: Run) -> None:
    """The learned numbers: how many, and where they lie."""
    with model_of(run) as model:
        table = architecture.parameters(model)
    counting = run.config.model.family.tabular
    total = int(table["numbers"].sum())
    st.metric("Counts in its tables" if counting else "Parameters", f"{total:,}")
    st.dataframe(table, hide_index=True)


def _hooks(run: Run) -> None:
    """The activations that have a name."""
    st.dataframe(architecture.hooks(run.config.model), hide_index=True)
    st.caption(says("model: hooks"))


def _steps(run: Run, tokens: torch.Tensor) -> None:
    config = run.config.model
    if config.family.tabular:
        _window(run, tokens)
        return
    if config.family.attends and config.family.two_sided:
        st.info("The steps of cross-attention are not drawn: choose a decoder, or an LSTM.")
        return
    layer = _choice("Layer", config.n_layers)
    if config.family.attends:
        head = _choice("Head", config.n_heads)
        with model_of(run) as model:
            assert isinstance(model, HookedTransformer)
            steps = head_steps(model, tokens, layer, head)
        whole = f"\\sum_h z^{{(h)}} W_O^{{(h)}}{' + b_O' if config.bias else ''}"
        ending = (
            f"The layer's attention adds ${whole}$ to the residual stream. The matrices are those "
            f"of one head h: head {head:d} is one of {config.n_heads:d}."
        )
    else:
        with model_of(run) as model:
            steps = layer_steps(model, tokens, layer)
        ending = "A row is a unit, a column a position of the word."
        if "kernel_size" in config.family.reads:
            reach = 1 + (layer + 1) * (config.kernel_size - 1)
            ending += (
                f" After layer {layer:d} a position has seen the last {reach:d} positions, itself"
            )
            ending += " among them."
    with st.container(horizontal=True, gap="medium"):
        for step in steps:
            _step(step)
    st.caption(ending)


def _step(step: Step) -> None:
    """One matrix under its name, over its formula."""
    with st.container(width=450):
        st.markdown(f"**{text(step.name)}**")
        picture(step_chart(step), f"{step.name}: {step.shape}")
        st.caption(f"{formula(step.formula)}  \n{text(step.shape)}")


def _choice(name: str, count: int) -> int:
    """The layer or head that the reader chooses. The key of the choice holds the count, since
    another run may have fewer."""
    options = list(range(count))
    key = f"{name.lower()}_of_{count}"
    if count > 8:
        return controls.selectbox(name, options, key=key)
    return controls.segments(name, options, key)


def _window(run: Run, tokens: torch.Tensor) -> None:
    """The window at every position, and what the tables say of it."""
    with model_of(run) as model:
        assert isinstance(model, HookedNGram)
        table = window_table(model, tokens)
    _step(window_step(table, run.language.vocabulary))
    last = table[table["position"] == table["position"].max()]
    st.markdown("**The tables at the last symbol**, from no context to the whole window")
    st.dataframe(last.drop(columns="position"), hide_index=True)


def _costs(run: Run) -> None:
    config = run.config.model
    lengths, family = costs.lengths_of(config), config.family
    if family.two_sided:
        st.info("What two sides cost is not counted here: choose a network of one side.")
    else:
        _counts(run, lengths)
    st.markdown("**What a layer of this width costs**, constant factors left out")
    st.dataframe(costs.cost_lines(config, lengths[-1]), hide_index=True)
    if not (family.tabular or family.two_sided or family.whole):
        st.markdown("**Steps of this model**, counted in the graph of its forward pass")
        st.dataframe(_steps_by_length(run), hide_index=True)
        st.caption(says("model: steps"))


def _counts(run: Run, lengths: Sequence[int]) -> None:
    """The operations of every part, and their seconds if the reader asks for them."""
    with model_of(run) as model:
        prediction = costs.predicted(model, lengths)
    timed = controls.toggle(
        "Count and measure on this machine",
        key="measure",
        help="PyTorch counts the operations; the seconds are the median of five passes of a word",
    )
    others: list[pd.DataFrame] = []
    if timed:
        bar = st.progress(0.0)
        for i, positions in enumerate(lengths):
            bar.progress(i / len(lengths), f"{positions:d} positions")
            others += _timed(run, positions)
        bar.empty()
    table = costs.cost_table(prediction, others)
    if table.empty:
        st.markdown(says("model: no products"))
    else:
        with st.container(horizontal=True, gap="medium"):
            if not prediction.empty:
                words = "Operations of every part by length."
                picture(costs.growth_chart(table, "flops"), words)
            if timed:
                picture(costs.growth_chart(table, "seconds"), "Seconds by length.")
            picture(costs.share_chart(table), "The parts' shares by length.")
        st.caption(_lesson(run))
        with st.expander("Table"):
            st.dataframe(table, hide_index=True)


_steps_by_length = once(show_spinner=False)(reach.steps_by_length)


def _measures() -> None:
    """Influence by distance and effective dimension, once the reader asks for one of them."""
    names = {"influence by distance": "reach", "effective dimension": "dimension"}
    shown = controls.segments("Measure", ["neither", *names], "measured_of_model")
    if shown in names:
        live(names[shown])


@once(show_spinner=False)
def _timed(run: Run, positions: int) -> list[pd.DataFrame]:
    """Counts and seconds of one length, once for all tabs."""
    with model_of(run) as model:
        return [costs.counted(model, positions), costs.measured(model, positions)]


def _lesson(run: Run) -> str:
    """The lesson of the charts, with the numbers of this run."""
    config = run.config.model
    if config.family.attends:
        return says("model: cost of attention", positions=2 * config.d_model)
    if config.family.recurrent:
        return says("model: cost of a recurrence")
    if config.family.whole:
        return says("model: cost of whole words")
    return says("model: cost of a convolution")
