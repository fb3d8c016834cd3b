"""Averages of fits with a continuous label."""

import pickle

import numpy as np
import pytest
import scipy.special
from sklearn.preprocessing import PolynomialFeatures

import bayesgen as bg

close = np.testing.assert_allclose
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) + np.array([3.0, -1.0])
Y = X @ [1.0, 0.4] + 0.2 * X[:, 0] ** 2 + RNG.normal(size=40)
NEW, NEW_Y = X[:5] + 0.3, Y[:5]
LINES = [bg.LinearRegression(), bg.LinearRegression(PolynomialFeatures(2))]
JOINTS = [bg.JointGaussianRegression(), bg.JointGaussianRegression(bg.NormalInverseWishart(kappa=3.0))]
EXACT, BMA = bg.Exact(), bg.BMA()


def fits_of(models, y=Y):
    return [bg.fit(model, X, y, method=EXACT) for model in models]


def test_structures_weigh_by_evidence_and_by_what_they_say_of_x():
    fits = fits_of(JOINTS)
    both = bg.average(fits, prior=[0.3, 0.7])
    evidences = np.array([fit.log_evidence for fit in fits]) + np.log([0.3, 0.7])
    close(both.weights, scipy.special.softmax(evidences))
    close(both.log_evidence, scipy.special.logsumexp(evidences))
    answer = bg.predict(both, NEW, rule=BMA)
    alone = [bg.predict(fit, NEW, rule=BMA) for fit in fits]
    joints = np.stack([np.log(w) + one.log_marginal for w, one in zip(both.weights, alone, strict=True)])
    close(answer.log_marginal, scipy.special.logsumexp(joints, axis=0))
    joint = joints + np.stack([one.log_density(NEW_Y) for one in alone])
    close(answer.log_density(NEW_Y), scipy.special.logsumexp(joint, axis=0) - answer.log_marginal)
    shares = scipy.special.softmax(joints, axis=0)
    close(answer.mean, (shares * np.stack([one.mean for one in alone])).sum(0))
    close(answer.cdf(answer.quantile(0.8)), 0.8)
    close(bg.predict(both, NEW, rule=bg.PlugIn()).mean, bg.predict(both.best, NEW, rule=bg.PlugIn()).mean)


def test_one_structure_for_all_rows_is_the_ratio_of_evidences():
    both = bg.average(fits_of(JOINTS))
    for i in range(2):
        more = both.update(NEW[i : i + 1], NEW_Y[i : i + 1])
        answer = bg.predict(both, NEW[i : i + 1], rule=BMA)
        joint = answer.log_density(NEW_Y[i : i + 1]) + answer.log_marginal
        close(joint, more.log_evidence - both.log_evidence, rtol=1e-9)


def test_bases_weigh_by_evidence_alone_where_x_is_given():
    both = bg.fit(bg.average(LINES), X, Y, method=EXACT)
    answer = bg.predict(both, NEW, rule=BMA)
    alone = [bg.predict(fit, NEW, rule=BMA) for fit in both.members]
    assert answer.log_marginal is None
    close(answer.mean, both.weights @ np.stack([one.mean for one in alone]))
    again = bg.predict(pickle.loads(pickle.dumps(both)), NEW, rule=BMA)
    close(pickle.loads(pickle.dumps(again)).quantile(0.1), answer.quantile(0.1))
    assert len(bg.predict(both, NEW[:0], rule=BMA)) == 0
    assert "AverageFit of 2 structures" in repr(both) and both.to_datatree(num_draws=3).children


@pytest.mark.parametrize("weights", ["stacking", "pseudo-bma"])
def test_weights_of_rows_left_out_compare_what_is_said_of_y(weights):
    members = [JOINTS[0], LINES[1]]
    fits = fits_of(members)
    both = bg.average(fits, weights=weights, X=X, y=Y)
    assert both.weights.sum() == pytest.approx(1) and both.log_evidence is None
    held_out = bg.average(fits, weights=weights, X=NEW, y=NEW_Y, folds=None)
    scores = [bg.predict(fit, NEW, rule=BMA).log_density(NEW_Y).sum() for fit in fits]
    close(held_out.scores, scores)
    answer = bg.predict(both, NEW, rule=BMA)
    assert answer.log_marginal is None
    close(answer.mean, both.weights @ np.stack([bg.predict(fit, NEW, rule=BMA).mean for fit in fits]))
    with pytest.raises(bg.DataError, match="not the rows of the training"):
        bg.average(fits, weights=weights, X=X, y=Y + 1)
    with pytest.raises(bg.DataError, match="y is missing in 1 rows, the first is row 2"):
        bg.average(fits, weights=weights, X=NEW, y=[1, 2, None, 4, 5], folds=None)


def test_models_of_unlike_structure_are_weighed_where_both_model_x():
    both = bg.average([*fits_of([JOINTS[0], bg.NaiveBayesRegression()])])
    answer = bg.predict(both, NEW, rule=BMA)
    alone = [bg.predict(fit, NEW, rule=BMA) for fit in both.members]
    joint = [np.log(w) + one.log_marginal for w, one in zip(both.weights, alone, strict=True)]
    close(answer.log_marginal, scipy.special.logsumexp(joint, axis=0))
    close(answer.cdf(answer.quantile([0.1, 0.9]).T).T, [[0.1, 0.9]] * 5, rtol=1e-6)


def test_what_cannot_be_averaged_is_refused():
    joint, line = fits_of([JOINTS[0], LINES[0]])
    with pytest.raises(bg.FitError, match="one is a density of y given X"):
        bg.average([joint, line])
    with pytest.raises(bg.FitError, match="continuous label and the others have none"):
        bg.average([joint, bg.fit(bg.NaiveBayes(), X, Y > 5, method=EXACT)])
    with pytest.raises(bg.FitError, match="saw different rows"):
        bg.average([joint, *fits_of(JOINTS[1:], Y + 1)])
    both = bg.average([joint, joint])
    with pytest.raises(bg.PredictionError, match="no draws"):
        bg.predict(both, NEW, rule=bg.ConditionalAverage())
    with pytest.raises(bg.PredictionError, match="no table of log-joints"):
        both.log_joint(NEW)
    with pytest.raises(bg.PredictionError, match="X is given and not modelled"):
        line.log_joint(NEW)


def test_evidences_of_other_rows_features_or_units_are_refused():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(31, 2))
    y = X @ [1.0, -2.0] + 0.3 * rng.normal(size=31)

    def fitted(model, X, y):
        return bg.fit(model, X, y, method=bg.Exact())

    line, curve = bg.LinearRegression(), bg.LinearRegression(PolynomialFeatures(2))
    proper = bg.LinearRegression(prior=bg.LinearNormalInverseGamma(kappa=0.01))
    without = bg.LinearRegression(intercept=False)
    refused = [
        ("x0, x1", line, line, X[::-1], y),
        ("PolynomialFeatures", curve, curve, X[::-1], y),
        ("differ", line, line, X, y[::-1]),
        ("columns differ", line, line, X[:, :1], y),
        ("flat intercept", line, without, X, y),
        ("flat intercept", line, proper, X, y),
    ]
    for words, one, other, other_X, other_y in refused:
        with pytest.raises(bg.FitError, match=words):
            bg.average([fitted(one, X, y), fitted(other, other_X, other_y)])
    weights = [bg.average([fitted(proper, X, u * y), fitted(without, X, u * y)]).weights for u in (1.0, 1e3)]
    close(*weights, rtol=1e-9)
