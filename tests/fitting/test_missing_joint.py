"""Jointly normal columns with missing cells: every method, by way of `fit`."""

import numpy as np
import pytest
from counting import compilations
from oracles.moments import assert_mean
from scipy.stats import multivariate_normal

import bayesgen as bg
from bayesgen.families import NormalInverseWishart
from bayesgen.fitting import nuts

close = np.testing.assert_allclose
POINTS = {"MLE": bg.MLE(), "MAP": bg.MAP()}
every_point = pytest.mark.parametrize("method", POINTS.values(), ids=POINTS)
every_covariance = pytest.mark.parametrize("covariance", ["full", "tied"])


def data(rows=90, columns=3, missing=0.2, seed=0):
    """Correlated rows of two classes far from the origin, with holes, and a row of which nothing is there."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(rows) % 3 == 0, "a", "b")
    X = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) + 2.0 * (y == "a")[:, None] + 30.0
    X[rng.random(X.shape) < missing] = np.nan
    X[4] = np.nan
    return X, y


def assert_same(one, other, rtol=1e-5):
    for name, value in one.parameters.items():
        close(value, other.parameters[name], rtol=rtol, atol=1e-6, err_msg=name)


@every_point
@every_covariance
def test_weights_order_and_chunks(covariance, method):
    """Weight two is the row twice, the order of rows does not matter, and chunks are as good as one table."""
    model, (X, y) = bg.GaussianDiscriminant(covariance), data()
    rng = np.random.default_rng(1)
    fit = bg.fit(model, X, y, method=method)
    order = rng.permutation(len(X))
    assert_same(bg.fit(model, X[order], y[order], method=method), fit)
    schema = bg.Schema(classes=["a", "b"])
    assert_same(bg.fit(model, ((X[part::4], y[part::4]) for part in range(4)), method=method, schema=schema), fit)
    weights = rng.integers(1, 3, len(X))
    twice = bg.fit(model, np.repeat(X, weights, axis=0), np.repeat(y, weights), method=method)
    assert_same(bg.fit(model, X, y, method=method, sample_weight=weights), twice)


@every_point
def test_columns_may_change_places_and_units(method):
    model, (X, y) = bg.GaussianDiscriminant(), data()
    units, order = np.array([1e-4, 1.0, 1e5]), np.array([2, 0, 1])
    fit, other = bg.fit(model, X, y, method=method), bg.fit(model, (X * units)[:, order], y, method=method)
    units = units[order]
    close(other.parameters["real_mean"] / units, fit.parameters["real_mean"][:, order], rtol=1e-5)
    covariance = fit.parameters["real_covariance"][:, order][:, :, order]
    close(other.parameters["real_covariance"] / np.outer(units, units), covariance, rtol=1e-4, atol=1e-5)


@every_point
def test_the_path_of_em_is_told(method):
    X, y = data()
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=method)
    assert fit.attributes["converged"] and 3 < fit.attributes["num_iterations"] < 100
    predicted = bg.predict(fit, X, rule=bg.PlugIn()).probabilities
    close(predicted[4], fit.parameters["class_probs"], rtol=1e-12)  # a row of which nothing is there
    close(predicted.sum(1), 1.0, rtol=1e-12)


@every_covariance
def test_labels_and_cells_may_both_be_missing(covariance):
    """The objective of EM is SciPy's log-likelihood of what is there: labels, cells, or neither of a row."""
    X, y = data()
    labels = np.where(np.random.default_rng(2).random(len(y)) < 0.4, None, y.astype(object))
    fit = bg.fit(bg.GaussianDiscriminant(covariance), X, labels, method=bg.MLE(num_starts=2))
    covariances = np.broadcast_to(fit.parameters["real_covariance"], (2, 3, 3))
    total = 0.0
    for row, label in zip(X, labels, strict=True):
        there, logs = np.flatnonzero(~np.isnan(row)), np.log(fit.parameters["class_probs"])
        for k, mean in enumerate(fit.parameters["real_mean"]):
            if len(there):
                within = covariances[k][np.ix_(there, there)]
                logs[k] += multivariate_normal(mean[there], within).logpdf(row[there])
        total += np.logaddexp(*logs) if label is None else logs[["a", "b"].index(label)]
    close(fit.attributes["objective"], total, rtol=1e-10)


