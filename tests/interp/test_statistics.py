"""Intervals, tests and corrections against scipy, closed forms and all cases counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations, product
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import bootstrap, norm, spearmanr, t, ttest_1samp, ttest_rel, wilcoxon

from interp.comparisons import (
    above,
    all_pairs,
    corrected,
    paired,
    pairs_needed,
    rank_correlation,
)
from interp.statistics import (
    ROUNDING,
    bootstrap_mean,
    bootstrap_sums,
    brackets,
    crossed_bootstrap,
    nested_bootstrap,
    seeds_interval,
    t_interval,
    unless_agreed,
    weighted_sum,
    wilson,
)


def test_the_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    mean, low, high = bootstrap_mean(values, resamples=10000)
    theirs = bootstrap(
        (values,),
        np.mean,
        n_resamples=10000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert mean == pytest.approx(values.mean())
    assert low == pytest.approx(theirs.low, abs=0.04 * width)
    assert high == pytest.approx(theirs.high, abs=0.04 * width)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_bootstrap_of_a_large_sample_is_normal(confidence: float) -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=1000)
    mean, low, high = bootstrap_mean(values, confidence, resamples=10000)
    half = norm.ppf((1 + confidence) / 2) * values.std() / sqrt(len(values))
    assert low == pytest.approx(mean - half, abs=0.08 * half)
    assert high == pytest.approx(mean + half, abs=0.08 * half)


def test_cells_of_one_row_stay_together() -> None:
    """The second cell is the first turned round: so are its intervals, draw by draw."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    mean, low, high = bootstrap_mean(np.stack([x, 1 - x], axis=1))
    assert mean.shape == low.shape == high.shape == (2, 2)
    assert mean[1] == pytest.approx(1 - mean[0])
    assert low[1] == pytest.approx(1 - high[0])
    assert high[1] == pytest.approx(1 - low[0])


def test_the_bootstrap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        bootstrap_mean(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="at least one unit"):
        bootstrap_sums(np.zeros((0, 2)), lambda sums: sums[..., 0])


def test_a_ratio_of_sums_is_drawn_like_a_mean() -> None:
    """With one value per unit it is the mean; units of several values are drawn as a whole."""
    values = np.random.default_rng(0).normal(size=30)

    def mean(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]

    alone = bootstrap_sums(np.stack([values, np.ones(30)], axis=1), mean)
    assert alone == pytest.approx([float(end) for end in bootstrap_mean(values)])
    cells = np.stack([values, values**2], axis=1)
    both = bootstrap_sums(np.stack([cells, np.ones_like(cells)], axis=2), mean)
    np.testing.assert_allclose(both, bootstrap_mean(cells))
    copies = bootstrap_sums(np.stack([7 * values, np.full(30, 7.0)], axis=1), mean)
    np.testing.assert_allclose(copies, alone)
    assert np.isnan(bootstrap_sums(np.array([[3.0, 2.0]]), mean)[1:]).all()


@given(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=12))
def test_an_interval_of_shares_stays_in_their_range(shares: list[float]) -> None:
    mean, low, high = seeds_interval(np.array(shares), shares=True)
    alike = max(shares) - min(shares) <= ROUNDING * max(shares)
    extreme = min(mean, 1 - mean) <= ROUNDING
    assert np.isnan(low) == np.isnan(high) == (alike and not extreme)
    assert np.isnan(low) or 0 <= low <= high <= 1
    assert np.isnan(low) or low - 1e-9 <= mean <= high + 1e-9
    _, low, high = seeds_interval(2 * np.array(shares) - 1)
    assert np.isnan(low) or -1 <= low <= high <= 1


