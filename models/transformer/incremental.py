"""Forward passes that do not compute the same thing twice.

There are two of them, and both give the numbers of the plain forward pass. A *recording* of one run
holds what enters every block, and the keys and values that the block reads. A run that differs in a
few positions is then computed only from the first difference on. ``last_logits`` computes a prefix
that many words share only once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel
from models.choices import ABSOLUTE
from models.transformer.block import Block
from models.transformer.norm import Norm
from models.transformer.relations import KeysValues, Relations


@dataclass(frozen=True)
class _Recording:
    """One run of a batch; a run that differs in a few positions can start from it.

    Attributes:
        streams: the stream that enters each block, [batch, pos, d_model].
        memory: the keys (with rotary positions, the turned ones) and values that each block reads.
        logits: the logits at every position, [batch, pos, d_vocab].
        relations: mask, bias and rotation of the batch.
    """

    streams: tuple[Float[Tensor, "batch pos d_model"], ...]
    memory: tuple[KeysValues, ...]
    logits: Float[Tensor, "batch pos d_vocab"]
    relations: Relations

    @property
    def positions(self) -> int:
        return self.logits.shape[1]

    def rows(self, first: int, last: int) -> Relations:
        """The relations of the queries first .. last - 1."""
        return self.relations.rows(first, last, self.positions, self.logits.device)


class IncrementalTransformer(EmbeddingModel):
    """A Transformer that can leave out what it has computed before."""

    blocks: nn.ModuleList
    ln_final: Norm
    hook_embed: HookPoint
    hook_pos_embed: HookPoint

    @abstractmethod
    def relations(self, tokens: Int[Tensor, "batch pos"]) -> Relations:
        """Mask, bias and rotation of a batch."""

    @abstractmethod
    def position_embedding(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "#batch pos d_model"]:
        """The vectors that absolute positions add to the embeddings."""

    # -- runs that go on from a recording ---------------------------------------------------------

    @torch.no_grad()
    def record(self, tokens: Int[Tensor, "batch pos"]) -> _Recording:
        """Runs the model and keeps what ``resume``, ``reread`` and ``local`` start from."""
        rotary = self.config.positions == "rotary"
        key = "hook_rot_k" if rotary else "hook_k"
        names = ("hook_resid_pre", f"attn.{key}", "attn.hook_v")
        blocks = [f"blocks.{layer}." for layer in range(self.config.n_layers)]
        hooks = [block + name for block in blocks for name in names]
        logits, cache = self.run_with_cache(tokens, names_filter=hooks)
        tensors = [[cache[block + name] for name in names] for block in blocks]
        if not rotary:  # turned keys are normed already
            parts = [block.attn for block in self.blocks if isinstance(block, Block)]
            tensors = [
                [x, attn.normed(k, attn.k_norm), v]
                for attn, (x, k, v) in zip(parts, tensors, strict=True)
            ]
        return _Recording(
            tuple(stream for stream, _, _ in tensors),
            tuple((k.transpose(1, 2), v.transpose(1, 2)) for _, k, v in tensors),
            logits,
            self.relations(tokens),
        )

    @torch.no_grad()
    def resume(
        self,
        recording: _Recording,
        layer: int,
        x: Float[Tensor, "rows window d_model"],
        first: int,
        last_alone: bool = False,
    ) -> tuple[Float[Tensor, "rows some d_vocab"], int]:
        """Computes the logits from a stream that differs from the recording in a window.

        Args:
            recording: the recording of a batch; the rows of ``x`` are copies of this batch, one
                after the other.
            layer: the block that comes next.
            x: its input at positions ``first``, ``first`` + 1, ...; the recording has the other
                positions.
            last_alone: whether only the last position of the last block is computed.

        Returns:
            The logits at the positions that may differ, and the first of these positions.
        """
        for index in range(layer, self.config.n_layers):
            final = last_alone and index == self.config.n_layers - 1
            x, first = self._through(recording, index, x, first, final)
        return self.unembed(self.ln_final(x)), first

    def _through(
        self, recording: _Recording, layer: int, x: Tensor, first: int, last_alone: bool
    ) -> tuple[Tensor, int]:
        """One block: its output at the positions that may differ, and the first of these."""
        block = self.blocks[layer]
        assert isinstance(block, Block)
        new = block.keys_and_values(x, recording.rows(first, first + x.shape[1]))
        keys, values = (
            _inserted(old, part, first)
            for old, part in zip(recording.memory[layer], new, strict=True)
        )
        return self.reread(recording, layer, (keys, values), x, first, last_alone)

    @torch.no_grad()
    def reread(
        self,
        recording: _Recording,
        layer: int,
        memory: KeysValues,
        x: Float[Tensor, "rows window d_model"],
        first: int,
        last_alone: bool = False,
    ) -> tuple[Float[Tensor, "rows some d_model"], int]:
        """One block that reads other keys and values than the recorded ones.

        Args:
            memory: keys and values of each row; they differ from the recorded ones at ``first`` or
                later.
            x: the block's input at ``first``, ...; the recording has the other positions.

        Returns:
            The output of the block at the positions that may differ, and the first of these.
        """
        copies, end = len(x) // len(recording.logits), recording.positions
        start = end - 1 if last_alone else 0 if self.config.sees_ahead else first
        asking = recording.streams[layer][:, start:].repeat(copies, 1, 1)
        part = x[:, max(0, start - first) :]
        begin = max(0, first - start)
        asking[:, begin : begin + part.shape[1]] = part
        relations = recording.rows(start, end).copied(copies)
        return self.blocks[layer](asking, relations, memory), start

    @torch.no_grad()
    def local(
        self,
        recording: _Recording,
        layer: int,
        x: Float[Tensor, "rows window d_model"],
        first: int,
    ) -> Float[Tensor, "rows window d_model"]:
        """The output of one block at a window of positions that read the recorded memory."""
        rows = recording.rows(first, first + x.shape[1])
        return self.blocks[layer](x, rows, recording.memory[layer])

    # -- words that share a prefix ----------------------------------------------------------------

    @torch.no_grad()
    def last_logits(
        self, tokens: Int[Tensor, "batch pos"], rows: int = 2048
    ) -> Float[Tensor, "batch d_vocab"]:
        """The logits at the last position, equal to those of ``forward``.

        A prefix that words share is computed once. If the words are all 2^T variants of a word of T
        symbols, about two positions per word are computed instead of T. Hooks hear the words in
        another order than that of ``tokens``. In an encoder every position sees the whole word, so
        that nothing can be shared.

        Args:
            rows: the most words that are computed at once; fewer need less memory.
        """
        if self.config.sees_ahead:
            return torch.cat([self(some)[:, -1] for some in tokens.split(rows)])
        words, where = tokens.unique(dim=0, return_inverse=True)  # sorted: neighbours share most
        ends = []
        for some in words.split(rows):
            *_, (_, last) = self._by_prefix(some)
            ends.append(self.unembed(self.ln_final(last))[:, 0])
        return torch.cat(ends)[where]

    @torch.no_grad()
    def prefix_logits(
        self, tokens: Int[Tensor, "words pos"]
    ) -> list[tuple[Int[Tensor, " prefixes"], Float[Tensor, "prefixes d_vocab"]]]:
        if self.config.sees_ahead:
            return super().prefix_logits(tokens)
        return [(rows, self.unembed(self.ln_final(x))[:, 0]) for rows, x in self._by_prefix(tokens)]

    def _by_prefix(
        self, words: Int[Tensor, "words pos"]
    ) -> Iterator[tuple[Int[Tensor, " prefixes"], Float[Tensor, "prefixes 1 d_model"]]]:
        """Computes sorted words position by position.

        Yields, for each position, the first word of each distinct prefix that ends there, and what
        leaves the last block.
        """
        relations, length = self.relations(words[:1]), words.shape[1]
        absolute = None
        if self.config.positions in ABSOLUTE:
            absolute = self.hook_pos_embed(self.position_embedding(words[:1], None))
        keys, values = (
            self.W_E.new_empty((0, 0, self.config.n_heads, width))  # [pos, words, head, width]
            for width in (self.config.d_head, self.config.d_value)
        )
        memory: list[KeysValues] = [(keys, values)] * self.config.n_layers
        prefix = torch.zeros(len(words), dtype=torch.long, device=words.device)
        for t in range(length):
            parent = prefix
            begins = torch.ones_like(parent, dtype=torch.bool)
            begins[1:] = (parent[1:] != parent[:-1]) | (words[1:, t] != words[:-1, t])
            prefix = begins.cumsum(0) - 1
            parent = parent[begins]
            x = self.hook_embed(self.embedded(words[begins, t]))[:, None]
            if absolute is not None:
                x = x + absolute[:, t : t + 1]
            row = relations.rows(t, t + 1, length, words.device).until(t + 1)
            for layer, block in enumerate(self.blocks):
                assert isinstance(block, Block)
                keys, values = (
                    _grown(old, parent, new[:, :, 0])
                    for old, new in zip(memory[layer], block.keys_and_values(x, row), strict=True)
                )
                memory[layer] = keys, values
                x = block(x, row, (keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)))
            yield begins.nonzero()[:, 0], x


def _grown(
    old: Float[Tensor, "pos parents head d_head"],
    parent: Int[Tensor, " words"],
    new: Float[Tensor, "words head d_head"],
) -> Float[Tensor, "pos_plus_1 words head d_head"]:
    """The memory of every word: that of its prefix (its parent), then its own newest position.

    It is copied only once, because copying takes time.
    """
    out = new.new_empty((len(old) + 1, *new.shape))
    if len(old):
        torch.index_select(old, 1, parent, out=out[:-1])
    out[-1] = new
    return out


def _inserted(
    old: Float[Tensor, "words head key d_head"],
    new: Float[Tensor, "rows head window d_head"],
    first: int,
) -> Float[Tensor, "rows head key d_head"]:
    """Copies of the old keys or values; each copy gets its own new ones from ``first`` on."""
    out = old.repeat(len(new) // len(old), 1, 1, 1)
    out[:, :, first : first + new.shape[2]] = new
    return out
