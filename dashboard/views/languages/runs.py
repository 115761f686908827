"""All runs; and the chosen run's language, training curve and accuracy by length."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.accuracy import chart
from analyses.questions.behaviour.accuracy import every_word, leaning
from analyses.rules.printed import printed_verdicts, summary
from dashboard import controls, processes
from dashboard.downloads import report_button
from dashboard.drawing import (
    explain_errors,
    link_to,
    picture,
    reading,
    says,
    share,
    training_curves,
)
from dashboard.listing import listed
from dashboard.markup import text
from dashboard.selection import current_run, runs_folder
from dashboard.views import question
from dashboard.views.languages.removed import put_aside, remove
from interp.explanations.reliance import LEANS
from models.runs.run import Run


def show() -> None:
    """The page."""
    if not controls.is_second():
        _all_runs()
    run = current_run()
    st.header(text(run.name))
    _language_card(run)
    if run.steps():
        report_button(run)
    if controls.button("Remove this run"):
        remove(run.name)
        del st.session_state["run"]
        st.rerun()
    st.subheader("Training")
    with explain_errors():
        _training(run)
    if run.record["status"] != "finished":
        return
    st.subheader("Accuracy by length")
    question.show("accuracy", _accuracy)
    verdicts = printed_verdicts(run)
    if verdicts is not None:
        st.subheader("The 26 printed lines")
        st.markdown(text(summary(verdicts)))
        st.dataframe(verdicts, hide_index=True, height=300)


def _accuracy(result: Answer) -> None:
    """The accuracy by length, in every word, and beside symbols that decide nothing."""
    picture(chart(result), f"Accuracy by word length. {result.sentence}", fills=True)
    reading("runs")
    if (every := every_word(result)) is not None:
        st.markdown(f"Every word of 1 to {len(every)} symbols was judged:")
        st.dataframe(every, hide_index=True)
        st.caption(says("runs: every word"))
    if (leans := leaning(result)) is not None:
        st.markdown("What each symbol that decides nothing changes of the verdict:")
        st.dataframe(leans, hide_index=True)
        reading("runs: symbols that decide nothing", limit=LEANS)


def _all_runs() -> None:
    """All runs, and what a run is."""
    st.title("Runs")
    st.markdown(says("runs: what they are"))
    # Of a damaged run the status says what is wrong, in a line that would push all else aside.
    narrow = {"status": st.column_config.Column(width="small")}
    st.dataframe(_overview(), hide_index=True, column_config=narrow)
    put_aside()


def _overview() -> pd.DataFrame:
    """One row per run."""
    table = listed(runs_folder())
    recognition = table.pop("recognition").map(share)
    exact = table.pop("exact_to").astype(object).where(lambda size: size.notna(), "-").astype(str)
    return table.assign(**{"recognition in the window": recognition, "exact to n": exact})


def _language_card(run: Run) -> None:
    """The trained language and model, in four facts."""
    language = run.language
    for column, (label, value) in zip(
        st.columns(4),
        {
            "Chomsky type": language.chomsky,
            "Example": " ".join(language.example()),
            "Training window": run.window,
            "Taught": run.objective.taught,
        }.items(),
        strict=True,
    ):
        column.caption(text(label))
        column.markdown(f"**{text(value)}**")


def _training(run: Run) -> None:
    """The training curve. As long as a process trains the run, it is drawn anew all the time."""
    follow = _is_training(run)
    if not follow and run.record["status"] != "finished":
        st.warning("The training was interrupted. The page Train goes on with it.")
        link_to("train", "Train")

    @st.fragment(run_every=2 if follow else None)
    def curve() -> None:
        if follow and not _is_training(run):
            st.rerun()
        with explain_errors():
            metrics = run.metrics()
            if not metrics:
                st.info("There is no evaluation yet.")
                return
            if follow:
                step = metrics[-1]["step"]
                st.progress(min(step / run.config.steps, 1.0), f"step {step:d}")
            training_curves(run)

    curve()


def _is_training(run: Run) -> bool:
    """Does a process train the run now?"""
    return run.record["status"] != "finished" and processes.is_working(run.path)
