"""Languages of words up to a length, told by a predicate: the truth of networks that are planted.

All their words can be tried: a network is then known to be right, and not merely tested. The
name says the bound: "majority-10" has words of up to ten symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from automata.fa.dfa import DFA

from models.languages.regular import RegularLanguage


@dataclass(frozen=True)
class Bounded:
    """The definition of such a language.

    Attributes:
        symbols: the symbols, one letter each.
        longest: the most symbols of a word.
        rule: completes "a word is in it if it ...".
        member: whether a word, which is not empty, is in it.
    """

    symbols: str
    longest: int
    rule: str
    member: Callable[[Sequence[str]], bool]


class BoundedLanguage(RegularLanguage):
    """A finite language with the automaton of a predicate."""

    def __init__(self, name: str, of: Bounded) -> None:
        dfa = _automaton(of)
        super().__init__(name, dfa, tuple(of.symbols), objective="verdict", chomsky="finite")
        self.rule = f"{of.rule}, and has at most {of.longest} symbols"
        self.longest = of.longest


def _automaton(of: Bounded) -> DFA:
    """The smallest automaton: two prefixes are one state if their lengths and all their
    continuations agree."""
    states: dict[tuple[object, ...], int] = {}
    rows: dict[int, dict[str, int]] = {}
    final: set[int] = set()

    def state(prefix: tuple[str, ...]) -> int:
        inside = bool(prefix) and of.member(prefix)
        letters = of.symbols if len(prefix) < of.longest else ""
        after = tuple(state((*prefix, symbol)) for symbol in letters)
        key = (len(prefix), inside, after)
        if key not in states:
            states[key] = len(states)
            rows[states[key]] = dict(zip(letters, after, strict=True))
            final.update({states[key]} if inside else ())
        return states[key]

    start = state(())
    return DFA(
        states=set(rows),
        input_symbols=set(of.symbols),
        transitions=rows,
        initial_state=start,
        final_states=final,
        allow_partial=True,
    )


def _is_anbn(word: Sequence[str]) -> bool:
    half = len(word) // 2
    return list(word) == ["a"] * half + ["b"] * half


def _balanced(word: Sequence[str]) -> bool:
    heights = list(accumulate(1 if symbol == "(" else -1 for symbol in word))
    return heights[-1] == 0 and min(heights) >= 0


def _followed_by_a(word: Sequence[str]) -> bool:
    return any(letter == word[-1] and after == "a" for letter, after in pairwise(word))


def _in_order(word: Sequence[str]) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in "aba")


BOUNDED: Mapping[str, Bounded] = {
    f"{name}-{of.longest}": of
    for name, of in {
        "first-is-last": Bounded(
            "abc", 8, "ends with the symbol that it begins with", lambda w: w[0] == w[-1]
        ),
        "majority": Bounded("ab", 10, "has more a than b", lambda w: w.count("a") > w.count("b")),
        "anbn": Bounded("ab", 10, "is a^n b^n", _is_anbn),
        "depth": Bounded("()", 10, "closes every bracket that it opens", _balanced),
        "induction": Bounded(
            "abc", 8, "had an a right after an earlier copy of its last symbol", _followed_by_a
        ),
        "sort-position": Bounded(
            "abc",
            8,
            "has exactly two symbols that come before its last one in the alphabet",
            lambda w: sum(symbol < w[-1] for symbol in w) == 2,
        ),
        "from-the-end": Bounded(
            "ab",
            10,
            "has an a as the third symbol from its end",
            lambda w: len(w) >= 3 and w[-3] == "a",
        ),
        "subsequence": Bounded("abc", 8, "has a ... b ... a in this order", _in_order),
        "modular": Bounded(
            "ab", 10, "has a number of a that three divides", lambda w: w.count("a") % 3 == 0
        ),
        "histogram": Bounded(
            "abc", 8, "has its last symbol exactly twice", lambda w: w.count(w[-1]) == 2
        ),
        "palindrome": Bounded("ab", 8, "is the same backwards", lambda w: list(w) == list(w)[::-1]),
        "most-frequent": Bounded(
            "abc",
            8,
            "has no symbol more often than its last one",
            lambda w: w.count(w[-1]) == max(map(w.count, w)),
        ),
    }.items()
}
