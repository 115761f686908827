"""Pooling is its equation, of a size that the queries fix, whatever the order of what it reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from interp.probing.pooling import at_position, learned_queries, mean_pool, query_pool
from interp.probing.probes import Target, probe_sites

WORDS, LONGEST, WIDTH = 800, 14, 24


@pytest.fixture(scope="module")
def words() -> tuple[Tensor, Tensor]:
    """Random activations and masks of words of different lengths, in float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(WORDS, LONGEST, WIDTH, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, LONGEST + 1, (WORDS, 1), generator=generator)
    return x, torch.arange(LONGEST) < lengths


def test_a_query_is_its_equation(words: tuple[Tensor, Tensor]) -> None:
    x, mask = words
    queries = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    found = query_pool(x, mask, queries)
    assert found.shape == (2, WORDS, 3 * WIDTH)
    for word in range(20):
        own = x[word, mask[word]]
        for fact in range(2):
            weights = (queries[fact] @ own.T / WIDTH**0.5).softmax(dim=1)
            torch.testing.assert_close(found[fact, word], (weights @ own).reshape(-1))


def test_a_query_is_pytorch_s_attention(words: tuple[Tensor, Tensor]) -> None:
    x, mask = words
    queries = torch.randn(1, 4, WIDTH, dtype=torch.float64)
    attention = torch.nn.MultiheadAttention(
        WIDTH, 1, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.eye(WIDTH, dtype=torch.float64).repeat(3, 1))
        attention.out_proj.weight.copy_(torch.eye(WIDTH, dtype=torch.float64))
        said, _ = attention(queries.expand(WORDS, -1, -1), x, x, key_padding_mask=~mask)
    torch.testing.assert_close(query_pool(x, mask, queries)[0], said.flatten(1))


@pytest.mark.parametrize("count", [1, 4])
def test_the_size_is_that_of_the_queries_and_the_order_is_nothing(
    words: tuple[Tensor, Tensor], count: int
) -> None:
    x, mask = words
    queries = torch.randn(1, count, WIDTH, dtype=torch.float64)
    order = torch.randperm(LONGEST)
    assert not torch.equal(order, torch.arange(LONGEST))
    found = query_pool(x, mask, queries)
    torch.testing.assert_close(query_pool(x[:, order], mask[:, order], queries), found)
    torch.testing.assert_close(mean_pool(x[:, order], mask[:, order]), mean_pool(x, mask))
    for longest in (1, 5, LONGEST):  # however many symbols are read
        assert query_pool(x[:, :longest], mask[:, :longest], queries).shape == found.shape
    other = torch.where(mask[..., None], x, 1e3)  # padding is not read
    torch.testing.assert_close(query_pool(other, mask, queries), found)
    torch.testing.assert_close(mean_pool(other, mask), mean_pool(x, mask))


def test_a_query_of_zeros_is_the_mean(words: tuple[Tensor, Tensor]) -> None:
    x, mask = words
    nothing = torch.zeros(1, 1, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(query_pool(x, mask, nothing)[0], mean_pool(x, mask))


def test_a_position_is_that_of_its_word(words: tuple[Tensor, Tensor]) -> None:
    x, mask = words
    last = mask.sum(dim=1) - 1
    assert all(torch.equal(at_position(x, last)[i], x[i, last[i]]) for i in range(WORDS))


def planted(words: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, np.ndarray]:
    """One symbol of each word is marked by its first feature; its second feature is the fact."""
    x, mask = words[0].clone(), words[1]
    rng = np.random.default_rng(0)
    at = torch.as_tensor((rng.random(WORDS) * mask.sum(dim=1).numpy()).astype(int))
    x[..., 0] = 0.0
    x[torch.arange(WORDS), at, 0] = 4.0
    return x, mask, np.round(10 * at_position(x, at)[:, 1].numpy()).astype(np.int64)


def score(vectors: Tensor, fact: np.ndarray, fit: np.ndarray) -> float:
    target = Target(fact[:, None], np.ones((WORDS, 1), dtype=bool), "count")
    return float(probe_sites({"x": vectors[:, None].numpy()}, {"y": target}, fit)["score"].iloc[0])


@pytest.mark.parametrize("count", [1, 4])
def test_a_learned_query_finds_the_marked_symbol(words: tuple[Tensor, Tensor], count: int) -> None:
    x, mask, fact = planted(words)
    fit = np.arange(WORDS) % 2 == 0
    rows = torch.as_tensor(fit)
    queries = learned_queries(x[rows], mask[rows], fact[None, fit].astype(float), count)
    assert score(query_pool(x, mask, queries)[0], fact, fit) > 0.9
    assert score(mean_pool(x, mask), fact, fit) < 0.5
    rng = torch.Generator().manual_seed(0)
    chance = torch.randn(20, 1, count, WIDTH, dtype=torch.float64, generator=rng)
    scores = [score(query_pool(x, mask, each)[0], fact, fit) for each in chance]
    assert np.median(scores) < 0.5  # a single draw may come near the direction


def test_facts_do_not_change_each_other_s_queries(words: tuple[Tensor, Tensor]) -> None:
    x, mask, fact = (values[:200] for values in planted(words))
    both = np.stack([fact, mask.sum(dim=1).numpy()]).astype(float)
    together = learned_queries(x, mask, both, 1, seed=3)
    alone = learned_queries(x, mask, both[:1], 1, seed=3)
    torch.testing.assert_close(together[:1], alone)
    torch.testing.assert_close(learned_queries(x, mask, both, 1, seed=3), together)
    assert not torch.allclose(learned_queries(x, mask, both, 1, seed=4), together)
