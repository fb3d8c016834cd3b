"""Exact posteriors of the pairs that NIMBLE integrates out, against quadrature and the chain rule with SciPy."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from oracles.moments import assert_mean

import bayesgen as bg
from bayesgen.data import read_table

from .pairs import ARRAYS, BEYOND, ENTRIES, IMPROPER, NEW, PROPER, REALS

SLOW = (  # links beside the first one of an entry, entries that take long, and those with the statistic of another one
    "identity",
    "weights",
    "lines",
    "multiple of a matrix",
    "precision",
    "inverse wishart, covariance",
    "multivariate normal, mean",
    "gamma, lognormal precision, multiple",
    "inverse gamma, lognormal variance, multiple",
    "gamma, weibull rate, multiple",
    "inverse gamma, weibull scale, multiple",
    "gamma, gamma rate, multiple",
    "gamma, inverse gamma scale, multiple",
    "gamma, laplace rate, multiple",
    "inverse gamma, gamma scale, multiple",
    "inverse gamma, exponential scale, multiple",
    "inverse gamma, inverse gamma rate, multiple",
)
ALSO_QUICK = ("beta, bernoulli, identity", "beta, binomial, identity")
QUICK = ("gamma, poisson, weights",)


def rows_of(table, quick=()):
    """The entries of a table, of which those that take long are slow."""
    is_slow = {name: (name.split(", ")[-1] in SLOW and name not in ALSO_QUICK) or name in SLOW for name in table}
    if quick:
        is_slow = {name: name not in quick for name in table}
    return [pytest.param(name, marks=pytest.mark.slow) if is_slow[name] else name for name in table]


def test_the_table_has_all_entries_of_nimble():
    """But the stick that is broken, which stands beside other structures."""
    numbers = sum(len(set(likelihoods) - set(BEYOND)) for _, likelihoods in ENTRIES.values())
    assert numbers + len([name for name in ARRAYS if "multiple" not in name]) + 1 == 29


def assert_close(actual, expected, name):
    # NumPyro's own density of negative binomial counts is good to 1e-6
    np.testing.assert_allclose(actual, expected, rtol=1e-5 if "negative" in name else 1e-8)


@pytest.mark.parametrize("name", rows_of(PROPER))
def test_pairs_have_the_evidence_and_mean_of_quadrature(name):
    case = PROPER[name]
    fit, expected = bg.fit(case.program, case.data(slice(-NEW)), method=bg.Exact()), case.answer(case.rows)
    assert fit.program.closed_form.reason.tolist() == [""]
    assert_close(fit.log_evidence, expected.log_evidence, name)
    assert_close(fit.parameters["theta"], expected.mean, name)


@pytest.mark.parametrize("name", rows_of(PROPER, QUICK))
def test_pairs_have_the_spread_and_predictive_of_quadrature(name):
    case = PROPER[name]
    fit, expected = bg.fit(case.program, case.data(slice(-NEW)), method=bg.Exact()), case.answer(case.rows)
    predictive = bg.predict(fit, case.data(slice(-NEW, None)), rule=bg.BMA()).log_marginal
    assert_close(predictive, expected.log_predictive, name)
    assert_close(fit.summary()["sd"], np.ravel(expected.sd), name)


@pytest.mark.parametrize("name", rows_of(IMPROPER, ["half flat, normal sd, multiple"]))
def test_improper_priors_have_no_evidence_and_are_integrated_out(name):
    case = IMPROPER[name]
    expected = case.answer(case.rows)
    with pytest.raises(bg.FitError, match="the prior of 'theta' is not normalised, so that there is no evidence"):
        bg.fit(case.program, case.data(slice(-NEW)), method=bg.Exact())
    fit = bg.fit(case.program, case.data(slice(-NEW)), method=bg.NUTS(num_samples=500, integrate_out=["theta"]))
    assert fit.attributes["integrated_out"] == ("theta",)
    draws = fit.parameters["theta"]
    assert_mean(draws, expected.mean)
    assert_mean((draws - expected.mean) ** 2, expected.sd**2)


def test_a_flat_prior_is_refused_where_the_posterior_is_improper():
    def sum_of_two(n):
        theta = numpyro.sample("theta", dist.ImproperUniform(dist.constraints.real, (), (2,)))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(theta.sum(), 1.0))

    program = bg.GenerativeProgram(sum_of_two, label=None)
    with pytest.raises(bg.FitError, match="theta"):
        bg.fit(program, {"x": REALS}, method=bg.NUTS(integrate_out=["theta"]))


def matrix(n, *, f):
    """A regression on the columns of a matrix, with flat priors."""
    w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), (7,)))
    v = numpyro.sample("v", dist.InverseGamma(3.0, 1.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(f @ w, jnp.sqrt(v)))


def several_columns(n, *, f, g, h):
    """One on columns and an intercept, with flat priors."""
    w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), (4,)))
    v = numpyro.sample("v", dist.InverseGamma(3.0, 1.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(w[0] + w[1] * f + w[2] * g + w[3] * h, jnp.sqrt(v)))


@pytest.mark.parametrize("function", [matrix, pytest.param(several_columns, marks=pytest.mark.slow)])
def test_noise_is_integrated_out_where_columns_of_covariates_have_flat_priors(function):
    shapes = {"f": (20, 7)} if function is matrix else dict.fromkeys("fgh", 20)
    rows = {name: np.random.default_rng(index).normal(size=shape) for index, (name, shape) in enumerate(shapes.items())}
    rows["x"] = rows["f"].reshape(20, -1).sum(1) + np.random.default_rng(9).normal(size=20)
    program = bg.GenerativeProgram(function, label=None).for_table(read_table(rows))
    assert program.introspection.elimination.families == {"w": "normal", "v": "inverse gamma"}
