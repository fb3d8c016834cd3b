"""Averages over numbers of factors, which are weighed by approximate evidences and say so."""

import dataclasses

import numpy as np
import pytest
import scipy.special
from sklearn.decomposition import PCA
from sklearn.decomposition._pca import _assess_dimension

import bayesgen as bg
from bayesgen.posteriors import Draws

close = np.testing.assert_allclose
ROWS, COLUMNS = 37, 5


@pytest.fixture(scope="module", name="X")
def rows():
    """Of two factors, the second of them hardly there."""
    rng = np.random.default_rng(3)
    loadings = rng.normal(0, 1, (COLUMNS, 2)) * [2.0, 0.42]
    return rng.normal(size=(ROWS, 2)) @ loadings.T + 0.5 * rng.normal(size=(ROWS, COLUMNS))


@pytest.fixture(scope="module")
def fits(X):
    return [bg.fit(bg.ProbabilisticPCA(number), X, method=bg.MLE()) for number in range(1, COLUMNS)]


def test_weights_are_those_of_scikit_learns_values(X, fits):
    both = bg.average(fits, prior=[0.4, 0.3, 0.2, 0.1])
    spectrum = PCA().fit(X).explained_variance_
    values = np.array([_assess_dimension(spectrum, number, ROWS) for number in range(1, COLUMNS)])
    scores = values + np.log([0.4, 0.3, 0.2, 0.1])
    close(both.weights, scipy.special.softmax(scores), rtol=1e-7)
    assert 0.02 < both.weights[1] < 0.98
    assert both.log_evidence is None
    close(both.approximate_log_evidence, scipy.special.logsumexp(scores), rtol=1e-9)
    assert "approximate log evidence" in repr(both)


def test_densities_of_rows_are_mixed(X, fits):
    both = bg.average(fits)
    new = X[:6] + 0.2
    parts = [bg.predict(fit, new, rule=bg.PlugIn()).log_marginal for fit in fits]
    answer = bg.predict(both, new, rule=bg.BMA())
    close(answer.log_marginal, scipy.special.logsumexp(parts, axis=0, b=both.weights[:, None]), rtol=1e-9)
    close(bg.predict(both, new, rule=bg.PlugIn()).log_marginal, parts[int(both.weights.argmax())], rtol=1e-12)
    with pytest.raises(bg.PredictionError, match="no class probabilities"):
        _ = answer.probabilities
    with pytest.raises(bg.ModelError, match="ask one, fit"):
        both.transform(new)
    close(np.asarray(both.best.transform(new)), np.asarray(fits[int(both.weights.argmax())].transform(new)))


def test_an_average_of_models_is_fitted_by_any_method(X, fits):
    model = bg.average([bg.ProbabilisticPCA(number) for number in (1, 2)])
    expected = bg.average(fits[:2]).weights
    for method in (bg.MLE(), bg.MAP()):
        close(bg.fit(model, X, method=method).weights, expected, rtol=1e-8)
    close(bg.average([bg.ProbabilisticPCA(1), bg.ProbabilisticPCA(2)], X=X).weights, expected, rtol=1e-12)
    more = bg.fit(model, X[:30], method=bg.MLE()).update(X[30:])
    close(more.weights, expected, rtol=1e-7)
    with pytest.raises(bg.FitError, match=r"Exact\(\) has no closed form"):
        bg.fit(model, X, method=bg.Exact())


@pytest.mark.slow  # a single sampled member is in every run
def test_averages_of_draws_are_averaged(X, fits):
    model = bg.average([bg.ProbabilisticPCA(number) for number in (1, 2)])
    found = bg.fit(model, X, method=bg.NUTS(num_samples=200))
    close(found.weights, bg.average(fits[:2]).weights, rtol=1e-8)
    members = [bg.predict(fit, X[:3], rule=bg.BMA()).log_marginal for fit in found.members]
    answer = bg.predict(found, X[:3], rule=bg.BMA()).log_marginal
    close(answer, scipy.special.logsumexp(members, axis=0, b=found.weights[:, None]), rtol=1e-9)


def test_weights_may_be_learned_on_rows_left_out(X, fits):
    both = bg.average(fits[:2], weights="stacking", X=X)
    close(both.weights.sum(), 1.0)
    assert both.approximate_log_evidence is None


def test_exact_and_approximate_evidences_are_never_mixed(X, fits):
    codes = np.arange(ROWS) % 2
    exact = bg.fit(bg.GaussianDiscriminant(), X, codes, method=bg.Exact())
    with pytest.raises(bg.FitError, match="Member 1 has a log evidence, and member 0 an approximation"):
        bg.average([fits[0], exact])
    with pytest.raises(bg.FitError, match="Member 0 has a log evidence, and member 1 an approximation"):
        bg.average([exact, fits[0]])


def test_what_cannot_be_compared_is_refused(X, fits):
    other = bg.fit(bg.ProbabilisticPCA(1), X + np.eye(ROWS, COLUMNS), method=bg.MLE())
    with pytest.raises(bg.FitError, match="not comparable"):
        bg.average([fits[0], other])
    holed = X.copy()
    holed[3, 1] = np.nan
    missing = bg.fit(bg.ProbabilisticPCA(1), holed, method=bg.MLE())
    with pytest.raises(bg.FitError, match="Member 1 has no approximate log evidence: cells of its rows are missing"):
        bg.average([fits[0], missing])
    classifier = bg.fit(bg.GaussianDiscriminant(), X, np.arange(ROWS) % 2, method=bg.MLE())
    with pytest.raises(bg.FitError, match="which has no log evidence"):
        bg.average([classifier, classifier])


def about_its_point(X):
    """A fit that holds draws about its mode, as those of chains are."""
    fit, rng = bg.fit(bg.ProbabilisticPCA(1), X, method=bg.MLE()), np.random.default_rng(1)
    point = fit.program.latents_of(fit.parameters)
    draws = {
        name: point[name] * (1 + 0.1 * rng.normal(size=(2, 50, *point[name].shape))) for name in fit.program.latents
    }
    posterior = Draws(fit.program, draws, fit.program.parameters_of(draws), {})
    return dataclasses.replace(fit, method=bg.NUTS(), posterior=posterior, summaries=None)


def test_draws_are_compared_with_what_was_fitted_to_the_same_rows(X, fits):
    drawn = [about_its_point(rows) for rows in (X, X + np.eye(ROWS, COLUMNS))]
    close(bg.average([fits[1], drawn[0]]).weights, bg.average([fits[1], fits[0]]).weights, rtol=1e-9)
    with pytest.raises(bg.FitError, match="the means of columns differ"):
        bg.average([fits[1], drawn[1]])
    with pytest.warns(bg.ConvergenceWarning, match=r"Member 1: In \d of 3 rows .*few draws decide") as warned:
        bg.average([fits[1], drawn[0]], weights="stacking", X=X[:3] * [[1], [1], [9]], folds=None)
    assert len(warned) == 1
