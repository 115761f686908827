"""Heads that count: what ``ModelConfig.counting`` turns on in attention.

The Transformer of the lectures has none of this. An averaging head has neither queries nor keys: it
attends equally to every position that it may see, and reads a mean over the word. In a mean, a
difference of two counts shrinks as the word grows. Three things keep the count. Embeddings that sum
to zero make equal counts cancel. A norm of what each head read keeps its direction. Values that are
steps (-1, 0 or 1) sum to a whole number, which can be read back from the mean.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad
from transformer_lens.hook_points import HookPoint

from models.choices import Counting
from models.errors import UserError
from models.hooks import HookRow, norm_rows
from models.model_config import ModelConfig
from models.transformer.attention import Attention
from models.transformer.norm import Norm
from models.transformer.relations import Relations

STEEPNESS = 32.0
"""The steepness of the slopes between a counter's steps. A value on a slope is no whole number, and
such errors would add up over a word. Few values lie on a steep slope."""

TOO_COARSE = (torch.bfloat16, torch.half)
"""Numbers of 8 and 11 bits. Rounded so, a mean over a few hundred symbols no longer tells one more
from one less."""


def attention(config: ModelConfig) -> Attention:
    """The attention of a block: that of the lectures, or one whose first heads count."""
    plain = config.counting.averaging_heads == 0 and not config.counting.head_norm
    return Attention(config) if plain else _CountingAttention(config)


class _CountingAttention(Attention):
    """Attention whose first heads average, and may count; with a norm of what each head read.

    The queries and keys of averaging heads are zeros, so that all their scores are equal. A head
    norm is the module ``norm_z``, with the hooks of a norm: ``hook_scale`` [batch, pos, head, 1]
    and ``hook_normalized`` [batch, pos, head, d_value]; ``hook_z`` hears what comes after it. With
    counters ``norm_z`` is a ``_Saturation``, and ``hook_v`` hears the values as steps.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        counting = config.counting
        self.averaging, self.counters = counting.averaging_heads, counting.counters
        self.norm_z: Norm | _Saturation | None = None
        if counting.head_norm:
            self.norm_z = Norm("rms", config.d_value, config.eps, affine=False)
        elif counting.counters:
            self.norm_z = _Saturation(counting.averaging_heads)

    def heads(
        self, x: Float[Tensor, "batch pos learned"]
    ) -> Float[Tensor, "batch pos head d_head"]:
        learned = super().heads(x)
        return pad(learned, (0, 0, self.averaging, 0)) if self.averaging else learned

    def normed(
        self, x: Float[Tensor, "batch pos head d_head"], norm: Norm | None
    ) -> Float[Tensor, "batch pos head d_head"]:
        normed = super().normed(x, norm)[:, :, self.averaging :]  # a norm's bias would be turned
        return pad(normed, (0, 0, self.averaging, 0))

    def values(self, v: Float[Tensor, "*any head d_value"]) -> Float[Tensor, "*any head d_value"]:
        """The values, given x W_V + b_V: steps in heads that count, else unchanged."""
        if v.dtype in TOO_COARSE:
            raise UserError(
                f"heads that count cannot use {v.dtype}, which rounds one symbol away: keep float32"
            )
        if not self.counters:
            return v
        counted, rest = v.split([self.averaging, self.n_heads - self.averaging], dim=-2)
        return torch.cat([_steps(counted), rest], dim=-2)

    def read(
        self, z: Float[Tensor, "batch pos head d_value"], relations: Relations
    ) -> Float[Tensor, "batch pos head d_value"]:
        if isinstance(self.norm_z, _Saturation):
            return self.norm_z(z, relations.keys(z))
        return z if self.norm_z is None else self.norm_z(z)

    def split(self, weight: Tensor) -> Float[Tensor, "head d_model d_head"]:
        learned = super().split(weight)
        missing = self.n_heads - len(learned)
        return pad(learned, (0, 0, 0, 0, missing, 0)) if missing else learned

    @property
    def W_score(self) -> Float[Tensor, "head d_head"] | None:
        if self.w_score is None or not self.averaging:
            return self.w_score
        return pad(self.w_score, (0, 0, self.averaging, 0))


class _Saturation(nn.Module):
    """z / sqrt(z^2 + 1/T^2) in the first heads; the other heads stay as they are.

    z is a mean of T values. With s = T z, the sum of these values, the formula is
    s / sqrt(1 + s^2), number by number.

    Hooks: those of a norm, both [batch, pos, head, d_value].
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hook_scale = HookPoint()
        self.hook_normalized = HookPoint()

    def forward(
        self,
        z: Float[Tensor, "batch pos head d_value"],
        keys: Float[Tensor, "#batch pos 1 1"],
    ) -> Float[Tensor, "batch pos head d_value"]:
        """
        Args:
            keys: T, the number of keys that each position attended to. Where T is 0, z is zero and
                stays so.
        """
        counted, rest = z[:, :, : self.heads], z[:, :, self.heads :]
        scale = (counted**2 + keys.clamp(min=1) ** -2).sqrt()
        scale = torch.cat([scale, torch.ones_like(rest)], dim=2)
        return self.hook_normalized(z / self.hook_scale(scale))


def _steps(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """-1 below -1/2, 0 between, 1 above 1/2; steep slopes join them, to give a gradient."""
    return (torch.tanh(STEEPNESS * (x - 0.5)) + torch.tanh(STEEPNESS * (x + 0.5))) / 2


def bias_of_all_heads(
    bias: Float[Tensor, "learned query key"] | None, counting: Counting
) -> Float[Tensor, "head query key"] | None:
    """The bias on the scores of all heads; it is zero for heads that average."""
    if bias is None or not counting.averaging_heads:
        return bias
    return pad(bias, (0, 0, 0, 0, counting.averaging_heads, 0))


def with_counting(rows: list[HookRow], counting: Counting) -> list[HookRow]:
    """The hook table of plain attention, with what counting adds."""
    table: list[HookRow] = []
    for row in rows:
        meaning = row.meaning
        if row.name.endswith("attn.hook_v") and counting.counters:
            meaning += f", -1, 0 or 1 in {counting.averaging_heads} of the heads"
        if row.name.endswith("attn.hook_z"):
            table += _norm_rows(row.name.replace("hook_z", "norm_z"), row.shape, counting)
            meaning += ", normed" * counting.head_norm
            meaning += "; in heads that count, the saturated sum" * counting.counters
        table.append(HookRow(row.name, row.shape, meaning))
    return table


def _norm_rows(name: str, shape: tuple[str, ...], counting: Counting) -> list[HookRow]:
    if counting.head_norm:
        return norm_rows(name, shape)
    if not counting.counters:
        return []
    return [
        HookRow(f"{name}.hook_scale", shape, "what z is divided by; 1 in heads that do not count"),
        HookRow(f"{name}.hook_normalized", shape, "the result"),
    ]
