"""The list of all pages by address. A question without a page of its own gets the common page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from analyses.registry import registered
from dashboard.shared import (
    SEEN_AT,
    choose_run,
    choose_step,
    current_run,
    explain_errors,
    has_model,
    runs_folder,
)
from dashboard.views import question
from dashboard.views.discover import from_lines, rule_of_run
from dashboard.views.explain import explanations, leaderboard
from dashboard.views.look_inside import (
    circuits,
    emergence,
    heads,
    interventions,
    model,
    patching,
    probing,
)
from dashboard.views.many_runs import sweeps
from dashboard.views.start import runs, story, try_it
from models.runs.run import find_runs


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        group: its heading in the sidebar.
        title: its name there.
        icon: the name of one of Material's icons.
        show: draws what is its own.
        needs: without which the page cannot be shown.
        one_step: looks at a single checkpoint, which the reader may choose.
    """

    group: str
    title: str
    icon: str
    show: Callable[[], None]
    needs: Literal["model", "run", "nothing"] = "model"
    one_step: bool = True

    def draw(self) -> None:
        """Draws the page beside the choice of the run. What is missing or fails is one line."""
        with explain_errors():
            # A folder without runs may still hold sweeps or a leaderboard, and users bring lines.
            if self.needs != "nothing" or find_runs(runs_folder()):
                choose_run()
            st.session_state.pop(SEEN_AT, None)
            if self.needs == "model" and self.one_step:
                choose_step()
            if self.needs != "model" or has_model(current_run()):
                self.show()


START, INSIDE, EXPLAIN = "Start", "Look inside", "Explain"
DISCOVER, MANY, MORE = "Discover", "Many runs", "More questions"

OWN = {
    "story": Page(START, "Start", "home", story.show, needs="nothing"),
    "runs": Page(START, "Runs", "list", runs.show, needs="run"),
    "try": Page(START, "Try it", "edit", try_it.show),
    "model": Page(INSIDE, "Model", "account_tree", model.show),
    "probing": Page(INSIDE, "Probing", "sensors", probing.show),
    "emergence": Page(INSIDE, "Over time", "timeline", emergence.show, one_step=False),
    "interventions": Page(INSIDE, "Erase and steer", "tune", interventions.show),
    "heads": Page(INSIDE, "Heads", "hub", heads.show),
    "patching": Page(INSIDE, "Patching", "healing", patching.show),
    "circuits": Page(INSIDE, "Circuits", "schema", circuits.show),
    "explanations": Page(EXPLAIN, "Explanations", "balance", explanations.show),
    "leaderboard": Page(EXPLAIN, "Leaderboard", "trophy", leaderboard.show, needs="nothing"),
    "discovery": Page(DISCOVER, "Discovery", "explore", rule_of_run.show),
    "discover": Page(
        DISCOVER, "From lines to a rule", "lightbulb", from_lines.show, needs="nothing"
    ),
    "sweeps": Page(MANY, "Sweeps", "grid_view", sweeps.show, needs="nothing"),
}
"""The pages of this package by address. The dashboard opens with the first."""

SHOWN = {"runs": "accuracy"}
"""Questions that are shown on a page with another address: the question by that address."""


def pages() -> dict[str, Page]:
    """All pages in their order. The pages of other packages' questions come last."""
    others = [name for name in registered() if name not in OWN and name not in SHOWN.values()]
    return OWN | {
        name: Page(MORE, question.title_of(name), "help", partial(question.show, name))
        for name in others
    }
