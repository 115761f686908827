"""Do the heads of a layer differ: in how far they look, and in what they read and write?"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.heads.attention import attention
from interp.model import HookedModel, ReadableModel
from interp.weights import of_each_head

SIDES = {"Q": "queries", "K": "keys", "V": "values", "O": "outputs"}


def distances(
    model: HookedModel, tokens: Int[Tensor, "word pos"], mask: Bool[Tensor, "word pos"]
) -> pd.DataFrame:
    """The distance of the keys that each head looks at, on real words.

    The distance of a query is the mean of |query - key| in positions, weighted by its attention. A
    word's distance is the mean over its symbols that see two keys or more.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding.

    Returns:
        One row per layer, head and word: layer, head, word, distance, even (the distance of even
        attention); both are NaN for a word without such symbols.

    Raises:
        ValueError: the model has no attention.
    """
    pattern, may = attention(model, tokens)
    place = torch.arange(tokens.shape[1])
    gap = (place[:, None] - place).abs().to(pattern)
    seen = may.sum(dim=-1)  # [word, query]
    symbols = mask.cpu() & (place > 0) & (seen > 1)
    queries = symbols.sum(dim=-1)  # [word]; 0 / 0 is NaN
    far = ((pattern * gap).sum(dim=-1) * symbols[:, None]).sum(dim=-1) / queries[:, None]
    even = ((may * gap).sum(dim=-1) / seen.clamp(min=1) * symbols).sum(dim=-1) / queries
    layer, word, head = (axis.ravel() for axis in np.indices(far.shape))
    columns = {"layer": layer, "head": head, "word": word, "distance": far.flatten().numpy()}
    return pd.DataFrame({**columns, "even": even.numpy()[word]})


@torch.no_grad()
def shared_directions(model: ReadableModel) -> pd.DataFrame:
    """The ``overlap`` of the directions of the stream that two heads of a layer read, or write.

    Returns:
        One row per layer, pair of heads and side: layer, one, other (heads), side ("queries",
        "keys", "values": what they read; "outputs": what they write), shared (NaN where a head
        has no weights, as the queries of a head that attends evenly).
    """
    heads, rows = model.cfg.n_heads, []
    for layer in range(model.cfg.n_layers):
        attn = model.blocks[layer].attn
        for letter, side in SIDES.items():
            weights = of_each_head(getattr(attn, f"W_{letter}"), heads).double().cpu()
            if letter == "O":
                weights = weights.transpose(1, 2)
            for one, other in combinations(range(heads), 2):
                shared = overlap(weights[one], weights[other])
                rows.append((layer, one, other, side, shared))
    return pd.DataFrame(rows, columns=["layer", "one", "other", "side", "shared"])


def overlap(one: Float[Tensor, "d_model a"], other: Float[Tensor, "d_model b"]) -> float:
    """The cosine between A A^T and B B^T.

    It is 1 if both matrices have the same directions with the same strengths, and 0 if all their
    directions are orthogonal. Of matrices with orthonormal columns, as many in each, it is the mean
    squared cosine of their principal angles. NaN if a matrix is zero.
    """
    length = (one.T @ one).norm() * (other.T @ other).norm()
    return float((one.T @ other).pow(2).sum() / length) if length > 0 else float("nan")
