"""Every answer that a language gives, against the list of all its words up to a length."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, combinations, groupby, pairwise, permutations, product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import Listed, distance, words_up_to

from models.errors import UserError
from models.languages import (
    END,
    LANGUAGES,
    TABLE_1,
    ContextFreeLanguage,
    CountingLanguage,
    FormalLanguage,
    RegularLanguage,
    Word,
    Words,
    language,
)
from models.languages.grammars.notation import read
from models.languages.pairs.in_context import InContext
from models.languages.pairs.transduction import Transduction
from models.languages.recurrence import Recurrence
from models.languages.vocabulary import BORDER, END_ID, FIRST_SYMBOL_ID


def blocks(symbols: str, reach: int) -> Listed:
    """s1^n s2^n ... for n = 1..reach."""
    members = (tuple(s for s in symbols for _ in range(n)) for n in range(1, reach + 1))
    return Listed(tuple(symbols), members)


def by_regex(symbols: str, pattern: str, reach: int) -> Listed:
    rule = re.compile(pattern)
    return Listed.by_rule(tuple(symbols), lambda w: rule.fullmatch("".join(w)) is not None, reach)


def contains_in_order(word: Word, pattern: Word) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in pattern)


def crossed(reach: int) -> list[Word]:
    """a^n b^m c^n d^m up to a length."""
    sizes = [(n, m) for n in range(1, reach) for m in range(1, reach) if 2 * (n + m) <= reach]
    return [tuple("a" * n + "b" * m + "c" * n + "d" * m) for n, m in sizes]


@dataclass(frozen=True)
class Case:
    """A language, the list of its words, and the length up to which all words are tried."""

    language: FormalLanguage
    listed: Listed
    longest: int

    @property
    def words(self) -> list[Word]:
        return list(words_up_to(self.listed.symbols, self.longest))

    @property
    def fewer(self) -> list[Word]:
        """For slow answers: of the longest words all members, and a seventh of the others."""
        return [
            word
            for number, word in enumerate(self.words)
            if len(word) < self.longest or self.listed.contains(word) or number % 7 == 0
        ]


def _regular(name: str, symbols: str, pattern: str, longest: int, spare: int) -> Case:
    lang = RegularLanguage.from_regex(name, pattern, symbols)
    return Case(lang, by_regex(symbols, pattern, longest + spare), longest)


def _in_order() -> Case:
    """The weaker rule of the Dutch lines over three letters."""
    rule = DFA.from_subsequence({"x", "y", "z"}, "xyx")
    listed = Listed.by_rule("xyz", lambda w: contains_in_order(w, tuple("xyx")), 9)
    return Case(RegularLanguage("in order", rule, "xyz", near_miss="shuffle"), listed, 5)


def _runs() -> Case:
    """The rule of the Dutch lines; of the animals that decide nothing one is kept."""
    whole, kept = language("dieren"), ("leeuw", "muis", "olifant")
    assert isinstance(whole, RegularLanguage)
    rule = DFA(
        states=whole.dfa.states,
        input_symbols=set(kept),
        transitions={q: {s: to[s] for s in kept} for q, to in whole.dfa.transitions.items()},
        initial_state=whole.dfa.initial_state,
        final_states=whole.dfa.final_states,
    )

    def obeys(word: Word) -> bool:
        left = "".join(symbol[0] for symbol in word if symbol != "muis")
        return re.fullmatch("l+o+l+", left) is not None

    listed = Listed.by_rule(kept, obeys, 9)
    return Case(RegularLanguage("runs", rule, kept, near_miss="shuffle"), listed, 5)


CASES = [
    Case(language("an"), by_regex("ab", "a+", 8), 7),
    Case(language("anbn"), blocks("ab", 8), 7),
    Case(language("anbncn"), blocks("abc", 7), 6),
    Case(language("anbncndn"), blocks("abcd", 6), 4),
    Case(CountingLanguage("a alone", "a"), blocks("a", 8), 6),
    _regular("parity", "ab", "b*(ab*ab*)*", 6, 2),
    _regular("first a, last b", "ab", "a(a|b)*b", 6, 2),
    _regular("(ab)*", "ab", "(ab)*", 7, 2),
    _regular("finite", "abc", "ab|ba|cab|c", 5, 2),
    _regular("everything", "ab", "(a|b)*", 5, 1),
    _in_order(),
    _runs(),
]


def depths(word: Word, opening: str, closing: str) -> list[int]:
    """How many brackets of a kind are open after each prefix."""
    return list(accumulate((w == opening) - (w == closing) for w in word))


def balanced(word: Word, opening: str = "(", closing: str = ")", bound: int = 99) -> bool:
    open_ = [0, *depths(word, opening, closing)]
    return min(open_) >= 0 and open_[-1] == 0 and max(open_) <= bound


def nested(word: Word, bound: int) -> bool:
    """Brackets cancel innermost first, and no more than the bound are ever open."""
    if word.count("(") != word.count(")") or word.count("[") != word.count("]"):
        return False  # most words, and what follows is slow
    text = "".join(word)
    deep = [sum(d) for d in zip(depths(word, "(", ")"), depths(word, "[", "]"), strict=True)]
    while "()" in text or "[]" in text:
        text = text.replace("()", "").replace("[]", "")
    return not text and max(deep, default=0) <= bound


def runs(word: Word) -> list[tuple[str, int]]:
    return [(symbol, len(list(group))) for symbol, group in groupby(word)]


def monomial(word: Word, *parts: str) -> bool:
    """Greedy from the left: a marker, and before it none of the forbidden symbols; then the next.

    ``parts`` alternate: forbidden before, marker, forbidden before, marker, ..., forbidden after.
    """
    text = "".join(word)
    for forbidden, marker in zip(parts[::2], parts[1::2], strict=False):
        before, found, text = text.partition(marker)
        if not found or set(before) & set(forbidden):
            return False
    return not set(text) & set(parts[-1])


# The published definitions, told in another way than the registry tells them: symbols, rule, the
# length up to which all words are tried, and how much longer a word may have to be.
RULES: dict[str, tuple[str, Callable[[Word], bool], int, int]] = {
    "tomita1": ("01", lambda w: "0" not in w, 6, 1),
    "tomita2": ("01", lambda w: "".join(w) == "10" * (len(w) // 2), 6, 2),
    "tomita3": (
        "01",
        lambda w: (
            not any(
                x == ("1", x[1]) and y == ("0", y[1]) and x[1] % 2 and y[1] % 2
                for x, y in pairwise(runs(w))
            )
        ),
        7,
        2,
    ),
    "tomita4": ("01", lambda w: "000" not in "".join(w), 6, 1),
    "tomita5": ("01", lambda w: w.count("0") % 2 == w.count("1") % 2 == 0, 6, 2),
    "tomita6": ("01", lambda w: (w.count("0") - w.count("1")) % 3 == 0, 6, 2),
    "tomita7": ("01", lambda w: len(runs(w)) + (w[:1] == ("1",)) <= 4, 7, 1),
    "parity": ("ab", lambda w: w.count("b") % 2 == 0, 6, 2),
    "dyck1-2": ("ab", lambda w: balanced(w, "a", "b", 2), 7, 3),
    "dyck1-1": ("ab", lambda w: balanced(w, "a", "b", 1), 7, 2),
    "lt2": ("abc", lambda w: "ab" in "".join(w), 4, 3),
    "rdp1": ("axy", lambda w: monomial(w[::-1], "ay", "a", "x"), 5, 2),
    "last": ("ab", lambda w: w[-1:] == ("b",), 6, 2),
    "pt2": ("abc", lambda w: contains_in_order(w, ("a", "b")), 4, 3),
    "lt1": ("ab", lambda w: "a" in w, 6, 2),
    "ldp2": ("abxyz", lambda w: monomial(w, "ax", "a", "by", "b", "z"), 4, 3),
    "ldp1": ("axy", lambda w: monomial(w, "ax", "a", "y"), 5, 2),
    "first": ("ab", lambda w: w[:1] == ("b",), 6, 1),
    "dyck1": ("()", lambda w: balanced(w, bound=6), 8, 6),
    "dyck2": ("()[]", lambda w: nested(w, 4), 4, 5),
    "shuffle2": ("()[]", lambda w: balanced(w) and balanced(w, "[", "]"), 3, 5),
}
RULES |= {
    "anbm": ("ab", lambda w: (n := w.count("a")) > len(w) - n > 0 and "b" not in w[:n], 6, 4),
    "wwr": ("ab", lambda w: len(w) > 0 == len(w) % 2 and w == w[::-1], 5, 7),
    "dyck1-unbounded": ("()", balanced, 7, 9),
    "dyck2-unbounded": ("()[]", lambda w: nested(w, 99), 3, 5),
    "ww": ("ab", lambda w: len(w) > 0 == len(w) % 2 and w == w[: len(w) // 2] * 2, 5, 7),
}
CASES += [
    Case(language(name), Listed.by_rule(tuple(symbols), rule, longest + spare), longest)
    for name, (symbols, rule, longest, spare) in RULES.items()
]


def grammar(text: str, symbols: str, rule: Callable[[Word], bool], longest: int) -> Case:
    listed = Listed.by_rule(tuple(symbols), rule, 2 * longest)
    return Case(ContextFreeLanguage(text.split()[2], read(text)), listed, longest)


CASES += [
    Case(language("anbn5"), blocks("ab", 5), 7),
    Case(language("anbmcndm"), Listed(tuple("abcd"), crossed(12)), 4),
    Case(language("powers"), Listed(("a", "b"), [("a",) * 2**n for n in range(5)]), 6),
    # Empty parts, chains of single nonterminals, left recursion, ambiguity.
    grammar(
        "S -> A 'b' | S A 'b'\nA -> 'a' A | B\nB -> 'c' |",
        "abc",
        lambda w: re.fullmatch("(a*c?b)+", "".join(w)) is not None,
        4,
    ),
    grammar(
        "S -> S S | 'a' | 'b' 'b'",
        "ab",
        lambda w: re.fullmatch("(a|bb)+", "".join(w)) is not None,
        6,
    ),
    grammar(
        "S -> 'a' S B | \nB -> 'b' |",
        "ab",
        lambda w: re.fullmatch("a*b*", "".join(w)) is not None and w.count("a") >= w.count("b"),
        6,
    ),
]


@pytest.fixture(params=CASES, ids=lambda case: case.language.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_contains(case: Case) -> None:
    for word in case.words:
        assert case.language.contains(word) == case.listed.contains(word), word


def test_next_symbols_are_those_that_some_word_goes_on_with(case: Case) -> None:
    """Answers for a batch; the test of batches compares them with those for single words."""
    words, vocabulary = case.words, case.language.vocabulary
    allowed = case.language.allowed(vocabulary.words(words))
    for row, word in enumerate(words):
        follow = vocabulary.decode(np.flatnonzero(allowed[row, len(word)]))
        assert frozenset(follow) == case.listed.next_symbols(word), word


def test_batches_give_the_answers_of_single_words(case: Case) -> None:
    """Words of all lengths in one padded batch; every prefix of every word."""
    words = case.words
    batch = case.language.vocabulary.words(words)
    allowed, traced = case.language.allowed(batch), case.language.trace(batch)
    assert set(traced) == set(case.language.variables)
    known = {}
    for word in words:  # every prefix of a word is itself one of the words
        known[word] = (case.language.next_symbols(word), case.language.state(word))
    for row, word in enumerate(words):
        for end in range(len(word) + 1):
            follow = case.language.vocabulary.decode(np.flatnonzero(allowed[row, end]))
            state = {name: int(values[row, end]) for name, values in traced.items()}
            assert (frozenset(follow), state) == known[word[:end]], (word, end)


def test_valid_is_one_while_a_word_can_still_come_of_it(case: Case) -> None:
    words = case.words
    valid = case.language.trace(case.language.vocabulary.words(words))["valid"]
    for row, word in enumerate(words):
        assert valid[row, len(word)] == case.listed.alive(word), word


def test_counterfactual_is_the_nearest_word_of_the_other_membership(case: Case) -> None:
    rng = np.random.default_rng(0)
    for word in case.fewer:
        fewest = case.listed.fewest_substitutions(word)
        if fewest is None:
            with pytest.raises(LookupError):
                case.language.counterfactual(word)
            continue
        sure = case.language.counterfactual(word)
        for changed in (sure, case.language.counterfactual(word, rng)):
            assert case.listed.contains(changed) != case.listed.contains(word), (word, changed)
            assert distance(word, changed) == fewest, (word, changed)
        if len(word) < 4:
            assert case.language.counterfactual(word) == sure


TRIED, TRIED_IN_CONTEXT = 20_000, 200_000
"""So many words of a length at most; the shortest prompts are among these."""


@pytest.mark.parametrize("name", LANGUAGES)
def test_of_every_language_the_counterfactual_is_the_nearest(name: str) -> None:
    """Beside all words of a length. Which of them are members is tested elsewhere."""
    known, rng = language(name), np.random.default_rng(0)
    assert isinstance(known, FormalLanguage)
    size = len(known.vocabulary.symbols)
    most = TRIED_IN_CONTEXT if name.startswith("in-context") else TRIED
    for length in range(1, 10):
        if size**length > most:
            break
        ids = np.array(list(product(range(size), repeat=length))) + FIRST_SYMBOL_ID
        labels = known.labels(Words(ids, np.full(len(ids), length)))
        for row in rng.choice(len(ids), size=min(len(ids), 8), replace=False).tolist():
            others = ids[labels != labels[row]]
            word = known.vocabulary.decode(ids[row])
            if not len(others):
                with pytest.raises(LookupError):
                    known.counterfactual(word)
                continue
            unlike = others != ids[row]
            fewest = int(unlike.sum(axis=1).min())
            for changed in (known.counterfactual(word), known.counterfactual(word, rng)):
                assert known.contains(changed) != known.contains(word), (word, changed)
                assert distance(word, changed) == fewest, (word, changed)


PAIRS = [name for name in LANGUAGES if ">" in language(name).vocabulary.symbols]


def all_pairs(known: Transduction) -> dict[int, list[Word]]:
    """All pairs of each of the first lengths: of all sources that are shorter than some size."""
    begun, pairs = np.zeros((1, 0), dtype=np.int64), list[Word]()
    while len(begun) < 500 and begun.shape[1] < 12:
        follow = known.source.allowed(Words(begun, np.full(len(begun), begun.shape[1])))[:, -1]
        if follow[:, END_ID].any():
            longest = [known.pair(known.vocabulary.decode(w)) for w in begun[follow[:, END_ID]]]
            pairs += longest
        rows, symbols = np.nonzero(follow[:, FIRST_SYMBOL_ID:])
        begun = np.column_stack([begun[rows], symbols + FIRST_SYMBOL_ID])
    shorter = sorted((p for p in pairs if len(p) < min(map(len, longest))), key=len)
    return {length: list(listed) for length, listed in groupby(shorter, key=len)}


def all_prompts(known: InContext) -> dict[int, list[Word]]:
    """Prompts by length, of one and of two examples."""
    prompts = defaultdict[int, list[Word]](list)
    for n, rule in product((1, 2), permutations(known.answers)):
        labels = dict(zip(known.letters, rule, strict=True))
        for *letters, last in product(known.letters, repeat=n + 1):
            examples = [symbol for letter in letters for symbol in (letter, labels[letter])]
            prompts[2 * n + 3].append((*examples, last, BORDER, labels[last]))
    return {length: sorted(set(words)) for length, words in prompts.items()}


@pytest.mark.parametrize("name", PAIRS)
def test_of_a_wrong_pair_the_counterfactual_is_the_nearest_of_all_pairs(name: str) -> None:
    """Members with one to four substitutions, and random symbols, beside all pairs so long."""
    known, rng, tried = language(name), np.random.default_rng(0), 0
    if isinstance(known, InContext):
        pairs = all_prompts(known)
    else:
        assert isinstance(known, Transduction)
        pairs = all_pairs(known)
    for listed in pairs.values():
        members = known.vocabulary.words(listed).ids
        for changes in (1, 2, 3, 4, members.shape[1]):
            ids = members[rng.integers(len(members))].copy()
            at = rng.permutation(len(ids))[:changes]
            ids[at] = rng.integers(len(known.vocabulary.symbols), size=len(at)) + FIRST_SYMBOL_ID
            word = known.vocabulary.decode(ids)
            if known.contains(word):
                continue
            tried += 1
            fewest = int((members != ids).sum(axis=1).min())
            for changed in (known.counterfactual(word), known.counterfactual(word, rng)):
                assert known.contains(changed), (word, changed)
                assert distance(word, changed) == fewest, (word, changed)
    assert tried


@pytest.mark.parametrize("name", PAIRS)
def test_of_a_wrong_pair_the_target_is_to_blame(name: str) -> None:
    """Beside all words with the same source."""
    known, rng = language(name), np.random.default_rng(1)
    assert isinstance(known, FormalLanguage)
    size, blamed = len(known.vocabulary.symbols), 0
    for n in (1, 2, 3, 4):
        if not known.has(length := known.length_of(n), True):
            continue
        for ids in known.near_misses(rng, np.full(8, length)).ids:
            cut = int((ids == known.vocabulary.ids[">"]).argmax()) + 1
            if not 1 < cut < length or size ** (length - cut) > TRIED_IN_CONTEXT:
                continue
            targets = np.array(list(product(range(size), repeat=length - cut))) + FIRST_SYMBOL_ID
            words = np.concatenate([np.repeat(ids[None, :cut], len(targets), axis=0), targets], 1)
            right = words[known.labels(Words(words, np.full(len(words), length)))]
            unlike = {tuple(np.flatnonzero(one != ids).tolist()) for one in right}
            fewest = min(map(len, unlike), default=0)
            expected = tuple(sorted(each for each in unlike if len(each) == fewest)) or None
            assert known.rationales(known.vocabulary.decode(ids)) == expected
            blamed += expected is not None
    assert blamed or name == "parse"  # whose alphabet is large


@pytest.mark.parametrize(
    ("name", "word"),
    [("anbn", "aaabbb"), ("an", "aaaa"), ("anbncn", "aabbcc")],
)
def test_a_generator_draws_among_equally_near_counterfactuals(name: str, word: str) -> None:
    rng = np.random.default_rng(0)
    drawn = {language(name).counterfactual(tuple(word), rng) for _ in range(50)}
    assert len(drawn) > 1


def test_all_repairs_with_the_fewest_substitutions_are_found(case: Case) -> None:
    """By comparing with every member of the length; larger sets of positions are not listed."""
    for word in case.fewer:
        unlike = case.listed.unlike_members(word)
        if case.listed.contains(word) or not len(unlike) or not word:
            continue
        sizes = unlike.sum(axis=1)
        nearest = unlike[sizes == sizes.min()]
        expected = sorted({tuple(np.flatnonzero(row).tolist()) for row in nearest})
        found = case.language.rationales(word)
        assert found is not None
        assert list(found) == expected, word
        if len(word) < 4:
            assert case.language.rationale(word) == tuple(sorted(set().union(*expected)))
        assert len(found[0]) == case.listed.fewest_substitutions(word)


def test_the_effect_of_a_position_is_the_share_of_symbols_that_turn_the_membership(
    case: Case,
) -> None:
    symbols = case.language.vocabulary.symbols
    for word in case.fewer:
        before = case.listed.contains(word)
        expected = [
            sum(case.listed.contains((*word[:i], s, *word[i + 1 :])) != before for s in symbols)
            / max(len(symbols) - 1, 1)
            for i in range(len(word))
        ]
        found = case.language.substitution_effects(word)
        assert found.tolist() == pytest.approx(expected), word
        if before:
            deciding = tuple(i for i, effect in enumerate(expected) if effect)
            assert case.language.rationales(word) == (deciding,), word


def test_repairs_of_long_words_are_listed_or_refused() -> None:
    """Any three of forty places hold the rule; of ten brackets that open, any five close."""
    gaps, dyck = language("dieren-gaps"), language("dyck1")
    idle = ("kat",) * 30
    assert gaps.rationales(idle) == tuple(combinations(range(30), 3))
    assert gaps.rationales(("kat",) * 40) is None  # 9,880
    found = dyck.rationales("(" * 10)
    assert found is not None
    closed = [tuple(")" if i in each else "(" for i in range(10)) for each in found]
    assert all(dyck.contains(word) for word in closed)
    assert len(found) == 42  # Catalan's number: none opens more than 5 of the 6 allowed


def test_lengths_at_which_there_are_words(case: Case) -> None:
    lengths = range(case.longest + 1)
    listed = {
        wanted: [
            n
            for n in lengths
            if n and any(case.listed.contains(w) == wanted for w in case.words if len(w) == n)
        ]
        for wanted in (True, False)
    }
    assert case.language.positive_lengths(lengths) == listed[True]
    assert [n for n in lengths if case.language.has(n, False)] == listed[False]


def test_the_example_is_a_short_member(case: Case) -> None:
    word = case.language.example()
    assert case.listed.contains(word)
    assert word == case.language.example()


def test_the_near_miss_is_just_outside(case: Case) -> None:
    missed = case.language.near_miss_example()
    outside = [word for word in case.words if word and not case.listed.contains(word)]
    assert (missed is None) == (not outside)
    if missed is not None:
        assert not case.listed.contains(missed)
        assert case.listed.fewest_substitutions(missed) is not None


def test_unknown_symbols_are_refused_in_one_line(case: Case) -> None:
    for ask in (case.language.contains, case.language.next_symbols, case.language.counterfactual):
        with pytest.raises(UserError, match=r"^unknown symbol '\?': use only [^\n]*$"):
            ask((case.language.vocabulary.symbols[0], "?"))


def test_the_empty_word() -> None:
    assert language("anbn").next_symbols(()) == {"a"}
    assert language("an").next_symbols(()) == {"a"}
    assert RegularLanguage.from_regex("all", "(a|b)*", "ab").next_symbols(()) == {"a", "b", END}


def test_registry() -> None:
    kinds = {name: language(name).chomsky for name in LANGUAGES}
    for kind, names in {
        "finite": "anbn5",
        "context-free": (
            "anbn anbm wwr dyck1-unbounded dyck2-unbounded nested nested-adjectives reverse"
        ),
        "mildly context-sensitive": (
            "anbncn anbncndn ww anbmcndm copy sort double depths postfix parse parity-steps"
        ),
        "context-sensitive": "powers shuffle2",
        "recursively enumerable": "halting",
    }.items():
        assert {kinds.pop(name) for name in names.split()} == {kind}
    assert set(kinds.values()) == {"regular"}
    assert len(TABLE_1) == 12
    assert set(TABLE_1) <= set(LANGUAGES)
    with pytest.raises(UserError, match=r"^unknown language 'xy': choose one of an, anbn, [^\n]*$"):
        language("xy")


def test_threads_that_need_the_same_entries_make_each_once() -> None:
    """Each thread sleeps while it makes an entry. Meanwhile another could make the same one."""
    made = []

    def after(entry: int) -> int:
        made.append(entry)
        time.sleep(0.001)
        return entry + 1

    numbers = Recurrence(0, after)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(numbers.up_to, [20] * 4))
    assert found == [list(range(21))] * 4
    assert made == list(range(20))
