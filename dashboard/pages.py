"""The list of all pages by address. A question without a page of its own gets the common page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from analyses import answers
from analyses.needs import Need, lack
from analyses.options.parts import Patching
from analyses.options.words import Explanations
from analyses.registry import BUILT_IN, registered
from analyses.scoring import board
from analyses.studies.sweeps import run as sweep
from dashboard import controls, lecture
from dashboard.drawing import explain_errors, link_to, training_curves
from dashboard.markup import text
from dashboard.selection import (
    choose_run,
    current_run,
    has_model,
    has_second,
    linked_run,
    named,
    play_on,
    runs_folder,
    suggested,
)
from dashboard.views import question
from dashboard.views.compare import scoreboard, sweeps
from dashboard.views.discover import from_lines, rule_of_run
from dashboard.views.explain import explanations, leaderboard, training_lines
from dashboard.views.languages import runs, tokens, train, try_it, work
from dashboard.views.line import choose
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
from models.languages import Word
from models.runs.folders import find_runs
from models.runs.run import Run


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        group: the door that it is behind, a heading in the sidebar.
        title: its name there.
        icon: the name of one of Material's icons.
        show: draws what is its own.
        needs: the least that the page needs: a model, a run, or nothing.
        one_step: looks at a single checkpoint, which the reader may choose.
        line: the line that it looks at before the reader chooses one; None where it looks at none.
        then: the addresses of the pages that take up where this one ends.
        headline: the words above it, where they are not the title; "" where it draws its own.
        asks: its question, below the headline.
        about: the question that it is about, in place of ``asks`` and ``requires``.
        requires: the needs that a run must meet.
        instead: or these, in place of those.
        study: the name of the study that it shows, if it shows one.
    """

    group: str
    title: str
    icon: str
    show: Callable[[], None]
    needs: Literal["model", "run", "nothing"] = "model"
    one_step: bool = True
    line: Callable[[Run], Word] | None = None
    then: tuple[str, ...] = ()
    headline: str | None = None
    asks: str = ""
    about: str = ""
    requires: tuple[Need, ...] = ()
    instead: tuple[Need, ...] = ()
    study: str = ""

    def lacks(self, run: Run) -> str | None:
        """The reason why nothing is to be seen of a run; None where there is something."""
        needs = answers.question(self.about).needs if self.about else self.requires
        return None if self.instead and not lack(run, self.instead) else lack(run, needs)

    def applies(self, run: Run | None) -> bool:
        """Is there something to be seen, of this run or without one?"""
        if self.study:
            return bool(sweeps.find_studies(runs_folder(), self.study))
        return run is None or self.needs != "model" or not self.lacks(run)

    def draw(self) -> None:
        """Draws the page below the choice of the run. What is missing or fails is one line."""
        bar = st.container(horizontal=True, vertical_alignment="bottom", key="bar")
        with explain_errors():
            tour.stop(next((name for name, page in OWN.items() if page is self), None))
            steps = self.needs == "model" and self.one_step
            # A folder without runs may still hold sweeps or a leaderboard, and users bring lines.
            if there := find_runs(runs_folder()):
                choose_run(bar, steps)
            lecture.choose(bar)
            if not there and self.needs != "nothing":
                st.info(f"There is no run in {text(runs_folder())} yet.")
                link_to("train", "Train a network")
                return
            if self.line is not None and current_run().steps():
                choose(self.line)
            if self.needs != "nothing" and has_second():
                self.show_both()
            else:
                self.show_one()
            self.lead_on()
            if steps:
                play_on()

    def show_one(self) -> None:
        """Draws what it asks, and what is its own."""
        self.ask()
        self.answer()

    def ask(self) -> None:
        """Draws its title and its question."""
        if self.headline != "":
            st.title(text(self.headline or self.title))
        spec = answers.question(self.about) if self.about else None
        if asks := spec.asks if spec else self.asks:
            st.markdown(f"**{text(asks)}**")

    def answer(self) -> None:
        """Draws what is its own, if there is what it needs."""
        if self.needs == "model" and not has_model(current_run()):
            return
        if self.needs == "model" and (reason := self.lacks(current_run())):
            st.info(text(reason))
        else:
            self.show()

    def show_both(self) -> None:
        """Draws it for two runs, side by side."""
        self.ask()
        if self.about:
            question.difference(self.about)
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
        st.markdown(f"**{text(named(current_run()))}**")
        self.answer()

    def lead_on(self) -> None:
        """Links to what comes next."""
        run = linked_run() if self.then else None
        if not (then := [address for address in self.then if OWN[address].applies(run)]):
            return
        st.divider()
        with st.container(horizontal=True):
            for address in then:
                link_to(address, OWN[address].title)


