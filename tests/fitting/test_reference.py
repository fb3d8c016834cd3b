"""The figures of the reference, to their printed digits."""

import jax
import numpy as np
import pytest
import scipy.special
from scipy import stats
from sklearn.datasets import load_digits, load_iris

import bayesgen as bg

close = np.testing.assert_allclose
DIGITS = 6e-9  # half of the last printed digit, and rounding


def scores(answer, y):
    """(errors, mean log loss, Brier score summed over classes), as the tables print them."""
    indicator = np.asarray(y)[:, None] == answer.classes
    errors = int((answer.labels != y).sum())
    brier = ((answer.probabilities - indicator) ** 2).sum(1).mean()
    return errors, -answer.log_probabilities[indicator].mean(), brier


# --- lecture notes ------------------------------------------------------------------------------------------------


def test_bayes_rule_for_a_rare_disease():
    positive = np.repeat([True, False, True, False], [8, 2, 1, 9])
    status = np.repeat(["ill", "well"], 10)
    model = bg.NaiveBayes(class_prior=[0.004, 0.996])
    fit = bg.fit(model, {"test": positive}, status, method=bg.MLE())
    answer = bg.predict(fit, {"test": [True]}, rule=bg.PlugIn())
    assert answer.probabilities[0, 0] == pytest.approx(0.031, abs=5e-4)


@pytest.mark.parametrize("a, b", [(1.0, 1.0), (2.5, 1.7)])
def test_coin(a, b):
    tosses = np.repeat([1.0, 0.0], [90, 10])
    prior = bg.BetaBernoulli(a, b)
    posterior = prior.update(tosses)
    assert prior.maximum_likelihood(prior.summarize(tosses))["probs"] == pytest.approx(0.9, rel=1e-14)
    assert posterior.mode()["probs"] == pytest.approx((a + 89) / (a + b + 98), rel=1e-13)
    assert posterior.mean()["probs"] == pytest.approx((a + 90) / (a + b + 100), rel=1e-13)
    assert posterior.variance()["probs"] == pytest.approx(stats.beta.var(a + 90, b + 10), rel=1e-12)
    with jax.enable_x64(True):
        heads = float(np.exp(posterior.predictive().log_prob(1)))
    assert heads == pytest.approx((a + 90) / (a + b + 100), rel=1e-12)
    two = prior.update(tosses[:37]).update(tosses[37:])
    assert two.mean()["probs"] == pytest.approx(posterior.mean()["probs"], rel=1e-14)


def test_naive_bayes_learns_by_counting():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 101)
    columns = {f"c{r}": rng.integers(0, r, 101) for r in (2, 3, 5)}
    kinds = dict.fromkeys(columns, "categorical")
    fit = bg.fit(bg.NaiveBayes(), columns, codes, method=bg.MLE(), schema=bg.Schema(kinds=kinds))
    close(fit.parameters["class_probs"], np.bincount(codes) / 101, rtol=1e-13)
    for r in (2, 3, 5):
        counted = [np.bincount(columns[f"c{r}"][codes == k], minlength=r) / (codes == k).sum() for k in range(3)]
        close(fit.parameters[f"categorical_{r}_probs"][:, 0], counted, rtol=1e-13)


def test_laplace_smoothing_is_the_posterior_mean():
    rng = np.random.default_rng(1)
    codes, heads = rng.integers(0, 2, 31), rng.random((31, 3)) < 0.3
    fit = bg.fit(bg.NaiveBayes(), heads, codes, method=bg.Exact())
    words = rng.poisson(1.0, (31, 5))
    documents = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), words, codes, method=bg.Exact())
    for k in range(2):
        mine, text = heads[codes == k], words[codes == k]
        close(fit.parameters["binary_probs"][k], (mine.sum(0) + 1) / (len(mine) + 2), rtol=1e-13)
        close(documents.parameters["count_probs"][k], (text.sum(0) + 1) / (text.sum() + 5), rtol=1e-13)


def test_gaussian_maximum_likelihood_divides_by_n():
    X, y = load_iris(return_X_y=True)
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    close(fit.parameters["real_mean"], [X[y == k].mean(0) for k in range(3)], rtol=1e-12)
    close(fit.parameters["real_variance"], [X[y == k].var(0) for k in range(3)], rtol=1e-10)


