"""Probing: which hidden variable can be read where, and what one probe says of each position."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.options.inside import Probing
from analyses.questions.inside.probe import (
    PROJECTIONS,
    errors_chart,
    projection_chart,
    read_by,
    truth_chart,
)
from analyses.questions.inside.probing import METHODS, NUISANCE, headline, heatmap
from dashboard import controls
from dashboard.drawing import Parts, chooses, picture, reading
from dashboard.markup import text
from dashboard.selection import current_run, kept_or_computed, model_of
from dashboard.views import question
from models.runs.run import Run

VIEWS: dict[str, str] = {method: f"{method} probe" for method in METHODS}
VIEWS |= {"longer": "linear, longer words", "online code": "online code"}


def show() -> None:
    """The page."""
    result = kept_or_computed(current_run(), "probing")
    if result is None:
        return
    chosen: dict[str, str] = {}
    more: Parts = {
        "One probe": lambda: _one_probe(current_run(), result, **chosen),
        "Best sites": partial(_best_sites, result),
    }
    question.told("probing", result, partial(_overview, result, chosen), more)


def _overview(result: Answer, chosen: dict[str, str]) -> ChartType:
    """Draws the heatmap of a variable.

    Args:
        chosen: takes up the variable and the site that the reader chose.
    """
    run, table, best = current_run(), result.table, result.findings["best"]
    names = list(dict.fromkeys(table["target"]))
    place = st.container()
    left, middle, right = st.columns([1, 2, 1])
    main = names.index(result.findings["main"])
    key = f"target_of_{run.language.name}"
    target = controls.selectbox("Variable", names, main, key=key, at=left)
    views = [name for name in VIEWS if name == "longer" or name in set(table["probe"])]
    view = controls.segments("Probe", views, "probe", format_func=VIEWS.__getitem__, at=middle)
    method, split = ("linear", "longer") if view == "longer" else (view, "words")
    shown = table[(table["probe"] == method) & (table["split"] == split)]
    if target not in set(shown["target"]):
        why = "has a single value in the words that fit this probe"
        if target in NUISANCE:
            why = "says nothing about the state of the language"
        st.info(f"{text(target)} {why}: the linear probe of all words is shown.")
        method, split = "linear", "words"
    sites = list(dict.fromkeys(table.loc[table["model"] == "trained", "site"]))
    key = f"site_of_{controls.first_run()}_{target}"
    first = sites.index(best[target]["site"]) if target in best else len(sites) - 1
    site = controls.selectbox("Site", sites, first, key=key, at=right)
    clicked = f"probed_{run.name}_{target}_{method}_{split}_{site}"
    figure = heatmap(table, method, split, target, site)
    words = f"Probe scores of {target} by site. {result.sentence}"
    chosen |= {"target": target, "site": site}
    with place:
        return picture(figure, words, **chooses(key, "site", clicked))


def _one_probe(run: Run, result: Answer, target: str, site: str) -> None:
    """The linear probe's reading beside the truth, its errors by length, and the activations."""
    st.subheader(f"{text(target)} at {text(site)}")
    options = Probing(**result.arguments)
    with st.spinner("Computing ..."):
        rows = _read(run, options, target, site)
    left, right = st.columns(2)
    with left:
        picture(truth_chart(rows), f"What the probe reads of {target} at {site}, by its value.")
        st.caption("On held-out words: what the linear probe reads, by the true value.")
    with right:
        picture(errors_chart(rows), "The probe's errors by the length of the word.")
        st.caption("The probe's errors by word length, with 95% intervals over positions.")
    how = controls.segments("The activations in two dimensions", list(PROJECTIONS), "projection")
    figure = projection_chart(rows, how, target)
    picture(figure, f"Activations at {site} in two dimensions, coloured by {target}.")
    st.caption(PROJECTIONS[how])


def _read(run: Run, options: Probing, target: str, site: str) -> pd.DataFrame:
    with model_of(run) as model:
        return read_by(run, model, options, target, site)


def _best_sites(result: Answer) -> None:
    """One row per variable: the trained model's best site, and its controls."""
    best = result.findings["best"]
    rows = headline(result).pivot(index="variable", columns="of", values="value")
    rows = rows[list(dict.fromkeys(headline(result)["of"]))].loc[list(best)]
    rows.insert(0, "site", [entry["site"] for entry in best.values()])
    rows.insert(1, "metric", [entry["metric"] for entry in best.values()])
    numbers = rows.reset_index()
    st.dataframe(
        numbers.style.format(dict.fromkeys(numbers.columns[3:], "{:.3f}"), na_rep="-"),
        hide_index=True,
    )
    reading("probing: best sites")
