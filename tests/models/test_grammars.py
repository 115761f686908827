"""Grammars against sums over all words, and against nltk."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk import ChartParser, Tree
from nltk.grammar import CFG
from scipy.stats import chisquare

from models.errors import UserError
from models.languages import END_ID, ContextFreeLanguage, Word, language
from models.languages.grammars.normal_form import normal_form
from models.languages.grammars.notation import read
from models.languages.grammars.productions import Grammar, Nonterminal

TEXTS = {
    "brackets": "S -> '(' S ')' S [0.3] | [0.7]",
    "ambiguous": "S -> S S [0.3] | 'a' [0.5] | 'b' 'b' [0.2]",
    "empty parts": "S -> A B 'c' [0.7] | 'c' S [0.3]\nA -> 'a' A [0.4] | [0.6]\nB -> A | 'b' A 'b'",
    "chains": "S -> T [0.5] | 'a' S 'b' [0.5]\nT -> U | 'b'\nU -> 'a' | 'a' T",
    "left": "S -> S 'a' [0.4] | S 'b' 'b' [0.1] | 'b' [0.5]",
}
GRAMMARS = pytest.mark.parametrize("name", TEXTS)


def language_of(name: str) -> ContextFreeLanguage:
    return ContextFreeLanguage(name, read(TEXTS[name]))


@cache
def expanded(name: str, longest: int) -> dict[Word, float]:
    """The probability of each word up to a length: every derivation is followed by hand, leftmost
    first, until it is too long or too unlikely to matter."""
    grammar = read(TEXTS[name])
    found: dict[Word, float] = defaultdict(float)
    pending = {(grammar.start,): 1.0}
    while pending:
        more: dict[tuple[Nonterminal | str, ...], float] = defaultdict(float)
        for form, probability in pending.items():
            left = next((part for part in form if isinstance(part, Nonterminal)), None)
            if left is None:
                found[tuple(map(str, form))] += probability
                continue
            at = form.index(left)
            for rule in grammar.by_left[left]:
                new = (*form[:at], *rule.right, *form[at + 1 :])
                symbols = sum(isinstance(part, str) for part in new)
                share = probability * grammar.probability(rule)
                if symbols <= longest and share > 1e-13:
                    more[new] += share
        pending = more
    return dict(found)


@GRAMMARS
def test_the_probability_of_a_word_is_that_of_all_its_derivations(name: str) -> None:
    known = language_of(name)
    words = {w: p for w, p in expanded(name, 8).items() if len(w) <= 6}
    for word, probability in words.items():
        assert known.probability(word) == pytest.approx(probability, rel=1e-6), word
        assert known.contains(word)
    for word in words_up_to(known.vocabulary.symbols, 5):
        assert (word in words) == known.contains(word)
        if word not in words:
            assert known.probability(word) == 0


@GRAMMARS
def test_next_probabilities_are_sums_over_all_words(name: str) -> None:
    """Of long words little is left out: what remains of the sum says how little."""
    longest = {"ambiguous": 11, "left": 14}.get(name, 16)
    words = expanded(name, longest)
    starts: dict[Word, float] = defaultdict(float)
    for word, probability in words.items():
        for end in range(len(word) + 1):
            starts[word[:end]] += probability
    missing = 1 - starts[()]
    assert missing < 0.03
    known = language_of(name)
    prefixes = [w for w in words_up_to(known.vocabulary.symbols, 3) if starts.get(w, 0) > 0.02]
    assert len(prefixes) > 4
    batch = known.vocabulary.words(prefixes)
    found = known.next_probabilities(batch)
    for row, prefix in enumerate(prefixes):
        after = {END_ID: words.get(prefix, 0.0)}
        for symbol in known.vocabulary.symbols:
            after[known.vocabulary.ids[symbol]] = starts.get((*prefix, symbol), 0.0)
        for token, probability in after.items():
            assert found[row, len(prefix), token] == pytest.approx(
                probability / starts[prefix], abs=2 * missing / starts[prefix] + 1e-9
            )
    assert found.sum(axis=2)[:, 0] == pytest.approx(1.0)


def test_a_grammar_that_may_go_on_for_ever_is_told_of_the_words_that_end() -> None:
    """S -> S S [0.6] | a [0.4] ends with probability 2/3: Catalan's numbers, over 2/3."""
    known = ContextFreeLanguage("catalan", read("S -> S S [0.6] | 'a' [0.4]"))
    for n, trees in enumerate((1, 1, 2, 5, 14, 42), 1):
        expected = trees * Fraction(6, 10) ** (n - 1) * Fraction(4, 10) ** n / Fraction(2, 3)
        assert known.probability(("a",) * n) == pytest.approx(float(expected))


