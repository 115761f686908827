"""Pages of findings, written from kept tables alone.

    DOCS/findings/NAME.md            the template: words by hand, every figure from a kept table
    DOCS/pages/findings/NAME.md      the page that is written from it, with its pictures beside it

A template is Markdown with Jinja's ``{{ }}``. ``table("length")`` is a kept table, and its methods
are those of ``tables.Table``. ``settings``, ``bands``, ``reached``, ``further``, ``tests`` and
``laws`` are tables of a sweep, ``recovered`` is one of planted rules, ``beside`` one of what
`lab seeds` told or tested, ``grid`` any two factors of any table; ``picture``, ``along``,
``law_picture`` and ``recovery_picture`` are charts. ``origins`` is the list at the end, ``claims``
that of all claims.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from altair.typing import ChartType
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from analyses.options.shared import check_replaced
from analyses.options.studies import Size
from analyses.rendering import render
from analyses.studies.findings import parts
from analyses.studies.findings.claims import CURE, claims, unbacked
from analyses.studies.findings.tables import DATA, Table, load
from models.errors import UserError
from models.plain_files import one_form, read_text
from models.runs.files import write_bytes

TEMPLATES = Path("findings")
PAGES = Path("pages") / "findings"
WRITTEN = "<!-- Written by `lab report` "
MARK = WRITTEN + "from docs/findings/{name}.md: change that, not this. -->"

USED = re.compile(r"table\([\"']([\w-]+)[\"']\)")
FIGURE = re.compile(r"(?<![\w.,^-])(\d[\d,]*\.\d+%?|\d[\d,]*%|\d[\d,]* of (?:the )?\d[\d,]*)(?!\w)")
"""The pattern of a result: a decimal number, a percentage, so many of so many."""
ODD = (TypeError, AttributeError, ValueError)
"""Errors of templates that call what is there in a wrong way."""
NO_RESULT = (
    re.compile(r"```.*?```", re.DOTALL),
    re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`\n]*`"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"\b95% (?=interval|bootstrap|Student)"),
    re.compile(r"Python \d\.\d+"),
)
"""Parts of a page whose numbers are no results: code, commands, links, the level of intervals."""


# -- writing and checking -------------------------------------------------------------------------


def templates(docs: Path) -> list[str]:
    """The names of all pages that are written."""
    return sorted(path.stem for path in (docs / TEMPLATES).glob("*.md"))


def _written(docs: Path, name: str) -> tuple[str, dict[str, ChartType]]:
    """A page, and its charts by the names of their files. They are not drawn yet: it takes longer
    than all the rest, and who looks for faults needs no picture.

    Raises:
        UserError: a table is missing or was changed; the template is wrong.
    """
    used: dict[str, Table] = {}
    charts: dict[str, ChartType] = {}

    def table(of: str) -> Table:
        used[of] = used[of] if of in used else load(docs, of)
        return used[of]

    def drawn(figure: ChartType, file: str, says: str) -> str:
        charts[file] = figure
        return f"![{says}]({file})"

    def picture(data: Table, says: str) -> str:
        return drawn(parts.by_setting(data), f"{data.name}.svg", says)

    def along(
        data: Table, says: str, number: str, place: str | None = None, by: Sequence[str] = ()
    ) -> str:
        file = "-".join([data.name, *filter(None, (number, place))]).replace(".", "-")
        return drawn(parts.along(data, number, place, by), f"{file}.svg", says)

    def law_picture(data: Table, says: str, size: Size) -> str:
        return drawn(parts.law_chart(data, size), f"{data.name}.svg", says)

    def recovery_picture(data: Table, says: str) -> str:
        return drawn(parts.recovery_picture(data), f"{data.name}.svg", says)

    file = docs / TEMPLATES / f"{name}.md"
    source = read_text(file, "check the name")
    # A template may come from another reader's folder: it calls what is named here, and no more.
    pages = SandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    called: dict[str, Any] = {"table": table, "picture": picture, "origins": parts.origins}
    called |= {"along": along, "laws": parts.laws, "law_sentences": parts.law_sentences}
    called |= {"law_picture": law_picture, "settings": parts.settings, "bands": parts.by_bands}
    called |= {"tests": parts.tests, "grid": parts.grid, "medians": parts.medians}
    called |= {"smallest": parts.smallest, "recovered": parts.recovered, "beside": parts.beside}
    called |= {"recovery_picture": recovery_picture}
    called |= {"reached": parts.reached, "further": parts.further}
    called |= {"claims": lambda: parts.listed(claims(docs))}
    try:
        text = pages.from_string(source).render(**called)
    except (TemplateError, LookupError, ArithmeticError, *ODD) as error:
        raise UserError(f"{file} cannot be written ({error}): correct it there") from None
    return f"{MARK.format(name=name)}\n\n{text}", charts


def write(docs: Path, name: str) -> Path:
    """Writes a page with its pictures. Raises UserError as ``_written``, and where a page or a
    picture is in the way that the lab has not written."""
    path = docs / PAGES / f"{name}.md"
    if path.exists() and not read_text(path, "move it away").startswith(WRITTEN):
        raise UserError(f"{path} is not of the lab: move it away, or rename its template")
    text, charts = _written(docs, name)
    for file in charts:
        check_replaced(docs / PAGES / file)
    pictures = {file: render(figure, "svg") for file, figure in charts.items()}
    for file, content in pictures.items():
        write_bytes(docs / PAGES / file, content)
    write_bytes(path, text.encode())
    return path


def faults(docs: Path) -> list[str]:
    """Stale parts: pages that are not what their tables say, tables that no page uses, figures
    that were typed by hand, pages from neither, and claims that stand on nothing. Empty: all is
    well."""
    messages, used = [], set[str]()
    for name in templates(docs):
        path, template = docs / PAGES / f"{name}.md", docs / TEMPLATES / f"{name}.md"
        used |= set(USED.findall(source := read_text(template, CURE)))
        try:
            text, charts = _written(docs, name)
        except UserError as error:
            messages.append(str(error))
            continue
        if not path.exists() or read_text(path, CURE) != one_form(text):
            messages.append(f"{path} is not what its tables say: run `lab report`")
        messages += [
            f"{path.parent / file} is missing: run `lab report`"
            for file in charts
            if not (path.parent / file).exists()
        ]
        messages += [
            f"{template} has {number} typed by hand: take it from a table"
            for number in figures(source)
        ]
    pages = {path.stem for path in (docs / PAGES).glob("*.md")} - {"index"}
    for name in sorted(pages - set(templates(docs))):
        messages.append(
            f"{docs / PAGES / name}.md has figures that no kept table backs: give it a "
            f"template, {docs / TEMPLATES / name}.md"
        )
    tables = {path.stem for path in (docs / DATA).glob("*.parquet")}
    messages += [
        f"{docs / DATA / name}.parquet is used by no page: remove it, or write one"
        for name in sorted(tables - used)
    ]
    return [*messages, *_elsewhere(docs), *unbacked(docs)]


def _elsewhere(docs: Path) -> list[str]:
    """Figures of the README and of the other pages that stand on no page of findings."""
    all_findings = "\n".join(read_text(path, CURE) for path in sorted((docs / PAGES).glob("*.md")))
    numbers = set(FIGURE.findall(all_findings))
    readme = docs.parent / "README.md"
    pages = [*([readme] if readme.exists() else []), *sorted((docs / "pages").rglob("*.md"))]
    messages = []
    for path in pages:
        if path.parent == docs / PAGES:
            continue
        text = read_text(path, CURE)
        shown = " ".join(re.findall(r"```.*?```", text, re.DOTALL))  # the tests compare these
        messages += [
            f"{path} says {number}, which no page of findings says: correct it, or keep its table"
            for number in figures(text)
            if number not in numbers and number not in shown
        ]
    return messages


@cache
def figures(text: str) -> list[str]:
    """All that look like results in the prose of a page or a template."""
    for part in NO_RESULT:
        text = part.sub(" ", text)
    return FIGURE.findall(text)
