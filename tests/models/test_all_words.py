"""Every word up to a length is judged once, as it is judged alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from brute import words_up_to
from conftest import SMALL, sharpen, stir

from models.base import LanguageModel, build
from models.checks import changed
from models.errors import UserError
from models.languages import Language, Word, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.rivals.ngram import HookedNGram
from models.training import all_words
from models.training.all_words import _how_many, _judge_all, affordable
from models.training.evaluation import predict

KINDS: dict[str, dict[str, Any]] = {
    "decoder": {},
    "learned positions": {"positions": "learned"},
    "t5": {"positions": "t5"},
    "counters": {"counting.averaging_heads": 1, "counting.counters": True},
    "encoder": {"mask": "bidirectional"},
    "language model": {"output": "softmax"},
    "lstm language model": {"architecture": "lstm", "act_fn": "relu", "output": "softmax"},
    **{
        kind: {"architecture": kind, "act_fn": "relu"}
        for kind in ("rnn", "lstm", "gru", "cnn", "ngram")
    },
}

LANGUAGE_MODELS = ("language model", "lstm language model")


def made(kind: str, lang: Language) -> LanguageModel:
    """A model that accepts some words and rejects some."""
    values = KINDS[kind]
    start = ModelConfig() if "architecture" in values else SMALL
    model = build(changed(start, values), lang.vocabulary, 0).eval()
    if isinstance(model, HookedNGram):
        rng = np.random.default_rng(0)
        batch = objective("next-symbols").batch(lang, lang.sample(rng, 40, range(1, 7)).words)
        model.count(batch.tokens, batch.target, batch.weight)
        return model.eval()
    return sharpen(stir(model)) if model.softmax else stir(model)


LONGEST = 4


@cache
def alone(kind: str) -> tuple[LanguageModel, dict[Word, bool]]:
    """A model, and its verdict on each word by itself; blocks of all sizes are compared with it."""
    names = {"encoder": "verdict"} | dict.fromkeys(LANGUAGE_MODELS, "language-model")
    model, taught = made(kind, language("anbncn")), objective(names.get(kind, "next-symbols"))
    words = [word for word in words_up_to("abc", LONGEST) if word]
    return model, {word: predict(model, word, taught)[1] for word in words}


@pytest.mark.parametrize("at_once", [1, 12, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_each_word_is_judged_as_it_is_alone(
    kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one word, of nine, and of all."""
    monkeypatch.setattr(all_words, "AT_ONCE", at_once)
    lang, found = language("anbncn"), dict[Word, bool]()
    model, expected = alone(kind)
    longest = LONGEST if at_once > 1 else 3
    for judged in _judge_all(model, lang, longest):
        assert len(set(judged.words.lengths)) == 1
        for ids, label, said in zip(judged.words.ids, judged.labels, judged.verdicts, strict=True):
            word = lang.vocabulary.decode(ids)
            assert word not in found
            assert label == (word == tuple("abc"))  # the only one so short
            found[word] = bool(said)
    assert found == {word: said for word, said in expected.items() if len(word) <= longest}
    assert len(found) == _how_many(3, longest)
    assert set(expected.values()) == {True, False}


def test_a_prefix_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3^6 words in blocks of 3^3, little more than the words themselves."""
    monkeypatch.setattr(all_words, "AT_ONCE", 40)
    lang = language("anbncn")
    model, computed = made("decoder", lang), 0

    def count(module: torch.nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        nonlocal computed
        computed += args[0].shape[0] * args[0].shape[1]

    model.get_submodule("blocks.0").register_forward_hook(count)
    assert sum(len(j.words) for j in _judge_all(model, lang, 6)) == 1092
    assert computed == 27 * (4 + 3 + 9 + 27)  # the way to a block, and the block


@pytest.mark.parametrize("kind", ["decoder", "lstm"])
def test_words_that_agree_again_after_another_beginning_are_apart(kind: str) -> None:
    """Of sorted words, not only of all there are."""
    lang = language("anbncn")
    model = made(kind, lang)
    words = ["aab", "aab", "abb", "bbb", "bbc"]
    tokens = torch.as_tensor(lang.vocabulary.words(words).tokens)
    logits, found = model(tokens), model.prefix_logits(tokens)
    assert [rows.tolist() for rows, _ in found] == [[0], [0, 3], [0, 2, 3], [0, 2, 3, 4]]
    for t, (rows, told) in enumerate(found):
        torch.testing.assert_close(told, logits[rows, t].detach(), atol=1e-5, rtol=1e-5)


def test_how_many_words_there_are() -> None:
    assert [_how_many(2, n) for n in (0, 1, 2, 3)] == [0, 2, 6, 14]
    assert _how_many(3, 12) == 797_160
    assert _how_many(1, 9) == 9
    for symbols in (1, 2, 3, 9):
        for most in (0, 1, 5, 100, 797_160):
            longest = affordable(symbols, most)
            assert _how_many(symbols, longest) <= most < _how_many(symbols, longest + 1)


def test_too_many_words_are_refused() -> None:
    lang = language("anbncn")
    with pytest.raises(UserError, match=r"^there are more than 20,000,000 words of 1 to 15 "):
        next(_judge_all(made("decoder", lang), lang, 15))
