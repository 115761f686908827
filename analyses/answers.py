"""Questions, and the answers that they leave behind.

An answer is kept by what was asked: the question, its options, the weights, the version of the lab.
Another question never takes its place. ``analyses.answer_files`` says where it lies.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pandas as pd

from analyses.answer_files import RESULTS, Kept, Record, kept_in, newest, write
from analyses.claims import Claim, Knowledge, Verdict, told, verdict
from analyses.needs import Need, require
from analyses.options.shared import Trains, Works
from analyses.registry import BUILT_IN, entry, registered
from analyses.source import code_of
from models.errors import UserError
from models.runs.files import locked
from models.runs.run import PACKAGES, Run, installed_versions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from altair.typing import ChartType

    from models.base import LanguageModel

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""


SHOWN = 10
"""The most rows and columns of a table that an answer shows of itself."""


def quiet(done: int, total: int, what: str) -> None:
    """Progress that nobody watches: does nothing."""


@dataclass(frozen=True)
class Answer:
    """The result of a question. The question itself gives the table and the findings; the
    engine adds the rest.

    Attributes:
        table: a row is an observation; the question documents the columns.
        sentence: the answer in one sentence, or a few; it is made of the claims if there are any.
        findings: further numbers, as JSON-able values.
        arguments: the options that it was asked with, as JSON-able values.
        model_hash: SHA-256 of the weights that were looked at; "" where there were several models.
        claims: what is found, held against its controls; the first decides on the grade.
        knowledge: what the network knows of its language; None where the question is about that.
        numbers: the rows of the question's headline.
        folder: where it is kept; None before it is.
    """

    table: pd.DataFrame
    sentence: str = ""
    findings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model_hash: str = ""
    claims: Sequence[Claim] = ()
    knowledge: Knowledge | None = None
    numbers: Sequence[tuple[str, str, float | None]] = ()
    folder: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """The finding in short, and whether to believe it."""
        return verdict(self.claims, self.knowledge, self.sentence)

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{self.table.to_string(max_rows=SHOWN, max_cols=SHOWN)}"

    def _repr_html_(self) -> str:
        """The view in a notebook: the sentence, and the first and last rows of the table."""
        table = self.table.to_html(
            max_rows=SHOWN, max_cols=SHOWN, border=0, float_format="{:.3g}".format
        )
        size = f"{len(self.table)} rows and {len(self.table.columns)} columns"
        return f"<div><p>{escape(self.sentence)}</p>{table}<p>{size}</p></div>"


Options = TypeVar("Options", bound="DataclassInstance")


@dataclass(frozen=True)
class Planned:
    """A comparison of two numbers of a headline over seeds, fixed whatever the numbers are.

    Attributes:
        first: names the first number, in the column ``by``.
        second: names the number that it is compared with.
        by: the column of the headline in which both stand; in the other one they agree.
        alone: the only value of the other column for which they are compared; without it they are
            compared for every value that has both.
    """

    first: str
    second: str
    by: Literal["of", "variable"] = "of"
    alone: str | None = None


@dataclass(frozen=True)
class Question(Generic[Options]):
    """A question that is asked of one run.

    It is registered in ``analyses.registry``, or by another package as an entry point. It then has
    a script, a command, a part in ``lab seeds`` and in the report, a page and downloads.

    Attributes:
        name: the name of its command, its files and its page.
        asks: the question in words.
        options: a frozen dataclass; each field is an option of the command. It checks its values
            when it is built, and raises UserError for a bad one. What it has of ``Works`` and
            ``Trains`` says how the work is done, and is no part of what is asked.
        analyse: gives the table and the findings; raises UserError where the question cannot be
            asked of the run.
        claims: what is found, held against its controls; sentence and grade are made of it. Without
            claims an answer says what ``analyse`` says, and is not weighed.
        headline: the numbers that are compared over seeds, as ``numbers`` makes them.
        chart: the answer's picture.
        needs: what a run must have; the engine refuses one that lacks it.
        of_inside: whether it is about the inside of the network, of which nothing is claimed where
            the network does not know its language; otherwise it is about the network's answers.
        shown: the tables that a terminal shows beside the sentence, by title.
        how_to_read: what the picture means, and which controls stand in it; Markdown.
        brief: options that tell the same in half the time or less; the demo asks with them.
        outcomes: the numbers of the headline, by ``of``, that are 1 for yes and 0 for no.
        planned: which numbers of the headline are compared over seeds; see ``Planned``.
    """

    name: str
    asks: str
    options: type[Options]
    analyse: Callable[[Run, Options, Progress], Answer]
    headline: Callable[[Answer], pd.DataFrame]
    chart: Callable[[Answer], ChartType]
    claims: Callable[[Answer], Sequence[Claim]] = lambda _: ()
    needs: Sequence[Need] = ()
    of_inside: bool = True
    shown: Callable[[Answer], Mapping[str, pd.DataFrame]] = lambda _: {}
    how_to_read: str = ""
    brief: Options | None = None
    outcomes: Collection[str] = ()
    planned: Sequence[Planned] = ()

    def __post_init__(self) -> None:
        """Questions of the lab are read as how_to_read.md says, beside them."""
        if not self.how_to_read:
            object.__setattr__(self, "how_to_read", sections(HOW_TO_READ).get(self.name, ""))


HOW_TO_READ = Path(__file__).parent / "questions" / "how_to_read.md"


@cache
def sections(file: Path) -> Mapping[str, str]:
    """The paragraph below each headline of a Markdown file, in one line."""
    parts = re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    pieces = (part.partition("\n") for part in parts)
    return {name: " ".join(words.split()) for name, _, words in pieces}


def of_answer(
    name: str,
    options: type[Options],
    analyse: Callable[[Run, Options, Progress], Answer],
    *parts: Any,
    **others: Any,
) -> Question[Options]:
    """A question of the lab, in the words of the registry.

    Args:
        parts, others: the further attributes of ``Question``.
    """
    return Question(name, BUILT_IN[name].asks, options, analyse, *parts, **others)


def of_table(
    name: str,
    options: type[Options],
    ask: Callable[[Run, Options, Progress], pd.DataFrame],
    claims: Callable[[pd.DataFrame], Sequence[Claim]],
    headline: Callable[[pd.DataFrame], pd.DataFrame],
    chart: Callable[[pd.DataFrame], ChartType],
    brief_table: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
    **others: Any,
) -> Question[Options]:
    """A question of the lab whose claims, numbers and pictures are made of its table alone.

    Unless another plan is given, its numbers of the trained network are compared over seeds with
    those of the untrained one.

    Args:
        ask: makes the table.
        claims: what is found, held against its controls.
        brief_table: what a terminal shows of the table.
        others: further attributes of ``Question``.
    """

    return of_answer(
        name,
        options,
        lambda run, options, progress: Answer(ask(run, options, progress)),
        lambda answer: headline(answer.table),
        lambda answer: chart(answer.table),
        claims=lambda answer: claims(answer.table),
        shown=lambda answer: {"": brief_table(answer.table)},
        **{"planned": (Planned("trained", "untrained"),)} | others,
    )


def arguments_of(options: DataclassInstance) -> dict[str, Any]:
    """The options as JSON-able values, without those that say how work is done."""
    how = {f.name for kind in (Works, Trains) if isinstance(options, kind) for f in fields(kind)}
    return {k: v for k, v in plain(asdict(options)).items() if k not in how}


def numbers(rows: Iterable[tuple[str, str, float | None]]) -> pd.DataFrame:
    """The table that every ``headline`` returns: the numbers that are compared over seeds.

    Returns:
        One row per number. Columns: variable and of, which together name the number, and value,
        NaN where it is not defined.
    """
    table = pd.DataFrame(list(rows), columns=["variable", "of", "value"])
    return table.astype({"value": float})


def row_numbers(
    table: pd.DataFrame, variable: str, of: str = "{model}", value: str = "value"
) -> pd.DataFrame:
    """``numbers``, one of each row of a table.

    Args:
        variable, of: the name of the number, in which "{column}" stands for what the row has there.
        value: the column of the number.
    """
    rows = table.to_dict("records")
    return numbers((variable.format(**row), of.format(**row), row[value]) for row in rows)


def question(name: str) -> Question[Any]:
    """A question, imported when asked for. Raises UserError for an unknown name."""
    at = entry(name)
    result = at.load()
    if not isinstance(result, Question) or result.name != name:
        raise UserError(
            f"{at.value} is no question named {name!r}: "
            "register an object of analyses.answers.Question under its own name"
        )
    return result


def models_of(run: Run, progress: Progress = quiet) -> Iterator[tuple[str, LanguageModel]]:
    """The trained model and its control, the untrained one, each with its name."""
    for done, (name, model) in enumerate(
        (("trained", run.model()), ("untrained", run.untrained()))
    ):
        progress(done, 2, name)
        yield name, model
    progress(2, 2, "done")


# -- asking ---------------------------------------------------------------------------------------


def answer(
    run: Run, name: str, options: Any = None, progress: Progress = quiet, again: bool = False
) -> tuple[Answer, bool]:
    """The answer to a question. It is read from the run's folder if the same was asked before.

    Args:
        options: the question's own; None stands for the defaults.
        again: answer afresh in any case.

    Returns:
        The answer, and True if it was kept from an earlier time.
    """
    analysis = question(name)
    options = analysis.options() if options is None else options
    require(run, *analysis.needs)
    arguments = arguments_of(options)
    if not again and (kept := Answers.of(run, name).asked(arguments)):
        return kept, True
    what = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()[:8]
    with locked(run.path / RESULTS / f"{name}-{what}"):  # two who ask the same compute it once
        if not again and (kept := Answers.of(run, name).asked(arguments)):
            return kept, True
        start = time.monotonic()
        result = fresh_answer(run, analysis, options, progress)
        seconds = round(time.monotonic() - start, 2)
        return save(run.path, name, analysis.asks, result, analysis.chart(result), seconds), False


def fresh_answer(
    run: Run, analysis: Question[Any], options: Any, progress: Progress = quiet
) -> Answer:
    """The answer to a question, with its claims and numbers; it is not kept."""
    return weighed(run, analysis, options, analysis.analyse(run, options, progress))


def weighed(run: Run, analysis: Question[Any], options: Any, result: Answer) -> Answer:
    """The answer that ``analyse`` gave, with its claims and numbers."""
    claims = tuple(analysis.claims(result))
    rows = analysis.headline(result).astype(object)
    knowledge = _knowledge_of(run) if analysis.of_inside else None
    return replace(
        result,
        sentence=told(claims, knowledge) if claims else result.sentence,
        arguments=arguments_of(options),
        model_hash=run.model_hash(),
        claims=claims,
        knowledge=knowledge,
        numbers=tuple(rows.where(rows.notna(), None).itertuples(index=False, name=None)),
    )


def _knowledge_of(run: Run) -> Knowledge:
    """The knowledge that a run's network has of its language, in words of the training window."""
    from analyses.knowledge import knowledge  # it loads PyTorch

    lengths = run.language.lengths(run.config.max_n)
    return knowledge(run.model(), run.language, run.objective, lengths)


