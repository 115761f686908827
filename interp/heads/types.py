"""Types of heads: a head's attention is compared with what known types of heads look at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.heads.attention import attention
from interp.model import HookedModel

TYPES = (
    *("previous symbol", "BOS", "same symbol", "first of its block", "induction"),
    *("fixed position", "uniform"),
)
CLEAR = 0.5
"""A head has a type only if it gives such keys so much of its attention where there are some."""


def head_types(
    model: HookedModel, tokens: Int[Tensor, "word pos"], mask: Bool[Tensor, "word pos"]
) -> pd.DataFrame:
    """The score of each head for each of the ``TYPES``, on real words.

    The score of a type that looks at certain keys (``type_keys``) is the attention on these keys,
    averaged over the queries that see at least one of them. "fixed position" is the symbol at one
    place of all words, the one that gets most of the head's attention in the other words. The score
    of "uniform" is 1 minus the total variation distance between the query's attention and even
    attention to all keys that it sees, averaged over the queries that see two keys or more. The
    queries are the word's symbols.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding.

    Returns:
        One row per layer, head, word and type: layer, head, word, type, score (0 to 1), uniform
        (the score that even attention would get), queries (over how many both are averaged; with
        none, both are NaN), share (of all attention of the word's symbols, how much goes to these
        keys; NaN for "uniform"). All of "fixed position" is NaN where all words are equal.

    Raises:
        ValueError: the model has no attention.
    """
    pattern, may = attention(model, tokens)  # [layer, word, head, query, key], [word, query, key]
    symbols = mask.cpu() & (torch.arange(tokens.shape[1]) > 0)
    seen = may.sum(dim=-1)  # [word, query]
    even = may / seen.clamp(min=1)[..., None]
    rows = {}
    for name, keys in type_keys(tokens.cpu()).items():
        keys = (keys & may)[:, None]
        score = (pattern * keys).sum(dim=-1)  # [layer, word, head, query]
        rows[name] = score, (even[:, None] * keys).sum(dim=-1), keys.any(dim=-1) & symbols[:, None]
    rows["fixed position"] = _fixed_position(pattern, may & symbols[..., None], tokens.cpu())
    closeness = 1 - (pattern - even[:, None]).abs().sum(dim=-1) / 2
    ones = torch.ones_like(even[:, None, :, 0])
    rows["uniform"] = closeness, ones, (seen > 1)[:, None] & symbols[:, None]
    layers, words, heads = pattern.shape[:3]
    layer, word, head = (axis.ravel() for axis in np.indices((layers, words, heads)))
    tables = []
    for name, (score, by_even, defined) in rows.items():
        queries = defined.sum(dim=-1)  # 0 / 0 is NaN
        on_keys = (score * defined).sum(dim=-1)
        columns = {
            "score": on_keys / queries,
            "uniform": (by_even * defined).sum(dim=-1) / queries,
            "queries": queries,
            "share": on_keys / symbols.sum(dim=-1)[:, None],
        }
        grid = {key: v.expand(layers, words, heads).flatten().numpy() for key, v in columns.items()}
        place = {"layer": layer, "head": head, "word": word, "type": name}
        tables.append(pd.DataFrame({**place, **grid}))
    table = pd.concat(tables, ignore_index=True)
    valid = (table["queries"] > 0) | (table["type"] != "fixed position")
    return table.assign(share=table["share"].where(valid & (table["type"] != "uniform")))


def _fixed_position(
    pattern: Float[Tensor, "layer word head query key"],
    may: Bool[Tensor, "word query key"],
    tokens: Int[Tensor, "word pos"],
) -> tuple[
    Float[Tensor, "layer word head query"],
    Float[Tensor, "layer word head query"],
    Bool[Tensor, "layer word head query"],
]:
    """The attention on the place that gets most of it in the words that are not equal to this one;
    even attention to it; and which queries see it. A query's own place and BOS are never it."""
    place = torch.arange(tokens.shape[1])
    apart = (may & (place[:, None] != place) & (place > 0))[:, None]
    looked = (pattern * apart).sum(dim=-2)  # [layer, word, head, key]
    unit = torch.unique(tokens, dim=0, return_inverse=True)[1]
    of_unit = torch.zeros_like(looked[:, : int(unit.max()) + 1]).index_add(1, unit, looked)
    others = (of_unit.sum(dim=1, keepdim=True) - of_unit)[:, unit] * (len(of_unit[0]) > 1)
    most, key = others.max(dim=-1)
    key = key[..., None, None].expand(*pattern.shape[:4], 1)
    sees = apart.expand(pattern.shape).gather(-1, key)[..., 0] & (most > 0)[..., None]
    even = 1 / may.sum(dim=-1).clamp(min=1)[:, None]
    return pattern.gather(-1, key)[..., 0], even.expand(sees.shape), sees


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
