"""Attention to a source and its effects: against scikit-learn, SciPy, and runs by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conftest import stir, tiny_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from torch import Tensor

from interp.heads.alignment import agreement, aligned, attention_to_source, effects_of_source
from models.base import LanguageModel, build
from models.languages import language

COPY = language("copy")


def some_scores(seed: int, parts: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=(parts, 5, 6)).astype(float)  # with ties
    truth = rng.random((5, 6)) < 0.4
    truth[0] = False  # comes from no place
    truth[1] = True  # comes from all
    truth[2, :2] = True, False
    return scores, truth


@given(st.integers(0, 200))
def test_the_area_is_that_of_scikit_learn(seed: int) -> None:
    scores, truth = some_scores(seed)
    auroc, hit = aligned(scores, truth)
    told = [row for row in range(5) if truth[row].any() and not truth[row].all()]
    for part in range(3):
        areas = [roc_auc_score(truth[row], scores[part, row]) for row in told]
        assert auroc[part] == pytest.approx(np.mean(areas))
        hits = []
        for row in told:
            best = scores[part, row] == scores[part, row].max()
            hits.append(truth[row][best].mean())
        assert hit[part] == pytest.approx(np.mean(hits))


def test_the_truth_itself_is_perfect_and_its_opposite_is_not() -> None:
    truth = np.eye(4, dtype=bool)
    assert aligned(truth.astype(float), truth) == (1.0, 1.0)
    assert aligned(-truth.astype(float), truth) == (0.0, 0.0)
    assert aligned(np.ones((4, 4)), truth) == (0.5, 0.25)
    auroc, hit = aligned(np.ones((2, 4, 4)), np.ones((4, 4), dtype=bool))
    assert np.isnan(auroc).all()
    assert np.isnan(hit).all()


@given(st.integers(0, 100))
def test_agreement_is_spearmans(seed: int) -> None:
    first, _ = some_scores(seed)
    second = np.random.default_rng(seed + 1).normal(size=(5, 6))
    second[0] = 1.0  # does not vary
    for part, found in enumerate(agreement(first, second)):
        rows = [row for row in range(1, 5) if np.ptp(first[part, row])]
        if rows:
            expected = [spearmanr(first[part, row], second[row]).statistic for row in rows]
            assert found == pytest.approx(np.mean(expected))
    assert np.isnan(agreement(np.ones((5, 6)), second))


def made(architecture: str) -> LanguageModel:
    model = build(tiny_of(architecture, output="conditional"), COPY.vocabulary, 2)
    return stir(model).double().eval()


def read(text: str) -> Tensor:
    return torch.as_tensor(COPY.vocabulary.words([text.split()]).tokens[0])


def log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(dim=-1)


QUERIES, KEYS = range(4, 7), range(1, 4)
RIGHT = [int(token) for token in read("a b c > a b c")[5:]]


@pytest.mark.parametrize("architecture", ["encoder-decoder", "lstm-encoder-decoder", "transformer"])
def test_a_symbol_is_exchanged_and_nothing_else(architecture: str) -> None:
    model, word, donor = made(architecture), read("a b c > a b c"), read("d d d a > d d d a")
    found = effects_of_source(model, log_softmax, word, donor, QUERIES, KEYS, RIGHT)
    before = log_softmax(model(word[None]))[0]
    for column, place in enumerate(KEYS):
        changed = word.clone()
        changed[place] = donor[place]
        after = log_softmax(model(changed[None]))[0]
        for row, (query, token) in enumerate(zip(QUERIES, RIGHT, strict=True)):
            expected = float((before - after)[query, token].detach())
            assert found[row, column] == pytest.approx(expected, abs=1e-10)
    assert np.abs(found).min() > 1e-9


def test_what_is_read_at_a_place_is_exchanged_for_all_targets() -> None:
    model, word, donor = made("encoder-decoder"), read("a b c > a b c"), read("d d d a > d d d a")
    names = ["blocks.1.cross_attn.hook_k", "blocks.1.cross_attn.hook_v"]
    found = effects_of_source(model, log_softmax, word, donor, QUERIES, KEYS, RIGHT, names)
    _, cache = model.run_with_cache(donor[None])
    for column, place in enumerate(KEYS):

        def put(value: Tensor, hook: Any, place: int = place) -> Tensor:
            value = value.clone()
            value[:, place] = cache[hook.name][:, place]
            return value

        after = model.run_with_hooks(word[None], fwd_hooks=[(name, put) for name in names])
        lost = (log_softmax(model(word[None])) - log_softmax(after))[0]
        expected = [float(lost[q, t].detach()) for q, t in zip(QUERIES, RIGHT, strict=True)]
        np.testing.assert_allclose(found[:, column], expected, atol=1e-10)


def test_a_place_that_says_the_same_has_no_effect() -> None:
    model, word = made("encoder-decoder"), read("a b c > a b c")
    found = effects_of_source(model, log_softmax, word, read("a d c > a"), QUERIES, KEYS, RIGHT)
    assert np.abs(found[:, [0, 2]]).max() < 1e-12
    assert np.abs(found[:, 1]).min() > 1e-6


def test_attention_is_cut_out_of_the_pattern() -> None:
    model, word = made("encoder-decoder"), read("a b c > a b c")
    hook = "blocks.1.cross_attn.hook_pattern"
    found = attention_to_source(model, word, [hook], QUERIES, KEYS)
    _, cache = model.run_with_cache(word[None])
    np.testing.assert_allclose(found[0], cache[hook][0, :, 4:7, 1:4].detach())


def test_a_model_without_the_hook_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no blocks\.0\.cross_attn\.hook_k"):
        effects_of_source(
            *(made("transformer"), log_softmax, read("a > a"), read("b > b")),
            *([2], [1], [2], ["blocks.0.cross_attn.hook_k"]),
        )
