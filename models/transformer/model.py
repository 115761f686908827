"""A fully hooked Transformer with TransformerLens' names: every variant out of one set of parts.

    pre       u = x + Attention(norm(x));         z = u + MLP(norm(u))
    post      u = norm(x + Attention(x));         z = norm(u + MLP(u))
    sandwich  u = x + norm(Attention(norm(x)));   z = u + norm(MLP(norm(u)))

Then logits = norm(z) W_U + b_U; after post-norm blocks z is normalised already. The final norm has
no gamma and beta: the unembedding absorbs them, and direct logit attribution, which projects onto
W_U alone, is then exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, initialise
from models.config import ABSOLUTE, ModelConfig
from models.errors import UserError
from models.languages import END_ID, Vocabulary
from models.transformer.attention import CAUSAL, Attention, KeysValues, Relations
from models.transformer.masks import allowed
from models.transformer.mlp import MLP
from models.transformer.norm import Norm, residual
from models.transformer.positions import (
    T5_BUCKETS,
    alibi,
    distances,
    rotations,
    sinusoidal,
    t5_buckets,
)


class Block(nn.Module):
    """One layer. Hooks, all [batch, pos, d_model]: ``hook_resid_pre, hook_attn_out, hook_resid_mid,
    hook_mlp_out, hook_resid_post``; without an MLP neither ``resid_mid`` nor ``mlp_out``.

    ``ln1`` and ``ln2`` stand where ``norm_placement`` says; "sandwich" adds ``ln1_post`` and
    ``ln2_post``, and ``attn_out`` and ``mlp_out`` are what is added to the stream.
    """

    hook_out_is_single_residual_stream = True  # what TransformerLens' logit lens asks for

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

        def norm() -> Norm:
            return Norm(config.norm, config.d_model, config.eps, affine=True, bias=config.bias)

        sandwich = config.norm_placement == "sandwich"
        self.placement = config.norm_placement
        self.ln1 = norm()
        self.attn = Attention(config)
        self.ln1_post = norm() if sandwich else None
        self.hook_resid_pre = HookPoint()
        self.hook_attn_out = HookPoint()
        self.mlp: MLP | None = None
        if config.mlp != "none":
            self.ln2 = norm()
            self.mlp = MLP(config)
            self.ln2_post = norm() if sandwich else None
            self.hook_resid_mid = HookPoint()
            self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        relations: Relations = CAUSAL,
        memory: KeysValues | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        x = residual(
            x,
            lambda y: self.attn(y, relations, memory),
            self.hook_attn_out,
            self.placement,
            self.ln1,
            self.ln1_post,
        )
        if self.mlp is not None:
            x = self.hook_resid_mid(x)
            x = residual(x, self.mlp, self.hook_mlp_out, self.placement, self.ln2, self.ln2_post)
        return self.hook_resid_post(x)

    def keys_and_values(
        self, x: Float[Tensor, "batch pos d_model"], relations: Relations
    ) -> KeysValues:
        """What these positions give to be read, the norm included."""
        return self.attn.keys_and_values(x if self.placement == "post" else self.ln1(x), relations)


@dataclass(frozen=True)
class Kept:
    """A run that others go on from: what they have in common with it is not computed again.

    Attributes:
        streams: what enters each block, [batch, pos, d_model].
        memory: what each block reads: keys, turned where positions are rotary, and values.
        logits: [batch, pos, d_vocab].
        relations: of the batch.
    """

    streams: tuple[Float[Tensor, "batch pos d_model"], ...]
    memory: tuple[KeysValues, ...]
    logits: Float[Tensor, "batch pos d_vocab"]
    relations: Relations

    @property
    def positions(self) -> int:
        return self.logits.shape[1]

    def rows(self, first: int, last: int) -> Relations:
        """Of the queries first .. last - 1."""
        return self.relations.rows(first, last, self.positions, self.logits.device)


class HookedTransformer(EmbeddingModel):
    """A decoder or, with a bidirectional mask, an encoder."""

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        with torch.random.fork_rng(devices=[]):  # torch's layers draw first weights of their own
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_embed = HookPoint()
            self.pos_embed: nn.Embedding | None = None
            if config.positions == "learned":
                self.pos_embed = nn.Embedding(config.n_ctx, config.d_model)
            if config.positions in ABSOLUTE:
                self.hook_pos_embed = HookPoint()
            self.relative: nn.Embedding | None = None
            if config.positions == "t5":
                learned = config.n_heads - config.averaging_heads
                self.relative = nn.Embedding(T5_BUCKETS, learned)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
            final = "none" if config.norm_placement == "post" else config.norm
            self.ln_final = Norm(final, config.d_model, config.eps, affine=False)
            self.unembed = Unembed(config, len(vocabulary))
        # Sines are of the order of 1: smaller embeddings would drown in them.
        std = 1.0 if config.positions == "sinusoidal" else 0.02
        initialise(self, torch.Generator().manual_seed(seed), std)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        x = self.hook_embed(self.embed(tokens))
        if self.config.positions in ABSOLUTE:
            x = x + self.hook_pos_embed(self._absolute(tokens, offsets).expand_as(x))
        relations = self.relations(tokens)
        for block in self.blocks:
            x = block(x, relations)
        return self.unembed(self.ln_final(x))

    @torch.no_grad()
    def last_logits(
        self, tokens: Int[Tensor, "batch pos"], rows: int = 2048
    ) -> Float[Tensor, "batch d_vocab"]:
        """The logits at the last position, as of ``forward``; hooks hear words in another order.

        A prefix that words share is computed once: of all 2^T variants of a word of T symbols about
        two positions each, not T. An encoder sees every symbol from everywhere and shares nothing.

        Args:
            rows: the most words at once, which bounds the memory.
        """
        if self.config.is_encoder:
            return torch.cat([self(some)[:, -1] for some in tokens.split(rows)])
        words, where = tokens.unique(dim=0, return_inverse=True)  # sorted: neighbours share most
        return torch.cat([self._by_prefix(some) for some in words.split(rows)])[where]

    def _by_prefix(self, words: Int[Tensor, "words pos"]) -> Float[Tensor, "words d_vocab"]:
        """Position by position; the words are sorted."""
        relations, length = self.relations(words[:1]), words.shape[1]
        absolute = None
        if self.config.positions in ABSOLUTE:
            absolute = self.hook_pos_embed(self._absolute(words[:1], None))
        empty = words.new_empty(
            (0, 0, self.config.n_heads, self.config.d_head), dtype=self.W_E.dtype
        )
        memory: list[KeysValues] = [
            (empty, empty)
        ] * self.config.n_layers  # [pos, words, head, ...]
        prefix = torch.zeros(len(words), dtype=torch.long, device=words.device)
        for t in range(length):
            parent = prefix
            begins = torch.ones_like(parent, dtype=torch.bool)
            begins[1:] = (parent[1:] != parent[:-1]) | (words[1:, t] != words[:-1, t])
            prefix = begins.cumsum(0) - 1
            parent = parent[begins]
            x = self.hook_embed(self.embed(words[begins, t]))[:, None]
            if absolute is not None:
                x = x + absolute[:, t : t + 1]
            here = relations.rows(t, t + 1, length, words.device).until(t + 1)
            for layer, block in enumerate(self.blocks):
                assert isinstance(block, Block)
                keys, values = (
                    _grown(old, parent, own[:, :, 0])
                    for old, own in zip(memory[layer], block.keys_and_values(x, here), strict=True)
                )
                memory[layer] = keys, values
                x = block(x, here, (keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)))
        return self.unembed(self.ln_final(x))[:, 0]

    @torch.no_grad()
    def keep(self, tokens: Int[Tensor, "batch pos"]) -> Kept:
        """Runs the model and keeps what ``resume`` needs."""
        key = "hook_rot_k" if self.config.positions == "rotary" else "hook_k"
        names = ("hook_resid_pre", f"attn.{key}", "attn.hook_v")
        blocks = [f"blocks.{layer}." for layer in range(self.config.n_layers)]
        wanted = [block + name for block in blocks for name in names]
        logits, cache = self.run_with_cache(tokens, names_filter=wanted)
        kept = [[cache[block + name] for name in names] for block in blocks]
        return Kept(
            tuple(stream for stream, _, _ in kept),
            tuple((k.transpose(1, 2), v.transpose(1, 2)) for _, k, v in kept),
            logits,
            self.relations(tokens),
        )

    @torch.no_grad()
    def resume(
        self,
        kept: Kept,
        layer: int,
        x: Float[Tensor, "rows window d_model"],
        first: int,
        last_alone: bool = False,
    ) -> tuple[Float[Tensor, "rows some d_vocab"], int]:
        """Goes on from a kept run where a window of the stream differs.

        Args:
            kept: of a batch; the rows of ``x`` are copies of this batch, one after the other.
            layer: whose block comes next.
            x: what enters it at positions ``first``, ``first`` + 1, ...; elsewhere it is as kept.
            last_alone: of the last block, compute the last position alone.

        Returns:
            The logits at the positions that may differ, and the first of these.
        """
        for index in range(layer, self.config.n_layers):
            final = last_alone and index == self.config.n_layers - 1
            x, first = self._spread(kept, index, x, first, final)
        return self.unembed(self.ln_final(x)), first

    def _spread(
        self, kept: Kept, layer: int, x: Tensor, first: int, last_alone: bool
    ) -> tuple[Tensor, int]:
        """One block: its output wherever it may differ, and where that begins."""
        block = self.blocks[layer]
        assert isinstance(block, Block)
        new = block.keys_and_values(x, kept.rows(first, first + x.shape[1]))
        keys, values = (
            _inserted(old, own, first) for old, own in zip(kept.memory[layer], new, strict=True)
        )
        return self.reread(kept, layer, (keys, values), x, first, last_alone)

    @torch.no_grad()
    def reread(
        self,
        kept: Kept,
        layer: int,
        memory: KeysValues,
        x: Float[Tensor, "rows window d_model"],
        first: int,
        last_alone: bool = False,
    ) -> tuple[Float[Tensor, "rows some d_model"], int]:
        """One block that reads another memory, from the first position that differs in it.

        Args:
            memory: for each of the rows; it differs from the kept one at ``first`` or later.
            x: what enters the block at ``first``, ...; elsewhere it is as kept.

        Returns:
            What leaves the block at the positions that may differ, and the first of these.
        """
        copies, end = len(x) // len(kept.logits), kept.positions
        start = end - 1 if last_alone else 0 if self.config.is_encoder else first
        asking = kept.streams[layer][:, start:].repeat(copies, 1, 1)
        own = x[:, max(0, start - first) :]
        begin = max(0, first - start)
        asking[:, begin : begin + own.shape[1]] = own
        relations = kept.rows(start, end).copied(copies)
        return self.blocks[layer](asking, relations, memory), start

    @torch.no_grad()
    def local(
        self, kept: Kept, layer: int, x: Float[Tensor, "rows window d_model"], first: int
    ) -> Float[Tensor, "rows window d_model"]:
        """One block on a window alone, where all that it reads is as kept."""
        rows = kept.rows(first, first + x.shape[1])
        return self.blocks[layer](x, rows, kept.memory[layer])

    def _absolute(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "#batch pos d_model"]:
        """What is added to the embeddings."""
        length, shift = tokens.shape[1], 0
        position = torch.arange(length, device=tokens.device)[None]
        if offsets is not None:
            position, shift = position + offsets[:, None], int(offsets.max())
        if self.pos_embed is None:
            return sinusoidal(position, self.config.d_model).to(self.W_E.dtype)
        if length + shift > self.config.n_ctx:
            shifted = f", shifted by {shift}," if shift else ""
            raise UserError(
                f"a word of {length - 1} symbols{shifted} is longer than the learned positions "
                f"reach ({self.config.n_ctx - 1}): train with a larger --model.n-ctx"
            )
        return self.pos_embed(position)

    def relations(self, tokens: Int[Tensor, "batch pos"]) -> Relations:
        """Mask, bias and rotation of a batch, made once for all layers."""
        config, length, device = self.config, tokens.shape[1], tokens.device
        may = bias = rotation = None
        if config.mask != "causal":
            valid = tokens != END_ID if config.is_encoder else None
            may = allowed(config.mask, length, valid)[:, None].to(device)
        if config.positions == "alibi":
            bias = alibi(config.n_heads - config.averaging_heads, length, device)
        elif self.relative is not None:
            buckets = t5_buckets(distances(length, device), config.is_encoder)
            bias = self.relative(buckets).permute(2, 0, 1)
        elif config.positions == "rotary":
            rotation = rotations(length, config.d_head, device)
        if bias is not None and config.averaging_heads:
            bias = pad(bias, (0, 0, 0, 0, config.averaging_heads, 0))
        return Relations(may, bias, rotation)

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Float[Tensor, " d_model"]:
        """The sum of output biases that reached the residual stream before ``layer``."""
        total = self.W_U.new_zeros(self.config.d_model)
        for index, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            if index < layer or (index == layer and mlp_input):
                total = total + block.attn.b_O
            if index < layer and include_mlp_biases and block.mlp is not None:
                total = total + block.mlp.b_out
        return total

    def norms_on_the_way(self, layer: int, part: Literal["embed", "attn", "mlp"]) -> list[str]:
        """The norms between a part and the logits on its direct way, in their order.

        Args:
            layer: of the part; of no consequence for "embed", which stands before the first block.
            part: "attn" is a head's z W_O, "mlp" what ``hook_mlp_out`` hears.
        """
        config = self.config
        way: list[str] = []
        if config.norm_placement == "sandwich" and part == "attn":
            way.append(f"blocks.{layer}.ln1_post")
        if config.norm_placement == "post":
            own = ["ln1"] if config.mlp == "none" else ["ln1", "ln2"]
            stream = [f"blocks.{k}.{name}" for k in range(config.n_layers) for name in own]
            first = {"embed": 0, "attn": len(own) * layer, "mlp": len(own) * layer + 1}[part]
            way += stream[first:]
        return [*way, "ln_final"]


def _grown(
    old: Float[Tensor, "pos parents head d_head"],
    parent: Int[Tensor, " words"],
    own: Float[Tensor, "words head d_head"],
) -> Float[Tensor, "pos_plus_1 words head d_head"]:
    """Every word's memory: its parent's, and its own behind it. Copied once: that is what costs."""
    out = own.new_empty((len(old) + 1, *own.shape))
    if len(old):
        torch.index_select(old, 1, parent, out=out[:-1])
    out[-1] = own
    return out


def _inserted(
    old: Float[Tensor, "words head key d_head"],
    own: Float[Tensor, "rows head window d_head"],
    first: int,
) -> Float[Tensor, "rows head key d_head"]:
    """Copies of the old with their own ones from ``first`` on."""
    out = old.repeat(len(own) // len(old), 1, 1, 1)
    out[:, :, first : first + own.shape[2]] = own
    return out
