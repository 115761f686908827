"""Languages of pairs: every answer against all pairs up to a length, by rules of another kind."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from brute import Listed, words_up_to
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UserError
from models.languages import (
    BORDER,
    END,
    END_ID,
    ContextFreeLanguage,
    Transduction,
    Word,
    language,
)
from models.languages.pairs.letters import Reordering, alphabetical, backwards, same

# -- what each source becomes, said a second time -----------------------------------------------


def as_postfix(node: ast.expr) -> list[str]:
    if isinstance(node, ast.BinOp):
        sign = "+" if isinstance(node.op, ast.Add) else "*"
        return [*as_postfix(node.left), *as_postfix(node.right), sign]
    assert isinstance(node, ast.Name)
    return [node.id]


def postfix(source: Word) -> Word | None:
    """By Python's own parser."""
    try:
        read = ast.parse("".join(source), mode="eval").body
    except SyntaxError:
        return None
    names = all(
        isinstance(n, (ast.BinOp, ast.Name, ast.operator, ast.expr_context)) for n in ast.walk(read)
    )
    letters = all(n.id in ("a", "b") for n in ast.walk(read) if isinstance(n, ast.Name))
    powers = "**" in "".join(source)
    return tuple(as_postfix(read)) if names and letters and not powers else None


def open_brackets(source: Word) -> Word | None:
    depth, found = 0, []
    for symbol in source:
        depth += 1 if symbol == "(" else -1
        if not 0 <= depth <= 4:
            return None
        found.append(str(depth))
    return tuple(found) if depth == 0 else None


@dataclass(frozen=True)
class Case:
    language: Transduction
    target: Callable[[Word], Word | None]
    sources: tuple[str, ...]
    longest: int
    sides: int  # the longest source that is listed
    sure: int  # of prefixes below this length all that may follow is listed


def reordering(name: str) -> Case:
    orders = {"copy": same, "reverse": backwards, "sort": alphabetical}
    made = Reordering(name, "ab", orders[name], "context-sensitive", "")
    rules: dict[str, Callable[[Word], Word]] = {
        "copy": lambda w: w,
        "reverse": lambda w: tuple(reversed(w)),
        "sort": lambda w: tuple(sorted(w)),
    }
    return Case(made, rules[name], ("a", "b"), 7, 5, 5)


def pairs_of(name: str) -> Transduction:
    found = language(name)
    assert isinstance(found, Transduction)
    return found


CASES = [
    *(reordering(name) for name in ("copy", "reverse", "sort")),
    Case(pairs_of("double"), lambda w: w + ("b",) * len(w), ("a",), 7, 7, 5),
    Case(pairs_of("depths"), open_brackets, ("(", ")"), 5, 6, 3),
    Case(pairs_of("postfix"), postfix, ("a", "b", "+", "*", "(", ")"), 5, 5, 2),
]


@pytest.fixture(params=CASES, ids=lambda case: case.language.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def listed(case: Case) -> Listed:
    sources = (w for w in words_up_to(case.sources, case.sides) if w)
    pairs = ((*w, BORDER, *t) for w in sources if (t := case.target(w)) is not None)
    return Listed(case.language.vocabulary.symbols, pairs)


def words(case: Case) -> list[Word]:
    """All words up to a length, and longer ones that begin like pairs."""
    return list(words_up_to(case.language.vocabulary.symbols, case.longest))


def test_pairs_and_what_may_follow(case: Case, listed: Listed) -> None:
    short = words(case)
    batch = case.language.vocabulary.words(short)
    labels = case.language.labels(batch)
    assert labels.tolist() == [listed.contains(word) for word in short]
    allowed, tokens = case.language.allowed(batch), case.language.vocabulary.tokens
    assert (allowed[np.arange(len(short)), batch.lengths, END_ID] == labels).all()
    for row, word in enumerate(short):
        if len(word) < case.sure:
            found = {tokens[i] for i in np.flatnonzero(allowed[row, len(word)])}
            assert found == listed.next_symbols(word), word


def test_long_pairs_go_on_with_their_target(case: Case) -> None:
    rng = np.random.default_rng(0)
    lengths = case.language.positive_lengths(range(12, 22))
    drawn = case.language.sample(rng, 15, lengths, label=True).words
    for row in range(15):
        word = case.language.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]])
        source, target = case.language.split(word)
        assert target == case.target(source)
        assert word == case.language.pair(source)
        for at, symbol in enumerate([*target, END]):
            prefix = word[: len(source) + 1 + at]
            assert case.language.next_symbols(prefix) == {symbol}
            state = case.language.state(prefix)
            assert state["remaining"] == len(target) - at
            assert case.language.vocabulary.tokens[state["due"]] == symbol
            assert state["side"] == state["valid"] == 1
        wrong = next(s for s in case.language.vocabulary.symbols if s != target[0])
        assert case.language.next_symbols((*source, BORDER, wrong)) == frozenset()
        assert case.language.state((*source, BORDER, wrong))["valid"] == 0


def test_symbols_come_from_where_the_alignment_says(case: Case) -> None:
    """A symbol that copies one symbol of the source is aligned with it."""
    rng = np.random.default_rng(1)
    drawn = case.language.sample(rng, 60, case.language.positive_lengths(range(22)), True).words
    for row in range(60):
        word = case.language.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]])
        source, target = case.language.split(word)
        alignment = case.language.alignment(source)
        assert len(alignment) == len(target)
        assert all(0 <= place < len(source) for places in alignment for place in places)
        if case.language.name in ("copy", "reverse", "sort", "postfix"):
            assert tuple(source[place] for (place,) in alignment) == target
            assert len({place for (place,) in alignment}) == len(target)
        if case.language.name == "sort":  # equal letters keep their order
            same = [p for (p,), s in zip(alignment, target, strict=True) if s == target[0]]
            assert same == sorted(same)
        if case.language.name == "double":
            n = len(source)
            assert alignment == tuple((i,) for i in [*range(n), *reversed(range(n))])
        if case.language.name == "depths":
            assert alignment == tuple((i,) for i in range(len(source)))


