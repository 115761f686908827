"""Over time: when each hidden variable becomes readable, and what a checkpoint looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.accuracy import MEASURES
from analyses.charts.marks import curve
from analyses.charts.theme import colours, figures
from analyses.options.inside import Probing
from analyses.options.training import Emergence
from analyses.questions.inside.probe import PROJECTIONS, projection_chart, read_by
from analyses.questions.training.emergence import chart
from dashboard import controls
from dashboard.drawing import picture, reading, says
from dashboard.selection import current_run, once
from dashboard.views import question
from models.runs.run import Run


def show() -> None:
    """The page."""
    question.show("emergence", _answered)


def _answered(result: Answer) -> None:
    """The scores along the training, and one checkpoint."""
    run = current_run()
    picture(chart(result), f"Scores along the training. {result.sentence}")
    reading("emergence")
    st.header("One checkpoint", divider="gray")
    steps = sorted(result.table["step"].unique().tolist())
    step = controls.select_slider("Step", steps, steps[-1], key=f"step_of_{run.name}")
    probes = result.table[result.table["kind"] == "probe"]
    names = list(dict.fromkeys(probes["target"]))
    left, right = st.columns(2)
    main = next((n for n in names if n in result.findings["main"].split()), names[0])
    key = f"followed_of_{run.language.name}"
    target = controls.selectbox("Variable", names, names.index(main), key=key, at=left)
    sites, key = list(dict.fromkeys(probes["site"])), f"followed_in_{controls.first_run()}"
    site = controls.selectbox("Site", sites, len(sites) - 1, key=key, at=right)
    left, right = st.columns([3, 2])
    with left:
        rows = _read(run, int(step), result.arguments, target, site)
        how = next(iter(PROJECTIONS))
        figure = projection_chart(rows, how, str(target))
        picture(figure, f"Activations at {site} at step {step}, coloured by {target}.")
    with right:
        words = f"Share of words right by their length at step {step}."
        picture(_by_length(result.table, int(step)), words)
    of = probes[(probes["step"] == step) & (probes["target"] == target) & (probes["site"] == site)]
    if len(of):
        st.caption(
            says(
                "emergence: one checkpoint",
                site=site,
                step=step,
                target=target,
                metric=of["metric"].iloc[0],
                value=f"{of['value'].iloc[0]:.3f}",
            )
        )


def _by_length(table: pd.DataFrame, step: int) -> alt.LayerChart:
    """The share of words that the model gets right at a step, by their length."""
    rows = table[(table["step"] == step) & table["kind"].isin(MEASURES)]
    return curve(
        rows.assign(length=rows["length"].astype(int)),
        alt.X("length:Q", title="word length (symbols)"),
        alt.Y("value:Q", title="share right").scale(domain=[0, 1]),
        ["length", "kind", *figures("value")],
        colours("kind", MEASURES),
        ends=None,
        size=16,
    ).properties(width=280, height=280)


@once(show_spinner="Computing ...")
def _read(
    run: Run, step: int, arguments: Mapping[str, Any], target: str, site: str
) -> pd.DataFrame:
    options = Emergence(**arguments)
    return read_by(run, run.model(step), Probing(options.words, seed=options.seed), target, site)
