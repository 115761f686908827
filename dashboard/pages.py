"""The list of all pages by address. A question without a page of its own gets the common page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from analyses import answers
from analyses.needs import Need, lack
from analyses.registry import BUILT_IN, registered
from analyses.scoring import board
from analyses.studies import few_labels as study
from dashboard import controls, lecture
from dashboard.drawing import explain_errors, link_to
from dashboard.markup import text
from dashboard.selection import (
    SEEN_AT,
    choose_run,
    choose_steps,
    current_run,
    has_model,
    has_second,
    play_on,
    runs_folder,
)
from dashboard.views import question
from dashboard.views.compare import few_labels, scoreboard, sweeps
from dashboard.views.discover import from_lines, rule_of_run
from dashboard.views.explain import explanations, leaderboard, training_lines
from dashboard.views.languages import runs, tokens, train, try_it, work
from dashboard.views.look_inside import (
    break_it,
    circuits,
    dictionaries,
    generate,
    heads,
    interventions,
    model,
    pairs,
    patching,
    probing,
    syntax,
    vectors,
)
from dashboard.views.start import glossary, story, tour
from models.runs.run import Run, find_runs


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        group: its heading in the sidebar.
        title: its name there.
        icon: the name of one of Material's icons.
        show: draws what is its own.
        needs: the least that the page needs: a model, a run, or nothing.
        one_step: looks at a single checkpoint, which the reader may choose.
        then: the addresses of the pages that take up where this one ends.
        headline: the words above it, where they are not the title; "" where it draws its own.
        asks: its question, below the headline.
        about: the question that it is about, in place of ``asks`` and ``requires``.
        requires: the needs that a run must meet.
    """

    group: str
    title: str
    icon: str
    show: Callable[[], None]
    needs: Literal["model", "run", "nothing"] = "model"
    one_step: bool = True
    then: tuple[str, ...] = ()
    headline: str | None = None
    asks: str = ""
    about: str = ""
    requires: tuple[Need, ...] = ()

    def draw(self) -> None:
        """Draws the page beside the choice of the run. What is missing or fails is one line."""
        lecture.choose()
        with explain_errors():
            tour.stop(next((name for name, page in OWN.items() if page is self), None))
            # A folder without runs may still hold sweeps or a leaderboard, and users bring lines.
            if find_runs(runs_folder()):
                choose_run()
            elif self.needs != "nothing":
                st.info(f"There is no run in {text(runs_folder())} yet.")
                link_to("train", "Train a network")
                return
            st.session_state.pop(SEEN_AT, None)
            steps = self.needs == "model" and self.one_step
            if steps:
                choose_steps()
            if self.needs != "nothing" and has_second():
                self.show_both()
            else:
                self.show_one()
            self.lead_on()
            if steps:
                play_on()

    def show_one(self) -> None:
        """Draws what it asks, and what is its own, if there is what it needs."""
        if self.needs == "model" and not has_model(current_run()):
            return
        if self.headline != "":
            st.title(text(self.headline or self.title))
        spec = answers.question(self.about) if self.about else None
        if asks := spec.asks if spec else self.asks:
            st.markdown(f"**{text(asks)}**")
        needs = spec.needs if spec else self.requires
        if needs and (reason := lack(current_run(), needs)):
            st.info(text(reason))
        else:
            self.show()

    def show_both(self) -> None:
        """Draws it for two runs, side by side."""
        first, second = st.columns(2)
        shown: Run | None = None
        with first, explain_errors():
            shown = current_run()
            self.show_named()
        with second, controls.beside(), explain_errors():
            other = current_run()
            if shown and (shown.path, shown.step) == (other.path, other.step):
                st.info("Both are the same. Choose another run, or another checkpoint of this one.")
            else:
                self.show_named()

    def show_named(self) -> None:
        """Draws it under the name of its run."""
        run = current_run()
        at = f", step {run.step}" if run.steps() else ""
        st.markdown(f"**{text(run.name + at)}**")
        self.show_one()

    def lead_on(self) -> None:
        """Links to what comes next, each with its question."""
        if not self.then:
            return
        st.header("What next?", divider="gray")
        for address in self.then:
            link_to(address, OWN[address].title)
            if about := BUILT_IN.get(SHOWN.get(address, address)):
                st.caption(text(about.asks))


START, TRAINING, INSIDE = "Start", "Languages and training", "Look inside"
EXPLAIN, DISCOVER, COMPARE, MORE = "Explain", "Discover", "Compare", "More questions"

