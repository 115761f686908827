"""Who may attend to whom: no mask lets anything through, and both paths agree on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.choices import Mask, Positions, Scores
from models.errors import UserError
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.masks import allowed, masked_softmax
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]


def unheard_of(positions: str, scores: str) -> bool:
    """Is there no such model?"""
    far = ("rotary", "alibi", "t5") if scores == "linear" else ("rotary",)
    return scores in ("additive", "linear") and positions in far


def valid_keys(lengths: list[int], positions: int) -> torch.Tensor:
    """True on the first positions of every row, False on its padding."""
    return torch.arange(positions) < torch.tensor(lengths)[:, None]


KINDS = [
    (mask, positions, scores)
    for mask in get_args(Mask)
    for positions in get_args(Positions)
    for scores in get_args(Scores)
    if not unheard_of(positions, scores)
]


def spectator(activation: torch.Tensor, hook: object) -> None:
    """A hook that only looks."""


def double(**changes: object) -> HookedTransformer:
    config = ModelConfig(**{**SMALL.__dict__, **changes})
    return stir(HookedTransformer(config, Vocabulary(("a", "b", "c")), 0)).double().eval()


# -- the softmax --------------------------------------------------------------------------------


def test_masked_softmax_with_valid_lengths() -> None:
    """Lengths 2 and 3 on a 2 x 2 x 4 batch: zeros past the length, rows that sum to 1."""
    scores = torch.rand(2, 2, 4, generator=torch.Generator().manual_seed(0))
    may = valid_keys([2, 3], 4)[:, None]  # the same for every query
    weights = masked_softmax(scores, may)
    assert (weights[0, :, 2:] == 0).all()
    assert (weights[1, :, 3:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2))
    for batch, length in enumerate((2, 3)):
        for row in range(2):
            raw = scores[batch, row, :length].exp()
            torch.testing.assert_close(weights[batch, row, :length], raw / raw.sum())


def test_a_query_that_may_attend_to_nothing_gets_zeros() -> None:
    may = torch.tensor([[False, False], [True, False]])
    scores = torch.zeros(2, 2, requires_grad=True)
    weights = masked_softmax(scores, may)
    assert weights.tolist() == [[0, 0], [1, 0]]
    weights.pow(2).sum().backward()
    assert scores.grad.isfinite().all()


def test_masks() -> None:
    assert allowed("causal", 3)[0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert allowed("strictly_causal", 3)[0].tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert allowed("bidirectional", 2)[0].tolist() == [[1, 1], [1, 1]]
    padded = allowed("bidirectional", 3, valid_keys([1, 3], 3))
    assert padded.tolist() == [[[1, 0, 0]] * 3, [[1, 1, 1]] * 3]


# -- in the model -------------------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "positions", "scores"), KINDS)
def test_the_pattern_obeys_its_mask(
    tokens: torch.Tensor, mask: str, positions: str, scores: str
) -> None:
    model = double(mask=mask, positions=positions, scores=scores)
    words = tokens.clone()
    words[1, 5:] = END_ID
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    _, cache = model.run_with_cache(words, names_filter=names)
    may = allowed(mask, 8, words != END_ID if mask == "bidirectional" else None)
    for name in names:
        pattern = cache[name]
        assert (pattern[~may[:, None].expand_as(pattern)] == 0).all()
        assert (pattern[may[:, None].expand_as(pattern)] > 0).all()
        rows = pattern.sum(-1)
        alone = mask == "strictly_causal"
        torch.testing.assert_close(rows[:, :, int(alone) :], torch.ones_like(rows)[:, :, alone:])
        assert not alone or (rows[:, :, 0] == 0).all()


def outputs(
    model: HookedTransformer, tokens: torch.Tensor, hooks: list[str]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits and the gradient of every parameter."""
    model.zero_grad()
    logits = model.run_with_hooks(tokens, fwd_hooks=[(name, spectator) for name in hooks])
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)).double()
    (logits * weights).sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


