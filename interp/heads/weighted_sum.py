"""An LSTM as a weighted sum of its inputs, and so something like attention (Levy et al. 2018).

A cell is c_t = f_t * c_{t-1} + i_t * c~_t. Written out it is a sum over all positions so far,

    c_t = sum_j w_tj * c~_j,   w_tj = i_j * f_{j+1} * ... * f_t,

unit by unit. The weights are positive, but they need not sum to 1, and i, f and c~ also depend on
the states before them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp.model import (
    HookedModel,
    ReadableModel,
    activations,
    is_readable,
    require,
    require_hooks,
)


@torch.no_grad()
def weights_and_candidates(
    model: ReadableModel, tokens: Int[Tensor, "batch pos"], layer: int
) -> tuple[Float[Tensor, "batch pos_t pos_j d_model"], Float[Tensor, "batch pos_j d_model"]]:
    """The weights w_tj of each unit, 0 where j is after t, and the candidates c~_j.

    Their product, summed over j, is what ``hook_cell`` holds, if the layer starts from zeros.

    Args:
        layer: an LSTM in ``blocks[layer].rnn``, with the hooks ``hook_resid_pre`` (what it reads)
            and ``hook_resid_post`` (its hidden states).

    Raises:
        ValueError: the layer is no LSTM, or lacks a hook.
    """
    require(model, ReadableModel)
    if not _is_lstm(model, layer):
        raise ValueError(f"layer {layer} of {type(model).__name__} is no LSTM: ask one that is")
    names = [f"blocks.{layer}.hook_resid_{at}" for at in ("pre", "post")]
    require_hooks(model, *names)
    _, cache = model.run_with_cache(tokens, names_filter=names)
    x, h = (cache[name] for name in names)
    before = nn.functional.pad(h, (0, 0, 1, 0))[:, :-1]
    w_x, w_h, *biases = model.blocks[layer].rnn.parameters()
    gates = x @ w_x.T + before @ w_h.T + sum(biases)
    i, f, candidate, _ = gates.chunk(4, dim=-1)
    kept = nn.functional.logsigmoid(f).cumsum(dim=1)  # log of f_0 * ... * f_t
    rows = kept[:, :, None] - kept[:, None] + nn.functional.logsigmoid(i)[:, None]
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    return rows.masked_fill(future[..., None], -torch.inf).exp(), candidate.tanh()


def is_a_sum(model: HookedModel, tokens: Int[Tensor, "batch pos"], layer: int) -> bool:
    """Are the cells of this layer that weighted sum? Not if it is no LSTM, nor if it goes on from
    another layer's state, as a decoder goes on from its encoder's."""
    name = f"blocks.{layer}.hook_cell"
    if not is_readable(model) or name not in model.hook_dict:
        return False
    weights, candidates = weights_and_candidates(model, tokens, layer)
    cells = activations(model, tokens, [name])[name].to(weights)
    return torch.allclose((weights * candidates[:, None]).sum(dim=2), cells, atol=1e-4)


def _is_lstm(model: ReadableModel, layer: int) -> bool:
    return isinstance(getattr(model.blocks[layer], "rnn", None), nn.LSTM)
