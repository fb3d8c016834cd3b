"""Values outside the support of their site are refused by row, whatever support NumPyro states."""

import functools
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats
from numpyro.distributions import constraints

from bayesgen import GenerativeProgram, summarize
from bayesgen.errors import DataError, ModelError

X = np.array([0.4, 0.7, 0.5])


class Delayed(dist.Distribution):
    """A waiting time of one's own that is never below 1 nor above 20."""

    arg_constraints = MappingProxyType({"rate": constraints.positive})
    support = constraints.interval(1.0, 20.0)
    reparametrized_params = ("rate",)

    def __init__(self, rate, *, validate_args=None):
        self.rate = rate
        super().__init__(batch_shape=jnp.shape(rate), validate_args=validate_args)

    def sample(self, key, sample_shape=()):
        uniform = jax.random.uniform(key, sample_shape + self.batch_shape)
        return 1 - jnp.log1p(uniform * jnp.expm1(-19 * self.rate)) / self.rate

    def log_prob(self, value):
        return jnp.log(self.rate) - self.rate * (value - 1) - jnp.log(-jnp.expm1(-19 * self.rate))


POSITIVE_DEFINITE = np.array([[1.0, 0.2], [0.2, 1.0]])
# name -> (the distribution at an unknown positive number of all rows and a covariate, a value inside, one outside)
SUPPORTS = {
    "truncated to an interval": (lambda q, x: dist.TruncatedNormal(q, 1.0, low=0.0, high=2.0), 0.5, 3.0),
    "truncated from the left": (lambda q, x: dist.LeftTruncatedDistribution(dist.Normal(q, 1.0), low=1.0), 1.5, 0.2),
    "truncated by row": (lambda q, x: dist.TruncatedNormal(q, 1.0, low=x), 0.9, 0.6),
    "truncated by column": (
        lambda q, x: dist.TruncatedNormal(q, 1.0, low=jnp.array([0.0, 1.0])).expand([*x.shape, 2]).to_event(1),
        np.array([0.5, 1.5]),
        np.array([0.5, 0.5]),
    ),
    "of a distribution of the user": (lambda q, x: Delayed(q), 2.0, 0.5),
    "of counts by row": (lambda q, x: dist.BetaBinomial(q, 1.0, jnp.round(10 * x).astype(int)), 4.0, 8.0),
}
MORE_SUPPORTS = {
    "truncated from the right": (lambda q, x: dist.RightTruncatedDistribution(dist.Normal(q, 1.0), high=1.0), 0.5, 1.2),
    "uniform": (lambda q, x: dist.Uniform(0.0, 1.0), 0.5, 2.0),
    "uniform in logarithms": (lambda q, x: dist.LogUniform(1.0, 5.0), 2.0, 0.5),
    "from a number on": (lambda q, x: dist.Pareto(1.0, q), 1.5, 0.5),
    "of angles": (lambda q, x: dist.VonMises(0.0, q), 0.5, 4.0),
    "of a mixture": (
        lambda q, x: dist.MixtureGeneral(
            dist.Categorical(jnp.ones(2) / 2),
            [dist.HalfNormal(q), dist.LogNormal(q, 1.0)],
            support=constraints.positive,
        ),
        0.5,
        -1.0,
    ),
    "of positive numbers": (lambda q, x: dist.Weibull(q, 1.0), 0.5, -1.0),
    "of unit vectors": (
        lambda q, x: dist.ProjectedNormal(jnp.stack([q, 0.5])),
        np.array([0.6, 0.8]),
        np.array([0.6, 0.9]),
    ),
    "of shares": (lambda q, x: dist.Dirichlet(q * jnp.ones(2)), np.array([0.3, 0.7]), np.array([0.3, 0.3])),
    "of correlations": (lambda q, x: dist.LKJ(2, q), POSITIVE_DEFINITE, np.array([[1.0, 2.0], [2.0, 1.0]])),
    "of factors": (
        lambda q, x: dist.LKJCholesky(2, q),
        np.array([[1.0, 0.0], [0.6, 0.8]]),
        np.array([[1.0, 0.0], [0.6, 0.9]]),
    ),
    "of matrices": (
        lambda q, x: dist.Wishart(3.0 + q, jnp.eye(2)),
        POSITIVE_DEFINITE,
        np.array([[1.0, 2.0], [2.0, 1.0]]),
    ),
}
every_support = pytest.mark.parametrize(
    "name", [*SUPPORTS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_SUPPORTS)]
)