PAIRED = [
    (get_args(Mask)[(i + j) % 3], positions, scores)
    for i, positions in enumerate(get_args(Positions))
    for j, scores in enumerate(get_args(Scores))
    if not unheard_of(positions, scores)
]
"""Each choice beside each of another field."""


@pytest.mark.parametrize(("mask", "positions", "scores"), PAIRED)
def test_the_fused_path_is_the_listened_one(
    tokens: torch.Tensor, mask: str, positions: str, scores: str
) -> None:
    """Logits and all gradients; the last words are padded."""
    model = double(mask=mask, positions=positions, scores=scores)
    words = tokens.clone()
    words[2, 6:] = END_ID
    words[3, 1:] = END_ID
    fused, gradients = outputs(model, words, [])
    points = [f"blocks.{k}.attn.hook_{n}" for k in (0, 1) for n in ("attn_scores", "result")]
    listened, expected = outputs(model, words, points)
    torch.testing.assert_close(fused, listened, rtol=0, atol=1e-9)
    assert fused.abs().max() > 1
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        torch.testing.assert_close(gradient, expected[name], rtol=1e-7, atol=1e-7)
    with torch.no_grad():  # other kernels serve where no gradient is asked for
        torch.testing.assert_close(model(words), listened, rtol=0, atol=1e-9)
        single = model.float()(words)
        torch.testing.assert_close(single.double(), listened, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("positions", get_args(Positions))
def test_the_first_position_of_a_strictly_causal_model_hears_nothing(
    small_model: Make, tokens: torch.Tensor, positions: str
) -> None:
    model = small_model(mask="strictly_causal", positions=positions)
    for names in (["hook_z"], ["hook_z", "hook_pattern"]):
        keep = {f"blocks.{k}.attn.{name}" for k in (0, 1) for name in names}
        _, cache = model.run_with_cache(tokens, names_filter=lambda name, keep=keep: name in keep)
        assert (cache["blocks.1.attn.hook_z"][:, 0] == 0).all()
        assert (cache["blocks.1.attn.hook_z"][:, 1:] != 0).all()
    model(tokens).pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


WORDS = st.lists(st.integers(2, 4), min_size=2, max_size=9)
ORDERED = [kind for kind in KINDS if kind[0] != "bidirectional"]


@cache
def of_kind(mask: str, positions: str, scores: str) -> HookedTransformer:
    return double(mask=mask, positions=positions, scores=scores)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.sampled_from(ORDERED), WORDS, st.data())
def test_what_comes_later_changes_nothing_before(
    kind: tuple[str, str, str], word: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(word)))
    ending = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    first, second = torch.tensor([[0, *word]]), torch.tensor([[0, *word[: at - 1], *ending]])
    model = of_kind(*kind)
    with torch.no_grad():
        difference = model(first)[:, :at] - model(second)[:, :at]
    assert difference.abs().max() < 1e-10


@pytest.mark.parametrize("scores", get_args(Scores))
@pytest.mark.parametrize("mask", ["causal", "strictly_causal"])
def test_a_key_and_a_value_reach_their_own_position_only_where_it_may_see_itself(
    small_model: Make, tokens: torch.Tensor, mask: str, scores: str
) -> None:
    model = small_model(mask=mask, scores=scores, n_layers=1)

    def z(*hooks: tuple[str, Callable[..., torch.Tensor]]) -> torch.Tensor:
        out: list[torch.Tensor] = []
        keep = ("blocks.0.attn.hook_z", lambda x, hook: out.append(x.detach()))
        model.run_with_hooks(tokens, fwd_hooks=[*hooks, keep])
        return out[0]

    def edit(activation: torch.Tensor, hook: object) -> torch.Tensor:
        changed = activation.clone()
        changed[:, 4] += 5.0
        return changed

    for name in ("hook_k", "hook_v"):
        moved = (z((f"blocks.0.attn.{name}", edit)) - z()).abs().amax(dim=(0, 2, 3))
        first = 4 if mask == "causal" else 5
        assert (moved[:first] < 1e-6).all(), name
        assert (moved[first:] > 1e-4).all(), name


