"""The Transformer of two sides (Vaswani et al. 2017): an encoder, and a decoder that attends to it.

    source: x = embed(tokens) + positions;  x = block(x) for every block;  memory = norm(x)
    target: y = embed(tokens) + positions;  y = block(y, memory) for every block
    logits = norm(y) W_U + b_U

Both sides stand in one word, ``source > target``, and every hook has all its positions: position p
of an activation always belongs to token p. The first half of the blocks is the encoder, which reads
up to the border; the others are the decoder, which begins at the border. Where a block does not
read, its stream is the same for all words. If nobody listens, these positions are not computed.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise, start_of
from models.choices import ABSOLUTE
from models.encoder_decoders.sides import Sides
from models.hooks import STREAM, HookRow, listened, norm_rows
from models.languages import BORDER, Vocabulary
from models.model_config import ModelConfig
from models.transformer.attention import Attention
from models.transformer.block import Block, norm_of
from models.transformer.hook_rows import block_rows
from models.transformer.masks import allowed
from models.transformer.norm import Norm, residual
from models.transformer.positions import (
    T5_BUCKETS,
    alibi,
    check_reach,
    computed,
    distances,
    rotations,
    t5_buckets,
)
from models.transformer.relations import Relations


class CrossBlock(Block):
    """A block of the decoder: between attention and MLP it attends to the source.

    More hooks, [batch, pos, d_model]: ``hook_cross_attn_out``; ``hook_resid_mid`` stands before
    cross-attention, ``hook_resid_mid2`` after it. ``cross_attn`` has the hooks of ``attn``, where
    keys and values have the positions of the source; ``ln_cross`` stands where ``ln1`` does.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.ln_cross = norm_of(config)
        self.ln_cross_post = norm_of(config) if config.norm_placement == "sandwich" else None
        # Where a source symbol stands is in its stream: the score has no position of its own.
        self.cross_attn = Attention(replace(config, positions="none"))
        self.hook_cross_attn_out = HookPoint()
        self.hook_resid_mid = HookPoint()
        if self.mlp is not None:
            self.hook_resid_mid2 = HookPoint()

    def read(
        self,
        x: Float[Tensor, "batch pos d_model"],
        within: Relations,
        source: Float[Tensor, "batch source d_model"],
        across: Relations,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The stream after the block.

        Args:
            within: which positions of the target may attend to which.
            source: the encoder's last stream.
            across: which positions of the source may be attended to.
        """

        def cross(y: Tensor) -> Tensor:
            return self.cross_attn(y, across, self.cross_attn.keys_and_values(source, across))

        x = self.hook_resid_mid(self.attended(self.hook_resid_pre(x), within))
        rest = self.ln_cross, self.ln_cross_post, self.dropout, self.residual
        x = residual(x, cross, self.hook_cross_attn_out, self.placement, *rest)
        if self.mlp is not None:
            x = self.thought(self.hook_resid_mid2(x))
        return self.hook_resid_post(x)


class HookedEncoderDecoder(EmbeddingModel):
    """Encoder and decoder on one vocabulary, with one embedding for both sides."""

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        self.border = vocabulary.ids.get(BORDER, -1)
        with torch.random.fork_rng(devices=[]):  # PyTorch's layers draw weights that are not used
            self.embed = nn.Embedding(len(vocabulary), config.d_embed)
            self.hook_embed = HookPoint()
            learned = config.positions == "learned"
            self.pos_embed = nn.Embedding(config.n_ctx, config.d_model) if learned else None
            self.decoder_pos_embed = nn.Embedding(config.n_ctx, config.d_model) if learned else None
            if config.positions in ABSOLUTE:
                self.hook_pos_embed = HookPoint()
                self.hook_decoder_pos_embed = HookPoint()
            t5 = config.positions == "t5"
            self.relative = nn.Embedding(T5_BUCKETS, config.n_heads) if t5 else None
            self.decoder_relative = nn.Embedding(T5_BUCKETS, config.n_heads) if t5 else None
            first = config.encoder_layers
            self.blocks = nn.ModuleList(
                (Block if layer < first else CrossBlock)(config) for layer in range(config.n_layers)
            )
            final = "none" if config.norm_placement == "post" else config.norm
            self.encoder_ln_final = Norm(final, config.d_model, config.eps, affine=False)
            self.ln_final = Norm(final, config.d_model, config.eps, affine=False)
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed), start_of(config), config.even_start)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    @property
    def encoder(self) -> list[nn.Module]:
        """The blocks that read the source."""
        return list(self.blocks)[: self.config.encoder_layers]

    @property
    def decoder(self) -> list[nn.Module]:
        """The blocks that make the target."""
        return list(self.blocks)[self.config.encoder_layers :]

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits from the border on; 0 before it, where the decoder says nothing."""
        sides = Sides.of(tokens, self.border)
        if listened(*self.hook_dict.values()):
            return self._at_all_positions(sides, offsets)
        longest = sides.longest_source
        valid, source = sides.source[:, :longest], tokens[:, :longest]
        place = torch.arange(longest, device=tokens.device)
        x = self._begun(source, place.expand_as(source), offsets, self.pos_embed)
        may = valid[:, None, None]
        memory = self._encoded(x, self._relations(longest, True, may.expand(-1, -1, longest, -1)))
        target = sides.cut()
        length = target.shape[1]
        place = torch.arange(length, device=tokens.device)
        y = self._begun(target, place.expand_as(target), offsets, self.decoder_pos_embed)
        across = Relations(may.expand(-1, -1, length, -1))
        return sides.put_back(self._decoded(y, self._relations(length, False), memory, across))

    def _at_all_positions(self, sides: Sides, offsets: Int[Tensor, " batch"] | None) -> Tensor:
        """The same for hooks: the streams of both sides have all positions of the word."""
        tokens, positions = sides.tokens, sides.tokens.shape[1]
        source, target = sides.source, sides.target
        embedded = self.hook_embed(self.embedded(tokens))
        x = y = embedded
        if self.config.positions in ABSOLUTE:
            place = sides.places.expand_as(tokens)
            x = x + self.hook_pos_embed(self._placed(place, offsets, self.pos_embed))
            place = (place - sides.border[:, None]).clamp(min=0)
            after = self._placed(place, offsets, self.decoder_pos_embed)
            y = y + self.hook_decoder_pos_embed(after)
        reads = source[:, None, :, None] & source[:, None, None]
        x = x.masked_fill(~source[..., None], 0.0)
        memory = self._encoded(x, replace(self._relations(positions, True, reads), empty=True))
        grows = target[:, None, :, None] & target[:, None, None]
        grows = grows & allowed("causal", positions, device=tokens.device)[:, None]
        across = Relations(target[:, None, :, None] & source[:, None, None], empty=True)
        y = y.masked_fill(~target[..., None], 0.0)
        within = replace(self._relations(positions, False, grows), empty=True)
        return self._decoded(y, within, memory, across).masked_fill(~target[..., None], 0.0)

    def _begun(
        self, tokens: Tensor, place: Tensor, offsets: Tensor | None, table: nn.Embedding | None
    ) -> Float[Tensor, "batch pos d_model"]:
        x = self.embedded(tokens)
        return x + self._placed(place, offsets, table) if self.config.positions in ABSOLUTE else x

    def _encoded(self, x: Tensor, relations: Relations) -> Float[Tensor, "batch pos d_model"]:
        for block in self.encoder:
            x = block(x, relations)
        return self.encoder_ln_final(x)

    def _decoded(
        self, y: Tensor, within: Relations, memory: Tensor, across: Relations
    ) -> Float[Tensor, "batch pos d_vocab"]:
        for block in self.decoder:
            assert isinstance(block, CrossBlock)
            y = block.read(y, within, memory, across)
        return self.unembed(self.ln_final(y))

    def _placed(
        self,
        place: Int[Tensor, "batch pos"],
        offsets: Int[Tensor, " batch"] | None,
        table: nn.Embedding | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The vectors that absolute positions add to the embeddings; each side counts from 0."""
        config = self.config
        if offsets is not None:
            place = place + offsets.to(place.device, non_blocking=True)[:, None]
        if table is None:
            return computed(place, config, self.W_E.dtype)
        check_reach(place.shape[1], 0 if offsets is None else int(offsets.max()), config.n_ctx)
        rows: Tensor = table(place)
        return rows

    def _relations(self, positions: int, encoder: bool, may: Tensor | None = None) -> Relations:
        """Mask, bias and rotation within one side; without ``may`` the mask is causal."""
        config, device = self.config, self.W_E.device
        bias = rotation = None
        if config.positions == "alibi":
            bias = alibi(config.n_heads, positions, device, self.W_E.dtype)
        elif config.positions == "t5":
            table = self.relative if encoder else self.decoder_relative
            assert table is not None
            bias = table(t5_buckets(distances(positions, device), encoder)).permute(2, 0, 1)
        elif config.positions == "rotary":
            dtype = self.W_E.dtype
            rotation = rotations(positions, config.d_head, config.position_base, device, dtype)
        return Relations(may, bias, rotation)


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of an encoder-decoder, in the order of computation."""
    first = config.encoder_layers
    rows = [HookRow("hook_embed", STREAM, "token embedding, of both sides")]
    if config.positions in ABSOLUTE:
        for name, side in (("pos_embed", "source"), ("decoder_pos_embed", "target")):
            rows += [HookRow(f"hook_{name}", STREAM, f"what is added for the place in the {side}")]
    rows += [row.of_side(last=first) for row in block_rows(config)]
    rows += norm_rows("encoder_ln_final")
    rows += [row.of_side(first) for row in block_rows(config, cross=True)]
    return [*rows, *norm_rows("ln_final")]
