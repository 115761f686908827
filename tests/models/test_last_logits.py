"""The last position's logits, prefix by prefix; what each position adds to one directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args
from unittest import mock

import pytest
import torch
from conftest import SMALL, stir
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_variants import CHOICES, FIXED, SIZES, Values, model_config, refused

from interp.explanations.games import subsets
from interp.heads.logit_attribution import direct_by_position, direct_logit_attribution
from models.choices import Counting, Norm, NormPlacement
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]
ABC = Vocabulary(("a", "b", "c"))


@st.composite
def models(draw: st.DrawFn) -> Values:
    """Every Transformer, in small; but for taggers, which read pairs."""
    choices = {name: CHOICES[name] for name in CHOICES if name != "architecture"}
    choices["output"] = tuple(each for each in choices["output"] if each != "tags")
    shapes = (
        "n_layers",
        "n_heads",
        "counting.averaging_heads",
        "d_model",
        "head_width",
        "value_width",
    )
    fields = choices | {name: SIZES[name] for name in shapes}
    # Where all fields are drawn, almost no model is left that there is.
    names = draw(st.lists(st.sampled_from(list(fields)), min_size=4, max_size=10, unique=True))
    small = {"n_heads": 2, "d_model": 12}
    return small | {name: draw(st.sampled_from(fields[name])) for name in names}


@st.composite
def batches(draw: st.DrawFn) -> torch.Tensor:
    """Words of few symbols: many share a prefix, and some are the same."""
    length = draw(st.integers(0, 6))
    word = st.lists(st.integers(2, 4), min_size=length, max_size=length)
    words = draw(st.lists(word, min_size=1, max_size=12))
    words += draw(st.lists(st.sampled_from(words), max_size=4))
    return torch.tensor([[0, *word] for word in draw(st.permutations(words))])


@pytest.mark.slow
@settings(max_examples=35)
@given(models(), batches(), st.sampled_from([1, 2, 5, 4096]))
def test_they_are_those_of_the_forward_pass(asked: Values, tokens: torch.Tensor, rows: int) -> None:
    assume(not refused(asked))
    config = model_config(FIXED | asked)
    model = stir(HookedTransformer(config, ABC, 0)).double().eval()
    expected = model(tokens)[:, -1]
    found = model.last_logits(tokens, rows)
    assert found.shape == (len(tokens), len(ABC))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ["none", "learned", "rotary", "alibi", "t5"])
def test_they_are_as_exact_in_single_precision(small_model: Make, positions: str) -> None:
    """On all coalitions of a word; the words do not say the same."""
    model = small_model(positions=positions)
    keep = torch.as_tensor(subsets(8))
    words = torch.where(keep, torch.tensor([2, 3, 4, 2, 2, 3, 4, 3]), 2)
    tokens = torch.nn.functional.pad(words, (1, 0))
    found = model.last_logits(tokens)
    torch.testing.assert_close(found, model(tokens)[:, -1], atol=1e-5, rtol=1e-5)
    assert found[:, END_ID].std() > 0.01
    assert not found.requires_grad


def test_each_prefix_is_computed_once(model: HookedTransformer) -> None:
    """Of the 2^6 words of two symbols and of their copies: 1 + 2 + 4 + ... positions, not 7 x."""
    keep = torch.as_tensor(subsets(6))
    tokens = torch.nn.functional.pad(torch.where(keep, 2, 3), (1, 0)).repeat(3, 1)
    tokens = tokens[torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))]
    heard = []
    with mock.patch.object(
        model.embed, "forward", lambda ids: heard.append(len(ids)) or model.embed.weight[ids]
    ):
        found = model.last_logits(tokens)
    assert heard == [1, 2, 4, 8, 16, 32, 64]
    torch.testing.assert_close(found, model(tokens)[:, -1], atol=1e-5, rtol=1e-5)


# -- directly, by position ----------------------------------------------------------------------


@pytest.mark.parametrize("placement", get_args(NormPlacement))
@pytest.mark.parametrize("norm", get_args(Norm))
@pytest.mark.parametrize("mlp", ["none", "plain"])
def test_positions_share_out_what_heads_and_embedding_add(
    tokens: torch.Tensor, norm: str, placement: str, mlp: str
) -> None:
    if norm == "none" and placement != "pre":
        return
    others = (
        {"mask": "bidirectional", "positions": "learned", "counting": Counting(head_norm=True)},
        {"counting": Counting(averaging_heads=2, counters=True)},
    )
    for more in ({}, *(others if (mlp, placement) == ("plain", "pre") else ())):
        changes = {"norm": norm, "norm_placement": placement, "mlp": mlp, **more}
        config = ModelConfig(**{**SMALL.__dict__, **changes})
        model = stir(HookedTransformer(config, ABC)).eval()
        for at, token in ((4, END_ID), (0, 2)):
            table = direct_logit_attribution(model, tokens[:1], torch.tensor([at]), token)
            heads = table["part"].str.fullmatch(r"L\d+H\d+|embed")
            assert heads.sum() == 1 + 2 * 4
            found = direct_by_position(model, tokens[0], at, token)
            assert found.shape == (8,)
            assert found.sum() == pytest.approx(table["value"][heads].sum(), abs=1e-4)
            assert config.sees_ahead or not found[at + 1 :].any()


def test_a_position_s_share_is_the_change_when_its_value_goes(small_model: Make) -> None:
    """One layer without MLP, the final norm's scale held: the logit falls by the share."""
    model = small_model(n_layers=1, mlp="none")
    tokens, at = torch.tensor([[0, 2, 4, 3, 2]]), 4
    logits, cache = model.run_with_cache(tokens)
    found = direct_by_position(model, tokens[0], at, END_ID)
    scale = cache["ln_final.hook_scale"]
    for position in range(4):

        def silence(v: torch.Tensor, hook: object, position: int = position) -> torch.Tensor:
            v = v.clone()
            v[:, position] = 0
            return v

        hooks = [
            ("blocks.0.attn.hook_v", silence),
            ("ln_final.hook_scale", lambda x, hook: scale),
        ]
        after = model.run_with_hooks(tokens, fwd_hooks=hooks)
        fallen = float((logits - after)[0, at, END_ID].detach())
        assert found[position] == pytest.approx(fallen, abs=1e-5)
        assert abs(fallen) > 1e-3
