"""A plain multilayer perceptron on whole words: every place of a word has weights of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.hook_points import HookPoint

from models.base import LanguageModel, Unembed, initialise
from models.errors import UserError
from models.hooks import HIDDEN, HookRow
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.mlp import ACTIVATIONS


class _HiddenLayer(nn.Module):
    """act(W x + b). Hooks: ``hook_pre`` and ``hook_resid_post``, before and after the activation,
    [batch, pos, d_mlp]."""

    def __init__(self, d_in: int, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(d_in, config.d_mlp, bias=config.bias)
        self.act = ACTIVATIONS[config.act_fn]()
        self.hook_pre = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self, x: Float[Tensor, "batch 1 some"], positions: int
    ) -> Float[Tensor, "batch 1 d_mlp"]:
        """Hooks hear as many copies as there are positions; the first of them, at BOS, goes on."""
        # The places after the longest word of a batch are zeros: their weights are left out.
        pre = linear(x, self.linear.weight[:, : x.shape[-1]], self.linear.bias)
        hidden = self.act(self.hook_pre(pre.expand(-1, positions, -1))[:, :1])
        return self.hook_resid_post(hidden.expand(-1, positions, -1))[:, :1]


class HookedFeedforward(LanguageModel):
    """One-hot symbols of a word side by side, ``n_layers`` hidden layers, unembedding.

    The input has room for n_ctx - 1 symbols; zeros stand after the end of a word. There is one
    answer for a word. It is read at BOS, and given at every position. Hooks hear the hidden layers
    at every position too; a change at BOS alone reaches the answer.
    """

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        widths = [(config.n_ctx - 1) * len(vocabulary), *[config.d_mlp] * (config.n_layers - 1)]
        with torch.random.fork_rng(devices=[]):
            self.hook_embed = HookPoint()
            self.blocks = nn.ModuleList(_HiddenLayer(d_in, config) for d_in in widths)
            self.unembed = Unembed(replace(config, d_model=config.d_mlp), len(vocabulary))
        generator = torch.Generator().manual_seed(seed)
        initialise(self, generator)
        first = self.blocks[0].get_parameter("linear.weight")
        bound = config.n_ctx**-0.5  # of all inputs, one in each place is 1
        nn.init.uniform_(first, -bound, bound, generator=generator)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    @property
    def device(self) -> torch.device:
        return self.unembed.linear.weight.device

    @property
    def cfg(self) -> TransformerBridgeConfig:
        config = super().cfg
        config.d_model = self.config.d_mlp
        return config

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        positions, most = tokens.shape[1], self.config.n_ctx - 1
        if positions - 1 > most:
            raise UserError(
                f"a word of {positions - 1} symbols is longer than the input of the feedforward "
                f"network ({most}): ask of shorter words, or train with a larger --model.n-ctx"
            )
        hot = one_hot(tokens, len(self.vocabulary)).to(self.unembed.linear.weight.dtype)
        hot = self.hook_embed(hot.masked_fill((tokens == END_ID)[..., None], 0.0))
        x = hot[:, 1:].flatten(1)[:, None]
        for layer in self.blocks:
            x = layer(x, positions)
        return self.unembed(x).expand(-1, positions, -1)


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a feedforward network, in the order of computation."""
    block = "blocks.{layer}."
    return [
        HookRow(
            "hook_embed", ("batch", "pos", "d_vocab"), "the tokens, one-hot; zeros after the end"
        ),
        HookRow(block + "hook_pre", HIDDEN, "what the activation gets; the same at all positions"),
        HookRow(block + "hook_resid_post", HIDDEN, "the hidden layer; the verdict reads it at BOS"),
    ]
