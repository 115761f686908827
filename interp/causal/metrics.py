"""Metrics: one number per word from its logits, which is what is explained.

A higher number means more of the behaviour. Our models say of every token on its own whether it may
come next, so that probabilities are sigmoids; ``softmax=True`` is for models whose tokens exclude
each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

Metric = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, " batch"]]
"""One number per word from its logits."""

Positions = Int[Tensor, " batch"] | int
"""One position for all words, or one per word; BOS is position 0, and -1 is the last one."""


@dataclass(frozen=True)
class ReadAt:
    """A metric that reads one position of every word, and says which.

    A lens can then leave out what does not reach this position.

    Attributes:
        read: makes one number per word from the logits at the position, [*copies, batch, d_vocab],
            and the references.
        positions: the position where it reads.
        references: the other inputs of the metric for every word, [batch, ...].
    """

    read: Callable[..., Float[Tensor, "*copies batch"]]
    positions: Positions = -1
    references: tuple[Float[Tensor, "batch ..."], ...] = ()

    def __call__(
        self, logits: Float[Tensor, "*copies batch pos d_vocab"]
    ) -> Float[Tensor, "*copies batch"]:
        if isinstance(self.positions, int):
            return self.of_one(logits[..., self.positions, :])
        words = torch.arange(logits.shape[-3], device=logits.device)
        return self.of_one(logits[..., words, self.positions, :])

    def of_one(
        self, logits: Float[Tensor, "*copies batch d_vocab"]
    ) -> Float[Tensor, "*copies batch"]:
        """The metric, given only the logits at its position."""
        return self.read(logits, *self.references)

    def among(self, words: Int[Tensor, " some"]) -> ReadAt:
        """The same metric for some of the words, given by their rows."""
        at = self.positions if isinstance(self.positions, int) else self.positions[words]
        return replace(self, positions=at, references=tuple(r[words] for r in self.references))

    def where(self, length: int) -> Int[Tensor, " positions"]:
        """The positions counted from the front, on the CPU: one for all words, or one per word."""
        at = torch.as_tensor(self.positions).cpu().reshape(-1)
        return torch.where(at < 0, at + length, at)


def logit_at(token: int, positions: Positions = -1) -> ReadAt:
    """The logit of one token, given by its id."""
    return ReadAt(lambda logits: logits[..., token], positions)


def logit_difference_at(token: int, other: int, positions: Positions = -1) -> ReadAt:
    """The logit of one token minus that of another; tokens are given by their ids."""
    return ReadAt(lambda logits: logits[..., token] - logits[..., other], positions)


def probability_at(token: int, positions: Positions = -1, softmax: bool = False) -> ReadAt:
    """The probability of one token, given by its id: from 0 to 1."""
    if softmax:
        return ReadAt(lambda logits: logits.softmax(dim=-1)[..., token], positions)
    return ReadAt(lambda logits: logits[..., token].sigmoid(), positions)


def log_odds_at(token: int, positions: Positions = -1, softmax: bool = False) -> ReadAt:
    """The log odds of one token, given by its id.

    They are its logit where every token is judged alone. With ``softmax`` they are log p/(1 - p):
    its logit minus the log of the summed exponentials of all other logits.
    """
    if not softmax:
        return logit_at(token, positions)

    def read(logits: Tensor) -> Tensor:
        others = torch.arange(logits.shape[-1], device=logits.device) != token
        return logits[..., token] - logits[..., others].logsumexp(dim=-1)

    return ReadAt(read, positions)


def closeness_at(
    reference: Float[Tensor, "batch d_vocab"], positions: Positions = -1, softmax: bool = False
) -> ReadAt:
    """-KL(reference || logits) in nats: 0 if nothing changed; more negative if more changed.

    Args:
        reference: the logits of the run to stay close to, at the same positions.
        softmax: take one divergence over all tokens. Without it each token has a divergence of its
            own (allowed or not), and these are summed.
    """

    def read(logits: Tensor, reference: Tensor) -> Tensor:
        if softmax:
            log_p, log_q = reference.log_softmax(-1), logits.log_softmax(-1)
            return -(log_p.exp() * (log_p - log_q)).sum(-1)
        p = reference.sigmoid()
        yes = logsigmoid(reference) - logsigmoid(logits)
        no = logsigmoid(-reference) - logsigmoid(-logits)
        return -(p * yes + (1 - p) * no).sum(-1)

    return ReadAt(read, positions, (reference,))
