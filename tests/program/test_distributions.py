"""Every distribution that has a statistic as an attribute of a program: one program with all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from numpyro.infer.util import log_density

import bayesgen as bg
from program.programs import reference_density

ROWS, PROBS = 61, np.asarray([0.5, 0.2, 0.3])
TRIL = np.asarray([[1.0, 0.0, 0.0], [0.7, 1.1, 0.0], [-0.4, 0.5, 0.8]])
CENTER = np.asarray([1.0, -2.0, 0.5])
expit, exp = jax.nn.sigmoid, jnp.exp


def three(a):
    """Three numbers from one."""
    return jnp.stack([a, 0.5 - a, 0.3 * a], -1)


def pair(a):
    return jnp.stack([a, 1.0 - a], -1)


def matrix(a, unit):
    """A positive definite matrix, or its factor, of unknown scale."""
    return exp(a)[..., None, None] * unit


ROW_KINDS = {  # rows that need not look like the program's
    "bit": lambda rng: rng.integers(0, 2, ROWS),
    "category": lambda rng: rng.integers(0, 3, ROWS),
    "count": lambda rng: rng.integers(0, 6, ROWS),
    "counts": lambda rng: rng.integers(0, 6, (ROWS, 3)),
    "words": lambda rng: rng.multinomial(6, [0.5, 0.3, 0.2], ROWS),
    "positive": lambda rng: rng.gamma(2.0, 1.0, ROWS),
    "positives": lambda rng: rng.gamma(2.0, 1.0, (ROWS, 2)),
    "share": lambda rng: rng.beta(2.0, 3.0, ROWS),
    "shares": lambda rng: rng.dirichlet([2.0, 3.0, 1.0], ROWS),
    "real": lambda rng: rng.normal(0.4, 1.7, ROWS),
    "pair": lambda rng: rng.normal(0.4, 1.7, (ROWS, 2)),
    "vector": lambda rng: rng.normal(0.4, 1.7, (ROWS, 3)) @ TRIL.T,
}

# name -> (kind of row, the distribution at one unknown number of each class)
DISTRIBUTIONS = {
    "Bernoulli by probs": ("bit", lambda a: dist.Bernoulli(probs=expit(a))),
    "Bernoulli by logits": ("bit", lambda a: dist.Bernoulli(logits=a)),
    "Categorical by probs": ("category", lambda a: dist.Categorical(probs=jax.nn.softmax(three(a)))),
    "Categorical by logits": ("category", lambda a: dist.Categorical(logits=three(a))),
    "Binomial by probs": ("count", lambda a: dist.Binomial(5, probs=expit(a))),
    "Binomial by logits": ("count", lambda a: dist.Binomial(5, logits=a)),
    "Geometric by probs": ("count", lambda a: dist.Geometric(probs=expit(a))),
    "Geometric by logits": ("count", lambda a: dist.Geometric(logits=a)),
    "Poisson": ("count", lambda a: dist.Poisson(exp(a))),
    "Exponential": ("positive", lambda a: dist.Exponential(exp(a))),
    "Gamma": ("positive", lambda a: dist.Gamma(exp(a), exp(0.3 * a))),
    "InverseGamma": ("positive", lambda a: dist.InverseGamma(2 * exp(a), exp(0.3 * a))),
    "Chi2": ("positive", lambda a: dist.Chi2(3 * exp(a))),
    "Beta": ("share", lambda a: dist.Beta(exp(a), 2 + a**2)),
    "LogNormal": ("positive", lambda a: dist.LogNormal(a, exp(0.3 * a))),
    "HalfNormal": ("positive", lambda a: dist.HalfNormal(exp(a))),
    "Laplace at a known location": ("real", lambda a: dist.Laplace(0.7, exp(a))),
    "Normal": ("real", lambda a: dist.Normal(a, exp(0.3 * a))),
    "PiecewiseUniform": (
        "real",
        lambda a: bg.PiecewiseUniform([-1.0, 0.4, 0.9, 2.5], jax.nn.softmax(three(a)), [0.7, 1.6]),
    ),
    "MultivariateNormal by covariance_matrix": (
        "vector",
        lambda a: dist.MultivariateNormal(three(a), matrix(a, TRIL @ TRIL.T)),
    ),
    "MultivariateNormal by precision_matrix": (
        "vector",
        lambda a: dist.MultivariateNormal(CENTER, precision_matrix=matrix(a, TRIL @ TRIL.T)),
    ),
    "MultivariateNormal by scale_tril": (
        "vector",
        lambda a: dist.MultivariateNormal(three(a), scale_tril=matrix(a, TRIL)),
    ),
    "LowRankMultivariateNormal": (
        "vector",
        lambda a: dist.LowRankMultivariateNormal(three(a), matrix(a, TRIL[:, :1]), exp(three(a))),
    ),
    "Multinomial by probs": ("words", lambda a: dist.Multinomial(6, probs=jax.nn.softmax(three(a)))),
    "Multinomial by logits": ("words", lambda a: dist.Multinomial(6, logits=three(a))),
    "Dirichlet": ("shares", lambda a: dist.Dirichlet(exp(three(a)))),
    "Independent": ("positives", lambda a: dist.Gamma(exp(pair(a)), 2.0).to_event(1)),
    "Expanded": ("pair", lambda a: dist.Normal(a[..., None], 1.5).expand([*a.shape, 2]).to_event(1)),
    "Masked": ("pair", lambda a: dist.Normal(pair(a), 1.5).mask(np.asarray([True, False])).to_event(1)),
    "Masked, Expanded, Independent": (
        "counts",
        lambda a: (
            dist.Poisson(exp(a)[..., None]).expand([*a.shape, 3]).mask(np.asarray([True, False, True])).to_event(1)
        ),
    ),
}
every_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def everything(n):
    """An attribute of each distribution; a priori all unknown numbers are standard normal."""
    unknown = {name: numpyro.sample(f"of {name}", dist.Normal().expand([3]).to_event(1)) for name in DISTRIBUTIONS}
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs=PROBS))
        for name, (_, make) in DISTRIBUTIONS.items():
            numpyro.sample(name, make(unknown[name][y]))


@pytest.fixture(scope="module")
def program():
    return bg.GenerativeProgram(everything, classes=3)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return {name: ROW_KINDS[kind](rng) for name, (kind, _) in DISTRIBUTIONS.items()}, rng.choice(3, ROWS, p=PROBS)


@pytest.fixture(scope="module")
def draws(program, data):
    return bg.fit(program, *data, method=bg.NUTS(), seed=2)


@pytest.fixture(scope="module")
def latents(program):
    rng = np.random.default_rng(5)
    return {name: rng.normal(0, 0.7, 3) for name in program.latents}


@every_distribution
def test_it_is_compressed(program, name):
    assert name in dict(program.plan.compressed), program.plan.reasons


def test_the_density_is_numpyros(program, data, latents):
    rows, y = data
    with jax.enable_x64(True):
        expected = float(reference_density(everything, ROWS)({**latents, **rows, "y": y}, {}))
    np.testing.assert_allclose(program.log_density(latents, rows, y), expected, rtol=1e-11)


@pytest.mark.slow
def test_the_density_is_that_of_the_rows(program, data, latents):
    rows, y = data
    found = program.log_density(latents, rows, y)
    plan = type(program.plan)((), program.attributes, tuple((name, "told") for name in program.attributes))
    by_row = program.replace(structure=program.structure, plan=plan)
    np.testing.assert_allclose(by_row.log_density(latents, rows, y), found, rtol=1e-11)


@pytest.fixture(scope="module")
def slopes(program, data):
    """NumPyro's gradient of the joint density at the mode that was found."""
    rows, y = data
    mode = bg.fit(program, rows, y, method=bg.MAP()).parameters
    with jax.enable_x64(True):
        known = {**rows, "y": y}
        return jax.jit(jax.grad(lambda latents: log_density(everything, (ROWS,), {}, {**latents, **known})[0]))(
            {name: mode[name] for name in program.latents}
        )


@pytest.mark.slow
@every_distribution
def test_at_the_mode_numpyros_density_is_level(name, slopes):
    np.testing.assert_allclose(slopes[f"of {name}"], 0.0, atol=1e-5)


@pytest.mark.slow
@every_distribution
def test_draws_have_the_mean_that_quadrature_finds(name, data, draws):
    rows, y = data
    assert draws.attributes["path"] == "whitened"
    found = draws.parameters[f"of {name}"]
    error = array_stats.mcse(found, chain_axis=0, draw_axis=1, method="mean")
    grid = np.linspace(-6.0, 6.0, 801)
    with jax.enable_x64(True):
        every = np.repeat(rows[name][:, None], len(grid), axis=1)
        each = np.asarray(DISTRIBUTIONS[name][1](jnp.asarray(grid)).log_prob(every))
    for label in range(3):
        log_posterior = each[y == label].sum(0) - 0.5 * grid**2
        weights = np.exp(log_posterior - log_posterior.max())
        expected = weights @ grid / weights.sum()
        assert abs(found[..., label].mean() - expected) < 4.5 * error[label], (label, expected)
