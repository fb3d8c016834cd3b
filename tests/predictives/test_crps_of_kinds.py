"""The continuous ranked probability score of outcomes: what each kind does by itself against plain quadrature."""

import numpy as np
import pytest
from scipy import stats

from bayesgen.predictives import (
    MixturePredictive,
    NormalPredictive,
    StudentTPredictive,
    deferred,
    joined_predictives,
)
from bayesgen.predictives.base import crps_by_quadrature

RNG = np.random.default_rng(11)
Y = np.array([-30.0, 0.3, 2.0, 4.0, 1e3])
LOC, SCALE, DF = RNG.normal(2, 3, (3, 5)), RNG.gamma(30, 0.05, (3, 5)), RNG.uniform(3, 9, (3, 5))
LOG_WEIGHTS = np.log(RNG.dirichlet(np.ones(3), 5).T)
NORMALS, STUDENTS = NormalPredictive(LOC, SCALE), StudentTPredictive(DF, LOC, SCALE)


def mixed(*parts):
    """The distribution function of a mixture of SciPy's distributions, the components first."""
    return Oracle(
        lambda u: sum((weights * part.cdf(u[..., None, :])).sum(-2) for weights, part in parts),
        lambda u: sum((weights * part.sf(u[..., None, :])).sum(-2) for weights, part in parts),
    )


class Oracle:
    """The distribution functions of another library, about 2."""

    mean, std, spacing = np.full(5, 2.0), np.full(5, 3.0), 0.0

    def __init__(self, cdf, survival):
        self.cdf, self.survival = cdf, survival


HEAVY = StudentTPredictive(DF / 3, LOC, SCALE)  # some without variance
WEIGHTS = np.exp(LOG_WEIGHTS)
ROW = (DF[1:2], LOC[1:2], SCALE[1:2])
HALVES = MixturePredictive(
    np.log([[0.4] * 5, [0.6] * 5]), (NormalPredictive(LOC[0], SCALE[0]), StudentTPredictive(DF[1], LOC[1], SCALE[1]))
)


@pytest.mark.parametrize(
    ("predictive", "oracle"),
    {
        "normal": (NormalPredictive(LOC[0], SCALE[0]), mixed((1.0, stats.norm(LOC[:1], SCALE[:1])))),
        "student": (StudentTPredictive(DF[0], LOC[0], SCALE[0]), mixed((1.0, stats.t(DF[:1], LOC[:1], SCALE[:1])))),
        "normals": (MixturePredictive(LOG_WEIGHTS, NORMALS), mixed((WEIGHTS, stats.norm(LOC, SCALE)))),
        "students": (MixturePredictive(LOG_WEIGHTS, STUDENTS), mixed((WEIGHTS, stats.t(DF, LOC, SCALE)))),
        "heavy": pytest.param(
            MixturePredictive(LOG_WEIGHTS, HEAVY), mixed((WEIGHTS, stats.t(DF / 3, LOC, SCALE))), marks=pytest.mark.slow
        ),
        "several": (HALVES, mixed((0.4, stats.norm(LOC[:1], SCALE[:1])), (0.6, stats.t(*ROW)))),
    }.values(),
    ids=["normal", "student", "normals", "students", "heavy", "several"],
)
def test_every_kind_scores_as_its_distribution_function_says(predictive, oracle):
    expected = crps_by_quadrature(oracle, Y)
    np.testing.assert_allclose(predictive.crps(Y), expected, rtol=1e-6)


def test_a_mixture_of_normals_is_scored_in_closed_form():
    """E|X − y| − E|X − X'| / 2 over all pairs of components (Grimit, Gneiting, Berrocal & Johnson 2006, eq. 5)."""

    def distance(mean, variance):
        return stats.foldnorm.mean(np.abs(mean) / np.sqrt(variance), scale=np.sqrt(variance))

    between = distance(LOC[:, None] - LOC, SCALE[:, None] ** 2 + SCALE**2)
    apart = np.einsum("in,jn,ijn->n", WEIGHTS, WEIGHTS, between)
    expected = (WEIGHTS * distance(LOC - Y, SCALE**2)).sum(0) - apart / 2
    np.testing.assert_allclose(MixturePredictive(LOG_WEIGHTS, NORMALS).crps(Y), expected, rtol=1e-7)


def test_parts_and_what_is_made_anew_score_as_the_whole():
    whole = MixturePredictive(LOG_WEIGHTS, NORMALS)
    first, rest = (
        MixturePredictive(LOG_WEIGHTS[:, part], NormalPredictive(LOC[:, part], SCALE[:, part]))
        for part in (slice(2), slice(2, 5))
    )
    np.testing.assert_allclose(joined_predictives((first, rest)).crps(Y), whole.crps(Y), rtol=1e-7)
    np.testing.assert_array_equal(deferred(lambda: whole, whole).crps(Y), whole.crps(Y))


def test_rows_that_are_impossible_have_no_score_and_disturb_no_other():
    weights = LOG_WEIGHTS.copy()
    weights[:, 3] = np.nan
    score = MixturePredictive(weights, NORMALS).crps(Y)
    assert np.isnan(score[3])
    np.testing.assert_allclose(
        np.delete(score, 3), np.delete(MixturePredictive(LOG_WEIGHTS, NORMALS).crps(Y), 3), rtol=1e-6
    )


def test_large_values_above_are_as_exact_as_those_below():
    heavy = MixturePredictive(
        np.log([[0.3], [0.7]]), StudentTPredictive(np.full((2, 1), 2.2), np.zeros((2, 1)), np.ones((2, 1)))
    )
    np.testing.assert_allclose(
        heavy.crps(np.array([1e4])),
        StudentTPredictive(np.array([2.2]), np.zeros(1), np.ones(1)).crps(np.array([-1e4])),
        rtol=1e-9,
    )
