"""The terminal: options in, progress on stderr, answers on stdout, a mistake in one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import make_dataclass
from difflib import get_close_matches
from functools import partial
from itertools import dropwhile, pairwise, takewhile
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import regex
import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from analyses.options.shared import Asks, Shows
from models.errors import CURES, UserError, cure, told, unknown

if TYPE_CHECKING:
    import pandas as pd

    from analyses.answers import Progress as Report

T = TypeVar("T")

for _name in ("stdout", "stderr"):
    if getattr(sys, _name) is None:  # closed, as `lab >&-` does: what is printed goes nowhere
        setattr(sys, _name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))

WIDE = 160
"""Columns where there is no terminal, as in a pipe: a table is not cut to 80."""


class _Harmless(Console):
    """A console on which words from files command nothing: no colour, no title, no clipboard."""

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """Rich's rendering, in which letters that control a terminal are shown by their number."""
        for part in super().render(*args, **kwargs):
            yield part if part.control else part._replace(text=UNSEEN.sub(_number, part.text))

    def on_broken_pipe(self) -> None:
        """Rich would end the process, with a status of its own."""
        raise BrokenPipeError


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Letters that command a terminal, or turn the direction of what follows."""
JOINERS = r"[\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f]"
"""Letters that form one sign with the one before, as in emoji. After a Latin one none is seen."""
UNSEEN = regex.compile(
    rf"{CONTROLS.pattern}|(?<![^ -\u024f]){JOINERS}|(?!{JOINERS})\p{{DI}}|[\ufff9-\ufffb]"
)
"""The same, and letters that no terminal shows: two words with and without one look alike."""
FORMULA = re.compile(r"[=@\uff1d\uff20\uff0b\uff0d\t\r\n](?!$)|[+-](?!$|[\d.]+$)")
"""Beginnings of cells that a spreadsheet would compute; those of double width count where Chinese
and Japanese are written. A number is none."""


def as_csv(table: pd.DataFrame) -> str:
    """A table as CSV. No text in it commands a terminal, and none is a formula of a spreadsheet: a
    quote stands before one, as a person would type it there."""

    def harmless(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = CONTROLS.sub(_number, value)
        return f"'{text}" if FORMULA.match(text) else text

    cells = table.map(harmless) if len(table) else table
    return str(cells.rename(columns=harmless).to_csv(index=False))


def as_latex(table: pd.DataFrame, origin: str) -> str:
    """A table in LaTeX, with the rules of its package booktabs, below a comment on its origin."""
    table = table.assign(**(table.select_dtypes("float").round(3) + 0.0))  # no -0.000
    shown = table.style.hide(axis="index").format(escape="latex", precision=3, na_rep="")
    rows = shown.format_index(escape="latex", axis="columns").to_latex(hrules=True)
    return f"% {' '.join(origin.split())}\n{rows}"


def _number(control: Any) -> str:
    return ascii(control[0])[1:-1]


PLAIN = partial(_Harmless, markup=False, emoji=False, highlight=False)
"""Words of a corpus, names and paths are shown as they are. What is bold or dim is a ``Text``."""
OUT = PLAIN(soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
ERR = PLAIN(stderr=True)


EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""
MINUTE = 60.0


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar that takes (done, total, what); it vanishes when done.

    Without a terminal, as in a log file, it is a line every five seconds.
    """
    if not ERR.is_terminal:
        yield _progress_lines()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERR, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )


def _progress_lines() -> Report:
    """Prints (done, total, what) to stderr, at most one line every five seconds, with the time that
    is left if it goes on as it did since the first report, from a minute on."""
    last = begun = time.monotonic()
    first: float | None = None

    def report(done: float, total: float, what: str) -> None:
        nonlocal last, begun, first
        now = time.monotonic()
        if first is None or done < first:
            begun, first = now, done
        if now - last >= EVERY:
            last = now
            left = (total - done) * (now - begun) / (done - first) if done > first else 0.0
            rest = f", about {left / 60:.0f} min left" if left >= MINUTE else ""
            print(f"{what}: {done:g} of {total:g}{rest}", file=sys.stderr, flush=True)

    return report


def shown(how: Shows, table: pd.DataFrame, content: Mapping[str, Any] | None = None) -> bool:
    """Prints the answer as JSON or CSV if that was asked for, and returns whether it was.

    Args:
        table: the content of the CSV.
        content: the content of the JSON; without it, the rows of the table.
    """
    if how.csv:
        print(as_csv(table), end="")
    elif how.json:
        rows = json.loads(table.to_json(orient="records", force_ascii=False))
        print_json(rows if content is None else content)
    return how.json or how.csv


