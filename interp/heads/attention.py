"""Attention: the pattern of every head, and what its mask lets it see."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.model import HookedModel, activations


def attention(
    model: HookedModel, tokens: Int[Tensor, "word pos"]
) -> tuple[Float[Tensor, "layer word head query key"], Bool[Tensor, "word query key"]]:
    """The pattern of every head, and which keys the mask lets each query see.

    Args:
        tokens: token ids with BOS.

    Returns:
        Attention from 0 to 1; and True where the query may see the key. Both are on the CPU.

    Raises:
        ValueError: the model has no attention.
    """
    layers = range(model.cfg.n_layers)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    scores = "blocks.0.attn.hook_attn_scores"
    cache = activations(model, tokens, [*hooks, scores])
    may = cache[scores][:, 0] > -torch.inf
    if model.cfg.attention_dir == "causal":  # not every model's scores say what is masked
        may = may.tril()
    return torch.stack([cache[hook] for hook in hooks]), may


def patterns(model: HookedModel, tokens: Int[Tensor, "one pos"]) -> pd.DataFrame:
    """The attention of every head on one word.

    Args:
        tokens: the token ids of the word, with BOS.

    Returns:
        One row per layer, head, query and key that the query may attend to (under a causal mask
        key <= query): layer, head, query, key (positions; BOS is 0), attention (0 to 1).

    Raises:
        ValueError: the model has no attention.
    """
    pattern, may = attention(model, tokens)
    layer, head, query, key = np.nonzero(may[0].expand_as(pattern[:, 0]).numpy())
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "key": key,
            "attention": pattern[:, 0].numpy()[layer, head, query, key],
        }
    )
