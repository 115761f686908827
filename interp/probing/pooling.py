"""One vector for a whole word: what is made of the activations at its symbols.

A vector at one position has a fixed size, and so has a mean. Attention with a learned query reads
any number of symbols too: as many queries, as many vectors come out, whatever the length, and in
whatever order the symbols are given (PMA of the Set Transformer, Lee et al. 2019).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from interp.adam import Adam

STEPS, LEARNING_RATE, DECAY = 300, 0.1, 0.1
"""Numbers of AdamW; chosen on planted queries, before any network was asked."""


def at_position(
    x: Float[Tensor, "word pos d"], position: Int[Tensor, " word"]
) -> Float[Tensor, "word d"]:
    """The activation at one position of each word."""
    return x[torch.arange(len(x)), position]


def mean_pool(
    x: Float[Tensor, "word pos d"], mask: Bool[Tensor, "word pos"]
) -> Float[Tensor, "word d"]:
    """The mean over the positions of the mask; zeros where there is none."""
    return (x * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def query_pool(
    x: Float[Tensor, "word pos d"],
    mask: Bool[Tensor, "word pos"],
    queries: Float[Tensor, "fact query d"],
) -> Float[Tensor, "fact word query*d"]:
    """For each query the mean of the activations, weighted by softmax(query . x / sqrt(d)).

    Keys and values are the activations themselves. Maps of them would change nothing: that of the
    keys is part of the query, and that of the values of what reads the vectors.

    Args:
        mask: the positions that are read, at least one in each word.
        queries: the queries of each fact.
    """
    q = queries.flatten(0, 1)[None, None]
    read = scaled_dot_product_attention(q, x[:, None], x[:, None], mask[:, None, None])[:, 0]
    facts, count, width = queries.shape
    return read.unflatten(1, (facts, count)).transpose(0, 1).reshape(facts, -1, count * width)


def learned_queries(
    x: Float[Tensor, "word pos d"],
    mask: Bool[Tensor, "word pos"],
    facts: Float[np.ndarray, "fact word"],
    count: int,
    seed: int = 0,
) -> Float[Tensor, "fact query d"]:
    """Queries that are learned for each fact, together with a linear map that reads it.

    The activations stay as they are. The loss is the squared error of the standardised facts, for a
    fact that is true or false too.

    Args:
        x: activations of the words that teach, standardised.
        mask: see ``query_pool``.
        facts: the values to read of each word.
        count: number of queries of each fact.
        seed: seed of their beginning, the same for each fact.
    """
    generator = torch.Generator().manual_seed(seed)
    y = torch.as_tensor(facts, dtype=x.dtype)
    y = (y - y.mean(dim=1, keepdim=True)) / y.std(dim=1, keepdim=True).clamp(min=1e-6)
    queries = torch.randn(count, x.shape[-1], generator=generator, dtype=x.dtype)
    queries = queries.repeat(len(y), 1, 1).requires_grad_()
    maps = torch.zeros_like(queries, requires_grad=True)
    adam = Adam([queries, maps], LEARNING_RATE, weight_decay=DECAY, decoupled_weight_decay=True)
    with torch.enable_grad():
        for _ in range(STEPS):
            adam.zero_grad()
            # The map reads each symbol, and then the mean is taken: a mean of vectors of width d
            # for each word and query would be d times as many numbers.
            scores = x @ queries.flatten(0, 1).T / x.shape[-1] ** 0.5
            share = scores.masked_fill(~mask[..., None], -torch.inf).softmax(dim=1)
            read = (share * (x @ maps.flatten(0, 1).T)).sum(dim=1)
            error = read.unflatten(1, (len(y), count)).sum(dim=2).T - y
            # Its mean does not count. Facts share no weights: of their sum each gets its gradient.
            torch.autograd.backward(error.var(dim=1, correction=0).sum())
            adam.step()
    return queries.detach()
