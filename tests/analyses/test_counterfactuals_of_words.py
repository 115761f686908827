"""The words that a word is compared with, where it has many nearest ones and where it has few."""

from __future__ import annotations

import pytest

from analyses.words import counterfactuals
from models.errors import UserError
from models.languages import Word
from models.languages.registry import language


@pytest.mark.parametrize("most", [1, 2, 32])
@pytest.mark.parametrize(
    ("name", "text", "least"),
    [
        ("first", "abababab", 32),  # the first place decides
        ("anbn", "aaaabbbb", 32),
        ("dieren", "muis leeuw olifant leeuw", 32),
        ("lt1", "bbbbbbba", 1),  # one word of this length is outside
    ],
)
def test_few_nearest_ones_are_followed_by_others(
    name: str, text: str, least: int, most: int
) -> None:
    known = language(name)
    word = known.vocabulary.parse(text)
    others = counterfactuals(known, word, most, 0)
    assert min(least, most) <= len(others) == len(set(others)) <= most
    assert all(len(other) == len(word) for other in others)
    assert all(known.contains(other) != known.contains(word) for other in others)
    distances = [distance(other, word) for other in others]
    assert distances == sorted(distances)
    assert distances[0] == distance(known.counterfactual(word), word)


def distance(one: Word, other: Word) -> int:
    """The number of substitutions."""
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_a_word_of_a_length_without_members_has_none() -> None:
    with pytest.raises(UserError, match="no counterfactual"):
        counterfactuals(language("anbn"), ("a", "b", "b"), 8, 0)