def test_words_that_all_agree_have_wilsons_interval() -> None:
    assert unless_agreed(1.0, 1.0, 1.0, 10.0) == wilson(10, 10)
    assert unless_agreed(0.0, 0.0, 0.0, 7) == wilson(0, 7)
    assert unless_agreed(0.5, 0.4, 0.6, 7) == (0.4, 0.6)
    assert unless_agreed(0.8, 0.8, 0.8, 7) == (wilson(5, 7)[0], wilson(6, 7)[1])
    assert unless_agreed(-0.5, -0.5, -0.5, 7) == (-0.5, -0.5)


def test_seeds_that_agree_have_no_interval_without_width() -> None:
    assert seeds_interval(np.ones(5), shares=True) == (1, *wilson(5, 5))
    assert seeds_interval(np.zeros(3), shares=True) == (0, *wilson(0, 3))
    rounded = np.array([1.0, 1.0 - 2**-53, 1.0])
    assert seeds_interval(rounded, shares=True)[1:] == wilson(3, 3)
    for values, shares in [(np.ones(5), None), (np.full(4, 0.5), True), (np.full(4, 8.0), False)]:
        mean, *ends = seeds_interval(values, shares=shares)
        assert mean == values[0]
        assert np.isnan(ends).all()


def test_an_interval_of_seeds_is_students_on_the_log_odds() -> None:
    """Student's own leaves the range: "-0.10 to 0.22" was told of five shares."""
    shares = np.array([0.0, 0.0, 0.0, 0.02, 0.28])
    mean, low, high = t_interval(shares)
    assert low < 0
    half = (high - mean) / (mean * (1 - mean))
    expected = [mean, *expit(logit(mean) + np.array([-half, half]))]
    assert seeds_interval(shares) == pytest.approx(expected)
    assert seeds_interval(shares - 2) == t_interval(shares - 2)


def test_an_interval_of_losses_has_no_upper_end_at_one() -> None:
    losses = np.array([0.9, 0.8])
    found = seeds_interval(losses, shares=False)
    assert found == pytest.approx(np.array(seeds_interval(10 * losses)) / 10)  # no unit matters
    assert found[2] > 1 > seeds_interval(losses)[2]
    for other in (losses - 0.85, losses[:1]):
        np.testing.assert_equal(seeds_interval(other, shares=False), t_interval(other))


def test_an_interval_of_counts_is_students_on_the_logarithm() -> None:
    """Student's own would tell of fewer than no false accepts."""
    counts = np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 2])
    mean, low, high = t_interval(counts)
    assert low < 0
    times = np.exp((high - mean) / mean)
    assert seeds_interval(counts) == pytest.approx((mean, mean / times, mean * times))
    assert seeds_interval(100 + counts) == pytest.approx(t_interval(100 + counts), abs=0.01)
    assert np.isnan(seeds_interval(np.array([0.5]))[1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(20, 1), (2, 8), (0.5, 0.5)])
def test_most_intervals_of_shares_hold_the_true_mean(a: float, b: float) -> None:
    shares, truth = np.random.default_rng(0).beta(a, b, (2000, 5)), a / (a + b)
    held = [low <= truth <= high for _, low, high in map(seeds_interval, shares)]
    assert 0.915 <= np.mean(held) <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 10])
def test_intervals_of_shares_near_one_hold_the_true_mean(seeds: int) -> None:
    """Networks that are right of 50 or 200 words, nearly always; and networks that learn or not."""
    rng = np.random.default_rng(0)
    for truth, drawn in (
        (0.999, rng.binomial(50, 0.999, (2000, seeds)) / 50),
        (0.99, rng.binomial(200, 0.99, (2000, seeds)) / 200),
        (0.9, rng.binomial(1, 0.9, (2000, seeds)).astype(float)),
        (0.8, rng.binomial(1, 0.8, (2000, seeds)).astype(float)),
    ):
        ends = [seeds_interval(values, shares=True)[1:] for values in drawn]
        assert np.mean([low <= truth <= high for low, high in ends]) >= 0.92


@pytest.mark.parametrize("bar", [-0.5, 0.0, 0.4])
def test_above_is_students_test_of_single_values(bar: float) -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 25)
    theirs = ttest_1samp(values, bar, alternative="greater").pvalue
    with_gap = np.append(values, np.nan)
    assert above(with_gap, np.arange(26), bar) == pytest.approx(theirs)


