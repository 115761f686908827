"""A trial of the two readings of a network's logits: as a softmax, or as sets of next tokens.

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
CONSISTENT = 0.06
"""A reading under which more of the tokens are undecided is not consistent. Of small networks that
know their language, and whose readings disagree, those that were taught sets have 2.5% at most, and
language models 15% at least."""


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
    after every prefix of the words that the network makes under either; and "same", the share of
    tokens of which both readings say the same. Tokens are undecided, too, where none may come,
    although the word was made; and all are as sets if the logits are all above 0. A language model
    whose logits are shifted looks so. If both readings say the same of all tokens, little hangs on
    the choice, and it takes half as many undecided ones to leave sets.
    """
    readings = {reads: replace(network, reads=reads) for reads in NEAR}
    words = [word for net in readings.values() for word in net.drawn(WORDS, LONGEST, seed=0)]
    softmax, sets = (net.margins(words) for net in readings.values())
    trial = {
        "softmax": _undecided(softmax, NEAR["softmax"]),
        "sets": 1.0 if (sets > 0).all() else _undecided(sets, NEAR["sets"]),
        "same": float(((sets > 0) == (softmax > 0)).mean()),
    }
    most = CONSISTENT if trial["same"] < 1 else CONSISTENT / 2
    return replace(network, reads="sets" if trial["sets"] <= most else "softmax", trial=trial)


def _undecided(margins: Float[np.ndarray, "prefixes tokens"], near: float) -> float:
    stuck = (margins <= 0).all(axis=1, keepdims=True)
    return float((stuck | (np.abs(margins) < near)).mean())


def consistent(trial: Mapping[str, float]) -> list[Reads]:
    """The readings under which hardly any token is undecided."""
    return [reads for reads in NEAR if trial[reads] <= CONSISTENT]
