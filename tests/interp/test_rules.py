"""Rules in words: each family against plain Python, and the rule behind automata and verdicts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby, pairwise, permutations, product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import words_up_to
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_extraction import of_regex

from interp.automata.equivalence import Word
from interp.automata.extraction import run, symbol_classes, toggled
from interp.automata.rule_search import rule_of, rules_near, same
from interp.automata.rules import Families, Rule

ABC = ("a", "b", "c")
WORDS = list(words_up_to(ABC, 5))
PATTERNS = [pattern for length in (1, 2, 3) for pattern in product(ABC, repeat=length)]
COUNTS = list(product(range(1, 4), ABC))
PAIRS = list(permutations(ABC, 2))

Obeys = Callable[[Word], bool]


def runs(word: Word, *pattern: str) -> bool:
    """One run of each symbol of the pattern, in this order, where others are left out."""
    return tuple(key for key, _ in groupby(s for s in word if s in pattern)) == pattern


def times(word: Word, *pattern: str, least: int = 0) -> bool:
    count, rest = divmod(len(word), len(pattern))
    return rest == 0 and count >= least and word == pattern * count


def matched(word: Word, depth: int, *pairs: str) -> bool:
    stack: list[str] = []
    for symbol in word:
        for opens, closes in pairs:
            if symbol == opens:
                stack.append(closes)
            elif symbol == closes and (not stack or stack.pop() != closes):
                return False
        if len(stack) > depth:
            return False
    return not stack


def in_order(word: Word, *pattern: str) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in pattern)


def first_seen(word: Word, early: str, late: str) -> bool:
    return next((s for s in word if s in (early, late)), None) == early


def sorted_apart(word: Word, early: str, late: str) -> bool:
    seen = [s for s in word if s in (early, late)]
    return seen == [early] * seen.count(early) + [late] * seen.count(late)


FAMILIES: dict[str, tuple[Sequence[tuple], Callable[..., bool]]] = {
    "contains": (PATTERNS, in_order),
    "side_by_side": (PATTERNS, lambda w, *p: "".join(p) in "".join(w)),
    "starts": (PATTERNS, lambda w, *p: "".join(w).startswith("".join(p))),
    "ends": (PATTERNS, lambda w, *p: "".join(w).endswith("".join(p))),
    "same_ends": ([()], lambda w: w != () and w[0] == w[-1]),
    "at_least": (COUNTS, lambda w, n, s: w.count(s) >= n),
    "at_most": ([*COUNTS, (0, "a")], lambda w, n, s: w.count(s) <= n),
    "exactly": ([*COUNTS, (0, "b")], lambda w, n, s: w.count(s) == n),
    "even": (list(zip(ABC)), lambda w, s: w.count(s) % 2 == 0),
    "before": (PAIRS, first_seen),
    "all_before": (PAIRS, sorted_apart),
    "only": (list(zip(ABC)), lambda w, s: set(w) == {s}),
}

SHAPES: dict[str, tuple[Sequence[tuple], Callable[..., bool]]] = {
    "word": (PATTERNS, lambda w, *p: w == p),
    "repeated": (PATTERNS, times),
    "blocks": ([p for p in PATTERNS if all(x != y for x, y in pairwise(p))], runs),
    "modulo": (
        [
            (2, [0], {"a": 1, "b": 1, "c": 1}),
            (3, [1], {"b": 1}),
            (3, [0, 2], {"a": 1, "c": 2}),
            (4, [2], {"a": 1, "b": 1}),
        ],
        lambda w, n, rests, counts: sum(counts.get(s, 0) for s in w) % n in rests,
    ),
    "brackets": ([(depth, pair) for depth in (1, 2, 3) for pair in PAIRS], matched),
}


def made(family: str, *of: object, symbols: Sequence[str] = ABC) -> Rule:
    return getattr(Families(symbols), family)(*of)


def accepted(rule: Rule) -> list[bool]:
    return run(rule.dfa, WORDS).tolist()


# -- the families -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [*FAMILIES, *SHAPES])
def test_every_family_accepts_what_its_name_says(family: str) -> None:
    """On all words up to length 5, the empty one among them; and the denial all others."""
    arguments, obeys = (FAMILIES | SHAPES)[family]
    for of in arguments:
        rule, expected = made(family, *of), [obeys(word, *of) for word in WORDS]
        assert accepted(rule) == expected, rule.text
        assert accepted(~rule) == [not yes for yes in expected], rule.denial
        assert all(set(row) == set(ABC) for row in rule.dfa.transitions.values()), "complete"
        assert rule.dfa.states == set(rule.dfa.transitions)


TEXTS = [
    (made("contains", "b"), "contains b", "never contains b"),
    (
        made("contains", "a", "b", "a"),
        "contains a ... b ... a in this order",
        "never contains a ... b ... a in this order",
    ),
    (
        made("side_by_side", "a", "b"),
        "contains a b side by side",
        "never contains a b side by side",
    ),
    (made("starts", "c", "a"), "starts with c a", "does not start with c a"),
    (made("ends", "b"), "ends with b", "does not end with b"),
    (
        made("same_ends"),
        "starts and ends with the same symbol",
        "does not start and end with the same symbol",
    ),
    (made("at_least", 2, "a"), "has at least 2 a", "does not have at least 2 a"),
    (made("at_most", 1, "b"), "has at most 1 b", "does not have at most 1 b"),
    (made("exactly", 3, "c"), "has exactly 3 c", "does not have exactly 3 c"),
    (made("even", "a"), "has an even number of a", "has an odd number of a"),
    (made("before", "a", "b"), "has a before any b", "does not have a before any b"),
    (
        made("all_before", "a", "b"),
        "has every a before every b",
        "does not have every a before every b",
    ),
    (made("word", "a", "b"), "is a b, and nothing else", "is not a b, and nothing else"),
    (made("repeated", "b"), "is b, any number of times", "is not b, any number of times"),
    (
        made("blocks", "a", "b", "a"),
        "is one or more a, then one or more b, then one or more a (with c left out)",
        "is not one or more a, then one or more b, then one or more a (with c left out)",
    ),
    (
        made("modulo", 3, [1, 2], {"a": 1, "c": 1}),
        "has a number of a and c that leaves 1 or 2 when divided by 3",
        "does not have a number of a and c that leaves 1 or 2 when divided by 3",
    ),
    (
        made("modulo", 5, [0], {"a": 1, "c": 3}),
        "has a sum, where a counts 1 and c counts 3, divisible by 5",
        "does not have a sum, where a counts 1 and c counts 3, divisible by 5",
    ),
    (
        made("modulo", 2, [0], dict.fromkeys(ABC, 1)),
        "has a length divisible by 2",
        "does not have a length divisible by 2",
    ),
    (
        made("brackets", 2, ("a", "b")),
        "has a b as brackets that match, nested up to depth 2",
        "does not have a b as brackets that match, nested up to depth 2",
    ),
    (
        made("only", "b"),
        "is one or more b, and nothing else",
        "is not one or more b, and nothing else",
    ),
]


@pytest.mark.parametrize(("rule", "text", "denial"), TEXTS)
def test_the_text_of_a_rule_and_of_its_denial(rule: Rule, text: str, denial: str) -> None:
    assert (rule.text, rule.denial) == (text, denial)
    no = ~rule
    assert (no.text, no.denial, no.size) == (denial, text, rule.size + 1)
    assert (no.family == "never") == (rule.family in ("contains", "side by side"))


def test_a_rule_of_longer_symbols_under_other_names() -> None:
    families = Families(("kat", "aap", "muis"), {"aap": "one of aap, beer"})
    rule = families.contains("kat", "aap")
    assert rule.text == "contains kat ... one of aap, beer in this order"
    assert rule.dfa.accepts_input(("kat", "muis", "aap"))
    assert not rule.dfa.accepts_input(("aap", "kat"))
    assert families.exactly(2, "kat").dfa.accepts_input(("kat", "muis", "kat"))


def test_two_rules_in_one() -> None:
    one, other = made("starts", "a"), made("even", "b")
    parts = list(zip(accepted(one), accepted(other), strict=True))
    both, either, differ = one & other, one | other, one ^ other
    assert accepted(both) == [x and y for x, y in parts]
    assert accepted(either) == [x or y for x, y in parts]
    assert accepted(differ) == [x != y for x, y in parts]
    assert both.text == "starts with a, and has an even number of b"
    assert either.text == "starts with a, or has an even number of b"
    assert differ.text == "either starts with a, or has an even number of b, but not both"
    for rule, family in ((both, "and"), (either, "or"), (differ, "xor")):
        assert (rule.family, rule.size) == (family, one.size + other.size + 1)
        assert accepted(~rule) == [not yes for yes in accepted(rule)]
        assert (~rule).text == f"not so: {rule.text}"


# -- the rule behind an automaton ---------------------------------------------------------------


def names(text: str) -> list[str]:
    return re.split(", | and ", text)


def only(word: Word, text: str) -> Word:
    return tuple(symbol for symbol in word if symbol in names(text))


def repeats(word: Word, no: str, pattern: str, how: str) -> bool:
    return times(word, *pattern.split(), least=how == "one or more") != bool(no)


def in_blocks(word: Word, no: str, text: str) -> bool:
    pattern = tuple(run[-1] for run in text.split(", then "))
    return (tuple(key for key, _ in groupby(word)) == pattern) != bool(no)


def nested(word: Word, text: str, depth: str) -> bool:
    return matched(word, int(depth), *(pair.replace(" ", "") for pair in names(text)))


def left(count: int, how: str) -> bool:
    if rests := re.fullmatch("that leaves (.*) when divided by (.)", how):
        return str(count % int(rests[2])) in rests[1].split(" or ")
    return count % int(how[-1]) == 0


def on_tier(word: Word, text: str, but: str | None, names: str) -> bool:
    listed = names.replace(",", " ").split()
    return means(text)(tuple(s for s in word if (s in listed) == bool(but)))


READINGS: list[tuple[str, Callable[..., bool]]] = [
    ("is any word", lambda w: True),
    ("is no word", lambda w: False),
    ("not so: (.*)", lambda w, text: not means(text)(w)),
    (r"(.*) \(with (all but )?(.*) left out\)", on_tier),
    ("either (.*), or (.*), but not both", lambda w, x, y: means(x)(w) != means(y)(w)),
    ("is one or more (.), and nothing else", lambda w, s: set(w) == {s}),
    ("is not one or more (.), and nothing else", lambda w, s: set(w) != {s}),
    ("is (not )?(.*), (any number of|one or more) times", repeats),
    ("is (not )?((?:.*, then )*one or more .)", in_blocks),
    ("is (not )?(. .*), and nothing else", lambda w, no, p: (" ".join(w) == p) != bool(no)),
    ("has (.*) as brackets that match, nested up to depth (.)", nested),
    ("has a length (.*)", lambda w, how: left(len(w), how)),
    ("has a number of (.*?) (div.*|that.*)", lambda w, s, how: left(len(only(w, s)), how)),
    ("(.*), or (.*)", lambda w, x, y: means(x)(w) or means(y)(w)),
    ("(.*), and (?!nothing)(.*)", lambda w, x, y: means(x)(w) and means(y)(w)),
    ("never (.*)", lambda w, text: not means(text)(w)),
    ("does not start and end (.*)", lambda w, rest: not means(f"starts and ends {rest}")(w)),
    ("does not (start|end) (.*)", lambda w, how, rest: not means(f"{how}s {rest}")(w)),
    ("does not have (.*)", lambda w, what: not means(f"has {what}")(w)),
    ("contains one of (.*)", lambda w, group: only(w, group) != ()),
    ("contains (.)", lambda w, s: s in w),
    ("contains (.*) in this order", lambda w, p: in_order(w, *p.split(" ... "))),
    ("contains (.*) side by side", lambda w, p: p in " ".join(w)),
    ("starts and ends with the same symbol", lambda w: w[:1] == w[-1:] != ()),
    ("starts with (.*)", lambda w, p: " ".join(w).startswith(p)),
    ("ends with (.*)", lambda w, p: " ".join(w).endswith(p)),
    ("has at least (.) (.)", lambda w, n, s: w.count(s) >= int(n)),
    ("has at most (.) (.)", lambda w, n, s: w.count(s) <= int(n)),
    ("has exactly (.) (.)", lambda w, n, s: w.count(s) == int(n)),
    ("has an even number of (.)", lambda w, s: w.count(s) % 2 == 0),
    ("has an odd number of (.)", lambda w, s: w.count(s) % 2 == 1),
    ("has every (.) before every (.)", sorted_apart),
    ("has (.) before any (.)", first_seen),
]


def means(text: str) -> Obeys:
    """What a reader takes a rule's text to say, where all symbols are letters."""
    for pattern, obeys in READINGS:
        found = re.fullmatch(pattern, text)
        if found:
            return lambda word, obeys=obeys, found=found: obeys(word, *found.groups())
    raise AssertionError(f"unreadable: {text}")


