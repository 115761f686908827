"""Multi-head attention with TransformerLens' hook points."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformer_lens.hook_points import HookPoint

from models.config import ModelConfig
from models.hooks import listened


def bias_of(linear: nn.Linear) -> Float[Tensor, " d_out"]:
    """The bias of a linear map; zeros where it has none."""
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias


class Attention(nn.Module):
    """Causal attention: softmax(q k^T / sqrt(d_head)) v, the heads summed through W_O.

    Hooks: ``hook_q, hook_k, hook_v, hook_z`` [batch, pos, head, d_head]; ``hook_attn_scores``
    (masked entries -inf) and ``hook_pattern`` [batch, head, query, key]; ``hook_result``
    [batch, pos, head, d_model], each head's share of the output, without the output bias. Scores,
    pattern and result are only computed when listened to; otherwise PyTorch's fused path runs.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.d_head = config.n_heads, config.d_head
        self.q = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.k = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.v = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.o = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.hook_q = HookPoint()
        self.hook_k = HookPoint()
        self.hook_v = HookPoint()
        self.hook_attn_scores = HookPoint()
        self.hook_pattern = HookPoint()
        self.hook_z = HookPoint()
        self.hook_result = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        heads = (*x.shape[:2], self.n_heads, self.d_head)
        q = self.hook_q(self.q(x).view(heads)).transpose(1, 2)  # [batch, head, pos, d_head]
        k = self.hook_k(self.k(x).view(heads)).transpose(1, 2)
        v = self.hook_v(self.v(x).view(heads)).transpose(1, 2)
        if listened(self.hook_attn_scores, self.hook_pattern):
            z = self._pattern(q, k) @ v
        else:
            z = scaled_dot_product_attention(q, k, v, is_causal=True)
        z = self.hook_z(z.transpose(1, 2))
        if listened(self.hook_result):
            return self.hook_result(torch.einsum("bphd,hdm->bphm", z, self.W_O)).sum(2) + self.b_O
        return self.o(z.reshape(x.shape))

    def _pattern(
        self, q: Float[Tensor, "batch head pos d_head"], k: Float[Tensor, "batch head pos d_head"]
    ) -> Float[Tensor, "batch head pos pos"]:
        scores = q @ k.transpose(-1, -2) / self.d_head**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, float("-inf")))
        return self.hook_pattern(scores.softmax(dim=-1))

    # -- the weights in TransformerLens' shapes ---------------------------------------------------

    def _split(self, weight: Tensor) -> Float[Tensor, "head d_model d_head"]:
        return weight.view(self.n_heads, self.d_head, -1).transpose(1, 2)

    @property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.q.weight)

    @property
    def W_K(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.k.weight)

    @property
    def W_V(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.v.weight)

    @property
    def W_O(self) -> Float[Tensor, "head d_head d_model"]:
        return self.o.weight.T.reshape(self.n_heads, self.d_head, -1)

    @property
    def b_Q(self) -> Float[Tensor, "head d_head"]:
        return bias_of(self.q).view(self.n_heads, self.d_head)

    @property
    def b_K(self) -> Float[Tensor, "head d_head"]:
        return bias_of(self.k).view(self.n_heads, self.d_head)

    @property
    def b_V(self) -> Float[Tensor, "head d_head"]:
        return bias_of(self.v).view(self.n_heads, self.d_head)

    @property
    def b_O(self) -> Float[Tensor, " d_model"]:
        return bias_of(self.o)
