"""Activation patching: identities that must hold on any model, and the table's bookkeeping.

Equality with TransformerLens' own tables is in test_transformer_lens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
import torch
from conftest import stir

from interp.model import activations, logit_at
from interp.patching import BY_HEAD_AND_POSITION, BY_POSITION, Site, all_sites, patch
from models.build import build
from models.config import ModelConfig
from models.languages import END_ID, Vocabulary
from models.transformer import HookedTransformer

Make = Callable[..., HookedTransformer]
END_LOGIT = logit_at(END_ID)
STREAM = tuple(c for c in BY_POSITION if c not in ("conv_out", "cell"))  # a Transformer has none
COMPONENTS = STREAM + BY_HEAD_AND_POSITION


@pytest.fixture(params=["none", "learned"])
def model(small_model: Make, request: pytest.FixtureRequest) -> HookedTransformer:
    """In float64, so that rounding, which hangs on the size of a batch, stays below 1e-9."""
    return small_model(positions=request.param).double()


@pytest.fixture
def pairs(model: HookedTransformer) -> tuple[torch.Tensor, torch.Tensor]:
    """Three pairs of six symbols that differ at position 3 alone, BOS being position 0."""
    return model.to_tokens(["abcabc", "bbabba", "caabca"]), model.to_tokens(
        ["abaabc", "bbcbba", "cabbca"]
    )


def test_the_pairs_are_one_substitution_apart(pairs: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert (pairs[0] != pairs[1]).nonzero()[:, 1].tolist() == [3, 3, 3]


def test_one_row_per_site_and_pair(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    table = patch(model, *pairs, END_LOGIT, COMPONENTS)
    layers, heads, positions = 2, 4, 7
    sites = layers * positions * (len(STREAM) + heads * len(BY_HEAD_AND_POSITION))
    assert len(table) == sites * 3
    assert not table.duplicated(["component", "layer", "head", "position", "pair"]).any()
    assert set(table["head"][table["component"].isin(BY_POSITION)]) == {-1}
    assert set(table["head"][table["component"].isin(BY_HEAD_AND_POSITION)]) == set(range(4))
    for name, tokens in zip(("clean", "corrupted"), pairs, strict=True):
        expected = model(tokens)[:, -1, END_ID].detach().numpy()
        assert table[name].to_numpy() == pytest.approx(expected[table["pair"]], abs=1e-9)
    effect = (table["metric"] - table["corrupted"]) / (table["clean"] - table["corrupted"])
    assert table["effect"].to_numpy() == pytest.approx(effect.to_numpy())


@pytest.mark.parametrize("component", COMPONENTS)
def test_nothing_happens_before_the_first_difference(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor], component: str
) -> None:
    table = patch(model, *pairs, END_LOGIT, [component])
    before = table[table["position"] < 3]
    assert before["effect"].abs().max() < 1e-9
    assert table[table["position"] >= 3]["effect"].abs().max() > 0.01


@pytest.mark.parametrize("component", ["z", "q", "resid_post", "mlp_out"])
def test_nothing_happens_in_the_last_layer_away_from_the_readout(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor], component: str
) -> None:
    table = patch(model, *pairs, END_LOGIT, [component]).query("layer == 1")
    assert table.query("position < 6")["effect"].abs().max() < 1e-9
    assert table.query("position == 6")["effect"].abs().max() > 0.01


def test_the_whole_difference_enters_at_the_differing_position(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """One substitution: the stream below the first layer at its position is all there is."""
    table = patch(model, *pairs, END_LOGIT, ["resid_pre"]).query("layer == 0 and position == 3")
    assert table["effect"].to_numpy() == pytest.approx(np.ones(3), abs=1e-9)


def test_the_whole_difference_leaves_at_the_readout(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    table = patch(model, *pairs, END_LOGIT, ["resid_post"]).query("layer == 1 and position == 6")
    assert table["effect"].to_numpy() == pytest.approx(np.ones(3), abs=1e-9)


def test_one_site_by_hand(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    clean, corrupted = pairs
    site = Site("z", layer=0, position=4, head=2)
    source = activations(model, clean, [site.hook])[site.hook]

    def replace(z: torch.Tensor, hook: object) -> torch.Tensor:
        z = z.clone()
        z[:, 4, 2] = source[:, 4, 2]
        return z

    logits = model.run_with_hooks(corrupted, fwd_hooks=[(site.hook, replace)])
    row = patch(model, clean, corrupted, END_LOGIT, ["z"]).query(
        "layer == 0 and position == 4 and head == 2"
    )
    assert row["metric"].to_numpy() == pytest.approx(
        logits[:, -1, END_ID].detach().numpy(), abs=1e-9
    )


KINDS: dict[str, dict[str, object]] = {
    "learned": {"positions": "learned"},
    "rotary, sandwich": {"positions": "rotary", "norm_placement": "sandwich"},
    "alibi, post": {"positions": "alibi", "norm_placement": "post", "mlp": "gated"},
    "t5, no mlp": {"positions": "t5", "norm": "rms", "mlp": "none"},
    "strict": {"mask": "strictly_causal", "n_layers": 3},
    "strict, additive": {"mask": "strictly_causal", "scores": "additive"},
    "encoder": {"mask": "bidirectional", "positions": "t5"},
    "lstm": {"architecture": "lstm"},
    "gru": {"architecture": "gru"},
    "cnn": {"architecture": "cnn", "kernel_size": 2},
}


@pytest.mark.parametrize("read", [4, -1, [2, 5, 5]])
@pytest.mark.parametrize("kind", KINDS)
def test_one_forward_pass_per_site_says_the_same(kind: str, read: object) -> None:
    """Whatever is reused or left out: every site of every kind of model."""
    config = ModelConfig(**{"n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 12, **KINDS[kind]})
    model = stir(build(config, Vocabulary(("a", "b", "c")), 1)).double().eval()
    clean = model.to_tokens(["abcab", "bbabb", "caabc"])
    corrupted = model.to_tokens(["abaab", "bbabc", "ccabc"])
    metric = logit_at(END_ID, read if isinstance(read, int) else torch.tensor(read))
    parts = {name.rsplit("hook_", 1)[1] for name in model.hook_dict if name.startswith("blocks.0")}
    components = [c for c in BY_POSITION + BY_HEAD_AND_POSITION if c in parts]
    table = patch(model, clean, corrupted, metric, components)
    expected = []
    for site in (site for c in components for site in all_sites(model, c, 6)):
        source = activations(model, clean, [site.hook])[site.hook]
        where = (slice(None), site.position, *([] if site.head is None else [site.head]))

        def put(x: torch.Tensor, hook: object, where=where, source=source) -> torch.Tensor:
            x = x.clone()
            x[where] = source[where]
            return x

        with torch.no_grad():
            logits = model.run_with_hooks(corrupted, fwd_hooks=[(site.hook, put)])
        expected += metric(logits).tolist()
    assert table["metric"].to_numpy() == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("rows", [1, 3, 4, 50])
def test_the_size_of_a_batch_changes_nothing(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor], rows: int
) -> None:
    whole = patch(model, *pairs, END_LOGIT, ["z", "resid_pre"])
    parts = patch(model, *pairs, END_LOGIT, ["z", "resid_pre"], rows=rows)
    assert parts["metric"].to_numpy() == pytest.approx(whole["metric"].to_numpy(), abs=1e-9)
    columns = ["component", "layer", "head", "position", "pair"]
    assert parts[columns].equals(whole[columns])


def test_equal_words_have_no_effect_to_speak_of(model: HookedTransformer) -> None:
    tokens = model.to_tokens(["abc"])
    assert patch(model, tokens, tokens, END_LOGIT)["effect"].isna().all()


def test_a_metric_of_its_own_position_for_every_pair(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """Pair 0 is read before the difference, so no site can do anything."""
    at = torch.tensor([2, 4, 6])
    table = patch(model, *pairs, logit_at(END_ID, at), ["resid_pre"])
    clean = model(pairs[0])[torch.arange(3), at, END_ID].detach().numpy()
    assert table["clean"].to_numpy()[:3] == pytest.approx(clean, abs=1e-9)
    assert table.query("pair == 0")["effect"].isna().all()
    late = table.query("pair == 1 and position > 4")
    assert late["effect"].abs().max() < 1e-9


def test_hooks_and_weights_are_left_as_they_were(
    model: HookedTransformer, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    before = model(pairs[0])
    patch(model, *pairs, END_LOGIT)
    assert not any(p.fwd_hooks or p.bwd_hooks for p in model.hook_points())
    assert torch.equal(model(pairs[0]), before)
    assert all(p.grad is None for p in model.parameters())


def test_faults_are_named(model: HookedTransformer) -> None:
    words = model.to_tokens(["abc"]), model.to_tokens(["ab"])
    plain = inspect.unwrap(patch)  # without the shape checks that only the tests have
    with pytest.raises(ValueError, match=r"one shape, got \(1, 4\) and \(1, 3\)"):
        plain(model, *words, END_LOGIT)
    with pytest.raises(ValueError, match="unknown component 'pattern': use one of resid_pre"):
        all_sites(model, "pattern", 3)
