"""Normalisation over the width of the residual stream, with TransformerLens' hook points."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.choices import Norm as Kind
from models.choices import NormPlacement
from models.hooks import listened


class Norm(nn.Module):
    """LayerNorm (x - mean) / sigma, RMSNorm x / sqrt(mean(x^2)), or "none", which returns x.

    sigma is the population standard deviation; eps is added under the root. The result is then
    multiplied by gamma and beta is added. RMSNorm has no beta, "none" has neither.

    Hooks: ``hook_scale`` [batch, pos, 1] (what x is divided by), ``hook_normalized`` [batch, pos,
    d_model] (before gamma and beta, as in TransformerLens). If nobody listens to them, PyTorch's
    fused norm runs.
    """

    def __init__(
        self, kind: Kind, d_model: int, eps: float, affine: bool, bias: bool = True
    ) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        affine = affine and kind != "none"
        self.weight = nn.Parameter(torch.ones(d_model)) if affine else None
        self.bias = nn.Parameter(torch.zeros(d_model)) if affine and bias and self.centres else None
        self.hook_scale = HookPoint()
        self.hook_normalized = HookPoint()

    @property
    def centres(self) -> bool:
        """Is the mean subtracted?"""
        return self.kind == "layer"

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        if not listened(self.hook_scale, self.hook_normalized):
            return self._fused(x)
        if self.centres:
            x = x - x.mean(dim=-1, keepdim=True)
        if self.kind == "none":
            scale = torch.ones_like(x[..., :1])
        else:
            scale = (x.pow(2).mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return self._affine(self.hook_normalized(x / self.hook_scale(scale)))

    def _fused(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        if self.kind == "rms":
            return nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return x

    def _affine(self, normalized: Tensor) -> Tensor:
        scaled = normalized if self.weight is None else normalized * self.weight
        return scaled if self.bias is None else scaled + self.bias


def residual(
    x: Float[Tensor, "batch pos d_model"],
    part: Callable[[Tensor], Tensor],
    out: HookPoint,
    placement: NormPlacement,
    norm: Norm,
    post: Norm | None,
    dropout: Callable[[Tensor], Tensor] = lambda y: y,
    summed: bool = True,
) -> Float[Tensor, "batch pos d_model"]:
    """Adds the output of a part to the stream, with pre-norm, post-norm or sandwich.

    Args:
        out: hears what is added to the stream.
        norm: stands before the part, or in "post" after the sum.
        post: stands after the part; only "sandwich" has it.
        dropout: changes what is added to the stream.
        summed: whether the output is added to the stream; if not, it takes the stream's place.
    """
    after = placement == "post"
    y = part(x if after else norm(x))
    y = out(dropout(y if post is None else post(y)))
    y = x + y if summed else y
    return norm(y) if after else y
