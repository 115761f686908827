"""What kind of head is it? Its attention is compared with what known types of heads look at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from interp.heads.attention import attention
from interp.model import HookedModel

TYPES = ("previous symbol", "BOS", "same symbol", "first of its block", "induction", "uniform")
EVEN = 0.8  # a head with at least this score of "uniform" gets no other type


def head_types(
    model: HookedModel, tokens: Int[Tensor, "word pos"], mask: Bool[Tensor, "word pos"]
) -> pd.DataFrame:
    """How much each head is of each of the ``TYPES``, on real words.

    The score of a type that looks at certain keys (``type_keys``) is the attention on these keys,
    averaged over the queries that see at least one of them. The score of "uniform" is 1 minus the
    total variation distance between the query's attention and even attention to all keys that it
    sees, averaged over the queries that see two keys or more. The queries are the word's symbols.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding.

    Returns:
        One row per layer, head, word and type: layer, head, word, type, score (0 to 1), uniform
        (the score that even attention would get), queries (over how many both are averaged; with
        none, both are NaN).

    Raises:
        ValueError: the model has no attention.
    """
    pattern, may = attention(model, tokens)
    asked = mask.cpu() & (torch.arange(tokens.shape[1]) > 0)
    seen = may.sum(dim=-1)  # [word, query]
    even = may / seen.clamp(min=1)[..., None]
    found = {}
    for name, keys in type_keys(tokens.cpu()).items():
        keys = keys & may
        score = (pattern * keys[:, None]).sum(dim=-1)  # [layer, word, head, query]
        found[name] = score, (even * keys).sum(dim=-1), keys.any(dim=-1)
    closeness = 1 - (pattern - even[:, None]).abs().sum(dim=-1) / 2
    found["uniform"] = closeness, torch.ones_like(even[..., 0]), seen > 1
    layers, words, heads = pattern.shape[:3]
    layer, word, head = (axis.ravel() for axis in np.indices((layers, words, heads)))
    tables = []
    for name, (score, by_even, defined) in found.items():
        defined = defined & asked
        queries = defined.sum(dim=-1)  # [word]; 0 / 0 is NaN
        mean = (score * defined[:, None]).sum(dim=-1) / queries[:, None]
        uniform = (by_even * defined).sum(dim=-1) / queries
        columns = {"layer": layer, "head": head, "word": word, "type": name}
        columns |= {"score": mean.flatten().numpy(), "uniform": uniform.numpy()[word]}
        tables.append(pd.DataFrame({**columns, "queries": queries.numpy()[word]}))
    return pd.concat(tables, ignore_index=True)


def clearest_types(table: pd.DataFrame) -> pd.DataFrame:
    """The type of each head, from the table of ``head_types``.

    Returns:
        One row per head: layer, head, type ("uniform" if its score of "uniform" is at least
        ``EVEN``, else the type whose score exceeds that of even attention most), score (of this
        type, the mean over words).
    """
    means = table.groupby(["layer", "head", "type"])[["score", "uniform"]].mean()
    rows = []
    for (layer, head), scores in means.groupby(["layer", "head"]):
        types = scores.droplevel(["layer", "head"])
        named, name = types.drop(index="uniform").dropna(), "uniform"
        if types.loc["uniform", "score"] < EVEN and len(named):
            name = (named["score"] - named["uniform"]).idxmax()
        score = float(types.loc[name, "score"])
        rows.append({"layer": layer, "head": head, "type": name, "score": score})
    return pd.DataFrame(rows)


def type_keys(tokens: Int[Tensor, "word pos"]) -> dict[str, Bool[Tensor, "word query key"]]:
    """The keys that a head of each type looks at; a query's own position is never among them.

    "previous symbol": the position before the query, if a symbol stands there. "BOS": position 0.
    "same symbol": all positions with the query's symbol. "first of its block": the first position
    of the run of equal symbols that the query is in. "induction": the positions after earlier
    occurrences of the query's symbol (Olsson et al. 2022).

    Returns:
        By type, True where the query looks at the key.
    """
    position = torch.arange(tokens.shape[1])
    key_is_bos = (position == 0).expand(len(tokens), len(position), -1)
    gap = position[:, None] - position  # [query, key]
    same = tokens[:, :, None] == tokens[:, None, :]
    begins = torch.ones_like(tokens, dtype=torch.bool)
    begins[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    block = begins.cumsum(dim=1)
    followed = torch.zeros_like(same)
    followed[:, :, 1:] = same[:, :, :-1] & (gap[:, :-1] > 0)
    keys = {
        "previous symbol": ((gap == 1) & ~key_is_bos),
        "BOS": key_is_bos,
        "same symbol": same,
        "first of its block": (block[:, :, None] == block[:, None, :]) & begins[:, None, :],
        "induction": followed,
    }
    return {name: where & (gap != 0) for name, where in keys.items()}