def test_copies_of_a_word_are_no_more_words() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 25)
    once = above(values, np.arange(25))
    assert above(np.tile(values, 9), np.tile(np.arange(25), 9)) == pytest.approx(once)
    assert above(np.tile(values, 9), np.arange(225)) < once / 10
    assert np.isnan(above(np.ones(5), np.zeros(5, dtype=np.int64)))
    assert above(np.ones(5), np.arange(5), 0.5) == 0
    assert above(np.zeros(5), np.arange(5), 0.0) == 1


def test_the_bootstrap_hangs_on_its_seed_alone() -> None:
    values = np.random.default_rng(0).normal(size=20)
    np.random.seed(1)
    first = bootstrap_mean(values, seed=5)
    np.random.seed(2)
    again, other = bootstrap_mean(values, seed=5), bootstrap_mean(values, seed=6)
    assert first == again
    assert first[1] != other[1]


def test_a_constant_has_no_spread() -> None:
    assert [float(x) for x in bootstrap_mean(np.full(7, 0.25))] == pytest.approx([0.25] * 3)


@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_is_its_closed_form(count: int, share: float, confidence: float) -> None:
    """(p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), Wilson 1927."""
    successes = round(share * count)
    p, z = successes / count, norm.ppf((1 + confidence) / 2)
    centre = p + z**2 / (2 * count)
    half = z * sqrt(p * (1 - p) / count + z**2 / (4 * count**2))
    low, high = wilson(successes, count, confidence)
    assert low == pytest.approx((centre - half) / (1 + z**2 / count), abs=1e-9)
    assert high == pytest.approx((centre + half) / (1 + z**2 / count), abs=1e-9)
    assert 0 <= low <= p + 1e-12
    assert p - 1e-12 <= high <= 1


def ragged(seed: int, sizes: Sequence[int], between: float, within: float) -> list[np.ndarray]:
    """Seeds that scatter about 0, and words about their seed."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, between) + rng.normal(0, within, size) for size in sizes]


def test_of_words_that_agree_seeds_alone_are_drawn() -> None:
    """scipy's percentiles, stretched: a / (a - 1) of the variance, Student's quantile."""
    means = np.random.default_rng(0).exponential(size=10)
    mean, low, high = nested_bootstrap([np.full(3, value) for value in means], resamples=50000)
    theirs = bootstrap(
        (means,), np.mean, n_resamples=50000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    stretch = sqrt(10 / 9) * t.ppf(0.975, 9) / norm.ppf(0.975)
    assert mean == pytest.approx(means.mean())
    assert low == pytest.approx(mean + stretch * (theirs.low - mean), abs=0.012 * (high - low))
    assert high == pytest.approx(mean + stretch * (theirs.high - mean), abs=0.012 * (high - low))


@pytest.mark.slow
def test_of_seeds_that_agree_words_alone_are_drawn() -> None:
    """Student's quantile of the seeds times the words' standard error."""
    words = np.random.default_rng(0).normal(size=500)
    mean, low, high = nested_bootstrap([words] * 8, resamples=20000)
    half = t.ppf(0.975, 7) * words.std() / sqrt(8 * 500)
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.04)


def test_both_levels_are_drawn_as_if_all_draws_were_counted() -> None:
    """Every draw of three seeds of one to three words: the seeds' means moved together until the
    draws' variance is the unbiased one, then the percentiles stretched."""
    words = [np.array([0.0]), np.array([1.0, 6.0]), np.array([3.0, 5.1, 9.4])]
    means = np.array([values.mean() for values in words])

    def draws(shrink: float) -> tuple[np.ndarray, np.ndarray]:
        value, chance = [], []
        for values, mean in zip(words, means, strict=True):
            every = [np.mean(drawn) for drawn in product(values, repeat=len(values))]
            value += [each - mean + means.mean() + shrink * (mean - means.mean()) for each in every]
            chance += [1 / 3 / len(every)] * len(every)
        sums, chances = np.array(value), np.array(chance)
        for _ in range(2):
            sums = np.add.outer(sums, value).ravel()
            chances = np.multiply.outer(chances, chance).ravel()
        return sums / 3, chances

    def excess(shrink: float) -> float:
        value, chance = draws(shrink)
        return float(np.average((value - means.mean()) ** 2, weights=chance)) - wanted

    wanted = means.var(ddof=1) / 3
    value, chance = draws(brentq(excess, 0, 3))
    order = np.argsort(value)
    share = np.cumsum(chance[order])
    stretch = t.ppf(0.9, 2) / norm.ppf(0.9)
    expected = [means.mean()] + [
        means.mean() + stretch * (value[order][np.searchsorted(share, q)] - means.mean())
        for q in (0.1, 0.9)
    ]
    found = nested_bootstrap(words, confidence=0.8, resamples=100000)
    assert found == pytest.approx(expected, abs=0.01 * (expected[2] - expected[1]))


