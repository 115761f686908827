"""Dictionaries: what sparse dictionaries find of what is known, and what clamping a latent does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st
import torch
from altair.typing import ChartType

from analyses.answer_files import Kept
from analyses.answers import Answer, Answers, answer, arguments_of
from analyses.claims import told as said
from analyses.options.inside import Dictionary
from analyses.questions.inside.dictionaries.shown import by_fact, latents_chart, with_parts
from analyses.questions.inside.dictionary import chart, claims, panels
from analyses.words import sample_window
from dashboard import controls
from dashboard.background import offer
from dashboard.drawing import Parts, explain_errors, picture, reading, says
from dashboard.markup import text
from dashboard.selection import chosen, current_run, model_of, once
from dashboard.views.question import related, told
from interp.model import SITES, activations, sites_of
from models.plants.plans import plan_of
from models.runs.run import Run

NAME = "dictionary"
SIZES = (1, 2, 4)
"""Latents for each dimension of the site, of a dictionary that can be asked for."""
ACTIVE = (1, 2, 4, 8)
EVERY = "every fact"
PARTS = {
    "off": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1),
    "up": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1),
    "on": st.column_config.NumberColumn(format="percent"),
    "F1": st.column_config.NumberColumn(format="%.2f"),
}


def show() -> None:
    """The page."""
    run = current_run()
    answers = Answers.of(run, NAME)
    entries = answers.current()
    query, size = _chosen(run, entries)
    width = query.width[0]
    fitting = [entry for entry in entries if _fits(entry, query, size)]
    if not fitting:
        _offered(run, query, size)
        related("probing", run)
        return
    result = chosen(answers, fitting)
    if result is None:  # another tab renewed it just now
        st.rerun()
    rows = result.table[result.table["width"] == width]
    made = claims(replace(result, table=rows))
    result = replace(result, claims=made, sentence=said(made, result.knowledge))
    more: Parts = {
        "Latents": partial(_latents, run, result, width),
    }
    told(NAME, result, partial(_scores, result, rows), more)


# -- which dictionaries ---------------------------------------------------------------------------


def _chosen(run: Run, entries: Sequence[Kept]) -> tuple[Dictionary, int]:
    """The dictionaries that the reader chose, and the dimensions of their site. At first they are
    those that were asked for last."""
    with model_of(run) as model:
        labels = {hook: label for label, hook in sites_of(model, SITES).items()}
    kept = [entry.record.arguments for entry in entries]
    default = arguments_of(Dictionary())
    last = kept[0] if kept else default
    sites = list(dict.fromkeys([*labels, *(options["site"] for options in kept)]))
    first = sites.index(last["site"]) if last["site"] in sites else len(sites) - 1
    columns = st.columns(3)
    site = controls.selectbox(
        "Site",
        sites,
        first,
        key=f"dictionary_site_{controls.first_run()}",
        format_func=lambda hook: labels.get(hook, hook),
        at=columns[0],
    )
    size, at_site = _size(run, site), [options for options in kept if options["site"] == site]
    widths = {times * size for times in SIZES}
    widths |= {width for options in at_site for width in options["width"]}
    usual = (at_site[0]["width"] if at_site else ()) or (2 * size,)
    width = controls.selectbox(
        "Latents",
        sorted(widths),
        sorted(widths).index(usual[0]),
        key=f"dictionary_width_{controls.first_run()}",
        format_func=lambda width: f"{width} ({width / size:.3g}x)",
        help="Directions of a dictionary; in brackets, how many for each dimension of the site",
        at=columns[1],
    )
    actives = sorted({*ACTIVE, *(options["active"] for options in at_site)})
    active = controls.selectbox(
        "On at a position",
        actives,
        actives.index(at_site[0]["active"] if at_site else default["active"]),
        key=f"dictionary_active_{controls.first_run()}",
        at=columns[2],
    )
    return Dictionary(site=site, width=(width,), active=active), size


@once(show_spinner=False)
def _size(run: Run, site: str) -> int:
    """The dimensions of a site."""
    with model_of(run) as model:
        tokens = sample_window(run, 1, 0).words.tokens
        return activations(model, torch.as_tensor(tokens), [site])[site].shape[-1]


def _fits(kept: Kept, query: Dictionary, size: int) -> bool:
    """Has a kept answer the chosen dictionaries?"""
    options = kept.record.arguments
    widths = options["width"] or [2 * size]
    there = options["site"], options["active"]
    return there == (query.site, query.active) and query.width[0] in widths


def _offered(run: Run, query: Dictionary, size: int) -> None:
    """A button that trains the chosen dictionaries. It asks for the default ones as the command
    does: the page finds the answer of the command, and the command the page's."""
    width = () if query.width == (2 * size,) else query.width
    query = Dictionary(site=query.site, width=width, active=query.active)
    st.info(says("dictionaries: not trained", run=run.name, seeds=query.seeds))
    with explain_errors():
        key = (
            f"{NAME} of {run.path}, {run.model_hash()}: {query.site}, {query.width}, {query.active}"
        )
        offer(key, "Train them", lambda done: answer(run, NAME, query, done), type="primary")


# -- what they are --------------------------------------------------------------------------------


def _scores(result: Answer, rows: pd.DataFrame) -> ChartType:
    """All measures by kind, with the controls."""
    st.caption("Blue: this network. Pale: the same dictionaries of its untrained control.")
    with st.container(horizontal=True, gap="medium"):
        for measure, panel in panels(rows).items():
            picture(panel, f"{measure} of the dictionaries by kind. {result.verdict.short}")
    return chart(rows)


def _latents(run: Run, result: Answer, width: int) -> None:
    """The latents of one kind, and which of them tell what is known."""
    latents = pd.DataFrame(result.findings["features"])
    if not (latents["width"] == width).any():
        st.info(f"Latents are kept of the first width alone, {latents['width'].iloc[0]:d}.")
        return
    left, right = st.columns(2)
    kinds = latents["kind"].unique().tolist()
    kind = controls.segments("Kind", kinds, "dictionary_kind", at=left)
    rows = latents[latents["kind"] == kind].drop(columns=["kind", "width"])
    facts = result.findings["facts"]
    key = f"dictionary_fact_{run.language.name}"
    fact = controls.selectbox("Fact", [EVERY, *facts], key=key, at=right)
    shown = rows if fact == EVERY else rows[rows["fact"] == fact]
    if shown.empty:
        st.info(f"No latent tells {text(fact)} better than other facts.")
    else:
        says = f"Latents of {kind}: their F1, and what clamping them does."
        picture(latents_chart(shown), says, fills=True)
        st.dataframe(shown.round(2), hide_index=True, column_config=PARTS)
    reading("dictionary: latents")
    plan = plan_of(run)
    best = pd.DataFrame(result.findings["told"])
    table = by_fact(best[best["kind"] == kind], rows)
    if plan is None:
        st.header("What tells each fact", divider="gray")
    else:
        st.header("Beside the plan's variables", divider="gray")
        table = with_parts(table, plan, result.arguments["site"])
    st.dataframe(table.round(2), hide_index=True, height="content", column_config=PARTS)
    reading("dictionary: facts")
