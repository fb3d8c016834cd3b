"""Distributions that families are made of, against SciPy's."""

import numpy as np
import scipy.stats

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