Part = tuple[str, tuple, bool]  # family, arguments, denied


@st.composite
def planted(draw: st.DrawFn) -> tuple[tuple[str, ...], Part, str | None, Part]:
    """Over two or three symbols one part, or two of them and how they are one rule."""
    symbols = draw(st.sampled_from([ABC, ABC[:2]]))

    def part() -> Part:
        family = draw(st.sampled_from(sorted(FAMILIES)))
        fitting = [of for of in FAMILIES[family][0] if set(symbols) >= named(of)]
        return family, draw(st.sampled_from(fitting)), draw(st.booleans())

    return symbols, part(), draw(st.sampled_from([None, "and", "or", "xor"])), part()


def named(of: Sequence[object]) -> set[object]:
    return set(of) & set(ABC)


def rule_from(
    symbols: tuple[str, ...], one: Part, combine: str | None, other: Part
) -> tuple[Rule, set[object]]:
    """The rule, and the symbols that it names."""
    rules = []
    for family, of, denied in (one, other):
        rule = made(family, *of, symbols=symbols)
        rules.append(~rule if denied else rule)
    if combine is None:
        return rules[0], named(one[1])
    way = {"and": Rule.__and__, "or": Rule.__or__, "xor": Rule.__xor__}[combine]
    return way(*rules), named(one[1]) | named(other[1])


