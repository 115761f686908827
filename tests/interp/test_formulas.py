"""The shortest formula, the space of rules beside it, and the words that decide."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from hypothesis import given, settings
from hypothesis import strategies as st

from interp.automata.equivalence import Word
from interp.automata.evidence import rule_bits
from interp.automata.extraction import run
from interp.automata.formulas.literals import Literal
from interp.automata.formulas.search import Formula, _joined, _literally, search
from interp.automata.formulas.space import _parting, deciding, differing, space
from interp.automata.induction import Found, weighed
from interp.automata.rule_search import same
from interp.automata.rules import Families
from models.languages import RegularLanguage, language, printed_lines
from tests.random_automata import random_dfa

FOUR = ("a", "b", "c", "d")


def drawn(dfa: DFA, count: int, lengths: range = range(1, 13), seed: int = 0) -> list[Word]:
    """Random words, as many accepted as rejected ones where both are found among many."""
    rng = np.random.default_rng(seed)
    symbols = sorted(dfa.input_symbols)
    words = [
        tuple(np.array(symbols)[rng.integers(len(symbols), size=rng.choice(lengths))].tolist())
        for _ in range(8 * count)
    ]
    words = list(dict.fromkeys(words))
    verdicts = run(dfa, words)
    sides = [[w for w, v in zip(words, verdicts, strict=True) if v == side] for side in (0, 1)]
    fewest = min(count // 2, *map(len, sides))
    return [word for side in sides for word in side[:fewest]]


F = Families(FOUR)
PLANTED = {
    "in order": F.contains("a", "b", "c").dfa,
    "one implies the other": (~F.side_by_side("a", "a") | F.side_by_side("b", "b")).dfa,
    "parity and a pattern": (F.even("c") & ~F.side_by_side("a", "b")).dfa,
    "ends": (F.starts("a") & F.ends("b")).dfa,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_rule_is_the_shortest_formula(name: str) -> None:
    dfa = PLANTED[name]
    words = drawn(dfa, 400)
    best = search(words, run(dfa, words), FOUR).best["any"]
    assert best.wrong == 0
    rule = best.formula.rule(FOUR)
    assert same(rule.dfa.minify(), dfa.minify())
    assert best.formula.bits(4) == pytest.approx(rule_bits(rule, FOUR))


def test_a_rule_on_a_tier_is_found_and_says_what_is_left_out() -> None:
    tier = Families(("a", "b", "c"))
    narrow = ~tier.side_by_side("a", "a")
    dfa = DFA(
        states=narrow.dfa.states,
        input_symbols=set(FOUR),
        transitions={q: {**row, "d": q} for q, row in narrow.dfa.transitions.items()},
        initial_state=narrow.dfa.initial_state,
        final_states=narrow.dfa.final_states,
    )
    words = drawn(dfa, 400)
    rule = search(words, run(dfa, words), FOUR).best["local"].formula.rule(FOUR)
    assert same(rule.dfa.minify(), dfa.minify())
    assert rule.text == "never contains a a side by side (with d left out)"


def test_a_tier_that_all_parts_share_is_said_once() -> None:
    fits = np.zeros(0, dtype=bool)

    def one(letters: tuple[int, ...], tier: tuple[int, ...] | None, denied: bool) -> Formula:
        return _literally(Literal("pattern", (letters,), tier=tier), fits, 4, denied)

    shared = _joined("and", one((0, 1), (0, 1, 2), False), one((0,), (0, 1, 2), True))
    text = "contains a b side by side, and never contains a (both with d left out)"
    assert shared.rule(FOUR).text == text
    assert shared.rule(FOUR).denial == f"not so: {text}"
    assert _joined("or", shared, one((3,), None, False)).rule(FOUR).text == f"{text}, or contains d"
    three = _joined("xor", shared, one((1,), (0, 1, 2), False)).rule(FOUR)
    assert three.text == (
        "either contains a b side by side, and never contains a, or contains b, but not both "
        "(all 3 with d left out)"
    )
    other = _joined("and", one((0,), (0, 1, 2), False), one((1,), (0, 1), True))
    assert other.rule(FOUR).text == (
        "contains a (with d left out), and never contains b (with c and d left out)"
    )


def test_wrong_labels_do_not_change_the_rule() -> None:
    dfa = PLANTED["in order"]
    words = drawn(dfa, 600)
    labels = run(dfa, words) ^ (np.random.default_rng(0).random(len(words)) < 0.2)
    best = search(words, labels, FOUR).best["any"]
    assert same(best.formula.rule(FOUR).dfa.minify(), dfa.minify())
    assert best.wrong == (run(dfa, words) != labels).sum()


def test_random_labels_have_no_code_shorter_than_their_list() -> None:
    words = drawn(PLANTED["in order"], 200)
    labels = np.random.default_rng(1).random(len(words)) < 0.5
    best = search(words, labels, FOUR).best["any"]
    assert best.bits > len(words) - 8  # a list of exceptions takes about a bit for each


def lecture() -> tuple[list[Word], np.ndarray, tuple[str, ...]]:
    groups, words = zip(*printed_lines(), strict=True)
    symbols = tuple(sorted({symbol for word in words for symbol in word}))
    return list(words), np.array(groups) == "A", symbols


def others(words: list[Word], labels: np.ndarray, symbols: tuple[str, ...]) -> list[Found]:
    rules = [fit.formula.rule(symbols) for fit in search(words, labels, symbols).others]
    known = [weighed(r.dfa, symbols, words, labels, r, "classes") for r in rules]
    return space(known[0], known, symbols)


def test_the_printed_lines_have_the_rule_of_the_lecture_and_others_beside_it() -> None:
    words, labels, symbols = lecture()
    rules = others(words, labels, symbols)
    assert [rule.wrong for rule in rules] == [0] * len(rules)
    assert rules[0].rule is not None
    assert rules[0].rule.text.startswith(
        "is one or more leeuw, then one or more olifant, then one or more leeuw"
    )
    assert rules[0].bits < rules[1].bits - 5

    tier = [tuple(s for s in word if s in ("leeuw", "olifant")) for word in words]
    simple = [tuple(s for i, s in enumerate(w) if w[i - 1 : i] != (s,)) for w in tier]
    assert [w == ("leeuw", "olifant", "leeuw") for w in simple] == labels.tolist()

    f = Families(symbols)
    gaps = f.contains("leeuw", "olifant", "leeuw") & f.before("leeuw", "olifant")
    assert any(same(rule.dfa, gaps.dfa.minify()) for rule in rules)
    asked = deciding([rule.dfa for rule in rules], symbols)
    assert ("leeuw", "olifant", "leeuw", "olifant") in asked
    assert len({tuple(run(rule.dfa, asked)) for rule in rules}) > len(rules) / 2


@pytest.mark.parametrize("name", ["tomita7", "dyck1", "ends-or-even"])
def test_the_true_rule_is_in_the_space_and_alone_after_ten_answers(name: str) -> None:
    truth = language(name)
    assert isinstance(truth, RegularLanguage)
    sample = truth.sample(np.random.default_rng(0), 250, range(1, 13))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    words = [w for w in dict.fromkeys(truth.vocabulary.decode(r[:n]) for r, n in rows) if w]
    symbols = truth.vocabulary.symbols
    rules = [r.dfa for r in others(words, run(truth.dfa, words), symbols)]
    assert any(same(dfa, truth.dfa) for dfa in rules)
    for _ in range(10):
        for word in deciding(rules, symbols, most=1):
            rules = [dfa for dfa in rules if run(dfa, [word])[0] == truth.contains(word)]
    assert len(rules) == 1
    assert same(rules[0], truth.dfa)


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_two_rules_part_on_the_first_shortest_word_and_differ_on_a_share(seed: int) -> None:
    one, other = (random_dfa(3, ("a", "b"), [seed, side]) for side in (0, 1))
    words = [w for length in range(1, 9) for w in product("ab", repeat=length)]
    differ = [w for w in words if run(one, [w])[0] != run(other, [w])[0]]
    assert _parting(one, other, ("a", "b")) == next(iter(differ), None)
    assert same(one, other) == (not differ)
    five = [w for w in differ if len(w) == 5]
    eight = [w for w in differ if len(w) == 8]
    share = (len(five) / 2**5 + 3 * len(eight) / 2**8) / 4
    assert differing(one, other, ("a", "b"), [5, 8, 8, 8]) == pytest.approx(share)


def test_deciding_words_split_as_evenly_as_they_can() -> None:
    rules = [F.at_least(count, "a").dfa for count in range(1, 9)]
    asked = deciding(rules, FOUR)
    assert len({tuple(run(rule, asked)) for rule in rules}) == 8
    assert run(rules[3], [asked[0]])[0]
    assert not run(rules[4], [asked[0]])[0]
    assert deciding(rules[:1], FOUR) == []