def test_each_seed_weighs_the_same() -> None:
    words = [np.zeros(1000), np.array([1.0])]
    assert nested_bootstrap(words)[0] == 0.5
    low, high = nested_bootstrap([np.ones(50) * 0.5] * 3)[1:]
    assert (low, high) == (0.5, 0.5)


def test_of_one_seed_nothing_is_said_of_the_next() -> None:
    mean, low, high = nested_bootstrap([np.array([1.0, 2.0])])
    assert mean == 1.5
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize("words", [[], [np.ones(3), np.ones(0)]])
def test_seeds_without_words_are_refused(words: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="at least one seed and one word of each, got"):
        nested_bootstrap(words)


def test_the_nested_bootstrap_hangs_on_its_seed_alone() -> None:
    words = ragged(0, [5, 20, 8], 1, 1)
    np.random.seed(1)
    first = nested_bootstrap(words, seed=5)
    np.random.seed(2)
    assert nested_bootstrap(words, seed=5) == first
    assert nested_bootstrap(words, seed=6) != first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "between", "within", "least", "most"),
    [(5, 1, 0.5, 0.92, 0.97), (5, 1, 4, 0.93, 0.99), (10, 0.3, 3, 0.93, 0.99)],
)
def test_nested_intervals_hold_the_truth_as_often_as_they_say(
    seeds: int, between: float, within: float, least: float, most: float
) -> None:
    """Coverage in 600 samples of 5 to 40 words a seed; its standard error is 0.9%. Plain
    percentiles of both draws cover 84, 95 and 99%; Student's interval is the standard.
    """
    rng = np.random.default_rng(0)
    held, student = [], []
    for index in range(600):
        words = ragged(index, rng.integers(5, 41, size=seeds), between, within)
        _, low, high = nested_bootstrap(words, resamples=400, seed=index)
        held.append(low <= 0 <= high)
        _, low, high = t_interval(np.array([values.mean() for values in words]))
        student.append(low <= 0 <= high)
    assert least < np.mean(held) < most
    assert 0.93 < np.mean(student) < 0.97


def flipped(gap: np.ndarray) -> float:
    """Every sign flip counted; sums that are equal but for rounding are equal."""
    sums = np.array([np.dot(signs, gap) for signs in product((-1, 1), repeat=len(gap))])
    return float((abs(sums) >= abs(gap.sum()) - 1e-9).mean())


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_the_p_of_a_pair_is_the_share_of_sign_flips(gaps: list[int]) -> None:
    gap = np.array(gaps, dtype=float)
    found = paired(10 + gap, np.full(len(gap), 10.0))
    assert found.p == pytest.approx(flipped(gap))
    assert found.pairs == len(gap)
    assert found.wins == pytest.approx(((np.sign(gap) + 1) / 2).mean())
    turned = paired(np.full(len(gap), 10.0), 10 + gap)
    assert (turned.p, turned.wins) == pytest.approx((found.p, 1 - found.wins))
    assert turned.difference == pytest.approx(-found.difference)


