"""Every published claim, with what it stands on: table, test, n, unit and control.

A claim is what stands in bold on a page of findings, or an item of the README's list of findings.
``DOCS/findings/claims.csv`` has a row for each: ``page``, the ``claim`` (``*`` for its figures),
``table`` (one of ``DOCS/findings/data``, or several), ``test``, ``n``, ``unit`` and ``control``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path

import pandas as pd

from analyses.studies.findings.tables import DATA
from models.errors import UserError
from models.plain_files import read_text

CLAIMS = Path("findings") / "claims.csv"
COLUMNS = ("page", "claim", "table", "test", "n", "unit", "control")
BOLD = re.compile(r"\*\*([^*]+)\*\*")
SHORTEST = 4
"""Words of the shortest claim: shorter names stand in bold too."""
CODE = re.compile(r"```.*?```", re.DOTALL)
LIST = re.compile(r"^## \w+ findings\n(.*?)^## ", re.DOTALL | re.MULTILINE)
CURE = "put a file of text in its place"
"""The cure for a page that cannot be read, or for the list of claims."""


def claims(docs: Path) -> pd.DataFrame:
    """The rows of the list of claims, all text; none without the list. Raises UserError for a
    row with more or fewer columns."""
    if not (docs / CLAIMS).exists():
        return pd.DataFrame(columns=COLUMNS)
    rows = [row for row in csv.reader(StringIO(read_text(docs / CLAIMS, CURE))) if row]
    for number, row in enumerate(rows, 1):
        if len(row) != len(COLUMNS) or tuple(rows[0]) != COLUMNS:
            raise UserError(
                f"{docs / CLAIMS}, row {number}: write {','.join(COLUMNS)}, with quotes around "
                "what has a comma"
            )
    return pd.DataFrame(rows[1:], columns=COLUMNS, dtype=str)


def published(docs: Path) -> Iterator[tuple[str, str]]:
    """The name of a page, and a claim on it."""
    for path in sorted((docs / "pages" / "findings").glob("*.md")):
        text = CODE.sub("", read_text(path, CURE))
        for bold in map(str.split, BOLD.findall(text)):
            if len(bold) >= SHORTEST and not bold[-1].endswith("?"):
                yield path.stem, " ".join(bold)
    readme = docs.parent / "README.md"
    listed = LIST.search(read_text(readme, CURE)) if readme.exists() else None
    for item in listed[1].split("\n- ")[1:] if listed else ():
        yield "README", " ".join(re.sub(r"\[(.*?)\]\([^)]*\)", r"\1", item).split())


def unbacked(docs: Path) -> Iterator[str]:
    """Faults: claims without a row, rows without a claim, and rows with a part missing."""
    rows = claims(docs)
    file, sentences = docs / CLAIMS, list(published(docs))
    for page, claim in sentences:
        of_page = rows.loc[rows["page"] == page, "claim"]
        if not any(fnmatchcase(claim, pattern) for pattern in of_page):
            yield f"{page} claims {claim!r}, and {file} does not say by what: give it a row"
    for number, row in enumerate(rows.to_dict("records"), 2):
        where = f"{file}, line {number}"
        if not any(row["page"] == page and fnmatchcase(c, row["claim"]) for page, c in sentences):
            yield f"{where}: no page claims {row['claim']!r}: take it out"
        if missing := [name for name in COLUMNS if not row[name].strip()]:
            yield f"{where}: {missing[0]} is missing: name it, or soften the claim"
        tables = row["table"].split()
        if not all((docs / DATA / f"{name}.parquet").exists() for name in tables):
            yield f"{where}: there is no kept table {row['table']}: name one"
