"""What a verdict leans on, by answers whose reliance is known."""

from __future__ import annotations

import numpy as np
import pytest

from interp.explanations.reliance import reliance

INERT = [4, 5, 6]


@pytest.fixture
def ids() -> np.ndarray:
    """Different words of rule symbols (2, 3) and inert ones; most have each inert symbol often."""
    return np.random.default_rng(0).integers(2, 7, size=(60, 16))


def test_a_symbol_whose_presence_counts_is_found_and_no_other(ids: np.ndarray) -> None:
    """One copy counts as much as many. So a word must lose all copies before one is put in."""

    def score(words: np.ndarray) -> np.ndarray:
        return 0.2 + 0.5 * (words == 5).any(axis=1) + 0.1 * (words[:, 3] == 2)

    table = reliance(score, ids, INERT).set_index("symbol")
    assert table["effect"].to_dict() == pytest.approx({4: 0.0, 5: 0.5, 6: 0.0})
    assert table.loc[5, ["low", "high"]].tolist() == pytest.approx([0.5, 0.5])
    assert (table["corrected"] <= 0.05).to_dict() == {4: False, 5: True, 6: False}
    assert table["words"].min() > 55


def test_a_symbol_that_takes_the_place_of_the_shortcut_is_not_blamed(ids: np.ndarray) -> None:
    """Short words, where a symbol would often stand in for the only copy of the shortcut."""

    def score(words: np.ndarray) -> np.ndarray:
        return 1.0 * (words == 5).any(axis=1)

    table = reliance(score, ids[:, :4], INERT).set_index("symbol")
    assert table["effect"].to_dict() == pytest.approx({4: 0.0, 5: 1.0, 6: 0.0})
    assert 5 < table["words"].max() < 60


def test_what_stands_in_is_an_inert_symbol_and_the_rule_stays(ids: np.ndarray) -> None:
    asked: list[np.ndarray] = []

    def score(words: np.ndarray) -> np.ndarray:
        asked.append(words)
        return np.zeros(len(words))

    table = reliance(score, ids, INERT)
    assert (table["effect"] == 0).all()
    rule = np.isin(ids, [2, 3])
    words = table.set_index("symbol")["words"]
    for symbol, there, without in zip(INERT, asked[::2], asked[1::2], strict=True):
        assert (without[rule] == ids[rule]).all()
        assert np.isin(without[~rule], INERT).all()
        assert not (without == symbol).any()
        pairs = list(zip(without.tolist(), there.tolist(), strict=True))
        kept = [sorted(set(new)) == sorted({*old, symbol}) for old, new in pairs]
        assert sum(kept) >= words[symbol] > 55
        assert all(sum(x != y for x, y in zip(*pair, strict=True)) == 1 for pair in pairs)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_small_change_is_no_reliance(ids: np.ndarray, sign: int) -> None:
    """However sure it is: the bar is 0.05. A large change is found in both directions."""

    def score(words: np.ndarray) -> np.ndarray:
        return 0.5 + sign * (0.04 * (words == 5).any(axis=1) + 0.4 * (words == 6).any(axis=1))

    table = reliance(score, ids, INERT).set_index("symbol")
    assert table["effect"].to_dict() == pytest.approx({4: 0.0, 5: 0.04 * sign, 6: 0.4 * sign})
    assert (table["corrected"] <= 0.05).to_dict() == {4: False, 5: False, 6: True}


def test_the_interval_is_over_words() -> None:
    """Half of the words do not mind the symbol."""
    ids = np.random.default_rng(1).integers(4, 7, size=(200, 9))

    def score(words: np.ndarray) -> np.ndarray:
        return (words == 5).any(axis=1) * (np.arange(200) % 2) * 0.8

    row = reliance(score, ids, INERT).set_index("symbol").loc[5]
    assert row["effect"] == pytest.approx(0.4)
    half = 1.96 * 0.4 / np.sqrt(200)
    assert (row["low"], row["high"]) == pytest.approx((0.4 - half, 0.4 + half), abs=0.01)


def test_a_symbol_needs_others_to_stand_in_for_it(ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least two symbols"):
        reliance(lambda words: np.zeros(len(words)), ids, [4])
    nowhere = reliance(lambda words: np.zeros(len(words)), np.full((2, 5), 2), INERT)
    assert nowhere[["effect", "low", "high", "corrected"]].isna().all(axis=None)
    assert (nowhere["words"] == 0).all()
