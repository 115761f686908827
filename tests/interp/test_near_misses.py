"""Words of a rule and words one edit away: against all words, and where a rule fails late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from interp.automata import near_misses as module
from interp.automata.envelope import Constraint, local
from interp.automata.equivalence import Word
from interp.automata.near_misses import Claim, _edited, _members, near_misses

EQUAL = (Constraint((1, -1, 0), 0), Constraint((1, 0, -1), 0))  # #a = #b = #c
ONE_MORE = (Constraint((2, -1, 0), 1),)  # 2 #a = #b + 1


def dfa(regex: str, symbols: str) -> DFA:
    made = DFA.from_nfa(NFA.from_regex(regex, input_symbols=set(symbols)))
    return made.to_complete().minify()


CLAIMS = {
    "regular": (Claim(dfa("(ab|c)*", "abc"), tuple("abc")), 6, 6),
    "counts": (Claim(DFA.universal_language(set("abc")), tuple("abc"), EQUAL), 7, 6),
    "both": (Claim(dfa("(a|b)*c*", "abc"), tuple("abc"), ONE_MORE), 6, 6),
    "none": (Claim(dfa("ab|ba", "ab"), tuple("ab")), 5, 2),
}
"""Each with a length, and the length of the longest accepted words up to there."""


@pytest.mark.parametrize("name", CLAIMS)
def test_words_of_a_rule_are_drawn_evenly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them come, no others do, and each as often, within five standard errors."""
    claim, longest, length = CLAIMS[name]
    every = [word for word in product(claim.symbols, repeat=length) if claim([word])[0]]
    assert every
    monkeypatch.setattr(module, "LENGTHS", 1)
    monkeypatch.setattr(module, "in_order", list)  # as drawn, so that they can be counted
    drawn = _members(claim, range(1, longest + 1), 3000, np.random.default_rng(0))
    times = Counter(drawn)
    assert set(times) == set(every)
    expected = len(drawn) / len(every)
    assert max(abs(n - expected) for n in times.values()) < 5 * np.sqrt(expected)


def test_a_rule_s_verdicts_are_its_definition() -> None:
    claim, *_ = CLAIMS["both"]
    words = [word for n in range(6) for word in product("abc", repeat=n)]
    expected = [
        2 * word.count("a") == word.count("b") + 1 and "ca" not in text and "cb" not in text
        for word in words
        if (text := "".join(word)) or True
    ]
    assert claim(words).tolist() == expected
    assert any(expected)


def test_near_misses_are_one_edit_away() -> None:
    word = tuple("abca")
    places, symbols = range(len(word)), "abc"
    around = {(*word[:i], s, *word[i:]) for i in range(len(word) + 1) for s in symbols}
    around |= {(*word[:i], s, *word[i + 1 :]) for i in places for s in symbols}
    around |= {(*word[:i], *word[i + 1 :]) for i in places}
    around |= {(*word[:i], word[i + 1], word[i], *word[i + 2 :]) for i in places[:-1]}
    assert _edited([word], symbols, np.random.default_rng(0)) == around


def late(words: Sequence[Word]) -> np.ndarray:
    """a^n b^n c^n; from n = 13 on, one c more is accepted too, and n = 12 is rejected."""
    texts = ["".join(word) for word in words]
    sizes = [text.count("a") for text in texts]
    return np.array([
        (text == "a" * n + "b" * n + "c" * n and n != 12)
        or (n > 12 and text == "a" * n + "b" * n + "c" * (n + 1))
        for text, n in zip(texts, sizes, strict=True)
    ])  # fmt: skip


def test_a_rule_that_fails_late_is_found_out() -> None:
    claim = Claim(local([tuple("aabbcc")], "abc"), tuple("abc"), EQUAL)
    table = near_misses(late, claim, (9, 18, 36, 72))
    assert table["length"].tolist() == [9, 9, 18, 18, 36, 36, 72, 72]
    wrong = table["words"] - table["agree"]
    assert wrong.tolist()[:5] == [0, 0, 0, 0, 1]  # a^12 b^12 c^12 alone
    assert wrong.tolist()[7] >= 1
    assert table["examples"][4] == [tuple("a" * 12 + "b" * 12 + "c" * 12)]
    for word in table["examples"][7]:
        assert word.count("c") == word.count("a") + 1 > 13
    assert (table["words"][1::2] > 40).all()


def test_a_rule_without_long_words_has_no_rows() -> None:
    assert near_misses(late, Claim(dfa("ab", "ab"), ("a", "b")), (10, 20)).empty


def test_too_many_sums_cut_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, *_ = CLAIMS["counts"]
    monkeypatch.setattr(module, "MOST", 20)
    drawn = _members(claim, range(1, 31), 100, np.random.default_rng(0))
    assert drawn
    assert claim(drawn).all()
    assert max(map(len, drawn)) < 30
