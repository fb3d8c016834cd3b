"""scikit-learn as the oracle of maximum likelihood and of smoothing."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import bayesgen as bg

ROWS, COLUMNS, VALUES = 61, 5, 3
BERNOULLI = (bg.NaiveBayes(bg.BetaBernoulli()), BernoulliNB)
CATEGORICAL = (bg.NaiveBayes(bg.DirichletCategorical()), CategoricalNB)
MULTINOMIAL = (bg.NaiveBayes(bg.DirichletMultinomial()), MultinomialNB)
DISCRETE = {"Bernoulli": (*BERNOULLI, 2), "categorical": (*CATEGORICAL, VALUES), "multinomial": (*MULTINOMIAL, 4)}
every_discrete = pytest.mark.parametrize("name", DISCRETE)


def discrete_data(values):
    """Rows and unbalanced labels, with values that some class never shows."""
    rng = np.random.default_rng(8)
    y = rng.choice(3, ROWS, p=[0.2, 0.3, 0.5])
    X = rng.integers(0, values, (ROWS, COLUMNS))
    X[y == 0, 1] = 0
    X[(y == 1), 3] = np.minimum(X[y == 1, 3], values - 2)
    new = rng.integers(0, values, (200, COLUMNS))
    return X, y, new[new.sum(1) > 0]


def probabilities(fit, X, rule):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ImpossibleRowsWarning)
        return bg.predict(fit, X, rule=rule).probabilities


@every_discrete
def test_maximum_likelihood_is_the_limit_of_no_smoothing(name):
    model, oracle, values = DISCRETE[name]
    X, y, new = discrete_data(values)
    found = probabilities(bg.fit(model, X, y, method=bg.MLE()), new, bg.PlugIn())
    expected = oracle(alpha=1e-12, force_alpha=True).fit(X, y).predict_proba(new)
    allowed = np.isfinite(found[:, 0])
    assert allowed.sum() > 100
    assert (found[allowed] == 0).any()
    np.testing.assert_allclose(found[allowed], expected[allowed], atol=1e-6)


@every_discrete
def test_the_posterior_mean_is_smoothing_by_one(name):
    model, oracle, values = DISCRETE[name]
    X, y, new = discrete_data(values)
    known = bg.NaiveBayes(model.families, class_prior=np.bincount(y) / len(y))
    found = probabilities(bg.fit(known, X, y, method=bg.Exact()), new, bg.PlugIn(at="mean"))
    np.testing.assert_allclose(found, oracle(alpha=1.0).fit(X, y).predict_proba(new), atol=1e-10)


def wine():
    X, y = load_wine(return_X_y=True)
    X, y = X[:, [0, 1, 2, 6, 9]], y
    return X[:170], y[:170], X


def at_covariance(fit, covariance, X):
    """Probabilities of a fit with its covariance replaced by another."""
    latents = fit.program.latents_of({**fit.parameters, "real_covariance": covariance})
    table = fit.program.log_joint({name: latents[name] for name in fit.program.latents}, {"real": X})
    return np.exp(table - np.logaddexp.reduce(table, axis=1, keepdims=True))


def test_naive_bayes_of_reals_is_gaussian_nb():
    X, y, new = wine()
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    expected = GaussianNB(var_smoothing=0).fit(X, y).predict_proba(new)
    np.testing.assert_allclose(probabilities(fit, new, bg.PlugIn()), expected, atol=1e-6)


def test_tied_is_linear_discriminant_analysis():
    """The lsqr solver divides by N, as the MLE does; the svd solver by N or, in older versions, by N - K."""
    X, y, new = wine()
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE())
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y).predict_proba(new)
    np.testing.assert_allclose(probabilities(fit, new, bg.PlugIn()), expected, atol=1e-6)
    expected = LinearDiscriminantAnalysis(solver="svd").fit(X, y).predict_proba(new)
    covariances = [fit.parameters["real_covariance"] * len(y) / size for size in (len(y), len(y) - 3)]
    gaps = [np.abs(at_covariance(fit, one, new) - expected).max() for one in covariances]
    assert min(gaps) < 1e-6
    assert max(gaps) > 1e-4


def test_full_is_quadratic_discriminant_analysis():
    """scikit-learn divides by the rows n of each class, older versions by n - 1; the MLE by n."""
    X, y, new = wine()
    fit = bg.fit(bg.GaussianDiscriminant("full"), X, y, method=bg.MLE())
    counts, covariance = np.bincount(y)[:, None, None], fit.parameters["real_covariance"]
    oracle = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    theirs = np.asarray(oracle.covariance_)
    assert any(np.allclose(theirs, covariance * counts / size, rtol=1e-9) for size in (counts, counts - 1))
    np.testing.assert_allclose(at_covariance(fit, theirs, new), oracle.predict_proba(new), atol=1e-6)
    at_fit = at_covariance(fit, covariance, new)
    np.testing.assert_allclose(probabilities(fit, new, bg.PlugIn()), at_fit, atol=1e-9)
