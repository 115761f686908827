"""The two sides of a pair in a word, and the cut of a decoder's side out of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.languages import END_ID


@dataclass(frozen=True)
class Sides:
    """Source and target of a batch of pairs, ``source > target``.

    The encoder reads BOS, the source and the border, at which it sees that the source has ended.
    The decoder begins at the border. A word without a border is all source.

    Attributes:
        tokens: the words, BOS first.
        border: the position of each word's border; the number of positions where it has none.
    """

    tokens: Int[Tensor, "batch pos"]
    border: Int[Tensor, " batch"]

    @classmethod
    def of(cls, tokens: Int[Tensor, "batch pos"], border: int) -> Sides:
        """
        Args:
            border: the id of the border.
        """
        at = tokens == border
        first = torch.where(at.any(dim=1), at.int().argmax(dim=1), tokens.shape[1])
        return cls(tokens, first)

    @cached_property
    def places(self) -> Int[Tensor, " pos"]:
        return torch.arange(self.tokens.shape[1], device=self.tokens.device)

    @cached_property
    def source(self) -> Bool[Tensor, "batch pos"]:
        """True where the encoder reads."""
        return (self.places <= self.border[:, None]) & (self.tokens != END_ID)

    @cached_property
    def target(self) -> Bool[Tensor, "batch pos"]:
        """True from the border on, padding included: a causal mask keeps it from being read."""
        return self.places >= self.border[:, None]

    @cached_property
    def longest_source(self) -> int:
        """The number of first positions that hold all sources, with BOS and border. On a GPU these
        are all positions: to ask it where the borders are would take longer."""
        if self.tokens.device.type != "cpu":
            return self.tokens.shape[1]
        return min(int(self.border.max()) + 1, self.tokens.shape[1])

    @cached_property
    def _rows(self) -> Int[Tensor, "batch some"]:
        """The positions of each word from its border on; past the word where it is longer."""
        positions = self.tokens.shape[1]
        if self.tokens.device.type == "cpu":
            positions = max(positions - int(self.border.min()), 1)
        return self.border[:, None] + torch.arange(positions, device=self.tokens.device)

    def cut(self) -> Int[Tensor, "batch some"]:
        """The tokens from the border on."""
        return self.tokens.gather(1, self._rows.clamp(max=self.tokens.shape[1] - 1))

    def put_back(self, x: Float[Tensor, "batch some d"]) -> Float[Tensor, "batch pos d"]:
        """Puts the rows of the tokens of ``cut`` at their positions; zeros elsewhere."""
        batch, positions = self.tokens.shape
        whole = x.new_zeros(batch, positions + x.shape[1], x.shape[2])
        rows = self._rows[..., None].expand_as(x)
        return whole.scatter(1, rows, x)[:, :positions]
