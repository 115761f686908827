"""Pairs of words that move an automaton, and what each head carries of a move, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from brute import words_up_to
from test_extraction import of_regex

from interp.automata.equivalence import Word
from interp.automata.extraction import canonical
from interp.automata.rules import Families
from interp.automata.transitions import STILL, carriers, moving_pairs
from interp.causal.metrics import logit_at
from models.languages import END_ID
from models.transformer.model import HookedTransformer

ABC = ("a", "b", "c")
FIVES = [word for word in words_up_to(ABC, 5) if len(word) == 5]
PATTERNS = ["(a|b|c)*a(a|b|c)*b(a|b|c)*", "(b|c)*(a(b|c)*a(b|c)*)*", "(ab|c)*", "a(a|b|c)*b"]


def states(pattern: str, word: Word) -> list[int]:
    """From the start on, with every symbol."""
    dfa = canonical(of_regex(pattern, "abc").dfa, ABC)
    return list(dfa.read_input_stepwise(word, ignore_rejection=True))


# -- pairs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_that_move_the_automaton(pattern: str, seed: int) -> None:
    """One symbol apart; the first accepted, the second not; and the symbol makes the transition."""
    lang = of_regex(pattern, "abc")
    dfa = canonical(lang.dfa, ABC)
    pairs = moving_pairs(dfa, ABC, FIVES, most=20, seed=seed)
    assert list(pairs) == sorted(pairs)
    assert STILL in pairs or pattern == "(ab|c)*"
    for move, found in pairs.items():
        assert 0 < len(found) <= 20
        for word, partner in found:
            (at,) = (i for i in range(5) if word[i] != partner[i])
            assert lang.contains(word)
            before, after = states(pattern, word), states(pattern, partner)
            if move == STILL:
                assert before == after
            else:
                assert not lang.contains(partner)
                assert (before[at], before[at + 1]) == move
                assert move[0] != move[1]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_transition_that_a_symbol_can_undo_has_pairs(pattern: str) -> None:
    """Brute force over all words and partners of one length."""
    lang = of_regex(pattern, "abc")
    expected = set()
    for word in filter(lang.contains, FIVES):
        before = states(pattern, word)
        for at in range(5):
            if before[at] != before[at + 1]:
                for other in ABC:
                    if not lang.contains((*word[:at], other, *word[at + 1 :])):
                        expected.add((before[at], before[at + 1]))
    pairs = moving_pairs(canonical(lang.dfa, ABC), ABC, FIVES, most=10_000)
    assert set(pairs) - {STILL} == expected


def test_no_more_pairs_than_asked_and_the_seed_draws_them() -> None:
    dfa = canonical(Families(ABC).contains("a", "b").dfa, ABC)
    few = moving_pairs(dfa, ABC, FIVES, most=3)
    assert {len(found) for found in few.values()} == {3}
    assert few == moving_pairs(dfa, ABC, FIVES, most=3)
    assert few != moving_pairs(dfa, ABC, FIVES, most=3, seed=1)


def test_without_an_accepted_word_there_are_no_pairs() -> None:
    dfa = canonical(Families(ABC).contains("a").dfa, ABC)
    assert moving_pairs(dfa, ABC, [("b", "c"), ("c", "c")], most=3) == {}
    assert moving_pairs(dfa, ABC, [], most=3) == {}


# -- heads --------------------------------------------------------------------------------------

WORDS = [("abcab", "abbab"), ("ccabc", "cbabc"), ("aabca", "aabcb")]
MOVES = [(0, 1), (0, 1), STILL]


@pytest.fixture
def tokens(model: HookedTransformer) -> tuple[torch.Tensor, torch.Tensor]:
    vocabulary = model.vocabulary
    moving, partner = (
        torch.as_tensor(vocabulary.words([tuple(pair[side]) for pair in WORDS]).tokens)
        for side in (0, 1)
    )
    return moving, partner


def by_hand(
    model: HookedTransformer, tokens: tuple[torch.Tensor, torch.Tensor], layer: int, head: int
) -> np.ndarray:
    """The logit's change with the head's z of the moving words put into their partners' run."""
    moving, partner = tokens
    name = f"blocks.{layer}.attn.hook_z"
    with torch.no_grad():
        _, cache = model.run_with_cache(moving)

        def put(z: torch.Tensor, hook: object) -> torch.Tensor:
            z = z.clone()
            z[:, :, head] = cache[name][:, :, head]
            return z

        patched = model.run_with_hooks(partner, fwd_hooks=[(name, put)])
        return (patched - model(partner))[:, -1, END_ID].numpy()


def test_what_a_head_carries_by_hand(
    model: HookedTransformer, tokens: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """The mean over each transition's pairs, and the whole difference of the two runs."""
    table = carriers(model, tokens, MOVES, logit_at(END_ID))
    with torch.no_grad():
        whole = (model(tokens[0]) - model(tokens[1]))[:, -1, END_ID].numpy()
    assert len(table) == 2 * 2 * 4
    for row in table.itertuples():
        of = [i for i, move in enumerate(MOVES) if move == (row.source, row.target)]
        moved = by_hand(model, tokens, row.layer, row.head)[of]
        assert row.moved == pytest.approx(moved.mean(), abs=1e-6)
        assert row.whole == pytest.approx(whole[of].mean(), abs=1e-6)
        assert row.pairs == len(of)
        if len(of) == 1:
            assert np.isnan([row.low, row.high]).all()
        else:
            assert moved.min() - 1e-6 <= row.low <= row.moved <= row.high <= moved.max() + 1e-6
    assert table["moved"].abs().max() > 0.01


def test_the_table_of_carriers(
    model: HookedTransformer, tokens: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """By transition, the control first, then by layer and head."""
    table = carriers(model, tokens, MOVES, logit_at(END_ID))
    assert list(table) == [
        *("source", "target", "layer", "head", "moved", "low", "high", "whole", "pairs")
    ]
    places = list(zip(*(table[name] for name in list(table)[:4]), strict=True))
    assert places == [
        (*move, layer, head) for move in (STILL, (0, 1)) for layer in range(2) for head in range(4)
    ]


def test_nothing_moves_between_equal_words(
    model: HookedTransformer, tokens: tuple[torch.Tensor, torch.Tensor]
) -> None:
    table = carriers(model, (tokens[0], tokens[0]), MOVES, logit_at(END_ID))
    assert table["moved"].abs().max() < 1e-6
    assert table["whole"].abs().max() < 1e-6


def test_all_heads_of_a_network_of_heads_alone_carry_the_rest(
    small_model: Callable[..., HookedTransformer], tokens: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """One layer without an MLP: where the last symbols are equal, the heads' shares, before the
    last norm, add up to the whole."""
    model = small_model(n_layers=1, mlp="none", norm="none")
    moving, partner = (each[:2] for each in tokens)
    table = carriers(model, (moving, partner), [(0, 1)] * 2, logit_at(END_ID))
    assert table["moved"].sum() == pytest.approx(table["whole"].iloc[0], abs=1e-5)
    assert abs(table["whole"].iloc[0]) > 0.01