def test_a_column_without_cells_in_a_class():
    X, y = data()
    X[y == "a", 1] = np.nan
    model = bg.GaussianDiscriminant()
    with pytest.raises(bg.FitError, match=r"Block 'real': no cell is observed at class 'a', column 'x1'.*MAP\(\)"):
        bg.fit(model, X, y, method=bg.MLE())
    fit = bg.fit(model, X, y, method=bg.MAP())
    # no cell tells of it, and the prior of the column is symmetric about its mean over all rows, as is the posterior
    close(fit.parameters["real_mean"][0, 1], np.nanmean(X[:, 1]), rtol=1e-4)
    close(fit.parameters["real_covariance"][0, 1, [0, 2]], 0.0, atol=1e-3)


def test_few_rows_are_refused_by_maximum_likelihood_alone():
    X, y = data(rows=9)
    with pytest.raises(bg.FitError, match=r"in the rows of class 'a' that have column 'x\d'.*linear combination.*MAP"):
        bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.MLE())
    assert bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.MAP()).attributes["converged"]


@pytest.mark.parametrize("covariance, num_rows, who", [("full", 3, "class 'b'"), ("tied", 4, "all classes together")])
def test_a_column_that_few_rows_have_has_no_maximum_of_the_likelihood(covariance, num_rows, who):
    """As long as it is a linear combination of the others in them; one row more leaves it a variance."""
    X, y = np.random.default_rng(5).normal(size=(40, 3)), np.where(np.arange(40) % 2, "a", "b")
    is_given = y == "a" if covariance == "full" else np.zeros(40, bool)
    for number, is_refused in ((num_rows, True), (num_rows + 1, False)):
        rows, with_column = X.copy(), np.flatnonzero(~is_given)[:number]
        rows[~is_given & ~np.isin(np.arange(40), with_column), 2] = np.nan
        if is_refused:
            with pytest.raises(bg.FitError, match=f"rows of {who} that have column 'x2', a weight of {number}, it is"):
                bg.fit(bg.GaussianDiscriminant(covariance), rows, y, method=bg.MLE())
        else:
            fit = bg.fit(bg.GaussianDiscriminant(covariance), rows, y, method=bg.MLE())
            assert (np.linalg.eigvalsh(fit.parameters["real_covariance"]) > 1e-9).all()


def test_exact_refuses_joint_blocks_alone():
    X, y = data()
    for model in (
        bg.GaussianDiscriminant("full"),
        bg.GaussianDiscriminant("tied"),
        bg.NaiveBayes({"real": NormalInverseWishart()}, structure="average"),
    ):
        with pytest.raises(bg.FitError, match=r"block 'real': cells of its jointly normal columns.*NUTS\(\) or MAP"):
            bg.fit(model, X, y, method=bg.Exact())
    for covariance in ("diag", "spherical", "tied-diag", "tied-spherical"):
        assert np.isfinite(bg.fit(bg.GaussianDiscriminant(covariance), X, y, method=bg.Exact()).log_evidence)


def test_too_many_groups_are_refused_by_nuts(monkeypatch):
    monkeypatch.setattr(nuts, "MOST_PATTERNS", 5)
    X, y = data()
    with pytest.raises(bg.FitError, match=r"at most 5 groups .* those of 'real' are \d+: .*covariance='diag'"):
        bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.NUTS())


def integrated(X, y, model, schema, num_points):
    """Posterior means where one cell is missing: exact ones given its value, weighed by their evidences over a grid."""
    row, column = np.argwhere(np.isnan(X))[0]
    logs, means = [], []
    for value in np.linspace(-9, 9, num_points) * np.nanstd(X[:, column]) + np.nanmean(X[:, column]):
        filled = X.copy()
        filled[row, column] = value
        fit = bg.fit(model, filled, y, method=bg.Exact(), schema=schema)
        logs.append(fit.log_evidence)
        means.append(fit.parameters)
    weights = np.exp(np.array(logs) - np.max(logs))
    assert weights[[0, -1]].max() < 1e-4 * weights.max()
    return {name: np.average([mean[name] for mean in means], axis=0, weights=weights) for name in means[0]}


