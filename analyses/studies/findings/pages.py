"""Pages of findings, written from kept tables alone.

    DOCS/findings/NAME.md            the template: words by hand, every figure from a kept table
    DOCS/pages/findings/NAME.md      the page that is written from it, with its pictures beside it

A template is Markdown with Jinja's ``{{ }}``. ``table("length")`` is a kept table, and its methods
are those of ``tables.Table``. ``settings``, ``bands``, ``reached``, ``further`` and ``tests`` are
tables of a sweep, ``picture`` is its chart, ``grid`` any two factors of any table. ``origins`` is
the list at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined, TemplateError

from analyses.answers import Answer, render
from analyses.charts.sweeps import band_chart, chart, short
from analyses.studies.findings.tables import DATA, Table, load, with_interval
from analyses.studies.sweeps import over_seeds, paired
from analyses.studies.sweeps.further import Name
from analyses.studies.sweeps.measures import Measure, by_seed
from analyses.studies.sweeps.summary import readable
from interp.statistics import seeds_interval, wilson
from models.errors import UserError
from models.reading import read_bytes
from models.runs.files import write_bytes

TEMPLATES = Path("findings")
PAGES = Path("pages") / "findings"
BY_HAND = TEMPLATES / "by-hand.txt"
"""Pages whose figures were written down before tables were kept, one in a line. The list may only
grow shorter."""
MARK = "<!-- Written by `lab report` from docs/findings/{name}.md: change that, not this. -->"

USED = re.compile(r"table\([\"']([\w-]+)[\"']\)")
FIGURE = re.compile(r"(?<![\w.,^-])(\d[\d,]*\.\d+%?|\d[\d,]*%|\d[\d,]* of (?:the )?\d[\d,]*)(?!\w)")
"""What a result looks like: a decimal number, a percentage, so many of so many."""
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


# -- what a template may call ---------------------------------------------------------------------


def markdown(table: pd.DataFrame) -> str:
    """A table for a page."""
    head = [str(column) for column in table.columns]
    rows = [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def settings(found: Table) -> str:
    """Of a sweep: a row per language and setting, as `lab sweep` tells it."""
    rows = pd.DataFrame(found.findings["settings"])
    shown = readable(rows, found.by)
    for column in ("best", "mean"):
        shown[column] = [f"{100 * share:.1f}%" for share in shown[column]]
    return markdown(shown)


def values(found: Table) -> pd.DataFrame:
    """Of a sweep: the numbers by which its settings are compared, as of ``measures.by_seed``."""
    return by_seed(found.rows, found.by, Measure.model_validate(found.origin.arguments["compare"]))


def by_bands(found: Table) -> str:
    """Of a sweep with bands: the share right of sizes up to so many windows, mean over seeds with
    the 95% interval."""
    parts = []
    for (name, setting), rows in values(found).groupby(["language", "setting"], sort=False):
        row = {"language": name, "setting": setting}
        for band, part in rows.groupby("band"):
            row[f"x{band}"] = with_interval(*seeds_interval(part["value"].to_numpy()))
        flawless = rows.groupby("seed")["value"].min().eq(1).sum()
        parts.append(row | {"all right": f"{flawless} of {rows['seed'].nunique()}"})
    return markdown(pd.DataFrame(parts))


def reached(found: Table, windows: int) -> str:
    """Of a sweep: how many seeds of a setting are exact on all sizes tested up to so many windows,
    with Wilson's 95% interval of the share."""
    lines = []
    for values_of, rows in found.rows.groupby(["language", *found.by], sort=False):
        near = rows[rows["length"] <= windows * rows["window"]]
        exact = near.groupby("seed")["exact"].min().eq(1)
        low, high = wilson(int(exact.sum()), len(exact))
        line = dict(zip(["language", *map(short, found.by)], map(str, values_of), strict=True))
        share = f"[{100 * low:.0f}%, {100 * high:.0f}%]"
        lines.append(line | {"seeds": f"{exact.sum()} of {len(exact)} {share}"})
    return markdown(pd.DataFrame(lines))


def further(found: Table, name: Name) -> str:
    """Of a sweep: one of its further measures, over seeds."""
    return markdown(over_seeds.wide(pd.DataFrame(found.findings["measures"]), found.by)[name])


def tests(found: Table) -> str:
    """Of a sweep: the best setting of each language beside every other one."""
    told = paired.versus(pd.DataFrame(found.findings["pairs"]).round(3))
    return "\n\n".join(f"{title}:\n\n{markdown(rows)}" for title, rows in told.items())


def grid(
    found: Table,
    down: str,
    across: str,
    value: str,
    style: str = "share",
    unit: str = "run",
) -> str:
    """Two factors of a table: the mean over units in each cell, with its 95% interval."""
    rows, columns = (list(dict.fromkeys(found.rows[each])) for each in (down, across))
    lines = []
    for row in rows:
        line: dict[str, str] = {down: str(row)}
        for column in columns:
            cell = found.rows[(found.rows[down] == row) & (found.rows[across] == column)]
            numbers = cell.groupby(unit)[value].mean().dropna().to_numpy(dtype=float)
            line[str(column)] = (
                with_interval(*seeds_interval(numbers), style) if len(numbers) else "-"
            )
        lines.append(line)
    return markdown(pd.DataFrame(lines))


