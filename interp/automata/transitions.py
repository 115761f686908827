"""Which heads carry a transition? Words that move an automaton are patched into words that do not.

A transition is a pair of states (source, target) of an automaton.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from automata.fa.dfa import DFA

from interp.automata.equivalence import Word
from interp.causal.metrics import ReadAt
from interp.causal.patching import patch
from interp.model import HookedModel
from interp.statistics import bootstrap_mean

Pair = tuple[Word, Word]
STILL = (-1, -1)
"""Stands for the control in place of a transition: a symbol changes, but no state of the automaton
does."""


def moving_pairs(
    dfa: DFA, symbols: Sequence[str], words: Sequence[Word], most: int, seed: int = 0
) -> dict[tuple[int, int], list[Pair]]:
    """Pairs of words that differ in one symbol, by the transition that this symbol makes.

    In the first word the symbol moves the automaton from one state to another, and the word is
    accepted. In the second word another symbol stands there, and the word is rejected. The pairs
    under ``STILL`` are the control: their two symbols do the same, and both words are accepted.

    Args:
        dfa: a complete automaton over the symbols.
        symbols: the alphabet.
        words: the words to look among, all of one length.
        most: the most pairs for each transition.
        seed: seed of the order in which words, positions and symbols are tried.

    Returns:
        By transition (source, target), pairs of an accepted word and its changed copy.
    """
    rng = np.random.default_rng(seed)
    pairs: dict[tuple[int, int], list[Pair]] = {}
    for index in rng.permutation(len(words)):
        word = words[index]
        states = _states(dfa, word)
        if states[-1] not in dfa.final_states:
            continue
        for at in rng.permutation(len(word)).tolist():
            moves = (states[at], states[at + 1])
            for other in rng.permutation(np.array(symbols)).tolist():
                changed = (*word[:at], other, *word[at + 1 :])
                after = _states(dfa, changed)
                still = other != word[at] and after == states
                if still or (moves[0] != moves[1] and after[-1] not in dfa.final_states):
                    group = pairs.setdefault(STILL if still else moves, [])
                    if len(group) < most:
                        group.append((word, changed))
                    break
    return dict(sorted(pairs.items()))


def carriers(
    model: HookedModel,
    tokens: tuple[torch.Tensor, torch.Tensor],
    transition: Sequence[tuple[int, int]],
    metric: ReadAt,
) -> pd.DataFrame:
    """The part of the verdict that each head restores when it is patched at all positions.

    Args:
        tokens: the moving words and their partners, [pair, pos] each, with BOS.
        transition: the transition of each pair.
        metric: the verdict's logit.

    Returns:
        One row per transition and head: source, target (both -1 for the control), layer, head,
        moved (by how much patching the head raises the partner's logit, mean over the pairs), low,
        high (95% bootstrap over pairs, NaN with one pair), whole (the moving word's logit minus the
        partner's, mean over the pairs), pairs.

    Raises:
        ValueError: the model has no attention, or the two batches differ in shape.
    """
    table = patch(model, *tokens, metric, ("z",), whole=True)
    table["moved"] = table["patched"] - table["corrupted"]
    table["whole"] = table["clean"] - table["corrupted"]
    table["transition"] = [transition[pair] for pair in table["pair"]]
    rows = []
    for (moves, layer, head), part in table.groupby(["transition", "layer", "head"], sort=True):
        moved = part["moved"].to_numpy()
        mean, low, high = moved.mean(), np.nan, np.nan
        if len(moved) > 1:
            mean, low, high = (float(value[0]) for value in bootstrap_mean(moved[:, None]))
        rows.append(
            {
                "source": moves[0],
                "target": moves[1],
                "layer": int(layer),
                "head": int(head),
                "moved": float(mean),
                "low": low,
                "high": high,
                "whole": float(part["whole"].mean()),
                "pairs": len(part),
            }
        )
    return pd.DataFrame(rows)


def _states(dfa: DFA, word: Word) -> list[int]:
    states = [dfa.initial_state]
    for symbol in word:
        states.append(dfa.transitions[states[-1]][symbol])
    return states