@pytest.mark.slow
@settings(max_examples=40)
@given(planted())
def test_a_planted_rule_comes_back(
    case: tuple[tuple[str, ...], Part, str | None, Part],
) -> None:
    """By the same automaton, told no longer, in a text that says what the automaton does.

    Rules that treat alike two symbols that they name are left out: they are told otherwise.
    """
    symbols, (rule, names) = case[0], rule_from(*case)
    classes = symbol_classes(rule.dfa.minify(), symbols)
    assume(all(len(group) == 1 for group in classes if names & set(group)))
    found = rule_of(rule.dfa, symbols)
    assert found is not None, rule.text
    assert found.dfa == rule.dfa
    assert len(found.text.split()) <= len(rule.text.split())
    obeys = means(found.text)
    for word in words_up_to(symbols, 4):
        assert found.dfa.accepts_input(word) == obeys(word), (word, found.text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|b|c)*", "is any word"),
        ("(a|b|c)*b(a|b|c)*", "contains b"),
        ("(a|b|c)*a(a|b|c)*b(a|b|c)*", "contains a ... b in this order"),
        ("(a|b|c)*a(a|b|c)*b(a|b|c)*a(a|b|c)*", "contains a ... b ... a in this order"),
        ("(a|b|c)*c(a|b|c)*c(a|b|c)*", "has at least 2 c"),
        ("(a|b|c)*ab(a|b|c)*", "contains a b side by side"),
        ("(a|b|c)*cbac(a|b|c)*", "contains c b a c side by side"),
        ("ca(a|b|c)*", "starts with c a"),
        ("(a|b|c)*cab", "ends with c a b"),
        ("bb*", "is one or more b, and nothing else"),
        ("(a|b)*", "never contains c"),
        ("(b|c)*a(b|c)*", "has exactly 1 a"),
        ("(b|c)*a?(b|c)*", "has at most 1 a"),
        ("(b|c)*(a(b|c)*a(b|c)*)*", "has an even number of a"),
        ("(b|c)*a(b|c)*(a(b|c)*a(b|c)*)*", "has an odd number of a"),
        ("(a|c)*(b|c)*", "has every a before every b"),
        ("c*a(a|b|c)*", "has a before any b"),
        ("a|b|c|a(a|b|c)*a|b(a|b|c)*b|c(a|b|c)*c", "starts and ends with the same symbol"),
        ("a(a|b|c)*b", "starts with a, and ends with b"),
        ("a(a|b|c)*|(a|b|c)*b", "starts with a, or ends with b"),
        ("b*", "never contains one of a, c"),
        ("abc", "is a b c, and nothing else"),
        ("(ab)*", "is a b, any number of times"),
        ("ab(ab)*", "is a b, one or more times"),
        (
            "c*a(a|c)*b(b|c)*a(a|c)*",
            "is one or more a, then one or more b, then one or more a (with c left out)",
        ),
        ("(c|ac*b)*", "is a b, any number of times (with c left out)"),
        ("(c|a(c|ac*b)*b)*", "has a b as brackets that match, nested up to depth 2"),
        ("(b|c)*(a(b|c)*a(b|c)*a(b|c)*)*", "has a number of a divisible by 3"),
        (
            "(b|c)*(a(b|c)*a(b|c)*a(b|c)*)*a(b|c)*",
            "has a number of a that leaves 1 when divided by 3",
        ),
        ("(a|b)(aa|b)*", None),
        (
            "a*b*c*",
            "never contains b a side by side, and never contains c a side by side, "
            "and never contains c b side by side",
        ),
        ("(a|b|c)*a(b|c)*b(a|b|c)*|c", None),
    ],
)
def test_the_rule_in_words(pattern: str, text: str | None) -> None:
    dfa = of_regex(pattern, "abc").dfa
    rule = rule_of(dfa, ABC)
    assert (rule and rule.text) == text
    if text:
        obeys = means(text)
        assert run(dfa, WORDS).tolist() == [obeys(word) for word in WORDS]


