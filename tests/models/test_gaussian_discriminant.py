"""Variances that classes share: closed forms by hand, and prototypes of scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

import bayesgen as bg

CLASSES, COLUMNS = 3, 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(CLASSES), [7, 11, 13])
    return rng.normal(0, [1, 2, 3, 1, 0.5], (31, COLUMNS)) + y[:, None] * [0.5, -1, 0, 2, 0.1], y


def within(X, y):
    """Squares about the class means, by column."""
    return sum(((X[y == k] - X[y == k].mean(0)) ** 2).sum(0) for k in range(CLASSES))


def test_maximum_likelihood_pools_the_squares(data):
    X, y = data
    columns = bg.fit(bg.GaussianDiscriminant("tied-diag"), X, y, method=bg.MLE()).parameters["real_variance"]
    np.testing.assert_allclose(columns, within(X, y) / 31, rtol=1e-12)
    alone = bg.fit(bg.GaussianDiscriminant("tied-spherical"), X, y, method=bg.MLE()).parameters["real_variance"]
    np.testing.assert_allclose(alone, within(X, y).sum() / (31 * COLUMNS), rtol=1e-12)


@pytest.mark.parametrize("form, means", [("tied-diag", CLASSES), ("tied-spherical", CLASSES * COLUMNS)])
def test_the_joint_mode_counts_the_means_that_share_a_variance(data, form, means):
    """With a flat enough prior of the means, b / (a + means / 2 + 1), a and b being those of the pooled squares."""
    X, y = data
    prior = bg.NormalInverseGamma(mean=0.0, kappa=1e-12, shape=2.5, scale=1.5)
    mode = bg.fit(bg.GaussianDiscriminant(form, prior), X, y, method=bg.MAP()).parameters["real_variance"]
    squares, rows = (within(X, y), 31) if form == "tied-diag" else (within(X, y).sum(), 31 * COLUMNS)
    np.testing.assert_allclose(mode, (1.5 + squares / 2) / (2.5 + rows / 2 + means / 2 + 1), rtol=1e-9)


def test_one_variance_for_all_names_the_nearest_mean(data):
    X, y = data
    model = bg.GaussianDiscriminant("tied-spherical", class_prior=[1 / 3, 1 / 3, 1 / 3])
    labels = bg.predict(bg.fit(model, X, y, method=bg.MLE()), X, rule=bg.PlugIn()).labels
    np.testing.assert_array_equal(labels, NearestCentroid().fit(X, y).predict(X))


@pytest.mark.parametrize("form", ["spherical", "tied-spherical"])
def test_a_column_without_cells_changes_no_answer_whatever_the_units(data, form):
    X, y = data[0] * 1e-3, data[1]
    beside = np.insert(X, 2, np.nan, axis=1)
    model = bg.GaussianDiscriminant(form)
    one, other = (bg.fit(model, rows, y, method=bg.Exact()) for rows in (X, beside))
    expected, found = (bg.predict(fit, rows, rule=bg.BMA()).probabilities for fit, rows in ((one, X), (other, beside)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert found.max() > 0.9
    beside[:, 2] = 7.0
    with pytest.warns(bg.ConstantColumnWarning, match="x2"):
        constant = bg.fit(model, beside, y, method=bg.Exact())
    np.testing.assert_allclose(constant.prior["real"].scale, one.prior["real"].scale, rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, 7.0], ids=["empty", "constant"])
def test_the_default_prior_of_a_surface_is_that_of_the_columns_that_vary(data, value):
    X = data[0] * 1e-3
    beside = np.insert(X, 2, value, axis=1)
    expected = bg.fit(bg.ProbabilisticPCA(1), X, method=bg.MAP()).prior["real"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bg.ConstantColumnWarning)
        found = bg.fit(bg.ProbabilisticPCA(1), beside, method=bg.MAP()).prior["real"]
    assert ["x2" in str(warning.message) for warning in caught] == [True] * (value == 7.0)
    np.testing.assert_allclose(found.loadings_scale, expected.loadings_scale, rtol=1e-12)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)


def test_a_covariance_that_a_row_far_away_makes_singular_is_refused_by_its_class():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    X[1] += 1e9  # of class 1, in all columns: beside its cross products nothing is left of the others
    prior = bg.NormalInverseWishart(np.zeros(3), 1.0, 5.0, np.eye(3))
    fit = bg.fit(bg.GaussianDiscriminant("full", prior), X, y, method=bg.Exact())
    for rule in (bg.BMA(), bg.PlugIn(), bg.PlugIn("mode")):
        with pytest.raises(bg.FitError, match=r"of class number 1 have cross products.*singular in floating point"):
            bg.predict(fit, X, rule=rule)
    with pytest.raises(bg.FitError, match="singular in floating point"):
        _ = fit.log_evidence
    with pytest.raises(bg.FitError, match="singular in floating point"):
        bg.leave_one_out(fit, X, y)
