"""A letter with an accent is one letter, whether it was typed as one sign or as two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.errors import UserError
from models.languages import PairCorpus, Vocabulary
from models.languages.expressions import of_expression
from models.languages.files.lines import read_lines
from models.languages.own_grammar import of_grammar

ONE, TWO = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"


def test_in_a_file_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.tsv"
    file.write_text(f"A\tle {ONE}\nB\tle {TWO}\n", encoding="utf-8")
    labels, words, *_ = read_lines(file)
    assert labels == ["A", "B"]
    assert words == [("le", ONE)] * 2


def test_in_pairs_and_in_lines_of_json(tmp_path: Path) -> None:
    pairs, lines = tmp_path / "pairs.tsv", tmp_path / "lines.jsonl"
    pairs.write_text(f"le {ONE}\t{TWO} le\n{TWO}\t{ONE}\n", encoding="utf-8")
    assert set(PairCorpus.from_file(pairs).vocabulary.symbols) == {"le", ONE, ">"}
    rows = [{"label": label, "text": f"le {cafe}"} for label, cafe in (("A", ONE), ("B", TWO))]
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert read_lines(lines)[1] == [("le", ONE)] * 2


def test_in_a_typed_word() -> None:
    assert Vocabulary(("le", ONE)).parse(f"{TWO} le {ONE}") == (ONE, "le", ONE)
    letters = Vocabulary(("a", ONE[-1]))
    assert letters.parse(f"a{TWO[-2:]}a {ONE[-1]}") == tuple(f"a{ONE[-1]}a{ONE[-1]}")
    with pytest.raises(UserError, match="unknown symbol 'x'"):
        letters.parse("ax")


def test_a_stranger_s_symbols_stay_as_they_are() -> None:
    known = Vocabulary((TWO, "le"))
    assert known.parse(f"le {TWO}") == ("le", TWO)


def test_in_a_grammar_and_an_expression() -> None:
    grammar = of_grammar("mine", f"S -> '{TWO}' S | '{ONE}' 'le'")
    assert set(grammar.vocabulary.symbols) == {ONE, "le"}
    assert of_expression("mine", f"({TWO[-2:]}b)*{ONE[-1]}").vocabulary.symbols == ("b", ONE[-1])
    assert of_expression("mine", "(ab)*", TWO[-2:]).vocabulary.symbols == ("a", "b", ONE[-1])


def test_epsilon_is_the_empty_word_unless_it_is_named_as_a_symbol() -> None:
    known = of_expression("mine", "(ab|ε)*b")
    assert known.vocabulary.symbols == ("a", "b")
    assert [known.contains(tuple(word)) for word in ("b", "abb", "aab")] == [True, True, False]
    assert of_expression("greek", "(kε)*", "ε").vocabulary.symbols == ("k", "ε")
