"""An encoder reads the whole word and answers at BOS."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config

from models.errors import UserError
from models.languages import BOS_ID, END_ID, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.training.evaluation import predict, prefix_logits, verdicts
from models.transformer.model import HookedTransformer

CONFIG = ModelConfig(**{**TINY.__dict__, "mask": "bidirectional", "positions": "learned"})


@pytest.fixture
def encoder() -> HookedTransformer:
    model = HookedTransformer(CONFIG, language("anbn").vocabulary, seed=3)
    with torch.no_grad():
        model.unembed.linear.bias.zero_()
    return model.eval()


def test_the_teacher_speaks_at_bos_alone() -> None:
    known = language("anbn")
    words = known.vocabulary.words(["ab", "aabb", "abb"])
    batch = objective("verdict").batch(known, words, "bos")
    assert batch.weight.nonzero().tolist() == [[row, 0, END_ID] for row in range(3)]
    assert batch.target[:, 0, END_ID].tolist() == [1, 1, 0]
    assert batch.target.sum() == 2


def test_the_verdict_is_read_at_bos(encoder: HookedTransformer) -> None:
    words = encoder.vocabulary.words(["ab", "aabb", "abb", "b"])
    logits = encoder(torch.as_tensor(words.tokens))
    expected = (logits[:, BOS_ID, END_ID] > 0).numpy()
    assert (verdicts(encoder, logits, words) == expected).all()
    assert encoder.verdict_positions(torch.tensor([2, 4])).tolist() == [0, 0]


def test_every_prefix_is_a_word_of_its_own(encoder: HookedTransformer) -> None:
    word = tuple("aabba")
    together = prefix_logits(encoder, word)
    for end in range(len(word) + 1):
        alone = encoder(torch.as_tensor(encoder.vocabulary.words([word[:end]]).tokens))
        torch.testing.assert_close(together[end], alone[0, 0])
    follow, accepted = predict(encoder, word, objective("verdict"))
    assert len(follow) == len(word)
    assert accepted == (follow[-1] == ["<end>"])


def test_a_symbol_is_seen_from_before_it(encoder: HookedTransformer) -> None:
    """What a decoder can never do."""
    one, other = encoder(encoder.to_tokens("aab"))[0, 1], encoder(encoder.to_tokens("aaa"))[0, 1]
    assert not torch.allclose(one, other)


def test_next_symbols_cannot_be_taught_to_who_sees_them() -> None:
    with pytest.raises(UserError, match=r"^[^\n]*choose --objective verdict[^\n]*$"):
        tiny_config(model=CONFIG, objective="next-symbols")


def test_words_are_told_apart_by_order_with_positions_alone() -> None:
    """Without positions the readout is a symmetric function of the symbols."""
    words = torch.as_tensor(np.array([[0, 2, 3, 3, 2], [0, 3, 2, 2, 3]]))
    for positions in ("none", "learned"):
        config = ModelConfig(**{**CONFIG.__dict__, "positions": positions})
        model = HookedTransformer(config, language("anbn").vocabulary, seed=3).double()
        first, second = model(words)[:, 0]
        assert torch.allclose(first, second, atol=1e-12) == (positions == "none")
