"""Shape and equations of languages that count, against brute force and teachers that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations, product
from zlib import crc32

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from test_extraction import of_regex, teacher

from interp.automata.envelope import (
    Constraint,
    Envelope,
    _typical,
    constraints,
    counts,
    envelope,
    local,
)
from interp.automata.equivalence import Word
from interp.automata.extraction import Accepts, run
from models.languages import Language, language

AB, ABC = ("a", "b"), ("a", "b", "c")


def by_rule(obeys: Callable[[Word], bool]) -> Accepts:
    return lambda words: np.array([obeys(word) for word in words], dtype=bool)


def drawn(lang: Language, max_n: int = 25, count: int = 1500) -> list[Word]:
    """Words in the language and near misses, up to the size."""
    sample = lang.sample(np.random.default_rng(0), count, lang.lengths(max_n))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    return [lang.vocabulary.decode(ids[:length]) for ids, length in rows]


# -- the shape ----------------------------------------------------------------------------------

some_words = st.lists(
    st.lists(st.sampled_from(ABC), min_size=1, max_size=5).map(tuple), min_size=1, max_size=6
)


@settings(max_examples=80)
@given(some_words)
def test_the_smallest_strictly_2_local_language(words: list[Word]) -> None:
    """A word is accepted if its first symbol, all neighbours and its last symbol were seen."""
    first, last = {w[0] for w in words}, {w[-1] for w in words}
    pairs = {pair for w in words for pair in pairwise(w)}
    every = list(words_up_to(ABC, 5))
    expected = [
        word != () and word[0] in first and word[-1] in last and pairs >= set(pairwise(word))
        for word in every
    ]
    found = local(words, ABC)
    assert run(found, every).tolist() == expected
    assert run(found, words).all()
    assert local([w for w, yes in zip(every, expected, strict=True) if yes], ABC) == found


@pytest.mark.parametrize(
    ("words", "pattern"),
    [(["ab", "aabb"], "aa*bb*"), (["abab"], "ab(ab)*"), (["a"], "a"), (["abc", "c"], "abc|c")],
)
def test_shapes_by_name(words: list[str], pattern: str) -> None:
    assert local([tuple(word) for word in words], ABC) == of_regex(pattern, "abc").dfa


def test_a_strange_word_is_left_out() -> None:
    """One of twenty begins otherwise, one ends otherwise, one has other neighbours."""
    usual = [tuple("a" * n + "b" * n) for n in range(2, 20)]
    for strange in ("ba" + "b" * 5, "aabba", "aabab"):
        assert _typical([*usual, tuple(strange)]) == usual
        assert _typical([*usual, *[tuple(strange)] * 6]) == [*usual, *[tuple(strange)] * 6]
    assert _typical(usual) == usual
    assert _typical([]) == []


# -- the equations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "found", "said"),
    [
        ([[1, 1], [2, 2], [5, 5]], [((1, -1), 0)], ["#a = #b"]),
        ([[1, 2], [2, 4]], [((2, -1), 0)], ["2 #a = #b"]),
        ([[2, 3], [4, 6]], [((3, -2), 0)], ["3 #a = 2 #b"]),
        ([[3, 1], [7, 5]], [((1, -1), 2)], ["#a = #b + 2"]),
        ([[1, 3], [5, 7]], [((1, -1), -2)], ["#a + 2 = #b"]),
        ([[1, 4], [2, 3], [5, 0]], [((1, 1), 5)], ["#a + #b = 5"]),
        ([[1, 3], [2, 3], [9, 3]], [((0, 1), 3)], ["#b = 3"]),
        ([[0, 1], [0, 4]], [((1, 0), 0)], ["#a = 0"]),
        ([[1, 1], [1, 2], [2, 1]], [], []),
        ([[4], [4]], [((1,), 4)], ["#a = 4"]),
        ([[1, 0, 1], [0, 1, 1], [2, 1, 3]], [((1, 1, -1), 0)], ["#a + #b = #c"]),
    ],
)
def test_equations_of_small_tables(
    rows: list[list[int]], found: list[tuple[tuple[int, ...], int]], said: list[str]
) -> None:
    equations = constraints(np.array(rows))
    assert equations == tuple(Constraint(weights, constant) for weights, constant in found)
    assert [each.as_equation(ABC[: len(rows[0])]) for each in equations] == said


tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 4), min_size=width, max_size=width), min_size=1, max_size=5
    )
)


@settings(max_examples=80)
@given(tables)
def test_a_basis_of_all_equations(rows: list[list[int]]) -> None:
    """Each holds on every row, none follows from the others, and their number is the rank's."""
    table = np.array(rows)
    equations = constraints(table)
    weights = np.array([e.weights for e in equations], dtype=int).reshape(-1, table.shape[1])
    constants = np.array([e.constant for e in equations], dtype=int)
    assert (table @ weights.T == constants).all()
    freedom = np.linalg.matrix_rank(table - table[0])
    assert len(equations) == table.shape[1] - freedom
    assert np.linalg.matrix_rank(weights) == len(equations) or not len(equations)
    for equation in equations:
        numbers = [*equation.weights, equation.constant]
        assert next(w for w in numbers if w) > 0
        assert np.gcd.reduce(numbers) == 1


