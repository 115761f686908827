"""Probes: what is there is found, what is not there is not, and no word is on both sides."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from interp import probing
from interp.probing import Target, baseline, probe_sites

WORDS, POSITIONS, D = 60, 9, 12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def train() -> np.ndarray:
    return np.arange(WORDS) % 3 > 0


@pytest.fixture
def mask(rng: np.random.Generator) -> np.ndarray:
    """Words of different lengths."""
    return np.arange(POSITIONS) < rng.integers(3, POSITIONS + 1, size=WORDS)[:, None]


@pytest.fixture
def targets(rng: np.random.Generator, mask: np.ndarray) -> dict[str, Target]:
    shape = (WORDS, POSITIONS)
    return {
        "depth": Target(rng.integers(0, 10, shape), mask, "count"),
        "kind": Target(rng.integers(0, 3, shape), mask, "category"),
    }


@pytest.fixture
def sites(rng: np.random.Generator, targets: dict[str, Target]) -> dict[str, np.ndarray]:
    """ "noise" holds nothing; "planted" holds both variables, among noise, in a random basis."""
    noise = rng.normal(size=(WORDS, POSITIONS, D))
    planted = 0.1 * rng.normal(size=(WORDS, POSITIONS, D))
    planted[..., 0] += targets["depth"].values
    for kind in range(3):
        planted[..., 1 + kind] += targets["kind"].values == kind
    basis, _ = np.linalg.qr(rng.normal(size=(D, D)))
    return {"noise": noise, "planted": planted @ basis}


def score(table: pd.DataFrame, site: str, target: str) -> float:
    return float(table.set_index(["site", "target"]).loc[(site, target), "score"])


def test_a_planted_variable_is_found_and_an_absent_one_is_not(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray
) -> None:
    table = probe_sites(sites, targets, train)
    control = probe_sites(sites, targets, train, shuffled=True)
    nothing = baseline(targets, train)
    assert score(table, "planted", "depth") > 0.99
    assert score(table, "planted", "kind") > 0.99
    for target in targets:
        assert score(table, "noise", target) < score(nothing, "none", target) + 0.1
        assert score(control, "planted", target) < score(nothing, "none", target) + 0.1
    assert score(nothing, "none", "depth") == pytest.approx(0, abs=0.05)
    assert set(table["metric"][table["target"] == "depth"]) == {"R2"}
    assert set(table["metric"][table["target"] == "kind"]) == {"accuracy"}


def test_probes_are_the_pipelines_they_claim_to_be(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    table = probe_sites(sites, targets, train)
    models = {"depth": Ridge(alpha=1.0), "kind": LogisticRegression(max_iter=1000)}
    fit, held = mask & train[:, None], mask & ~train[:, None]
    for site, activation in sites.items():
        for name, model in models.items():
            values = targets[name].values
            pipeline = make_pipeline(StandardScaler(), model).fit(activation[fit], values[fit])
            expected = pipeline.score(activation[held], values[held])
            assert score(table, site, name) == pytest.approx(expected)
    assert (table["n_train"] == fit.sum()).all()
    assert (table["n_test"] == held.sum()).all()


def test_the_baseline_is_the_mean_and_the_commonest(
    targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    table = baseline(targets, train)
    fit, held = mask & train[:, None], mask & ~train[:, None]
    kind, depth = targets["kind"].values, targets["depth"].values
    commonest = np.bincount(kind[fit]).argmax()
    assert score(table, "none", "kind") == pytest.approx((kind[held] == commonest).mean())
    residual = ((depth[held] - depth[fit].mean()) ** 2).sum()
    spread = ((depth[held] - depth[held].mean()) ** 2).sum()
    assert score(table, "none", "depth") == pytest.approx(1 - residual / spread)


def test_no_word_is_on_both_sides(
    train: np.ndarray, mask: np.ndarray, rng: np.random.Generator
) -> None:
    """Every word has a random label of its own, written large in its activations: a probe that saw
    a word before would know it, an honest one cannot."""
    label = np.repeat(rng.integers(0, 2, WORDS)[:, None], POSITIONS, axis=1)
    identity = np.repeat(rng.normal(size=(WORDS, 1, 200)), POSITIONS, axis=1)
    table = probe_sites({"identity": identity}, {"label": Target(label, mask, "category")}, train)
    assert score(table, "identity", "label") < 0.75
    leak = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    even = np.arange(POSITIONS) % 2 == 0
    leak.fit(identity[mask & even], label[mask & even])
    assert leak.score(identity[mask & ~even], label[mask & ~even]) > 0.95


def test_padding_is_never_seen(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    spoilt = {name: np.where(mask[..., None], a, np.nan) for name, a in sites.items()}
    pd.testing.assert_frame_equal(
        probe_sites(spoilt, targets, train), probe_sites(sites, targets, train)
    )


@pytest.mark.parametrize("most", [10, 50])
def test_at_most_so_many_positions(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, most: int
) -> None:
    table = probe_sites(sites, targets, train, most={"count": most, "category": most})
    assert (table["n_train"] == most).all()
    assert (table["n_test"] == most).all()
    same = probe_sites(sites, targets, train, most={"count": most, "category": most})
    other = probe_sites(sites, targets, train, 1, most={"count": most, "category": most})
    pd.testing.assert_frame_equal(table, same)
    assert not table["score"].equals(other["score"])


def test_one_value_alone_has_no_probe(
    sites: dict[str, np.ndarray], train: np.ndarray, mask: np.ndarray
) -> None:
    flat = {"flat": Target(np.zeros((WORDS, POSITIONS), dtype=np.int64), mask, "category")}
    assert probe_sites(sites, flat, train).empty
    assert baseline(flat, train).empty


def test_metrics_are_named() -> None:
    assert probing.METRIC == {"count": "R2", "category": "accuracy"}
