"""RNN, LSTM and GRU with their states under hooks: what Transformers replaced."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise
from models.hooks import STREAM, HookRow, listened
from models.languages import Vocabulary
from models.model_config import ModelConfig

State = tuple[Tensor, Tensor]
"""Hidden states and cells, each [batch, d_model]; without cells the hidden states twice."""

Layer = type[nn.RNN | nn.LSTM | nn.GRU]


class Recurrence(nn.Module):
    """One layer. Hooks, [batch, pos, d_model]: ``hook_resid_pre`` (what it reads),
    ``hook_resid_post`` (its hidden states) and, of an LSTM, ``hook_cell`` (its cells).

    The next position goes on from a state that a hook changed. When a hook listens to the states,
    the layer walks position by position. At every step the hook sees all states so far, and zeros
    for those to come; the layer takes the newest. Without a listener PyTorch's fused layer runs.
    """

    def __init__(self, config: ModelConfig, kind: Layer) -> None:
        super().__init__()
        self.rnn = kind(config.d_model, config.d_model, bias=config.bias, batch_first=True)
        self.hook_resid_pre = HookPoint()
        self.hook_resid_post = HookPoint()
        if kind is nn.LSTM:
            self.hook_cell = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.run(x)[0]

    def run(
        self,
        x: Float[Tensor, "batch pos d_model"],
        start: State | None = None,
        first: Int[Tensor, " batch"] | None = None,
        until: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch pos d_model"], State]:
        """Hidden states, and the state with which another layer can go on.

        Args:
            start: hidden states and cells before the first position; zeros by default.
            first: the first position of each word; the states before it are zeros.
            until: the last position of each word, after which the state is given, and states are
                zeros; by default that of all.
        """
        x = self.hook_resid_pre(x)
        points = [self.hook_resid_post, *([self.hook_cell] if hasattr(self, "hook_cell") else [])]
        if start is None:
            start = (x.new_zeros(x[:, 0].shape), x.new_zeros(x[:, 0].shape))
        if first is not None or listened(*points):
            return self._walk(x, start, first, until)
        return self._fused(x, start, until)

    def _fused(self, x: Tensor, start: State, until: Tensor | None) -> tuple[Tensor, State]:
        """PyTorch's layer, told to train wherever a gradient may be asked for: on a GPU cuDNN has
        none in evaluation mode. Without dropout both modes compute the same."""
        weights: list[Tensor] = list(self.rnn.parameters())
        train = self.training or torch.is_grad_enabled()
        options = (weights, self.rnn.bias, 1, 0.0, train, False)
        before = (start[0][None], start[1][None])
        if isinstance(self.rnn, nn.LSTM):
            if until is None:
                out, h, c = torch.lstm(x, before, *options, True)
            else:
                packed = pack_padded_sequence(x, (until + 1).cpu(), True, enforce_sorted=False)
                order, back = packed.sorted_indices, packed.unsorted_indices
                ordered = (before[0][:, order], before[1][:, order])
                data, h, c = torch.lstm(packed.data, packed.batch_sizes, ordered, *options)
                h, c = h[:, back], c[:, back]
                out, _ = pad_packed_sequence(packed._replace(data=data), True, 0.0, x.shape[1])
            return out, (h[0], c[0])
        kernel = torch.gru if isinstance(self.rnn, nn.GRU) else torch.rnn_tanh
        out, h = kernel(x, before[0], *options, True)
        return out, (h[0], h[0])

    def _walk(
        self, x: Tensor, start: State, first: Tensor | None, until: Tensor | None
    ) -> tuple[Tensor, State]:
        weights: list[Tensor] = list(self.rnn.parameters())
        hidden, cells = [start[0]], [start[1]]
        for t in range(x.shape[1]):
            h0, c0 = hidden[-1], cells[-1]
            if first is not None:
                h0, c0 = (
                    torch.where((first == t)[:, None], begun, before)
                    for begun, before in zip(start, (h0, c0), strict=True)
                )
            if isinstance(self.rnn, nn.LSTM):
                h, c = torch.lstm_cell(x[:, t], (h0, c0), *weights)
                c = _inside(first, until, t, c)
                cells.append(_shown(self.hook_cell, [*cells[1:], c], x))
                # The output gate lets through the cell as the hook left it.
                h = self._let_through(x[:, t], h0, weights, cells[-1], c, h)
            else:
                cell = torch.gru_cell if isinstance(self.rnn, nn.GRU) else torch.rnn_tanh_cell
                h = cell(x[:, t], h0, *weights)
            h = _inside(first, until, t, h)
            hidden.append(_shown(self.hook_resid_post, [*hidden[1:], h], x))
        states = torch.stack(hidden[1:], dim=1)
        if until is None:
            return states, (hidden[-1], cells[-1])
        at = until[:, None, None].expand(-1, 1, states.shape[2])
        memory = torch.stack(cells[1:], dim=1) if len(cells) > 1 else states
        return states, (states.gather(1, at)[:, 0], memory.gather(1, at)[:, 0])

    def _let_through(
        self, x: Tensor, before: Tensor, weights: list[Tensor], cell: Tensor, raw: Tensor, h: Tensor
    ) -> Tensor:
        """The hidden state of a changed cell: output gate times tanh(cell)."""
        if cell is raw:
            return h
        w_x, w_h, *biases = (weight.chunk(4)[3] for weight in weights)
        gate = x @ w_x.T + before @ w_h.T + sum(biases)
        return gate.sigmoid() * cell.tanh()


def _inside(first: Tensor | None, until: Tensor | None, position: int, state: Tensor) -> Tensor:
    """The state of the words that have begun and not ended; zeros of the others."""
    if first is not None:
        state = state.masked_fill((first > position)[:, None], 0.0)
    if until is not None:
        state = state.masked_fill((until < position)[:, None], 0.0)
    return state


def _shown(point: HookPoint, states: list[Tensor], like: Tensor) -> Tensor:
    """The newest state after the hook saw all of them, padded to the word."""
    if not listened(point):
        return states[-1]
    stack = torch.stack(states, dim=1)
    padded = nn.functional.pad(stack, (0, 0, 0, like.shape[1] - stack.shape[1]))
    return point(padded)[:, len(states) - 1]


class HookedRecurrent(EmbeddingModel):
    """Embedding, recurrent layers, unembedding.

    Attributes:
        layer: PyTorch's class of a layer.
    """

    layer: Layer

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


class HookedRNN(HookedRecurrent):
    """h = tanh(W x + U h + b), hidden states without gates (Elman 1990)."""

    layer = nn.RNN


class HookedLSTM(HookedRecurrent):
    """Layers with hidden states and cells (Hochreiter and Schmidhuber 1997)."""

    layer = nn.LSTM


class HookedGRU(HookedRecurrent):
    """Layers with hidden states alone (Cho et al. 2014)."""

    layer = nn.GRU


def rnn_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a plain RNN or a GRU, in the order of computation."""
    block, meaning = "blocks.{layer}.", "hidden states; the next position goes on from them"
    return [
        HookRow("hook_embed", STREAM, "token embedding"),
        HookRow(block + "hook_resid_pre", STREAM, "what the layer reads"),
        HookRow(block + "hook_resid_post", STREAM, meaning),
    ]


def lstm_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of an LSTM, in the order of computation."""
    meaning = "cells; the next position goes on from them"
    *before, states = rnn_rows(config)
    return [*before, HookRow("blocks.{layer}.hook_cell", STREAM, meaning), states]
