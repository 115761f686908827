"""Training lines in the order of what they did: to the answer on a word, or to themselves."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Progress, numbers, of_answer, quiet
from analyses.charts.marks import bars
from analyses.charts.theme import AGAINST, FOR, colours, named
from analyses.claims import Claim
from analyses.options.training import Lines as Options
from analyses.questions.training.of_lines import drawn_lines
from analyses.questions.training.of_lines.culprits import can_be_turned
from analyses.questions.training.of_lines.listed import NAMED, for_word, suspects
from models.errors import UserError
from models.runs.run import Run

SHOWN = 12
"""Lines that a terminal shows of each end of a list."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """With a word, the table of ``listed.for_word``; without one, that of ``listed.suspects``.

    Raises:
        UserError: the run was fine-tuned; the word is empty or has an unknown symbol; or a line has
            several labels, and none of them can be called wrong.
    """
    word, about = options.word, {"word": options.word, "method": NAMED[options.method]}
    if word is None and not can_be_turned(run):
        raise UserError(
            f"{run.name} was taught {run.objective.taught}, not one label a line: name a --word, "
            "or ask a run that was trained with --objective verdict"
        )
    lists = (
        suspects(run, TARGETS, options.seed, progress)
        if word is None
        else for_word(run, word, options.seed, progress)
    )
    return Answer(lists[options.method], SILENCE[word is None], about)


SILENCE = (
    "No line had any influence by this method: there is nothing to put in order.",
    "No label is known to be wrong: whatever stands first may be a false alarm.",
)
"""The sentences where nothing is claimed: for a word; for suspects."""
TARGETS = 40
"""Words that are no lines, by which harm is measured."""


def _claims(answer: Answer) -> list[Claim]:
    """The claims about a list: about the lines for a word, or about suspects."""
    word, method = answer.findings["word"], answer.findings["method"]
    if word is None:
        return drawn_lines.of_labels(answer.table, method)
    return drawn_lines.of_word(answer.table, word, method)


def _headline(answer: Answer) -> pd.DataFrame:
    """The number that is compared over seeds: how like the order is to that of the untrained
    network; none of a list of suspects."""
    if "influence" not in answer.table:
        return numbers([])
    return numbers([("rank correlation", "with untrained", drawn_lines.likeness(answer.table)[0])])


def _chart(answer: Answer) -> ChartType:
    """The strongest lines; of suspects, the first ones with what they add to themselves."""
    if "influence" in answer.table:
        return drawn_lines.chart(answer.table)
    return suspects_chart(answer.table)


def suspects_chart(table: pd.DataFrame) -> ChartType:
    """A bar per line, the first ones: what it adds to its own likelihood."""
    first = table.head(SHOWN)
    return bars(
        first,
        alt.X("itself:Q", title="what the line adds to its own likelihood"),
        named(alt.Y, "line", first["line"].tolist(), labelLimit=300),
        list(first.columns),
        colours("label", ["in", "out"], [FOR, AGAINST], "label", orient="right"),
        ends=None,
        step=18,
    ).properties(width=300)


def _shown(answer: Answer) -> dict[str, pd.DataFrame]:
    """The first lines of a list, and of one for a word the last ones too."""
    ends = {"the first lines": answer.table.head(SHOWN)}
    if "influence" in answer.table:
        ends["the last lines"] = answer.table.tail(SHOWN)
    return ends


QUESTION = of_answer(
    "lines",
    Options,
    analyse,
    _headline,
    _chart,
    _claims,
    needs=("lines", "verdict", "gradients"),
    shown=_shown,
)