def test_a_grammar_on_the_edge() -> None:
    """With 1/2 it ends for sure, after infinitely many symbols on average."""
    form = normal_form(read("S -> S S [0.5] | 'a' [0.5]"))
    assert form.pairs.sum() + form.symbols.sum() == pytest.approx(1.0)
    assert form.empty == 0


@GRAMMARS
def test_all_weights_of_the_normal_form_sum_to_one(name: str) -> None:
    form = normal_form(read(TEXTS[name]))
    total = form.pairs.sum(axis=0) + form.symbols.sum(axis=0)
    used = np.unique(np.concatenate([[form.start], form.left, form.right]))
    assert total[used] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["brackets", "ambiguous", "chains"])
def test_words_are_drawn_by_their_weights(name: str) -> None:
    known, length, count = language_of(name), 6, 20_000
    words = {w: p for w, p in expanded(name, length).items() if len(w) == length}
    drawn = known.sample(np.random.default_rng(0), count, [length], label=True).words
    seen = Counter(map(known.vocabulary.decode, drawn.ids))
    assert set(seen) <= set(words)
    expected = np.array([*words.values()])
    expected *= count / expected.sum()
    assert chisquare([seen[w] for w in words], expected).pvalue > 0.001
    wrong = np.roll(expected, 1)
    assert np.allclose(wrong, expected) or chisquare([seen[w] for w in words], wrong).pvalue < 0.001


@pytest.mark.parametrize("name", ["ambiguous", "brackets", "left"])
def test_nltk_parses_the_same_words(name: str) -> None:
    grammar = read(TEXTS[name])
    plain = "\n".join(str(rule) for rule in grammar.productions)
    parser = ChartParser(CFG.fromstring(plain))
    known = language_of(name)
    for word in words_up_to(grammar.symbols, 5):
        trees = list(parser.parse(list(word)))
        assert bool(trees) == known.contains(word), word
        assert {str(tree) for tree in known.trees(word)} == {bracketed(tree) for tree in trees}


def bracketed(tree: Tree | str) -> str:
    if isinstance(tree, str):
        return tree
    return f"({tree.label()}{''.join(' ' + bracketed(child) for child in tree)})"


@given(st.data())
def test_long_words_are_read_like_short_ones(data: st.DataObject) -> None:
    """Brackets of any depth against the rule itself, beside words of other lengths."""
    known = language("dyck2-unbounded")
    word = data.draw(st.lists(st.sampled_from("()[]"), max_size=30).map(tuple))
    opened = data.draw(st.integers(0, 20))
    deep = ("(",) * opened + word + (")",) * opened
    for each in (word, deep):
        stack: list[str] = []
        balanced = True
        for symbol in each:
            if symbol in "([":
                stack.append(symbol)
            elif not stack or stack.pop() + symbol not in ("()", "[]"):
                balanced = False
                break
        batch = known.vocabulary.words([each, ("(", ")"), deep])
        assert known.labels(batch).tolist()[:2] == [balanced and not stack, True]
        if balanced:
            assert known.state(each)["remaining"] == len(stack)


PARTS = st.recursive(
    st.sampled_from([("'a'", "a"), ('"b"', "b"), ("[a-c]", "[a-c]"), ("'c'", "c")]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (" , ".join(p for p, _ in parts), "".join(q for _, q in parts))
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda parts: (
                f"( {' | '.join(p for p, _ in parts)} )",
                f"(?:{'|'.join(q for _, q in parts)})",
            )
        ),
        inner.map(lambda pair: (f"[ {pair[0]} ]", f"(?:{pair[1]})?")),
        inner.map(lambda pair: (f"{{{pair[0]}}}", f"(?:{pair[1]})*")),
        st.tuples(inner, st.sampled_from("*+?")).map(
            lambda both: (f"({both[0][0]}){both[1]}", f"(?:{both[0][1]}){both[1]}")
        ),
    ),
    max_leaves=5,
)
"""An expression of EBNF, and the same one as Python reads it."""


def fault(text: str) -> str:
    """What is wrong with a grammar; empty where nothing is."""
    try:
        read(text)
    except UserError as error:
        return str(error)
    return ""


