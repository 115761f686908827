"""Interchange on a planted counter: the direction is found, and the controls do not work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import counter

from interp.causal.interchange import Pairs, all_tokens, allowed_or_not, interchange
from models.languages import END_ID

HOOK = "blocks.0.hook_resid_mid"


def drawn(count: int, seed: int) -> Pairs:
    """Words a^i b^j, half of them with i = j; what is exchanged decides, so the source does."""
    rng = np.random.default_rng(seed)
    vocabulary = counter().model.vocabulary
    sizes = rng.integers(1, 6, (2 * count, 2))
    same = rng.random(2 * count) < 0.5
    sizes[:, 1] = np.where(same, sizes[:, 0], sizes[:, 1])
    words = vocabulary.words([(*["a"] * i, *["b"] * j) for i, j in sizes.tolist()])
    base, source = torch.as_tensor(words.tokens).chunk(2)
    base_at, source_at = torch.as_tensor(words.lengths).chunk(2)
    ends = torch.as_tensor(sizes[:, 0] == sizes[:, 1]).long()
    return Pairs(base, source, base_at, source_at, ends[count:])


def test_one_direction_carries_the_planted_count() -> None:
    table = interchange(counter().model, HOOK, drawn(120, 0), drawn(100, 1), allowed_or_not(END_ID))
    rows = table.set_index("method")
    assert rows["rank"].to_dict() == {
        "none": 0,
        "DAS": 1,
        "placebo": 1,
        "random direction": 1,
        "whole activation": counter().model.cfg.d_model,
    }
    assert rows.loc["DAS", "value"] > 0.95
    assert rows.loc["whole activation", "value"] == 1
    assert rows.loc[["none", "placebo", "random direction"], "value"].max() < 0.75
    assert (rows["low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["high"]).all()
    assert set(rows["pairs"]) == {100}


def test_nothing_exchanged_is_what_the_model_says_of_the_bases() -> None:
    """Read at each base's own position, whatever stands behind it."""
    model, test = counter().model, drawn(60, 2)
    table = interchange(model, HOOK, drawn(20, 0), test, allowed_or_not(END_ID), rank=2, seed=1)
    logit = model(test.base)[torch.arange(60), test.base_at, END_ID]
    expected = ((logit > 0).long() == test.target).double().mean()
    rows = table.set_index("method")
    assert rows.loc["none", "value"] == pytest.approx(float(expected))
    assert rows.loc["DAS", "rank"] == 2


def test_every_token_may_be_an_answer() -> None:
    model, test = counter().model, drawn(30, 3)
    said = model(test.base)[torch.arange(30), test.base_at].argmax(dim=1)
    own = replace(test, target=said)
    table = interchange(model, HOOK, own, own, all_tokens).set_index("method")
    assert table.loc["none", "value"] == 1


def test_a_hook_that_is_not_there_is_named() -> None:
    pairs = drawn(4, 0)
    with pytest.raises(ValueError, match=r"has no blocks\.9\.hook_resid_mid: use another lens"):
        interchange(counter().model, "blocks.9.hook_resid_mid", pairs, pairs)
