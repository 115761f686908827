"""A key-value cache: every position of growing words is computed once."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.choices import ABSOLUTE
from models.transformer.block import Block
from models.transformer.incremental import IncrementalTransformer


class Memory:
    """The keys and values of growing words, in room that is made once.

    Args:
        model: a Transformer with a causal mask.
        rows: the number of words at the start; ``choose`` may make them more or fewer.
        longest: the most positions, BOS among them.

    Raises:
        UserError: learned positions do not reach so far.
    """

    def __init__(self, model: IncrementalTransformer, rows: int, longest: int) -> None:
        self.model, self.longest, self.length = model, longest, 0
        device = model.W_E.device
        blank = torch.zeros(1, longest, dtype=torch.long, device=device)
        self._relations = model.relations(blank)
        self._absolute = None
        if model.config.positions in ABSOLUTE:
            self._absolute = model.position_embedding(blank, None)
        self._room = self._made(rows)

    def _made(self, rows: int) -> tuple[Float[Tensor, "layer pos rows head width"], ...]:
        """Room for keys, and for values."""
        config = self.model.config
        shape = (config.n_layers, self.longest, rows, config.n_heads)
        widths = config.d_head, config.d_value
        return tuple(self.model.W_E.new_empty((*shape, width)) for width in widths)

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows d_vocab"]:
        """Reads one more token of each word: the logits after it."""
        model, at = self.model, self.length
        row = self._relations.rows(at, at + 1, self.longest, tokens.device).until(at + 1)
        x = model.hook_embed(model.embedded(tokens))[:, None]
        if self._absolute is not None:
            x = x + model.hook_pos_embed(self._absolute[:, at : at + 1])
        for keys, values, block in zip(*self._room, model.blocks, strict=True):
            assert isinstance(block, Block)
            for room, new in zip((keys, values), block.keys_and_values(x, row), strict=True):
                room[at] = new[:, :, 0]
            past = (room[: at + 1].permute(1, 2, 0, 3) for room in (keys, values))
            x = block(x, row, tuple(past))
        self.length += 1
        logits: Tensor = model.unembed(model.ln_final(x))
        return logits[:, 0]

    def choose(self, parents: Int[Tensor, " rows"]) -> None:
        """Makes the words copies of these rows. Where they stay as they are, nothing is copied."""
        rows = self._room[0].shape[2]
        if len(parents) == rows and bool((parents == torch.arange(rows).to(parents)).all()):
            return
        old, self._room = self._room, self._made(len(parents))
        for new, part in zip(self._room, old, strict=True):
            new[:, : self.length] = part[:, : self.length].index_select(2, parents)
