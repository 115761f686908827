"""What labelled lines say for a rule, against binomial coefficients and Fisher's exact test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, log2

import numpy as np
import pytest
from automata.fa.dfa import DFA
from scipy.stats import fisher_exact

from interp.automata.equivalence import Word
from interp.automata.evidence import (
    Leftovers,
    _integer_bits,
    automaton_bits,
    exception_bits,
    leftovers,
    rule_bits,
)
from interp.automata.extraction import run
from interp.automata.rules import Families

ABC = ("a", "b", "c")
F = Families(ABC)


def drawn(count: int, seed: int, lengths: tuple[int, int] = (3, 9)) -> list[Word]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(ABC, size).tolist()) for size in rng.integers(*lengths, size=count)]


# -- code lengths -------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 7, 50, 5000])
def test_exceptions_are_their_number_and_which(lines: int) -> None:
    for wrong in {0, 1, lines // 3, lines // 2, lines}:
        expected = log2(lines + 1) + log2(comb(lines, wrong))
        assert exception_bits(lines, wrong) == pytest.approx(expected, rel=1e-9)


C = log2(2.865064)
"""What makes the code of the integers complete."""


def test_the_code_of_the_integers() -> None:
    """By hand for small ones; and it is complete: the words of the code use up Kraft's sum."""
    assert _integer_bits(1) == pytest.approx(C)
    assert _integer_bits(2) == pytest.approx(C + 1)
    assert _integer_bits(4) == pytest.approx(C + 2 + 1)
    assert _integer_bits(16) == pytest.approx(C + 4 + 2 + 1)
    bits = [_integer_bits(number) for number in range(1, 2000)]
    assert bits == sorted(set(bits))
    assert 0.7 < sum(2**-each for each in bits) < 1


def test_an_automaton_written_down_by_hand() -> None:
    """States and classes, each symbol's class, per state a target per class and a bit."""
    two = Families(("a", "b")).contains("a").dfa
    head = 1 + 2 * _integer_bits(2)
    assert automaton_bits(two, ("a", "b")) == pytest.approx(head + 2 - 1 + 2 * 2 + 2)
    wide = Families(tuple("abcdef")).contains("a", "b").dfa
    head = 1 + 2 * _integer_bits(3)
    classes, rows = 6 * log2(3) - log2(6), 3 * 3 * log2(3) + 3 - log2(2)
    assert automaton_bits(wide, tuple("abcdef")) == pytest.approx(head + classes + rows)
    one = DFA.universal_language(set(ABC))
    assert automaton_bits(one, ABC) == pytest.approx(1 + 2 * C + 1)


def test_a_larger_count_takes_more_bits() -> None:
    """ "at least 8" is no cheaper than "at least 2", nor are two counts cheaper than one."""
    bits = [rule_bits(F.at_least(count, "a"), ABC) for count in range(2, 9)]
    assert bits == sorted(set(bits))
    assert bits[-1] - bits[0] == pytest.approx(_integer_bits(9) - _integer_bits(3))
    assert rule_bits(~F.at_least(8, "a"), ABC) > rule_bits(~F.at_least(2, "a"), ABC)
    both = F.at_least(3, "a") & F.exactly(2, "b")
    assert both.counts == (3, 2)


def test_more_states_take_more_bits() -> None:
    sizes = [automaton_bits(F.at_least(count, "a").dfa, ABC) for count in range(1, 12)]
    assert sizes == sorted(set(sizes))


def test_more_classes_of_symbols_take_more_bits() -> None:
    """Of two automata with three states each."""
    assert automaton_bits(F.at_least(2, "a").dfa, ABC) < automaton_bits(
        F.contains("a", "b").dfa, ABC
    )


def test_a_longer_rule_takes_more_bits_and_fewer_than_its_table() -> None:
    one, two = F.contains("a", "b"), F.contains("a", "b") & F.ends("c")
    assert rule_bits(two, ABC) == pytest.approx(rule_bits(one, ABC) + 2 * log2(3 + 23))
    assert rule_bits(one, ABC) < automaton_bits(one.dfa, ABC)
    assert rule_bits(two, ABC) < automaton_bits(two.dfa, ABC)


# -- what exceptions share ----------------------------------------------------------------------

Feature = tuple[str, Callable[[Word], bool]]


def features(words: Sequence[Word]) -> list[Feature]:
    middle = int(np.median([len(word) for word in words]))
    named: list[Feature] = [(f"are longer than {middle}", lambda w: len(w) > middle)]
    for s in ABC:
        named += [
            (f"contain {s}", lambda w, s=s: s in w),
            (f"contain {s} twice", lambda w, s=s: w.count(s) >= 2),
            (f"start with {s}", lambda w, s=s: w[:1] == (s,)),
            (f"end with {s}", lambda w, s=s: w[-1:] == (s,)),
        ]
        for t in ABC:
            beside = f"contain {s} {t} side by side"
            named.append((beside, lambda w, s=s, t=t: f" {s} {t} " in f" {' '.join(w)} "))
            if s != t:
                order = f"contain {s} ... {t} in this order"
                named.append((order, lambda w, s=s, t=t: s in w and t in w[w.index(s) :]))
    return named


