"""QK and OV circuits: a head by its weights alone (Elhage et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from interp.heads.norms import norms_to_logits, without_scale
from interp.model import CircuitModel, HookedModel, activations, require, require_hooks
from interp.weights import head_projection, of_each_head

EMBEDDING = "hook_embed"


def has_rotary_positions(model: HookedModel) -> bool:
    """Do positions turn queries and keys? Then a score depends on their distance."""
    return getattr(model.cfg, "positional_embedding_type", None) == "rotary"


@torch.no_grad()
def qk_circuit(
    model: CircuitModel, layer: int, head: int, distance: int | None = None
) -> Float[Tensor, "d_vocab_query d_vocab_key"]:
    """The score that a query token gives a key token by their embeddings alone.

    The head reads each embedding as if the stream held nothing else, through its norm, with biases
    and scale: norm(e_q) W_Q (norm(e_k) W_K)^T / sqrt(d_head) (Elhage et al. 2021). With grouped
    queries W_K is that of the head's group. A model with dot or additive scores uses those. In the
    first layer these are the model's own scores, except for what positions add.

    Rotary positions do not add to a score: they turn queries and keys. Then W_Q and W_K alone say
    nothing of a score. There the model itself computes it, for one distance.

    Args:
        distance: number of positions that the key stands before the query. Rotary positions need
            it, and with it the model computes the scores: everything that positions do at this
            distance is in them. This takes a forward pass per query token.

    Returns:
        Scores before the softmax: a larger one draws more attention.

    Raises:
        ValueError: the model is no ``CircuitModel`` or has no residual stream; or it has rotary
            positions and no distance is given; or its scores are not those of W_Q and W_K, as with
            norms of queries and keys.
    """
    require(model, CircuitModel)
    attention, x = model.blocks[layer].attn, _read(model, layer)
    (q, k) = (_projected(model, layer, head, name, x) for name in ("Q", "K"))
    if distance is not None:
        return _scores_at(model, layer, head, q, k, distance).cpu()
    if has_rotary_positions(model):
        raise ValueError(
            f"{type(model).__name__} has rotary positions: a score depends on how far the key "
            "stands from the query, not on W_Q and W_K alone: give the distance"
        )
    _require_own_scores(model, layer, head)
    return _scores(attention, head, q, k).cpu()


@torch.no_grad()
def ov_circuit(
    model: CircuitModel, layer: int, head: int
) -> Float[Tensor, "d_vocab_source d_vocab_out"]:
    """The direct effect of full attention to a source token on each logit, by its embedding alone.

    The head reads the embedding as in ``qk_circuit``: (norm(e) W_V + b_V) W_O W_U (Elhage et al.
    2021). With grouped queries W_V is that of the head's group. A head that counts reads its values
    as steps. The norms on the way to the logits enter with their centring and gain. Their scale,
    and that of a head norm, depends on the rest of the word and is left out. So values can be
    compared within a head, but not between heads with a norm of their own, nor between layers.

    Returns:
        What is added to each logit, without these scales; positive raises the logit.

    Raises:
        ValueError: the model is no ``CircuitModel`` or has no residual stream.
    """
    require(model, CircuitModel)
    attention, x = model.blocks[layer].attn, _read(model, layer)
    steps = getattr(attention, "values", None)
    if steps is None:
        v = _projected(model, layer, head, "V", x)
    else:  # steps of all heads, which are told apart by their number
        heads = range(model.cfg.n_heads)
        v = torch.stack([_projected(model, layer, h, "V", x) for h in heads], dim=1)
        v = steps(v)[:, head]
    written = v @ attention.W_O[head]
    for name in norms_to_logits(model, layer, "attn") or []:
        written = without_scale(model.get_submodule(name), written)
    return (written @ model.W_U).cpu()


def _read(model: CircuitModel, layer: int) -> Float[Tensor, "d_vocab d_model"]:
    """The input of a layer's attention if the stream holds one token's embedding alone."""
    on_the_stream = norms_to_logits(model, layer, "embed")
    if on_the_stream is None:
        raise ValueError(
            f"{type(model).__name__} has no residual stream that carries an embedding to the heads "
            "of every layer: look at the attention of whole words"
        )
    tokens = torch.arange(len(model.W_E), device=model.W_E.device)
    embed = activations(model, tokens[:, None], [EMBEDDING])[EMBEDDING]  # some models scale W_E
    x = embed.to(model.W_E).movedim(0, 1)
    for name in on_the_stream:  # those of post-norm blocks before this one
        if name not in (norms_to_logits(model, layer, "attn") or []):
            x = model.get_submodule(name)(x)
    norm = f"blocks.{layer}.ln1"
    plain = norm in on_the_stream or not hasattr(model.blocks[layer], "ln1")
    return (x if plain else model.get_submodule(norm)(x))[0]


def _projected(
    model: CircuitModel, layer: int, head: int, name: str, x: Float[Tensor, "token d_model"]
) -> Float[Tensor, "token d_head"]:
    weight, bias = head_projection(model.blocks[layer].attn, name, head, model.cfg.n_heads)
    return x @ weight + bias


def _scores(
    attention: object, head: int, q: Float[Tensor, "*a query d"], k: Float[Tensor, "*a key d"]
) -> Float[Tensor, "*a query key"]:
    w = getattr(attention, "W_score", None)
    if w is not None:
        return (q[..., :, None, :] + k[..., None, :, :]).tanh() @ w[head].to(q)
    plain = getattr(attention, "scores", None) == "dot"
    return q @ k.transpose(-1, -2) * (1.0 if plain else q.shape[-1] ** -0.5)


def _scores_at(
    model: CircuitModel,
    layer: int,
    head: int,
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    distance: int,
) -> Float[Tensor, "query key"]:
    """The model's own scores of given queries and keys, the key ``distance`` positions before."""
    name = f"blocks.{layer}.attn.hook_"
    require_hooks(model, *(name + hook for hook in ("q", "k", "attn_scores")))
    tokens = torch.zeros(len(k), distance + 1, dtype=torch.long, device=k.device)
    rows: list[Tensor] = []

    def at(position: int, x: Tensor) -> Callable[..., Tensor]:
        def put(old: Tensor, hook: object) -> Tensor:
            new = old.clone()
            new[:, position] = x[:, None]  # in all heads: the others are not read
            return new

        return put

    def keep(scores: Tensor, hook: object) -> None:
        rows.append(scores[:, head, -1, 0])

    for query in q:
        hooks = [(name + "q", at(-1, query.expand(len(k), -1))), (name + "k", at(0, k))]
        model.run_with_hooks(tokens, fwd_hooks=[*hooks, (name + "attn_scores", keep)])
    return torch.stack(rows)


