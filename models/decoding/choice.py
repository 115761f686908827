"""Changes to a model's next-token distribution before a token is drawn from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.decoding.limits import check


@dataclass(frozen=True)
class Choice:
    """A rule for drawing the next token.

    The steps are taken in this order: penalties, temperature, the k most likely tokens, the fewest
    tokens that together have the probability p.

    Attributes:
        temperature: 1 leaves the distribution as it is; below 1 likely tokens become likelier, and
            at 0 the likeliest token is taken (greedy); above 1 all become more alike.
        top_k: only so many of the likeliest tokens may be drawn; 0 allows all (Fan et al. 2018).
        top_p: only the likeliest tokens that together reach this probability may be drawn
            (Holtzman et al. 2020, nucleus sampling).
        frequency_penalty: taken off a token's log-probability each time that the word has it.
        presence_penalty: taken off once if the word has it at all.

    Raises:
        UserError: a number is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        check(vars(self))

    def __call__(
        self,
        log_probabilities: Float[Tensor, "rows d_vocab"],
        counts: Int[Tensor, "rows d_vocab"],
    ) -> Float[Tensor, "rows d_vocab"]:
        """The changed distribution, as log-probabilities; -inf where a token may not be drawn.

        Args:
            log_probabilities: those of the model.
            counts: how often each word has each token so far.
        """
        scores = log_probabilities - self.frequency_penalty * counts
        scores = scores - self.presence_penalty * (counts > 0)
        if self.temperature == 0:
            best = scores.argmax(dim=-1, keepdim=True)
            return torch.full_like(scores, -torch.inf).scatter(-1, best, 0.0)
        # The best score is 0: divided by any temperature it stays finite.
        lowest = torch.finfo(scores.dtype).tiny
        scores = (scores - scores.amax(dim=-1, keepdim=True)) / max(self.temperature, lowest)
        if self.top_k:
            least = scores.topk(min(self.top_k, scores.shape[-1])).values[..., -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        if self.top_p < 1:
            ordered, order = scores.softmax(dim=-1).sort(descending=True, dim=-1, stable=True)
            before = ordered.cumsum(dim=-1) - ordered
            out = torch.zeros_like(before, dtype=torch.bool)
            out.scatter_(-1, order, before >= self.top_p)
            scores = scores.masked_fill(out, -torch.inf)
        return scores.log_softmax(dim=-1)