@given(st.lists(st.integers(-6, 6), min_size=6, max_size=9))
def test_an_interval_of_few_pairs_says_what_its_p_says(gaps: list[int]) -> None:
    """It holds every mean that the test does not reject, and no other; so 0, and all others."""
    gap = np.array(gaps, dtype=float)
    found = paired(gap, np.zeros(len(gap)))
    assert found.low <= found.difference <= found.high
    assert (found.low <= 0 <= found.high) == (found.p > 0.05)
    for end, inside in ((found.low, found.low + 1e-3), (found.high, found.high - 1e-3)):
        outside = 2 * end - inside
        assert flipped(gap - outside) <= 0.05
        if found.low < inside < found.high:
            assert flipped(gap - inside) > 0.05


def test_ten_pairs_are_flipped_in_all_ways() -> None:
    """Of differences whose sizes are 1 to 10, Wilcoxon's exact test is the same."""
    rng = np.random.default_rng(0)
    gap = (rng.permutation(10) + 1.0) * rng.choice([-1, 1], 10, p=[0.2, 0.8])
    found = paired(gap, np.zeros(10))
    assert found.p == pytest.approx(flipped(gap))
    assert found.p == pytest.approx(wilcoxon(gap, method="exact").pvalue)


def test_differences_that_are_equal_but_for_rounding_are_equal() -> None:
    first, second = np.array([0.3, 0.7, 1.1]), np.array([0.2, 0.6, 1.0])
    assert paired(first, second).p == 0.25


def test_many_pairs_are_flipped_at_random() -> None:
    gap = np.random.default_rng(0).integers(-4, 8, size=15).astype(float)
    exact = paired(gap, np.zeros(15), resamples=2**15).p
    assert exact == pytest.approx(flipped(gap))
    assert 0.01 < exact < 0.2
    drawn = paired(gap, np.zeros(15), resamples=10000)
    assert drawn.p == pytest.approx(exact, abs=4 * sqrt(exact / 10000))
    assert drawn.p != exact
    assert paired(gap, np.zeros(15), resamples=10000).p == drawn.p
    assert paired(np.ones(1000), np.zeros(1000), resamples=99).p == pytest.approx(0.02)


def test_the_interval_of_pairs_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 14), rng.normal(0, 2, 14)
    found = paired(first, second, confidence=0.9)
    theirs = ttest_rel(first, second).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.difference == pytest.approx(first.mean() - second.mean())


def test_a_missing_side_drops_the_pair() -> None:
    nan = np.nan
    first, second = np.array([1.0, 5.0, nan, 4.0]), np.array([0.0, nan, 2.0, 2.0])
    assert paired(first, second) == paired(np.array([1.0, 4.0]), np.array([0.0, 2.0]))
    none = paired(np.array([nan]), np.array([1.0]))
    assert none.pairs == 0
    assert np.isnan([none.difference, none.low, none.high, none.p, none.wins]).all()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=5))
