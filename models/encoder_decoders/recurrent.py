"""Recurrent encoder-decoders: what cross-attention replaced.

The encoder's last state, one vector of fixed width for each layer, is where the decoder starts
(Sutskever et al. 2014). With attention, each state of the decoder also reads the states of the
encoder, by additive scores (Bahdanau et al. 2015); here it reads them after its own layer, as in
Luong et al. (2015). A step then need not wait for the reading of the step before.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise
from models.encoder_decoders.sides import Sides
from models.hooks import STREAM, HookRow, listened
from models.languages import BORDER, Vocabulary
from models.model_config import ModelConfig
from models.rivals.recurrent import Recurrence, lstm_rows
from models.transformer.attention import Attention
from models.transformer.hook_rows import cross_rows
from models.transformer.relations import Relations

ONE_HEAD = {"head": "1", "d_head": "d_model"}
"""The axes of a single head that is as wide as the stream."""


def _attention(config: ModelConfig) -> Attention:
    """One head as wide as the stream, with additive scores."""
    shape = ModelConfig(d_model=config.d_model, n_heads=1, scores="additive", bias=config.bias)
    return Attention(shape)


class _Reader(Recurrence):
    """A layer of the decoder, whose states may read those of the encoder.

    More hooks where they do: ``cross_attn`` as in a Transformer, and ``hook_cross_attn_out``, what
    is added to the hidden states, [batch, pos, d_model].
    """

    def __init__(self, config: ModelConfig, attends: bool) -> None:
        super().__init__(config, nn.LSTM)
        self.cross_attn = _attention(config) if attends else None
        if attends:
            self.hook_cross_attn_out = HookPoint()

    def with_source(
        self,
        x: Float[Tensor, "batch pos d_model"],
        source: Float[Tensor, "batch source d_model"],
        across: Relations,
    ) -> Float[Tensor, "batch pos d_model"]:
        """Hidden states with what they read of the source."""
        if self.cross_attn is None:
            return x
        memory = self.cross_attn.keys_and_values(source, across)
        return x + self.hook_cross_attn_out(self.cross_attn(x, across, memory))


class HookedLSTMPair(EmbeddingModel):
    """An LSTM that reads the source, and one that goes on from its last states.

    Attributes:
        attends: whether the decoder also reads the encoder's states.
    """

    attends = False

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved.

        Raises:
            UserError: see ``ModelConfig``; both sides have as many layers.
        """
        super().__init__(config, vocabulary)
        self.border = vocabulary.ids.get(BORDER, -1)
        first = config.encoder_layers
        with torch.random.fork_rng(devices=[]):
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_embed = HookPoint()
            last = config.n_layers - 1
            self.blocks = nn.ModuleList(
                Recurrence(config, nn.LSTM)
                if layer < first
                else _Reader(config, self.attends and layer == last)
                for layer in range(config.n_layers)
            )
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed), embedding_std=1.0)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits from the border on; 0 before it, where the decoder says nothing."""
        sides = Sides.of(tokens, self.border)
        whole = listened(*self.hook_dict.values())
        longest = tokens.shape[1] if whole else sides.longest_source
        valid = sides.source[:, :longest]
        at = valid.sum(dim=1) - 1  # the border, or the last symbol where there is none
        embedded = self.hook_embed(self.embed(tokens))
        x, starts = embedded[:, :longest], list[tuple[Tensor, Tensor]]()
        x = x.masked_fill(~valid[..., None], 0.0)
        for block in self._blocks(encoder=True):
            x, end = block.run(x, until=at)
            starts.append(end)
        y = self.embed(sides.cut())
        if whole:
            y = embedded.masked_fill(~sides.target[..., None], 0.0)
        may = valid[:, None, None].expand(-1, -1, y.shape[1], -1)
        if whole:
            may = may & sides.target[:, None, :, None]
        across = Relations(may, empty=whole)
        for block, start in zip(self._blocks(encoder=False), starts, strict=False):
            assert isinstance(block, _Reader)
            y, _ = block.run(y, start=start, first=sides.border if whole else None)
            y = block.with_source(y, x, across)
        logits: Tensor = self.unembed(y)
        if whole:
            return logits.masked_fill(~sides.target[..., None], 0.0)
        return sides.put_back(logits)

    def _blocks(self, encoder: bool) -> list[Recurrence]:
        first = self.config.encoder_layers
        some = list(self.blocks)[:first] if encoder else list(self.blocks)[first:]
        return [block for block in some if isinstance(block, Recurrence)]


class HookedAttendingLSTMPair(HookedLSTMPair):
    """The same with additive attention from the decoder's last layer to the encoder's."""

    attends = True


def one_vector_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of the LSTMs that share one vector, in the order of computation."""
    first, (embed, *rows) = config.encoder_layers, lstm_rows(config)
    return [embed, *(r.of_side(last=first) for r in rows), *(r.of_side(first) for r in rows)]


def attending_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of the LSTMs with attention, in the order of computation."""
    last = config.n_layers - 1
    out = HookRow("blocks.{layer}.hook_cross_attn_out", STREAM, "what cross-attention adds")
    across = [
        replace(row, shape=tuple(ONE_HEAD.get(axis, axis) for axis in row.shape)).of_side(last)
        for row in [*cross_rows(config), out]
    ]
    return [*one_vector_rows(config), *across]
