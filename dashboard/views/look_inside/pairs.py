"""Pairs: where does each symbol of a target come from, and how right are whole targets?"""

from __future__ import annotations

import streamlit as st

from analyses.answers import Answer
from analyses.needs import lack
from analyses.questions.behaviour import in_context
from analyses.questions.parts import one_pair
from analyses.questions.parts.alignment import pairs_of
from dashboard import controls
from dashboard.drawing import picture
from dashboard.markup import code
from dashboard.selection import current_run, once
from dashboard.views import question
from dashboard.views.question import View, below, live, one_of
from models.languages import Transduction
from models.runs.run import Run

BY = {"length of the source": "length", "place in the target": "place"}


def show() -> None:
    """The page."""
    run = current_run()
    if not lack(run, ["prompts"]):
        views: dict[str, View] = {
            "by number of examples": "in-context",
            "without each head": "induction",
            "one prompt": _prompt,
        }
        one_of(views, "prompts_of")
    else:
        views = {
            "one pair": _pair,
            "over many pairs": lambda _: question.show("alignment"),
            "how right": _targets,
        }
        views |= {} if lack(run, ["steps"]) else {"an edited step": "steps"}
        one_of(views, "pairs_of")


def _targets(run: Run) -> None:
    """The right targets by length or by place."""
    live("targets", by=BY[controls.segments("By", list(BY), "targets_by")])


def _pair(run: Run) -> None:
    """Truth, attention and effects side by side."""
    assert isinstance(run.language, Transduction)
    usual = " ".join(run.language.split(pairs_of(run, 12, 0)[-1].word)[0])
    typed = controls.text_input("Source", usual, key=f"source_of_{run.path}")
    word = one_pair.pair_of(run, typed)
    st.markdown(f"The right pair is {code(' '.join(word))}.")
    table = _looked_at(run, word)
    parts = list(dict.fromkeys(table["part"]))
    best = table[table["of"] == "attention"].groupby("part")["auroc"].first()
    first = [best.idxmax()] if len(best) else []
    effects = [part for part in parts if (table[table["part"] == part]["of"] == "effect").any()]
    chosen = controls.several(
        "Lenses", parts[1:], [*first, *effects], key=f"lenses_{run.path}_{len(parts)}"
    )
    figure = one_pair.chart(table, [parts[0], *chosen])
    picture(
        figure, f"Where each symbol of the target of {' '.join(word)} comes from, by each lens."
    )
    answer = Answer(table, f"One pair of {run.name}: {' '.join(word)}.", {"run": run.name})
    below("one-pair", answer, figure)


_looked_at = once(show_spinner="Exchanging symbols ...")(one_pair.one_pair)


def _prompt(run: Run) -> None:
    """A prompt of one's own: the network's answer beside the posterior."""
    usual = " ".join(run.language.example()).partition(" >")[0]
    typed = controls.text_input("Prompt", usual, key=f"prompt_of_{run.path}")
    word = in_context.prompt_of(run, typed)
    table = _answered(run, word)
    figure = in_context.chart_of_one(table)
    picture(figure, f"What is answered to {' '.join(word)}, and how likely.", fills=True)
    if table["probability"].isna().any():
        st.info("No trained rule fits these examples: who knows those by heart has no answer.")


_answered = once(show_spinner="Counting rules ...")(in_context.one_prompt)