def by_hand(words: Sequence[Word], labels: np.ndarray, verdicts: np.ndarray) -> dict[str, float]:
    """What is said of each feature on each side, with its corrected p, by Fisher's exact test."""
    found, tried = {}, 0
    for side, verdict in (("accepted", True), ("rejected", False)):
        rows = [
            (w, y != v) for w, y, v in zip(words, labels, verdicts, strict=True) if v == verdict
        ]
        wrong, right = [w for w, bad in rows if bad], [w for w, bad in rows if not bad]
        if not wrong or not right:
            continue
        for name, has in features(words):
            x, y = sum(map(has, wrong)), sum(map(has, right))
            tried += 0 < x + y < len(rows)
            table = [[x, len(wrong) - x], [y, len(right) - y]]
            tails = [fisher_exact(table, alternative=way).pvalue for way in ("less", "greater")]
            said = f"{x} of {len(wrong)} contradicted lines that are {side} {name}, "
            found[f"{said}but {y} of the {len(right)} others"] = min(1.0, 2 * min(tails))
    return {said: min(1.0, p * tried) for said, p in found.items()}


def twisted(seed: int) -> tuple[list[Word], np.ndarray, np.ndarray]:
    """Lines, labels and verdicts; often or seldom at odds, by chance or for a reason."""
    rng = np.random.default_rng(seed)
    words, verdicts = drawn(40, seed, (0, 6)), rng.random(40) < 0.6
    middle = np.median([len(word) for word in words])
    odd = {
        "often": rng.random(40) < 0.5,
        "seldom": rng.random(40) < 0.2,
        "b first": np.array([word[:1] == ("b",) for word in words]),
        "long": np.array([len(word) > middle for word in words]),
        "all that are rejected": ~verdicts | (rng.random(40) < 0.4),
    }
    return words, verdicts ^ list(odd.values())[seed % len(odd)], verdicts


@pytest.mark.parametrize("seed", range(20))
def test_every_feature_by_fisher_s_exact_test(seed: int) -> None:
    """The smallest p of all features, corrected."""
    words, labels, verdicts = twisted(seed)
    expected = by_hand(words, labels, verdicts)
    found = leftovers(words, labels, verdicts, ABC)
    assert found.p == pytest.approx(min(expected.values()), rel=1e-9)
    if found.p < 1:
        assert found.p == pytest.approx(expected[found.feature], rel=1e-9)


def test_without_exceptions_nothing_is_shared() -> None:
    words = drawn(50, 0)
    verdicts = run(F.contains("a").dfa, words)
    assert leftovers(words, verdicts, verdicts, ABC) == Leftovers("", 1.0)
    assert leftovers(words, ~verdicts, verdicts, ABC) == Leftovers("", 1.0), "no line to compare"


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "gained"), [(0.15, 0.15), (0.3, 0.0), (0.02, 0.25)])
def test_random_wrong_labels_look_like_noise(lost: float, gained: float) -> None:
    """Of 100 draws no more than 3 below 0.01, even if noise hits one label more than the other."""
    below = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        words = drawn(200, seed)
        verdicts = run(F.contains("a", "b").dfa, words)
        labels = verdicts ^ (rng.random(200) < np.where(verdicts, lost, gained))
        below += leftovers(words, labels, verdicts, ABC).p < 0.01
    assert below <= 3


WEAK = [
    (F.contains("a").dfa, F.contains("a", "b").dfa, "a ... b in this order"),
    (F.contains("a").dfa, F.contains("a", "a", "a").dfa, "a a side by side"),
    (
        F.contains("a", "b").dfa,
        (F.contains("a", "b") & ~F.side_by_side("a", "b")).dfa,
        "a b side by side",
    ),
    (F.starts("a").dfa, (F.starts("a") & F.ends("c")).dfa, "c"),
    (F.contains("a").dfa, F.at_least(2, "a").dfa, "a twice"),
    (DFA.universal_language(set(ABC)), F.at_most(1, "c").dfa, "c twice"),
    (F.contains("a", "b").dfa, (F.contains("a", "b") | F.starts("c")).dfa, "start with c"),
]


@pytest.mark.parametrize(("rule", "truth", "symbol"), WEAK)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_exceptions_of_too_weak_a_rule_betray_it(
    rule: DFA, truth: DFA, symbol: str, noise: float
) -> None:
    """They name the symbol that the rule leaves out, with wrong labels among the lines or not."""
    words = drawn(600, 1)
    labels = run(truth, words) ^ (np.random.default_rng(2).random(600) < noise)
    found = leftovers(words, labels, run(rule, words), ABC)
    assert found.p < 1e-6
    assert f" {symbol}, but" in found.feature


def test_an_even_number_is_betrayed_by_a_symbol_that_comes_twice() -> None:
    """Of the rule that allows none: words with two of the symbol contradict it."""
    words = drawn(600, 3, (2, 6))
    found = leftovers(words, run(F.even("b").dfa, words), run((~F.contains("b")).dfa, words), ABC)
    assert found.p < 1e-6
    assert "lines that are rejected contain b twice, but" in found.feature
