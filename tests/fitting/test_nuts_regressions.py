"""NUTS on regressions: a linear one against its closed form, a logistic one against quadrature."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats
from oracles.moments import assert_law, assert_moments

import bayesgen as bg

CENTER, SCALES = np.asarray([1.0, 0.0, -0.5]), np.asarray([2.0, 0.5, 1.0])
SHAPE, RATE = 3.0, 1.5


def line(n, *, dose, sex):
    """Linear regression with unknown noise; the weights' prior is in units of it."""
    variance = numpyro.sample("variance", dist.InverseGamma(SHAPE, RATE))
    weights = numpyro.sample("weights", dist.Normal(CENTER, SCALES * variance**0.5).to_event(1))
    with numpyro.plate("rows", n):
        mean = weights[0] + weights[1] * dose + weights[2] * sex
        numpyro.sample("response", dist.Normal(mean, variance**0.5))


def normal_inverse_gamma(design, response):
    """Mean and relative covariance of the weights, shape and scale of the variance (Bishop 2006, exercise 3.12)."""
    prior = np.diag(SCALES**-2.0)
    relative = np.linalg.inv(prior + design.T @ design)
    mean = relative @ (prior @ CENTER + design.T @ response)
    left = response @ response + CENTER @ prior @ CENTER - mean @ np.linalg.solve(relative, mean)
    return mean, relative, SHAPE + len(response) / 2, RATE + left / 2


@pytest.mark.slow
def test_a_linear_regression_has_its_normal_inverse_gamma_posterior():
    rng = np.random.default_rng(4)
    dose, sex = rng.normal(3.0, 1.0, 29), (rng.random(29) < 0.3).astype(float)
    response = 1.0 - 0.5 * dose + 2 * sex + rng.normal(0, 0.7, 29)
    program = bg.GenerativeProgram(line, label=None)
    assert program.plan.rowwise == ("response",)
    fit = bg.fit(program, {"response": response, "dose": dose, "sex": sex}, method=bg.NUTS(num_samples=600), seed=5)
    assert fit.attributes["path"] == "whitened"
    mean, relative, shape, scale = normal_inverse_gamma(np.stack([np.ones(29), dose, sex], axis=1), response)
    weights = fit.parameters["weights"]
    assert_moments(weights, mean, scale / (shape - 1) * relative, "weights")
    assert_law(fit.parameters["variance"], scipy.stats.invgamma(shape, scale=scale), "variance")
    for index in range(3):
        wide = np.sqrt(scale / shape * relative[index, index])
        assert_law(weights[..., index], scipy.stats.t(2 * shape, mean[index], wide), f"weight {index}")


def logistic(n, *, dose):
    """The response leans on a covariate, and on an attribute that is itself modelled."""
    weights = numpyro.sample("weights", dist.Normal(0, np.asarray([3.0, 1.0, 2.0])).to_event(1))
    with numpyro.plate("rows", n):
        age = numpyro.sample("age", dist.Normal(0, 1))
        numpyro.sample("ill", dist.Bernoulli(logits=weights[0] + weights[1] * dose + weights[2] * age))


def logistic_by_quadrature(design, ill):
    """Mean and covariance of the weights: a grid along the axes of the curvature at the mode."""

    def logs(weights):
        logits = design @ weights
        return scipy.stats.norm.logpdf(weights.T, 0, [3.0, 1.0, 2.0]).sum(-1) + (
            ill @ logits - np.logaddexp(0, logits).sum(0)
        )

    mode = scipy.optimize.minimize(lambda weights: -logs(weights), np.zeros(3))
    steps = np.stack(np.meshgrid(*[np.linspace(-8, 8, 41)] * 3), axis=-1).reshape(-1, 3)
    points = mode.x + steps @ np.linalg.cholesky(mode.hess_inv).T
    density = logs(points.T)
    shares = np.exp(density - density.max())
    shares /= shares.sum()
    away = points - shares @ points
    return shares @ points, (shares * away.T) @ away


@pytest.mark.slow
def test_a_logistic_regression_has_the_posterior_that_quadrature_finds():
    rng = np.random.default_rng(8)
    dose, age = rng.normal(0.5, 1.5, 31), rng.normal(0, 1, 31)
    ill = (rng.random(31) < 1 / (1 + np.exp(0.5 - dose - 2 * age))).astype(float)
    program = bg.GenerativeProgram(logistic, label=None)
    assert program.plan.rowwise == ("ill",)
    fit = bg.fit(program, {"age": age, "ill": ill, "dose": dose}, method=bg.NUTS(num_samples=600), seed=6)
    assert fit.attributes["path"] == "whitened"
    mean, covariance = logistic_by_quadrature(np.stack([np.ones(31), dose, age], axis=1), ill)
    assert_moments(fit.parameters["weights"], mean, covariance, "weights")
