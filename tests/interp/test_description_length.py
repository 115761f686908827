"""Online coding: the bits, portion by portion, are those of a computation by hand."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from interp.probing.description_length import code_lengths, online_bits
from interp.probing.linear import Kind
from interp.probing.probes import Target

N = 40


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, 3))


def uniform_bits(y: np.ndarray, kind: Kind) -> float:
    return online_bits(np.empty((len(y), 0)), y, kind, (1.0,))


def test_a_single_portion_is_sent_in_the_uniform_code() -> None:
    assert uniform_bits(np.array([3, 3, 9, 5]), "category") == pytest.approx(4 * log2(3))
    assert uniform_bits(np.array([3, 3, 9, 5]), "count") == pytest.approx(4 * log2(7))
    assert uniform_bits(np.array([2, 2]), "count") == 0


def test_a_category_by_hand(x: np.ndarray) -> None:
    y = (x[:, 0] > 0).astype(int) + (x[:, 0] > 1)
    bits = 4 * log2(3)
    for start, end in ((4, 20), (20, 40)):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(x[:start], y[:start])
        for row, value in zip(x[start:end], y[start:end], strict=True):
            known = dict(zip(model.classes_, model.predict_proba(row[None])[0], strict=True))
            bits -= log2((start * known.get(value, 0.0) + 1) / (start + 3))
    assert online_bits(x, y, "category", (0.1, 0.5, 1.0)) == pytest.approx(bits)


def test_a_count_by_hand(x: np.ndarray) -> None:
    y = np.round(4 * x[:, 1] + np.random.default_rng(1).normal(size=N)).astype(int)
    values = range(y.min(), y.max() + 1)
    bits = 8 * log2(len(values))
    for start, end in ((8, 40),):
        scaler = StandardScaler().fit(x[:start])
        seen = scaler.transform(x[:start])
        errors = []
        for left_out in range(start):
            rest = np.arange(start) != left_out
            model = Ridge(alpha=1.0).fit(seen[rest], y[:start][rest])
            errors.append(y[left_out] - model.predict(seen[left_out][None])[0])
        width = np.sqrt(np.mean(np.square(errors)))
        model = Ridge(alpha=1.0).fit(seen, y[:start])
        for row, value in zip(x[start:end], y[start:end], strict=True):
            mean = model.predict(scaler.transform(row[None]))[0]
            upper = 1.0 if value == values[-1] else norm.cdf((value + 0.5 - mean) / width)
            lower = 0.0 if value == values[0] else norm.cdf((value - 0.5 - mean) / width)
            bits -= log2((start * (upper - lower) + 1) / (start + len(values)))
    assert online_bits(x, y, "count", (0.2, 1.0)) == pytest.approx(bits)


@pytest.mark.parametrize("kind", ["count", "category"])
def test_what_is_readable_takes_few_bits_and_noise_about_as_many_as_the_uniform_code(
    kind: str,
) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 2000)
    noise = rng.normal(size=(2000, 8))
    readable = noise.copy()
    readable[:, :4] = 5 * np.eye(4)[y]
    uniform = uniform_bits(y, kind)
    assert online_bits(readable, y, kind) < 0.1 * uniform
    assert 0.97 * uniform < online_bits(noise, y, kind) < 1.2 * uniform


def test_a_value_that_was_never_seen_costs_no_more_than_its_surprise(x: np.ndarray) -> None:
    y = np.zeros(N, dtype=int)
    y[-1] = 1
    bits = online_bits(x, y, "category", (0.1, 0.9, 1.0))
    start, last = int(0.1 * N), int(0.9 * N)
    expected = start * 1.0
    expected -= (last - start) * log2((start + 1) / (start + 2))
    expected -= 3 * log2((last + 1) / (last + 2)) + log2(1 / (last + 2))
    assert bits == pytest.approx(expected)


def test_a_sweep_codes_every_target_at_every_site_on_whole_words() -> None:
    """The site that holds a count compresses it; of noise nothing comes; a constant has no row."""
    rng = np.random.default_rng(0)
    count, mask = rng.integers(0, 8, (40, 6)), np.ones((40, 6), dtype=bool)
    mask[:, 5] = False
    noise = rng.normal(size=(40, 6, 3))
    held = np.concatenate([count[..., None], noise], axis=-1)
    targets = {
        "count": Target(count, mask, "count"),
        "constant": Target(np.ones_like(count), mask, "category"),
    }
    table = code_lengths({"held": held, "noise": noise}, targets, most=100)
    assert table["target"].tolist() == ["count"] * 2
    assert table["n_test"].tolist() == [100] * 2
    score = table.set_index("site")["score"]
    assert score["held"] > 2 > 1.2 > score["noise"]
    order = np.random.default_rng(0).permutation(40)[:20]
    y = count[order][:, :5].ravel()
    expected = online_bits(held[order][:, :5].reshape(100, -1), y, "count")
    assert table.set_index("site")["bits"]["held"] == expected
    assert score["held"] == uniform_bits(y, "count") / expected