def test_counts_of_words() -> None:
    words = list(words_up_to(ABC, 3))
    assert counts(words, ABC).tolist() == [[w.count(s) for s in ABC] for w in words]
    assert counts([], ABC).shape == (0, 3)


# -- a network is asked -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "said", "power"),
    [
        ("anbn", "a+ b+", "#a = #b", "a^n b^n"),
        ("anbncn", "a+ b+ c+", "#a = #b = #c", "a^n b^n c^n"),
        ("anbncndn", "a+ b+ c+ d+", "#a = #b = #c = #d", "a^n b^n c^n d^n"),
    ],
)
def test_languages_that_count(name: str, shape: str, said: str, power: str) -> None:
    lang = language(name)
    found = envelope(teacher(lang), lang.vocabulary.symbols, drawn(lang))
    assert found is not None
    assert (found.shape, found.said, found.name) == (shape, said, power)
    assert (found.inside, found.outside, found.holds) == (1.0, 1.0, True)
    assert found.dfa == of_regex("".join(f"{s}{s}*" for s in power[::4]), power[::4]).dfa
    assert found.asked > 200
    every = list(words_up_to(lang.vocabulary.symbols, 4))
    obeyed = found.obeyed(every, lang.vocabulary.symbols)
    assert obeyed.tolist() == [lang.contains(word) for word in every]


