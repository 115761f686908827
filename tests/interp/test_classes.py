"""Classes of automata: against words grouped by what each class may see, and naive arrows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache, reduce
from itertools import product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from test_extraction import of_regex

from interp.automata import classes
from interp.automata.classes import Classes, Membership, classes_of
from interp.automata.equivalence import Word
from interp.automata.extraction import run
from interp.automata.rules import Families
from interp.automata.subregular.local import (
    dot_depth_one,
    has_window,
    locally_testable,
    smallest_window,
    threshold_testable,
)
from interp.automata.subregular.semigroup import Monoid

AB, ABC = ("a", "b"), ("a", "b", "c")
FAMILIES = Families(ABC)


def contains(*pattern: str) -> DFA:
    return FAMILIES.contains(*pattern).dfa


def adjacent(pattern: str) -> DFA:
    return FAMILIES.side_by_side(*pattern).dfa


def regular(pattern: str, symbols: str = "abc") -> DFA:
    return of_regex(pattern, symbols).dfa


def simplest(dfa: DFA, symbols: Sequence[str] = ABC) -> tuple[object, ...]:
    """Name, window and threshold of the simplest class."""
    member = classes_of(dfa, symbols).simplest
    assert member is not None
    return member.name, member.window, member.threshold


# -- languages whose class is known -------------------------------------------------------------

KNOWN = [
    (DFA.universal_language(set(ABC)), "SL", 1, None),
    (DFA.empty_language(set(ABC)), "SL", 1, None),
    (regular("(a|b)*"), "SL", 1, None),
    (regular("a(a|b|c)*"), "SL", 2, None),
    (regular("(ab)*", "abc"), "SL", 2, None),
    (~adjacent("ab"), "SL", 2, None),
    (~adjacent("abca") & ~adjacent("bb"), "SL", 4, None),
    (regular("abacab"), "SL", 4, None),
    (regular("abcabca"), "SL", 6, None),
    (~contains("a", "b"), "SP", 2, None),
    (~contains("a", "b", "a", "c"), "SP", 4, None),
    (~contains("a", "b") & ~contains("c", "c", "c"), "SP", 3, None),
    (adjacent("ab"), "LT", 2, None),
    (adjacent("ab") | adjacent("bca"), "LT", 3, None),
    (adjacent("ab") & ~adjacent("ca"), "LT", 2, None),
    (adjacent("aaaa"), "LT", 4, None),
    (adjacent("aaaa") | regular("(a|b|c)*aaa(a|b|c)*aaa(a|b|c)*"), "LTT", 3, 2),
    (regular("(a|b|c)*aaaa(a|b|c)*bb(a|b|c)*"), "PLT", 4, None),
    (regular("(a|b|c)*aaab(a|b|c)*aaab(a|b|c)*"), "LTT", 4, 2),
    (contains("a", "b"), "PT", 2, None),
    (contains("a", "b", "c", "a"), "PT", 4, None),
    (contains("a", "b") ^ contains("c", "c", "c"), "PT", 3, None),
    (FAMILIES.exactly(2, "a").dfa, "TSL", 3, None),
    (regular("c*ac*bc*(a|b|c)*"), "TSL", 3, None),
    (regular("(c*ac*b)*c*"), "TSL", 2, None),
    (regular("(a|b|c)*bc*b(a|b|c)*"), "TLT", 2, None),
    (regular("(a|b|c)*ab(a|b|c)*ab(a|b|c)*"), "LTT", 2, 2),
    (regular("(a|b|c)*abab(a|b|c)*abab(a|b|c)*"), "LTT", 6, 2),
    (regular("(a|b|c)*ab(a|b|c)*ba(a|b|c)*"), "PLT", 2, None),
    (regular("(a|b|c)*abc(a|b|c)*bca(a|b|c)*"), "PLT", 3, None),
    (regular("(c|a(c|ac*b)*b)*"), "SF", None, None),
    (regular("(a|c)*bb(a|b|c)*"), "SF", None, None),
    (regular("(aa|b|c)*"), "Reg", None, None),
    (FAMILIES.even("a").dfa & ~contains("b"), "Reg", None, None),
    (FAMILIES.even("a").dfa, "Zp", 2, None),
    (FAMILIES.even("a").dfa ^ FAMILIES.even("c").dfa, "Zp", 2, None),
    (regular("((a|b|c)(a|b|c)(a|b|c))*"), "Zp", 3, None),
    (FAMILIES.even("a").dfa & FAMILIES.even("c").dfa, "Reg", None, None),  # two sums, not one
]


@pytest.mark.parametrize(("dfa", "name", "window", "threshold"), KNOWN)
def test_the_class_of_a_known_language(
    dfa: DFA, name: str, window: int | None, threshold: int | None
) -> None:
    assert simplest(dfa) == (name, window, threshold)


def test_a_rule_of_lines_on_its_tier() -> None:
    """Lions, elephants, lions; all other words left out, and words that are never told apart."""
    symbols = ("aap", "leeuw", "beer", "olifant", "tijger")
    letters = {"leeuw": "a", "tijger": "a", "olifant": "b", "aap": "c", "beer": "c"}
    dfa = spelled(regular("c*a(a|c)*b(b|c)*a(a|c)*"), letters)
    member = classes_of(dfa, symbols).simplest
    assert member == Membership("PT", 3)  # L O L and no O L O, with gaps
    ends = spelled(regular("c*(ac*b)c*"), letters)
    member = classes_of(ends, symbols).simplest
    assert member == Membership("SL", 2, tier=("leeuw", "olifant", "tijger"))
    assert member.text == "strictly local, with windows of 2, aap and beer left out"
    letters |= {"kat": "c", "muis": "c"}
    member = classes_of(spelled(regular("c*(ac*b)c*"), letters), tuple(letters)).simplest
    assert member is not None
    assert member.text.endswith(", all but leeuw, tijger and olifant left out")


def spelled(dfa: DFA, letters: dict[str, str]) -> DFA:
    """The automaton over symbols that each do what their letter does."""
    return DFA(
        states=dfa.states,
        input_symbols=set(letters),
        transitions={
            q: {symbol: row[letter] for symbol, letter in letters.items()}
            for q, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )


def test_classes_that_hold_each_other() -> None:
    """A strictly local language is in all larger classes, with no larger windows."""
    members = classes_of(~adjacent("abc"), ABC).memberships
    assert [(m.name, m.window, m.threshold) for m in members] == [
        ("SL", 3, None),
        ("LT", 3, None),
        ("LTT", 3, 1),
        ("PLT", 3, None),
        ("SF", None, None),
    ]


def test_loops_that_are_shorter_than_the_window() -> None:
    """Five a or more: with windows of 4 the loop of one a after three a is the one that tells."""
    windows = {m.base: m.window for m in classes_of(regular("aaaaaa*", "ab"), AB).memberships}
    assert (windows["SL"], windows["LT"], windows["LTT"]) == (6, 5, 1)


def test_alphabets_that_shrink_and_grow() -> None:
    """The word a b b b a: with up to three symbols a b b b b a looks the same."""
    windows = {m.base: m.window for m in classes_of(regular("abbba", "ab"), AB).memberships}
    assert windows["PT"] == 4
    word, longer = tuple("abbba"), tuple("abbbba")
    assert SEEN["PT"](word, 3, 0) == SEEN["PT"](longer, 3, 0) != SEEN["PT"](longer, 4, 0)


def test_no_guess_about_a_large_monoid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "MOST_ELEMENTS", 5)
    assert classes_of(adjacent("abc"), ABC) == Classes((), ("LT", "PT", "LTT", "PLT", "SF"))
    known = classes_of(~adjacent("abc"), ABC)
    assert known.simplest == Membership("SL", 3)
    assert known.undecided
    assert classes_of(FAMILIES.even("a").dfa, ABC) == Classes((Membership("Zp", 2),))


# -- words grouped by what a class sees ---------------------------------------------------------

WORDS = list(words_up_to("ab", 11))
MOST = 9  # the words have no factor more often than this; t that is larger changes nothing


def ends(word: Word, k: int) -> Hashable:
    return (word[: k - 1], word[len(word) - k + 1 :]) if len(word) >= k - 1 else word


def factors(word: Word, k: int) -> list[Word]:
    return [word[i : i + k] for i in range(len(word) - k + 1)]


def subsequences(sequence: Sequence[Hashable], most: int) -> frozenset[tuple[Hashable, ...]]:
    parts: set[tuple[Hashable, ...]] = {()}
    for item in sequence:
        parts |= {(*part, item) for part in parts if len(part) < most}
    return frozenset(parts)


SEEN: dict[str, Callable[[Word, int, int], Hashable]] = {
    "LT": lambda w, k, _: (ends(w, k), frozenset(factors(w, k))),
    "LTT": lambda w, k, t: (
        ends(w, k),
        frozenset((f, min(t, n)) for f, n in Counter(factors(w, k)).items()),
    ),
    "PT": lambda w, k, _: subsequences(w, k),
    "PLT": lambda w, k, j: (ends(w, k), subsequences(factors(w, k), j)),
}


@cache
def groups(name: str, k: int, t: int = 0) -> np.ndarray:
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(SEEN[name](w, k, t), len(number)) for w in WORDS])


def agree(verdicts: np.ndarray, name: str, k: int, t: int = 0) -> bool:
    """Have words that the class sees alike the same verdict?"""
    group = groups(name, k, t)
    return not set(group[verdicts].tolist()) & set(group[~verdicts].tolist())


@st.composite
def automata(draw: st.DrawFn, most: int = 5) -> DFA:
    """Automata over a and b of few states, most of which are mostly left for later ones."""
    size = draw(st.integers(1, most))
    later = draw(st.integers(0, 3)) > 0
    rows = {q: {s: draw(st.integers(q if later else 0, size - 1)) for s in AB} for q in range(size)}
    final = draw(st.sets(st.integers(0, size - 1)))
    return DFA(
        states=set(rows),
        input_symbols=set(AB),
        transitions=rows,
        initial_state=0,
        final_states=final,
    )


@settings(max_examples=60)
@given(automata())
def test_windows_against_words_grouped_by_what_a_class_sees(dfa: DFA) -> None:
    """Words that look alike have one verdict; with a window smaller by one, some have not."""
    verdicts = run(dfa, WORDS)
    members = {m.base: m for m in classes_of(dfa, AB).memberships if m.tier is None}
    for name, at in (("LT", 0), ("LTT", MOST), ("PT", 0), ("PLT", 3)):
        k = members[name].window if name in members else None
        if k is None:
            continue
        if name != "PLT":  # orders of three windows are not all orders
            assert not any(agree(verdicts, name, less, at) for less in range(1, min(k, 4)))
        assert k > 3 or agree(verdicts, name, k, at)
    counts = members.get("LTT")
    if counts and counts.window and counts.window < 4:
        assert counts.threshold is not None
        assert agree(verdicts, "LTT", counts.window, counts.threshold)
        assert not any(agree(verdicts, "LTT", counts.window, t) for t in range(1, counts.threshold))


STRICT: dict[str, Callable[[Word, int], frozenset[Hashable]]] = {
    "SL": lambda w, k: frozenset(factors(("<",) * (k - 1) + w + (">",) * (k - 1), k)),
    "SP": subsequences,
}


@cache
def parts(name: str, k: int) -> list[frozenset[Hashable]]:
    return [STRICT[name](word, k) for word in WORDS]


def strict(verdicts: np.ndarray, name: str, k: int) -> bool:
    """Is every word accepted all whose parts are parts of accepted words?"""
    accepted = [part for part, yes in zip(parts(name, k), verdicts, strict=True) if yes]
    allowed = frozenset().union(*accepted)
    return all(
        yes or not part <= allowed for part, yes in zip(parts(name, k), verdicts, strict=True)
    )


@settings(max_examples=40)
@given(automata())
def test_strict_windows_against_the_parts_of_accepted_words(dfa: DFA) -> None:
    verdicts = run(dfa, WORDS)
    members = {m.base: m.window for m in classes_of(dfa, AB).memberships if m.tier is None}
    for name in STRICT if verdicts.any() else ():  # without an accepted word nothing is allowed
        k = next((k for k in (1, 2, 3) if strict(verdicts, name, k)), None)
        assert members.get(name, 9) == k or (k is None and members.get(name, 9) > 3)


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(ABC), min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_longest_forbidden_subsequence(forbidden: list[list[str]]) -> None:
    least = [
        w
        for w in forbidden
        if sum(in_order(w, v) for v in map(list, {*map(tuple, forbidden)})) == 1
    ]
    dfa = DFA.universal_language(set(ABC))
    for pattern in forbidden:
        dfa -= contains(*pattern)
    windows = {m.base: m.window for m in classes_of(dfa, ABC).memberships}
    assert windows["SP"] == max(map(len, least))


def in_order(word: Sequence[str], pattern: Sequence[str]) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in pattern)


def test_a_threshold_that_no_loop_shows() -> None:
    """All loops have x^2 = x^3, and yet a b counts up to three: only where b b occurred once."""
    dfa = regular("a(a|b)*", "ab") & ~regular("(a|b)*bb(a|b)*bb(a|b)*|(a|b)*bbb(a|b)*", "ab")
    dfa &= regular("(a|b)*bb(a|b)*", "ab") & regular("(a|b)*ab(a|b)*ab(a|b)*ab(a|b)*", "ab")
    counts = next(m for m in classes_of(dfa, AB).memberships if m.base == "LTT")
    assert (counts.window, counts.threshold) == (2, 3)
    few, many = tuple("abbaba"), tuple("abbababa")
    assert SEEN["LTT"](few, 2, 2) == SEEN["LTT"](many, 2, 2)
    assert dfa.accepts_input(many)
    assert not dfa.accepts_input(few)


def test_factors_that_overlap_are_counted_where_they_stand() -> None:
    """Twice a b a b without overlap: not LTT with windows of 4, however far one counts."""
    dfa = regular("(a|b|c)*abab(a|b|c)*abab(a|b|c)*")
    one, other = tuple("ababaabab"), tuple("abaababab")
    assert SEEN["LTT"](one, 4, 99) == SEEN["LTT"](other, 4, 99)
    assert dfa.accepts_input(one)
    assert not dfa.accepts_input(other)


# -- arrows, one by one -------------------------------------------------------------------------

Map = dict[int, int]  # from the states after one word to those after another


def arrows(delta: np.ndarray, k: int) -> dict[tuple[Word, Word], list[Map]]:
    """From each word of k-1 letters to each: what the words between do to the states after it."""
    between: dict[tuple[Word, Word], list[Map]] = {}
    for v in product(range(2), repeat=k - 1):
        here = set(range(len(delta)))
        for letter in v:
            here = {int(delta[q, letter]) for q in here}
        queue = [({q: q for q in here}, v)]
        for moved, u in queue:
            between.setdefault((v, u), []).append(moved)
            for letter in range(2):
                after = {q: int(delta[r, letter]) for q, r in moved.items()}
                step = after, (*u, letter)[1:] if k > 1 else ()
                if step not in queue:
                    queue.append(step)
    return between


def path(*maps: Map) -> Map:
    """One map after the other."""
    return reduce(lambda one, other: {q: other[r] for q, r in one.items()}, maps)


def knast(x: Map, y: Map, u: Map, v: Map) -> bool:
    n = 6  # a multiple of all periods of three states, and more than any index
    return path(*[x, y] * n, x, v, *[u, v] * n) == path(*[x, y] * n, *[u, v] * n)


NAIVE: dict[Callable[..., bool], Callable[[list[Map], list[Map], bool], bool]] = {
    locally_testable: lambda forth, _, loop: (
        not loop or all(path(x, x) == x and path(x, y) == path(y, x) for x in forth for y in forth)
    ),
    threshold_testable: lambda forth, back, _: all(
        path(x, y, z) == path(z, y, x) for x in forth for z in forth for y in back
    ),
    dot_depth_one: lambda forth, back, _: all(
        knast(x, y, u, v) for x in forth for u in forth for y in back for v in back
    ),
}


@pytest.mark.parametrize("holds", NAIVE, ids=lambda holds: holds.__name__)
@settings(max_examples=60)
@given(dfa=automata(most=3), k=st.integers(1, 3))
def test_equations_against_arrows_made_one_by_one(
    holds: Callable[..., bool], dfa: DFA, k: int
) -> None:
    delta = np.array([[dfa.transitions[q][s] for s in AB] for q in sorted(dfa.states)])
    monoid = Monoid.of(delta, 100)
    assert monoid is not None
    every = arrows(delta, k)
    expected = all(NAIVE[holds](forth, every[u, v], v == u) for (v, u), forth in every.items())
    pairs = monoid.at_window(k, loops=holds is locally_testable)
    assert all(holds(monoid, *pair) for pair in pairs) == expected
    if monoid.aperiodic:  # with some window the equations hold only if they do between idempotents
        assert has_window(monoid, holds) == (smallest_window(monoid, holds) is not None)
