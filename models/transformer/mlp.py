"""The perceptron of a block, plain or gated, with TransformerLens' hook points."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.model_config import ModelConfig
from models.transformer.attention import bias_of

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}
"""Modules, not functions, so that DeepLift finds them."""


class MLP(nn.Module):
    """act(x W_in + b_in) W_out + b_out; gated: act(x W_gate + b_gate) * (x W_in + b_in) inside.

    Hooks, [batch, pos, d_mlp]: ``hook_pre`` (what the activation gets), ``hook_pre_linear`` (the
    other factor of a gated one) and ``hook_post``.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fc_gate: nn.Linear | None = None
        self.fc_in = nn.Linear(config.d_model, config.d_mlp, bias=config.bias)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model, bias=config.bias)
        self.act = ACTIVATIONS[config.act_fn]()
        self.hook_pre = HookPoint()
        if config.mlp == "gated":
            self.fc_gate = nn.Linear(config.d_model, config.d_mlp, bias=config.bias)
            self.hook_pre_linear = HookPoint()
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        if self.fc_gate is None:
            hidden = self.act(self.hook_pre(self.fc_in(x)))
        else:
            gate = self.act(self.hook_pre(self.fc_gate(x)))
            hidden = gate * self.hook_pre_linear(self.fc_in(x))
        return self.fc_out(self.hook_post(hidden))

    @property
    def W_in(self) -> Float[Tensor, "d_model d_mlp"]:
        return self.fc_in.weight.T

    @property
    def W_gate(self) -> Float[Tensor, "d_model d_mlp"] | None:
        return None if self.fc_gate is None else self.fc_gate.weight.T

    @property
    def b_in(self) -> Float[Tensor, " d_mlp"]:
        return bias_of(self.fc_in)

    @property
    def W_out(self) -> Float[Tensor, "d_mlp d_model"]:
        return self.fc_out.weight.T

    @property
    def b_out(self) -> Float[Tensor, " d_model"]:
        return bias_of(self.fc_out)
