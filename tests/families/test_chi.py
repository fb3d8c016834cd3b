"""The chi distribution against SciPy's, and as the diagonal of a triangular factor of a normal matrix."""

import jax
import numpy as np
import pytest
import scipy.stats

from bayesgen.families.low_rank_normal import Chi


@pytest.mark.parametrize("df", [1.0, 2.0, 5.0])
def test_it_is_scipys(df):
    points = np.array([0.2, 0.4, 1.7, 4.0])
    with jax.enable_x64(True):
        found = Chi(df, 1.3).log_prob(points)
    np.testing.assert_allclose(found, scipy.stats.chi.logpdf(points, df, scale=1.3), rtol=1e-12)


def test_draws_are_diagonals_of_triangular_factors():
    size, width = 4000, 0.7
    matrices = np.random.default_rng(2).normal(0, width, (size, 3, 3))
    lower = abs(np.linalg.qr(np.swapaxes(matrices, 1, 2))[1])
    with jax.enable_x64(True):
        draws = np.asarray(Chi(np.array([3.0, 2.0, 1.0]), width).sample(jax.random.key(1), (size,)))
    for place, df in enumerate([3, 2, 1]):
        expected = scipy.stats.chi(df, scale=width).cdf
        for sample in (draws[:, place], lower[:, place, place]):
            assert scipy.stats.kstest(sample, expected).pvalue > 1e-3
