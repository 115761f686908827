"""Activation patching: identities that must hold on any model, and the table's bookkeeping.

Equality with TransformerLens' own tables is in test_transformer_lens.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import stir
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from interp.causal.metrics import (
    ReadAt,
    closeness_at,
    logit_at,
    logit_difference_at,
    probability_at,
)
from interp.causal.patching import over_pairs, patch
from interp.causal.sites import (
    BY_HEAD_AND_POSITION,
    BY_POSITION,
    COMPONENTS,
    PLACE,
    Site,
    all_sites,
)
from interp.model import activations
from models.base import LanguageModel, build
from models.choices import Counting
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]
END_LOGIT = logit_at(END_ID)
STREAM = tuple(c for c in BY_POSITION if c not in ("conv_out", "cell"))  # a Transformer has none
MIXED = STREAM + BY_HEAD_AND_POSITION


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


def test_the_pairs_are_one_substitution_apart(pairs: tuple[Tensor, Tensor]) -> None:
    assert (pairs[0] != pairs[1]).nonzero()[:, 1].tolist() == [3, 3, 3]


def test_one_row_per_site_and_pair(model: HookedTransformer, pairs: tuple[Tensor, Tensor]) -> None:
    table = patch(model, *pairs, END_LOGIT, MIXED)
    layers, heads, positions = 2, 4, 7
    sites = layers * positions * (len(STREAM) + heads * len(BY_HEAD_AND_POSITION))
    assert len(table) == sites * 3
    assert not table.duplicated(["component", "layer", "head", "position", "pair"]).any()
    assert set(table["head"][table["component"].isin(BY_POSITION)]) == {-1}
    assert set(table["head"][table["component"].isin(BY_HEAD_AND_POSITION)]) == set(range(4))
    for name, tokens in zip(("clean", "corrupted"), pairs, strict=True):
        expected = model(tokens)[:, -1, END_ID].detach().numpy()
        assert table[name].to_numpy() == pytest.approx(expected[table["pair"]], abs=1e-9)
    effect = (table["patched"] - table["corrupted"]) / (table["clean"] - table["corrupted"])
    assert table["effect"].to_numpy() == pytest.approx(effect.to_numpy())


@pytest.mark.parametrize("component", MIXED)
def test_nothing_happens_before_the_first_difference(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor], component: str
) -> None:
    table = patch(model, *pairs, END_LOGIT, [component])
    before = table[table["position"] < 3]
    assert before["effect"].abs().max() < 1e-9
    assert table[table["position"] >= 3]["effect"].abs().max() > 0.01


@pytest.mark.parametrize("component", ["z", "q", "resid_post", "mlp_out"])
def test_nothing_happens_in_the_last_layer_away_from_the_readout(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor], component: str
) -> None:
    table = patch(model, *pairs, END_LOGIT, [component]).query("layer == 1")
    assert table.query("position < 6")["effect"].abs().max() < 1e-9
    assert table.query("position == 6")["effect"].abs().max() > 0.01


def test_the_whole_difference_enters_at_the_differing_position(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    """One substitution: the stream below the first layer at its position is all there is."""
    table = patch(model, *pairs, END_LOGIT, ["resid_pre"]).query("layer == 0 and position == 3")
    assert table["effect"].to_numpy() == pytest.approx(np.ones(3), abs=1e-9)


def test_the_whole_difference_leaves_at_the_readout(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    table = patch(model, *pairs, END_LOGIT, ["resid_post"]).query("layer == 1 and position == 6")
    assert table["effect"].to_numpy() == pytest.approx(np.ones(3), abs=1e-9)


def test_one_site_by_hand(model: HookedTransformer, pairs: tuple[Tensor, Tensor]) -> None:
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
    assert row["patched"].to_numpy() == pytest.approx(
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
    "counters": {"counting": Counting(averaging_heads=1, counters=True)},
    "lstm": {"architecture": "lstm"},
    "gru": {"architecture": "gru"},
    "rnn": {"architecture": "rnn"},
    "parallel": {"parallel": True, "qk_norm": "rms"},
    "linear": {"scores": "linear", "value_width": 3},
    "cnn": {"architecture": "cnn", "kernel_size": 2},
}


def kind_of_model(kind: str) -> tuple[LanguageModel, Tensor, Tensor, list[str]]:
    """A model in float64, three pairs, and all of its components."""
    config = ModelConfig(**{"n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 6, **KINDS[kind]})
    model = stir(build(config, Vocabulary(("a", "b", "c")), 1)).double().eval()
    clean = model.to_tokens(["abcab", "bbabb", "caabc"])
    corrupted = model.to_tokens(["abaab", "bbabc", "ccabc"])
    components = [c for c in COMPONENTS if Site(c, 0, 0).hook in model.hook_dict]
    return model, clean, corrupted, components


@torch.no_grad()
def one_by_one(
    model: LanguageModel, clean: Tensor, corrupted: Tensor, sites: list[Site]
) -> list[Tensor]:
    """The logits of a forward pass per site, with an index written out per component."""
    _, cache = model.run_with_cache(clean)
    logits = []
    for site in sites:
        at = slice(None) if site.position is None else site.position
        key = slice(None) if site.key is None else site.key
        where: tuple[object, ...] = (slice(None), at)
        if site.component == "pattern":
            where = (slice(None), site.head, at, key)
        elif site.head is not None or site.neuron is not None:
            where = (slice(None), at, site.neuron if site.head is None else site.head)

        def put(x: Tensor, hook: object, where=where, source=cache[site.hook]) -> Tensor:
            x = x.clone()
            x[where] = source[where]
            return x

        logits.append(model.run_with_hooks(corrupted, fwd_hooks=[(site.hook, put)]))
    return logits


def compare(table: pd.DataFrame, metric: ReadAt, logits: list[Tensor]) -> None:
    """Holds a table against the metric of the logits of each of its sites."""
    expected = torch.cat([metric(of_site) for of_site in logits]).numpy()
    np.testing.assert_allclose(table["patched"], expected, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_forward_pass_per_site_says_the_same(kind: str) -> None:
    """Whatever is reused or left out: every fifth site of every kind of model, wherever is read. So
    no component, layer, head or position is left out."""
    model, clean, corrupted, components = kind_of_model(kind)
    sites = [site for c in components for site in all_sites(model, c, 6)]
    expected = one_by_one(model, clean, corrupted, sites[::5])
    for read in (4, -1, torch.tensor([2, 5, 5])):
        metric = logit_at(END_ID, read)
        table = patch(model, clean, corrupted, metric, components)
        assert len(table) == 3 * len(sites)
        compare(table[table.index // 3 % 5 == 0], metric, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_sites_at_all_positions_at_once(kind: str) -> None:
    model, clean, corrupted, components = kind_of_model(kind)
    table = patch(model, clean, corrupted, END_LOGIT, components, whole=True)
    sites = [site for c in components for site in all_sites(model, c, 6, whole=True)]
    assert set(table["position"]) == {-1}
    assert len(table) == 3 * len(sites)
    compare(table, END_LOGIT, one_by_one(model, clean, corrupted, sites))


@pytest.mark.slow
def test_several_metrics_off_the_same_passes(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    clean, corrupted = pairs
    at = torch.tensor([6, 5, 4])
    rows = torch.arange(3)
    reference = model(clean)[rows, at].detach()
    a, b = model.to_single_token("a"), model.to_single_token("b")
    metrics = {
        "difference": logit_difference_at(a, b, at),
        "probability": probability_at(END_ID),
        "softmax": probability_at(a, softmax=True),
        "closeness": closeness_at(reference, at),
        "closeness, softmax": closeness_at(reference, at, softmax=True),
        "own": lambda logits: logits[:, 3:].pow(2).sum((1, 2)),
    }
    together = patch(model, clean, corrupted, metrics, ["z", "v"])
    for name, metric in metrics.items():
        alone = patch(model, clean, corrupted, metric, ["z", "v"])
        rows_of = together[together["metric"] == name].reset_index(drop=True)
        assert alone["metric"].unique().tolist() == ["metric"]
        assert rows_of["patched"].to_numpy() == pytest.approx(alone["patched"].to_numpy(), abs=1e-9)
    read = {name: metric for name, metric in metrics.items() if isinstance(metric, ReadAt)}
    for some in (read, {"own": metrics["own"]}):  # a pair at a time, and all pairs at once
        parts = patch(model, clean, corrupted, some, ["z", "v"], memory=1)
        whole = together[together["metric"].isin(some)].reset_index(drop=True)
        assert parts["metric"].equals(whole["metric"])
        assert parts["effect"].to_numpy() == pytest.approx(
            whole["effect"].to_numpy(), abs=1e-9, nan_ok=True
        )
    effect = together.groupby("metric")["effect"]
    assert effect.max()["closeness"] <= 1 + 1e-9  # nothing is closer to the clean run than itself


def test_the_metrics_are_what_they_say() -> None:
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    other = torch.randn(2, 4, generator=torch.Generator().manual_seed(1)).double()
    at = torch.tensor([0, 2])
    here = torch.stack([logits[0, 0], logits[1, 2]])
    close = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(logit_difference_at(1, 3, at)(logits), here[:, 1] - here[:, 3])
    torch.testing.assert_close(
        probability_at(2, at)(logits), torch.distributions.Bernoulli(logits=here[:, 2]).probs
    )
    torch.testing.assert_close(
        probability_at(2, at, softmax=True)(logits),
        torch.distributions.Categorical(logits=here).probs[:, 2],
    )
    bernoulli, categorical = (
        torch.distributions.kl_divergence(family(logits=other), family(logits=here))
        for family in (torch.distributions.Bernoulli, torch.distributions.Categorical)
    )
    torch.testing.assert_close(closeness_at(other, at)(logits), -bernoulli.sum(-1), **close)
    torch.testing.assert_close(closeness_at(other, at, softmax=True)(logits), -categorical, **close)


def test_means_over_pairs_leave_out_what_is_not_told_apart() -> None:
    table = pd.DataFrame(
        [
            ["metric", "z", 0, 1, -1, position, -1, pair, effect]
            for position, effects in ((3, (0.0, 1.0, np.nan)), (4, (0.5, 0.5, np.nan)))
            for pair, effect in enumerate(effects)
        ],
        columns=["metric", *PLACE, "pair", "effect"],
    )
    means = over_pairs(table)
    assert means["position"].tolist() == [3, 4]
    assert means["effect"].tolist() == [0.5, 0.5]
    assert means["pairs"].tolist() == [2, 2]
    assert means["low"].tolist() == [0.0, 0.5]
    assert means["high"].tolist() == [1.0, 0.5]
    assert over_pairs(table[table["pair"] == 1])[["low", "high"]].isna().all().all()


class Peak(TorchDispatchMode):
    """The most bytes that tensors made inside have held at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.peak, self.seen = 0, 0, set[int]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.watch(tensor.untyped_storage())
        return out

    def watch(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.seen:
            return
        self.seen.add(key)
        self.held += storage.nbytes()
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self.free, key, storage.nbytes())

    def free(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.held -= size


@pytest.mark.slow
@pytest.mark.parametrize("component", ["z", "v", "pattern", "neuron"])
def test_a_sweep_keeps_to_its_memory(small_model: Make, component: str) -> None:
    model = small_model(positions="learned", n_layers=3, n_heads=2)
    generator = torch.Generator().manual_seed(0)
    pairs, length = (3, 8) if component in ("pattern", "neuron") else (6, 16)
    clean, corrupted = torch.randint(2, 5, (2, pairs, length), generator=generator)
    peaks = {}
    for memory in (2**18, 2**23):
        with Peak() as peak:
            patch(model, clean, corrupted, END_LOGIT, [component], memory=memory)
        peaks[memory] = peak.peak
    assert peaks[2**18] <= 2**18 < peaks[2**23] <= 2**23


@pytest.mark.parametrize("memory", [1, 2**14, 2**16, 2**20])
def test_the_size_of_a_batch_changes_nothing(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor], memory: int
) -> None:
    whole = patch(model, *pairs, END_LOGIT, ["z", "resid_pre"])
    parts = patch(model, *pairs, END_LOGIT, ["z", "resid_pre"], memory=memory)
    assert parts["patched"].to_numpy() == pytest.approx(whole["patched"].to_numpy(), abs=1e-9)
    columns = ["component", "layer", "head", "position", "pair"]
    assert parts[columns].equals(whole[columns])


def test_equal_words_have_no_effect_to_speak_of(model: HookedTransformer) -> None:
    tokens = model.to_tokens(["abc"])
    assert patch(model, tokens, tokens, END_LOGIT)["effect"].isna().all()


def test_a_metric_of_its_own_position_for_every_pair(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
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
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
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
    with pytest.raises(ValueError, match="unknown component 'scores': use one of resid_pre"):
        all_sites(model, "scores", 3)
    with pytest.raises(ValueError, match="this model has no cell"):
        all_sites(model, "cell", 3)
