"""The continuous ranked probability score: closed forms against SciPy's integrals, quadrature against closed forms."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from bayesgen.predictives import MixturePredictive, NormalPredictive, StudentTPredictive
from bayesgen.predictives.base import crps_by_quadrature

Y = np.array([-40.0, -1.0, 2.0, 2.5, 9.0, 300.0])
LOC, SCALE = np.full(6, 2.0), np.full(6, 0.7)
NORMAL = NormalPredictive(LOC, SCALE)


def student_t(df):
    return StudentTPredictive(np.full(6, df), LOC, SCALE)


class Unknown:
    """A distribution of which little is known: its distribution functions, and a poor centre and width."""

    spacing = 0.0

    def __init__(self, cdf, survival, mean, std):
        self.cdf, self.survival, self.mean, self.std = cdf, survival, mean, std


def integrated(distribution, y):
    """CRPS by its definition, cut where the distribution function turns."""
    cuts = sorted([distribution.ppf(0.05), distribution.median(), distribution.ppf(0.95), y])
    ends = [-np.inf, *cuts, np.inf]

    def squared(u):
        return distribution.cdf(u) ** 2 if u < y else distribution.sf(u) ** 2

    pieces = itertools.pairwise(ends)
    return sum(integrate.quad(squared, low, high, epsabs=0, epsrel=1e-11, limit=200)[0] for low, high in pieces)


def test_the_score_of_normals_is_the_integral():
    expected = [integrated(stats.norm(2.0, 0.7), y) for y in Y]
    np.testing.assert_allclose(NORMAL.crps(Y), expected, rtol=1e-9)


@pytest.mark.parametrize("df", [0.8, 0.9999, 1.0, 1.000004, 1.00005, 1.3, 4.7, 60.0])
def test_the_score_of_student_ts_is_the_integral_even_where_they_have_no_mean(df):
    expected = [integrated(stats.t(df, 2.0, 0.7), y) for y in Y]
    np.testing.assert_allclose(student_t(df).crps(Y), expected, rtol=1e-7)


def test_the_score_is_infinite_where_tails_are_too_heavy_and_normal_where_they_are_light():
    assert np.isposinf(student_t(0.5).crps(Y)).all()
    np.testing.assert_allclose(student_t(1e7).crps(Y), NORMAL.crps(Y), rtol=1e-6)


def test_quadrature_gives_the_closed_forms_from_a_poor_centre_and_scale():
    df, loc, scale = (
        np.array([3.0, 7.0, 2.0, 30.0, 5.0, 11.0]),
        LOC * [1, 1e5, -3, 0, 2, 1],
        SCALE * 10.0 ** np.arange(6),
    )
    shifted, wide = loc + 1.3 * scale, 5 * scale
    for oracle, own in (
        (stats.t(df, loc, scale), StudentTPredictive(df, loc, scale)),
        (stats.norm(loc, scale), NormalPredictive(loc, scale)),
    ):
        found = crps_by_quadrature(Unknown(oracle.cdf, oracle.sf, shifted, wide), Y)
        np.testing.assert_allclose(found, own.crps(Y), rtol=1e-7)


def test_quadrature_of_mixtures_is_the_mean_distance_less_half_that_of_two_draws():
    """E|X − y| − E|X − X'| / 2 (Gneiting & Raftery 2007, eq. 21), where all distances are of normals."""
    weights, means, stds = np.array([0.2, 0.5, 0.3]), np.array([-5.0, 0.0, 40.0]), np.array([1e-2, 3.0, 0.5])

    def distance(mean, variance):
        return stats.foldnorm.mean(np.abs(mean) / np.sqrt(variance), scale=np.sqrt(variance))

    to_truth = (weights * distance(Y[:, None] - means, stds**2)).sum(axis=1)
    between = distance(means[:, None] - means, stds[:, None] ** 2 + stds**2)
    expected = to_truth - weights @ between @ weights / 2
    columns = (np.broadcast_to(values[:, None], (3, 6)) for values in (means, stds))
    mixture = MixturePredictive(np.log(np.broadcast_to(weights[:, None], (3, 6))), NormalPredictive(*columns))
    np.testing.assert_allclose(crps_by_quadrature(mixture, Y), expected, rtol=1e-7)
    np.testing.assert_allclose(mixture.mean_distance(Y), to_truth, rtol=1e-12)
    assert mixture.half_distance() is None  # a component is too narrow for even steps
    np.testing.assert_allclose(mixture.crps(Y), expected, rtol=1e-7)


def test_distances_of_draws_are_those_of_the_closed_forms():
    df, loc, scale = np.array([2.1, 3.0, 5.0, 300.0]), np.array([2.0, -1e4, 0.0, 3.0]), np.array([0.7, 20.0, 1e3, 1e-3])
    student = StudentTPredictive(df, loc, scale)
    half = MixturePredictive(np.log(np.full((2, 4), 0.5)), (student, student)).half_distance()
    score, distance = student.crps(loc), student.mean_distance(loc)
    np.testing.assert_allclose(half, distance - score, rtol=1e-7)
    np.testing.assert_allclose(distance, 2 * scale * stats.t(df).pdf(0) * df / (df - 1), rtol=1e-12)
    np.testing.assert_allclose(NORMAL.mean_distance(Y) - NORMAL.half_distance(), NORMAL.crps(Y), rtol=1e-15)
    assert np.isposinf(StudentTPredictive(np.ones(4), loc, scale).mean_distance(loc)).all()


def test_the_score_is_that_of_many_draws():
    draws = np.random.default_rng(0).standard_t(6.0, size=(6, 200_000)) * 0.7 + 2.0
    half = draws.shape[1] // 2
    distances = np.abs(draws - Y[:, None])
    apart = np.abs(draws[:, :half] - draws[:, half:])
    error = 4 * (distances.std(axis=1) / np.sqrt(2 * half) + apart.std(axis=1) / 2 / np.sqrt(half))
    expected = distances.mean(axis=1) - apart.mean(axis=1) / 2
    assert (np.abs(student_t(6.0).crps(Y) - expected) < error).all()