def test_the_p_of_a_rank_correlation_is_the_share_of_orders(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=float).T
    rho, p = rank_correlation(first, second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert np.isnan([rho, p]).all()
        return
    assert rho == pytest.approx(spearmanr(first, second).statistic)
    every = [spearmanr(order, second).statistic for order in permutations(first)]
    more, less = (np.mean(sign * np.array(every) >= sign * rho - 1e-9) for sign in (1, -1))
    assert p == pytest.approx(min(1, 2 * min(more, less)))


def test_many_orders_are_drawn() -> None:
    first = np.arange(30.0)
    rho, p = rank_correlation(first, np.exp(first))
    assert (rho, p) == (pytest.approx(1), pytest.approx(2 / 10_001))
    blind = [rank_correlation(np.random.default_rng(k).random(12), first[:12])[1] for k in range(9)]
    assert 0.2 < np.mean(blind) < 0.8


def test_few_pairs_say_little() -> None:
    for count in range(1, 9):
        one = paired(np.arange(1.0, count + 1), np.zeros(count))
        assert one.p == pytest.approx(2.0 ** (1 - count))
        assert one.wins == 1
    lone = paired(np.array([3.0]), np.array([1.0]))
    assert lone.difference == 2
    assert np.isnan([lone.low, lone.high]).all()


@pytest.mark.slow
@pytest.mark.parametrize("tests", [1, 3, 10, 28])
def test_the_pairs_needed_are_the_first_that_can_pass(tests: int) -> None:
    needed = pairs_needed(tests)
    for pairs, passes in ((needed, True), (needed - 1, False)):
        clearest = np.r_[2.0 ** (1 - pairs), np.ones(tests - 1)]
        assert (corrected(clearest)[0] <= 0.05) == passes


P = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def test_holm_by_hand() -> None:
    """0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 no less than the one before."""
    found = corrected(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P)
def test_holm_is_bonferroni_in_every_subset(p: list[float]) -> None:
    """A test passes if Bonferroni's passes in all subsets that it is in (Marcus et al. 1976)."""
    subsets = [s for size in range(1, len(p) + 1) for s in combinations(range(len(p)), size)]
    expected = [
        max(min(1.0, len(s) * min(p[j] for j in s)) for s in subsets if i in s)
        for i in range(len(p))
    ]
    assert corrected(np.array(p)) == pytest.approx(expected)


@given(P)
def test_benjamini_hochberg_by_its_definition(p: list[float]) -> None:
    """The least level at which the step-up procedure still passes a test."""
    ranked = sorted(p)
    levels = [len(p) * value / (k + 1) for k, value in enumerate(ranked)]
    expected = [min([1.0, *levels[ranked.index(value) :]]) for value in p]
    assert corrected(np.array(p), "Benjamini-Hochberg") == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Holm", "Benjamini-Hochberg"])
def test_tests_that_were_not_made_do_not_count(method: str) -> None:
    p = np.array([[0.02, np.nan], [0.5, 0.03]])
    found = corrected(p, method)  # type: ignore[arg-type]
    assert np.isnan(found[0, 1])
    known = corrected(np.array([0.02, 0.5, 0.03]), method)  # type: ignore[arg-type]
    assert found[~np.isnan(p)] == pytest.approx(known)
    assert p[0, 0] == 0.02  # what was given stays as it was
    assert len(corrected(np.array([]), method)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-0.1, 1.1])
def test_what_is_no_probability_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="expected p-values from 0 to 1, got"):
        corrected(np.array([0.5, wrong]))


@pytest.mark.slow
def test_the_best_column_is_compared_but_all_pairs_count() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, (8, 3))
    scores = pd.DataFrame(noise + np.array([0.2, 0.9, 0.5]), columns=["low", "high", "middle"])
    pairs = all_pairs(scores)
    assert list(zip(pairs["first"], pairs["second"], strict=True)) == [
        *(("high", "middle"), ("high", "low"), ("middle", "low"))
    ]
    assert pairs["difference"].tolist() == pytest.approx([0.4, 0.7, 0.3], abs=0.02)
    assert pairs["p"].tolist() == pytest.approx([2**-7] * 3)
    assert pairs["corrected"].tolist() == pytest.approx([3 * 2**-7] * 3)
    assert all_pairs(scores[["low"]]).empty


def test_the_best_of_many_columns_can_be_told_from_all_others() -> None:
    """253 pairs: the smallest p of 10,000 sign flips, corrected, would not pass."""
    rng = np.random.default_rng(0)
    scores = pd.DataFrame(rng.normal(size=(15, 23)), columns=[f"m{k}" for k in range(23)])
    scores["m7"] += 9
    assert pairs_needed(253) <= len(scores)
    pairs = all_pairs(scores)
    own = pairs[pairs["first"] == "m7"]
    assert len(own) == 22
    assert (own["corrected"] <= 0.05).all()


