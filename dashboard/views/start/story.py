"""The first page: the Dutch lines, and in four steps how a network's rule for them is found."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pandas as pd
import streamlit as st

from analyses.answers import Answer, Answers, scorecard
from analyses.questions.rule.discovery import chart
from analyses.rules.printed import printed_verdicts, summary
from dashboard import controls
from dashboard.drawing import (
    COLOURS,
    GRADES,
    explain_errors,
    judged,
    link_to,
    picture,
    says,
    training_curves,
)
from dashboard.markup import code, text
from dashboard.selection import current_run, most_telling, once, runs_folder
from models.errors import UserError, lab
from models.languages import LabelledCorpus, Word, language, printed_lines
from models.runs.folders import find_runs
from models.runs.run import Run

STEPS = ("the lines", "the network", "the automaton", "the rule")
DIEREN = "dieren"


def show() -> None:
    """The page."""
    st.markdown(says("story: opening"))
    st.header("What sets these two groups of lines apart?", divider="gray")
    st.markdown("A lecture prints these Dutch lines of animals, and does not say what the rule is.")
    step = STEPS.index(controls.segments("Show", STEPS, STEP))
    if step + 1 < len(STEPS):
        following = STEPS[step + 1]
        on = partial(st.session_state.__setitem__, STEP, following)
        st.button(text(f"Show {following}"), type="primary", on_click=on)
    with explain_errors():
        learners = _learners()
        runs = [run for run in learners if Answers.of(run, "discovery").current()]
        if runs and step:
            _told(runs[0], step)
        elif learners and not runs:
            run = learners[0]
            st.info(says("story: not asked", run=run.name, command=lab("analyse", run.path)))
        elif not learners:
            st.info(says("story: no network"))
    _lines(marked=step == len(STEPS) - 1)
    if find_runs(runs_folder()):
        with explain_errors():
            run = current_run()
            guess = run.config.language == DIEREN and step < len(STEPS) - 1
            warning = ": open it when you have guessed, it names the rule" if guess else ""
            words = f"What the lenses say of {text(run.name)}{warning}"
            with st.expander(words, expanded=step == len(STEPS) - 1):
                _card(run)


def _card(run: Run) -> None:
    """The kept answers of the chosen run, each with a sign of trust."""
    rows = scorecard(run) if run.steps() else pd.DataFrame()
    if rows.empty:
        st.info(f"Nothing yet: {code(lab('analyse', run.path))} asks it the usual questions.")
        return
    st.caption(" ".join(f"{text(grade)}: {text(meaning)}" for grade, meaning in GRADES.items()))
    for row in sorted(rows.to_dict("records"), key=lambda row: [*GRADES].index(row["grade"])):
        with st.container(border=True):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.badge(text(row["grade"]), color=COLOURS[row["grade"]], help=text(row["why"]))
                link_to(row["question"], row["question"].capitalize())
            st.markdown(text(row["finding"]))


STEP = "show"
"""The key of the chosen step."""


def _learners() -> list[Run]:
    """The runs that learned the Dutch lines, the most telling one first."""
    names, runs = [path.name for path in find_runs(runs_folder())], []
    for name in sorted(names, key=lambda name: name != most_telling(names)):
        if not name.startswith(f"{DIEREN}-"):
            continue
        with suppress(UserError):  # the page of runs tells its fault
            run = Run(runs_folder() / name)
            learnt = run.config.language == DIEREN and not isinstance(run.language, LabelledCorpus)
            if learnt and run.steps():
                runs.append(run)
    return runs


def _told(run: Run, step: int) -> None:
    """The run's kept answers at this step of the story."""
    result = Answers.of(run, "discovery").latest()
    if result is None or result.model_hash != run.model_hash():
        return
    if step == 1:
        first = min(line["step"] for line in run.metrics())
        st.markdown(says("story: the network", run=run.name, step=first))
        training_curves(run)
        st.markdown(f"**{text(_said_of_the_lines(run))}**")
    elif step == 2:
        _automaton(result)
    else:
        judged(result)
        st.markdown(says("story: the rule"))


@once(show_spinner=False)
def _said_of_the_lines(run: Run) -> str:
    verdicts = printed_verdicts(run)
    return "" if verdicts is None else summary(verdicts)


def _automaton(result: Answer) -> None:
    of = result.findings
    st.markdown(says("story: the automaton", queries=of["queries"]))
    picture(chart(result), f"The automaton. {result.sentence}")
    st.markdown(
        f"The automaton gives **{of['agreement_truth']:.1%}** of the held-out lines their right "
        "label."
    )
    if (untrained := of["untrained"]["agreement_truth"]) is not None:
        st.markdown(says("story: untrained", share=f"{untrained:.1%}"))


def _lines(marked: bool) -> None:
    """Both groups, side by side; where asked, with the words that take the rule a step further."""
    rule, weaker = language(DIEREN), language("dieren-gaps")
    for column, group in zip(st.columns(2), ("A", "B"), strict=True):
        lines = [word for name, word in printed_lines() if name == group]
        with column, st.container(key=f"group-{group}"):
            st.markdown(f"**Group {text(group)}**")
            st.markdown("\n".join(f"1. {_line(word, marked)}" for word in lines))
            if marked:
                kept = [word for word in lines if rule.contains(word)]
                st.caption(f"{len(kept):d} of {len(lines):d} lines keep the rule.")
                for word in lines:
                    if weaker.contains(word) and word not in kept:
                        st.caption(says("story: two rules", line=" ".join(word)))


def _line(word: Word, marked: bool) -> str:
    """A line; where asked, with the words marked that move the rule's automaton."""
    after = [language(DIEREN).state(word[:end]) for end in range(len(word) + 1)]
    shown = []
    for symbol, old, new in zip(word, after, after[1:], strict=False):
        seen = text(symbol) if new["valid"] else f"~~{text(symbol)}~~"
        moved = marked and old["state"] != new["state"]
        shown.append(f":orange-background[**{seen}**]" if moved else text(symbol))
    return " ".join(shown)