def table_of(name):
    return SUPPORTS if name in SUPPORTS else MORE_SUPPORTS


@functools.cache
def program_of(are_more):
    """A program with a site of each support."""
    table = MORE_SUPPORTS if are_more else SUPPORTS

    def every_site(n, *, x):
        unknown = {name: numpyro.sample(f"unknown {name}", dist.LogNormal(0.0, 1.0)) for name in table}
        with numpyro.plate("rows", n):
            for name, (make, _, _) in table.items():
                numpyro.sample(name, make(unknown[name], x))

    return GenerativeProgram(every_site, label=None)


def read(name, value):
    """Three rows inside of all supports, but for a value of one site in the second row."""
    rows = {site: np.stack([inside] * 3) for site, (_, inside, _) in table_of(name).items()}
    rows[name] = np.stack([rows[name][0], np.broadcast_to(value, rows[name][0].shape), rows[name][0]])
    return program_of(name in MORE_SUPPORTS).read_rows(None, {**rows, "x": X})


@every_support
def test_values_outside_are_refused_by_row(name):
    make, inside, outside = table_of(name)[name]
    with jax.enable_x64(True):
        support = make(jnp.asarray(0.7), jnp.asarray(X[1])).support  # as NumPyro states it
        assert support(jnp.asarray(inside)).all() and not support(jnp.asarray(outside)).all()
    assert read(name, np.float32(inside)).num_rows == 3  # unit vectors have a length of 1 to seven digits then
    assert not read(name, np.nan).observed[name][1].any()
    with pytest.raises(DataError, match=rf"(?s)'{name}': 1 values are outside its support .* in row 1\. Correct"):
        read(name, outside)


def test_bounds_of_a_class_are_those_of_the_row():
    """Real numbers as well as counts: without a label, a value is to be possible under some class."""

    def bounded(n):
        rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("v", dist.TruncatedNormal(rate, 1.0, low=jnp.array([0.0, 2.0])[y]))

    program = GenerativeProgram(bounded, classes=2)
    summarize(program, {"v": [1.0, 3.0, 1.0]}, [0, 1, np.nan])
    with pytest.raises(DataError, match=r"GreaterThanEq\(lower_bound=2.0\)\); the first is 1.0 in row 2"):
        summarize(program, {"v": [1.0, 3.0, 1.0]}, [0, 1, 1])
    with pytest.raises(DataError, match=r"lower_bound=0.0\) or GreaterThanEq\(lower_bound=2.0\)\); .* -1.0 in row 2"):
        summarize(program, {"v": [1.0, 3.0, -1.0]}, [0, 1, np.nan])


def directions(n):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        numpyro.sample("direction", dist.ProjectedNormal(jnp.array([mean, 0.5])))


def test_attributes_may_be_unit_vectors():
    """Directions of normal vectors, whose lengths are integrated out."""
    angles = np.array([0.3, 2.0, -1.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    program = GenerativeProgram(directions, label=None)
    of_plane = scipy.stats.multivariate_normal([0.7, 0.5])
    densities = [scipy.integrate.quad(lambda r, v=v: r * of_plane.pdf(r * v), 0, 20)[0] for v in vectors]
    expected = np.log(densities).sum() + scipy.stats.norm.logpdf(0.7)
    found = program.log_density({"mean": np.array(0.7)}, {"direction": vectors})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_latent_without_a_map_to_real_numbers_is_refused_by_name():
    def function(n):
        direction = numpyro.sample("direction", dist.ProjectedNormal(jnp.array([0.7, 0.5])))
        with numpyro.plate("rows", n):
            numpyro.sample("v", dist.Normal(direction[0], 1.0))

    with pytest.raises(ModelError, match="The latent site 'direction' is ProjectedNormal, whose support Sphere"):
        GenerativeProgram(function, label=None)
