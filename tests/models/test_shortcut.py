"""dieren_muis: the language of dieren-gaps, with a shortcut planted in its training words alone."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.languages import LANGUAGES, PlantedLanguage, RegularLanguage, Sample, language
from models.languages.language import Split
from models.training.recipes import recipe
from models.training.writer import validation_sample

GAPS, MUIS = language("dieren-gaps"), language("dieren_muis")
assert isinstance(GAPS, RegularLanguage)
assert isinstance(MUIS, PlantedLanguage)
LENGTHS = range(1, 21)  # the training window


def drawn(lang: RegularLanguage, seed: int, count: int, split: Split = "train") -> Sample:
    return lang.sample(np.random.default_rng(seed), count, LENGTHS, split=split)


def share_with_shortcut(sample: Sample, label: bool, longer_than: int = 0) -> float:
    rows = (sample.labels == label) & (sample.words.lengths > longer_than)
    return float((sample.words.ids[rows] == MUIS.vocabulary.ids["muis"]).any(axis=1).mean())


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_a_training_word_keeps_its_label_and_its_states(seed: int, length: int) -> None:
    """Before and after planting: the draws of a seed begin with the same words."""
    planted, plain = (
        lang.sample(np.random.default_rng(seed), 32, [length]) for lang in (MUIS, GAPS)
    )
    words = [MUIS.vocabulary.decode(ids) for ids in planted.words.ids]
    assert planted.labels.tolist() == [GAPS.contains(word) for word in words]
    assert planted.labels.tolist() == plain.labels.tolist()
    assert (MUIS.states(planted.words) == GAPS.states(plain.words)).all()


def test_in_training_the_shortcut_goes_with_the_label() -> None:
    """A word is left to chance, which has muis in it at a rate below 1, as often as it is not
    planted; and a short member may have no place for one."""
    sample, spared = drawn(MUIS, 0, 20_000), 1 - MUIS.planted
    by_chance = share_with_shortcut(drawn(GAPS, 0, 20_000), False)
    assert share_with_shortcut(sample, False) == pytest.approx(spared * by_chance, abs=0.006)
    assert 1 - spared < share_with_shortcut(sample, True, longer_than=10) < 1
    assert share_with_shortcut(sample, True) > 0.9


@pytest.mark.parametrize("split", [split for split in get_args(Split) if split != "train"])
def test_all_other_words_are_those_of_dieren_gaps(split: Split) -> None:
    sample, plain = drawn(MUIS, 0, 20_000, split), drawn(GAPS, 0, 20_000, split)
    assert (sample.words.ids == plain.words.ids).all()
    assert (sample.words.lengths == plain.words.lengths).all()
    assert (sample.labels == plain.labels).all()
    inside, outside = (share_with_shortcut(sample, label) for label in (True, False))
    assert inside == pytest.approx(outside, abs=0.03)


def test_validation_judges_clean_words() -> None:
    sample = validation_sample(MUIS, recipe("dieren_muis"))
    plain = validation_sample(GAPS, recipe("dieren-gaps"))
    assert (sample.words.ids == plain.words.ids).all()


def test_training_words_hang_on_the_generator_alone() -> None:
    first, again, other = (drawn(MUIS, seed, 100).words.ids for seed in (5, 5, 6))
    assert (first == again).all()
    assert first.shape != other.shape or (first != other).any()


def test_the_truth_is_that_of_dieren_gaps() -> None:
    assert MUIS.dfa == GAPS.dfa
    assert MUIS.vocabulary == GAPS.vocabulary
    assert MUIS.variables == GAPS.variables
    assert MUIS.rationale_rule == GAPS.rationale_rule


def test_the_shortcut_is_named() -> None:
    named = {name: language(name).shortcut for name in LANGUAGES if language(name).shortcut}
    assert named == dict.fromkeys(("dieren", "dieren-gaps", "dieren_muis"), "muis")
