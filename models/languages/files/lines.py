"""Files of lines: labels and words, or two columns, in the encodings that people have."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from models.errors import UserError
from models.languages.files.shapes import (
    HEADERS,
    chosen,
    labelled,
    letters_of,
    paired,
    refuse_others,
    unlabelled,
    unquoted,
)
from models.languages.files.treebank import is_treebank, sentences
from models.languages.vocabulary import Word
from models.plain_files import one_form, read_bytes, read_text

MOST_BYTES = 64 * 2**20
LONGEST = 10_000
"""The most words in a line."""


class _Lines(NamedTuple):
    """Labelled lines of a file.

    Attributes:
        shape: what the file was taken for, in a sentence; "" for label, tab, words.
        pairs: the places of two lines that are a minimal pair.
    """

    labels: list[str]
    words: list[Word]
    shape: str
    pairs: list[tuple[int, int]]


def read_lines(path: Path, longest: int = LONGEST) -> _Lines:
    """The labels and words of a file of lines ``label <tab> words``, or of one of ``files.shapes``.

    A header line may come first: one of ``HEADERS`` stands where the label would be, and no other
    line has it as its label.

    Args:
        longest: the most words in a line.

    Lines without words are left out, as ``shape`` then says: a network reads a symbol at least.

    Raises:
        UserError: the file cannot be read or is too large, is no text, or a line is malformed; or
            none has words.
    """
    layout = "label, tab, words"
    text, encoding = _text(path, f"give a file of lines, {layout}")
    lines = _split(text)
    cells, shape = labelled(lines, str(path)) or (None, "")
    if cells is None:
        labels, words = _columns(lines, path, ("label", "words"), HEADERS, longest, least=0)
    else:
        labels, words = _cells(cells, path, ("label", "words"), longest, least=0)
    empty = [label for label, line in zip(labels, words, strict=True) if not line]
    if empty and len(empty) == len(labels):
        raise UserError(f"{path}: no line has words: write {layout}")
    out = f"lines without words left out: {len(empty)}, labelled {', '.join(dict.fromkeys(empty))}"
    told = "; ".join(filter(None, (shape, encoding, out if empty else "")))
    labels = [label for label, line in zip(labels, words, strict=True) if line]
    # Two lines of one place in the file are a pair.
    places = [at for (at, _), line in zip(cells, words, strict=True) if line] if cells else []
    pairs = [(n, n + 1) for n, (one, other) in enumerate(pairwise(places)) if one == other]
    return _Lines(labels, [line for line in words if line], told, pairs)


class _Texts(NamedTuple):
    """Lines of a file without labels.

    Attributes:
        told: what the file was taken for, in a sentence; "" for lines of words.
        heads: of a treebank the heads of the words of each line; of other files nothing.
    """

    words: list[Word]
    told: str
    heads: list[tuple[int, ...]]


def read_texts(path: Path, longest: int = LONGEST) -> _Texts:
    """The words of the lines of a file, whose labels are left out; or those of a treebank.

    Raises:
        UserError: the file cannot be read or is too large, is no text, or a line is malformed; or
            none has words.
    """
    text, encoding = _text(path, "give a file of lines")
    lines = _split(text)
    if is_treebank(lines):
        trees = sentences(lines, str(path))
        told = (
            "read as a treebank (CoNLL-U): its words alone are taught; its trees can be asked for"
        )
        cells = [(at, ("-", " ".join(tree.words))) for at, tree in enumerate(trees, 1)]
        _, words = _cells(cells, path, ("label", "words"), longest, what="sentence")
        return _Texts(words, told, [tree.heads for tree in trees])
    texts, shape = unlabelled(lines, str(path))
    cells = [(number, ("-", text)) for number, text in texts if text.strip()]
    if not cells:
        raise UserError(f"{path}: no line has words: write one sentence a line")
    _, words = _cells(cells, path, ("label", "words"), longest)
    empty = len(texts) - len(cells)
    out = f"lines without words left out: {empty}" if empty else ""
    return _Texts(words, "; ".join(filter(None, (shape, encoding, out))), [])


def read_columns(
    path: Path, columns: tuple[str, str], headers: Collection[str], longest: int = LONGEST
) -> tuple[list[str], list[Word]]:
    """The two columns of a file of lines with a tab: what stands before it, and the words after it.

    A header line may come first: one of ``headers`` stands before its tab, and before no other.

    Args:
        columns: the names of the columns, for errors.
        longest: the most words after a tab.

    Raises:
        UserError: the file cannot be read or is too large, is no text, or a line is malformed.
    """
    layout = ", tab, ".join(columns)
    text, _ = _text(path, f"give a file of lines, {layout}")
    lines = _split(text)
    if is_treebank(lines):
        trees = sentences(lines, str(path))
        cells = [(" ".join(tree.words), " ".join(tree.tags)) for tree in trees]
        return _cells(list(enumerate(cells, 1)), path, columns, longest, what="sentence")
    if (pairs := paired(lines)) is not None:
        first, *others = (source.strip().lower() for source, _ in pairs)
        start = int(first in headers and first not in others)
        return _cells(list(enumerate(pairs, 1))[start:], path, columns, longest)
    refuse_others(lines, str(path), layout)
    return _columns(lines, path, columns, headers, longest)


@contextmanager
def plain_lines(
    path: Path, cells: tuple[str, ...], columns: Sequence[str] = (), letters: bool = False
) -> Iterator[Path]:
    """A file as the lab writes it, for as long as it is read: the chosen cells of each line, with
    a tab between. Where nothing is chosen, it is the file itself.

    Args:
        cells: the names of the cells that are needed: label and text, source and target, or text.
        columns: the columns that hold them, as in ``files.shapes.chosen``; by default those that
            the shape tells.
        letters: cut texts into letters.

    Raises:
        UserError: the file cannot be read, or has no such column; or as the reader raises it.
    """
    if not columns and not letters:
        yield path
        return
    pairs = cells[0] == "source"
    if columns:
        lines = _split(_text(path, "give a file of lines")[0])
        rows = [(at, ("-", *texts)[-2:]) for at, texts in chosen(lines, str(path), columns)]
        firsts, words = _cells(rows, path, (cells[0], cells[-1]), LONGEST, least=int(pairs))
    elif pairs:
        firsts, words = read_columns(path, (cells[0], cells[1]), cells[:1])
    elif len(cells) == 2:
        firsts, words, *_ = read_lines(path)
    else:
        words = read_texts(path).words
        firsts = [""] * len(words)
    texts = [" ".join(word) for word in words]
    if letters:
        texts = [letters_of(text) for text in texts]
        firsts = [letters_of(first) for first in firsts] if pairs else firsts
    if len(cells) == 2:
        firsts = [" ".join(first.split()) for first in firsts]  # a quoted cell may have a tab
        texts = ["\t".join(line) for line in [cells, *zip(firsts, texts, strict=True)]]
    with TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        file.write_text("\n".join(texts), encoding="utf-8")
        try:
            yield file
        except UserError as error:
            raise UserError(str(error).replace(str(file), str(path))) from None


def _text(path: Path, cure: str) -> tuple[str, str]:
    """The text of a file, and a note on its encoding; "" for UTF-8."""
    content = read_bytes(path, cure, MOST_BYTES)
    wide = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    with suppress(UnicodeDecodeError):
        if wide:
            return one_form(content.decode("utf-16")), "in UTF-16"
    try:
        return read_text(path, cure, MOST_BYTES), ""
    except UserError:
        # Bytes that no text of Western Europe has are those of another kind of file.
        if wide or re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", content):
            raise
        return one_form(content.decode("latin-1")), "in Latin-1, since it is not UTF-8"


def _split(text: str) -> list[str]:
    """The lines of a text, without blank ones at its end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return list(unquoted(lines))


