"""What is asked of the distribution of a continuous label: values that are no numbers, and infinite ones."""

import numpy as np
import pytest

import bayesgen as bg
from bayesgen.predictives import MixturePredictive, NormalPredictive, StudentTPredictive

ANSWERS = {
    "normal": NormalPredictive(np.array([0.0, 3.0]), np.array([1.0, 2.0])),
    "student": StudentTPredictive(np.array([0.9, 5.0]), np.array([0.0, 3.0]), np.array([1.0, 2.0])),
    "mixture": MixturePredictive(np.log([[0.4, 0.5], [0.6, 0.5]]), NormalPredictive(np.eye(2), np.ones((2, 2)))),
}
every_kind = pytest.mark.parametrize("kind", ANSWERS)


@pytest.mark.parametrize("asked", ["a", "1.5", ["a", "b"], [None, "b"], [[1.0], [2.0, 3.0]], True, 1j, object()])
@pytest.mark.parametrize("question", ["log_density", "cdf", "crps"])
def test_what_is_no_number_is_refused(question, asked):
    answer = bg.ContinuousPrediction(ANSWERS["normal"])
    with pytest.raises(bg.PredictionError, match="y must be a number, one for each row"):
        getattr(answer, question)(asked)


@every_kind
def test_the_score_of_an_infinite_value_is_infinite_and_of_none_is_none(kind):
    answer = bg.ContinuousPrediction(ANSWERS[kind])
    for value in (np.inf, -np.inf):
        np.testing.assert_array_equal(answer.crps(value), [np.inf, np.inf])
    np.testing.assert_array_equal(answer.crps(np.nan), [np.nan, np.nan])
    both = answer.crps(1.5)
    np.testing.assert_allclose(answer.crps([1.5, np.inf]), [both[0], np.inf])
    np.testing.assert_allclose(answer.crps([None, 1.5]), [np.nan, both[1]])


@pytest.mark.parametrize("prob", [0.0, 1.0, 1.5, -0.5, np.nan, "0.9", None])
def test_intervals_have_a_probability_between_0_and_1(prob):
    with pytest.raises(bg.PredictionError, match="interval takes a probability between 0 and 1"):
        bg.ContinuousPrediction(ANSWERS["normal"]).interval(prob)
