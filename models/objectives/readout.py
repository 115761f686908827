"""The reading of a model's logits: what one means, and where in a word the verdict stands."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

Output = Literal["sigmoid", "softmax", "conditional", "masked", "tags"]
""""sigmoid" judges each token by itself: may it come next? "softmax" says how likely each token
comes next, of all tokens together; "conditional" says so too, but only after the border of a pair,
that is, given its source; "masked" says how likely each token stands at the position itself, and
"tags" how likely each tags the symbol there."""
Reads = Literal["softmax", "sets"]
"""The reading of somebody else's network: as a "softmax", where a token may come next from a
probability on; or as "sets" of next tokens, where each may come next if its logit is above 0."""
LEAST = 0.01
"""A token that comes next with a smaller probability counts as one that may not, where the output
is a softmax."""
Readout = Literal["last", "bos"]
""""last" is the last symbol; "bos" is BOS, the class token, in a model where BOS sees the whole
word."""

Positions = TypeVar("Positions", bound=Any)  # an array or a tensor


def read_at(readout: Readout, lengths: Positions) -> Positions:
    """The position of the verdict on words of these lengths, [batch]; BOS is position 0."""
    return lengths if readout == "last" else lengths * 0
