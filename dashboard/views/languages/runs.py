"""All runs; and the chosen run's language, training curve and accuracy by length."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from analyses.charts.accuracy import chart
from analyses.questions.behaviour.accuracy import every_word, leaning
from analyses.rules.printed import printed_verdicts, summary
from dashboard import controls, processes
from dashboard.downloads import report_button
from dashboard.drawing import (
    Parts,
    explain_errors,
    link_to,
    picture,
    reading,
    says,
    share,
    tabs,
    training_curves,
)
from dashboard.listing import listed
from dashboard.markup import text
from dashboard.selection import current_run, kept_or_computed, runs_folder
from dashboard.views.languages.removed import put_aside, remove
from dashboard.views.question import told
from interp.explanations.reliance import LEANS
from models.languages import FormalLanguage
from models.runs.run import Run


def show() -> None:
    """The page. A damaged run leaves the list of all runs."""
    others: Parts = {} if controls.is_second() else {"All runs": _all_runs}
    with explain_errors():
        run = current_run()
        _one_run(run, others | {"Report and removal": partial(_file, run)})
        others = {}  # they are drawn
    if others:
        tabs("part_of_accuracy", others)


def _one_run(run: Run, others: Parts) -> None:
    """What a run is and how well it does.

    Args:
        others: further parts of the page.
    """
    st.title(text(run.name))
    _language_card(run)
    if run.record["status"] != "finished":
        with explain_errors():
            _training(run)
        tabs("part_of_accuracy", others)
        return
    parts: Parts = {"Training": partial(_training, run)}
    if run.language.name == "dieren" and isinstance(run.language, FormalLanguage):
        parts["The 26 printed lines"] = partial(_printed_lines, run)
    result = kept_or_computed(run, "accuracy")
    if result is None:
        tabs("part_of_accuracy", {**parts, **others})
        return
    if (every := every_word(result)) is not None:
        parts["Every word"] = partial(_every_word, every)
    if (leans := leaning(result)) is not None:
        parts["Symbols that decide nothing"] = partial(_leans, leans)
    words = f"Accuracy by word length. {result.sentence}"
    drawn = partial(picture, chart(result), words, fills=True)
    told("accuracy", result, drawn, {**parts, **others})


def _every_word(every: pd.DataFrame) -> None:
    """The verdicts on all words up to a length."""
    st.markdown(f"Every word of 1 to {len(every)} symbols was judged:")
    st.dataframe(every, hide_index=True)
    st.caption(says("runs: every word"))


def _leans(leans: pd.DataFrame) -> None:
    """The part of the verdict that hangs on symbols that decide nothing."""
    st.markdown("What each symbol that decides nothing changes of the verdict:")
    st.dataframe(leans, hide_index=True)
    reading("accuracy: symbols that decide nothing", limit=LEANS)


def _printed_lines(run: Run) -> None:
    """The verdicts on the printed lines."""
    verdicts = printed_verdicts(run)
    assert verdicts is not None, "the part is shown for runs that can read the lines"
    st.markdown(text(summary(verdicts)))
    st.dataframe(verdicts, hide_index=True, height=300)


def _file(run: Run) -> None:
    """The report of the run, and a button that puts it aside."""
    if run.steps():
        report_button(run)
    if controls.button("Remove this run"):
        remove(run.name)
        del st.session_state["run"]
        st.rerun()


def _all_runs() -> None:
    """All runs, and what a run is."""
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
    """The trained language and what was taught, in four facts."""
    example = " ".join(run.language.example())
    facts = (run.language.chomsky, example, run.window, run.objective.taught)
    st.markdown(" · ".join(f"**{text(fact)}**" for fact in facts))


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