@dataclass(frozen=True)
class Answers:
    """The answers to a question that a folder keeps, as far as this version of the lab would give
    them.

    Attributes:
        folder: a run's, or a study's.
        name: the name of the question.
        model_hash: SHA-256 of the weights that they are about; "" of a study.

    Raises:
        UserError: by each method, where what it looks for is damaged.
    """

    folder: Path
    name: str
    model_hash: str = ""

    @staticmethod
    def of(run: Run, name: str) -> Answers:
        """Those of a run, about the checkpoint looked at."""
        return Answers(run.path, name, run.model_hash() if run.steps() else "")

    def all(self) -> list[Kept]:
        """All of them, those about other weights and by other versions too, the newest first."""
        return kept_in(self.folder, self.name)

    def current(self) -> list[Kept]:
        """Those about these weights, and by this version of the lab, the newest first."""
        return [kept for kept in self.all() if self._are(kept.record)]

    def asked(self, arguments: Mapping[str, Any]) -> Answer | None:
        """The answer that was asked with these options, as ``arguments_of`` gives them."""
        return self._newest(lambda record: self._are(record) and record.arguments == arguments)

    def latest(self) -> Answer | None:
        """The answer that was asked last; where there is none, the last about other weights."""
        return self._newest(self._are) or self._newest(self._of_version)

    def _are(self, record: Record) -> bool:
        """Is it about these weights, and by this version of the lab?"""
        return record.model_hash == self.model_hash and self._of_version(record)

    def _of_version(self, record: Record) -> bool:
        """Is it by this version of the lab?"""
        return record.code == code_of(self.name)

    def _newest(self, fits: Callable[[Record], bool]) -> Answer | None:
        if (pair := newest(self.folder, self.name, fits)) is None:
            return None
        kept, content = pair
        table = pd.read_parquet(io.BytesIO(content))
        return Answer(table, **_shared(kept.record), folder=kept.folder)


