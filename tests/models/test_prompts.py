"""Prompts of a rule: every answer against all prompts up to a length, and Bayes by counting."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from brute import Listed, words_up_to

from models.languages import BORDER, Word, language
from models.languages.language import Split
from models.languages.pairs.in_context import InContext

SMALL = InContext("small", "abc", "123", trained=4)
LONGEST = 5


def of_rule(rule: dict[str, str], letters: Word) -> Word:
    """A prompt: the last letter is the query, the others are examples."""
    shown = [symbol for letter in letters[:-1] for symbol in (letter, rule[letter])]
    return (*shown, letters[-1], BORDER, rule[letters[-1]])


def rules_of(letters: str, answers: str) -> list[dict[str, str]]:
    return [dict(zip(letters, labels, strict=True)) for labels in permutations(answers)]


def listed() -> Listed:
    letters = [w for n in (2, 3, 4) for w in product("abc", repeat=n)]
    members = {of_rule(rule, word) for rule in rules_of("abc", "123") for word in letters}
    return Listed(SMALL.vocabulary.symbols, members)


def prompts() -> InContext:
    found = language("in-context")
    assert isinstance(found, InContext)
    return found


def test_prompts_and_what_may_follow() -> None:
    true, words = listed(), list(words_up_to(SMALL.vocabulary.symbols, LONGEST))
    batch = SMALL.vocabulary.words(words)
    assert SMALL.labels(batch).tolist() == [true.contains(word) for word in words]
    allowed, traced = SMALL.allowed(batch), SMALL.trace(batch)
    for row, word in enumerate(words):
        follow = SMALL.vocabulary.decode(np.flatnonzero(allowed[row, len(word)]))
        assert frozenset(follow) == true.next_symbols(word), word
        assert traced["valid"][row, len(word)] == true.alive(word)
        assert traced["side"][row, len(word)] == (BORDER in word)
    for row in range(0, len(words), 97):
        state = SMALL.state(words[row])
        assert state == {name: values[row, len(words[row])] for name, values in traced.items()}


def test_the_variables_of_a_prompt() -> None:
    word = tuple("b2a1b2a>1")
    states = [SMALL.state(word[:end]) for end in range(len(word) + 1)]
    assert [state["examples"] for state in states] == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert [state["side"] for state in states] == [0] * 8 + [1, 1]
    assert [states[at]["answer"] for at in (1, 3, 5, 7, 8)] == [0, 0, 2, 1, 1]


def test_a_wrong_answer_is_repaired_and_its_examples_stay() -> None:
    assert SMALL.rationales(tuple("b2a1b>1")) == ((6,),)
    assert SMALL.counterfactual(tuple("b2a1b>1")) == tuple("b2a1b>2")
    assert SMALL.rationales(tuple("b2a2b>2")) is None
    assert SMALL.rationales(tuple("b2b1b>2")) is None
    assert SMALL.contains(SMALL.counterfactual(tuple("b2b1b>2")))
    assert not SMALL.contains(SMALL.counterfactual(tuple("b2a1b>2")))


@pytest.mark.parametrize("trained", [True, False])
def test_bayes_is_counted_by_hand(trained: bool) -> None:
    """Over all rules, and over those that are trained alone."""
    known = prompts()
    rules = known.trained if trained else known.rules
    words = known.prompts(np.random.default_rng(0), np.tile([5, 7, 9, 13], 30), known.rules)
    found = known.posterior(words, rules)
    lost = 0
    for row, length in enumerate(words.lengths):
        source, _ = known.split(known.vocabulary.decode(words.ids[row, :length]))
        *shown, query = source
        votes = Counter[str]()
        for labels in rules:
            rule = {a: known.answers[b] for a, b in zip(known.letters, labels, strict=True)}
            if all(rule[a] == b for a, b in zip(shown[::2], shown[1::2], strict=True)):
                votes[rule[query]] += 1
        lost += not votes
        total = votes.total() or np.nan
        expected = [votes[label] / total for label in known.answers]
        np.testing.assert_allclose(found[row], expected, atol=1e-12)
    assert (lost > 0) == trained


def test_held_out_rules_are_never_drawn_in_training() -> None:
    for name, count in (("in-context", 96), ("in-context-few", 8)):
        known = language(name)
        assert isinstance(known, InContext)
        assert len(known.trained) == count
        every = {tuple(rule) for rule in known.rules.tolist()}
        assert every == set(permutations(range(5)))
        assert len(known.held_out) == 120 - count
        drawn: dict[Split, set[tuple[int, ...]]] = {"train": set(), "test": set()}
        for split, seen in drawn.items():
            words = known.sample(np.random.default_rng(1), 3000, [43], True, split).words
            for number, ids in enumerate(words.ids):
                word = known.vocabulary.decode(ids)
                assert number >= 30 or known.contains(word)  # a slow question
                rule = dict(zip(word[:40:2], word[1:40:2], strict=True))
                if len(rule) == 5:
                    seen.add(tuple(known.answers.index(rule[a]) for a in known.letters))
        assert drawn["train"] == {tuple(rule) for rule in known.trained.tolist()}
        assert drawn["test"] == every


def test_training_words_of_both_kinds_keep_their_labels() -> None:
    known = prompts()
    for label in (None, True, False):
        sample = known.sample(np.random.default_rng(2), 200, known.lengths(5), label)
        assert known.labels(sample.words).tolist() == sample.labels.tolist()
        assert set(sample.labels.tolist()) == ({True, False} if label is None else {label})


def test_queries_are_even() -> None:
    known = prompts()
    words = known.prompts(np.random.default_rng(3), np.full(5000, 13), known.trained)
    shown = known.trace(words)["answer"][:, -1] > 0
    assert shown.mean() == pytest.approx(1 - 0.8**5, abs=0.02)
    counts = np.bincount(words.ids[:, -3])[2:]
    assert counts.min() > 900
