"""The chi distribution with a sign, against SciPy's chi and the triangular factor of a normal matrix."""

import jax
import numpy as np
import pytest
import scipy.stats

from bayesgen.distributions import SymmetricChi

close = np.testing.assert_allclose


@pytest.mark.parametrize("df", [1.0, 2.0, 5.0])
def test_it_is_scipys_chi_on_either_side(df):
    points = np.array([-3.1, -0.4, 0.2, 1.7, 4.0])
    with jax.enable_x64(True):
        found = SymmetricChi(df, 1.3).log_prob(points)
    close(found, scipy.stats.chi.logpdf(abs(points), df, scale=1.3) - np.log(2), rtol=1e-12)


def test_draws_have_its_distribution():
    with jax.enable_x64(True):
        draws = np.asarray(SymmetricChi(np.array([1.0, 3.0]), 0.7).sample(jax.random.key(1), (4000,)))
    for index, df in enumerate([1, 3]):
        assert scipy.stats.kstest(abs(draws[:, index]), scipy.stats.chi(df, scale=0.7).cdf).pvalue > 1e-3
    assert abs((draws > 0).mean() - 0.5) < 0.03


def test_it_is_the_diagonal_of_a_triangular_factor():
    matrices = np.random.default_rng(2).normal(0, 0.7, (4000, 3, 3))
    lower = np.linalg.qr(np.swapaxes(matrices, 1, 2))[1]
    for place in range(3):
        variance = float(np.asarray(SymmetricChi(3.0 - place, 0.7).variance))
        assert abs((lower[:, place, place] ** 2).mean() / variance - 1) < 0.1


def test_its_slope_is_finite_at_zero_where_it_is_normal():
    with jax.enable_x64(True):
        assert jax.grad(SymmetricChi(1.0, 0.7).log_prob)(0.0) == 0
