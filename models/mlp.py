"""The two-layer perceptron of a block, with TransformerLens' hook points."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.attention import bias_of
from models.config import ModelConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
}


class MLP(nn.Module):
    """act(x W_in + b_in) W_out + b_out. Hooks: ``hook_pre``, ``hook_post`` [batch, pos, d_mlp]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fc_in = nn.Linear(config.d_model, config.d_mlp, bias=config.bias)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model, bias=config.bias)
        self.act = ACTIVATIONS[config.act_fn]
        self.hook_pre = HookPoint()
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(self.hook_post(self.act(self.hook_pre(self.fc_in(x)))))

    @property
    def W_in(self) -> Float[Tensor, "d_model d_mlp"]:
        return self.fc_in.weight.T

    @property
    def b_in(self) -> Float[Tensor, " d_mlp"]:
        return bias_of(self.fc_in)

    @property
    def W_out(self) -> Float[Tensor, "d_mlp d_model"]:
        return self.fc_out.weight.T

    @property
    def b_out(self) -> Float[Tensor, " d_model"]:
        return bias_of(self.fc_out)
