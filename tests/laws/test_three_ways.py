"""Three ways to one posterior: in closed form, on a grid by the densities of SciPy, and by NUTS."""

import numpy as np
import pytest
import scipy.stats
from oracles.moments import assert_mean
from scipy.special import expit

import bayesgen as bg

TOSSES = np.array([True, True, False, True, True])
VISITS = np.array([3, 0, 4, 1])
LENGTHS = np.array([1.1, 0.3, 2.2, 1.9])
SKIES = np.array(["blue", "grey", "grey", "red", "grey"])


def on_tosses():
    """Log prior and log-likelihood by the log odds of the share of True, with the Jacobian; and parameters."""
    share = expit(np.linspace(-30, 30, 1501))
    logs = scipy.stats.beta(1.5, 2.5).logpdf(share) + np.log(share) + np.log1p(-share)
    logs += sum(scipy.stats.bernoulli(share).logpmf(toss) for toss in TOSSES)
    return logs, 0.04, {"probs": [share]}


def on_visits():
    """By the log of the rate."""
    rate = np.exp(np.linspace(-30, 6, 3601))
    logs = scipy.stats.gamma(2.0, scale=1 / 0.7).logpdf(rate) + np.log(rate)
    return logs + sum(scipy.stats.poisson(rate).logpmf(visit) for visit in VISITS), 0.01, {"rate": [rate]}


def on_lengths():
    """By the mean, in standard deviations from 0.5, and the log of the variance."""
    scores, log_variance = np.meshgrid(np.linspace(-20, 20, 401), np.linspace(-6, 14, 401))
    variance, deviation = np.exp(log_variance), np.exp(log_variance / 2)
    mean = 0.5 + deviation * scores
    logs = scipy.stats.norm(0.5, deviation / np.sqrt(0.8)).logpdf(mean) + np.log(deviation)
    logs += scipy.stats.invgamma(2.5, scale=1.2).logpdf(variance) + log_variance
    logs += sum(scipy.stats.norm(mean, deviation).logpdf(length) for length in LENGTHS)
    return logs, 0.1 * 0.05, {"mean": [mean], "variance": [variance]}


def on_skies():
    """By the log odds of blue, and of grey among the others."""
    blue, grey = np.meshgrid(*[expit(np.linspace(-40, 40, 801))] * 2)
    shares = np.stack([blue, (1 - blue) * grey, (1 - blue) * (1 - grey)]).reshape(3, -1)
    counts = np.array([(colour == SKIES).sum() for colour in ("blue", "grey", "red")])
    concentration = np.array([0.7, 1.2, 2.0])
    with np.errstate(divide="ignore", invalid="ignore"):  # of shares that are 0 in floating point
        logs = np.log(shares).T @ (counts + concentration - 1) - log_beta(concentration)
        logs += np.log(blue * (1 - blue) ** 2 * grey * (1 - grey)).ravel()
    return np.where(np.isnan(logs), -np.inf, logs), 0.1**2, {"probs": list(shares)}


def log_beta(concentration):
    return scipy.special.gammaln(concentration).sum() - scipy.special.gammaln(concentration.sum())


POSTERIORS = {
    "tosses": (bg.BetaBernoulli(1.5, 2.5), TOSSES, on_tosses),
    "visits": (bg.GammaPoisson(2.0, 0.7), VISITS, on_visits),
    "lengths": (bg.NormalInverseGamma(0.5, 0.8, 2.5, 1.2), LENGTHS, on_lengths),
    "skies": (bg.DirichletCategorical([0.7, 1.2, 2.0]), SKIES, on_skies),
}


def means_by_entry(name):
    """The exact fit, and (parameter, index of an entry) -> mean on the grid, with the same evidence."""
    family, cells, on_grid = POSTERIORS[name]
    exact = bg.fit(bg.NaiveBayes(family, class_prior=None), cells[:, None], method=bg.Exact())
    logs, cell, values_by_parameter = on_grid()
    weights = np.exp(logs - logs.max())
    np.testing.assert_allclose(exact.log_evidence, np.log(weights.sum() * cell) + logs.max(), atol=1e-9)
    means = {}
    for parameter, values in values_by_parameter.items():
        site = next(site for site in exact.parameters if site.endswith(f"_{parameter}"))
        means |= {(site, index): np.average(v, weights=weights) for index, v in enumerate(values)}
    return exact, means


@pytest.mark.parametrize("name", POSTERIORS)
def test_exact_is_the_grid(name):
    exact, means = means_by_entry(name)
    for (site, index), mean in means.items():
        np.testing.assert_allclose(np.ravel(exact.parameters[site])[index], mean, rtol=1e-9)


@pytest.mark.parametrize("name", ["tosses", *(pytest.param(n, marks=pytest.mark.slow) for n in list(POSTERIORS)[1:])])
def test_nuts_is_the_grid(name):
    exact, means = means_by_entry(name)
    draws = bg.fit(exact.model, POSTERIORS[name][1][:, None], method=bg.NUTS(), seed=3).parameters
    for (site, index), mean in means.items():
        assert_mean(draws[site].reshape(4, 1000, -1)[..., index], mean, f"{site}, {index}")
