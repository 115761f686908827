"""Which heads a verdict needs, alone and in pairs, in networks whose weights are set by hand."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import torch
from planted import Planted, both, either, induction

from interp.heads.needed import beyond_the_sum, needed, verdicts_lost
from interp.heads.over_words import over_words

WORDS = ["".join(word) for word in product("abc", repeat=5)]
AT_MOST_ONE = [word for word in WORDS if word.count("a") < 2 and word.count("c") < 2]
"""The network for AND adds two counts: of such words the sum is 2 where there is one of each."""


def lost(planted: Planted, words: list[str], labels: list[bool], method: str) -> list[pd.DataFrame]:
    tokens = planted.model.to_tokens(words)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    found = verdicts_lost(planted.model, tokens, mask, np.array(labels), planted.metric, method)
    claims = (needed, needed, beyond_the_sum)
    _, unit = np.unique(words, return_inverse=True)
    return [
        over_words(table, unit, claim).set_index("part")
        for table, claim in zip(found, claims, strict=True)
    ]


def test_two_heads_of_which_either_is_enough() -> None:
    """Without either nothing is lost, and without both all members are. No other pair matters."""
    labels = ["a" in word for word in WORDS]
    alone, pairs, beyond = lost(either(), WORDS, labels, "zero")
    two = "L0H1 + L0H2"
    assert (alone["value"] == 0).all()
    assert pairs.index[pairs["corrected"] <= 0.05].tolist() == [two]
    assert pairs.loc[two, "value"] == pytest.approx(np.mean(labels), abs=0.05)
    assert beyond.index[beyond["corrected"] <= 0.05].tolist() == [two]
    assert beyond.loc[two, "value"] == pairs.loc[two, "value"]


def test_two_heads_that_are_both_needed() -> None:
    """Without either all members are lost, and without both no more."""
    labels = ["a" in word and "c" in word for word in AT_MOST_ONE]
    alone, pairs, beyond = lost(both(), AT_MOST_ONE, labels, "zero")
    two = "L0H1 + L0H2"
    assert alone.index[alone["corrected"] <= 0.05].tolist() == ["L0H1", "L0H2"]
    assert pairs.loc[two, "value"] == alone.loc["L0H1", "value"] == alone.loc["L0H2", "value"]
    assert beyond.index[beyond["corrected"] <= 0.05].tolist() == [two]
    assert beyond.loc[two, "value"] == -alone.loc["L0H1", "value"]


def test_where_words_have_both_or_neither_no_single_mean_shows_the_heads() -> None:
    """On such words each of the two says all, though the network needs both. By its mean neither
    head is needed. The pair is, and by zero each head is: the ablations disagree."""
    have = ["".join(word) for word in sorted(set(permutations("acbbb")))]
    lack = ["".join(word) for word in product("b", repeat=5)] * 3
    words, labels = have + lack, [True] * len(have) + [False] * len(lack)
    alone, pairs, beyond = lost(both(), words, labels, "mean")
    two = "L0H1 + L0H2"
    assert (alone["value"] == 0).all()
    assert pairs.index[pairs["corrected"] <= 0.05].tolist() == [two]
    assert beyond.loc[two, "value"] == pairs.loc[two, "value"] > 0.5
    by_zero, _, _ = lost(both(), words, labels, "zero")
    assert by_zero.index[by_zero["corrected"] <= 0.05].tolist() == ["L0H1", "L0H2"]


def test_what_is_needed_is_the_loss_of_verdicts_by_hand() -> None:
    planted = induction()
    words = ["cabdca", "dabdda", "abdcca", "bcabda", "dabcda", "ccbdca"]
    tokens = planted.model.to_tokens(words)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    truth = (planted.metric(planted.model(tokens)) > 0).numpy()
    labels = truth ^ (np.arange(len(words)) == 0)  # the first is judged wrong
    alone, pairs, beyond = verdicts_lost(
        planted.model, tokens, mask, labels, planted.metric, "zero"
    )
    for part in [*alone, *pairs]:
        heads = [(int(p[1]), int(p[3])) for p in part.split(" + ")]
        hooks = []
        for layer, head in heads:

            def cut(z: torch.Tensor, hook: object, head: int = head) -> torch.Tensor:
                return z.index_fill(2, torch.tensor([head]), 0.0)

            hooks.append((f"blocks.{layer}.attn.hook_z", cut))
        after = (planted.metric(planted.model.run_with_hooks(tokens, fwd_hooks=hooks)) > 0).numpy()
        expected = (truth == labels).astype(int) - (after == labels)
        table = alone if len(heads) == 1 else pairs
        assert table[part].tolist() == expected.tolist()
        if len(heads) == 2:
            first, second = part.split(" + ")
            rest = expected - alone[first] - alone[second]
            assert beyond[part].tolist() == rest.tolist()
    assert alone["L1H2"].abs().sum() > 0
