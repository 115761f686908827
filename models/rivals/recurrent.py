"""LSTM and GRU with their states under hooks: what Transformers replaced."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise
from models.config import ModelConfig
from models.hooks import STREAM, HookRow, listened
from models.languages import Vocabulary


class Recurrence(nn.Module):
    """One layer. Hooks, [batch, pos, d_model]: ``hook_resid_pre`` (what it reads),
    ``hook_resid_post`` (its hidden states) and, of an LSTM, ``hook_cell`` (its cells).

    The next position goes on from a state that a hook changed. When a hook listens to the states,
    the layer walks position by position. At every step the hook sees all states so far, and zeros
    for those to come; the layer takes the newest. Without a listener PyTorch's fused layer runs.
    """

    def __init__(self, config: ModelConfig, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.rnn = kind(config.d_model, config.d_model, bias=config.bias, batch_first=True)
        self.hook_resid_pre = HookPoint()
        self.hook_resid_post = HookPoint()
        if kind is nn.LSTM:
            self.hook_cell = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        points = [self.hook_resid_post, *([self.hook_cell] if hasattr(self, "hook_cell") else [])]
        return self._walk(x) if listened(*points) else self._fused(x)

    def _fused(self, x: Tensor) -> Tensor:
        """PyTorch's layer, told to train wherever a gradient may be asked for: on a GPU cuDNN has
        none in evaluation mode. Without dropout both modes compute the same."""
        weights: list[Tensor] = list(self.rnn.parameters())
        train = self.training or torch.is_grad_enabled()
        start = x.new_zeros(1, len(x), self.rnn.hidden_size)
        how = (weights, self.rnn.bias, 1, 0.0, train, False, True)
        if isinstance(self.rnn, nn.LSTM):
            return torch.lstm(x, (start, start), *how)[0]
        return torch.gru(x, start, *how)[0]

    def _walk(self, x: Tensor) -> Tensor:
        weights: list[Tensor] = list(self.rnn.parameters())
        hidden, cells = [x.new_zeros(x[:, 0].shape)], [x.new_zeros(x[:, 0].shape)]
        for t in range(x.shape[1]):
            if isinstance(self.rnn, nn.LSTM):
                h, c = torch.lstm_cell(x[:, t], (hidden[-1], cells[-1]), *weights)
                cells.append(_shown(self.hook_cell, [*cells[1:], c], x))
                # The output gate lets through the cell as the hook left it.
                h = self._let_through(x[:, t], hidden[-1], weights, cells[-1], c, h)
            else:
                h = torch.gru_cell(x[:, t], hidden[-1], *weights)
            hidden.append(_shown(self.hook_resid_post, [*hidden[1:], h], x))
        return torch.stack(hidden[1:], dim=1)

    def _let_through(
        self, x: Tensor, before: Tensor, weights: list[Tensor], cell: Tensor, own: Tensor, h: Tensor
    ) -> Tensor:
        """The hidden state of a changed cell: output gate times tanh(cell)."""
        if cell is own:
            return h
        w_x, w_h, *biases = (weight.chunk(4)[3] for weight in weights)
        gate = x @ w_x.T + before @ w_h.T + sum(biases)
        return gate.sigmoid() * cell.tanh()


def _shown(point: HookPoint, states: list[Tensor], like: Tensor) -> Tensor:
    """The newest state after the hook saw all of them, padded to the word."""
    if not listened(point):
        return states[-1]
    seen = torch.stack(states, dim=1)
    padded = nn.functional.pad(seen, (0, 0, 0, like.shape[1] - seen.shape[1]))
    return point(padded)[:, len(states) - 1]


class HookedRecurrent(EmbeddingModel):
    """Embedding, recurrent layers, unembedding.

    Attributes:
        layer: PyTorch's class of a layer.
    """

    layer: type[nn.LSTM | nn.GRU]

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        with torch.random.fork_rng(devices=[]):
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_embed = HookPoint()
            self.blocks = nn.ModuleList(
                Recurrence(config, self.layer) for _ in range(config.n_layers)
            )
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed), embedding_std=1.0)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        x = self.hook_embed(self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return self.unembed(x)


class HookedLSTM(HookedRecurrent):
    """Layers with hidden states and cells (Hochreiter and Schmidhuber 1997)."""

    layer = nn.LSTM


class HookedGRU(HookedRecurrent):
    """Layers with hidden states alone (Cho et al. 2014)."""

    layer = nn.GRU


def gru_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a GRU, in the order of computation."""
    block, meaning = "blocks.{layer}.", "hidden states; the next position goes on from them"
    return [
        HookRow("hook_embed", STREAM, "token embedding"),
        HookRow(block + "hook_resid_pre", STREAM, "what the layer reads"),
        HookRow(block + "hook_resid_post", STREAM, meaning),
    ]


def lstm_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of an LSTM, in the order of computation."""
    meaning = "cells; the next position goes on from them"
    *before, states = gru_rows(config)
    return [*before, HookRow("blocks.{layer}.hook_cell", STREAM, meaning), states]