def print_json(content: Any) -> None:
    """Prints JSON in which no text commands a terminal; what is no number is null."""
    strict = json.loads(json.dumps(content), parse_constant=lambda name: None)
    text = json.dumps(strict, ensure_ascii=False)
    print(CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text))


def table_of(frame: pd.DataFrame, title: str | None = None) -> Table:
    """A DataFrame as a table for the terminal; numbers to three digits, missing ones as a dash."""
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    for column in frame.columns:
        number = frame[column].dtype.kind in "biuf"
        table.add_column(str(column), justify="right" if number else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> str:
    """A value in a table's cell; a dash where there is none."""
    import pandas as pd  # half a second, and help needs no table

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return UNSEEN.sub(_number, str(value))  # before its column is measured


DASHED = r"[\u2010-\u2015\u2212][^\sA-Za-z]*([A-Za-z][\w.-]*(=.*)?)"
"""An option whose dashes a word processor has made longer."""


def parse(kind: type[T], args: Sequence[str], command: str, default: T | None = None) -> T:
    """The arguments as a dataclass; a mistake becomes one line."""
    for word in args:
        if match := re.fullmatch(DASHED, word):
            raise UserError(f"{word} begins with another dash than -: write --{match[1]}")
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            start = tyro.MISSING_NONPROP if default is None else default
            return tyro.cli(kind, args=list(args), prog=f"lab {command}", default=start)
    except SystemExit as stop:
        if not stop.code:
            raise
        fault = _fault(stderr.getvalue(), args, lambda: option_values(kind, default))
        raise UserError(f"{fault} (see `lab {command} --help`)") from None


def _fault(output: str, args: Sequence[str], options: Callable[[], Iterable[str]]) -> str:
    """Tyro's complaint in one line, with the option that was probably meant.

    tyro draws a box with a title. The fault is its first lines of words.

    Args:
        output: tyro's message.
        options: gives the options of the command.
    """
    for word in args:
        if word.startswith("-") and os.path.isfile(word):
            return f"{word} begins with a dash, as an option does: write ./{word}"
    lines = [line.strip(" │|╭╮╰╯─") for line in output.splitlines()[1:]]
    words = dropwhile(lambda line: not re.search(r"\w", line), lines)
    fault = " ".join(takewhile(lambda line: re.search(r"\w", line), words))
    if number := re.match(r"Error parsing (--[\w.-]+):", fault):
        listed = [line for line in lines if line.startswith(f"{number[1]} ")]
        for kind, form in NUMBERS.items():
            if kind in " ".join((*listed, *fault.split())):
                return f"{number[1]}: write {form}"
    if choice := re.fullmatch(CHOICE, fault):
        name, option, values = choice[1], choice[2], re.findall(r"'([^']*)'", choice[3])
        if "None" in values:  # so tyro calls what is left out; Python then keeps no order
            values = sorted({*values} - {"None"})
        return str(unknown(f"value of {option}" if option[0] == "-" else "name", name, values))
    if lost := re.match(r"Missing value for argument '([\w.]+)'", fault):
        return f"{lost[1]} is missing: write it by itself, in quotes, without an option before it"
    if empty := re.match(r"Missing value for argument '(--[\w.-]+)'", fault):
        after = dict(pairwise(args)).get(empty[1], "")
        example = f"{empty[1]}={after}" if re.match(r"-[^-]", after) else "one after it"
        return f"{empty[1]} has no value: write {example}"
    if lacking := re.match(LACKING, fault):
        if lacking[1].startswith("{"):
            return f"a name is missing: write one of {lacking[1].strip('{}').replace(',', ', ')}"
        return f"{lacking[1]} is missing: write {lacking[2]}"
    if not (extra := re.match(r"Unrecognized options: (.+?)(?:, |$)", fault)):
        return fault
    if extra[1].startswith("-"):
        return f"unknown option {extra[1]}: {_near(extra[1], options()) or 'leave it out'}"
    parts = [part for word in args for part in word.split("=", 1)]
    before = dict(zip(parts[1:], parts, strict=False)).get(extra[1], "")
    if before.startswith("--") and extra[1].lower() in SWITCHED:
        return f"{before} takes no value: write it alone, its opposite alone, or neither"
    return (
        f"{extra[1]!r} is one word too many: leave it out, or put words that belong together in "
        "quotes"
    )


SWITCHED = ("true", "false", "yes", "no", "on", "off", "1", "0")
"""Words that people write behind a switch."""


def _near(option: str, options: Iterable[str]) -> str:
    """A question for the known option that is nearest, with its group or without; empty if none
    is near."""
    query = re.sub(r"no-(\w+)\.", r"\1.no-", option.strip("-").lower())
    names = {part: flag for flag in options for part in (flag[2:], flag[2:].rpartition(".")[2])}
    near = sorted((name for name in names if query in re.split("[.-]", name)), key=len)
    near = near or get_close_matches(query, names, n=1)
    return f"did you mean {names[near[0]]}?" if near else ""


CHOICE = r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)\."
"""Tyro's sentence on a value that is not in the list."""
LACKING = r"Missing from lab .*?: (\S+) (?:\[[^a-z]*\] )?(.*?)\.? \(required\)"
"""Its sentence on what has no default: the name, and what the help says of it."""
NUMBERS = {
    "integer string": "a shorter number",
    "[INT": "whole numbers",
    "INT": "a whole number",
    "FLOAT": "a number",
}
"""The number to write, by Python's words on a failed conversion or the option's kind in help."""


