"""The continuous ranked probability score: closed forms against SciPy's integrals, quadrature against closed forms."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from bayesgen.predictives.base import (
    crps_by_quadrature,
    half_distance_of_draws,
    normal_crps,
    student_t_crps,
    student_t_distance,
)

Y = np.array([-40.0, -1.0, 2.0, 2.5, 9.0, 300.0])
LOC, SCALE = np.full(6, 2.0), np.full(6, 0.7)


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
    np.testing.assert_allclose(normal_crps(Y, LOC, SCALE), expected, rtol=1e-9)


@pytest.mark.parametrize("df", [0.8, 1.0, 1.3, 4.7, 60.0])
def test_the_score_of_student_ts_is_the_integral_even_where_they_have_no_mean(df):
    expected = [integrated(stats.t(df, 2.0, 0.7), y) for y in Y]
    np.testing.assert_allclose(student_t_crps(Y, np.full(6, df), LOC, SCALE), expected, rtol=1e-7)


def test_the_score_is_infinite_where_tails_are_too_heavy_and_normal_where_they_are_light():
    assert np.isposinf(student_t_crps(Y, np.full(6, 0.5), LOC, SCALE)).all()
    np.testing.assert_allclose(student_t_crps(Y, np.full(6, 1e7), LOC, SCALE), normal_crps(Y, LOC, SCALE), rtol=1e-6)


def test_quadrature_gives_the_closed_forms_from_a_poor_centre_and_scale():
    df, loc, scale = (
        np.array([3.0, 7.0, 2.0, 30.0, 5.0, 11.0]),
        LOC * [1, 1e5, -3, 0, 2, 1],
        SCALE * 10.0 ** np.arange(6),
    )
    shifted, wide = loc + 1.3 * scale, 5 * scale
    heavy = crps_by_quadrature(lambda u: stats.t.cdf(u, df, loc, scale), Y, shifted, wide)
    np.testing.assert_allclose(heavy, student_t_crps(Y, df, loc, scale), rtol=1e-7)
    light = crps_by_quadrature(lambda u: stats.norm.cdf(u, loc, scale), Y, shifted, wide)
    np.testing.assert_allclose(light, normal_crps(Y, loc, scale), rtol=1e-7)


def test_quadrature_of_mixtures_is_the_mean_distance_less_half_that_of_two_draws():
    """E|X − y| − E|X − X'| / 2 (Gneiting & Raftery 2007, eq. 21), where all distances are of normals."""
    weights, means, stds = np.array([0.2, 0.5, 0.3]), np.array([-5.0, 0.0, 40.0]), np.array([1e-2, 3.0, 0.5])

    def cdf(u):
        return (weights * stats.norm.cdf(u[:, None], means, stds)).sum(axis=1)

    def distance(mean, variance):
        return stats.foldnorm.mean(np.abs(mean) / np.sqrt(variance), scale=np.sqrt(variance))

    to_truth = (weights * distance(Y[:, None] - means, stds**2)).sum(axis=1)
    between = distance(means[:, None] - means, stds[:, None] ** 2 + stds**2)
    expected = to_truth - weights @ between @ weights / 2
    centre, scale = np.full(6, weights @ means), np.full(6, 20.0)
    np.testing.assert_allclose(crps_by_quadrature(cdf, Y, centre, scale), expected, rtol=1e-7)
    half = half_distance_of_draws(cdf, lambda u: 1 - cdf(u), centre, scale)
    np.testing.assert_allclose(half, weights @ between @ weights / 2, rtol=1e-7)


def test_distances_of_draws_are_those_of_the_closed_forms():
    df, loc, scale = np.array([2.1, 3.0, 5.0, 300.0]), np.array([2.0, -1e4, 0.0, 3.0]), np.array([0.7, 20.0, 1e3, 1e-3])
    functions = (stats.t(df, loc, scale).cdf, stats.t(df, loc, scale).sf)
    half = half_distance_of_draws(*functions, loc + scale, 4 * scale)
    score, distance = student_t_crps(loc, df, loc, scale), student_t_distance(loc, df, loc, scale)
    np.testing.assert_allclose(half, distance - score, rtol=1e-7)
    np.testing.assert_allclose(distance, 2 * scale * stats.t(df).pdf(0) * df / (df - 1), rtol=1e-12)
    assert np.isposinf(student_t_distance(loc, np.ones(4), loc, scale)).all()


def test_the_score_is_that_of_many_draws():
    draws = np.random.default_rng(0).standard_t(6.0, size=(6, 200_000)) * 0.7 + 2.0
    half = draws.shape[1] // 2
    distances = np.abs(draws - Y[:, None])
    apart = np.abs(draws[:, :half] - draws[:, half:])
    error = 4 * (distances.std(axis=1) / np.sqrt(2 * half) + apart.std(axis=1) / 2 / np.sqrt(half))
    expected = distances.mean(axis=1) - apart.mean(axis=1) / 2
    assert (np.abs(student_t_crps(Y, np.full(6, 6.0), LOC, SCALE) - expected) < error).all()
