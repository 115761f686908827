"""The two Dutch grammars agree as Dutch does, and a pronoun means what it means."""

from __future__ import annotations

import numpy as np
import pytest

from models.languages import ContextFreeLanguage, Word, language
from models.languages.grammars.phrases import CLASSES, _referents

NESTED, LINEAR = language("nested"), language("linear")
assert isinstance(NESTED, ContextFreeLanguage)
assert isinstance(LINEAR, ContextFreeLanguage)


def words(text: str) -> Word:
    return tuple(text.split())


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("de hond loopt", True),
        ("het hond loopt", False),
        ("de hond lopen", False),
        ("de honden lopen", True),
        ("het kleine grote paard slaapt", True),
        ("de hond die het paard ziet loopt", True),
        ("de hond dat het paard ziet loopt", False),
        ("het paard dat de honden zien loopt", True),
        ("het paard dat de honden ziet loopt", False),
        ("de hond die het paard dat de katten zien volgt loopt", True),
        ("de hond die het paard dat de katten volgt zien loopt", False),
        ("de hond die het paard ziet", False),
        ("de hond loopt en de kat slaapt", False),
    ],
)
def test_nested(text: str, right: bool) -> None:
    assert NESTED.contains(words(text)) == right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("de hond loopt", True),
        ("de hond loopt en het paard slaapt", True),
        ("het paard ziet de hond en hij loopt", True),
        ("het paard ziet de hond en het loopt", True),
        ("het paard ziet de hond en ze lopen", False),
        ("het paard ziet de hond en ze loopt", False),
        ("de honden zien het paard en ze slapen en de kat loopt", True),
        ("de hond ziet de kat", False),  # two of one class
        ("de hond loopt en hij slaapt", False),
        ("de hond die het paard ziet loopt", False),
    ],
)
def test_linear(text: str, right: bool) -> None:
    assert LINEAR.contains(words(text)) == right


def test_both_have_the_same_words() -> None:
    assert NESTED.vocabulary == LINEAR.vocabulary


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("het paard ziet de hond en hij loopt", [(6, 4)]),
        ("het paard ziet de hond en het loopt", [(6, 1)]),
        ("de grote honden zien het kleine paard en ze slapen", [(8, 2)]),
        ("de hond loopt en het paard ziet de kat en het slaapt en ze lopen", None),
        ("de hond loopt en het paard ziet de kat en het slaapt", [(10, 5)]),
        ("de hond loopt", []),
    ],
)
def test_a_pronoun_means_a_noun(text: str, meant: list[tuple[int, int]] | None) -> None:
    trees = list(LINEAR.trees(words(text)))
    assert len(trees) == (meant is not None)
    for tree in trees:
        assert _referents(tree) == meant


def test_a_pronoun_agrees_with_what_it_means() -> None:
    """In drawn sentences; a substitute of another class would break them."""
    rng, pronouns = np.random.default_rng(0), 0
    drawn = LINEAR.sample(rng, 200, range(3, 20), label=True).words
    for row in range(len(drawn)):
        word = LINEAR.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]])
        (tree,) = LINEAR.trees(word)
        for pronoun, noun in _referents(tree):
            (own,) = [each for each in CLASSES if word[noun] in each.nouns]
            assert word[pronoun] == own.pronoun
            pronouns += 1
    assert pronouns > 20