def parse_asked(kind: type[T], args: Sequence[str], command: str) -> tuple[T, Asks]:
    """The options of a question, and those of every question: --again, --json, --csv."""
    combined = make_dataclass(
        "Asked",
        [
            ("options", Annotated[kind, tyro.conf.arg(name="")]),
            ("how", Annotated[Asks, tyro.conf.arg(name="")]),
        ],
    )
    combined.__doc__ = kind.__doc__
    parsed: Any = parse(combined, args, command)
    return parsed.options, parsed.how


def option_values(kind: type[T], default: T | None = None) -> dict[str, list[str]]:
    """Every option of a command, as it is written ("--max-n"), with its values if help lists them.

    Args:
        default: see ``parse``.
    """
    stdout = io.StringIO()
    with suppress(SystemExit), contextlib.redirect_stdout(stdout):
        parse(kind, ["--help"], "", default)
    listed = r"^\W*(?:-h, )?(--[a-z][\w.-]*(?:, --[\w.-]+)*)(?: \{([\w,-]+)\}(?!\|))?"
    rows: list[tuple[str, str]] = re.findall(listed, stdout.getvalue(), flags=re.MULTILINE)
    return {name: values.split(",") for names, values in rows for name in names.split(", ")}


def titled(title: str, text: str) -> Text:
    """A bold title, and a text after it."""
    return Text.assemble((title, "bold"), text)


STOPPED = "stopped; what is finished is kept"
"""The message of a command that was ended by Ctrl+C."""


def exit_status(action: Callable[[], None]) -> int:
    """Does it; a user's mistake is one line on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may not know all letters
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            action()
        finally:
            sys.stdout.flush()
    except UserError as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        _say(STOPPED)
        return 130
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        _drop(sys.stdout)
        return 141
    except OSError as error:
        if error.filename is not None:
            return _refused(f"cannot use {error.filename} ({told(error)}): {cure(error)}")
        if error.errno not in CURES:
            raise
        _drop(sys.stdout)
        return _refused(f"cannot write the answer ({told(error)}): {cure(error)}")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _refused("the memory of this machine is too small for this: ask for less")
    return 0


MOST_TOLD = 1000
"""Letters of the line that tells a mistake. A file's name or an option may be longer than that."""


def _refused(why: str) -> int:
    """Says in one line what is wrong, and returns the exit status of a mistake."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in UNSEEN.sub(_number, why))
    if len(line) > MOST_TOLD:
        line = f"{line[: MOST_TOLD // 2]} ... {line[-MOST_TOLD // 2 :]}"
    _say(line)
    return 2


def _say(line: str) -> None:
    """A line on stderr, if there is room for it."""
    try:
        print(f"lab: {line}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Sends the rest of a stream nowhere. Otherwise Python complains of it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _out_of_memory(error: Exception) -> bool:
    """Is the error that memory is used up? PyTorch raises a RuntimeError of many words."""
    text = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as JSON has it: null for what is missing."""
    return json.loads(table.to_json(orient="records", force_ascii=False))
