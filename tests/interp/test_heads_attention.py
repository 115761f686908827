"""Where heads look, against loops, paths, networkx and patterns made by hand."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from test_transformer_lens import boot_native

from interp.causal.metrics import logit_at
from interp.heads.head_types import (
    TYPES,
    attention_and_effect,
    flow,
    head_types,
    patterns,
    rank_correlation,
    rollout,
    type_keys,
)
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
        pattern = cache[hooks[row.layer]][row.word, row.head].numpy()
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
            keys = [k for k in looks_at(row.type, word, query) if k in seen]
            if keys:
                scores.append(sum(pattern[query, k] for k in keys))
                even.append(len(keys) / len(seen))
        assert row.queries == len(scores)
        if scores:
            assert row.score == pytest.approx(np.mean(scores), abs=1e-5)
            assert row.uniform == pytest.approx(np.mean(even), abs=1e-6)
        else:
            assert np.isnan(row.score)
            assert np.isnan(row.uniform)
    assert table["score"].std() > 0.05


class Drawn:
    """A model whose only head has a pattern drawn by hand."""

    cfg = SimpleNamespace(n_layers=1, n_heads=1, attention_dir="causal")
    hook_dict: dict[str, object] = {}  # noqa: RUF012

    def __init__(self, pattern: torch.Tensor) -> None:
        self.pattern = pattern

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    run_with_hooks = __call__

    def run_with_cache(self, tokens: torch.Tensor, names_filter: list[str]) -> object:
        return None, dict.fromkeys(names_filter, self.pattern[None, None])


@pytest.mark.parametrize("name", TYPES[:-1])
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


def random_pattern(layers: int, heads: int, positions: int, causal: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(layers)
    scores = 2 * torch.randn(layers, heads, positions, positions, generator=generator)
    if causal:
        future = torch.ones(positions, positions).triu(1).bool()
        scores = scores.masked_fill(future, float("-inf"))
    return scores.softmax(-1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_rollout_is_a_sum_over_paths(layers: int, causal: bool) -> None:
    pattern = random_pattern(layers, 2, 4, causal)
    step = 0.5 * pattern.mean(1) + 0.5 * torch.eye(4)
    expected = torch.zeros(4, 4)
    for path in product(range(4), repeat=layers + 1):  # from the input to the last layer
        weights = [step[layer, path[layer + 1], path[layer]] for layer in range(layers)]
        expected[path[-1], path[0]] += torch.stack(weights).prod()
    torch.testing.assert_close(rollout(pattern), expected)


def test_a_row_without_keys_is_all_residual() -> None:
    pattern = torch.tensor([[[[0.0, 0.0], [1.0, 0.0]]]])
    torch.testing.assert_close(rollout(pattern), torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert flow(pattern, 0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_flow_equals_networkx(layers: int, causal: bool) -> None:
    pattern = random_pattern(layers, 2, 5, causal)
    step = 0.5 * pattern.mean(1) + 0.5 * torch.eye(5)
    network = nx.DiGraph()
    for layer, query, key in product(range(layers), range(5), range(5)):
        capacity = step[layer, query, key].item()
        network.add_edge((layer + 1, query), (layer, key), capacity=capacity)
    for at in (4, 2):
        expected = [nx.maximum_flow_value(network, (layers, at), (0, key)) for key in range(5)]
        assert flow(pattern, at) == pytest.approx(expected, abs=1e-5)


def test_flow_through_two_layers_is_the_sum_of_the_narrower_pipes() -> None:
    pattern = random_pattern(2, 3, 12, True)
    first, second = 0.5 * pattern.mean(1) + 0.5 * torch.eye(12)
    expected = torch.minimum(second[11][:, None], first).sum(0)
    assert flow(pattern, 11) == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize("changes", [{}, {"mask": "bidirectional"}], ids=["decoder", "encoder"])
def test_attention_beside_the_effect_by_hand(small_model: object, changes: object) -> None:
    model = small_model(**changes)
    (word,), _ = spelled(["abca"])
    changed, _ = spelled(["bbca", "acca", "abaa", "abcb"])
    at = 0 if model.config.is_encoder else 4
    metric = logit_at(END_ID, at)
    table = attention_and_effect(model, word, changed, metric, at)
    names = [f"blocks.{layer}.attn.hook_v" for layer in range(2)]
    before = metric(model(word[None]))

    def moved(hook: str, put: object) -> float:
        """How far the metric moves, by the mean over the changed words."""
        sources = activations(model, changed, [hook])[hook]
        runs = [
            model.run_with_hooks(
                word[None], fwd_hooks=[(hook, lambda x, hook, s=source: put(x.clone(), s))]
            )
            for source in sources
        ]
        return float(np.mean([(metric(run) - before).abs().item() for run in runs]))

    pattern = torch.stack(
        [activations(model, word[None], [n.replace("hook_v", "hook_pattern")]).popitem()[1][0]
         for n in names]
    )  # fmt: skip
    for row in table.itertuples():
        position, head = row.position, row.head
        if row.part in ("rollout", "flow"):

            def put(x: torch.Tensor, s: torch.Tensor, p: int = position) -> torch.Tensor:
                x[0, p] = s[p]
                return x

            expected = moved("blocks.0.hook_resid_pre", put)
            looks = rollout(pattern)[at] if row.part == "rollout" else flow(pattern, at)
            assert (row.layer, row.head) == (-1, -1)
        else:

            def put(
                x: torch.Tensor, s: torch.Tensor, p: int = position, h: int = head
            ) -> torch.Tensor:
                x[0, p, h] = s[p, h]
                return x

            expected = moved(names[row.layer], put)
            looks = pattern[row.layer, head, at]
            assert row.part == f"L{row.layer}H{head}"
        assert row.effect == pytest.approx(expected, abs=1e-5)
        assert row.attention == pytest.approx(float(looks[position]), abs=1e-6)
    assert len(table) == 10 * 4
    assert (table["effect"] > 1e-3).mean() > 0.7


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


def test_rank_correlation() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(9), rng.integers(0, 4, 9).astype(float)
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert rank_correlation(x, -x) == pytest.approx(-1.0)
    assert np.isnan(rank_correlation(x, np.full(9, 0.1)))
    assert np.isnan(rank_correlation(np.zeros(9), x))
    assert np.isnan(rank_correlation(x[:1], y[:1]))
    assert np.isnan(rank_correlation(x[:0], y[:0]))


def test_what_float32_rounds_is_a_tie() -> None:
    """An even row of attention stays even, whatever the last bits say."""
    noise = 0.1 + 1e-8 * np.arange(5)
    assert np.isnan(rank_correlation(noise, np.arange(5.0)))
    nearly, tied = np.array([0.1 + 1e-8, 0.1, 0.5]), np.array([0.1, 0.1, 0.5])
    y = np.array([1.0, 2.0, 3.0])
    assert rank_correlation(nearly, y) == pytest.approx(spearmanr(tied, y).statistic)
    assert rank_correlation(1e-9 * np.arange(5.0), np.arange(5.0)) == pytest.approx(1.0)


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