def test_a_wrong_target_is_repaired_and_its_source_stays(case: Case) -> None:
    rng = np.random.default_rng(2)
    lengths = case.language.positive_lengths(range(8, 16))
    drawn = case.language.sample(rng, 20, lengths, label=True).words
    letters = [s for s in case.language.vocabulary.symbols if s != BORDER]
    for row in range(20):
        word = list(case.language.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]]))
        border = word.index(BORDER)
        at = int(rng.integers(border + 1, len(word)))
        wrong = [*word[:at], next(s for s in letters if s != word[at]), *word[at + 1 :]]
        assert not case.language.contains(wrong)
        assert case.language.rationales(wrong) == ((at,),)
        assert case.language.counterfactual(wrong) == tuple(word)
        other = case.language.counterfactual(word, rng)
        assert len(other) == len(word)
        assert not case.language.contains(other)
    assert case.language.rationales([BORDER, *word[1:]]) is None  # no source


def test_probabilities_are_sums_over_all_pairs() -> None:
    """Of pairs of one length each is as likely as another; a length is drawn first."""
    made = reordering("sort").language
    shares = np.zeros(8)
    shares[[3, 5, 7]] = [0.5, 0.3, 0.2]
    pairs = [made.pair(w) for n in (1, 2, 3) for w in product("ab", repeat=n)]
    weight = {pair: shares[len(pair)] / 2 ** (len(pair) // 2) for pair in pairs}
    prefixes = sorted({pair[:end] for pair in pairs for end in range(len(pair) + 1)})
    prefixes += [("a", BORDER, "b"), ("b", "b", "b", "b"), (BORDER,)]
    found = made.next_probabilities(made.vocabulary.words(prefixes), shares)
    assert found is not None
    for row, prefix in enumerate(prefixes):
        expected = np.zeros(len(made.vocabulary))
        for pair, share in weight.items():
            if pair[: len(prefix)] == prefix:
                token = (*pair, END)[len(prefix)]
                expected[made.vocabulary.ids[token]] += share
        total = expected.sum()
        np.testing.assert_allclose(
            found[row, len(prefix)], expected / total if total else expected, atol=1e-12
        )


def test_a_parse_has_the_brackets_of_the_tree() -> None:
    parse, nested = pairs_of("parse"), language("nested")
    assert isinstance(nested, ContextFreeLanguage)
    rng = np.random.default_rng(3)
    drawn = parse.sample(rng, 20, parse.positive_lengths(range(40)), True).words
    depths = set()
    for row in range(20):
        word = parse.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]])
        source, target = parse.split(word)
        assert nested.contains(source)
        text = str(next(nested.trees(source)))
        kept, labels = [], list[str]()
        for part in text.replace(")", " )").split():
            if part.startswith("("):
                labels.append(part[1:].partition("_")[0])
                kept += [f"({labels[-1]}"] if labels[-1] in ("S", "NP", "R") else []
            elif part == ")":
                kept += [")"] if labels.pop() in ("S", "NP", "R") else []
            else:
                kept.append(part)
        assert tuple(kept) == target
        depths.add(source.count("die") + source.count("dat"))
        for token, places in zip(target, parse.alignment(source), strict=True):
            if token in source:
                assert source[places[0]] == token
    assert depths >= {0, 1, 2}


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_the_four_letters_of_the_lab(letters: list[str]) -> None:
    word = tuple(letters)
    assert pairs_of("copy").target(word) == word
    assert pairs_of("reverse").target(word) == word[::-1]
    assert pairs_of("sort").target(word) == tuple(sorted(word))


# -- a grammar of one's own ---------------------------------------------------------------------

SWAPPED = "S -> 'a>x' S | 'b>' S '>y' | 'a>x'"


def test_a_grammar_of_pairs_is_a_transduction() -> None:
    mine = language("mine", grammar=SWAPPED)
    assert isinstance(mine, Transduction)
    assert mine.pair("abba") == tuple("abba>xxyy")
    assert mine.alignment(tuple("abba")) == ((0,), (3,), (2,), (1,))
    assert mine.vocabulary.symbols == ("a", "b", "x", "y", BORDER)
    assert mine.default_objective == "sequence-to-sequence"


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ("S -> 'a>x' S | 'a>y' S | 'a>x'", "one source and two targets"),
        ("S -> 'a>' S '>a' | '>b'", "a source of 'b' is empty: give each word a symbol"),
        ("S -> '>a' S | '>b'", "no symbol gives anything to the source: write 'a>x'"),
        ("S -> 'a>x' S | T\nT -> 'a>y' T | 'a>y'", "a source has two targets: 'a a"),
        ("S -> 'a>x' S | 'b'", "the symbol 'b' of a grammar of pairs needs one >"),
        ("S -> 'a>x' S | 'a>x>'", "the symbol 'a>x>' of a grammar of pairs needs one >"),
    ],
)
def test_a_grammar_that_is_none_of_pairs_is_refused_in_one_line(grammar: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        language("other", grammar=grammar)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_source_has_no_pair() -> None:
    with pytest.raises(LookupError, match="is no source of depths"):
        pairs_of("depths").pair("((")
    with pytest.raises(UserError, match="unknown symbol"):
        pairs_of("copy").pair("x")