def test_one_case_has_no_crossed_interval() -> None:
    _, low, high = crossed_bootstrap(np.array([[0.4]]), np.array([[0, 1]]))
    assert np.isnan([*low, *high]).all()
    _, low, high = crossed_bootstrap(np.array([[1.0]]), np.array([[0, 1]]))
    assert [*low, *high] == pytest.approx(wilson(1, 1), abs=1e-12)


def test_the_crossed_bootstrap_is_as_wide_as_few_units_allow() -> None:
    """Against draws of new units: many pairs of twelve units are far fewer than so many cases."""
    units = np.array(list(product(range(6), range(6, 12))))
    rng = np.random.default_rng(0)

    def sample() -> np.ndarray:
        own = rng.random(12) < 0.5
        return (own[units[:, 0]] & own[units[:, 1]]).astype(float)[:, None]

    means = np.array([sample().mean() for _ in range(4000)])
    widths = [
        high - low for _, low, high in (crossed_bootstrap(sample(), units) for _ in range(60))
    ]
    truth = np.quantile(means, 0.975) - np.quantile(means, 0.025)
    assert np.mean(widths) == pytest.approx(truth, rel=0.35)
    naive = bootstrap_mean(sample())
    assert np.mean(widths) > 1.5 * (naive[2] - naive[1])


def test_where_all_cases_agree_the_units_still_bound_the_share() -> None:
    units = np.array([[0, 2], [1, 2], [0, 3], [1, 3], [1, 4]])
    values = np.stack([np.ones(5), np.zeros(5), [0, 1, 0, 1, 1]], axis=1)
    mean, low, high = crossed_bootstrap(values, units)
    assert mean.tolist() == pytest.approx([1, 0, 0.6])
    assert (low[0], high[0]) == pytest.approx(wilson(2, 2))
    assert (low[1], high[1]) == pytest.approx(wilson(0, 2))
    assert low[2] <= 0.6 <= high[2]
    with pytest.raises(ValueError, match="at least one case"):
        crossed_bootstrap(np.zeros((0, 1)), np.zeros((0, 2), dtype=int))


def test_a_single_row_has_no_interval() -> None:
    """It had one of width 0, which looks like certainty."""
    mean, low, high = bootstrap_mean(np.array([[0.5, 2.0]]))
    assert mean.tolist() == [0.5, 2.0]
    assert np.isnan([low, high]).all()
    assert float(bootstrap_mean(np.array([3.0]))[0]) == 3
    assert [brackets(*ends, ".0%") for ends in ((0.1, 0.25), (np.nan, np.nan), (None, None))] == [
        " [10%, 25%]",
        "",
        "",
    ]


def test_a_difference_of_shares_is_newcombe_s() -> None:
    """The first rows of his Table II, method 10 (1998): 56 of 70 less 48 of 80, and 9 of 10 less 3
    of 10."""
    for one, other, ends in (
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
    ):
        shares = [(hits / count, *wilson(hits, count)) for hits, count in (one, other)]
        value, low, high = weighted_sum((1.0, shares[0]), (-1.0, shares[1]))
        assert value == pytest.approx(shares[0][0] - shares[1][0])
        assert (low, high) == pytest.approx(ends, abs=5e-5)
        backward = weighted_sum((-1.0, shares[0]), (1.0, shares[1]))
        assert backward == pytest.approx((-value, -high, -low))


def test_a_weighted_sum_of_what_is_not_known_is_not_known() -> None:
    value, low, high = weighted_sum((0.5, (0.4, 0.1, 0.8)), (0.5, (0.2, np.nan, np.nan)))
    assert value == pytest.approx(0.3)
    assert np.isnan([low, high]).all()
    assert weighted_sum((0.5, (0.4, 0.1, 0.8))) == pytest.approx((0.2, 0.05, 0.4))
