"""Random automata for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from automata.fa.dfa import DFA


def random_dfa(states: int, symbols: Sequence[str], seed: int | Sequence[int]) -> DFA:
    """A complete automaton whose targets and accepting states are drawn evenly."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(states, size=(states, len(symbols)))
    return DFA(
        states=set(range(states)),
        input_symbols=set(symbols),
        transitions={
            q: dict(zip(symbols, row.tolist(), strict=True)) for q, row in enumerate(targets)
        },
        initial_state=0,
        final_states=set(np.flatnonzero(rng.random(states) < 0.5).tolist()),
    )
