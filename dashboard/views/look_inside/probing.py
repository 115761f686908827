"""Probing: which hidden variable can be read where, and what one probe says of each position."""

from __future__ import annotations

import pandas as pd
import streamlit as st

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
from dashboard.drawing import chooses, explain_errors, picture, reading
from dashboard.markup import text
from dashboard.selection import current_run, model_of
from dashboard.views import question
from models.runs.run import Run

VIEWS: dict[str, str] = {method: f"{method} probe" for method in METHODS}
VIEWS |= {"longer": "linear, longer words", "online code": "online code"}


def show() -> None:
    """The page."""
    question.show("probing", _answered)


def _answered(result: Answer) -> None:
    """The variable and the site that the reader chooses, and the best sites of all variables."""
    run = current_run()
    target, site = _overview(run, result)
    st.header(f"{text(target)} at {text(site)}", divider="gray")
    with explain_errors():
        _one_probe(run, result, target, site)
    st.header("Best site per variable, beside its controls", divider="gray")
    numbers = _best_sites(result)
    st.dataframe(
        numbers.style.format(dict.fromkeys(numbers.columns[3:], "{:.3f}"), na_rep="-"),
        hide_index=True,
    )
    reading("probing")


def _overview(run: Run, result: Answer) -> tuple[str, str]:
    """Draws the heatmap of a variable; returns the variable and the site that the reader chose."""
    table, best = result.table, result.findings["best"]
    names = list(dict.fromkeys(table["target"]))
    left, right = st.columns([1, 2])
    main = names.index(result.findings["main"])
    key = f"target_of_{run.language.name}"
    target = controls.selectbox("Variable", names, main, key=key, at=left)
    views = [name for name in VIEWS if name == "longer" or name in set(table["probe"])]
    view = controls.segments("Probe", views, "probe", format_func=VIEWS.__getitem__, at=right)
    method, split = ("linear", "longer") if view == "longer" else (view, "words")
    shown = table[(table["probe"] == method) & (table["split"] == split)]
    if target not in set(shown["target"]):
        why = "has a single value in the words that fit this probe"
        if target in NUISANCE:
            why = "says nothing about the state of the language"
        st.info(f"{text(target)} {why}: the linear probe of all words is shown.")
        method, split = "linear", "words"
    sites = list(dict.fromkeys(table.loc[table["model"] == "trained", "site"]))
    place = f"site_of_{controls.first_run()}_{target}"
    first = sites.index(best[target]["site"]) if target in best else len(sites) - 1
    # This comes before the heatmap, which frames the site that a link or a key chose.
    site = controls.selectbox("Site", sites, first, key=place)
    clicked = f"probed_{run.name}_{target}_{method}_{split}_{site}"
    figure = heatmap(table, method, split, target, site)
    words = f"Probe scores of {target} by site. {result.sentence}"
    picture(figure, words, **chooses(place, "site", clicked))
    reading("probing: overview")
    return target, site


def _one_probe(run: Run, result: Answer, target: str, site: str) -> None:
    """The linear probe's reading beside the truth, its errors by length, and the activations."""
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


def _best_sites(result: Answer) -> pd.DataFrame:
    """One row per variable: the trained model's best site, and its controls."""
    best = result.findings["best"]
    rows = headline(result).pivot(index="variable", columns="of", values="value")
    rows = rows[list(dict.fromkeys(headline(result)["of"]))].loc[list(best)]
    rows.insert(0, "site", [entry["site"] for entry in best.values()])
    rows.insert(1, "metric", [entry["metric"] for entry in best.values()])
    return rows.reset_index()