def test_two_pairs_of_brackets_and_a_tier_of_longer_symbols() -> None:
    symbols = ("(", ")", "[", "]", "word")
    dfa = Families(symbols).brackets(2, ("(", ")"), ("[", "]")).dfa
    words = list(words_up_to(symbols, 6))
    assert run(dfa, words).tolist() == [matched(word, 2, "()", "[]") for word in words]
    rule = rule_of(dfa, symbols)
    assert rule is not None
    assert rule.text == "has ( ) and [ ] as brackets that match, nested up to depth 2"
    pets = ("kat", "muis", "aap")
    sides = Families(("kat", "aap")).side_by_side("kat", "kat")
    rule = rule_of(Families(pets).on_tier(sides, ["kat", "aap"]).dfa, pets)
    assert rule is not None
    assert rule.text == "contains kat kat side by side (with muis left out)"


LISTS = [
    (
        made("starts", "a", "a"),
        ~made("side_by_side", "b", "b"),
        ~made("side_by_side", "c", "a", "c", "a"),
    ),
    (made("ends", "b"), ~made("starts", "b"), ~made("side_by_side", "c", "c")),
    (~made("contains", "a", "b", "a"), ~made("contains", "b", "c"), made("at_most", 2, "c")),
]


@pytest.mark.parametrize("parts", LISTS)
def test_lists_of_more_than_two_parts(parts: Sequence[Rule]) -> None:
    """In words that say so, whatever their order; and the denial of the list."""
    for rule in (reduce(Rule.__and__, parts), reduce(Rule.__or__, (~part for part in parts))):
        listed = rule_of(rule.dfa, ABC)
        assert listed is not None
        assert listed.family == rule.family
        assert len(listed.text.split()) <= len(rule.text.split())
        obeys = means(listed.text)
        assert accepted(rule) == [obeys(word) for word in WORDS]


