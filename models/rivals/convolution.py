"""A causal convolutional network: every layer sees a fixed number of positions back."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise
from models.hooks import STREAM, HookRow, norm_rows
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.transformer.mlp import ACTIVATIONS
from models.transformer.norm import Norm, residual


class _Convolution(nn.Module):
    """act(conv(x)) W_out over the last ``kernel_size`` positions.

    Hooks: ``hook_pre`` and ``hook_post``, before and after the activation, [batch, pos, d_model].
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.d_model
        self.kernel = nn.Conv1d(width, width, config.kernel_size, bias=config.bias)
        self.out = nn.Linear(width, width, bias=config.bias)
        self.act = ACTIVATIONS[config.act_fn]()
        self.hook_pre = HookPoint()
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        past = self.kernel.kernel_size[0] - 1
        pre = self.kernel(nn.functional.pad(x.transpose(1, 2), (past, 0))).transpose(1, 2)
        return self.out(self.hook_post(self.act(self.hook_pre(pre))))


class _ConvolutionBlock(nn.Module):
    """One layer. Hooks, all [batch, pos, d_model]: ``hook_resid_pre, hook_conv_out,
    hook_resid_post``; the norms stand as in a Transformer's block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

        def norm() -> Norm:
            return Norm(config.norm, config.d_model, config.eps, affine=True, bias=config.bias)

        self.placement, self.residual = config.norm_placement, config.residual
        self.ln1 = norm()
        self.ln1_post = norm() if self.placement == "sandwich" else None
        self.conv = _Convolution(config)
        self.hook_resid_pre = HookPoint()
        self.hook_conv_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        norms = self.ln1, self.ln1_post
        x = residual(x, self.conv, self.hook_conv_out, self.placement, *norms, summed=self.residual)
        return self.hook_resid_post(x)


class HookedConvolution(EmbeddingModel):
    """Embedding, causal convolutions on a residual stream, unembedding."""

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        with torch.random.fork_rng(devices=[]):
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_embed = HookPoint()
            self.blocks = nn.ModuleList(_ConvolutionBlock(config) for _ in range(config.n_layers))
            final = "none" if config.norm_placement == "post" else config.norm
            self.ln_final = Norm(final, config.d_model, config.eps, affine=False)
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed), embedding_std=1.0)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        x = self.hook_embed(self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.ln_final(x))


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a convolutional network, in the order of computation."""
    block, gives = "blocks.{layer}.", "adds to the stream" if config.residual else "passes on"
    post, sandwich = config.norm_placement == "post", config.norm_placement == "sandwich"
    return [
        HookRow("hook_embed", STREAM, "token embedding"),
        HookRow(block + "hook_resid_pre", STREAM, "the stream before the block"),
        *([] if post else norm_rows(block + "ln1")),
        HookRow(block + "conv.hook_pre", STREAM, "what the activation function gets"),
        HookRow(block + "conv.hook_post", STREAM, "what the activation function gives"),
        *(norm_rows(block + "ln1_post") if sandwich else []),
        HookRow(block + "hook_conv_out", STREAM, f"what the convolution {gives}"),
        *(norm_rows(block + "ln1") if post else []),
        HookRow(block + "hook_resid_post", STREAM, "the stream after the block"),
        *norm_rows("ln_final"),
    ]
