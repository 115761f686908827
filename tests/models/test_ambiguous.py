"""Languages whose training words fit two rules: what is drawn, against both rules word by word."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_config

from models.errors import UserError
from models.languages import AmbiguousLanguage, Sample, language
from models.objectives import OBJECTIVES
from models.runs.run import Run
from models.training.evaluation import balanced_words
from models.training.recipes import recipe
from models.training.writer import validation_sample

Says = Callable[[str], bool]
RULES: dict[str, tuple[Says, Says]] = {
    "first-or-majority": (lambda w: w[0] == "a", lambda w: w.count("a") > w.count("b")),
    "contains-or-even": (lambda w: "ab" in w, lambda w: len(w) % 2 == 0),
    "ends-or-even": (lambda w: w[0] == w[-1], lambda w: w.count("b") % 2 == 0),
}
"""The language's own rule, and the other one."""


def known(name: str) -> AmbiguousLanguage:
    found = language(name)
    assert isinstance(found, AmbiguousLanguage)
    return found


def texts(name: str, sample: Sample) -> list[str]:
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    return ["".join(known(name).vocabulary.decode(row[:length])) for row, length in rows]


@pytest.mark.parametrize("name", RULES)
def test_both_rules_are_known_of_all_words(name: str) -> None:
    lang, (own, other) = known(name), RULES[name]
    for length in range(1, 8):
        every = ["".join(word) for word in product(lang.vocabulary.symbols, repeat=length)]
        words = lang.vocabulary.words([list(word) for word in every])
        assert lang.labels(words).tolist() == [own(word) for word in every]
        assert lang.by_rival(words).tolist() == [other(word) for word in every]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_rules_agree_on_training_words_and_differ_on_test_words(name: str, split: str) -> None:
    lang, (own, other) = known(name), RULES[name]
    sample = lang.sample(np.random.default_rng(3), 2000, range(1, 15), split=split)
    words = texts(name, sample)
    assert sample.labels.tolist() == [own(word) for word in words]
    agree = np.array([own(word) == other(word) for word in words])
    assert agree.all() if split != "test" else not agree.any()
    assert abs(sample.labels.mean() - 0.5) < 0.06
    assert len(set(words)) > 500


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_exactly_the_lengths_that_have_such_words_are_drawn(name: str, split: str) -> None:
    lang, (own, other) = known(name), RULES[name]
    for length in range(1, 9):
        every = ["".join(word) for word in product(lang.vocabulary.symbols, repeat=length)]
        for label in (True, False):
            asked = (np.random.default_rng(0), 40, [length], label, split)
            if any(own(w) == label and (own(w) == other(w)) == (split == "train") for w in every):
                assert set(map(len, texts(name, lang.sample(*asked)))) == {length}
            else:
                with pytest.raises(LookupError, match="no such word"):
                    lang.sample(*asked)


def test_words_are_drawn_evenly_among_those_that_fit() -> None:
    """Of length 4, first-or-majority has 4 members on which both rules agree: a, and two a more."""
    sample = known("first-or-majority").sample(np.random.default_rng(0), 4000, [4], True)
    words, counts = np.unique(texts("first-or-majority", sample), return_counts=True)
    assert words.tolist() == ["aaaa", "aaab", "aaba", "abaa"]
    assert np.abs(counts - 1000).max() < 5 * (4000 * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize("name", RULES)
def test_validation_does_not_tell_the_rules_apart(name: str) -> None:
    own, other = RULES[name]
    words = texts(name, validation_sample(language(name), recipe(name)))
    assert len(words) == 256
    assert all(own(word) == other(word) for word in words)


@pytest.mark.parametrize("name", RULES)
def test_an_evaluation_is_on_words_where_the_rules_differ(name: str) -> None:
    own, other = RULES[name]
    sample = balanced_words(language(name), 7, 40, 0)
    assert sample is not None
    assert all(own(word) != other(word) for word in texts(name, sample))


def test_near_misses_are_those_of_the_own_rule() -> None:
    sample = known("ends-or-even").sample(np.random.default_rng(0), 50, [5], hard=True)
    assert sample.labels.tolist() == [w[0] == w[-1] for w in texts("ends-or-even", sample)]


@pytest.mark.parametrize(
    "objective", [name for name in OBJECTIVES if name not in ("verdict", "masked", "tags")]
)
def test_only_verdicts_leave_both_rules_open(tmp_path: Path, objective: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*fit two rules[^\n]*--objective verdict$"):
        Run.create(tmp_path / "run", tiny_config(language="ends-or-even", objective=objective))
