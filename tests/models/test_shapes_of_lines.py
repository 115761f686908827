"""Labelled lines and pairs in the shapes that people have: read alike, or refused in one line."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UserError
from models.languages import LabelledCorpus, PairCorpus, read_lines
from models.languages.files.lines import read_texts

LINES = [("ja", "kat hond kat"), ("nee", "hond kat"), ("ja", "kat kat hond"), ("nee", "hond hond")]
LINES = [*LINES * 6, ("ja", "kat"), ("nee", "hond")]
OF_LABELS = {"label", "gold_label", "target", "class"}


def columns(
    mark: str, *names: str, header: bool = True, quoting: Literal[0, 1] = csv.QUOTE_MINIMAL
) -> str:
    """The lines in columns of these names: labels, numbers ("id") or words."""
    text = io.StringIO()
    out = csv.writer(text, delimiter=mark, quoting=quoting, lineterminator="\n")
    if header:
        out.writerow(names)
    for number, (label, words) in enumerate(LINES):
        of = dict.fromkeys(OF_LABELS, label) | {"id": str(number)}
        out.writerow([of.get(name, words) for name in names])
    return text.getvalue()


def lines(pattern: str) -> str:
    """A line for each labelled line."""
    return "".join(
        pattern.format(label=label, words=words, size=len(words.split())) + "\n"
        for label, words in LINES
    )


SHAPES = {
    "tsv": lines("{label}\t{words}"),
    "blank lines at the end": lines("{label}\t{words}") + "\n \n",
    "text first": lines("{words}\t{label}"),
    "a tab too many": lines("{label}\t{words}\t"),
    "header": columns("\t", "gold_label", "sentence"),
    "header, text first": columns("\t", "sentence", "label"),
    "target and text": columns("\t", "target", "text"),
    "csv": columns(",", "label", "text"),
    "csv in quotes": columns(",", "text", "label", quoting=csv.QUOTE_ALL),
    "csv with more columns": columns(",", "id", "text", "class"),
    "semicolons": columns(";", "label", "text"),
    "csv without header": columns(",", "text", "label", header=False),
    "json": lines('{{"text": "{words}", "label": "{label}", "id": {size}}}'),
    "json with lists": lines('{{"tokens": ["{words}"], "label": "{label}"}}'),
    "fastText": lines("__label__{label} {words}"),
    "fastText with tabs": lines("__label__{label}\t{words}"),
    "abbadingo": f"{len(LINES)} 2\n" + lines("{label} {size} {words}"),
    "acceptability": lines("s{size}\t{label}\t*\t{words}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_lines_are_read_in_every_shape(shape: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text(SHAPES[shape])
    read = read_lines(file)
    assert list(zip(read.labels, map(" ".join, read.words), strict=True)) == LINES
    assert bool(read.shape) == (shape not in ("tsv", "blank lines at the end"))
    assert LabelledCorpus.from_file(file).contains(("kat", "hond", "kat"))


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("text first", "read as lines with a tab: label in column 2, words in column 1"),
        ("csv", "read as columns with commas between them: label = label, words = text"),
        ("csv with more columns", "label = class, words = text"),
        ("abbadingo", "read as lines of Abbadingo"),
        ("acceptability", "four columns: label in column 2, words in column 4"),
    ],
)
def test_a_shape_is_told(shape: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(SHAPES[shape])
    assert read_lines(tmp_path / "lines").shape.endswith(told)


def test_a_row_of_other_cells_than_its_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("label,text\na,x y\nb,x, y\n")
    with pytest.raises(UserError, match=r"line 3: 3 cells, where the first line names 2: put quo"):
        read_lines(tmp_path / "lines")


STAMINA = "+ 0 1 1 0\n- 1 1\n+\n- 0 0 1\n"
PAUTOMAC = "3 2\n4 0 1 1 0\n0\n2 1 1\n"


def test_lines_of_competitions_are_read(tmp_path: Path) -> None:
    """StaMinA's have signs, those of PAutomaC and SPiCe no labels; both have empty words."""
    file = tmp_path / "lines"
    file.write_text(STAMINA)
    read = read_lines(file)
    assert read.labels == ["+", "-", "-"]
    assert read.words == [("0", "1", "1", "0"), ("1", "1"), ("0", "0", "1")]
    assert "read as lines of StaMinA; lines without words left out: 1, labelled +" in read.shape
    file.write_text("- Hoe gaat het?\n- Goed.\n")
    assert read_texts(file).words[1] == ("-", "Goed.")
    file.write_text(PAUTOMAC)
    assert read_texts(file) == (
        [("0", "1", "1", "0"), ("1", "1")],
        "read as words of PAutomaC or SPiCe; lines without words left out: 1",
        [],
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            PAUTOMAC,
            "holds words of PAutomaC or SPiCe, which have no labels: train with",
        ),
        (PAUTOMAC.replace("3 2", "4 2"), "its first line says 4 lines, and 3 follow"),
        (STAMINA + "? 0 1\n", "StaMinA's ? is no label: leave the lines with it out"),
    ],
)
def test_what_has_no_label_in_a_competition_is_refused(
    text: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text(text)
    with pytest.raises(UserError, match=re.escape(fault)):
        read_lines(tmp_path / "lines")


GLUED = st.tuples(st.sampled_from("01"), st.text("ab", min_size=3, max_size=9))


@given(st.lists(GLUED, min_size=8, max_size=30, unique_by=lambda line: line[1]))
def test_letters_that_are_written_together_are_symbols(
    tmp_path_factory: pytest.TempPathFactory, glued: list[tuple[str, str]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "glued.tsv"
    file.write_text("".join(f"{label}\t{word}\n" for label, word in glued))
    read = read_lines(file)
    assert read.words == [tuple(word) for _, word in glued]
    assert read.labels == [label for label, _ in glued]
    assert "letters are written together" in read.shape


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a", "b", "ab", "ba", "a", "b"], ["a", "b", "a b", "b a", "a", "b"]),
        (["x\u0301yy", "yx\u0301x\u0301", "yyy"], ["x\u0301 y y", "y x\u0301 x\u0301", "y y y"]),
        (["y👩‍🚀y", "yy", "👩‍🚀y"], ["y 👩‍🚀 y", "y y", "👩‍🚀 y"]),
    ],
    ids=["short and repeated", "accents", "signs of several code points"],
)
def test_a_letter_is_what_a_reader_sees(tmp_path: Path, texts: list[str], words: list[str]) -> None:
    (tmp_path / "lines").write_text("".join(f"{i % 2}\t{text}\n" for i, text in enumerate(texts)))
    assert [*map(" ".join, read_lines(tmp_path / "lines").words)] == words


def test_words_of_one_letter_or_repeated_ones_are_no_letters(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("in\ta\nout\tb\n")
    (tmp_path / "repeated").write_text("in\thond\nout\tkat\n" * 5)
    assert read_lines(tmp_path / "short").words == [("a",), ("b",)]
    repeated = read_lines(tmp_path / "repeated")
    assert repeated.words == [("hond",), ("kat",)] * 5
    assert "each line is a single word: put blanks" in repeated.shape
    assert not read_lines(tmp_path / "short").shape


def test_escapes_of_json_have_one_form(tmp_path: Path) -> None:
    rows = [{"label": "a", "text": "cafe\u0301 x"}, {"label": "b", "text": "caf\u00e9 y"}]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_lines(tmp_path / "e.jsonl").words == [("caf\u00e9", "x"), ("caf\u00e9", "y")]


def test_minimal_pairs_are_two_lines_each(tmp_path: Path) -> None:
    rows = [{"sentence_good": f"de hond {i}", "sentence_bad": f"de honden {i}"} for i in range(3)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    header = "uid,sentence_bad,sentence_good\n"
    lines = [f"{n},{row['sentence_bad']},{row['sentence_good']}\n" for n, row in enumerate(rows)]
    (tmp_path / "pairs.csv").write_text(header + "".join(lines))
    for name in ("pairs.jsonl", "pairs.csv"):
        read = read_lines(tmp_path / name)
        assert read.shape == "read as minimal pairs, two labelled lines each"
        assert read.labels == ["good", "bad"] * 3
        assert read.words[:2] == [("de", "hond", "0"), ("de", "honden", "0")]
        assert read.pairs == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-16", "in UTF-16"),
        ("utf-8-sig", ""),
        ("latin-1", "in Latin-1, since it is not UTF-8"),
    ],
)
def test_other_encodings_are_read_and_told(encoding: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.tsv"
    file.write_bytes("ja\tcafé hond\nnee\thond\n".encode(encoding))
    read = read_lines(file)
    assert read.words == [("café", "hond"), ("hond",)]
    assert read.shape == told


@pytest.mark.parametrize(
    "text",
    [
        "yes\ta b\nno\t\n",
        "label,words\nyes,a b\nno,\n",
        "words\tlabel\na b\tyes\n\tno\n",
        'label,text\nyes,"a\n b"\nno,\n',
        "2 2\nyes 2 a b\nno 0\n",
        "__label__yes a b\n__label__no\n",
        '{"text": "a b", "label": "yes"}\n{"text": "", "label": "no"}\n',
    ],
)
def test_the_empty_word_is_left_out_and_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(text)
    read = read_lines(tmp_path / "lines")
    assert (read.labels, read.words) == (["yes"], [("a", "b")])
    assert read.shape.endswith("lines without words left out: 1, labelled no")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"text": "a", "label": 1}\n{"text": 3\n', "line 2: no JSON object: write one a line"),
        ('{"text": "a", "label": 1}\n[1]\n', "line 2: no JSON object"),
        ('{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2: label is missing: line 1 has it"),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": null}\n', "line 2 has no label"),
        (
            '{"t": {"a": 1}, "l": 1, "text": "b", "label": 1}\n{"t": 1, "l": 1, "text": [["a"]]',
            "no JS",
        ),
        (
            '{"text": "b c", "label": 1}\n{"text": [["a"]], "label": 1}\n',
            "line 2: label or words are",
        ),
        ('{"text": {"a": "b c"}, "label": 1}\n', "line 1: label or words are an object"),
        ('[{"text": "b c", "label": 1}]', "is one JSON value: write an object a line"),
        ('[{"text": "b c",\n "label": 1}]\n', "is one JSON value: write an object a line"),
        ('{"a": "a", "b": 1, "c": 2}\n', "name two of them label and words on each line"),
        ("1\ta\tb\n1\tc\td\n", "has 3 columns, without names"),
        ("__label__a __label__b c\n", "a line has two labels of fastText"),
        ("3 2\n1 1 a\n", "its first line says 3 lines, and 1 follow"),
        ("1 2\n1 3 a b\n", "line 2: it says 3 symbols, and has 2"),
        ("IN: a OUT: A\n", "train on them with --objective sequence-to-sequence"),
        ("# id\n1\tde\tde\tDET\t_\t_\t0\troot\t_\t_\n", "is a treebank (CoNLL-U)"),
    ],
)
def test_a_fault_of_a_shape_is_one_line(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(text)
    with pytest.raises(UserError) as error:
        read_lines(tmp_path / "lines")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"a\tb\n\xff\x01", codecs.BOM_UTF16_LE + b"a", b"a\x00\tb\n"])
def test_binary_files_are_no_text(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(content)
    with pytest.raises(UserError, match="not UTF-8"):
        read_lines(tmp_path / "lines")


@pytest.mark.parametrize(
    "text",
    ["IN: a b OUT: B A\nIN: b OUT: B\n", "a b\tB A\tin\nb\tB\tin\n", "a b\tB A\nb\tB\n"],
    ids=["IN and OUT", "three columns", "two columns"],
)
def test_pairs_are_read_in_the_shapes_of_public_sets(text: str, tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text(text)
    corpus = PairCorpus.from_file(tmp_path / "pairs")
    assert len(corpus.lines) == 2
    assert corpus.split(corpus.vocabulary.decode(corpus.lines.ids[0])) == (("a", "b"), ("B", "A"))
