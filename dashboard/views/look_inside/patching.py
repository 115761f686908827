"""Patching: which activations carry the difference between a typed word and its counterfactuals."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pandas as pd
import streamlit as st
import torch
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.options.parts import Patching
from analyses.questions.parts.patching import (
    METRICS,
    chart,
    charts,
    next_tokens,
    said_chart,
    site_name,
)
from dashboard import controls
from dashboard.drawing import Parts, chips, chooses, explain_errors, picture, says
from dashboard.glossary import meaning
from dashboard.markup import text
from dashboard.selection import WIDTH, asked, current_run, model_of, suggested
from dashboard.views.line import line_key, line_of
from dashboard.views.question import told
from interp.causal.patching import patched_logits
from interp.causal.sites import PLACE, Site
from models.languages import END_ID, Word
from models.runs.run import Run

DIRECTIONS = {"restore": "clean into corrupted (restore)", "break": "corrupted into clean (break)"}


def show() -> None:
    """The page."""
    run = current_run()
    with st.container(horizontal=True, gap="medium"):
        direction = controls.segments(
            "Direction",
            list(DIRECTIONS),
            "direction",
            format_func=DIRECTIONS.__getitem__,
            help=meaning("denoising"),
        )
        metric = controls.selectbox("Effect on", [*METRICS], key="metric", format_func=METRICS.get)
    usual = " ".join(suggested(run, Patching().n))
    options = {} if line_of(run) == usual else {"word": line_of(run)}
    with explain_errors():
        result = asked(run, "patching", direction=direction, metric=metric, **options)
        if result is not None:
            _answered(run, result, direction)


def _answered(run: Run, result: Answer, direction: str) -> None:
    """The effect of patching in the word, and one site of the reader's choice."""
    facts, chosen = result.findings, dict[str, str]()
    chips(tuple(facts["word"]), tuple(p - 1 for p in facts["changed_positions"]))
    more: Parts = {}
    if "top_site" in facts:
        more["One site"] = lambda: _one_site(run, result, chosen["site"], direction)
    told("patching", result, partial(_heatmaps, run, result, chosen), more)


def _heatmaps(run: Run, result: Answer, taken: dict[str, str]) -> ChartType:
    """Draws the heatmaps.

    Args:
        taken: takes up the site that the reader chose by click, link or keyboard.
    """
    table = result.table[result.table["model"] == "trained"]
    sites = [site_name(row) for row in table[PLACE].to_dict("records")]
    top, words = result.findings.get("top_site"), "Patching effects by site and position."
    words += f" {result.sentence}"
    key, chosen, place = f"site_of_{line_key(run)}", None, st.container()
    if top is not None:
        first = sites.index(top)
        chosen = taken["site"] = controls.selectbox("Site", sites, first, key=key, width=WIDTH)
    with place, st.container(horizontal=True, gap="medium"):
        for kind, figure in charts(result, chosen).items():
            events = chooses(key, "site", f"{kind}_{chosen}") if chosen else {}
            with st.container(width="content"):
                picture(figure, f"{words} Shown: {kind}.", **events)
    others = result.findings["counterfactuals"]
    st.caption(says("patching: word", count=len(others), example=" ".join(others[0])))
    return chart(result)


def _one_site(run: Run, result: Answer, chosen: str, direction: str) -> None:
    """The model's answers in the two runs, and in the one that is patched at a single site."""
    word: Word = tuple(result.findings["word"])
    others = [tuple(symbols) for symbols in result.findings["counterfactuals"]]
    other = controls.selectbox(
        "Counterfactual", others, format_func=" ".join, key=f"other_of_{'-'.join(word)}"
    )
    table = result.table[result.table["model"] == "trained"]
    row = next(r for r in table[PLACE].to_dict("records") if site_name(r) == chosen)
    place = {name: None if value == -1 else value for name, value in row.items()}
    site = Site(**cast(dict[str, Any], place))
    given, into = (word, other) if direction == "restore" else (other, word)
    answers, logits = _three_runs(run, given, into, site)
    before, patched, after = logits
    st.markdown(
        f"Of this counterfactual, one of {len(others):d} whose mean the finding tells: "
        f"**{text(chosen)}**: END's logit (above 0 the word may end) is {before:.2f} before "
        f"patching, **{patched:.2f}** with this activation put in, and {after:.2f} in the run that "
        "it was taken from."
    )
    picture(said_chart(answers), f"What three runs say of the next token: {chosen} patched.")


@torch.no_grad()
def _three_runs(run: Run, given: Word, into: Word, site: Site) -> tuple[pd.DataFrame, list[float]]:
    """The answers of each run at each place; and END's logit in each where the verdict is read."""
    vocabulary = run.language.vocabulary
    source, target = (torch.as_tensor(vocabulary.words([w]).tokens) for w in (given, into))
    with model_of(run) as model:
        logits = {
            "patched into": model(target)[0],
            "patched": patched_logits(model, source, target, site)[0],
            "patched from": model(source)[0],
        }
        at = int(model.verdict_positions(torch.tensor([len(into)])))
    prefixes = [at] if run.config.model.sees_ahead else list(range(len(into) + 1))
    read = {name: values[prefixes] for name, values in logits.items()}
    table = next_tokens(run, into, read, prefixes)
    return table, [float(values[at, END_ID]) for values in logits.values()]
