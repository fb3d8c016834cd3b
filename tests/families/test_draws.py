"""Draws by NumPy: their distributions are SciPy's, whatever the shape of the parameters; nothing is compiled."""

import jax
import numpy as np
import pytest
from counting import compilations
from oracles.families import matrix
from scipy import stats

import bayesgen as bg
from bayesgen.errors import ModelError
from bayesgen.families.special import sample_log_gamma
from bayesgen.runtime.seeds import generator

SIZE = 4001


def follows(draws, distribution):
    """Kolmogorov and Smirnov's test, at a level that one seed in ten thousand misses."""
    assert stats.kstest(draws, distribution.cdf).pvalue > 1e-4


@pytest.mark.parametrize(("a", "b"), [(2.5, 0.7), (0.03, 0.2), (30.0, 400.0)])
def test_beta(a, b):
    draws = bg.BetaBernoulli([a, 1.0], [b, 3.0]).sample(jax.random.key(1), (SIZE,))["probs"]
    follows(draws[:, 0], stats.beta(a, b))
    follows(draws[:, 1], stats.beta(1, 3))


def test_gamma_rates():
    draws = bg.GammaPoisson([0.3, 7.0], [2.0, 0.1]).sample(jax.random.key(2), (SIZE,))["rate"]
    follows(draws[:, 0], stats.gamma(0.3, scale=0.5))
    follows(draws[:, 1], stats.gamma(7.0, scale=10.0))


def test_dirichlet_margins_and_subsums():
    alpha = np.asarray([0.4, 3.0, 1.1, 0.05])
    draws = bg.DirichletMultinomial(alpha).sample(jax.random.key(3), (SIZE,))["probs"]
    follows(draws[:, 1], stats.beta(3.0, alpha.sum() - 3.0))
    follows(draws[:, 0] + draws[:, 2], stats.beta(1.5, 3.05))
    np.testing.assert_allclose(draws.sum(1), 1.0, rtol=1e-14)


def test_normal_means_and_variances():
    family = bg.NormalInverseGamma(0.5, 0.7, 2.6, 1.3)
    draws = family.sample(jax.random.key(4), (SIZE,))
    follows(draws["variance"], stats.invgamma(2.6, scale=1.3))
    follows(draws["mean"], stats.t(5.2, 0.5, np.sqrt(1.3 / (2.6 * 0.7))))
    follows((draws["mean"] - 0.5) / np.sqrt(draws["variance"] / 0.7), stats.norm())


@pytest.mark.parametrize("df", [5.6, 11.0])
def test_covariances_and_means(df):
    """Along any direction a covariance is inverse-gamma and its inverse gamma, so correlations are right as well."""
    scale, dimension = matrix(5), 5
    family = bg.NormalInverseWishart(np.arange(5.0), 0.7, df, scale)
    draws = family.sample(jax.random.key(5), (SIZE,))
    for direction in np.random.default_rng(6).normal(0, 1, (3, dimension)):
        along = np.einsum("i,nij,j->n", direction, draws["covariance"], direction)
        half = 0.5 * (df - dimension + 1)
        follows(along, stats.invgamma(half, scale=0.5 * direction @ scale @ direction))
        precision = np.linalg.solve(draws["covariance"], np.broadcast_to(direction[:, None], (SIZE, 5, 1)))[..., 0]
        expected = direction @ np.linalg.solve(scale, direction)
        follows(precision @ direction, stats.gamma(0.5 * df, scale=2 * expected))
        spread = np.sqrt(direction @ scale @ direction / (0.7 * 2 * half))
        follows(draws["mean"] @ direction, stats.t(2 * half, np.arange(5.0) @ direction, spread))


@pytest.mark.parametrize("concentration", [1e-3, 1e-8, 1e-300])
def test_tiny_concentrations_do_not_underflow(concentration):
    """Gamma draws of such shapes are zero in float64, all of them; the probabilities are a vertex of the simplex."""
    weights = np.asarray([1.0, 2.0, 5.0])
    draws = bg.DirichletCategorical(concentration * weights).sample(jax.random.key(7), (SIZE,))["probs"]
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(1), 1.0, rtol=1e-14)
    error = np.sqrt(0.25 / SIZE)
    np.testing.assert_allclose(draws.mean(0), weights / 8, atol=5 * error)
    tosses = bg.BetaBernoulli(concentration, 3 * concentration).sample(jax.random.key(8), (SIZE,))["probs"]
    assert np.isfinite(tosses).all()
    np.testing.assert_allclose(tosses.mean(), 0.25, atol=5 * error)


def test_logs_of_tiny_gammas():
    """The probability that log X < t is Gamma(a)'s distribution function, which is near exp(a t) for small a."""
    logs = sample_log_gamma(np.random.default_rng(9), np.asarray(0.01), (SIZE,))
    assert stats.kstest(logs, lambda t: stats.gamma.cdf(np.exp(t), 0.01)).pvalue > 1e-4
    assert (logs < -750).any()


def test_a_seed_is_a_seed():
    family = bg.BetaBernoulli(2.0, 3.0)
    one, again, other = (family.sample(jax.random.key(seed), (9,))["probs"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()
    old_style = family.sample(jax.random.PRNGKey(1), (9,))["probs"]
    np.testing.assert_array_equal(one, old_style)
    first, second = (family.sample(rng, (9,))["probs"] for rng in [generator(jax.random.key(1))] * 2)
    np.testing.assert_array_equal(one, first)
    assert (first != second).all()


def test_a_scalar_concentration_alone_is_refused():
    for family in (bg.DirichletCategorical(1.0), bg.DirichletMultinomial(1.0)):
        with pytest.raises(ModelError, match="array with one entry for each"):
            family.sample(jax.random.key(0), (3,))


def test_the_first_draws_of_a_shape_compile_nothing():
    rng = np.random.default_rng(1)
    fit = bg.fit(bg.NaiveBayes(), rng.normal(0, 1, (43, 17)), np.arange(43) % 2, method=bg.Exact())
    fit.posterior.draws(7, jax.random.key(2))  # keys are turned into NumPy's generators by functions that are compiled
    key = jax.random.key(3)
    with compilations() as found:
        draws = fit.posterior.draws(1009, key)
    assert draws["real_mean"].shape == (1, 1009, 2, 17)
    assert found == []