@pytest.mark.slow  # chains of naive Bayes classes, and of a regression, lack cells in every run
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_nuts_agrees_with_integrals_over_the_cell(covariance):
    rng = np.random.default_rng(3)
    y = np.repeat(["a", "b"], [7, 9])
    X = rng.normal(size=(16, 2)) @ [[1.0, 0.8], [0.0, 0.6]] + (y == "b")[:, None]
    prior = NormalInverseWishart(mean=[0.3, 0.2], kappa=0.5, df=8.0, scale=[[4.0, 1.0], [1.0, 3.0]])
    model = bg.GaussianDiscriminant(covariance, prior=prior)
    schema = bg.Schema(classes=["a", "b"])
    holes = X.copy()
    holes[3, 1] = np.nan
    expected = integrated(holes, y, model, schema, 61)
    fit = bg.fit(model, holes, y, method=bg.NUTS(num_samples=500), schema=schema, seed=4)
    for name, value in expected.items():
        assert_mean(fit.parameters[name], value, name)
    holes = X.copy()
    holes[8, 0] = np.nan  # as many groups, of other rows
    with compilations() as compiled:
        bg.fit(model, holes, y, method=bg.NUTS(num_samples=500), schema=schema, seed=4)
    assert compiled == []


@pytest.mark.parametrize("value", [0.0, 1.0, 7.3])
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_a_constant_column_that_lacks_cells_has_no_maximum_of_the_likelihood(covariance, value):
    rng = np.random.default_rng(3)
    X = np.c_[rng.normal(size=(31, 2)), np.where(np.arange(31) % 3, value, np.nan)]
    X[5, 0] = np.nan
    model, weights = bg.GaussianDiscriminant(covariance), rng.random(31)
    for sample_weight in (None, weights):
        with pytest.raises(bg.FitError, match=r"variance is zero at .*column 'x2'.*MAP\(\)"):
            bg.fit(model, X, np.arange(31) % 2, method=bg.MLE(), sample_weight=sample_weight)


def test_rows_without_labels_that_do_not_count_do_not_hide_what_has_no_estimate():
    X = [[1.0, np.nan], [2.0, np.nan], [np.nan, 1.0], [np.nan, 4.0], [0.5, 2.0], [2.5, 2.5], [1.0, 1.5], [0.0, 0.0]]
    y = ["a", "a", "a", "a", "b", "b", "b", None]
    with pytest.raises(bg.FitError, match=r"no row of class 'a' has both column 'x0' and column 'x1'"):
        bg.fit(bg.GaussianDiscriminant("full"), X, y, method=bg.MLE(unlabelled_weight=0.0))


ROWS = np.random.default_rng(3).normal(size=(60, 3))
LABELS = np.arange(60) % 2


@pytest.mark.filterwarnings("ignore:Some columns")
def test_a_constant_column_stays_one_beside_a_missing_cell():
    X = ROWS.copy()
    X[:, 1], X[7, 2] = 3.0, np.nan
    with pytest.warns(bg.ConstantColumnWarning, match="x1"):
        fit = bg.fit(bg.GaussianDiscriminant(), X, LABELS, method=bg.MAP())
    assert fit.schema.variance[1] == 0.0
    assert (fit.parameters["real_covariance"][:, 1, 1] > 1e-3).all()


def test_a_column_that_is_constant_in_a_class_has_no_maximum_beside_missing_cells():
    X = ROWS.copy()
    X[LABELS == 0, 1], X[::3, 2] = 5.0, np.nan
    with pytest.raises(bg.FitError, match="the variance is zero at class 0, column 'x1'"):
        bg.fit(bg.GaussianDiscriminant(), X, LABELS, method=bg.MLE())


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_squares_that_overflow_beside_missing_cells_are_refused_by_their_column():
    X = ROWS * [1.0, 1e160, 1.0]
    X[:5, 2] = np.nan
    with pytest.raises(bg.DataError, match="Column 'x1' has values of about"):
        bg.fit(bg.GaussianDiscriminant(), X, LABELS, method=bg.MAP())


@pytest.mark.parametrize("distance", [1e3, 1e12])
def test_classes_far_from_each_other_keep_the_digits_of_rows(distance):
    X = ROWS + distance * (LABELS == 0)[:, None]
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, LABELS, method=bg.MLE())
    mean, covariance = fit.parameters["real_mean"][1], fit.parameters["real_covariance"]
    expected = multivariate_normal.logpdf(X[LABELS == 1], mean, np.reshape(covariance, (3, 3))) + np.log(0.5)
    found = bg.predict(fit, X[LABELS == 1], rule=bg.PlugIn()).log_marginal
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