def origins(named: Sequence[Table]) -> str:
    """Where the figures come from: the last part of every page."""
    rows = [
        {
            "table": f"`{DATA}/{each.name}.parquet`",
            "command": f"`{each.origin.command}`",
            "answered": each.date,
            "commit": each.origin.commit,
            "machine": each.origin.machine,
        }
        for each in named
    ]
    return f"## Where the figures come from\n\n{markdown(pd.DataFrame(rows))}"


# -- writing and checking -------------------------------------------------------------------------


def templates(docs: Path) -> list[str]:
    """The names of all pages that are written."""
    return sorted(path.stem for path in (docs / TEMPLATES).glob("*.md"))


def written(docs: Path, name: str) -> tuple[str, dict[str, bytes]]:
    """A page, and its pictures by the names of their files.

    Raises:
        UserError: a table is missing or was changed; the template is wrong.
    """
    used: dict[str, Table] = {}
    pictures: dict[str, bytes] = {}

    def table(of: str) -> Table:
        used[of] = used[of] if of in used else load(docs, of)
        return used[of]

    def picture(found: Table, says: str) -> str:
        file = f"{found.name}.svg"
        with_bands = found.origin.arguments["compare"]["bands"]
        answer = Answer(found.rows, "", {}, found.origin.arguments)
        figure = band_chart(values(found)) if with_bands else chart(answer)
        pictures[file] = render(figure, "svg")
        return f"![{says}]({file})"

    file = docs / TEMPLATES / f"{name}.md"
    source = read_bytes(file, "check the name").decode()
    pages = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    called: dict[str, Any] = {"table": table, "picture": picture, "origins": origins}
    called |= {"settings": settings, "bands": by_bands, "tests": tests, "grid": grid}
    called |= {"reached": reached, "further": further}
    try:
        text = pages.from_string(source).render(**called)
    except (TemplateError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{file} cannot be written ({error}): correct it there") from None
    return f"{MARK.format(name=name)}\n\n{text}", pictures


def write(docs: Path, name: str) -> Path:
    """Writes a page with its pictures. Raises UserError as ``written``."""
    text, pictures = written(docs, name)
    for file, content in pictures.items():
        write_bytes(docs / PAGES / file, content)
    path = docs / PAGES / f"{name}.md"
    write_bytes(path, text.encode())
    return path


def faults(docs: Path) -> list[str]:
    """What is stale: pages that are not what their tables say, tables that no page uses, figures
    that were typed by hand, and pages from neither. Empty: all is well."""
    found, used = [], set[str]()
    by_hand = read_bytes(docs / BY_HAND, "restore it").decode().split()
    for name in templates(docs):
        path, template = docs / PAGES / f"{name}.md", docs / TEMPLATES / f"{name}.md"
        used |= set(USED.findall(template.read_text()))
        try:
            text, pictures = written(docs, name)
        except UserError as error:
            found.append(str(error))
            continue
        if not path.exists() or path.read_text() != text:
            found.append(f"{path} is not what its tables say: run `lab report`")
        found += [
            f"{path.parent / file} is missing: run `lab report`"
            for file in pictures
            if not (path.parent / file).exists()
        ]
        found += [
            f"{template} has {each} typed by hand: take it from a table"
            for each in figures(template.read_text())
        ]
        if name in by_hand:
            found.append(f"{docs / BY_HAND} names {name}, which is written from tables: drop it")
    pages = {path.stem for path in (docs / PAGES).glob("*.md")} - {"index"}
    for name in sorted(pages - set(templates(docs)) - set(by_hand)):
        found.append(
            f"{docs / PAGES / name}.md has figures that no kept table backs: give it a "
            f"template, {docs / TEMPLATES / name}.md"
        )
    tables = {path.stem for path in (docs / DATA).glob("*.parquet")}
    found += [
        f"{docs / DATA / name}.parquet is used by no page: remove it, or write one"
        for name in sorted(tables - used)
    ]
    return found + _elsewhere(docs, by_hand)


def _elsewhere(docs: Path, by_hand: Sequence[str]) -> list[str]:
    """Figures of the README and of the other pages that stand on no page of findings."""
    all_findings = "\n".join(path.read_text() for path in sorted((docs / PAGES).glob("*.md")))
    known = set(FIGURE.findall(all_findings))
    readme = docs.parent / "README.md"
    pages = [*([readme] if readme.exists() else []), *sorted((docs / "pages").rglob("*.md"))]
    found = []
    for path in pages:
        named = path.relative_to(docs.parent).with_suffix("").as_posix()
        if path.parent == docs / PAGES or named in by_hand:
            continue
        text = path.read_text()
        shown = " ".join(re.findall(r"```.*?```", text, re.DOTALL))  # the tests compare these
        found += [
            f"{path} says {each}, which no page of findings says: correct it, or keep its table"
            for each in figures(text)
            if each not in known and each not in shown
        ]
    return found


@cache
def figures(text: str) -> list[str]:
    """All that look like results in the prose of a page or a template."""
    for part in NO_RESULT:
        text = part.sub(" ", text)
    return FIGURE.findall(text)
