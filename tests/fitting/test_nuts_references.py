"""NUTS against posteriors that others published, or that quadrature and conjugacy give."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from arviz_stats.base import array_stats

import bayesgen as bg

EFFECTS = np.asarray([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.asarray([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def assert_mean(draws, expected, name=""):
    """Means of draws (chain, draw, ...) within four Monte Carlo errors."""
    error = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean")
    assert (np.abs(draws.mean((0, 1)) - expected) < 4 * error).all(), (name, draws.mean((0, 1)), expected, error)


def schools(n, *, school, error):
    """Eight schools (Rubin 1981), each effect an offset from the mean in units of the spread."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    offset = numpyro.sample("offset", dist.Normal(0, 1).expand([8]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("effect", dist.Normal(mu + tau * offset[school.astype(int)], error))


def schools_by_quadrature():
    """Means of mu, mu^2, tau, tau^2: the effects integrate out, y_j ~ N(mu, tau^2 + error_j^2)."""
    mu = np.linspace(-25, 35, 601)[:, None]
    tau = (np.linspace(0.0005, 9.0, 4000) ** 2)[None]  # fine near zero, and out to 81
    width = np.gradient(tau[0])
    logs = scipy.stats.norm.logpdf(mu, 0, 5) + scipy.stats.halfcauchy.logpdf(tau, 0, 5)
    for effect, error in zip(EFFECTS, ERRORS, strict=True):
        logs = logs + scipy.stats.norm.logpdf(effect, mu, np.sqrt(tau**2 + error**2))
    weights = np.exp(logs - logs.max()) * width
    weights /= weights.sum()
    return [float((weights * values).sum()) for values in (mu, mu**2, tau, tau**2)]


def test_eight_schools():
    """posteriordb, eight_schools_noncentered: mu 4.4 (sd 3.3), tau 3.6 (sd 3.2)."""
    mu, mu_square, tau, tau_square = schools_by_quadrature()
    published = [4.4, 3.3, 3.6, 3.2]
    found = [mu, (mu_square - mu**2) ** 0.5, tau, (tau_square - tau**2) ** 0.5]
    np.testing.assert_allclose(found, published, atol=0.06)
    program = bg.GenerativeProgram(schools, label=None)
    rows = {"effect": EFFECTS, "school": np.arange(8.0), "error": ERRORS}
    method = bg.NUTS(target_accept_prob=0.95, num_samples=2000)  # as careful as the published draws
    draws = bg.fit(program, rows, method=method, seed=3).parameters
    assert_mean(draws["mu"], mu)
    assert_mean(draws["tau"], tau)
    assert_mean(draws["mu"] ** 2, mu_square)


def line(n, *, dose, sex):
    """Linear regression with known noise: its posterior is normal."""
    weights = numpyro.sample("weights", dist.Normal(0, 2).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("response", dist.Normal(weights[0] + weights[1] * dose + weights[2] * sex, 0.7))


def test_linear_regression():
    rng = np.random.default_rng(4)
    dose = rng.normal(3.0, 1.0, 29)
    sex = (rng.random(29) < 0.3).astype(float)
    response = 1.0 - 0.5 * dose + 2 * sex + rng.normal(0, 0.7, 29)
    program = bg.GenerativeProgram(line, label=None)
    fit = bg.fit(program, {"response": response, "dose": dose, "sex": sex}, method=bg.NUTS(), seed=5)
    design = np.stack([np.ones(29), dose, sex], axis=1)
    covariance = np.linalg.inv(design.T @ design / 0.49 + np.eye(3) / 4)
    mean = covariance @ design.T @ response / 0.49
    draws = fit.parameters["weights"]
    assert fit.attributes["path"] == "whitened"
    assert_mean(draws, mean)
    away = draws - mean
    assert_mean(away[..., :, None] * away[..., None, :], covariance)


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


@pytest.mark.parametrize("name", ROW_WISE)
def test_distributions_without_statistics_go_row_by_row(name):
    function, prior, log_density, grid = ROW_WISE[name]
    program = bg.GenerativeProgram(function, label=None)
    assert program.plan.rowwise == ("x",)
    rng = np.random.default_rng(6)
    x = rng.negative_binomial(2, 0.4, 37) if name == "dispersion" else rng.standard_t(4, 37)
    draws = bg.fit(program, {"x": x}, method=bg.NUTS(), seed=7).parameters[name]
    logs = prior.logpdf(grid) + log_density(grid[:, None], x[None]).sum(1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert_mean(draws, weights @ grid)
    assert_mean(draws**2, weights @ grid**2)
