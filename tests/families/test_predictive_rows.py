"""Densities of rows under predictive distributions, where products of many columns stand for sums of logarithms."""

import numpy as np
import pytest
from scipy import stats

from bayesgen.families.student_t import FACTORS, StudentTDensity


@pytest.mark.parametrize("num_columns", [1, FACTORS - 1, FACTORS, 2 * FACTORS + 3])
@pytest.mark.parametrize("distance", [1.0, 1e12])
@pytest.mark.parametrize("shared", [True, False])
def test_student_t_columns(num_columns, distance, shared):
    """Near rows and rows so far that products overflow; degrees of freedom that columns share or do not."""
    rng = np.random.default_rng(0)
    df = np.repeat(rng.uniform(1, 5, (3, 1)), num_columns, 1) if shared else rng.uniform(1, 5, (3, num_columns))
    loc, scale = rng.normal(size=(3, num_columns)), rng.uniform(0.5, 2, (3, num_columns))
    rows = rng.normal(size=(7, num_columns))
    rows[2] *= distance
    expected = stats.t.logpdf(rows[:, None], df, loc, scale).sum(-1)
    with np.errstate(over="ignore"):
        found = StudentTDensity(df, loc, scale).log_prob(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
