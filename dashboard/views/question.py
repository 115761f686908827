"""A question on a page: its answer, picture, seeds and downloads, whatever is asked. Many questions
have a page of their own, with more to choose and to click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer, Answers, chosen_options, question
from analyses.needs import lack
from analyses.questions.inside.probing import heatmap
from analyses.studies import between
from analyses.studies.planned import for_reading
from analyses.studies.seeds import ask_all, two_kinds, wide
from analyses.track_record import track_record
from dashboard import controls
from dashboard.background import offer
from dashboard.downloads import downloads, files
from dashboard.drawing import Parts, explain_errors, judged, picture, reading, tabs
from dashboard.listing import compared_kinds, over_siblings
from dashboard.markup import code, message, text
from dashboard.selection import asked, current_run, kept_or_computed, runs_folder
from models.errors import UserError, lab
from models.runs.run import Run

View = str | Callable[[Run], object]
"""A question that is asked on a page, by its name, or what draws a run."""


def title_of(name: str) -> str:
    """A question's name as a title."""
    return name.replace("_", " ").replace("-", " ").capitalize()


def show(name: str, before: Callable[[Run], None] | None = None) -> None:
    """The page of one question: the answer that the run keeps, or a button that has it computed.

    Args:
        before: draws what is there to be seen before the question is asked.
    """
    if (result := kept_or_computed(current_run(), name)) is not None:
        told(name, result)
    elif before:
        before(current_run())


SHORT = {"probing": lambda told: heatmap(told.table, "linear", "words", told.findings["main"])}
"""The pictures that take the place of a question's own where it is not what a page is about."""


def related(name: str, run: Run) -> None:
    """The finding and a picture of another question, where that of this page is not asked yet."""
    answers = Answers.of(run, name)
    kept = answers.current()
    result = answers.asked(kept[0].record.arguments) if kept else None
    if result is not None:
        verdict = result.verdict
        st.markdown(text(f"{title_of(name)} was asked already ({verdict.grade}): {verdict.short}"))
        picture(SHORT.get(name, question(name).chart)(result), text(result.sentence))


def show_some(names: list[str]) -> None:
    """The page of several questions. The reader chooses one. The run can be asked all of them."""
    run = current_run()
    there = [name for name in names if not lack(run, question(name).needs)]
    if not there:
        st.info(f"None of these questions can be asked of {text(run.name)}.")
        return
    asks = {name: f"{title_of(name)}: {question(name).asks}" for name in there}
    name = controls.selectbox("Question", there, key="more_questions", format_func=asks.get)
    live(name, **_typed(name))


def _typed(name: str) -> dict[str, str]:
    """The options of a question that are text, as the reader types them."""
    texts = [field.name for field in fields(question(name).options) if field.default == ""]
    return {
        label: controls.text_input(label.capitalize(), "", key=f"{name}_{label}") for label in texts
    }


def live(name: str, **arguments: Any) -> Answer | None:
    """The answer with the page's own options, and all that belongs to it. None as long as it is
    computed; the page then shows how far that is.

    Raises:
        UserError: the run cannot be asked.
    """
    result = asked(current_run(), name, **arguments)
    if result is not None:
        told(name, result)
    return result


def one_of(views: Mapping[str, View], key: str) -> None:
    """One of several views of the run, by the reader's choice."""
    view = views[controls.segments("Show", list(views), key)]
    with explain_errors():
        live(view) if isinstance(view, str) else view(current_run())


def told(
    name: str,
    result: Answer,
    draw: Callable[[], ChartType] | None = None,
    more: Parts | None = None,
    **values: Any,
) -> None:
    """The finding of an answer and one picture; below it, one at a time, all else that a page
    shows, the controls, the numbers, and how to read it.

    Args:
        draw: draws what a page shows in the place of the question's picture, and returns what is
            downloaded in its place.
        more: what draws each further part, by its name.
        values: the values in the place of the names in braces of how to read it.
    """
    judged(result, name)
    figure = draw() if draw else picture(question(name).chart(result), text(result.sentence))
    parts = dict(more or {})
    parts["Controls and limits"] = partial(_limits, current_run(), name, result)
    below(name, result, figure, parts, **values)


def below(
    name: str,
    result: Answer,
    figure: ChartType,
    more: Parts | None = None,
    of_run: bool = True,
    **values: Any,
) -> None:
    """The parts of a page below its picture: one is open, the others are a click away.

    Args:
        name: the name of the question, or of what the page shows.
        of_run: it is about the run that is drawn.
        more, values: as ``told`` takes them.
    """
    parts = dict(more or {})
    parts["Numbers, files, code"] = partial(
        downloads, name, result, lambda: figure, of_run, opened=True
    )
    parts.setdefault("How to read this", partial(reading, name, opened=True, **values))
    tabs(f"part_of_{name}", parts)


def _limits(run: Run, name: str, result: Answer) -> None:
    """All that an answer says, how often its question finds something in nothing, and what other
    seeds say."""
    said = result.verdict.why if result.sentence == result.verdict.short else result.sentence
    st.markdown(text(said))
    st.markdown(text(track_record(name)))
    _seeds(run, name, not chosen_options(name, result.arguments))


def _seeds(run: Run, name: str, usual: bool) -> None:
    """The headline numbers, as means over this run and those beside it that differ from it only in
    the seed.

    Args:
        usual: the answer that is shown is to the default question, which all seeds can be asked.
    """
    runs, answers, table, tests = over_siblings(run, name)
    if runs < 2:
        return
    if answers:
        st.header(f"Over {answers:d} seed{'s' * (answers != 1)}", divider="gray")
    if answers < runs:
        st.caption(
            f"{runs - answers:d} of {runs:d} runs have no answer to compare: it is missing, "
            "out of date, or asked with other options. "
            + (f"{code(lab('seeds', run.path, name))} asks them." if usual else "")
        )
    if answers:
        st.dataframe(wide(table))
        st.caption(
            "Mean over the seeds with its 95% interval (Student's, within the range; of yes or no "
            "Wilson's)."
        )
    if len(tests):
        shown, how = for_reading(tests)
        st.subheader("Tested")
        st.dataframe(shown, hide_index=True)
        st.caption(text(how))


def difference(name: str) -> None:
    """The difference between the chosen run and the one beside it, over the seeds of both."""
    paths = [runs_folder() / st.session_state[key] for key in ("run", "with")]
    names = [path.name for path in paths]
    try:
        table, legend, missing = compared_kinds(paths[0], paths[1], name)
    except UserError as error:
        st.caption(message(error))
        return
    with st.expander("The difference over seeds", expanded=True):
        if missing:
            offer(
                f"{name} of {paths}",
                "Ask all networks of both kinds alike",
                lambda report: ask_all(
                    [r for s in two_kinds(*paths) for r in s], [name], 1, report
                ),
            )
        if len(table) or not missing:
            st.caption(text(legend))
        if len(table):
            ofs = list(dict.fromkeys(table["of"]))
            of = controls.selectbox("Number", ofs, key=f"difference_{name}")
            words = f"{of}: {names[0]} less {names[1]}, with 95% intervals."
            figure = picture(between.chart(table, of), words)
            st.dataframe(between.for_reading(table, *names), hide_index=True, height=200)
            files(f"{name}-difference", Answer(table, legend), lambda: figure, of_run=False)
            st.caption(code(lab("seeds", paths[0], name, against=paths[1], csv=True)))
