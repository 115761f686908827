"""Multi-head attention with TransformerLens' hook points: one module for every score and mask."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformer_lens.hook_points import HookPoint

from models.hooks import listened
from models.model_config import ModelConfig
from models.transformer.linear import features, linear_attention
from models.transformer.masks import masked_softmax
from models.transformer.norm import Norm
from models.transformer.positions import rotate
from models.transformer.relations import CAUSAL, KeysValues, Relations

ADDITIVE_AT_ONCE = 2**25  # the most numbers inside tanh that are held in memory together


def bias_of(linear: nn.Linear | _Slices) -> Float[Tensor, " d_out"]:
    """The bias of a linear map; zeros where it has none."""
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias


class _Slices(nn.Module):
    """Queries or keys without weights: the input itself, from which each head takes its slice.

    ``weight`` is the linear map that does the same, for what reads W_Q and W_K. It is not learned.

    Args:
        width: the width of all heads that compare, which take the last slices.
    """

    weight: Tensor
    bias = None

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.out_features = width
        self.register_buffer("weight", torch.eye(d_model)[d_model - width :], persistent=False)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos width"]:
        return x[..., x.shape[-1] - self.out_features :]


class Attention(nn.Module):
    """softmax(score(q, k)) v over the allowed keys; W_O maps the heads to the stream and sums them.

    Hooks: ``hook_q, hook_k, hook_v, hook_z`` [batch, pos, head, d_head]; with rotary positions also
    ``hook_rot_q, hook_rot_k``, the turned queries and keys; ``hook_attn_scores`` (masked entries
    -inf) and ``hook_pattern`` [batch, head, query, key]; ``hook_result`` [batch, pos, head,
    d_model], each head's share of the output, without the output bias. Values and z have a width of
    their own if the configuration gives one. With a norm of queries and keys its modules are
    ``q_norm`` and ``k_norm``, after ``hook_q`` and ``hook_k``. Dot-product scores, pattern and
    result are computed only if a hook listens to them; otherwise PyTorch's fused path runs. Linear
    scores then take a running sum, where it gives the same: in a whole word, or where every query
    reads the same keys. Elsewhere, as with dropout, all pairs are computed.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.d_value = config.n_heads, config.d_head, config.d_value
        self.scores, self.strict = config.scores, config.mask == "strictly_causal"
        self.alike, self.dropout = config.sees_ahead, nn.Dropout(config.dropout)
        learned = config.learned_heads
        inner, compared = config.n_heads * config.d_value, learned * config.d_head
        self.q: nn.Linear | _Slices
        self.k: nn.Linear | _Slices
        if config.scores == "identity":
            self.q = self.k = _Slices(config.d_model, compared)
        else:
            self.q = nn.Linear(config.d_model, compared, bias=config.bias)
            self.k = nn.Linear(config.d_model, compared, bias=config.bias)
        self.v = nn.Linear(config.d_model, inner, bias=config.bias)
        self.o = nn.Linear(inner, config.d_model, bias=config.bias)
        self.w_score: nn.Parameter | None = None
        if config.scores == "additive":
            self.w_score = nn.Parameter(torch.ones(learned, config.d_head))
        self.q_norm: Norm | None = None
        self.k_norm: Norm | None = None
        if config.qk_norm != "none":
            self.q_norm, self.k_norm = (
                Norm(config.qk_norm, config.d_head, config.eps, affine=True, bias=config.bias)
                for _ in "qk"
            )
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
        """The factor that q.k is multiplied by."""
        return self.d_head**-0.5 if self.scores in ("scaled_dot", "identity") else 1.0

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        relations: Relations = CAUSAL,
        memory: KeysValues | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """
        Args:
            relations: mask, bias and rotation; the queries are the positions of ``x``.
            memory: the keys and values to read, computed elsewhere; None computes them from ``x``.
                If it has fewer words than ``x``, the rows of ``x`` are copies of its batch, and
                every copy reads all of it.
        """
        q = self.normed(self.hook_q(self.heads(self.q(x))), self.q_norm)
        if relations.rotation is not None:
            q = self.hook_rot_q(rotate(q, *relations.rotation))
        q = q.transpose(1, 2)  # [batch, head, pos, d_head]
        k, v = self.keys_and_values(x, relations) if memory is None else memory
        copies = len(q) // len(k)
        if self._by_pairs(relations, memory):
            if copies > 1:
                k, v = k.repeat(copies, 1, 1, 1), v.repeat(copies, 1, 1, 1)
                relations = relations.copied(copies)
            z = self.dropout(self._pattern(q, k, relations)) @ v
        elif self.scores == "linear":
            z = self._summed(q, k, v, relations)
        elif copies > 1:
            # The queries of all copies are extra queries of one batch: k and v need no copy.
            queries = q.unflatten(0, (copies, -1)).permute(1, 2, 0, 3, 4).flatten(2, 3)
            z = self._fused(queries, k, v, relations.with_queries_of_copies(q, copies))
            z = z.unflatten(2, (copies, -1)).permute(2, 0, 1, 3, 4).flatten(0, 1)
        elif memory is not None:
            z = self._few(q, k, v, relations)
        else:
            z = self._fused(q, k, v, relations)
        z = self.hook_z(self.read(z.transpose(1, 2), relations))
        if listened(self.hook_result):
            return self.hook_result(torch.einsum("bphd,hdm->bphm", z, self.W_O)).sum(2) + self.b_O
        return self.o(z.reshape(*x.shape[:2], -1))

    def keys_and_values(
        self, x: Float[Tensor, "batch pos d_model"], relations: Relations
    ) -> KeysValues:
        """The keys and values of these positions."""
        k = self.normed(self.hook_k(self.heads(self.k(x))), self.k_norm)
        if relations.rotation is not None:
            k = self.hook_rot_k(rotate(k, *relations.rotation))
        v = self.hook_v(self.values(self.v(x).view(*k.shape[:3], self.d_value)))
        return k.transpose(1, 2), v.transpose(1, 2)

    def heads(
        self, x: Float[Tensor, "batch pos learned"]
    ) -> Float[Tensor, "batch pos head d_head"]:
        """Queries or keys, head by head."""
        return x.unflatten(-1, (-1, self.d_head))

    def normed(
        self, x: Float[Tensor, "batch pos head d_head"], norm: Norm | None
    ) -> Float[Tensor, "batch pos head d_head"]:
        """Queries or keys after their norm, where there is one."""
        return x if norm is None else norm(x)

    def values(self, v: Float[Tensor, "*any head d_value"]) -> Float[Tensor, "*any head d_value"]:
        """The values that the heads read, given x W_V + b_V; here unchanged."""
        return v

    def read(
        self, z: Float[Tensor, "batch pos head d_value"], relations: Relations
    ) -> Float[Tensor, "batch pos head d_value"]:
        """The input of W_O, given the mean of the values; here unchanged."""
        return z

    def _by_pairs(self, relations: Relations, memory: KeysValues | None) -> bool:
        """Are the scores of all pairs computed?"""
        if self.scores == "additive" or listened(self.hook_attn_scores, self.hook_pattern):
            return True
        if self.scores != "linear":
            return False
        whole = memory is None and (relations.may is None or self.strict)
        return not (whole or self.alike) or (self.training and self.dropout.p > 0)

    def _summed(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        """Linear scores by a running sum."""
        q, k = features(q), features(k)
        if not self.alike:
            return linear_attention(q, k, v, strict=self.strict)
        k = k * relations.mask(q)[:, :, 0, :, None]  # every query may attend to the same keys
        copies = len(q) // len(k)
        total = k.sum(dim=2, keepdim=True), k.transpose(-1, -2) @ v
        norm, sums = (part.repeat(copies, 1, 1, 1) for part in total)
        return q @ sums / (q * norm).sum(dim=-1, keepdim=True)

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        dropped = self.dropout.p if self.training else 0.0
        if relations.may is None and relations.bias is None:
            return scaled_dot_product_attention(
                q, k, v, dropout_p=dropped, is_causal=True, scale=self.scale
            )
        mask = relations.mask(q)
        empty = self._some_see_nothing(relations)
        if empty:  # a row without a key is NaN in some kernels, and so are its gradients
            alone = ~mask.any(dim=-1, keepdim=True)
            mask = mask | alone
        if relations.bias is not None:
            mask = relations.bias.to(q.dtype).masked_fill(~mask, float("-inf"))
        z = scaled_dot_product_attention(q, k, v, mask, dropout_p=dropped, scale=self.scale)
        return z.masked_fill(alone, 0.0) if empty else z

    def _some_see_nothing(self, relations: Relations) -> bool:
        return relations.empty or (self.strict and relations.first == 0)

    def _few(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        """Attention of a few queries to many keys; the fused path takes up to twice as long."""
        if q.shape[2] == 1 or q.device.type != "cpu" or self.training:
            return self._fused(q, k, v, relations)
        may = relations.mask(q)
        bias = torch.zeros(may.shape, dtype=q.dtype).masked_fill_(~may, float("-inf"))
        if relations.bias is not None:
            bias = bias + relations.bias
        scores = (q * self.scale) @ k.transpose(-1, -2)
        scores += bias
        if self._some_see_nothing(relations):
            return masked_softmax(scores, may) @ v
        return scores.softmax(dim=-1) @ v

    def _pattern(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        relations: Relations,
    ) -> Float[Tensor, "batch head query key"]:
        w = self.W_score
        if w is not None:
            scores = additive_scores(q, k, w)
        elif self.scores == "linear":
            scores = (features(q) @ features(k).transpose(-1, -2)).log()
        else:
            scores = q @ k.transpose(-1, -2) * self.scale
        if relations.bias is not None:
            scores = scores + relations.bias
        may = relations.mask(q)
        scores = self.hook_attn_scores(scores.masked_fill(~may, float("-inf")))
        return self.hook_pattern(masked_softmax(scores, may))

    # -- the weights in TransformerLens' shapes ---------------------------------------------------

    def split(self, weight: Tensor) -> Float[Tensor, "head d_model d_head"]:
        """The weight of queries or keys, head by head."""
        return weight.view(-1, self.d_head, weight.shape[1]).transpose(1, 2)

    @property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:
        return self.split(self.q.weight)

    @property
    def W_K(self) -> Float[Tensor, "head d_model d_head"]:
        return self.split(self.k.weight)

    @property
    def W_score(self) -> Float[Tensor, "head d_head"] | None:
        """The vector w of additive scores; None for other scores."""
        return self.w_score

    @property
    def W_V(self) -> Float[Tensor, "head d_model d_value"]:
        return self.v.weight.view(self.n_heads, self.d_value, -1).transpose(1, 2)

    @property
    def W_O(self) -> Float[Tensor, "head d_value d_model"]:
        return self.o.weight.T.reshape(self.n_heads, self.d_value, -1)

    @property
    def b_Q(self) -> Float[Tensor, "head d_head"]:
        return self.heads(bias_of(self.q)[None, None])[0, 0]

    @property
    def b_K(self) -> Float[Tensor, "head d_head"]:
        return self.heads(bias_of(self.k)[None, None])[0, 0]

    @property
    def b_V(self) -> Float[Tensor, "head d_value"]:
        return bias_of(self.v).view(self.n_heads, self.d_value)

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

    The sums of every query with every key fill much memory, so they are made for some queries at a
    time.
    """
    rows = max(1, ADDITIVE_AT_ONCE // max(1, k.numel()))
    parts = [
        torch.einsum("bhqkd,hd->bhqk", (some[:, :, :, None] + k[:, :, None]).tanh(), w)
        for some in q.split(rows, dim=2)
    ]
    return torch.cat(parts, dim=2)
