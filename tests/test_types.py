"""What type checkers know of fits and answers: mypy reads most functions below, and nobody runs them."""

from typing import assert_type

import numpy as np
import pytest
import type_checker
from mypy import api

import bayesgen as bg
from bayesgen.averaging import AverageFit, AverageModel
from bayesgen.concepts import ConceptFit, ConceptPrediction
from bayesgen.fitting import Fit
from bayesgen.labels import ClassLabel
from bayesgen.prediction import ClassPrediction, ContinuousPrediction, DensityPrediction

X, EXACT, BMA = np.zeros((5, 2)), bg.Exact(), bg.BMA()


def classes() -> None:
    fit = bg.fit(bg.GaussianDiscriminant(), X, [0, 1, 0, 1, 1], method=EXACT)
    assert_type(fit, Fit[ClassLabel])
    assert_type(bg.predict(fit, X, rule=BMA), ClassPrediction)
    assert_type(fit.update(X), Fit[ClassLabel])


def perhaps_classes() -> None:
    for fit in (bg.fit(bg.NaiveBayes(), X, method=EXACT), bg.fit(bg.GenerativeClassifier([]), X, method=EXACT)):
        answer = bg.predict(fit, X, rule=BMA)
        assert_type(answer, ClassPrediction | DensityPrediction)
        answer.probabilities.sum()  # of both: one says why there are none


def numbers() -> None:
    for model in (bg.LinearRegression(), bg.JointGaussianRegression(), bg.NaiveBayesRegression()):
        assert_type(bg.predict(bg.fit(model, X, X[:, 0], method=EXACT), X, rule=BMA), ContinuousPrediction)


def programs(program: bg.GenerativeProgram) -> None:
    answer = bg.predict(bg.fit(program, X, method=bg.NUTS()), X, rule=BMA)
    assert_type(answer, ClassPrediction | ContinuousPrediction | DensityPrediction)


def averages(model: AverageModel) -> None:
    fit = bg.fit(model, X, method=EXACT)
    assert_type(fit, AverageFit)
    assert_type(fit.update(X), AverageFit)
    assert_type(bg.predict(fit, X, rule=BMA), ClassPrediction | ContinuousPrediction | DensityPrediction)


def concepts() -> None:
    fit = bg.fit(bg.ConceptLearner(bg.number_game("murphy")), [2, 4], method=EXACT)
    assert_type(fit, ConceptFit)
    assert_type(bg.predict(fit, [8], rule=BMA), ConceptPrediction)


def test_modules_whose_calls_are_checked_exist():
    assert len(type_checker.CHECKED) > 15
    assert type_checker.missing_modules() == []


@pytest.mark.slow  # it reads the whole package
def test_types_are_as_asserted():
    said, _, status = api.run([__file__])
    assert status == 0, said
