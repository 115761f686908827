"""Where heads look: patterns, what kind of head each is, and attention through all layers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from scipy.stats import rankdata
from torch import Tensor

from interp.causal.metrics import Metric
from interp.causal.patching import patch
from interp.model import HookedModel, activations

TYPES = ("previous symbol", "BOS", "same symbol", "first of its block", "induction", "uniform")


def attention(
    model: HookedModel, tokens: Int[Tensor, "word pos"]
) -> tuple[Float[Tensor, "layer word head query key"], Bool[Tensor, "word query key"]]:
    """The pattern of every head, and which keys the mask lets a query see."""
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

    Returns:
        One row per layer, head, query and key that the query may attend to (under a causal mask
        key <= query): layer, head, query, key, attention.
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


# -- what kind of head ----------------------------------------------------------------------------


def head_types(
    model: HookedModel, tokens: Int[Tensor, "word pos"], mask: Bool[Tensor, "word pos"]
) -> pd.DataFrame:
    """How much each head is of each of the ``TYPES``, on real words.

    The score of a type that looks at certain keys (``type_keys``) is the attention on them, a mean
    over the queries that see one. "uniform" is 1 less the total variation distance between the
    row and the even average over the keys that the query sees, a mean over the queries that see two
    or more. The queries are the word's symbols.

    Args:
        mask: True on BOS and the word, False on padding.

    Returns:
        One row per layer, head, word and type: layer, head, word, type, score, uniform (the score
        of attention that is even), queries (how many it is a mean over; with none, both are NaN).
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


def type_keys(tokens: Int[Tensor, "word pos"]) -> dict[str, Bool[Tensor, "word query key"]]:
    """The keys that a head of each type looks at; a query's own position is never among them.

    "previous symbol": the position before; "BOS"; "same symbol": all with the query's symbol;
    "first of its block": the first of the run of equal symbols that the query is in; "induction":
    what came after an earlier occurrence of the query's symbol (Olsson et al. 2022).
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


# -- attention through all layers -----------------------------------------------------------------

FLOW_UNIT = 2**24
"""Capacities are integers: a whole row of attention is divided so finely."""


def rollout(pattern: Float[Tensor, "layer head query key"]) -> Float[Tensor, "query key"]:
    """How much of each input position is mixed into each output (Abnar & Zuidema 2020).

    A layer passes on half of what a position holds and half of what it attends to, the heads
    averaged; the layers are multiplied. Rows sum to 1.
    """
    reached = torch.eye(pattern.shape[-1], dtype=pattern.dtype)
    for passed in _with_residual(pattern):
        reached = passed @ reached
    return reached


def flow(pattern: Float[Tensor, "layer head query key"], at: int) -> Float[np.ndarray, " key"]:
    """The largest flow from each input position to position ``at`` of the last layer.

    The layers of ``rollout`` are the capacities of a network of positions (Abnar & Zuidema 2020).
    At most 1; unlike rollout's rows these do not sum to 1, each being a flow of its own.
    """
    layers, positions = len(pattern), pattern.shape[-1]
    layer, query, key = np.nonzero((passed := _with_residual(pattern).numpy()) > 0)
    capacity = np.rint(passed[layer, query, key] * FLOW_UNIT).astype(np.int32)
    ends = ((layer + 1) * positions + query, layer * positions + key)
    nodes = (layers + 1) * positions
    network = csr_array((capacity, ends), shape=(nodes, nodes))
    source = layers * positions + at
    flows = [maximum_flow(network, source, sink).flow_value for sink in range(positions)]
    return np.array(flows) / FLOW_UNIT


def _with_residual(
    pattern: Float[Tensor, "layer head query key"],
) -> Float[Tensor, "layer query key"]:
    """Half attention, the heads averaged, half residual; a row without keys is all residual."""
    passed = pattern.mean(dim=1) + torch.eye(pattern.shape[-1], dtype=pattern.dtype)
    return passed / passed.sum(dim=-1, keepdim=True)


# -- does a head look where it matters? -----------------------------------------------------------


def attention_and_effect(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    changed: Int[Tensor, "pair pos"],
    metric: Metric,
    at: int,
) -> pd.DataFrame:
    """Where the readout looks, beside what matters to it.

    The effect of a position through a head is that of the head's value there: it is replaced by its
    value in a changed word, and the effect is the absolute change of the metric, a mean over the
    changed words. For rollout and flow, the embedding of the position is replaced.

    Args:
        changed: the word with some symbols replaced; a position that none of them replaces cannot
            show that it matters in the first layer.
        metric: of one word; it is read at ``at``, whose attention is looked at.

    Returns:
        One row per part and symbol: part ("L0H1", "rollout", "flow"), layer and head (-1 for the
        two), position (from 1: nothing replaces BOS), attention (0 to 1), effect (>= 0, in the
        metric's unit).
    """
    pattern = attention(model, word[None])[0][:, 0]
    places = ["component", "layer", "head", "position"]
    table = patch(model, changed, word.expand_as(changed), metric, ["v", "resid_pre"])
    table["effect"] = (table["patched"] - table["corrupted"]).abs()
    effect = table.groupby(places)["effect"].mean()
    layers, heads = pattern.shape[:2]
    looks = {
        (f"L{layer}H{head}", "v", layer, head): pattern[layer, head, at].numpy()
        for layer in range(layers)
        for head in range(heads)
    }
    looks["rollout", "resid_pre", 0, -1] = rollout(pattern)[at].numpy()
    looks["flow", "resid_pre", 0, -1] = flow(pattern, at)
    positions = np.arange(1, len(word))
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "part": part,
                    "layer": -1 if head < 0 else layer,
                    "head": head,
                    "position": positions,
                    "attention": row[1:],
                    "effect": effect[component, layer, head][positions].to_numpy(),
                }
            )
            for (part, component, layer, head), row in looks.items()
        ],
        ignore_index=True,
    )


def rank_correlation(x: Float[np.ndarray, " position"], y: Float[np.ndarray, " position"]) -> float:
    """Spearman's rank correlation; NaN where one side does not vary.

    What differs by less than 1e-5 of the largest value, float32's rounding, is a tie.
    """
    ranks = []
    for values in (x, y):
        largest = np.abs(values).max(initial=0.0)
        rounded = np.rint(values / largest * 1e5) if largest > 0 else np.zeros_like(values)
        if len(np.unique(rounded)) < 2:
            return float("nan")
        ranks.append(rankdata(rounded))
    return float(np.corrcoef(ranks)[0, 1])
