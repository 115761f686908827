"""The training target: what the teacher says, where it is silent, and the loss by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from models.languages import BOS_ID, END_ID, LabelledCorpus, language
from models.objectives.objective import loss, make_batch

WORDS = [tuple(w) for w in ("aabb", "aab", "ba", "ab", "a", "")]


@pytest.mark.parametrize("supervision", ["every", "last"])
def test_the_teacher_speaks_about_the_word_and_never_about_padding(supervision: str) -> None:
    lang = language("anbn")
    batch = make_batch(lang, lang.vocabulary.words(WORDS), supervision)
    assert batch.tokens.shape == (6, 5)
    assert batch.target.shape == batch.weight.shape == (6, 5, len(lang.vocabulary))
    for row, word in enumerate(WORDS):
        for position in range(5):
            for token, name in enumerate(lang.vocabulary.tokens):
                here = (row, position, token)
                if supervision == "every":
                    spoken = position <= len(word) and token != BOS_ID
                else:
                    spoken = position == len(word) and token == END_ID
                assert batch.weight[here] == spoken, here
                allowed = spoken and name in lang.next_symbols(word[:position])
                assert batch.target[here] == allowed, here


def test_the_loss_is_the_mean_of_what_the_answers_cost() -> None:
    lang = language("anbn")
    batch = make_batch(lang, lang.vocabulary.words(WORDS), "every")
    logits = torch.randn(batch.target.shape, generator=torch.Generator().manual_seed(0)).double()
    total, answers = 0.0, 0
    for index in np.ndindex(*batch.target.shape):
        if batch.weight[index]:
            p = 1 / (1 + math.exp(-float(logits[index])))
            total -= math.log(p if batch.target[index] else 1 - p)
            answers += 1
    assert float(loss(logits, batch)) == pytest.approx(total / answers, rel=1e-6)


def test_a_mistake_where_the_teacher_is_silent_costs_nothing() -> None:
    lang = language("anbn")
    batch = make_batch(lang, lang.vocabulary.words(WORDS), "last")
    perfect = torch.where(batch.target > 0, 30.0, -30.0)
    silent = torch.where(batch.weight > 0, perfect, 30.0)
    assert float(loss(silent, batch)) < 1e-9
    spoken = torch.where(batch.weight > 0, -perfect, perfect)
    assert float(loss(spoken, batch)) == pytest.approx(30.0)


def test_a_corpus_teaches_the_verdict() -> None:
    corpus = LabelledCorpus("lines", ["in", "out"], [("x", "y"), ("y",)])
    batch = make_batch(corpus, corpus.lines, "last")
    assert batch.weight.sum() == 2
    assert batch.target.nonzero().tolist() == [[0, 2, END_ID]]
