"""Likelihoods by way of a few factors against those of the rows one by one, by SciPy, and by way of the covariance."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

from bayesgen.statistics import read_conditional
from bayesgen.statistics.multivariate_normal import COLUMNS_PER_FACTOR, MANY_COLUMNS
from bayesgen.statistics.table import LOW_RANK_NORMAL, MULTIVARIATE_NORMAL

CLASSES, ROWS, COLUMNS, FACTORS = 3, 53, 23, 5


@jax.jit
def read(loc, factor, diagonal):
    """Parameters of distributions of classes, read as those of a program are."""
    return read_conditional(dist.LowRankMultivariateNormal(loc, factor, diagonal), -1).parameters


@pytest.mark.parametrize("noise", [1.0, 1e-4])
def test_the_likelihood_by_factors_is_that_of_the_rows(noise):
    assert max(MANY_COLUMNS, COLUMNS_PER_FACTOR * FACTORS) <= COLUMNS  # so that it goes by factors
    rng = np.random.default_rng(2)
    factor = rng.normal(0, 1.3, (CLASSES, COLUMNS, FACTORS)) * np.logspace(-1, 1, COLUMNS)[:, None]
    diagonal = noise * rng.gamma(3.0, 0.5, (CLASSES, COLUMNS))
    loc = rng.normal(0, 2, (CLASSES, COLUMNS))
    codes = rng.integers(0, CLASSES, ROWS)
    scores, noises = rng.normal(size=(ROWS, FACTORS, 1)), rng.normal(size=(ROWS, COLUMNS))
    rows = loc[codes] + (factor[codes] @ scores)[..., 0] + np.sqrt(diagonal[codes]) * noises
    weights = rng.gamma(2.0, 1.0, ROWS)
    summary = LOW_RANK_NORMAL.summarize(rows, codes, CLASSES, weights)
    covariance = factor @ np.swapaxes(factor, -1, -2) + diagonal[..., None] * np.eye(COLUMNS)
    expected = np.zeros(CLASSES)
    for row, code, weight in zip(rows, codes, weights, strict=True):
        expected[code] += weight * multivariate_normal.logpdf(row, loc[code], covariance[code])
    with jax.enable_x64(True):
        arrays = jax.tree.map(np.asarray, read(loc, factor, diagonal))
        traced = jax.jit(LOW_RANK_NORMAL.log_likelihood)(arrays, summary)
    for found in (LOW_RANK_NORMAL.log_likelihood(arrays, summary), traced):
        np.testing.assert_allclose(found, expected, rtol=1e-8 if noise < 1 else 1e-12)
    by_covariance = MULTIVARIATE_NORMAL.log_likelihood(arrays, summary)
    np.testing.assert_allclose(by_covariance, expected, rtol=1e-8 if noise < 1 else 1e-12)
