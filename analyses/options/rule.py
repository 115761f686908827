"""Options of the question about the rule of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from analyses.options.shared import Checked, Seed

QUERIES, FEWEST_QUERIES = 20_000, 20
"""So many words a network is asked at most while automata are learned; and the least bound."""


@dataclass(frozen=True)
class Discovery(Checked):
    """Effort of the search for a rule.

    Attributes:
        words: the number of words on which automaton and network must agree.
        max_states: the search gives up when the automaton needs more states than this.
        queries: the most words that the network is asked while automata are learned. If they do
            not suffice, the best automaton so far is kept, and the answer says "not finished".
        seed: the seed that draws the words.
    """

    words: Annotated[int, Interval(ge=10, le=100_000)] = 2000
    max_states: Annotated[int, Interval(ge=1, le=10_000)] = 30
    queries: Annotated[int, Interval(ge=FEWEST_QUERIES, le=10_000_000)] = QUERIES
    seed: Seed = 0