def power(word: Word, *times: int) -> bool:
    """a^(times[0] n) b^(times[1] n) ... with n >= 1."""
    n = max(1, len(word) // sum(times))
    return word == tuple(s for s, t in zip("abc", times, strict=False) for _ in range(t * n))


BLOCKS = [("a",) * i + ("b",) * j for i, j in product(range(50), range(80))]


@pytest.mark.parametrize(
    ("obeys", "said", "name"),
    [
        (lambda w: power(w, 1, 2), "2 #a = #b", "a^n b^2n"),
        (lambda w: power(w, 3, 1), "#a = 3 #b", "a^3n b^n"),
        (lambda w: power(w, 2, 3), "3 #a = 2 #b", "a^2n b^3n"),
        (lambda w: power(("a", *w), 1, 1) and "a" in w, "#a + 1 = #b", None),
    ],
)
def test_other_counts_of_two_blocks(
    obeys: Callable[[Word], bool], said: str, name: str | None
) -> None:
    found = envelope(by_rule(obeys), AB, BLOCKS)
    assert found is not None
    assert (found.shape, found.said, found.name) == ("a+ b+", said, name)
    assert found.holds


def test_a_shape_that_is_no_row_of_blocks() -> None:
    """(ab)^n c^2n, with the shape as a regular expression and no name. That there are as many a as
    b follows from the shape, and is not told.
    """

    def obeys(word: Word) -> bool:
        n = len(word) // 4
        return n > 0 and word == ("a", "b") * n + ("c",) * (2 * n)

    words = [("a", "b") * i + ("c",) * j for i, j in product(range(30), range(60))]
    found = envelope(by_rule(obeys), ABC, words)
    assert found is not None
    assert found.dfa == of_regex("ab(ab)*cc*", "abc").dfa
    assert (found.name, found.holds) == (None, True)
    assert found.said == "2 #a = #c"


@pytest.mark.parametrize(
    ("obeys", "said"),
    [
        (lambda w: w.count("a") == w.count("b"), "#a = #b"),
        (lambda w: w.count("a") == 2 * w.count("b") + 1, "#a = 2 #b + 1"),
        (lambda w: w.count("a") == w.count("b") == w.count("c"), "#a = #b = #c"),
    ],
)
def test_equations_without_a_shape(obeys: Callable[[Word], bool], said: str) -> None:
    """The symbols may stand in any order."""
    rng = np.random.default_rng(0)
    words = [tuple(rng.choice(ABC, size).tolist()) for size in rng.integers(1, 13, size=6000)]
    words += [word * 8 for word in permutations(ABC)] + [("a", "b", "c") * n for n in range(2, 30)]
    found = envelope(by_rule(obeys), ABC, words)
    assert found is not None
    assert (found.shape, found.said, found.name) == ("", said, None)
    assert found.holds
    every = [word for word in words_up_to(ABC, 5) if word]
    assert found.obeyed(every, ABC).tolist() == [obeys(word) for word in every]


@pytest.mark.parametrize("strange", [["ba"], ["ba", "aabbb"], ["abab", "aab"]])
def test_a_network_that_accepts_a_strange_word(strange: list[str]) -> None:
    """One or two words that are not in the language change neither shape nor equation."""
    right, also = teacher(language("anbn")), {tuple(word) for word in strange}

    def accepts(words: Sequence[Word]) -> np.ndarray:
        return right(words) | np.array([word in also for word in words])

    words = [*drawn(language("anbn")), *also]
    for seed in range(3):
        found = envelope(accepts, AB, words, seed)
        assert found is not None
        assert (found.shape, found.said, found.name) == ("a+ b+", "#a = #b", "a^n b^n")
        assert found.inside == 1.0
        assert found.outside < 1.0 or len(also) < 2
        assert found.holds


def test_balanced_brackets_are_more_than_a_shape_and_an_equation() -> None:
    """As many opened as closed, but )( is closed too early: the network rejects what obeys."""
    lang = language("dyck1")
    found = envelope(teacher(lang), lang.vocabulary.symbols, drawn(lang))
    assert found is not None
    assert found.said == "#( = #)"
    assert found.inside < 0.95
    assert found.outside == 1.0
    assert not found.holds


@pytest.mark.parametrize("known", [lambda n: n % 2 == 1, lambda n: n <= 20], ids=["odd", "small"])
def test_a_network_that_rejects_much_of_what_obeys(known: Callable[[int], bool]) -> None:
    """Of a^n b^n odd n alone, or small n alone; the words rejected are among those looked at."""
    accepts = by_rule(lambda w: power(w, 1, 1) and known(len(w) // 2))
    found = envelope(accepts, AB, BLOCKS)
    assert found is None or not found.holds


@pytest.mark.parametrize(
    "pattern", ["(a|b)*", "(a|b)*a(a|b)*", "aa*bb*", "(a|b)(a|b)(a|b)*", "(a|b)*abb(a|b)*"]
)
def test_words_without_an_equation(pattern: str) -> None:
    assert envelope(teacher(of_regex(pattern)), AB, list(words_up_to(AB, 9))) is None


def test_what_is_told_excludes_something() -> None:
    """No word with a c is looked at, so #c = 0 says no more than the shape; #a = #b says more."""
    found = envelope(by_rule(lambda word: power(word, 1, 1)), ABC, BLOCKS)
    assert found is not None
    assert (found.said, found.holds) == ("#a = #b", True)


def test_what_is_told_holds_for_all_accepted_words() -> None:
    """Nearly all words have no a; where those that have one are not among the words from which
    equations are read, #a = 0 holds for these, and yet it is not told."""
    rng = np.random.default_rng(0)
    lines = [tuple(rng.choice(("b", "c", "d"), size).tolist()) for size in rng.integers(4, 9, 400)]
    rare = [("a", *line) for line in lines[:3]]
    accepts = by_rule(lambda w: w.count("b") % 2 == 0)
    for seed in range(4):
        found = envelope(accepts, ("a", "b", "c", "d"), [*lines, *rare], seed)
        assert found is None


@pytest.mark.parametrize("many", [3, 5])
def test_no_more_than_three_equations_are_told(many: int) -> None:
    """Each symbol is as frequent as its partner, in any order: an equation for each pair."""
    symbols = tuple("abcdefghij"[: 2 * many])
    pairs = [symbols[i : i + 2] for i in range(0, 2 * many, 2)]
    rng = np.random.default_rng(1)

    def obeys(word: Word) -> bool:
        return all(word.count(one) == word.count(other) for one, other in pairs)

    words = [
        tuple(rng.permutation([s for p in pairs for s in p * int(rng.integers(0, 3))]).tolist())
        for _ in range(3000)
    ]
    found = envelope(by_rule(obeys), symbols, [word for word in words if word])
    assert found is not None
    told = [f"#{one} = #{other}" for one, other in pairs]
    parts = found.said.split(", ")
    assert set(parts) <= set(told)
    assert len(parts) == 3
    assert found.holds == (many == 3)


def test_too_few_words() -> None:
    lang = language("anbn")
    assert envelope(teacher(lang), AB, [*words_up_to(AB, 8)]) is None
    assert envelope(by_rule(lambda word: False), AB, BLOCKS) is None
    assert envelope(by_rule(lambda word: word == ()), AB, BLOCKS) is None
    assert envelope(by_rule(lambda word: True), AB, []) is None


@pytest.fixture
def asked() -> tuple[Envelope, list[Word], list[Word], Accepts]:
    """An envelope of a^n b^n, the words looked at and asked, and a network that errs on some."""
    right, batches = teacher(language("anbn")), []

    def judge(words: Sequence[Word]) -> np.ndarray:
        strange = ["ba" in (text := "".join(w)) and crc32(text.encode()) % 300 == 0 for w in words]
        return right(words) | np.array(strange)

    def accepts(words: Sequence[Word]) -> np.ndarray:
        batches.append(list(words))
        return judge(words)

    found = envelope(accepts, AB, drawn(language("anbn"), count=3000))
    assert found is not None
    looked_at, *others = batches
    return found, looked_at, next(b for b in others if len(b) == found.asked), judge


def test_shares_are_of_the_words_asked(
    asked: tuple[Envelope, list[Word], list[Word], Accepts],
) -> None:
    found, _, words, judge = asked
    obeys = teacher(language("anbn"))(words)
    assert len(words) == len(set(words)) == found.asked
    assert obeys.sum() == found.obeying
    assert found.inside == pytest.approx(judge(words)[obeys].mean())
    assert found.outside == pytest.approx(1 - judge(words)[~obeys].mean())
    assert 0.9 < found.outside < 1.0


def test_no_word_that_gave_the_shape_is_asked_again(
    asked: tuple[Envelope, list[Word], list[Word], Accepts],
) -> None:
    """Half of the accepted words give the shape, strange ones aside; the words asked are fresh."""
    _, words, again, judge = asked
    accepted = [word for word, yes in zip(words, judge(words), strict=True) if yes]
    gave = _typical(accepted[::2])
    assert len(gave) > 8
    assert set(again).isdisjoint(gave)


def test_it_holds_if_both_shares_are_high() -> None:
    def at(inside: float, outside: float) -> bool:
        dfa = DFA.universal_language({"a"})
        return Envelope(dfa, "a+", (), "", None, inside, outside, 100, 50).holds

    assert at(0.98, 1.0)
    assert at(1.0, 0.98)
    assert not at(0.97, 1.0)
    assert not at(1.0, 0.97)