def test_no_word_in_words() -> None:
    found = rule_of(DFA.empty_language({"a", "b"}), ("a", "b"))
    assert found is not None
    assert found.text == "is no word"


def all_told(symbols: tuple[str, ...], words: Sequence[Word]) -> Iterator[np.ndarray]:
    """The verdicts of every rule of the families by plain Python: one part, then two."""
    yield np.ones(len(words), dtype=bool)
    patterns = [p for n in range(1, 5) for p in product(symbols, repeat=n)]
    counted = list(product(range(6), symbols))
    pairs = list(permutations(symbols, 2))
    wider: dict[str, list[tuple]] = {"same_ends": [()], "before": pairs, "all_before": pairs}
    wider |= dict.fromkeys(("contains", "side_by_side", "starts", "ends"), patterns)
    wider |= dict.fromkeys(("at_least", "at_most", "exactly"), counted)
    wider |= {name: list(zip(symbols)) for name in ("even", "only")}
    assert set(wider) == set(FAMILIES)
    for family, arguments in wider.items():
        for of in arguments:
            yield np.array([FAMILIES[family][1](word, *of) for word in words])


@pytest.mark.parametrize(
    "pattern",
    [
        "((a|b)(a|b)(a|b))*a",
        "(b(ab*a)*b|a)*",
        "a*bb(a|b)*",
        "(a|b)*a(a|b)(a|b)(a|b)",
    ],
)
def test_outside_all_families_there_is_no_rule(pattern: str) -> None:
    """Brute force: on the words up to length 7 no family, denial, and, or, xor is the language.

    Shapes and lists are not tried by brute force.
    """
    lang, words = of_regex(pattern), list(words_up_to("ab", 7))
    assert rule_of(lang.dfa, ("a", "b")) is None
    wanted = np.array([lang.contains(word) for word in words])
    one = np.unique(
        [v for verdicts in all_told(("a", "b"), words) for v in (verdicts, ~verdicts)], axis=0
    )
    for part in one:
        for combined in (part & one, part | one, part ^ one):
            assert not (combined == wanted).all(axis=1).any()


