"""Linear attention: a running sum takes the place of all pairs (Katharopoulos et al. 2020)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import elu, pad

CHUNK = 16
"""Positions whose pairs are computed together; between such chunks sums are handed on."""


def features(x: Float[Tensor, "*any d_head"]) -> Float[Tensor, "*any d_head"]:
    """elu(x) + 1, which is positive everywhere."""
    return elu(x) + 1


def linear_attention(
    q: Float[Tensor, "batch head pos d_head"],
    k: Float[Tensor, "batch head pos d_head"],
    v: Float[Tensor, "batch head pos d_value"],
    strict: bool = False,
) -> Float[Tensor, "batch head pos d_value"]:
    """The values so far, weighted by q.k: sum_j (q_i.k_j) v_j / sum_j (q_i.k_j), over j <= i.

    A query meets the keys before its chunk in one matrix, the sum of k v^T, and only those of its
    chunk one by one. So the work grows with the length, not with its square (the chunkwise form of
    Hua et al. 2022).

    Args:
        q, k: ``features`` of queries and keys.
        strict: whether a position sees only what came before it; the first one then reads zeros.
    """
    positions = q.shape[2]
    v = pad(v, (0, 1), value=1.0)  # the last number of a sum is then the sum of the weights
    fill = (0, 0, 0, -positions % CHUNK)
    q, k, v = (pad(x, fill).unflatten(2, (-1, CHUNK)) for x in (q, k, v))
    sums = k.transpose(-1, -2) @ v
    before = sums.cumsum(dim=2) - sums
    near = (q @ k.transpose(-1, -2)).tril(-1 if strict else 0)
    out = (near @ v + q @ before).flatten(2, 3)[:, :, :positions]
    total, weights = out[..., :-1], out[..., -1:]
    return total / weights.masked_fill(weights == 0, 1.0)