OWN = {
    "story": Page(
        *(START, "Start", "home", story.show),
        needs="nothing",
        then=("tour", "try", "discover"),
        headline="Structure Lab",
    ),
    "tour": Page(START, "Guided tours", "tour", tour.show, needs="nothing"),
    "glossary": Page(
        *(START, "Glossary", "menu_book", glossary.show),
        needs="nothing",
        asks="What does this word mean?",
    ),
    "train": Page(
        *(TRAINING, "Train", "model_training", train.show),
        needs="nothing",
        asks="Can a network learn this language?",
    ),
    "work": Page(TRAINING, "Work", "pending_actions", work.show, needs="nothing"),
    "runs": Page(
        *(TRAINING, "Runs", "list", runs.show), needs="run", then=("try", "heads"), headline=""
    ),
    "try": Page(
        *(TRAINING, "This line", "edit", try_it.show),
        then=("explanations", "patching", "heads"),
        asks="Does the model take this line as part of the language, where does each head look in "
        "it, and what hangs on that?",
    ),
    "generate": Page(
        *(TRAINING, "Generate", "auto_awesome", generate.show),
        then=("try", "discovery"),
        asks="Which words does the model make by itself, and are they in the language?",
        requires=("next symbols", "causal"),
    ),
    "tokens": Page(
        *(TRAINING, "Tokens", "content_cut", tokens.show),
        needs="nothing",
        then=("train", "vectors"),
        asks="How are words cut into tokens, and do merges of byte pairs find the words?",
    ),
    "model": Page(
        *(INSIDE, "Model", "account_tree", model.show),
        then=("heads",),
        asks="What is the model made of, what does it do with a word, and what does that cost?",
    ),
    "heads": Page(INSIDE, "Heads", "hub", heads.show, then=("patching", "circuits"), about="heads"),
    "patching": Page(
        *(INSIDE, "Patching", "healing", patching.show),
        then=("circuits", "interventions"),
        headline="Activation patching",
        about="patching",
    ),
    "circuits": Page(
        *(INSIDE, "Circuits", "schema", circuits.show),
        then=("patching", "discovery"),
        about="circuits",
    ),
    "break": Page(
        *(INSIDE, "Break it", "broken_image", break_it.show),
        then=("interventions", "circuits"),
        asks="Which parts can be taken away, and what goes wrong without them?",
        requires=("heads", "verdict"),
    ),
    "probing": Page(
        *(INSIDE, "Probing", "sensors", probing.show),
        then=("interventions", "emergence"),
        about="probing",
    ),
    "dictionaries": Page(
        *(INSIDE, "Dictionaries", "dictionary", dictionaries.show),
        then=("model", "probing", "interventions"),
        about="dictionary",
    ),
    "alignment": Page(
        *(INSIDE, "Alignment", "compare_arrows", pairs.show),
        then=("heads", "generate"),
        asks=BUILT_IN["alignment"].asks,
    ),
    "syntax": Page(
        *(INSIDE, "Syntax", "device_hub", syntax.show),
        then=("probing", "vectors"),
        asks="Is the tree of a word in the activations, and how deep may it be?",
        requires=("trees",),
    ),
    "vectors": Page(
        *(INSIDE, "Vectors", "scatter_plot", vectors.show),
        then=("syntax", "generate"),
        asks="Do vectors of words know which words are alike, and does a - b + c work?",
    ),
    "emergence": Page(
        *(INSIDE, "Over time", "timeline", partial(question.show, "emergence")),
        one_step=False,
        then=("probing",),
        about="emergence",
    ),
    "interventions": Page(
        *(INSIDE, "Erase and steer", "tune", interventions.show),
        then=("circuits", "discovery"),
        about="interventions",
    ),
    "explanations": Page(
        *(EXPLAIN, "Explanations", "balance", explanations.show),
        then=("leaderboard", "influence", "heads"),
        headline="Which symbols decide?",
        about="explanations",
    ),
    "influence": Page(
        *(EXPLAIN, "Training lines", "history_edu", training_lines.show),
        then=("explanations",),
        asks=BUILT_IN["influence"].asks,
    ),
    "leaderboard": Page(
        *(EXPLAIN, "Leaderboard", "trophy", leaderboard.show),
        needs="nothing",
        then=("explanations",),
        asks=BUILT_IN["leaderboard"].asks,
    ),
    "discovery": Page(
        *(DISCOVER, "Discovery", "explore", rule_of_run.show),
        then=("discover", "explanations"),
        about="discovery",
    ),
    "discover": Page(
        *(DISCOVER, "From lines to a rule", "lightbulb", from_lines.show),
        needs="nothing",
        asks="Two groups of lines: which rule sets them apart?",
    ),
    "sweeps": Page(
        *(COMPARE, "Sweeps", "grid_view", sweeps.show),
        needs="nothing",
        asks="What changes with the language, the size, the kind of model, the seed?",
    ),
    "scoreboard": Page(
        *(COMPARE, "Scoreboard", "scoreboard", scoreboard.show),
        needs="nothing",
        then=("leaderboard", "circuits"),
        asks=board.QUESTION,
    ),
    "few-labels": Page(
        *(COMPARE, "Few labels", "label", few_labels.show),
        needs="nothing",
        asks=study.QUESTION,
    ),
}
"""The pages of this package by address. The dashboard opens with the first."""

SHOWN = {"runs": "accuracy", "break": "ablation", "dictionaries": "dictionary"}
"""Questions that are shown on a page with another address: the question by that address."""
PART_OF = {
    "generate": ("perplexity",),
    "alignment": ("targets", "steps", "in-context", "induction"),
    "syntax": ("depths", "dependencies"),
    "vectors": ("senses", "sentences"),
    "model": ("reach", "dimension"),
    "influence": ("lines",),
}
"""Questions that share a page with others, by the page's address."""


def pages() -> dict[str, Page]:
    """All pages in their order. One page has the questions without a page of their own; those of
    other packages get a page each, and come last."""
    shown = {*OWN, *SHOWN.values(), *(name for names in PART_OF.values() for name in names)}
    some = partial(question.show_some, [name for name in BUILT_IN if name not in shown])
    others = {
        name: Page(
            *(MORE, question.title_of(name), "help", partial(question.show, name)), about=name
        )
        for name in registered()
        if name not in BUILT_IN
    }
    return OWN | {"questions": Page(MORE, "More questions", "help", some)} | others
