"""Layer normalisation with TransformerLens' hook points."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.hooks import listened


class LayerNorm(nn.Module):
    """(x - mean) / sigma, sigma the population standard deviation, then gamma and beta if affine.

    Hooks: ``hook_scale`` [batch, pos, 1] (sigma), ``hook_normalized`` [batch, pos, d_model] (before
    gamma and beta, as TransformerLens has it). With neither listened to, PyTorch's fused norm runs.
    """

    def __init__(self, d_model: int, eps: float, affine: bool, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model)) if affine else None
        self.bias = nn.Parameter(torch.zeros(d_model)) if affine and bias else None
        self.hook_scale = HookPoint()
        self.hook_normalized = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        if not listened(self.hook_scale, self.hook_normalized):
            return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        centred = x - x.mean(dim=-1, keepdim=True)
        scale = self.hook_scale((centred.pow(2).mean(dim=-1, keepdim=True) + self.eps).sqrt())
        normalized = self.hook_normalized(centred / scale)
        scaled = normalized if self.weight is None else normalized * self.weight
        return scaled if self.bias is None else scaled + self.bias
