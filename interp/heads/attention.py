"""Attention: the pattern of every head, and what its mask lets it see."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.model import HookedModel, require_hooks


@torch.no_grad()
def attention(
    model: HookedModel, tokens: Int[Tensor, "word pos"], batch_size: int = 256
) -> tuple[Float[Tensor, "layer word head query key"], Bool[Tensor, "word query key"]]:
    """The pattern of every head, and which keys the mask lets each query see.

    Args:
        tokens: token ids with BOS.
        batch_size: the most words in one forward pass.

    Returns:
        Attention from 0 to 1; and True where the query may see the key. Both are on the CPU.

    Raises:
        ValueError: the model has no attention, or its layers have different masks.
    """
    layers = range(model.cfg.n_layers)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    scores = [f"blocks.{layer}.attn.hook_attn_scores" for layer in layers]
    require_hooks(model, *hooks, *scores)
    patterns, masks = list[Tensor](), list[Tensor]()
    for some in tokens.split(batch_size):
        _, cache = model.run_with_cache(some, names_filter=[*hooks, *scores])
        may, *others = (_unmasked(model, cache[name]) for name in scores)
        if any((other != may).any() for other in others):
            raise ValueError(
                f"the layers of {type(model).__name__} have different masks, such as sliding "
                "windows in some of them: this lens knows one mask for all layers"
            )
        patterns.append(torch.stack([cache[hook] for hook in hooks]).cpu())
        masks.append(may.cpu())
    return torch.cat(patterns, dim=1), torch.cat(masks)


def _unmasked(
    model: HookedModel, scores: Float[Tensor, "word head query key"]
) -> Bool[Tensor, "word query key"]:
    """Where the mask lets a query see a key: masked scores are -inf or the lowest number."""
    may = scores[:, 0] > torch.finfo(scores.dtype).min / 2
    # Not every model's scores say what is masked.
    return may.tril() if model.cfg.attention_dir == "causal" else may


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
