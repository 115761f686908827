"""Languages by regular expression, against Python's own engine on all short words."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from brute import words_up_to
from hypothesis import given
from hypothesis import strategies as st

from models.config import TrainConfig
from models.errors import UserError
from models.languages import RegularLanguage, language
from models.languages.expressions import MOST_STATES, of_expression
from models.runs.run import Run
from models.training.recipes import recipe


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    marks = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{,2}"])
    return st.builds("({}){}".format, inner, marks)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    both = st.tuples(inner, inner)
    return both.map("".join) | both.map(lambda two: f"({two[0]}|{two[1]})") | repeated(inner)


ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[bc]"])
EXPRESSIONS = st.recursive(ATOMS, grown, max_leaves=7)


@given(EXPRESSIONS)
def test_it_says_of_every_word_what_python_says(regex: str) -> None:
    with suppress(UserError):
        made = of_expression("mine", regex, "abc")
        pattern = re.compile(regex.replace("{,", "{0,"))
        for word in words_up_to(("a", "b", "c"), 4):
            assert made.contains(word) == (pattern.fullmatch("".join(word)) is not None), word


def test_what_fits_both() -> None:
    made = of_expression("mine", "(a|b)*ab(a|b)*&(a|b)*bb")
    assert made.contains("abb")
    assert not made.contains("bb")
    assert not made.contains("aba")


def test_brackets_say_which_goes_first() -> None:
    assert of_expression("mine", "c*|(a*&[ab]*)").contains("aa")
    assert not of_expression("mine", "(c*|a*)&(b*|a*)").contains("cc")
    assert of_expression("mine", "a{0,2}b*").contains("aab")
    assert of_expression("mine", "[aε]b*", "ε").contains("εb")
    assert of_expression("mine", "(a|λ)b+").vocabulary.symbols == ("a", "b")


def test_its_symbols_are_those_that_it_names_and_further_ones() -> None:
    assert of_expression("mine", "b{2,3}a*").vocabulary.symbols == ("a", "b")
    more = of_expression("mine", "1*", "0")
    assert more.vocabulary.symbols == ("0", "1")
    assert more.contains("11")
    assert not more.contains("10")


@pytest.mark.parametrize(
    ("regex", "says"),
    [
        ("(ab", "cannot be read"),
        ("?a*", r"cannot be read: close each bracket, .* something before them$"),
        ("[ab", "cannot be read: close each bracket"),
        ("a|", "cannot be read: close each bracket"),
        ("a,b*", "has ',': use letters and digits"),
        ("..*", r"has no symbols: use letters or digits$"),
        ("()*", "has no symbols"),
        ("a b*", "has ' ': use letters and digits"),
        (r"\d*a", "has '.*': use letters and digits"),
        ("a{50}", "only finitely many words: repeat"),
        ("(a|b)*", "only finitely many words outside its language: .*--symbols"),
        ("(a|b)+", "only finitely many words outside its language"),  # the empty word alone
        ("(a|b)*a(a|b){30}", f"over {MOST_STATES} states"),
        ("((a{20}){20})*b", "too long"),
        ("a" * 500 + "*", "too long"),
        ("a{999999999}*b", "too long"),
        ("a{3,1}b*", r"has \{3,1\}: write the smaller number first"),
        ("a{0}b*", r"has \{0\}: leave out"),
        ("(ab){0,0}c*", r"has \{0,0\}: leave out"),
        ("a{,0}b*", r"has \{,0\}: leave out"),
        ("{0}a*", r"has \{0\}: leave out"),
        ("[.]b*", r"has '\.' in square brackets, where only letters and digits"),
        ("[aε]b*", r"has 'ε' in square brackets, .* write \(x|y\)"),
        ("c*|a*&b*", r"has \| and & side by side: put one of them in round brackets"),
        ("a{", "has braces without numbers: write x"),
        ("a{x}b*", "has braces without numbers"),
        ("a{}b*", "has braces without numbers"),
        ("((((a+){9})+){9})+b", ""),
    ],
)
def test_what_is_no_language_is_refused(regex: str, says: str) -> None:
    if says:
        with pytest.raises(UserError, match=says):
            of_expression("mine", regex)
    else:
        assert of_expression("mine", regex).contains("a" * 81 + "b")


@pytest.mark.parametrize(
    ("symbols", "says"),
    [
        ("c*", r"the symbols have '\*': use letters and digits"),
        ("c d", "the symbols have ' '"),
        ("".join(map(chr, range(0x4E00, 0x4F00))), "258 symbols are too many: use at most 200"),
    ],
)
def test_symbols_that_cannot_be_are_refused(symbols: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        of_expression("mine", "(a|b)*ab", symbols)


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a b", "x" * 100, "-s"])
def test_a_name_fits_a_folder(name: str) -> None:
    with pytest.raises(UserError, match="no name for a language"):
        of_expression(name, "(a|b)*b")


def test_a_registered_name_stays_what_it_is() -> None:
    with pytest.raises(UserError, match="anbn is a language of the lab"):
        language("anbn", "(a|b)*b")
    with pytest.raises(UserError, match="belong to a regular expression"):
        language("anbn", "", "c")


def test_a_run_keeps_its_expression(tmp_path: Path) -> None:
    config = recipe("ends-in-b", regex="(a|b)*b", symbols="c")
    assert config.objective == "next-symbols"
    run = Run.create(tmp_path / "run", config)
    again = Run(run.path)
    assert again.config == config
    assert isinstance(again.language, RegularLanguage)
    assert again.language.contains("aab")
    assert not again.language.contains("acb")
    with pytest.raises(UserError, match="cannot be read"):
        Run.create(tmp_path / "other", TrainConfig("mine", regex="(a"))
    assert not (tmp_path / "other").exists()
