"""Distributions that families are made of, against SciPy's."""

import numpy as np
import scipy.stats

import bayesgen as bg
from bayesgen.families.special import InverseGamma
from bayesgen.families.student_t import SphericalStudentTDensity


def test_quantiles_of_variances_are_scipys():
    shape, scale = np.array([1.5, 4.0, 30.0]), np.array([0.3, 7.0, 2.0])
    for prob in (0.025, 0.4, 0.9):
        expected = scipy.stats.invgamma(shape, scale=scale).ppf(prob)
        np.testing.assert_allclose(InverseGamma(shape, scale).quantile(prob), expected, rtol=1e-10)


def test_missing_cells_are_spread_by_how_far_the_observed_ones_are():
    """Ding (2016), section 2: one degree of freedom for each observed cell, and a scale that grows with distance."""
    num_rows, df, loc, scale = 4000, 5.0, np.array([[3.0, -1.0, 8.0]]), np.array([[2.0, 0.5, 1.5]])
    density = SphericalStudentTDensity(np.full((1, 3), df), loc, scale)
    values = np.tile([9.0, -1.5, np.nan], (num_rows, 1))
    draws = density.sample(values, ~np.isnan(values), np.zeros(num_rows, int), np.random.default_rng(0))
    squares = ((values[0, :2] - loc[0, :2]) / scale[0, :2]) ** 2
    expected = scipy.stats.t(df + 2, 8.0, 1.5 * np.sqrt((df + squares.sum()) / (df + 2)))
    assert scipy.stats.kstest(draws[:, 2], expected.cdf).pvalue > 1e-3


def test_quantiles_of_covariance_matrices_are_those_of_scipys_draws():
    scale = np.array([[2.0, 0.6, 0.1], [0.6, 5.0, -1.0], [0.1, -1.0, 0.7]])
    family = bg.NormalInverseWishart(np.zeros(3), 0.7, 9.0, scale)
    draws = scipy.stats.invwishart(9.0, scale).rvs(10_000, np.random.default_rng(0))
    for prob in (0.1, 0.6):
        variances = np.diagonal(family.quantile(prob)["covariance"], axis1=-2, axis2=-1)
        below = (np.diagonal(draws, axis1=1, axis2=2) <= variances).mean(0)
        np.testing.assert_allclose(below, prob, atol=4 * np.sqrt(prob * (1 - prob) / 10_000))


def test_expected_cells_of_mixtures_are_means_of_their_draws():
    num_rows, df, scale = 4000, 9.0, np.array([[2.0, 0.5, 1.5]])
    first = SphericalStudentTDensity(np.full((1, 3), df), np.array([[3.0, -1.0, 8.0]]), scale)
    second = SphericalStudentTDensity(np.full((1, 3), df), np.array([[5.0, -1.0, -4.0]]), scale)
    mixture, values = first.mixed(second, np.log(0.7), np.log(0.3)), np.tile([4.0, -1.5, np.nan], (num_rows, 1))
    observed = ~np.isnan(values)
    draws = mixture.sample(values, observed, np.zeros(num_rows, int), np.random.default_rng(0))[:, 2]
    expected = np.broadcast_to(mixture.expected(values, observed), (num_rows, 1, 3))[0, 0, 2]
    assert abs(draws.mean() - expected) < 4 * draws.std() / np.sqrt(num_rows)
