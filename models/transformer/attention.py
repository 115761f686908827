"""Multi-head attention with TransformerLens' hook points: one module for every score and mask."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformer_lens.hook_points import HookPoint

from models.config import ModelConfig
from models.hooks import listened
from models.transformer.masks import allowed, masked_softmax
from models.transformer.norm import Norm, Saturation
from models.transformer.positions import rotate

ADDITIVE_AT_ONCE = 2**25  # numbers inside tanh that are held in memory together
STEEPNESS = 32.0
"""Of a counter's steps: off their plateaus values would add up, so few may lie there."""


def bias_of(linear: nn.Linear) -> Float[Tensor, " d_out"]:
    """The bias of a linear map; zeros where it has none."""
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias


def steps(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """-1, 0 or 1, from -1/2 and from 1/2 on, by slopes that a gradient can climb."""
    return (torch.tanh(STEEPNESS * (x - 0.5)) + torch.tanh(STEEPNESS * (x + 0.5))) / 2


@dataclass(frozen=True)
class Relations:
    """What attention is told about the positions of a batch; the same in every layer.

    Attributes:
        may: True where a query may attend to a key; None says causal, and that padding comes last.
        bias: added to the scores of every head, or None.
        rotation: cosine and sine by which queries and keys turn, or None.
        first: the position of the first query.
    """

    may: Bool[Tensor, "#batch 1 query key"] | None = None
    bias: Float[Tensor, "head query key"] | None = None
    rotation: tuple[Float[Tensor, "pos 1 d_head"], Float[Tensor, "pos 1 d_head"]] | None = None
    first: int = 0

    def rows(self, first: int, last: int, positions: int, device: torch.device) -> Relations:
        """For the queries first .. last - 1; keys are all positions, as ever."""
        if (first, last) == (0, positions):
            return self
        may = self.may
        if may is None:
            may = allowed("causal", positions)[:, None].to(device)
        return Relations(
            may[..., first:last, :],
            None if self.bias is None else self.bias[:, first:last],
            self.rotation and (self.rotation[0][first:last], self.rotation[1][first:last]),
            first,
        )

    def until(self, keys: int) -> Relations:
        """Where only so many keys exist yet."""
        may = None if self.may is None else self.may[..., :keys]
        bias = None if self.bias is None else self.bias[..., :keys]
        return replace(self, may=may, bias=bias)

    def mask(
        self, q: Float[Tensor, "batch head query d_head"]
    ) -> Bool[Tensor, "words 1 query key"]:
        """``may``, written out where it is causal."""
        if self.may is not None:
            return self.may
        return allowed("causal", q.shape[2])[:, None].to(q.device)

    def copied(self, copies: int) -> Relations:
        """For copies of the batch."""
        if self.may is None or len(self.may) == 1:
            return self
        return replace(self, may=self.may.repeat(copies, 1, 1, 1))

    def keys(
        self, z: Float[Tensor, "batch query head d_head"]
    ) -> Float[Tensor, "#batch query 1 1"]:
        """How many keys each query of as many words as ``z`` has may attend to."""
        if self.may is None:
            return torch.arange(1, z.shape[1] + 1, device=z.device).to(z)[None, :, None, None]
        keys = self.may.sum(dim=-1).to(z)[:, 0, :, None, None]
        return keys if len(keys) == 1 else keys.repeat(len(z) // len(keys), 1, 1, 1)

    def asked(self, q: Float[Tensor, "batch head query d_head"], copies: int) -> Relations:
        """For copies of the queries as more queries of the same words."""
        bias = None if self.bias is None else self.bias.repeat(1, copies, 1)
        return replace(self, may=self.mask(q).repeat(1, 1, copies, 1), bias=bias)


CAUSAL = Relations()

KeysValues = tuple[Tensor, Tensor]
"""Keys, turned where positions are rotary, and values; each [batch, head, pos, d_head]."""


class Attention(nn.Module):
    """softmax(score(q, k)) v over the allowed keys, the heads summed through W_O.

    Hooks: ``hook_q, hook_k, hook_v, hook_z`` [batch, pos, head, d_head], and with rotary positions
    ``hook_rot_q, hook_rot_k``, the turned ones; ``hook_attn_scores`` (masked entries -inf) and
    ``hook_pattern`` [batch, head, query, key]; ``hook_result`` [batch, pos, head, d_model], each
    head's share of the output, without the output bias. Scores of a dot product, pattern and result
    are only computed when listened to; otherwise PyTorch's fused path runs.

    The queries and keys of averaging heads are zeros, in which no score differs. With a head norm
    ``norm_z`` has the hooks of a norm, [batch, pos, head, 1 or d_head], and ``hook_z`` is after it;
    so with counters, whose values ``hook_v`` hears as steps.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.d_head = config.n_heads, config.d_head
        self.scores, self.strict = config.scores, config.mask == "strictly_causal"
        self.averaging = config.averaging_heads
        learned = config.n_heads - config.averaging_heads
        inner = config.n_heads * config.d_head
        self.q = nn.Linear(config.d_model, learned * config.d_head, bias=config.bias)
        self.k = nn.Linear(config.d_model, learned * config.d_head, bias=config.bias)
        self.v = nn.Linear(config.d_model, inner, bias=config.bias)
        self.o = nn.Linear(inner, config.d_model, bias=config.bias)
        self.w_score: nn.Parameter | None = None
        if config.scores == "additive":
            self.w_score = nn.Parameter(torch.ones(learned, config.d_head))
        self.counters = config.counters
        self.norm_z: Norm | Saturation | None = None
        if config.head_norm:
            self.norm_z = Norm("rms", config.d_head, config.eps, affine=False)
        elif config.counters:
            self.norm_z = Saturation(config.averaging_heads)
        self.hook_q = HookPoint()
        self.hook_k = HookPoint()
        self.hook_v = HookPoint()
        if config.positions == "rotary":
            self.hook_rot_q = HookPoint()
            self.hook_rot_k = HookPoint()
        self.hook_attn_scores = HookPoint()
        self.hook_pattern = HookPoint()
        self.hook_z = HookPoint()
        self.hook_result = HookPoint()

    @property
    def scale(self) -> float:
        """What q.k is multiplied by."""
        return self.d_head**-0.5 if self.scores == "scaled_dot" else 1.0

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        relations: Relations = CAUSAL,
        memory: KeysValues | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """
        Args:
            relations: its queries are the positions of ``x``.
            memory: what is read, where this is not ``x`` alone; its own are then not computed. Of
                fewer words than ``x`` has, all rows of ``x`` being copies of their batch, it is
                read by all copies.
        """
        q = self.hook_q(self._looks(self.q(x)))
        if relations.rotation is not None:
            q = self.hook_rot_q(rotate(q, *relations.rotation))
        q = q.transpose(1, 2)  # [batch, head, pos, d_head]
        k, v = self.keys_and_values(x, relations) if memory is None else memory
        copies = len(q) // len(k)
        if self.scores == "additive" or listened(self.hook_attn_scores, self.hook_pattern):
            if copies > 1:
                k, v = k.repeat(copies, 1, 1, 1), v.repeat(copies, 1, 1, 1)
                relations = relations.copied(copies)
            z = self._pattern(q, k, relations) @ v
        elif copies > 1:
            # The copies ask as more queries of one word: nothing that they read is copied.
            asked = q.unflatten(0, (copies, -1)).permute(1, 2, 0, 3, 4).flatten(2, 3)
            z = self._fused(asked, k, v, relations.asked(q, copies))
            z = z.unflatten(2, (copies, -1)).permute(2, 0, 1, 3, 4).flatten(0, 1)
        elif memory is not None:
            z = self._some(q, k, v, relations)
        else:
            z = self._fused(q, k, v, relations)
        z = self.hook_z(self._normed(z.transpose(1, 2), relations))
        if listened(self.hook_result):
            return self.hook_result(torch.einsum("bphd,hdm->bphm", z, self.W_O)).sum(2) + self.b_O
        return self.o(z.reshape(*x.shape[:2], -1))

    def keys_and_values(
        self, x: Float[Tensor, "batch pos d_model"], relations: Relations
    ) -> KeysValues:
        """What these positions give to be read."""
        k = self.hook_k(self._looks(self.k(x)))
        if relations.rotation is not None:
            k = self.hook_rot_k(rotate(k, *relations.rotation))
        v = self.hook_v(self.values(self.v(x).view(k.shape)))
        return k.transpose(1, 2), v.transpose(1, 2)

    def values(self, v: Float[Tensor, "*any head d_head"]) -> Float[Tensor, "*any head d_head"]:
        """What is read of x W_V + b_V: the same, but in heads that count its steps."""
        if not self.counters:
            return v
        counted, others = v.split([self.averaging, self.n_heads - self.averaging], dim=-2)
        return torch.cat([steps(counted), others], dim=-2)

    def _normed(
        self, z: Float[Tensor, "batch pos head d_head"], relations: Relations
    ) -> Float[Tensor, "batch pos head d_head"]:
        if isinstance(self.norm_z, Saturation):
            return self.norm_z(z, relations.keys(z))
        return z if self.norm_z is None else self.norm_z(z)

    def _looks(
        self, x: Float[Tensor, "batch pos learned"]
    ) -> Float[Tensor, "batch pos head d_head"]:
        """Queries or keys of all heads, from those that are learned."""
        heads = x.view(*x.shape[:2], self.n_heads - self.averaging, self.d_head)
        return pad(heads, (0, 0, self.averaging, 0)) if self.averaging else heads

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        if relations.may is None and relations.bias is None:
            return scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        mask = relations.mask(q)
        empty = self.strict and relations.first == 0
        if empty:  # a row without a key is NaN in some kernels, and so are its gradients
            alone = ~mask.any(dim=-1, keepdim=True)
            mask = mask | alone
        if relations.bias is not None:
            mask = relations.bias.to(q.dtype).masked_fill(~mask, float("-inf"))
        z = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return z.masked_fill(alone, 0.0) if empty else z

    def _some(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        """Some queries to many memories: PyTorch's fused path takes up to twice as long there."""
        if q.shape[2] == 1 or q.device.type != "cpu":
            return self._fused(q, k, v, relations)
        may = relations.mask(q)
        bias = torch.zeros(may.shape, dtype=q.dtype).masked_fill_(~may, float("-inf"))
        if relations.bias is not None:
            bias = bias + relations.bias
        scores = (q * self.scale) @ k.transpose(-1, -2)
        scores += bias
        if self.strict and relations.first == 0:
            return masked_softmax(scores, may) @ v
        return scores.softmax(dim=-1) @ v

    def _pattern(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        relations: Relations,
    ) -> Float[Tensor, "batch head query key"]:
        w = self.W_score
        scores = q @ k.transpose(-1, -2) * self.scale if w is None else additive_scores(q, k, w)
        if relations.bias is not None:
            scores = scores + relations.bias
        may = relations.mask(q)
        scores = self.hook_attn_scores(scores.masked_fill(~may, float("-inf")))
        return self.hook_pattern(masked_softmax(scores, may))

    # -- the weights in TransformerLens' shapes ---------------------------------------------------

    def _split(self, weight: Tensor) -> Float[Tensor, "head d_model d_head"]:
        heads = weight.view(-1, self.d_head, weight.shape[1]).transpose(1, 2)
        missing = self.n_heads - len(heads)
        return pad(heads, (0, 0, 0, 0, missing, 0)) if missing else heads

    @property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.q.weight)

    @property
    def W_K(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.k.weight)

    @property
    def W_score(self) -> Float[Tensor, "head d_head"] | None:
        """Of additive scores."""
        if self.w_score is None or not self.averaging:
            return self.w_score
        return pad(self.w_score, (0, 0, self.averaging, 0))

    @property
    def W_V(self) -> Float[Tensor, "head d_model d_head"]:
        return self._split(self.v.weight)

    @property
    def W_O(self) -> Float[Tensor, "head d_head d_model"]:
        return self.o.weight.T.reshape(self.n_heads, self.d_head, -1)

    @property
    def b_Q(self) -> Float[Tensor, "head d_head"]:
        return self._looks(bias_of(self.q)[None, None])[0, 0]

    @property
    def b_K(self) -> Float[Tensor, "head d_head"]:
        return self._looks(bias_of(self.k)[None, None])[0, 0]

    @property
    def b_V(self) -> Float[Tensor, "head d_head"]:
        return bias_of(self.v).view(self.n_heads, self.d_head)

    @property
    def b_O(self) -> Float[Tensor, " d_model"]:
        return bias_of(self.o)


def additive_scores(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    w: Float[Tensor, "head d_head"],
) -> Float[Tensor, "batch head query key"]:
    """w.tanh(q + k) per head (Bahdanau et al. 2015); q = W_q x_i and k = W_k x_j are projections
    already.

    The sum of every query with every key is large, so it is made for some queries at a time.
    """
    rows = max(1, ADDITIVE_AT_ONCE // max(1, k.numel()))
    parts = [
        torch.einsum("bhqkd,hd->bhqk", (some[:, :, :, None] + k[:, :, None]).tanh(), w)
        for some in q.split(rows, dim=2)
    ]
    return torch.cat(parts, dim=2)
