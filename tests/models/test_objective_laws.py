"""Discriminative training of every built-in model: labels are no less probable than under the joint fit."""

import numpy as np
import pytest
import scipy.special

import bayesgen as bg
from bayesgen.errors import FitError

from .cases import CASES

# that p(y | x) has no maximum, or none within reach, in the small data of the table
WITHOUT_MLE = {
    "naive Bayes, informative",
    "multinomial, dense",
    "multinomial, sparse",
    "Bernoulli, sparse",
    "naive Bayes, binned",
    "naive Bayes, words",
    "naive Bayes, words that end",
}
WITHOUT_MAP = {"naive Bayes, binned", "multinomial, sparse"}
# one variance for columns of very unlike scales: how XLA rounds decides whether an end is found or refused
ROUNDING_DECIDES = {
    ("discriminant, spherical", bg.MAP),
    ("discriminant, tied-spherical", bg.MAP),
    ("discriminant, tied-spherical", bg.MLE),
}
PRIOR_DECIDES = {"naive Bayes, words"}  # more than the few rows do: it gains what labels lose


@pytest.mark.slow  # the two objectives of tied classes are compared in every run: fitting/test_conditional.py
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [bg.MLE, bg.MAP])
def test_labels_are_no_less_probable_than_under_the_joint_fit(name, kind):
    case = CASES[name]
    X, y = case.data
    method = kind(objective="conditional")
    if name in (WITHOUT_MLE if kind is bg.MLE else WITHOUT_MAP):
        with pytest.raises(FitError, match=r"without end along site|No maximum was reached"):
            bg.fit(case.model, X, y, method=method)
        return
    try:
        fit = bg.fit(case.model, X, y, method=method)
    except FitError as error:
        assert (name, kind) in ROUNDING_DECIDES and "rounding hides" in str(error), error
        return
    joint = bg.fit(case.model, X, y, method=kind())
    assert set(fit.parameters) == set(joint.parameters)

    def log_scores(fit):
        table = scipy.special.log_softmax(fit.log_joint(X), axis=1)
        return table[np.arange(len(y)), np.searchsorted(fit.classes, y)]

    if name not in PRIOR_DECIDES or kind is bg.MLE:
        assert log_scores(fit).sum() >= log_scores(joint).sum()
    assert fit.attributes["objective"] >= fit.attributes["objective_of_joint_fit"]
    if kind is bg.MLE:
        assert log_scores(fit).sum() == pytest.approx(fit.attributes["objective"], abs=1e-6)