# -- the encoder and its padding ----------------------------------------------------------------


@pytest.mark.parametrize("positions", get_args(Positions))
@pytest.mark.parametrize("scores", get_args(Scores))
def test_padding_changes_nothing_for_an_encoder(positions: str, scores: str) -> None:
    if unheard_of(positions, scores):
        return
    model = double(mask="bidirectional", positions=positions, scores=scores)
    word = torch.tensor([[0, 2, 3, 3, 4]])
    alone = model(word)
    for more in (1, 7):
        padded = torch.nn.functional.pad(word, (0, more), value=END_ID)
        torch.testing.assert_close(model(padded)[:, :5], alone, rtol=0, atol=1e-10)
    longer = torch.tensor([[0, 2, 3, 3, 4, 2, 2, 2]])
    together = torch.cat([torch.nn.functional.pad(word, (0, 3), value=END_ID), longer])
    torch.testing.assert_close(model(together)[:1, :5], alone, rtol=0, atol=1e-10)
    torch.testing.assert_close(model(together)[1:], model(longer), rtol=0, atol=1e-10)


def test_an_encoder_sees_what_follows(small_model: Make, tokens: torch.Tensor) -> None:
    model, changed = small_model(mask="bidirectional"), tokens.clone()
    changed[:, -1] = 2 + (tokens[:, -1] - 1) % 3
    assert ((model(tokens) - model(changed))[:, 0].abs().amax(dim=1) > 1e-3).all()


@pytest.mark.parametrize("window", [1, 2, 5, 9])
def test_a_window_lets_the_last_keys_through(window: int) -> None:
    found = allowed("causal", 7, window=window)[0]
    for query, key in np.ndindex(7, 7):
        assert bool(found[query, key]) == (key <= query < key + window)


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "learned"])
def test_what_is_out_of_reach_changes_nothing(small_model: Make, positions: str) -> None:
    """Two layers that see three positions reach back four: 2 x (3 - 1)."""
    model = small_model(window=3, positions=positions)
    tokens = torch.tensor([[0, 2, 3, 4, 2, 3, 4, 2, 3]])
    plain = model(tokens).detach()
    for place in range(1, 9):
        other = tokens.clone()
        other[0, place] = 2 if tokens[0, place] != 2 else 4
        moved = (model(other).detach() - plain).abs().amax(dim=2)[0]
        reached = [at for at in range(9) if moved[at] > 0]
        assert reached == list(range(place, min(place + 5, 9)))


def test_a_window_as_long_as_the_word_is_no_window(small_model: Make, tokens: Tensor) -> None:
    wide, none = small_model(window=tokens.shape[1]), small_model()
    torch.testing.assert_close(wide(tokens), none(tokens))
    assert (small_model(window=2)(tokens) - none(tokens)).abs().max() > 1e-3


def test_what_shares_a_prefix_is_computed_once_in_a_window_too(small_model: Make) -> None:
    model = small_model(window=2)
    tokens = torch.tensor([[0, 2, 3, 4, 2], [0, 2, 3, 4, 4], [0, 3, 3, 4, 2]])
    with torch.no_grad():
        torch.testing.assert_close(model.last_logits(tokens), model(tokens)[:, -1])


def test_a_window_needs_a_causal_mask() -> None:
    for mask in ("bidirectional", "strictly_causal"):
        with pytest.raises(UserError, match="a sliding window needs the causal mask"):
            ModelConfig(mask=mask, window=3)
    with pytest.raises(UserError, match="window 3 belongs to transformer"):
        ModelConfig(architecture="lstm", window=3)
    with pytest.raises(UserError, match="each position would see itself alone"):
        ModelConfig(window=1)
    assert ModelConfig(window=3).kind == "window-3"