START, TRAIN, NETWORK, LINE = "Start", "Train", "This network", "This line"
PARTS, READ, COMPARE, MORE = "Parts", "Readable and used", "Compare", "More questions"

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
        *(TRAIN, "Train", "model_training", train.show),
        needs="nothing",
        asks="Can a network learn this language?",
    ),
    "discover": Page(
        *(TRAIN, "From lines to a rule", "lightbulb", from_lines.show),
        needs="nothing",
        asks="Two groups of lines: which rule sets them apart?",
    ),
    "tokens": Page(
        *(TRAIN, "Tokens", "content_cut", tokens.show),
        needs="nothing",
        then=("train", "vectors"),
        asks="How are words cut into tokens, and do merges of byte pairs find the words?",
    ),
    "work": Page(TRAIN, "Work", "pending_actions", work.show, needs="nothing"),
    "runs": Page(
        *(NETWORK, "Runs", "list", runs.show), needs="run", then=("try", "heads"), headline=""
    ),
    "discovery": Page(
        *(NETWORK, "Discovery", "explore", rule_of_run.show),
        then=("discover", "explanations"),
        about="discovery",
    ),
    "emergence": Page(
        *(NETWORK, "Over time", "timeline", partial(question.show, "emergence", training_curves)),
        one_step=False,
        then=("probing",),
        about="emergence",
    ),
    "generate": Page(
        *(NETWORK, "Generate", "auto_awesome", generate.show),
        then=("try", "discovery"),
        asks="Which words does the model make by itself, and are they in the language?",
        requires=("next symbols", "causal"),
    ),
    "influence": Page(
        *(NETWORK, "Training lines", "history_edu", training_lines.show),
        line=partial(suggested, n=Explanations().n),
        then=("explanations",),
        about="influence",
    ),
    "try": Page(
        *(LINE, "This line", "edit", try_it.show),
        line=partial(suggested, n=4),
        then=("explanations", "patching", "heads"),
        asks="Does the model take this line as part of the language, where does each head look in "
        "it, and what hangs on that?",
    ),
    "explanations": Page(
        *(LINE, "Explanations", "balance", explanations.show),
        line=explanations.first,
        then=("leaderboard", "influence", "heads"),
        about="explanations",
    ),
    "patching": Page(
        *(LINE, "Patching", "healing", patching.show),
        line=partial(suggested, n=Patching().n),
        then=("circuits", "interventions"),
        about="patching",
    ),
    "model": Page(
        *(PARTS, "Model", "account_tree", model.show),
        line=partial(suggested, n=4),
        then=("heads",),
        asks="What is the model made of, what does it do with a word, and what does that cost?",
    ),
    "heads": Page(
        *(PARTS, "Heads", "hub", heads.show),
        line=partial(suggested, n=4),
        then=("patching", "circuits"),
        about="heads",
    ),
    "circuits": Page(
        *(PARTS, "Circuits", "schema", circuits.show),
        line=partial(suggested, n=8),
        then=("patching", "discovery"),
        about="circuits",
    ),
    "break": Page(
        *(PARTS, "Break it", "broken_image", break_it.show),
        line=partial(suggested, n=4),
        then=("interventions", "circuits"),
        asks="Which parts can be taken away, and what goes wrong without them?",
        requires=("heads", "verdict"),
    ),
    "probing": Page(
        *(READ, "Probing", "sensors", probing.show),
        then=("interventions", "emergence"),
        about="probing",
    ),
    "interventions": Page(
        *(READ, "Erase and steer", "tune", interventions.show),
        line=interventions.longer,
        then=("circuits", "discovery"),
        about="interventions",
    ),
    "dictionaries": Page(
        *(READ, "Dictionaries", "dictionary", dictionaries.show),
        then=("model", "probing", "interventions"),
        about="dictionary",
    ),
    "syntax": Page(
        *(READ, "Syntax", "device_hub", syntax.show),
        then=("probing", "vectors"),
        asks="Is the tree of a word in the activations, and how deep may it be?",
        requires=("some tree",),
    ),
    "vectors": Page(
        *(READ, "Vectors", "scatter_plot", vectors.show),
        then=("syntax", "generate"),
        asks="Which words are alike by their vectors? What does one vector hold of a line?",
    ),
    "alignment": Page(
        *(READ, "Alignment", "compare_arrows", pairs.show),
        then=("heads", "generate"),
        asks=BUILT_IN["alignment"].asks,
        requires=("alignment",),
        instead=("prompts",),
    ),
    "leaderboard": Page(
        *(COMPARE, "Leaderboard", "trophy", leaderboard.show),
        needs="nothing",
        then=("explanations",),
        asks=BUILT_IN["leaderboard"].asks,
    ),
    "sweeps": Page(
        *(COMPARE, "Sweeps", "grid_view", sweeps.show),
        needs="nothing",
        study=sweep.NAME,
        asks="What changes with the language, the size, the kind of model, the seed?",
    ),
    "scoreboard": Page(
        *(COMPARE, "Scoreboard", "scoreboard", scoreboard.show),
        needs="nothing",
        study=board.NAME,
        then=("leaderboard", "circuits"),
        asks=board.QUESTION,
    ),
}
"""The pages of this package by address, door by door. The dashboard opens with the first."""

SHOWN = {
    "runs": ("accuracy",),
    "break": ("ablation",),
    "dictionaries": ("dictionary",),
    "generate": ("perplexity",),
    "alignment": ("targets", "steps", "in-context", "induction"),
    "syntax": ("depths", "dependencies"),
    "vectors": ("senses", "sentences"),
    "model": ("reach", "dimension"),
    "influence": ("lines",),
}
"""Questions that are shown on a page with another address, by that address."""


def pages() -> dict[str, Page]:
    """All pages in their order. One page has the questions without a page of their own; those of
    other packages get a page each, and come last."""
    shown = {*OWN, *(name for names in SHOWN.values() for name in names)}
    some = partial(question.show_some, [name for name in BUILT_IN if name not in shown])
    others = {
        name: Page(
            *(MORE, question.title_of(name), "help", partial(question.show, name)), about=name
        )
        for name in registered()
        if name not in BUILT_IN
    }
    return OWN | {"questions": Page(MORE, "More questions", "help", some)} | others
