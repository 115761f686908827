"""The Dutch grammars agree as Dutch does, and a pronoun means what it means."""

from __future__ import annotations

import numpy as np
import pytest

from models.languages import ContextFreeLanguage, Word, language
from models.languages.grammars.phrases import CLASSES, _referents

NESTED, LINEAR = language("nested"), language("linear")
assert isinstance(NESTED, ContextFreeLanguage)
assert isinstance(LINEAR, ContextFreeLanguage)
INFLECTED = language("nested-adjectives")
assert isinstance(INFLECTED, ContextFreeLanguage)


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


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("een grote hond loopt", True),
        ("een groot hond loopt", False),
        ("een groot paard slaapt", True),
        ("een grote paard slaapt", False),
        ("het grote paard slaapt", True),  # after "het" each adjective has its -e
        ("het groot paard slaapt", False),
        ("een hond loopt", True),
        ("een honden lopen", False),
        ("een grote honden lopen", False),
        ("de grote kleine honden lopen", True),
        ("een grote kleine hond loopt", False),  # after "een" there is one adjective at most
        ("een groot luipaard dat de honden zien loopt", True),
        ("een groot luipaard die de honden zien loopt", False),
        ("een kleine luipaard die een klein schaap ziet loopt", True),
        ("een kleine luipaard dat een klein schaap ziet loopt", False),
        ("het grote luipaard dat een kat ziet loopt", True),
        ("de grote luipaard dat een kat ziet loopt", False),
    ],
)
def test_adjectives_agree(text: str, right: bool) -> None:
    assert INFLECTED.contains(words(text)) == right


@pytest.mark.parametrize(
    ("before", "relative"),
    [
        ("een grote", {"die"}),
        ("een groot", {"dat"}),
        ("een", {"die", "dat"}),
        ("de kleine", {"die"}),
        ("het kleine", {"dat"}),
    ],
)
def test_an_adjective_says_what_follows_a_noun_of_either_gender(
    before: str, relative: set[str]
) -> None:
    assert INFLECTED.next_symbols(words(f"{before} luipaard")) == relative | {"loopt", "slaapt"}


def test_sentences_without_een_are_those_of_nested() -> None:
    """In the new words alone, the two languages differ."""
    rng, shared = np.random.default_rng(0), set(NESTED.vocabulary.symbols)
    drawn = INFLECTED.sample(rng, 200, INFLECTED.lengths(14)).words
    common = [w for w in INFLECTED.vocabulary.decoded(drawn) if shared.issuperset(w)]
    assert len({NESTED.contains(word) for word in common}) == 2
    assert all(NESTED.contains(word) == INFLECTED.contains(word) for word in common)


def test_a_sentence_of_two_genders_is_as_likely_as_both_together() -> None:
    """A phrase of three in its class has "een" without an adjective; a noun is one of four."""
    either, one = (INFLECTED.probability(words(f"een {n} loopt")) for n in ("luipaard", "hond"))
    assert one == pytest.approx(1 / 3 * (0.7 / 3) * 1 / 4 * 1 / 2)
    assert either == pytest.approx(2 * one)
    assert len(list(INFLECTED.trees(words("een luipaard loopt")))) == 2


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
