"""Labelled lines in the shapes that people have them in, read as one: a label and words.

A file of lines ``label <tab> words`` is read as it stands. Any other shape is told in a sentence.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import regex

from models.errors import UserError, unknown
from models.languages.files.treebank import is_treebank

LABELS = (
    *("label", "gold_label", "class", "group", "column", "target", "category", "acceptability"),
    *("grammatical", "accepted"),
)
HEADERS = {"label", "column", "group", "class"}
"""Names of the label in a file of label, tab, words: such a file is read without a word."""
TEXTS = ("words", "text", "sentence", "line", "string", "sequence", "word", "tokens")
"""Names of columns, as public corpora have them; the first that is there counts."""
PAIRS = "minimal pairs, two labelled lines each"
PAIR = ("sentence_good", "sentence_bad")
"""The columns of minimal pairs (BLiMP): a right sentence beside a wrong one."""
STARS = {"", "*", "**", "?", "??", "*?", "?*"}
"""The third column of acceptability files (CoLA): what the author of a sentence put before it."""
FASTTEXT = "__label__"
JSON = "JSON, an object a line"
COLUMNS = (
    *("lines with a tab", "columns with commas between them"),
    *("columns with semicolons between them", "columns whose last ones are empty"),
    "an acceptability file of four columns",
)
"""Shapes in which it must be told which column holds what."""
IN_OUT = re.compile(r"IN:(.*?)OUT:(.*)")
"""A line of SCAN: commands and what to do."""
QUOTED = re.compile('"((?:[^"]|"")*)"')
"""A text that a program has put in quotes."""
SIGNS = {"+", "-"}
"""The labels of StaMinA; "?" stands before a word whose label is asked for."""
WITHOUT_LABELS = "words of PAutomaC or SPiCe"
NESTED = "\0"
"""The cell of a JSON value that is neither a text nor a list of texts."""
FEW_LETTERS = 4
"""Single words of so few letters are symbols written together, however short and alike they are."""


@dataclass(frozen=True)
class _Table:
    """Cells of a file.

    Attributes:
        shape: what the file was taken for, as a noun.
        rows: rows of cells, all of one length.
        numbers: the line of the file where each row begins, from 1.
        names: the names of the columns; empty where the file does not name them.
        label, words: the columns of the label and of the words; -1 as long as nobody knows.
    """

    shape: str
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int]
    names: Sequence[str] = ()
    label: int = -1
    words: int = -1

    def cells(self, column: int) -> list[str]:
        """The cells of a column, without blanks around them."""
        return [row[column].strip() for row in self.rows]


def labelled(
    lines: Sequence[str], where: str
) -> tuple[list[tuple[int, tuple[str, str]]], str] | None:
    """Labels and texts of the lines of a file, with their numbers, and a sentence on what the file
    was taken for; None where it is a file of label, tab, words, or nothing that is known.

    Raises:
        UserError: the shape is known, and a line does not fit it; or nothing tells which columns
            hold label and words.
    """
    if not lines:
        return None
    refuse_others(lines, where, "label, tab, words")
    table = _read(lines, where)
    if table is None:
        return None
    if table.shape == WITHOUT_LABELS:
        raise UserError(
            f"{where} holds {table.shape}, which have no labels: train with --objective "
            "language-model"
        )
    table = table if table.label >= 0 else _with_columns(table, where)
    labels, texts = (_texts_of(table, column, where) for column in (table.label, table.words))
    texts, letters = _as_symbols(texts)
    usual = not table.names or table.names[0] in HEADERS
    if table.shape == COLUMNS[0] and table.label == 0 and usual and not letters:
        return None
    told = f"read as {table.shape}"
    if table.names:
        told += f": label = {table.names[table.label]}, words = {table.names[table.words]}"
    elif table.shape in COLUMNS:
        told += f": label in column {table.label + 1}, words in column {table.words + 1}"
    return list(zip(table.numbers, zip(labels, texts, strict=True), strict=True)), told + letters


def unlabelled(lines: Sequence[str], where: str) -> tuple[list[tuple[int, str]], str]:
    """The texts of the lines of a file, with their numbers, and a sentence on what the file was
    taken for; "" for lines of words. Labels are left out.

    Raises:
        UserError: the shape is known, and a line does not fit it; or nothing tells which column
            holds the words.
    """
    refuse_others(lines, where, "one sentence a line")
    table = _read(lines, where) if lines else None
    # A comma in each sentence makes no columns.
    if table is None or (table.shape in COLUMNS[1:3] and not {*table.names} & {*TEXTS}):
        texts, letters = _as_symbols([line.strip() for line in lines])
        return list(enumerate(texts, 1)), letters.removeprefix("; ")
    if table.shape == PAIRS:
        right = [at for at, (side, _) in enumerate(table.rows) if side == PAIR[0][9:]]
        rows = [table.rows[at] for at in right]
        numbers = [table.numbers[at] for at in right]
        table = replace(table, rows=rows, numbers=numbers, shape="the good ones of minimal pairs")
    if table.words < 0:
        named = [at for at, name in enumerate(table.names) if name in TEXTS]
        table = replace(table, words=named[0]) if named else _with_columns(table, where)
    texts, letters = _as_symbols(_texts_of(table, table.words, where))
    what = f": words = {table.names[table.words]}" if table.names else ""
    out = "" if table.shape == WITHOUT_LABELS else "; labels are left out"
    told = f"read as {table.shape}{what}{out}{letters}"
    return list(zip(table.numbers, texts, strict=True)), told


def chosen(
    lines: Sequence[str], where: str, columns: Sequence[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """The cells of some columns of each line of a file, with its number.

    Args:
        columns: their names, as the first line has them, or their numbers, from 1.

    Raises:
        UserError: the file has no columns, or no such one; or a cell is no text.
    """
    table = _read(lines, where) if lines else None
    if table is None:
        raise UserError(
            f"{where} has no columns to choose from: put tabs or commas between as many cells on "
            "each line"
        )
    names = list(table.names)
    if not names and not any(name.isdecimal() for name in columns):
        names = list(table.rows[0])
        table = replace(table, rows=table.rows[1:], numbers=table.numbers[1:])
    places = {str(at + 1): at for at in range(len(names or table.rows[0]))}
    places |= {name.strip().lower(): at for at, name in enumerate(names)}
    for name in columns:
        if name.strip().lower() not in places:
            raise unknown("column", name, [name.strip() for name in names] or places)
    texts = [_texts_of(table, places[name.strip().lower()], where) for name in columns]
    return list(zip(table.numbers, zip(*texts, strict=True), strict=True))


def _texts_of(table: _Table, column: int, where: str) -> list[str]:
    """The cells of a column. Raises UserError for one that is no text."""
    texts = table.cells(column)
    for number, cell in zip(table.numbers, texts, strict=True):
        if cell == NESTED:
            raise UserError(
                f"{where}, line {number}: label or words are an object, or lists in a list: write "
                "a text, or a list of texts"
            )
    return texts


def _as_symbols(texts: list[str]) -> tuple[list[str], str]:
    """The texts with blanks between their symbols, and the end of a sentence on what was done."""
    if _are_glued(texts):
        told = "; letters are written together, and each is a symbol"
        return [letters_of(text) for text in texts], told
    if all(len(text.split()) < 2 for text in texts) and any(len(text) > 1 for text in texts):
        cure = "put blanks between its letters if they are symbols"
        return texts, f"; each line is a single word: {cure}"
    return texts, ""


def letters_of(text: str) -> str:
    """The letters of a text, as a reader sees them, with blanks between."""
    return " ".join(regex.findall(r"\X", "".join(text.split())))


def paired(lines: Sequence[str]) -> list[tuple[str, str]] | None:
    """Sources and targets of lines of IN and OUT (SCAN), or of source, target and kind (COGS); None
    where the lines are neither."""
    if lines and all(map(IN_OUT.fullmatch, lines)):
        return [(match[1], match[2]) for line in lines if (match := IN_OUT.fullmatch(line))]
    rows = [line.split("\t") for line in lines]
    return [(row[0], row[1]) for row in rows] if {*map(len, rows)} == {3} else None


def refuse_others(lines: Sequence[str], where: str, layout: str) -> None:
    """Raises UserError for shapes that hold no labels and no pairs."""
    if lines and lines[0].startswith("<?xml"):
        raise UserError(
            f"{where} is XML, as JFLAP writes it: give lines of {layout}, or read it as a "
            "language of your own with --grammar"
        )
    if lines and all(map(IN_OUT.fullmatch, lines)):
        raise UserError(
            f"{where} has pairs of IN and OUT, and no labels: train on them with "
            "--objective sequence-to-sequence"
        )
    if is_treebank(lines):
        raise UserError(
            f"{where} is a treebank (CoNLL-U), whose words have tags and heads, and its sentences "
            f"no label: train with --objective language-model or tags, or write {layout}"
        )


def unquoted(cells: Sequence[str]) -> Sequence[str]:
    """The texts without the quotes of a program: R puts them around all, Excel around those with a
    comma or a quote, and around a line whose tab it took for a letter."""
    inside = [match[1] if (match := QUOTED.fullmatch(cell)) else None for cell in cells]
    pairs = list(zip(cells, inside, strict=True))
    quoted = [bool(re.search('[,"]', cell if text is None else text)) for cell, text in pairs]
    if None not in inside or quoted == [text is not None for text in inside]:
        return [cell if text is None else text.replace('""', '"') for cell, text in pairs]
    return cells


# -- one function a shape -------------------------------------------------------------------------


def _read(lines: Sequence[str], where: str) -> _Table | None:
    """The cells of a file, if its shape is known. Raises UserError for a line that does not fit."""
    shapes = (_objects, _fasttext, _stamina, _counted, _separated)
    return next((table for read in shapes if (table := read(lines, where)) is not None), None)


def _objects(lines: Sequence[str], where: str) -> _Table | None:
    if lines[0].lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            json.loads("\n".join(lines))
            raise UserError(f"{where} is one JSON value: write an object a line (jq -c '.[]')")
    if not lines[0].lstrip().startswith("{"):
        return None
    objects = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{where}, line {number}: no JSON object: write one a line")
        objects.append({str(name): _cell(value) for name, value in row.items()})
    names = list(objects[0])
    if set(PAIR) <= set(names):
        rows = [(kind[9:], row.get(kind, "")) for row in objects for kind in PAIR]
        numbers = [number for number, _ in enumerate(objects, 1) for _ in PAIR]
        return _Table(PAIRS, rows, numbers, (), 0, 1)
    for number, row in enumerate(objects, 1):
        if missing := [name for name in names if name not in row]:
            raise UserError(f"{where}, line {number}: {missing[0]} is missing: line 1 has it")
    cells = [[row[name] for name in names] for row in objects]
    return _Table(JSON, cells, range(1, len(cells) + 1), names)


def _cell(value: object) -> str:
    if isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(part, dict | list) for part in value)
    ):
        return NESTED
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _fasttext(lines: Sequence[str], where: str) -> _Table | None:
    if not all(line.startswith(FASTTEXT) for line in lines):
        return None
    rows = [(*line.removeprefix(FASTTEXT).split(None, 1), "", "")[:2] for line in lines]
    if any(text.startswith(FASTTEXT) for _, text in rows):
        raise UserError(f"{where}: a line has two labels of fastText: leave one")
    return _Table("lines of fastText", rows, range(1, len(rows) + 1), (), 0, 1)


def _stamina(lines: Sequence[str], where: str) -> _Table | None:
    rows = [line.split(None, 1) for line in lines]
    signs = {row[0] if row else "" for row in rows}
    if not SIGNS <= signs <= SIGNS | {"?"} or "\t" in lines[0]:  # a "-" begins talk too
        return None
    if "?" in signs:
        raise UserError(f"{where}: StaMinA's ? is no label: leave the lines with it out")
    cells = [(*row, "")[:2] for row in rows]
    return _Table("lines of StaMinA", cells, range(1, len(cells) + 1), (), 0, 1)


def _counted(lines: Sequence[str], where: str) -> _Table | None:
    """Lines of Abbadingo, or of PAutomaC, which have no labels: both begin with two numbers."""
    head = [int(word) if word.isdecimal() else -1 for word in lines[0].split()]
    rows = [line.split() for line in lines[1:]]
    if len(head) != 2 or min(head) < 0 or not rows or not all(rows):
        return None
    bare = all(row[0] == str(len(row) - 1) for row in rows)
    if not bare and any(len(row) < 2 for row in rows):
        return None
    if len(rows) != head[0]:
        raise UserError(f"{where}: its first line says {head[0]} lines, and {len(rows)} follow")
    if bare:
        texts = [(" ".join(row[1:]),) for row in rows]
        return _Table(WITHOUT_LABELS, texts, range(2, len(rows) + 2), (), -1, 0)
    for number, (_, size, *symbols) in enumerate(rows, 2):
        if size != str(len(symbols)):
            raise UserError(
                f"{where}, line {number}: it says {size} symbols, and has {len(symbols)}"
            )
    cells = [(label, " ".join(symbols)) for label, _, *symbols in rows]
    return _Table("lines of Abbadingo", cells, range(2, len(cells) + 2), (), 0, 1)


def _separated(lines: Sequence[str], where: str) -> _Table | None:
    """Columns with tabs, commas or semicolons between them."""
    table: _Table | None = None
    rows: Sequence[Sequence[str]] = ()
    if "\t" in lines[0]:
        rows = [line.split("\t") for line in unquoted(lines)]
        if len({len(row) for row in rows}) == 1:
            columns = [unquoted(column) for column in zip(*rows, strict=True)]
            rows = list(zip(*columns, strict=True))
            table = _Table(COLUMNS[0], rows, range(1, len(rows) + 1))
    else:
        for mark, shape in ((",", COLUMNS[1]), (";", COLUMNS[2])):
            try:
                read = csv.reader(lines, delimiter=mark, strict=True)
                rows, ends = zip(*((row, read.line_num) for row in read), strict=True)
            except csv.Error:
                continue
            _refuse_ragged(rows, ends, mark, where)
            if len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
                table = _Table(shape, rows, [1, *(end + 1 for end in ends[:-1])])
                break
    if table is None:
        return None
    rows = list(table.rows)
    while len(rows[0]) > 2 and not any(row[-1].strip() for row in rows):
        rows = [row[:-1] for row in rows]
        table = replace(table, shape=COLUMNS[3])
    names = [cell.strip().lower() for cell in rows[0]]
    if set(PAIR) <= set(names):
        sides = [(kind[9:], names.index(kind)) for kind in PAIR]
        cells = [(side, row[at]) for row in rows[1:] for side, at in sides]
        return _Table(PAIRS, cells, np.repeat(table.numbers[1:], 2).tolist(), (), 0, 1)
    places = [at for at, name in enumerate(names) if name in LABELS or name in TEXTS]
    alone = all(row[at].strip().lower() != names[at] for at in places for row in rows[1:])
    if places and alone:
        return replace(table, rows=rows[1:], numbers=table.numbers[1:], names=names)
    return replace(table, rows=rows)


def _refuse_ragged(
    rows: Sequence[Sequence[str]], ends: Sequence[int], mark: str, where: str
) -> None:
    """Raises UserError where a header names columns, and a row has more or fewer cells."""
    names = {cell.strip().lower() for cell in rows[0]}
    if not (names & {*TEXTS, *PAIR[:1]} and names & {*LABELS, *PAIR[1:]}):
        return
    for row, end in zip(rows, ends, strict=True):
        if len(row) != len(rows[0]):
            raise UserError(
                f"{where}, line {end}: {len(row)} cells, where the first line names "
                f"{len(rows[0])}: put quotes around a text with {mark!r} in it"
            )


# -- which columns --------------------------------------------------------------------------------


def _with_columns(table: _Table, where: str) -> _Table:
    """The table with the columns of label and words, by their names or by what stands in them."""
    count = len(table.names or table.rows[0])
    label, words = (
        next((table.names.index(name) for name in headings if name in table.names), -1)
        for headings in (LABELS, TEXTS)
    )
    if label < 0 and words < 0 and count == 4 and set(table.cells(2)) <= STARS:
        return replace(table, shape=COLUMNS[4], label=1, words=3)
    if count == 2 and (label < 0 or words < 0):
        if label < 0 and words < 0:
            label = int(_is_label(table.cells(1)) and not _is_label(table.cells(0)))
        label = 1 - words if label < 0 else label
        words = 1 - label
    if label < 0 or words < 0:
        listing = f": {', '.join(table.names)}" if table.names else ", without names"
        place = "on each line" if table.shape == JSON else "in its first line"
        raise UserError(
            f"{where} has {count} columns{listing}: name two of them label and "
            f"words {place}, or choose the columns of labels and texts (--label, --text)"
        )
    return replace(table, label=label, words=words)


def _is_label(cells: Sequence[str]) -> bool:
    """Few different single words, each in several lines."""
    return not any(" " in cell for cell in cells) and len(set(cells)) <= max(2, len(cells) // 4)


def _are_glued(texts: Sequence[str]) -> bool:
    """Letters of formal-language sets, written together: single words, nearly all different."""
    if any(len(text.split()) > 1 for text in texts):
        return False
    if len({*"".join(texts)}) <= FEW_LETTERS and any(len(text) > 1 for text in texts):
        return True
    return len(set(texts)) > len(texts) / 2 and sum(map(len, texts)) >= 3 * len(texts)