def test_shared_covariance_is_softmax():
    X, y = load_iris(return_X_y=True)
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE())
    mean, covariance = fit.parameters["real_mean"], fit.parameters["real_covariance"]
    slopes = np.linalg.solve(covariance, mean.T)
    intercepts = -0.5 * np.einsum("kd,dk->k", mean, slopes) + np.log(fit.parameters["class_probs"])
    expected = scipy.special.log_softmax(X @ slopes + intercepts, axis=1)
    close(bg.predict(fit, X, rule=bg.PlugIn()).log_probabilities, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance, degree", [("tied", 1), ("full", 2)])
def test_boundaries_are_of_the_right_degree(covariance, degree):
    X, y = load_iris(return_X_y=True)
    fit = bg.fit(bg.GaussianDiscriminant(covariance), X, y, method=bg.MLE())
    line = X[0] + np.linspace(0, 1, 7)[:, None] * (X[100] - X[0])
    table = fit.log_joint(line)
    odds = table[:, :1] - table[:, 1:]
    assert np.abs(np.diff(odds, degree, axis=0)).min() > 1e-2
    close(np.diff(odds, degree + 1, axis=0), 0.0, atol=1e-8 * np.abs(odds).max())


def test_unit_covariance_and_equal_priors_give_the_nearest_mean():
    X, y = load_iris(return_X_y=True)
    fit = bg.fit(bg.GaussianDiscriminant("tied", class_prior=[1 / 3] * 3), X, y, method=bg.MLE())
    latents = fit.program.latents_of({**fit.parameters, "real_covariance": np.eye(4)})
    known = {name: latents[name] for name in fit.program.latents}
    table = fit.program.log_joint(known, {"real": X})
    distance = np.linalg.norm(X[:, None] - fit.parameters["real_mean"], axis=2)
    assert (table.argmax(1) == distance.argmin(1)).all()
    close(table - table[:, :1], -0.5 * (distance**2 - distance[:, :1] ** 2), atol=1e-10)


def test_field_goals():
    """Four summary figures, put into four weighted rows, give the logistic curve."""
    good, attempts, spread = 756, 948, np.sqrt(82.28603529360076)
    means, counts = np.asarray([43.630208333333336, 34.69444444444444]), np.asarray([attempts - good, good])
    yards = (means[:, None] + [-spread, spread]).reshape(-1, 1)
    fit = bg.fit(
        bg.GaussianDiscriminant("tied"), yards, ["bad", "bad", "good", "good"], method=bg.MLE(),
        sample_weight=np.repeat(counts / 2, 2),
    )  # fmt: skip
    assert fit.parameters["class_probs"][1] == pytest.approx(0.7974683544303798, rel=1e-14)
    table = bg.predict(fit, [[0.0], [1.0]], rule=bg.PlugIn()).log_probabilities
    odds = table[:, 1] - table[:, 0]
    assert odds[0] == pytest.approx(5.6233369024140298, rel=1e-12)
    assert odds[1] - odds[0] == pytest.approx(-0.10859392917650769, rel=1e-11)


# --- Gaussian discriminant analysis on iris -----------------------------------------------------------------------


def iris_split(per_class):
    """The first rows of each class to train on, and the rest."""
    X, y = load_iris(return_X_y=True)
    train = np.concatenate([np.flatnonzero(y == k)[:per_class] for k in range(3)])
    rest = np.setdiff1d(np.arange(len(y)), train)
    return X[train], y[train], X[rest], y[rest]


EVIDENCE = [(5, -59.70337900, -18.44945104), (10, -91.67235688, -35.55157456)]


@pytest.mark.parametrize("per_class, features, labels", EVIDENCE)
def test_iris_evidence(per_class, features, labels):
    X, y, *_ = iris_split(per_class)
    fit = bg.fit(bg.GaussianDiscriminant("full"), X, y, method=bg.Exact())
    assert fit.log_evidence == pytest.approx(features + labels, abs=2 * DIGITS)
    known = bg.fit(bg.GaussianDiscriminant("full", class_prior=[1 / 3] * 3), X, y, method=bg.Exact())
    assert known.log_evidence + len(y) * np.log(3) == pytest.approx(features, abs=DIGITS)


FULL = bg.GaussianDiscriminant("full")
IRIS = [
    (FULL, bg.MLE(), bg.PlugIn(), None, (6, 0.17760848, 0.07986619)),
    (FULL, bg.MAP(), bg.PlugIn(), (8, 0.31669834, 0.10632128), (7, 0.09508062, 0.06568961)),
    (FULL, bg.Exact(), bg.PlugIn(at="mode"), (8, 0.31669834, 0.10632128), (7, 0.09508062, 0.06568961)),
    (FULL, bg.Exact(), bg.PlugIn(at="mean"), (7, 0.19521361, 0.10490601), (7, 0.10279822, 0.06481770)),
    (FULL, bg.Exact(), bg.BMA(), (7, 0.16575494, 0.09527618), (7, 0.10270724, 0.06329303)),
    (bg.GaussianDiscriminant("tied"), bg.Exact(), bg.BMA(), (7, 0.09074148, 0.05377916), (3, 0.06971273, 0.04347450)),
    (bg.NaiveBayes(), bg.Exact(), bg.BMA(), (7, 0.16286945, 0.09200425), (7, 0.11334047, 0.07189343)),
    (bg.GaussianDiscriminant("diag"), bg.Exact(), bg.BMA(), (7, 0.16286945, 0.09200425), (7, 0.11334047, 0.07189343)),
]  # fmt: skip


@pytest.mark.parametrize("model, method, rule, five, ten", IRIS)
def test_iris_scores(model, method, rule, five, ten):
    for per_class, expected in ((5, five), (10, ten)):
        X, y, X_test, y_test = iris_split(per_class)
        if expected is not None:
            found = scores(bg.predict(bg.fit(model, X, y, method=method), X_test, rule=rule), y_test)
            assert found == pytest.approx(expected, abs=DIGITS)


def test_five_rows_of_a_class_have_no_mle_of_a_full_covariance():
    X, y, *_ = iris_split(5)
    with pytest.raises(bg.FitError, match=r"class 0.*unbounded"):
        bg.fit(FULL, X, y, method=bg.MLE())


def test_the_two_averages_are_different_numbers():
    X, y, X_test, _ = iris_split(5)
    fit = bg.fit(FULL, X, y, method=bg.Exact())
    row = X_test[60:61]
    close(bg.predict(fit, row, rule=bg.BMA()).probabilities[0], [0.00009, 0.40651, 0.59339], atol=6e-6)
    other = bg.predict(fit, row, rule=bg.ConditionalAverage(num_draws=20_000, seed=1))
    error = np.abs(other.probabilities[0] - [0.00035, 0.44455, 0.55511])
    assert (error < 4 * other.standard_error[0] + 1e-5).all()
    assert other.standard_error.max() < 0.005


# --- discrete naive Bayes on digits -------------------------------------------------------------------------------


def digits(binary):
    X, y = load_digits(return_X_y=True)
    X = X >= 8 if binary else X
    return X[:100], y[:100], X[100:], y[100:]


def test_bernoulli_digits():
    X, y, X_test, y_test = digits(binary=True)
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    averaged = bg.predict(fit, X_test, rule=bg.BMA())
    plugged = bg.predict(fit, X_test, rule=bg.PlugIn())
    close(averaged.log_probabilities, plugged.log_probabilities, rtol=1e-12, atol=1e-11)
    assert scores(averaged, y_test)[:2] == pytest.approx((431, 1.32512156), abs=DIGITS)
    frequencies = np.bincount(y) / len(y)
    known = bg.fit(bg.NaiveBayes(class_prior=frequencies), X, y, method=bg.Exact())
    assert scores(bg.predict(known, X_test, rule=bg.PlugIn()), y_test)[1] == pytest.approx(1.32538248, abs=DIGITS)


@pytest.mark.parametrize("rule, expected", [(bg.PlugIn(), (490, 15.60883516)), (bg.BMA(), (486, 11.83419518))])
def test_multinomial_digits(rule, expected):
    X, y, X_test, y_test = digits(binary=False)
    fit = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), X, y, method=bg.Exact())
    assert scores(bg.predict(fit, X_test, rule=rule), y_test)[:2] == pytest.approx(expected, abs=DIGITS)
