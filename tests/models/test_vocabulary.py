"""Symbols to ids and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UserError
from models.languages import BOS, BOS_ID, END, END_ID, Vocabulary, Words

LETTERS = Vocabulary(("a", "b", "c"))
ANIMALS = Vocabulary(("aap", "kat"))


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=5))
def test_words_come_back_from_a_batch(words: list[list[str]]) -> None:
    batch = LETTERS.words(words)
    assert len(batch) == len(words)
    assert batch.lengths.tolist() == [len(word) for word in words]
    for ids, mask, tokens, word in zip(batch.ids, batch.mask, batch.tokens, words, strict=True):
        assert LETTERS.decode(ids[: len(word)]) == tuple(word)
        assert (ids[len(word) :] == END_ID).all()
        assert mask.tolist() == [True] * len(word) + [False] * (len(mask) - len(word))
        assert tokens.tolist() == [BOS_ID, *ids.tolist()]


def test_token_ids() -> None:
    assert LETTERS.tokens == (BOS, END, "a", "b", "c")
    assert (LETTERS.ids[BOS], LETTERS.ids[END]) == (BOS_ID, END_ID)
    assert [LETTERS.ids[t] for t in LETTERS.tokens] == list(range(len(LETTERS)))


@pytest.mark.parametrize("text", ["aab", "a a b", " aa  b ", "a ab"])
def test_letters_may_be_typed_with_or_without_spaces(text: str) -> None:
    assert LETTERS.parse(text) == ("a", "a", "b")


def test_longer_symbols_are_set_apart_by_spaces() -> None:
    assert ANIMALS.parse(" kat  aap") == ("kat", "aap")
    with pytest.raises(UserError, match="unknown symbol 'kataap'"):
        ANIMALS.parse("kataap")


@pytest.mark.parametrize("text", ["abx", BOS, END, "a <end>"])
def test_unknown_symbols_are_refused(text: str) -> None:
    """BOS and END are no symbols: a word cannot hold them."""
    with pytest.raises(UserError, match=r"^unknown symbol [^\n]*: use only a b c$"):
        LETTERS.parse(text)


@pytest.mark.parametrize("symbols", [("a", "b", "a"), ("a", BOS), (END, "b")])
def test_symbols_differ_from_each_other_and_from_bos_and_end(symbols: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*symbol[^\n]*$"):
        Vocabulary(symbols)


def test_concatenation_pads_to_one_width() -> None:
    short, long = LETTERS.words(["a", "ab"]), LETTERS.words(["abcab"])
    both = Words.concatenate(short, long)
    assert both.ids.shape == (3, 5)
    assert [LETTERS.decode(i[:n]) for i, n in zip(both.ids, both.lengths, strict=True)] == [
        ("a",),
        ("a", "b"),
        tuple("abcab"),
    ]
    assert (both.ids[0, 1:] == END_ID).all()
    picked = both[np.array([2, 0])]
    assert picked.lengths.tolist() == [5, 1]


def test_rows_past_their_length_become_padding() -> None:
    words = Words.of_rows(np.full((2, 3), 4), np.array([1, 3]))
    assert words.ids.tolist() == [[4, END_ID, END_ID], [4, 4, 4]]
