"""QK and OV circuits: a head by its weights alone (Elhage et al. 2021)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from interp.heads.norms import norms_to_logits, without_scale
from interp.model import CircuitModel, require


@torch.no_grad()
def qk_circuit(
    model: CircuitModel, layer: int, head: int
) -> Float[Tensor, "d_vocab_query d_vocab_key"]:
    """The score that a query token gives a key token by their embeddings alone.

    The head reads each embedding as if the stream held nothing else, through its norm, with biases
    and scale: norm(e_q) W_Q (norm(e_k) W_K)^T / sqrt(d_head) (Elhage et al. 2021). A model with dot
    or additive scores uses those. In the first layer these are the model's own scores, except for
    what positions add.

    Returns:
        Scores before the softmax: a larger one draws more attention.

    Raises:
        ValueError: the model is no ``CircuitModel``.
    """
    require(model, CircuitModel)
    attention, x = model.blocks[layer].attn, _read(model, layer)
    q = x @ attention.W_Q[head] + attention.b_Q[head]
    k = x @ attention.W_K[head] + attention.b_K[head]
    w = getattr(attention, "W_score", None)
    if w is not None:
        return ((q[:, None] + k).tanh() @ w[head]).cpu()
    plain = getattr(attention, "scores", None) == "dot"
    return (q @ k.T * (1.0 if plain else q.shape[-1] ** -0.5)).cpu()


@torch.no_grad()
def ov_circuit(
    model: CircuitModel, layer: int, head: int
) -> Float[Tensor, "d_vocab_source d_vocab_out"]:
    """What attending fully to a source token adds to each logit directly, by its embedding alone.

    The head reads the embedding as in ``qk_circuit``: (norm(e) W_V + b_V) W_O W_U (Elhage et al.
    2021). A head that counts reads its values as steps. The norms on the way to the logits enter
    with their centring and gain. Their scale, and that of a head norm, depends on the rest of the
    word and is left out. So values can be compared within a head, but not between heads with a norm
    of their own, nor between layers.

    Returns:
        What is added to each logit, without these scales; positive raises the logit.

    Raises:
        ValueError: the model is no ``CircuitModel``.
    """
    require(model, CircuitModel)
    attention = model.blocks[layer].attn
    v = torch.einsum("td,hdk->thk", _read(model, layer), attention.W_V) + attention.b_V
    steps = getattr(attention, "values", None)
    written = (v if steps is None else steps(v))[:, head] @ attention.W_O[head]
    for name in norms_to_logits(model, layer, "attn"):
        written = without_scale(model.get_submodule(name), written)
    return (written @ model.W_U).cpu()


def _read(model: CircuitModel, layer: int) -> Float[Tensor, "d_vocab d_model"]:
    """What a layer's attention reads if the stream holds one token's embedding and nothing else."""
    x, on_the_stream = model.W_E[None], norms_to_logits(model, layer, "embed")
    for name in on_the_stream:  # those of post-norm blocks before this one
        if name not in norms_to_logits(model, layer, "attn"):
            x = model.get_submodule(name)(x)
    own = f"blocks.{layer}.ln1"
    return (x if own in on_the_stream else model.get_submodule(own)(x))[0]