# -- symbols that are one letter ----------------------------------------------------------------


def by_class(rule: Rule, classes: dict[str, str]) -> DFA:
    """A rule over letters as an automaton over symbols, each of which does what its letter does."""
    return DFA(
        states=rule.dfa.states,
        input_symbols=set(classes),
        transitions={
            q: {symbol: row[letter] for symbol, letter in classes.items()}
            for q, row in rule.dfa.transitions.items()
        },
        initial_state=rule.dfa.initial_state,
        final_states=rule.dfa.final_states,
    )


def test_symbols_that_are_never_told_apart_are_one_letter() -> None:
    classes = dict(zip("pqrstuvw", "aabbcccc", strict=True))
    dfa = by_class(made("contains", "a", "b"), classes)
    assert symbol_classes(dfa, list(classes)) == [["p", "q"], ["r", "s"], ["t", "u", "v", "w"]]
    found = rule_of(dfa, list(classes))
    assert found is not None
    assert found.text == "contains one of p, q ... one of r, s in this order"
    assert found.dfa == dfa
    assert found.dfa.input_symbols == set(classes)


def test_the_same_symbol_is_not_one_of_a_class() -> None:
    """Of letters p and q that are one to the automaton, the word p q has not the same ends."""
    dfa = by_class(made("same_ends"), dict(zip("pqr", "aab", strict=True)))
    found = rule_of(dfa, ("p", "q", "r"))
    assert found is None or "same symbol" not in found.text


def test_thousands_of_symbols() -> None:
    symbols = [f"w{index}" for index in range(5000)]
    dfa = Families(symbols).contains("w7", "w3", "w7").dfa
    start = time.monotonic()
    found = rule_of(dfa, symbols)
    assert time.monotonic() - start < 10
    assert found is not None
    assert found.text == "contains w7 ... w3 ... w7 in this order"
    assert found.dfa == dfa


