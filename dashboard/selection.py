"""The reader's choice of run, checkpoint and word; and one copy of each model for all."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analyses.answer_files import Kept
from analyses.answers import (
    Answer,
    Answers,
    answer,
    arguments_of,
    asked_with,
    fresh_answer,
    question,
)
from analyses.needs import require
from analyses.reports.code import command_of
from analyses.words import member
from dashboard import controls
from dashboard.background import at_once, offer
from dashboard.drawing import explain_errors
from dashboard.markup import code, text
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Word
from models.runs.folders import find_runs
from models.runs.run import Run

P = ParamSpec("P")


T = TypeVar("T")


def runs_folder() -> Path:
    """The folder given on the command line."""
    return Path(sys.argv[1] if len(sys.argv) > 1 else "runs")


def choose_run(bar: DeltaGenerator, steps: bool) -> None:
    """The choice of the run, and of one beside it, in the bar above the page; it is part of the
    page's link.

    Args:
        steps: a checkpoint of each is chosen, too.
    """
    st.session_state.pop(SEEN_AT, None)
    names = [path.name for path in find_runs(runs_folder())]
    if (opened := st.query_params.pop("open", None)) in names:  # a link that wins over the choice
        st.session_state["run"] = st.query_params["run"] = opened
    if (linked := st.query_params.get("run")) is not None and linked not in names:
        st.session_state[UNKNOWN] = linked
    chosen = bar.selectbox(
        "Network",
        names,
        names.index(most_telling(names)),
        key="run",
        bind="query-params",
        on_change=lambda: st.session_state.pop(UNKNOWN, None),
        width=WIDTH,
    )
    others = [NO_OTHER, *names]
    if (linked := st.query_params.get("with")) is not None and linked not in names:
        st.warning(f"There is no run named {text(linked)} to be set beside this one.")
    bar.selectbox(
        "Compare with",
        others,
        key="with",
        bind="query-params",
        help="A second run on the same pages, with the same choices. The same run can be "
        "chosen, and then seen at another checkpoint.",
        width=WIDTH,
    )
    if UNKNOWN in st.session_state:
        st.warning(
            f"There is no run named {text(st.session_state[UNKNOWN])} in {text(runs_folder())}. "
            f"Shown is {text(chosen)}."
        )
    if steps:
        with bar:
            seen = {False: _step("Checkpoint", "run", "step_of_")}
            if has_second():
                seen[True] = _step("Checkpoint of the other", "with", "other_step_of_")
        st.session_state[SEEN_AT] = seen
    with suppress(UserError):  # the pages that need the run say what is wrong with it
        run = current_run()
        at = "" if run.seen_at is None else f"; seen as it was at step {run.seen_at:d}"
        facts = (
            f"{run.language.name}, {run.language.chomsky}; {_shape_of(run)}; "
            f"recipe {run.config.recipe}; seed {run.config.seed}{at}"
        )
        st.container(key="facts").caption(text(facts))


WIDTH = 190
"""The width of a choice in the bar, in pixels."""


def linked_run() -> Run | None:
    """The run that a page will show, before its choice is drawn; None where there is none, or a
    damaged one."""
    names = [path.name for path in find_runs(runs_folder())]
    linked = st.session_state.get("run") or st.query_params.get("run")
    with suppress(UserError):
        for name in [linked] if linked in names else names and [most_telling(names)]:
            run = Run(runs_folder() / name)
            return run if run.language and run.objective else None  # both can be read
    return None


NO_OTHER = "nothing"
"""The word in place of the name of a second run."""


UNKNOWN = "unknown_run"
"""The run that a link names and that is not there, until the reader chooses one."""


def is_dutch(name: str) -> bool:
    """Whether a run is named as one that learned the rule of the Dutch lines."""
    return name.startswith("dieren-") and not name.startswith("dieren-gaps-")


def most_telling(names: Sequence[str]) -> str:
    """The run that a page opens with: one that learned the rule of the Dutch lines, if there is
    one; and rather a language of several symbols than a^n."""
    return min(names, key=lambda name: (not is_dutch(name), name.startswith("an-")))


def _shape_of(run: Run) -> str:
    """The model in a few words."""
    model = run.config.model
    if model.family.tabular:
        return model.kind
    heads = f"{model.n_heads} heads, " if model.family.attends else ""
    kind = model.kind or "decoder"
    width = model.d_mlp if model.family.whole else model.d_model
    return f"{kind}, {model.n_layers} layers, {heads}width {width}"


def has_second() -> bool:
    """Did the reader choose a second run?"""
    return st.session_state.get("with", NO_OTHER) != NO_OTHER


def current_run() -> Run:
    """The run that is drawn, seen at the checkpoint that the reader chose for it: the chosen run,
    or the one beside it."""
    name = st.session_state["with" if controls.is_second() else "run"]
    return Run(runs_folder() / name, st.session_state.get(SEEN_AT, {}).get(controls.is_second()))


def named(run: Run) -> str:
    """The name of a run that stands beside another one, with its checkpoint."""
    return run.name + (f", step {run.step}" if run.steps() else "")


def _step(label: str, which: str, key: str) -> int | None:
    """The chosen step of a run; None where its last checkpoint is looked at."""
    run = Run(runs_folder() / st.session_state[which])
    steps = run.steps()
    if len(steps) < 2:
        return None
    key += run.name  # each run has its own, because runs differ in steps
    if st.session_state.get(PLAYED, (None,))[0] == key:
        st.session_state[key] = st.session_state[PLAYED][1]
    step = controls.select_slider(
        label,
        steps,
        steps[-1],
        key=key,
        help="The training step whose weights are looked at. Step 0 is the untrained network.",
        width=WIDTH,
    )
    if st.session_state.get(PLAYED, (None,))[0] == key:
        st.button("Stop", key=f"stop {key}", on_click=st.session_state.pop, args=(PLAYED,))
    else:
        st.button(
            "Play",
            key=f"play {key}",
            icon=":material/play_arrow:",
            on_click=st.session_state.__setitem__,
            args=(PLAYED, (key, steps[0], steps)),
            help="Shows this page at every checkpoint, one after the other.",
        )
    return None if step == steps[-1] else step


def play_on() -> None:
    """Goes on to the next checkpoint, if the reader plays them."""
    if PLAYED not in st.session_state:
        return
    time.sleep(PAUSE)
    key, step, steps = st.session_state[PLAYED]
    later = [other for other in steps if other > step]
    if later:
        st.session_state[PLAYED] = key, later[0], steps
    else:
        del st.session_state[PLAYED]
    st.rerun()


PLAYED = "played"
"""While checkpoints are played: the key of their slider, the step that is shown, and all steps."""
PAUSE = 1.0
"""Seconds for which a page shows a checkpoint that is played."""
SEEN_AT = "seen_at"
"""The chosen steps of the run and of the one beside it, for one drawing of a page."""


def once(**looks: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Computes each result once for all tabs: a run counts by its folder and the weights that are
    looked at.

    Args:
        looks: the options of ``st.cache_data``.
    """
    return st.cache_data(max_entries=64, hash_funcs={Run: _of_weights}, **looks)