def scorecard(run: Run) -> pd.DataFrame:
    """One row per question that the run keeps an answer to about the checkpoint looked at.

    Columns: question, finding, grade, why.
    """
    rows = [
        (name, answer.verdict.short, answer.verdict.grade, answer.verdict.why)
        for name in registered()
        if (answers := Answers.of(run, name)) and (answer := answers.latest())
        if answer.model_hash == answers.model_hash
    ]
    return pd.DataFrame(rows, columns=["question", "finding", "grade", "why"])


def chosen_options(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an answer that are not the default ones."""
    default = plain(asdict(question(name).options()))
    return {key: value for key, value in plain(arguments).items() if default.get(key) != value}


def asked_with(name: str, arguments: Mapping[str, Any]) -> str:
    """The options of an answer in words: those that are not the default ones."""
    differ = chosen_options(name, arguments).items()
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in differ) or "the defaults"


LIBRARIES = (
    *(*PACKAGES, "scikit-learn", "shap", "lime", "captum", "aalpy", "distributed", "transformers"),
)


def save(
    folder: Path,
    name: str,
    asks: str,
    result: Answer,
    figure: ChartType | None,
    seconds: float | None = None,
) -> Answer:
    """Keeps an answer with its figures, all of it or nothing.

    Args:
        folder: a run's, or a study's.
        asks: the question in words.
        figure: None where nobody looks at a picture, for example where there are hundreds of runs.
        seconds: how long it took.

    Returns:
        The answer, with the folder that it is kept in.

    Raises:
        UserError: the folder cannot be written.
    """
    record = Record(
        analysis=name,
        question=asks,
        **_shared(result),
        code=code_of(name),
        asked_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        seconds=seconds,
        versions=installed_versions(LIBRARIES),
    )
    drawn = dict[str, bytes]()
    if figure is not None:
        from analyses import rendering  # it loads Altair, and most answers are only read

        once = rendering.Once(figure)
        drawn = {ending: rendering.render(once, ending) for ending in ("svg", "html")}
    return replace(result, folder=write(folder, record, result.table, drawn))


def _shared(source: Answer | Record) -> dict[str, Any]:
    """What an answer and its record both hold, by name."""
    names = {f.name for f in fields(Answer)} & set(Record.model_fields)
    return {name: getattr(source, name) for name in names}


def plain(value: Any) -> Any:
    """A value in the types of JSON: numpy's numbers become Python's, tuples become lists."""
    return json.loads(json.dumps(value, default=lambda v: v.item()))
