"""One layer of the Transformer: attention and an MLP on the residual stream.

pre       u = x + Attention(norm(x));         z = u + MLP(norm(u))
post      u = norm(x + Attention(x));         z = norm(u + MLP(u))
sandwich  u = x + norm(Attention(norm(x)));   z = u + norm(MLP(norm(u)))
parallel  y = norm(x);                        z = x + Attention(y) + MLP(y)

Without a residual, the sums above have no x and no u.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.model_config import ModelConfig
from models.transformer.counting import attention
from models.transformer.mlp import MLP
from models.transformer.norm import Norm, residual
from models.transformer.relations import CAUSAL, KeysValues, Relations


def norm_of(config: ModelConfig) -> Norm:
    """A norm inside a block."""
    return Norm(config.norm, config.d_model, config.eps, affine=True, bias=config.bias)


class Block(nn.Module):
    """One layer. Hooks, all [batch, pos, d_model]: ``hook_resid_pre, hook_attn_out, hook_resid_mid,
    hook_mlp_out, hook_resid_post``; without an MLP neither ``resid_mid`` nor ``mlp_out``, and no
    ``resid_mid`` in a parallel block.

    ``ln1`` and ``ln2`` stand where ``norm_placement`` says; "sandwich" adds ``ln1_post`` and
    ``ln2_post``. A parallel block has ``ln1`` alone. ``hook_attn_out`` and ``hook_mlp_out`` hear
    what is added to the stream.
    """

    hook_out_is_single_residual_stream = True  # what TransformerLens' logit lens asks for

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

        def norm() -> Norm:
            return norm_of(config)

        sandwich = config.norm_placement == "sandwich"
        self.placement, self.parallel = config.norm_placement, config.parallel
        self.residual = config.residual
        self.dropout = nn.Dropout(config.dropout)
        self.ln1 = norm()
        self.attn = attention(config)
        self.ln1_post = norm() if sandwich else None
        self.hook_resid_pre = HookPoint()
        self.hook_attn_out = HookPoint()
        self.mlp: MLP | None = None
        if config.mlp != "none":
            if not config.parallel:
                self.ln2 = norm()
                self.ln2_post = norm() if sandwich else None
                self.hook_resid_mid = HookPoint()
            self.mlp = MLP(config)
            self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        relations: Relations = CAUSAL,
        memory: KeysValues | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        if self.parallel:
            return self.hook_resid_post(self._both(x, relations, memory))
        x = self.attended(x, relations, memory)
        if self.mlp is not None:
            x = self.thought(self.hook_resid_mid(x))
        return self.hook_resid_post(x)

    def attended(
        self,
        x: Float[Tensor, "batch pos d_model"],
        relations: Relations,
        memory: KeysValues | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The stream with what attention adds, or without a residual this alone."""
        return residual(
            x,
            lambda y: self.attn(y, relations, memory),
            self.hook_attn_out,
            self.placement,
            self.ln1,
            self.ln1_post,
            self.dropout,
            self.residual,
        )

    def thought(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        """The same of the MLP; the block has one."""
        assert self.mlp is not None
        rest = self.ln2, self.ln2_post, self.dropout, self.residual
        return residual(x, self.mlp, self.hook_mlp_out, self.placement, *rest)

    def _both(self, x: Tensor, relations: Relations, memory: KeysValues | None) -> Tensor:
        """The stream with what attention and MLP add, side by side."""
        assert self.mlp is not None
        y = self.ln1(x)
        x = x + self.hook_attn_out(self.dropout(self.attn(y, relations, memory)))
        return x + self.hook_mlp_out(self.dropout(self.mlp(y)))

    def keys_and_values(
        self, x: Float[Tensor, "batch pos d_model"], relations: Relations
    ) -> KeysValues:
        """The keys and values of these positions, after ``ln1`` if it comes before attention."""
        return self.attn.keys_and_values(x if self.placement == "post" else self.ln1(x), relations)