def _of_weights(run: Run) -> tuple[str, str]:
    return str(run.path), run.model_hash()


def of_model(compute: Callable[Concatenate[Any, Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """The same function of a run alone, on its model; it computes each result once for all tabs."""

    def computed(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with model_of(run) as model:
            return compute(model, run, *args, **kwargs)

    computed.__qualname__ = f"{compute.__module__}.{compute.__qualname__}"  # Streamlit's key
    return once(show_spinner="Computing ...")(computed)


def has_model(run: Run) -> bool:
    """Is there a checkpoint to look into? If not, the page says so."""
    if run.steps():
        return True
    st.info(f"{text(run.name)} has no checkpoint yet. The page Runs shows how far its training is.")
    return False


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs={Run: _of_weights})
def _model(run: Run) -> tuple[LanguageModel, threading.Lock]:
    """One model for all browser tabs. A hook is part of the model's state, so whoever uses the
    model holds its lock."""
    return run.model(), threading.Lock()


@contextmanager
def model_of(run: Run) -> Iterator[LanguageModel]:
    """The model of the chosen checkpoint, for one user at a time."""
    model, lock = _model(run)
    with lock:
        yield model


def asked(run: Run, name: str, **arguments: Any) -> Answer | None:
    """The answer to a question with the page's own options: the answer that the run keeps, if it
    was asked with the same options, and else a new one, which is not written into the run.

    None as long as it is computed; the page then shows how far that is.
    """
    require(run, *question(name).needs)
    options = question(name).options(**arguments)
    if (kept := Answers.of(run, name).asked(arguments_of(options))) is not None:
        return kept
    key = f"{name} of {run.path}, {run.model_hash()}: {json.dumps(arguments, sort_keys=True)}"
    return at_once(key, lambda report: fresh_answer(run, question(name), options, report))


def kept_or_computed(run: Run, name: str) -> Answer | None:
    """The answer that the run keeps. Where it keeps several, the reader chooses one.

    Where there is none, the page shows a button that has it computed, and then how far that is;
    the result is None.
    """
    answers = Answers.of(run, name)
    if kept := answers.current():
        return chosen(answers, kept)
    result = answers.latest() if run.seen_at is None else None
    if result is None:
        _offered(run, answers)
    else:
        command = command_of(run, answers.name, result.arguments)
        st.warning(f"This answer is about another checkpoint; {code(command)} renews it.")
    return result


def _offered(run: Run, answers: Answers) -> None:
    """A button that has a question answered whose answer is missing, and why it is missing."""
    if run.seen_at is not None:
        st.info(f"This question has not been asked of step {run.seen_at:d} yet.")
    elif older := answers.all():
        st.info(
            f"An older version of the lab answered this ({code(older[0].folder)}): ask it anew."
        )
    else:
        st.info(f"{text(run.name)} has not been asked this yet: {text(answers.name)}.")
    name = answers.name
    with explain_errors():
        key = f"{name} of {run.path}, {run.model_hash()}"
        offer(key, "Ask it now", lambda report: answer(run, name, None, report), type="primary")


def chosen(answers: Answers, kept: Sequence[Kept]) -> Answer | None:
    """One of several kept answers: the one with the default options, or the reader's choice."""
    name = answers.name
    labels = {asked_with(name, each.record.arguments): each.record.arguments for each in kept}
    names = sorted(labels, key=lambda label: label != "the defaults")
    label = names[0]
    if len(names) > 1:
        label = controls.selectbox("Asked with", names, key=f"asked_{controls.first_run()}_{name}")
    return answers.asked(labels[label])


def head_key(run: Run) -> str:
    """The key of the chosen head: one for each model size, since other runs may have fewer."""
    return f"head_of_{run.config.model.n_layers}x{run.config.model.n_heads}"


def suggested(run: Run, n: int, drawn: Callable[[Run, int], Word] = member) -> Word:
    """The word of a field before one is typed; the empty word where the run has none to draw."""
    with suppress(UserError):
        return drawn(run, n)
    return ()