def _columns(
    lines: Sequence[str],
    path: Path,
    columns: tuple[str, str],
    headers: Collection[str],
    longest: int,
    least: int = 1,
) -> tuple[list[str], list[Word]]:
    layout = ", tab, ".join(columns)
    first, *heads = (line.split("\t")[0].strip(' "') for line in lines or [""])
    start = int(first.lower() in headers and first not in heads)
    for number, line in enumerate(lines[start:], start + 1):
        where = f"{path}, line {number}"
        if not line.strip():
            raise UserError(f"{where}: the line is empty: remove it")
        if line.count("\t") != 1:
            raise UserError(
                f"{where}: expected one tab, found {line.count(chr(9))}: write {layout}"
            )
    cells = zip(*(line.split("\t") for line in lines[start:]), strict=True)
    pairs = zip(*(unquoted(column) for column in cells), strict=True)
    return _cells(list(enumerate(pairs, start + 1)), path, columns, longest, least)


def _cells(
    pairs: Iterable[tuple[int, tuple[str, ...]]],
    path: Path,
    columns: tuple[str, str],
    longest: int,
    least: int = 1,
    what: str = "line",
) -> tuple[list[str], list[Word]]:
    """The two cells of each numbered line, the second one as so many words at least.

    Args:
        what: what the numbers count, for errors.
    """
    firsts, words = [], []
    for number, cells in pairs:
        before, rest = map(one_form, cells)  # escapes of JSON may have another
        where, (left, right) = f"{path}, {what} {number}", columns
        if not before.strip():
            raise UserError(f"{where} has no {left}: write {left}, tab, {right}")
        if len(rest.split()) < least:
            raise UserError(f"{where} has no {right}: take the line out")
        if len(rest.split()) > longest:
            raise UserError(f"{where} has {len(rest.split())} words: cut it to {longest} at most")
        firsts.append(before.strip())
        words.append(tuple(rest.split()))
    return firsts, words
