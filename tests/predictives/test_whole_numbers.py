"""Distributions of counts by their log joint: sums over all whole numbers, against SciPy."""

import numpy as np
import pytest
import scipy.stats
from numpyro.distributions import constraints

from bayesgen.predictives import GridPredictive, WholeNumbers
from bayesgen.predictives.supports import _rule

close = np.testing.assert_allclose
COUNTS = WholeNumbers.of(constraints.nonnegative_integer, 6)
TRIALS = np.array([1, 3, 14, 15, 200, 10_000])
CASES = {
    "Poisson": (COUNTS, scipy.stats.poisson([1e-3, 0.5, 3.0, 40.0, 1e3, 1e6])),
    "negative binomial": (COUNTS, scipy.stats.nbinom([0.3, 1, 2, 5, 3, 0.8], [0.9, 0.5, 0.1, 0.01, 1e-4, 1e-6])),
    "binomial": (
        WholeNumbers.of(constraints.integer_interval(0, TRIALS), 6),
        scipy.stats.binom(TRIALS, [0.5, 0.5, 0.1, 0.9, 0.2, 0.7]),
    ),
    "geometric": (
        WholeNumbers.of(constraints.positive_integer, 6),
        scipy.stats.geom([0.9, 0.5, 0.1, 1e-2, 1e-3, 1e-5]),
    ),
    "difference": (
        WholeNumbers(np.full(6, -np.inf), np.full(6, np.inf)),
        scipy.stats.skellam([3.0, 100, 5, 1, 7, 900], [5.0, 3, 5000, 1, 7, 2]),
    ),
}


def of(support, oracle, shift=0.0):
    parameters = [np.broadcast_to(parameter, (6,)) for parameter in oracle.args]

    def log_joint(rows, values):
        assert support.holds(values, rows).all()
        return oracle.dist.logpmf(values, *(parameter[rows] for parameter in parameters)) + shift

    return GridPredictive.of(log_joint, 6, support)


def by_sum(oracle, y, highest=20_000):
    """CRPS by its definition, row by row."""
    k = np.arange(highest)
    return ((oracle.cdf(k[:, None]) - (k[:, None] >= y)) ** 2).sum(0)


@pytest.mark.parametrize("name", CASES)
def test_counts_of_every_size(name):
    support, oracle = CASES[name]
    predictive = of(support, oracle, shift=-700.0)
    close(predictive.log_normalizer, -700.0, atol=1e-8)
    close(predictive.mean, oracle.mean(), rtol=1e-8, atol=1e-12)
    close(predictive.std, oracle.std(), rtol=1e-7)
    for probability in (1e-3, 0.25, 0.5, 0.97):
        np.testing.assert_array_equal(predictive.quantile(probability), oracle.ppf(probability))
    for y in (oracle.ppf(0.2), oracle.ppf(0.9) + 1, oracle.ppf(0.5) + 0.5):
        close(predictive.cdf(y), oracle.cdf(y), atol=1e-8)
    close(predictive.log_density(oracle.ppf(0.7)), oracle.logpmf(oracle.ppf(0.7)), rtol=1e-8, atol=1e-8)
    assert np.isneginf(predictive.log_density(oracle.ppf(0.7) + 0.5)).all()
    draws = predictive.draws(np.random.default_rng(0), 400)
    assert (draws == np.floor(draws)).all() and (draws >= support.low).all() and (draws <= support.high).all()
    close(draws.mean(0), oracle.mean(), atol=5 * oracle.std().max() / 20, rtol=0.3)


def test_bounds_of_the_support_are_kept():
    support, oracle = CASES["binomial"]
    predictive = of(support, oracle)
    assert np.isneginf(predictive.log_density(TRIALS + 1)).all() and np.isneginf(predictive.log_density(-1.0)).all()
    close(predictive.cdf(TRIALS + 5.0), 1.0, rtol=1e-10)
    assert (predictive.cdf(-1.0) == 0).all()


@pytest.mark.parametrize("name", ["Poisson", "binomial"])
def test_scores_are_sums_over_whole_numbers(name):
    support, oracle = CASES[name]
    y = np.array([0, 2, 5, 30, 1010, 1_000_300])
    predictive, rows = of(support, oracle), slice(0, 5 if name == "Poisson" else 6)
    y = np.minimum(y, support.high)
    close(predictive.crps(y)[rows], by_sum(oracle, y)[rows], rtol=1e-8, atol=1e-10)


def test_far_apart_peaks_and_rows_that_are_impossible():
    means = np.array([5.0, 1e6, 300.0, 2.0])

    def log_joint(rows, values):
        zeros = np.where(values == 0, np.log(0.3), -np.inf)
        logs = np.logaddexp(zeros, np.log(0.7) + scipy.stats.poisson.logpmf(values, means[rows]))
        return np.where(rows == 3, -np.inf, logs)

    predictive = GridPredictive.of(log_joint, 4, WholeNumbers.of(constraints.nonnegative_integer, 4))
    close(predictive.mean[:3], 0.7 * means[:3], rtol=1e-8)
    assert predictive.quantile(0.3)[:3].tolist() == [0, 0, 0] and (predictive.quantile(0.31)[1:3] > 200).all()
    assert np.isnan(predictive.quantile(0.5)[3]) and np.isnan(predictive.crps(np.ones(4))[3])


def test_sums_of_polynomials_are_exact():
    for width in (15.0, 60.0, 960.0, 15.0 * 4**7):
        rule, numbers = _rule(width), np.arange(width)
        ends = np.array([width // 3, width - 1])
        for power in (0, 3, 14):
            oracle = ((numbers / width) ** power).cumsum()[ends.astype(int)]
            close(rule.up_to(ends) @ (rule.positions / width) ** power, oracle, rtol=1e-8)
            if power < 7:
                close(rule.coarse @ (rule.positions / width) ** power, oracle[-1], rtol=1e-12)
