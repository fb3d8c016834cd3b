"""Predictions take the densities that rows are drawn from, whatever says how much of a row counts in training."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

import bayesgen as bg
from bayesgen.posteriors import Draws

from .programs import BOUND, PROGRAMS, ROWS, data_of, fit_at, program, rows_first

WORLDS = 80
COUNTED = np.arange(ROWS) % 3 > 0


def drawn_rows(fit, X, covariates):
    """Rows that the fit generates, one data set after another, and their labels."""
    sites = fit.predictive(WORLDS, X, seed=1)
    rows = {name: np.concatenate(value) for name, value in sites.items()}
    labels = rows.pop(fit.program.label or fit.program.response_site)
    return rows | {name: np.concatenate([value] * WORLDS) for name, value in covariates.items()}, labels


def check_calibrated(probabilities, codes):
    """Probabilities of classes are right on average, and where they are high."""
    is_class = np.eye(probabilities.shape[1])[codes]
    for weights in (1.0, probabilities):
        error = weights * (is_class - probabilities)
        assert (np.abs(error.mean(0)) < 4.5 * error.std(0) / len(codes) ** 0.5 + 1e-9).all()


def masked_labels(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n), handlers.mask(mask=is_counted):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x))


def scaled_numbers(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n), handlers.scale(scale=0.2 + is_counted):
        numpyro.sample("y", dist.Normal(slope * x, 0.5))


def masked_numbers(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.StudentT(8.0, slope * x, 0.5).mask(is_counted))


def censored(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.RightCensoredDistribution(dist.Exponential(jnp.exp(slope * x)), ~is_counted))


def censored_below(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.LeftCensoredDistribution(dist.Normal(slope * x, 1.0), ~is_counted))


labels_masked = bg.GenerativeProgram(masked_labels, classes=2)
scaled_outside = handlers.scale(masked_numbers, scale=0.3)

OF_CLASSES = [*PROGRAMS, masked_labels]
OF_NUMBERS = [scaled_numbers, masked_numbers, censored, censored_below, scaled_outside]
COVARIATES = {"is_counted": COUNTED, "x": np.linspace(-1, 1.1, ROWS)}


def some(functions, *by_default):
    """Functions as parameters, all but these marked slow."""
    return pytest.mark.parametrize(
        "function",
        [
            pytest.param(function, marks=[] if function in by_default else [pytest.mark.slow], id=str(index))
            for index, function in enumerate(functions)
        ],
    )


def of_classes(function):
    """A fit of a program with classes, its rows, and their covariates."""
    if function is masked_labels:
        return fit_at(labels_masked, {"slope": 1.3}, COVARIATES, COUNTED * 1), COVARIATES, COVARIATES
    latents, rows, y, covariates = data_of(function, np.random.default_rng(0))
    X = rows_first(BOUND[function], rows) | covariates
    return fit_at(BOUND[function], latents, X, y), X, covariates


@some(OF_CLASSES, masked_labels)
def test_probabilities_of_classes_are_those_of_drawn_rows(function):
    fit, X, covariates = of_classes(function)
    rows, codes = drawn_rows(fit, X, covariates)
    check_calibrated(bg.predict(fit, rows, rule=bg.BMA()).probabilities, codes)


@some(OF_NUMBERS, scaled_numbers)
def test_densities_of_numbers_are_those_of_drawn_rows(function):
    fit = fit_at(bg.GenerativeProgram(function), {"slope": 1.3}, COVARIATES, np.ones(ROWS))
    rows, drawn = drawn_rows(fit, COVARIATES, COVARIATES)
    answer = bg.predict(fit, rows, rule=bg.BMA())
    for share in (0.1, 0.5, 0.9):
        for part in (rows["is_counted"], ~rows["is_counted"]):
            below = (drawn < answer.quantile(share))[part]
            assert abs(below.mean() - share) < 4.5 * below.std() / len(below) ** 0.5
    for row in (0, 1):  # one that does not count in training, and one that does
        grid = np.linspace(-30, 40, 7001)
        same = {name: np.repeat(values[row : row + 1], len(grid)) for name, values in COVARIATES.items()}
        density = np.exp(bg.predict(fit, same, rule=bg.PlugIn()).log_density(grid))
        np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, rtol=1e-2)


def with_events(n):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n), handlers.scale(scale=0.4):
        numpyro.sample("x", dist.Normal(mean, 1.0).expand([2]).mask(jnp.array([True, False])).to_event(1))


@pytest.mark.slow
def test_densities_of_rows_are_those_of_drawn_rows():
    near, far = (fit_at(program(with_events, None, label=None), {"mean": m}, {"x": np.zeros((4, 2))}) for m in (0, 0.5))
    x = np.concatenate(near.predictive(2000, seed=1)["x"])
    ratios = np.exp(np.diff([bg.predict(fit, {"x": x}, rule=bg.BMA()).log_marginal for fit in (near, far)], axis=0)[0])
    assert abs(ratios.mean() - 1) < 4.5 * ratios.std() / len(x) ** 0.5
    np.testing.assert_allclose(ratios.var(), np.exp(2 * 0.5**2) - 1, rtol=0.1)  # of two independent coordinates


def scaled_labels(n, *, is_counted, x):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n), handlers.scale(scale=0.1 + 0.9 * is_counted):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x))


@pytest.mark.slow
def test_rows_are_left_out_as_they_count_and_scored_by_their_values():
    y, grid = (COVARIATES["x"] > 0.1) * 1, np.linspace(-8, 8, 4001)
    signs = np.where(y, 1, -1)[:, None]
    log_likelihoods = -np.log1p(np.exp(-signs * COVARIATES["x"][:, None] * grid))
    counted = (0.1 + 0.9 * COUNTED)[:, None] * log_likelihoods
    posteriors = np.exp(-(grid**2) / 8 + np.stack([counted.sum(0), *(counted.sum(0) - counted)]))
    posteriors /= posteriors.sum(1, keepdims=True)
    expected = np.log((posteriors[1:] * np.exp(log_likelihoods)).sum(1))

    slopes = np.interp((np.arange(4000) + 0.5) / 4000, posteriors[0].cumsum(), grid)
    slopes = np.random.default_rng(0).permutation(slopes).reshape(4, 1000)
    fit = fit_at(bg.GenerativeProgram(scaled_labels, classes=2), {"slope": 0.0}, COVARIATES, y)
    draws = Draws(fit.program, {"slope": slopes}, {"slope": slopes}, {"diverging": np.zeros((4, 1000), bool)})
    scores = bg.leave_one_out(dataclasses.replace(fit, posterior=draws), COVARIATES, y, rule=None).log_scores
    np.testing.assert_allclose(scores, expected, atol=0.01)
