"""NUTS on distributions that no statistic summarises, against posteriors by quadrature."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from oracles.moments import assert_mean

import bayesgen as bg


def mixture(n):
    """A share of two known normals: a distribution without sufficient statistics."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    weights = dist.Categorical(probs=np.asarray([1.0, 0.0]) * share + np.asarray([0.0, 1.0]) * (1 - share))
    with numpyro.plate("rows", n):
        numpyro.sample(
            "x", dist.MixtureSameFamily(weights, dist.Normal(np.asarray([-1.0, 2.0]), np.asarray([1.0, 0.5])))
        )


def negative_binomial(n):
    """Counts whose dispersion is not known."""
    dispersion = numpyro.sample("dispersion", dist.Gamma(2.0, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.NegativeBinomial2(3.0, dispersion))


def student(n):
    """Heavy tails of unknown weight."""
    df = numpyro.sample("df", dist.Gamma(2.0, 0.1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.StudentT(df, 1.0, 2.0))


def mixture_density(share, x):
    return share * scipy.stats.norm.pdf(x, -1.0, 1.0) + (1 - share) * scipy.stats.norm.pdf(x, 2.0, 0.5)


ROW_WISE = {
    "share": (
        mixture,
        scipy.stats.beta(2, 3),
        lambda v, x: np.log(mixture_density(v, x)),
        np.linspace(1e-4, 0.9999, 4000),
    ),
    "dispersion": (
        negative_binomial,
        scipy.stats.gamma(2, scale=2),
        lambda v, x: scipy.stats.nbinom.logpmf(x, v, v / (v + 3.0)),
        np.linspace(0.01, 60, 8000),
    ),
    "df": (
        student,
        scipy.stats.gamma(2, scale=10),
        lambda v, x: scipy.stats.t.logpdf(x, v, 1.0, 2.0),
        np.linspace(0.01, 300, 8000),
    ),
}


@pytest.mark.parametrize(
    "name", ["share", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dispersion", "df"))]
)
def test_distributions_without_statistics_go_row_by_row(name):
    function, prior, log_density, grid = ROW_WISE[name]
    program = bg.GenerativeProgram(function, label=None)
    assert program.plan.rowwise == ("x",)
    rng = np.random.default_rng(6)
    x = rng.negative_binomial(2, 0.4, 37) if name == "dispersion" else rng.standard_t(4, 37)
    draws = bg.fit(program, {"x": x}, method=bg.NUTS(num_samples=600), seed=7).parameters[name]
    logs = prior.logpdf(grid) + log_density(grid[:, None], x[None]).sum(1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert_mean(draws, weights @ grid)
    assert_mean(draws**2, weights @ grid**2)
