"""Which reading of a network's logits is consistent: as a softmax, or as sets of next tokens?

A network that was taught sets says yes or no to each token by itself, so hardly any of its logits
lies near 0. A language model was taught how often each token comes. It grades its tokens, and only
the differences between its logits mean anything, so many of them lie on either side of 0 by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from models.foreign.network import Foreign
from models.objectives.readout import Reads

WORDS, LONGEST = 50, 12
"""So many words of each reading, of so many symbols at most, are looked at."""
NEAR: Mapping[Reads, float] = {"softmax": 1.0, "sets": 2.0}
"""A token is undecided if its odds are within so many nats of the threshold: a factor of about 3
or 7. A language model rightly gives rare symbols probabilities near the threshold."""
CONSISTENT = 0.05
"""A reading under which more of the tokens are undecided is not consistent."""


def named_by(config: Any) -> Reads | None:
    """The reading that a configuration of ``transformers`` names as the kind of its problem."""
    kinds: dict[str | None, Reads] = {
        "multi_label_classification": "sets",
        "single_label_classification": "softmax",
    }
    return kinds.get(getattr(config, "problem_type", None))


def tried(network: Foreign) -> Foreign:
    """The network, read as sets if this reading is consistent, and else as a softmax.

    Its ``trial`` has the share of undecided tokens under either reading: of symbols and the end,
    after every prefix of the words that the network makes; and "same", the share of tokens of which
    both readings say the same. Tokens are undecided, too, where none may come, although the word
    was made; and all are if the logits are all above 0. A language model whose logits are shifted
    looks so.
    """
    both = {reads: replace(network, reads=reads) for reads in NEAR}
    words = [word for one in both.values() for word in one.drawn(WORDS, LONGEST, seed=0)]
    margins = {reads: one.margins(words) for reads, one in both.items()}
    trial = {reads: _undecided(of_one, NEAR[reads]) for reads, of_one in margins.items()}
    if (margins["sets"] > 0).all():
        trial["sets"] = 1.0
    best: Reads = "sets" if "sets" in consistent(trial) else "softmax"
    same = float(((margins["sets"] > 0) == (margins["softmax"] > 0)).mean())
    return replace(network, reads=best, trial={**trial, "same": same})


def _undecided(margins: Float[np.ndarray, "prefixes tokens"], near: float) -> float:
    stuck = (margins <= 0).all(axis=1, keepdims=True)
    return float((stuck | (np.abs(margins) < near)).mean())


def consistent(trial: Mapping[Any, float]) -> list[Reads]:
    """The readings under which hardly any token is undecided."""
    return [reads for reads in NEAR if trial[reads] <= CONSISTENT]
