"""Types of heads and their patterns, against loops and patterns made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from test_transformer_lens import boot_native

from interp.causal.metrics import logit_at
from interp.heads.attention import patterns
from interp.heads.attention_and_effect import attention_and_effect
from interp.heads.types import TYPES, head_types, type_keys
from interp.model import activations
from models.languages import END_ID
from models.transformer.model import HookedTransformer

WORDS = ["abbab", "aab", "cabca", "b", "caaab"]


def spelled(words: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, END behind each word, and the mask."""
    longest = max(map(len, words))
    rows = [[0, *(2 + "abc".index(s) for s in w), *[END_ID] * (longest - len(w))] for w in words]
    tokens = torch.tensor(rows)
    return tokens, tokens != END_ID


def looks_at(name: str, word: str, query: int) -> list[int]:
    """The keys of a type, in words rather than tensors; position 0 is BOS."""
    text = "^" + word

    def block(p: int) -> int:
        """Where the run of equal symbols around a position begins."""
        return p if p == 0 or text[p - 1] != text[p] else block(p - 1)

    wanted = {
        "previous symbol": lambda k: k == query - 1 and k > 0,
        "BOS": lambda k: k == 0,
        "same symbol": lambda k: text[k] == text[query],
        "first of its block": lambda k: k == block(query),
        "induction": lambda k: k > 1 and k - 1 < query and text[k - 1] == text[query],
    }[name]
    return [k for k in range(len(text)) if k != query and wanted(k)]


def fixed_position(grids: list[np.ndarray], number: int) -> int | None:
    """The place, not a query's own and not BOS, with most attention in all words but this one."""
    looked: dict[int, float] = {}
    for other, grid in enumerate(grids):
        for query, row in enumerate(grid):
            for key in range(1, len(WORDS[other]) + 1):
                if other != number and 0 < query <= len(WORDS[other]) and key != query:
                    looked[key] = looked.get(key, 0.0) + row[key]
    return max(looked, key=looked.__getitem__)


@pytest.mark.parametrize("mask_kind", ["causal", "strictly_causal", "bidirectional"])
def test_types_against_loops(small_model: object, mask_kind: str) -> None:
    model = small_model(mask=mask_kind)
    tokens, mask = spelled(WORDS)
    table = head_types(model, tokens, mask)
    assert len(table) == 2 * 4 * len(WORDS) * len(TYPES)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    cache = activations(model, tokens, hooks)
    for row in table.itertuples():
        word = WORDS[row.word]
        grids = [grid.numpy() for grid in cache[hooks[row.layer]][:, row.head]]
        pattern, fixed = grids[row.word], fixed_position(grids, row.word)
        scores, even = [], []
        for query in range(1, len(word) + 1):
            reach = {"causal": query + 1, "strictly_causal": query}.get(mask_kind, len(word) + 1)
            seen = range(reach)
            if row.type == "uniform":
                if len(seen) > 1:
                    apart = sum(abs(pattern[query, k] - 1 / len(seen)) for k in seen) / 2
                    scores.append(1 - apart)
                    even.append(1.0)
                continue
            if row.type == "fixed position":
                keys = [fixed] if fixed != query and fixed in seen else []
            else:
                keys = [k for k in looks_at(row.type, word, query) if k in seen]
            if keys:
                scores.append(sum(pattern[query, k] for k in keys))
                even.append(len(keys) / len(seen))
        assert row.queries == len(scores)
        if scores:
            assert row.score == pytest.approx(np.mean(scores), abs=1e-5)
            assert row.uniform == pytest.approx(np.mean(even), abs=1e-6)
            if row.type != "uniform":
                assert row.share == pytest.approx(sum(scores) / len(word), abs=1e-5)
        else:
            assert np.isnan(row.score)
            assert np.isnan(row.uniform)
    assert table["score"].std() > 0.05


class Drawn:
    """A model whose only head has a pattern drawn by hand."""

    cfg = SimpleNamespace(n_layers=1, n_heads=1, attention_dir="causal")
    hook_dict = dict.fromkeys(f"blocks.0.attn.hook_{name}" for name in ("pattern", "attn_scores"))

    def __init__(self, pattern: torch.Tensor) -> None:
        self.pattern = pattern

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    run_with_hooks = __call__

    def run_with_cache(self, tokens: torch.Tensor, names_filter: list[str]) -> object:
        words = self.pattern[None].expand(len(tokens), 1, -1, -1)
        return None, dict.fromkeys(names_filter, words)


@pytest.mark.parametrize("name", TYPES[:-2])
def test_a_head_of_one_type_scores_one(name: str) -> None:
    tokens, mask = spelled(["abbab"])
    keys = type_keys(tokens)[name][0].tril().float()
    keys[keys.sum(-1) == 0] = torch.eye(6)[keys.sum(-1) == 0]  # nowhere to look: at oneself
    model = Drawn(keys / keys.sum(-1, keepdim=True))
    table = head_types(model, tokens, mask).set_index("type")
    assert table.loc[name, "score"] == pytest.approx(1.0)
    assert table.loc["uniform", "score"] < 0.8