# -- the empty word -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|b|c)(a|b|c)*", "is any word"),
        ("(a|b)(a|b)*", "never contains c"),
        ("ab(ab)*", "is a b, any number of times"),
        ("a(ab)*", None),
    ],
)
def test_the_empty_word_counts_if_it_is_to(pattern: str, text: str | None) -> None:
    dfa = of_regex(pattern, "abc").dfa
    strict = rule_of(dfa, ABC)
    assert strict is None or (strict.dfa == dfa and strict.text != text)
    found = rule_of(dfa, ABC, empty=False)
    assert (found and found.text) == text
    if found:
        assert found.dfa != dfa
        assert same(found.dfa, dfa)


def test_a_rule_of_all_words_is_found_without_the_empty_word_too() -> None:
    found = rule_of(made("ends", "a").dfa, ABC, empty=False)
    assert found is not None
    assert found.text == "ends with a"


def test_the_same_but_for_the_empty_word() -> None:
    one, more = made("only", "a").dfa, of_regex("a*", "abc").dfa
    assert same(one, one)
    assert same(one, more)
    assert same(more, one)
    assert same(toggled(one), one)
    assert not same(one, of_regex("aaa*", "abc").dfa)
    assert not same(one, ~one)


# -- the rule behind verdicts -------------------------------------------------------------------


def drawn(count: int, seed: int) -> list[Word]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(ABC, length).tolist()) for length in rng.integers(1, 11, size=count)]


PLANTED = [
    made("contains", "a", "b", "a"),
    ~made("starts", "a", "c"),
    made("even", "b"),
    made("same_ends"),
    made("starts", "a") & ~made("contains", "b"),
    made("ends", "a") ^ made("contains", "c", "b"),
]


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.text)
def test_a_rule_is_found_near_verdicts_that_err(rule: Rule) -> None:
    """With one verdict in a hundred wrong; each rule's count of wrong words is brute force's."""
    words = drawn(1000, 0)
    verdicts = run(rule.dfa, words)
    verdicts[np.random.default_rng(1).permutation(1000)[:10]] ^= True
    near = rules_near(words, verdicts, ABC, ABC, most_wrong=30)
    assert any(found.dfa == rule.dfa and wrong == 10 for found, wrong in near)
    sizes = [found.size for found, _ in near]
    assert sizes == sorted(set(sizes))
    for found, wrong in near:
        obeys = means(found.text)
        assert wrong == sum(obeys(w) != yes for w, yes in zip(words, verdicts, strict=True)) <= 30


def test_no_rule_of_one_part_has_fewer_wrong_words_for_its_size() -> None:
    """The words are few, so that many rules are near."""
    words = drawn(40, 2)
    verdicts = run(made("at_most", 2, "b").dfa, words)
    near = rules_near(words, verdicts, ABC, ABC, most_wrong=8)
    assert len(near) > 2
    for family, (arguments, _) in FAMILIES.items():
        for of in arguments:
            for rule in (made(family, *of), ~made(family, *of)):
                wrong = int((run(rule.dfa, words) != verdicts).sum())
                if wrong <= 8:
                    assert min(least for found, least in near if found.size <= rule.size) <= wrong


def test_no_rule_is_near_random_verdicts() -> None:
    words = drawn(500, 3)
    for seed in range(5):
        verdicts = np.random.default_rng(seed).random(500) < 0.5
        assert rules_near(words, verdicts, ABC, ABC, most_wrong=5) == []


def test_a_rule_names_what_it_may_alone() -> None:
    words = drawn(300, 4)
    verdicts = run(made("contains", "a", "b").dfa, words)
    assert rules_near(words, verdicts, ABC, ("a", "c"), most_wrong=3) == []
    assert rules_near(words, verdicts, ABC, (), most_wrong=3) == []
    found, wrong = rules_near(words, verdicts, ABC, ("a", "b"), most_wrong=3)[0]
    assert (found.text, wrong) == ("contains a ... b in this order", 0)