@settings(max_examples=40)
@given(PARTS, st.sampled_from(["->", "::=", "=", ":", ":="]))
def test_an_expression_of_ebnf_is_the_one_of_python(both: tuple[str, str], arrow: str) -> None:
    extended, expression = both
    text = f"S {arrow} 'd' {extended} ;"
    if said := fault(text):  # what is repeated may be empty
        assert "alone" in said
        return
    known = ContextFreeLanguage("mine", read(text))
    for word in words_up_to(known.vocabulary.symbols, 5):
        if word:
            assert known.contains(word) == bool(re.fullmatch(f"d{expression}", "".join(word)))


def test_a_slash_is_a_bar_as_in_abnf_and_a_part_of_a_name_elsewhere() -> None:
    known = language("mine", grammar='S = "a" S "b" / "c"\n/ NP/N\nNP/N = "d"')
    assert [known.contains(tuple(word)) for word in ("acb", "d", "adb", "a")] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S -> 'a' S", "line 1: no word ever comes of S: give it a production that ends"),
        ("# one\nS -> 'a' | T", "line 2: T has no production"),
        ("S -> 'a'\nT -> 'b'", "line 2: nothing leads from S to T: leave it out"),
        ("S -> S | 'a'", "line 1: S can become S alone"),
        ("S -> A S | 'b'\nA -> | 'a'", "line 1: S can become S alone"),
        ("S -> T\nT -> S | 'a'", "line 2: S can become S alone"),
        ("S -> 'a' S 'b", "line 1: a quote is not closed: write"),
        ("S > 'a'", "line 1: there is no arrow: write"),
        ("S 'a' S 'b'", "line 1: there is no arrow: write"),
        ("S -> ('a' | 'b'", "line 1: a bracket is not closed with )"),
        ("S -> 'a' ] 'b'", "line 1: a bracket is closed with ], and none is open"),
        ("S -> ('a' ] 'b'", "line 1: a bracket is closed with ], and none is open"),
        ("S -> * 'a'", "line 1: nothing stands before *"),
        ("S -> [a-z0-9à-힣]", "line 1: [a-z0-9à-힣] has over 100 letters"),
        ("S -> " + "(" * 30 + "'a'" + ")" * 30, "line 1: over 20 brackets stand inside each other"),
        ("S -> 'a'\nT U -> 'b'", "line 2: 'T U' is no nonterminal: write"),
        ("'a' -> 'b'", "line 1: \"'a'\" is no nonterminal: write"),
        ("S -> 'a' ) 'b'", "line 1: a bracket is closed with ), and none is open"),
        ("S -> 'a' [x]", "line 1: x has no production"),
        ("S -> 'a' [-1] | 'b' [2]", "line 1: the weight '-1' is no number above 0"),
        ("S -> 'a' [50%]", "line 1: the weight '50%' is no number above 0"),
        ("S ⟶ 'a' S | 'b'", "line 1: there is no arrow: write"),
        ("S -> 'a' S | 'b'\x01", "line 1: '\\x01' cannot be read: write"),
        ("S -> 'a' [1] 'b'", "line 1: a weight is not the last of its production"),
        ("%start T\nS -> 'a'", "%start names T, which has no production"),
        ("", "no productions: write at least one"),
        ("# nothing\n", "no productions: write at least one"),
        ("S -> 'a' \\", "the last line ends with a backslash"),
        ("S -> 'a b'", "line 1: the symbol 'a b' is empty or holds a blank"),
        ("S -> 'a' [0.2] | 'b'", "line 1: only some productions of S have a weight"),
        ("S -> ", "there are no symbols"),
        ("S -> 'a' S [1e-320] | 'b' [1]", "line 1: the weights of S are too far apart"),
        ("S -> 'a' S [1]\nS -> 'b' [1e10]", "line 1: the weights of S are too far apart"),
        ("S -> 'a' S [1e308] | 'b' [1e308]", "line 1: the weight '1e308' is no number above 0, or"),
        ("%start\nS -> 'a'", "line 1: %start names nothing"),
        ("S -> 'a' T\nT -> 'b'\n%start S\n%start T", "line 4: there is a second %start"),
        ("S -> " + "'a' " * 41, "line 1: 41 symbols in a row are too many"),
        ("\n".join(f"S -> 'a{i}'" for i in range(501)), "501 productions are too many"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "productions"),
    [
        ("S -> NP V' [3] | V' [1]\nNP -> 'x'\nV' -> 'y'", ["S -> NP V'", "S -> V'"]),
        ("S'' -> 'a' S'' | 'b'", ["S'' -> 'a' S''", "S'' -> 'b'"]),
        ("S -> 'it's' | \"they're\" S", ['S -> "it\'s"', 'S -> "they\'re" S']),
        ("S -> 'a'S'b'|'a''b'", ["S -> 'a' S 'b'", "S -> 'a' 'b'"]),
        ("S->'a' S|ε", ["S -> 'a' S", "S ->"]),
        ("S → 'a' S | 'b'", ["S -> 'a' S", "S -> 'b'"]),
        ("<S> ::= 'a' <S>\n  | 'b'\n  | ε", ["<S> -> 'a' <S>", "<S> -> 'b'", "<S> ->"]),
        ("ε -> 'a' ε | 'b'", ["ε -> 'a' ε", "ε -> 'b'"]),
        ("S -> 'a>x' S '>' | '->'", ["S -> 'a>x' S '>'", "S -> '->'"]),
        ("%start NP\nS -> NP 'v'\nNP -> 'n' | NP S", ["NP -> 'n'", "NP -> NP S"]),
        ("%start N\nS -> N 'v'\nN -> 'n' | N 'of' N", ["N -> 'n'", "N -> N 'of' N"]),
        ("S -> A-B/C 'x'\nA-B/C -> 'y'", ["S -> A-B/C 'x'"]),
    ],
)
def test_grammars_as_people_write_them(text: str, productions: list[str]) -> None:
    assert [str(rule) for rule in read(text).productions][: len(productions)] == productions


