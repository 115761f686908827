"""Train: choose a language and a model, and watch the network learn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import streamlit as st

from analyses.command_line.arguments import read
from analyses.lectures.truth import rule_in_words
from analyses.options.commands import Train
from dashboard import controls, processes
from dashboard.drawing import explain_errors, link_to, training_curves
from dashboard.markup import code, message, text
from dashboard.selection import runs_folder
from dashboard.views.languages import own_language
from dashboard.views.languages.removed import put_aside, remove
from models.errors import UserError, lab
from models.families import FAMILIES
from models.languages import LANGUAGES, language
from models.languages.expressions import check_name
from models.objectives import OBJECTIVES, objective
from models.runs.folders import find_runs
from models.runs.run import Run, run_name
from models.training.recipes import ABOUT, recipes_of

LOGS = ".lab-logs"
"""The folder, below that of all runs, of what the trainings said."""
MOST_STEPS = 20_000
SEEDS = 10


def show() -> None:
    """The page."""
    with explain_errors():
        _ask()
    with explain_errors():
        _unfinished()
    with explain_errors():
        put_aside()
    st.header("Lines of your own", divider="gray")
    st.markdown("Two groups of lines, from a file, are learned on another page:")
    link_to("discover", "From lines to a rule")


def _ask() -> None:
    """The choice of what to train; the button that begins it."""
    left, right = st.columns(2)
    with left:
        names = [*own_language.KINDS, *LANGUAGES]
        name = controls.selectbox("Language", names, names.index("anbn"), key="train_language")
        if is_own := name in own_language.KINDS:
            words = own_language.KINDS[name]()
            check_name(name := words[0])  # a name such as -h would be read as an option
            _read(words)  # whatever cannot be trained is said here
        else:
            words = [name]
            target = language(name)
            if rule := rule_in_words(target):
                st.caption(f"A word is in it if it {text(rule)}.")
            st.caption(text(f"{target.chomsky.capitalize()}, read by {target.machine}."))
            st.caption(f"A word of it: {code(' '.join(target.example()))}")
            if missed := target.near_miss_example():
                st.caption(f"No word of it: {code(' '.join(missed))}")
    with right:
        kind = controls.selectbox("Kind of model", list(FAMILIES), key="train_kind")
        st.caption(text(FAMILIES[kind].caption))
        recipe = "plain"
        if len(recipes := recipes_of(name)) > 1 and "counting.counters" in FAMILIES[kind].reads:
            recipe = controls.segments("Recipe", recipes, "train_recipe")
            st.caption(text(f"{recipe}: {ABOUT[recipe]}"))
        if is_own:
            own_language.draw(_read(words).config)
    words += ["--recipe", recipe, "--model.architecture", kind]
    usual = _read(words).config
    with right:
        usually = list(OBJECTIVES).index(usual.objective)
        taught = controls.selectbox("Taught", list(OBJECTIVES), usually, key="train_objective")
        st.caption(text(objective(taught).caption))
    if taught != usual.objective:
        words += ["--objective", taught]
    left, middle, right = st.columns(3)
    key = f"train_steps_{name}"
    steps = controls.number("Steps", 1, MOST_STEPS, usual.steps, key=key, at=left)
    first = controls.number("Seed", 0, 10**6, 0, key="train_seed", at=middle)
    count = controls.number("How many seeds", 1, SEEDS, 1, key="train_seeds", at=right)
    words += ["--steps", str(steps), "--out", str(runs_folder())]
    every = [[*words, "--seed", str(seed)] for seed in range(first, first + count)]
    taken = [path for command in every if (path := _path_of(command)).exists()]
    if taken:
        names = [path.name for path in taken]
        st.caption(f"{text(', '.join(names))} is here already: another seed trains another.")
    if st.button("Train", type="primary", disabled=bool(taken)):
        for command in every:
            processes.begin(_path_of(command), ["train", *command], _log_of(_path_of(command)))
        st.rerun()
    st.caption("The same on a command line:")
    st.code(lab("train", *every[0]), language=None, wrap_lines=True)


def _read(words: Sequence[str]) -> Train:
    """The training that these words of a command ask for. Raises UserError for a mistake."""
    training = read("train", words)
    assert isinstance(training, Train)
    return training


def _path_of(words: Sequence[str]) -> Path:
    """The folder of the run that these words ask for."""
    return runs_folder() / run_name(_read(words).config)


def _log_of(path: Path) -> Path:
    return runs_folder() / LOGS / f"{path.name}.txt"


def _unfinished() -> None:
    """Every run that is trained now, or was interrupted; and what failed before it was a run."""
    runs = []
    for path in find_runs(runs_folder()):
        with suppress(UserError):  # the page of runs tells its fault
            runs.append(Run(path))
    open_runs = [run for run in runs if run.record["status"] == "training"]
    paths = {run.path for run in open_runs}
    begun = [path for path in processes.begun() if path.parent == runs_folder()]
    waiting = [path for path in begun if path not in paths and not (path / "run.json").is_file()]
    done = [path for path in begun if path in {run.path for run in runs} - paths]
    if not (open_runs or waiting or done):
        return
    st.header("Trainings", divider="gray")
    for path in waiting:
        _not_yet(path)
    for run in open_runs:
        with st.container(border=True):
            _training(run)
    for path in done:
        st.markdown(f"**{text(path.name)}** is trained.")
        with st.container(horizontal=True):
            link_to("runs", f"See {path.name}", open=path.name)
            link_to("break", "Break it", open=path.name)


def _not_yet(path: Path) -> None:
    """A training that has no folder yet, or never got one."""
    if processes.is_working(path):

        @st.fragment(run_every=1)
        def wait() -> None:
            if (path / "run.json").is_file() or not processes.is_working(path):
                st.rerun(scope="app")
            doing = (
                "waits until another training has ended" if processes.is_waiting(path) else "begins"
            )
            st.info(f"{text(path.name)} {text(doing)} ...", icon=":material/hourglass_top:")

        wait()
        st.button("Stop", key=f"stop {path.name}", on_click=processes.stop, args=(path,))
    elif reason := processes.fault(_log_of(path)):
        st.error(f"{text(path.name)}: {message(reason)}", icon=":material/error:")


def _training(run: Run) -> None:
    """The progress of a training, its curve, and what can be done with it."""
    follow = processes.is_working(run.path)

    @st.fragment(run_every=1 if follow else None)
    def watch() -> None:
        if follow and not processes.is_working(run.path):
            st.rerun(scope="app")
        with explain_errors():
            _progress(run, follow)

    st.markdown(f"**{text(run.name)}**")
    watch()
    if follow:
        if processes.can_stop(run.path):
            st.button("Stop", key=f"stop {run.name}", on_click=processes.stop, args=(run.path,))
        else:
            st.caption("It was begun elsewhere, and can be stopped there.")
        return
    if reason := processes.fault(_log_of(run.path)):
        st.error(message(reason), icon=":material/error:")
    with st.container(horizontal=True):
        st.button(
            "Go on",
            key=f"go on {run.name}",
            type="primary",
            on_click=processes.begin,
            args=(run.path, ["resume", str(run.path)], _log_of(run.path)),
        )
        if st.button("Remove", key=f"remove {run.name}"):
            remove(run.name)
            processes.forget(run.path)
            st.rerun()


def _progress(run: Run, follow: bool) -> None:
    """The step, the time left, and the curve so far."""
    metrics, steps = run.metrics(), run.config.steps
    step = metrics[-1]["step"] if metrics else max(run.steps(), default=0)
    at = f"step {step:d} of {steps:d}"
    if not follow:
        st.progress(min(step / steps, 1.0), f"interrupted at {at}")
    elif metrics and step:
        left = metrics[-1]["seconds"] / step * (steps - step)
        st.progress(min(step / steps, 1.0), f"{at}, about {left:.0f} s left")
    else:
        st.progress(0.0, at)
    if metrics:
        training_curves(run)