def _require_own_scores(model: CircuitModel, layer: int, head: int) -> None:
    """Raises ValueError if the model does not score as ``_scores`` does.

    Positions may add to a score whatever depends on them alone. Two short words have the same
    positions: so the difference of the logarithms of their patterns is that of their scores, but
    for a number per query.
    """
    name, word = f"blocks.{layer}.attn.hook_", torch.arange(4, device=model.W_E.device)
    tokens = torch.stack([word % model.cfg.d_vocab, (word + 1) % model.cfg.d_vocab])
    hooks = [name + hook for hook in ("q", "k", "pattern")]
    require_hooks(model, *hooks)
    _, cache = model.run_with_cache(tokens, names_filter=hooks)
    q, k, pattern = (cache[hook].double() for hook in hooks)
    k = of_each_head(k, model.cfg.n_heads, dim=2)
    log = pattern[:, head].log()
    ours = _scores(model.blocks[layer].attn, head, q[:, :, head], k[:, :, head])
    missed = (log - ours).diff(dim=0)[0]  # [query, key]
    mask = (pattern[:, head] > 1e-4).all(dim=0)  # masked, or too small for its logarithm to tell
    mean = torch.where(mask, missed, 0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    far = torch.where(mask, missed - mean[:, None], 0).abs().max()
    if far > 1e-3:
        raise ValueError(
            f"layer {layer} of {type(model).__name__} does not score by W_Q and W_K alone (it may "
            "scale, cap or normalise): give a distance, and the model itself computes the scores"
        )
