"""Distributions of a response, against SciPy, quadrature and their own definitions."""

import functools
import pickle

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from bayesgen.predictives import (
    MixturePredictive,
    NormalPredictive,
    StudentTPredictive,
    deferred,
    joined_predictives,
)
from bayesgen.statistics import last_given_rest

close = np.testing.assert_allclose
LOC, SCALE, DF = np.array([1e6, -0.3, 2.0]), np.array([1e-3, 4.0, 1.0]), np.array([1.5, 2.5, 30.0])
NORMAL, STUDENT = NormalPredictive(LOC, SCALE), StudentTPredictive(DF, LOC, SCALE)
WEIGHTS = np.array([[0.2, 0.0, 1.0], [0.5, 0.3, 0.0], [0.3, 0.7, 0.0]])
with np.errstate(divide="ignore"):
    MIXTURE = MixturePredictive(
        np.log(WEIGHTS), NormalPredictive(np.array([[0.0] * 3, [5.0] * 3, [9.0] * 3]), np.array([[1.0, 1e-6, 2.0]] * 3))
    )
    SEVERAL = MixturePredictive(np.log(WEIGHTS), (NormalPredictive(LOC * 0, SCALE), STUDENT, NORMAL))
BOTH = {
    "normal": (NORMAL, scipy.stats.norm(LOC, SCALE)),
    "Student t": (STUDENT, scipy.stats.t(DF, LOC, SCALE)),
}
EVERY = {"normal": NORMAL, "Student t": STUDENT, "mixture": MIXTURE, "mixture of kinds": SEVERAL}
EVERY["joined"] = joined_predictives([NORMAL, MIXTURE])
EVERY["deferred"] = deferred(functools.partial(pickle.loads, pickle.dumps(MIXTURE)), MIXTURE)
every = pytest.mark.parametrize("name", EVERY)


@pytest.mark.parametrize("name", BOTH)
def test_they_are_scipys(name):
    predictive, oracle = BOTH[name]
    values = LOC + SCALE * np.array([-1.7, 0.4, 60.0])
    close(predictive.mean, oracle.mean())
    close(predictive.std, oracle.std())
    close(predictive.log_density(values), oracle.logpdf(values), rtol=1e-12)
    close(predictive.cdf(values), oracle.cdf(values), rtol=1e-9)
    for q in (1e-6, 0.3, 0.5, 0.999):
        close(predictive.quantile(q), oracle.ppf(q), rtol=1e-9)


@every
def test_means_that_a_caller_changes_leave_the_distribution_as_it_is(name):
    predictive = EVERY[name]
    means = predictive.mean
    before = means.copy()
    means -= 5.0
    close(predictive.mean, before, rtol=0)


def test_where_there_are_no_moments():
    predictive = StudentTPredictive(np.array([0.7, 1.0, 2.0, 2.1]), np.zeros(4), np.ones(4))
    assert np.isnan(predictive.mean).tolist() == [True, True, False, False]
    assert np.isinf(predictive.std).tolist() == [True, True, True, False]


@every
def test_quantiles_are_where_the_cdf_is(name):
    predictive = EVERY[name]
    for q in (1e-4, 0.25, 0.5, 0.99):
        close(predictive.cdf(predictive.quantile(q)), q, rtol=1e-6)


@every
def test_several_values_a_row_are_asked_at_once(name):
    predictive = EVERY[name]
    values = np.random.default_rng(0).normal(size=(2, 5, predictive.num_rows))
    for ask in (predictive.cdf, predictive.log_density):
        many = ask(values)
        assert many.shape == values.shape
        close(many[1, 3], ask(values[1, 3]), rtol=1e-13)
        close(ask(np.asarray(0.5)), ask(np.full(predictive.num_rows, 0.5)), rtol=1e-13)


@every
def test_draws_are_of_the_distribution(name):
    predictive = EVERY[name]
    draws = predictive.draws(np.random.default_rng(3), 4000)
    assert draws.shape == (4000, predictive.num_rows)
    uniform = predictive.cdf(draws[:300])
    for row in range(predictive.num_rows):
        assert scipy.stats.kstest(uniform[:, row], "uniform").pvalue > 1e-3, row


def test_mixtures_are_their_definition():
    with np.errstate(divide="ignore"):
        mixture = MixturePredictive(
            np.log(WEIGHTS[:, :1]), NormalPredictive(np.array([[0.0], [5.0], [9.0]]), np.array([[1.0], [0.5], [2.0]]))
        )
    density = lambda y: float(np.exp(mixture.log_density(np.array([y])))[0])  # noqa: E731
    integral = functools.partial(scipy.integrate.quad, points=[0, 5, 9], limit=200)
    close(integral(density, -12, 30)[0], 1.0, rtol=1e-9)
    mean = integral(lambda y: y * density(y), -12, 30)[0]
    close(mixture.mean, mean, rtol=1e-8)
    close(mixture.std**2, integral(lambda y: (y - mean) ** 2 * density(y), -12, 30)[0], rtol=1e-8)
    close(mixture.cdf(np.array([4.8])), integral(density, -12, 4.8)[0], rtol=1e-8)


def test_components_without_weight_have_no_part():
    with np.errstate(divide="ignore"):
        log_weights = np.log([[0.0], [1.0]])
    parameters = (np.array(pair)[:, None] for pair in ([0.5, 9.0], [7.0, 2.0], [1.0, 3.0]))
    mixture = MixturePredictive(log_weights, StudentTPredictive(*parameters))
    close(mixture.mean, 2.0)
    close(mixture.std, 3 * np.sqrt(9 / 7))
    close(mixture.quantile(0.9), scipy.stats.t(9, 2, 3).ppf(0.9))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_conditioning_is_that_of_dense_matrices(offset):
    rng = np.random.default_rng(4)
    roots = rng.normal(size=(3, 5, 5)) * np.array([1e-3, 1.0, 10.0, 1e3, 2.0])[:, None]
    matrices, locs = roots @ roots.swapaxes(1, 2), rng.normal(size=(3, 5)) + offset
    rows, observed = rng.normal(size=(7, 4)) + offset, rng.random((7, 4)) < 0.6
    observed[:3] = [[True] * 4, [False] * 4, [True, False, False, True]]
    for mask in (None, observed, np.zeros((7, 4), bool)):
        found = last_given_rest(locs, matrices, np.where(observed if mask is observed else True, rows, np.nan)
                                if mask is not None else rows, mask, with_squares=True)  # fmt: skip
        for s in range(3):
            for i in range(7):
                there = np.flatnonzero(np.ones(4, bool) if mask is None else mask[i])
                inner, cross = matrices[s][np.ix_(there, there)], matrices[s][there, 4]
                residual = rows[i, there] - locs[s, there]
                slope = np.linalg.solve(inner, cross)
                close(found.loc[s, i], locs[s, 4] + slope @ residual, rtol=1e-7)
                close(found.scale[s, i] ** 2, matrices[s][4, 4] - slope @ cross, rtol=1e-6)
                close(found.squares[s, i], residual @ np.linalg.solve(inner, residual), rtol=1e-6, atol=1e-12)
                close(found.half_log_det[s, i], 0.5 * np.linalg.slogdet(inner)[1], rtol=1e-6, atol=1e-9)
                assert np.broadcast_to(found.num_observed, 7)[i] == len(there)