def test_types_by_hand() -> None:
    """a b b: the queries see 2, 3 and 4 positions; attention is even."""
    tokens, mask = spelled(["abb"])
    even = torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]
    table = head_types(Drawn(even), tokens, mask).set_index("type")
    expected = {
        "previous symbol": (1 / 3 + 1 / 4) / 2,
        "BOS": (1 / 2 + 1 / 3 + 1 / 4) / 3,
        "same symbol": 1 / 4,
        "first of its block": 1 / 4,
        "uniform": 1.0,
    }
    for name, value in expected.items():
        assert table.loc[name, "score"] == pytest.approx(value)
        assert table.loc[name, "uniform"] == pytest.approx(value)
    assert np.isnan(table.loc["induction", "score"])
    assert table.loc["induction", "queries"] == 0


def test_patterns_of_one_word(model: HookedTransformer, tokens: torch.Tensor) -> None:
    table = patterns(model, tokens[:1])
    pairs = 8 * 9 // 2
    assert len(table) == 2 * 4 * pairs
    assert (table["key"] <= table["query"]).all()
    rows = table.groupby(["layer", "head", "query"])["attention"].sum()
    assert rows.to_numpy() == pytest.approx(1.0, abs=1e-6)
    _, cache = model.run_with_cache(tokens[:1])
    place = table[["head", "query", "key"]].to_numpy().T
    for layer in range(2):
        at = (table["layer"] == layer).to_numpy()
        expected = cache["pattern", layer][0].detach().numpy()[tuple(place[:, at])]
        assert table["attention"].to_numpy()[at] == pytest.approx(expected, abs=1e-6)


def test_where_a_head_looks_runs_on_a_bridge(small_model: object) -> None:
    model = small_model(positions="learned")
    bridge = boot_native(model)
    tokens, mask = spelled(["abca", "bbca"])
    pd.testing.assert_frame_equal(patterns(bridge, tokens[:1]), patterns(model, tokens[:1]))
    ours, theirs = (head_types(m, tokens, mask)["score"] for m in (model, bridge))
    assert theirs.to_numpy() == pytest.approx(ours.to_numpy(), abs=1e-5, nan_ok=True)
    metric = logit_at(END_ID, 4)
    ours, theirs = (
        attention_and_effect(m, tokens[0], tokens[1:], metric, 4)["effect"] for m in (model, bridge)
    )
    assert theirs.to_numpy() == pytest.approx(ours.to_numpy(), abs=1e-5)


def means_of(head: Drawn, tokens: torch.Tensor, mask: torch.Tensor) -> pd.DataFrame:
    """Score, uniform and share of each type, means over words."""
    table = head_types(head, tokens, mask)
    return table.groupby("type")[["score", "uniform", "share"]].mean()


def test_a_head_has_the_score_of_the_keys_that_it_looks_at() -> None:
    tokens, mask = spelled(["abbab"])
    keys = type_keys(tokens)["previous symbol"][0].tril().float()
    keys[keys.sum(-1) == 0] = torch.eye(6)[keys.sum(-1) == 0]
    means = means_of(Drawn(keys), tokens, mask)
    beyond = means["score"] - means["uniform"]
    assert beyond.drop(index="uniform").idxmax() == "previous symbol"
    # The first symbol has none before it: it looks at itself.
    assert means.loc["previous symbol", "score"] == pytest.approx(1.0)
    assert means.loc["previous symbol", "share"] == pytest.approx(4 / 5)
    even = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
    assert means_of(Drawn(even), tokens, mask).loc["uniform", "score"] == pytest.approx(1.0)


def looking(at: int, weight: float, size: int = 6) -> Drawn:
    """A head that gives one place this weight wherever it is seen, and a query's own the rest."""
    pattern = torch.eye(size)
    pattern[at + 1 :] *= 1 - weight
    pattern[at + 1 :, at] += weight
    return Drawn(pattern)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_head_that_looks_at_one_position_has_that_type(at: int) -> None:
    """It was told as one that looks at the first of the block, or as an induction head."""
    tokens, mask = spelled(["abbab", "aabba", "babab", "bbaab"])
    means = means_of(looking(at, 1.0), tokens, mask)
    beyond = means["score"] - means["uniform"]
    assert beyond.drop(index="uniform").idxmax() == "fixed position"
    assert means.loc["fixed position", "score"] == pytest.approx(1.0)
    assert means.loc["fixed position", "share"] == pytest.approx((5 - at) / 5)


def test_a_score_is_the_weight_of_the_look() -> None:
    tokens, mask = spelled(["abbab", "aabba", "babab", "bbaab"])
    means = means_of(looking(2, 0.4), tokens, mask)
    assert means.loc["fixed position", "score"] == pytest.approx(0.4)
    of_one_word = head_types(looking(2, 1.0), tokens[:1], mask[:1]).set_index("type")
    assert of_one_word.loc["fixed position", ["score", "uniform", "share"]].isna().all()
