"""The unconstrained space of latent sites: densities against quadrature and automatic differentiation."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.special
from scipy import stats

import bayesgen as bg
from bayesgen.program.evaluation import STEEP_TAIL, at_free, evaluate, free_of
from program.programs import by_numpy

ALPHA = np.array([0.02, 3.0, 0.1, 0.05])
TABLE = np.linspace(-1, 2, 6).reshape(2, 3)
# NumPyro distribution, the same of SciPy, an unconstrained value
PRIORS = {
    "beta": (lambda: dist.Beta(2.5, 0.7), stats.beta(2.5, 0.7), np.array(0.8)),
    "a tail on the left": (lambda: dist.Beta(0.01, 3.0), stats.beta(0.01, 3.0), np.array(-1.7)),
    "tails on both sides": (lambda: dist.Beta(0.03, 0.01), stats.beta(0.03, 0.01), np.array(2.1)),
    "Dirichlet": (lambda: dist.Dirichlet(ALPHA), stats.dirichlet(ALPHA), np.array([0.4, -1.3, 0.9])),
    "gamma": (lambda: dist.Gamma(0.02, 3.0), stats.gamma(0.02, scale=1 / 3), np.array(-2.2)),
    "steep gamma": (lambda: dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3), np.array(0.3)),
    "normal": (lambda: dist.Normal(3.0, 2.0), stats.norm(3.0, 2.0), np.array(1.1)),
    "table": (lambda: dist.Beta(0.1, 2.0).expand([2, 3]).to_event(2), stats.beta(0.1, 2.0), TABLE),
}


@pytest.fixture(params=PRIORS.values(), ids=PRIORS)
def prior(request):
    make, reference, free = request.param
    with jax.enable_x64(True):
        yield make(), reference, free


def test_densities_are_scipys_and_jacobians_those_of_automatic_differentiation(prior):
    distribution, reference, free = prior
    point = by_numpy(lambda free: at_free(distribution, free))(free)
    jacobian = by_numpy(jax.jacobian(lambda free: at_free(distribution, free).value))(free)
    if isinstance(distribution, dist.Dirichlet):
        jacobian = jacobian[:-1]  # the last probability follows from the others
    size = np.size(free)
    np.testing.assert_allclose(point.log_prob, reference.logpdf(np.asarray(point.value)).sum(), rtol=1e-10)
    np.testing.assert_allclose(point.log_jacobian, np.linalg.slogdet(jacobian.reshape(size, size))[1], atol=1e-9)


def test_free_values_are_found_again(prior):
    distribution, _, free = prior
    again = by_numpy(lambda free: free_of(distribution, at_free(distribution, free).value))
    np.testing.assert_allclose(again(free), free, rtol=1e-9)


@pytest.mark.parametrize(
    "prior",
    [dist.Beta(0.01, 0.01), dist.Beta(0.002, 4.0), dist.Beta(3.0, 0.05), dist.Gamma(0.01, 7.0)],
    ids=["tails on both sides", "left", "right", "gamma"],
)
def test_tails_beyond_floating_point_have_all_their_mass(prior):
    with jax.enable_x64(True):
        points = np.linspace(-30, 30, 200_001)
        log_prob, log_jacobian = by_numpy(jax.vmap(lambda free: at_free(prior, free)[1:3]))(points)
    assert scipy.integrate.trapezoid(np.exp(log_prob + log_jacobian), points) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_scaled_sites_reach_the_edge_too(scale):
    """At log odds of 171, where 1 - p is zero in floating point."""

    def tosses(n):
        with numpyro.handlers.scale(scale=scale):
            numpyro.sample("p", dist.Beta(0.02, 0.03))
        with numpyro.plate("tosses", n):
            numpyro.sample("x", dist.Normal(0, 1))

    program = bg.GenerativeProgram(tosses, label=None)
    with jax.enable_x64(True):
        at = lambda p: evaluate(program, {"p": p}, np.zeros(1, int), unconstrained=("p",)).log_prior  # noqa: E731
        log_prior = by_numpy(at)(np.array(8.0))
    log_odds = 8.0 + (1 - 0.03 / STEEP_TAIL) * 8.0**3 / 3
    constant = -scipy.special.betaln(0.02, 0.03)
    np.testing.assert_allclose(log_prior, scale * ((1 - 0.03) * log_odds + constant), rtol=1e-10)


@pytest.mark.parametrize(
    ("distribution", "value", "free"),
    [
        (dist.Beta(1.0, 0.01), [0.0, 1.0], [-np.inf, np.inf]),
        (dist.Gamma(0.01, 1.0), [0.0], [-np.inf]),
        (dist.Dirichlet(np.ones(3)), [[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]], [[-np.inf, 0.0], [np.log(2.0), np.inf]]),
    ],
)
def test_the_edges_of_ranges_are_infinitely_far(distribution, value, free):
    with jax.enable_x64(True):
        found = by_numpy(lambda value: free_of(distribution, value))(np.asarray(value))
    np.testing.assert_allclose(found, free, atol=1e-12)