def test_weights_may_be_any_positive_numbers() -> None:
    grammar = read("S -> 'a' S [3] | 'b' [1]")
    assert [grammar.probability(rule) for rule in grammar.productions] == [0.75, 0.25]


@GRAMMARS
def test_nltk_reads_the_same_productions(name: str) -> None:
    known = language_of(name).grammar
    theirs = CFG.fromstring("\n".join(map(str, known.productions)))
    ours = read("\n".join(map(str, known.productions)))
    told = [str(rule).replace('"', "'") for rule in ours.productions]
    assert [str(rule).rstrip() for rule in theirs.productions()] == told


def test_a_grammar_is_read_back_from_its_own_words() -> None:
    for name in ("nested", "linear", "anbm", "dyck2-unbounded"):
        known = language(name)
        assert isinstance(known, ContextFreeLanguage)
        again = read(str(known.grammar))
        assert [str(rule) for rule in again.productions] == [
            str(rule) for left in known.grammar.by_left.values() for rule in left
        ]
        for mine, its in zip(known.grammar.productions, again.productions, strict=True):
            assert again.probability(its) == pytest.approx(
                known.grammar.probability(mine), abs=1e-3
            )


@pytest.mark.parametrize("text", ["S -> 'a' S | 'b'", "S -> S 'a' | 'b'", "S -> S S | 'a'"])
def test_words_that_are_too_long_are_told(text: str) -> None:
    known = ContextFreeLanguage("long", read(text))
    word = ("a",) * (350 if "S S" in text else 500) + ("b",) * ("b" in text)
    word = tuple(reversed(word)) if text.startswith("S -> S '") else word
    assert known.contains(word)
    with pytest.raises(UserError, match="symbols is too deep: give a shorter word"):
        next(known.trees(word))
    assert known.stacks(word) is None


def test_a_word_that_fills_the_memory_is_refused() -> None:
    rules = "\n".join(f"S -> 'a{i}' S 'b{i}' | 'a{i}' 'b{i}'" for i in range(60))
    known = ContextFreeLanguage("wide", read(rules))
    with pytest.raises(UserError, match="a word of 2000 symbols is too long for a grammar of"):
        known.contains(("a0",) * 1000 + ("b0",) * 1000)


def test_symbols_that_no_production_names() -> None:
    grammar = Grammar(read("S -> 'a' | 'b' S").productions, others=("c",))
    known = ContextFreeLanguage("with c", grammar)
    assert known.vocabulary.symbols == ("a", "b", "c")
    assert not known.contains(("c",))
    assert known.next_symbols(("b",)) == {"a", "b"}


def test_each_set_of_next_tokens_has_its_own_number_in_a_large_alphabet() -> None:
    """Of 80 symbols, two that lie 52 apart were told as one set."""
    names = [f"w{i}" for i in range(80)]
    known = ContextFreeLanguage(
        "large", read("S -> " + " | ".join(f"'{name}' '{name}' 'stop'" for name in names))
    )
    numbers = {known.state([name])["next"] for name in names}
    assert len(numbers) == 80
