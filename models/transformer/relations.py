"""Relations of the positions of a batch, as attention is told them: mask, bias, rotation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.transformer.masks import allowed


@dataclass(frozen=True)
class Relations:
    """Mask, bias and rotation for the positions of a batch; the same in every layer.

    Attributes:
        may: True where a query may attend to a key; None means causal, with padding at the right.
        bias: added to the scores of every head, or None.
        rotation: cosine and sine of the angles by which queries and keys turn, or None.
        first: the position of the first query.
        empty: whether some query may attend to nothing; it then reads zeros.
    """

    may: Bool[Tensor, "#batch 1 query key"] | None = None
    bias: Float[Tensor, "head query key"] | None = None
    rotation: tuple[Float[Tensor, "pos 1 d_head"], Float[Tensor, "pos 1 d_head"]] | None = None
    first: int = 0
    empty: bool = False

    def rows(self, first: int, last: int, positions: int, device: torch.device) -> Relations:
        """The same for the queries first .. last - 1 only; they may still read all positions."""
        if (first, last) == (0, positions):
            return self
        may = self.may
        if may is None:
            may = allowed("causal", positions, device=device)[:, None]
        return Relations(
            may[..., first:last, :],
            None if self.bias is None else self.bias[:, first:last],
            self.rotation and (self.rotation[0][first:last], self.rotation[1][first:last]),
            first,
        )

    def until(self, keys: int) -> Relations:
        """The same while only the first ``keys`` positions exist."""
        may = None if self.may is None else self.may[..., :keys]
        bias = None if self.bias is None else self.bias[..., :keys]
        return replace(self, may=may, bias=bias)

    def mask(
        self, q: Float[Tensor, "batch head query d_head"]
    ) -> Bool[Tensor, "words 1 query key"]:
        """``may`` as a tensor, also where None stands for a causal mask."""
        if self.may is not None:
            return self.may
        return allowed("causal", q.shape[2], device=q.device)[:, None]

    def copied(self, copies: int) -> Relations:
        """The same for copies of the batch, one after the other."""
        if self.may is None or len(self.may) == 1:
            return self
        return replace(self, may=self.may.repeat(copies, 1, 1, 1))

    def keys(
        self, z: Float[Tensor, "batch query head d_head"]
    ) -> Float[Tensor, "#batch query 1 1"]:
        """The number of keys that each query may attend to, for the words of ``z``."""
        if self.may is None:
            return torch.arange(1, z.shape[1] + 1, device=z.device).to(z)[None, :, None, None]
        keys = self.may.sum(dim=-1).to(z)[:, 0, :, None, None]
        return keys if len(keys) == 1 else keys.repeat(len(z) // len(keys), 1, 1, 1)

    def with_queries_of_copies(
        self, q: Float[Tensor, "batch head query d_head"], copies: int
    ) -> Relations:
        """Treats the queries of all copies as extra queries of one batch of words, so that keys and
        values need no copy."""
        bias = None if self.bias is None else self.bias.repeat(1, copies, 1)
        return replace(self, may=self.mask(q).repeat(1, 1, copies, 1), bias=bias)


CAUSAL = Relations()

KeysValues = tuple[Tensor, Tensor]
"""Keys (with rotary positions, the turned ones) and values; each [batch, head, pos, d_head]."""
