"""Sparse matrices of zeros and ones: the same answers as dense ones, scikit-learn's, and all subsets one by one."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from sklearn.naive_bayes import BernoulliNB

import bayesgen as bg

close = np.testing.assert_allclose
ROWS, COLUMNS, NEW = 41, 7, 11
BINARY = bg.NaiveBayes(bg.BetaBernoulli(1.7, 2.6))
CONTAINERS = [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array]
every_method = pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=lambda one: type(one).__name__)
every_container = pytest.mark.parametrize("container", CONTAINERS, ids=lambda one: one.__name__)


@pytest.fixture(scope="module")
def data():
    """Rows with a column that is always one, one that is always zero, and ones that one class decides."""
    rng = np.random.default_rng(1)
    y = np.asarray(["ape", "bear", "cow"])[rng.choice(3, ROWS, p=[0.2, 0.3, 0.5])]
    X = rng.random((ROWS, COLUMNS)) < np.where(y == "ape", 0.6, 0.2)[:, None]
    X[:, 1], X[:, 4] = True, False
    X[y == "bear", 2], X[y == "cow", 5] = True, False
    return X, y


@pytest.fixture(scope="module")
def new():
    return np.random.default_rng(2).random((NEW, COLUMNS)) < 0.5


@every_container
@every_method
def test_sparse_is_dense(data, new, method, container):
    X, y = data
    dense, sparse = (bg.fit(BINARY, rows, y, method=method) for rows in (X, container(X.astype(np.int8))))
    for name, value in dense.parameters.items():
        close(sparse.parameters[name], value, rtol=1e-14, err_msg=name)
    for at in ("mean", "mode") + ("predictive",) * (dense.log_evidence is not None):
        close(sparse.log_joint(container(new), at=at), dense.log_joint(new, at=at), rtol=1e-12, err_msg=at)
        close(sparse.log_joint(new, at=at), dense.log_joint(container(new), at=at), rtol=1e-12, err_msg=at)
    if dense.log_evidence is not None:
        close(sparse.log_evidence, dense.log_evidence, rtol=1e-13)


def test_sparse_is_dense_with_fractional_weights(data, new):
    X, y = data
    weights = np.random.default_rng(3).dirichlet(np.full(ROWS, 0.3)) * ROWS
    weights[:5] = 0.0
    fits = [
        bg.fit(BINARY, rows, y, method=bg.MLE(), sample_weight=weights) for rows in (X, scipy.sparse.csr_array(X * 1.0))
    ]
    probs = [fit.parameters["binary_probs"] for fit in fits]
    close(*probs, rtol=1e-13)
    np.testing.assert_array_equal(*(each == 1.0 for each in probs))
    assert (probs[1][:, 1] == 1.0).all() and (probs[1][:, 4] == 0.0).all()


def test_conditional_averages_of_sparse_rows_are_those_of_dense_rows(data, new):
    fit = bg.fit(BINARY, scipy.sparse.csr_array(data[0] * 1.0), data[1], method=bg.Exact())
    rule = bg.ConditionalAverage(200)
    one, other = (bg.predict(fit, rows, rule=rule).probabilities for rows in (scipy.sparse.csr_array(new * 1.0), new))
    close(one, other, rtol=1e-12)


def test_zeros_of_maximum_likelihood_rule_out_and_ones_do_too(data):
    """p(x) is exactly zero where a row has what a class never had, or lacks what it always had."""
    X, y = data
    fit = bg.fit(BINARY, scipy.sparse.csr_array(X * 1.0), y, method=bg.MLE())
    probs = fit.parameters["binary_probs"]
    rows = np.asarray(list(itertools.product([0.0, 1.0], repeat=COLUMNS)))
    likelihood = np.prod(np.where(rows[:, None], probs, 1 - probs), -1) * fit.parameters["class_probs"]
    table = fit.log_joint(scipy.sparse.csr_array(rows))
    np.testing.assert_array_equal(np.isneginf(table), likelihood == 0)
    assert (likelihood > 0).any(0).all() and (likelihood == 0).any(0).all()
    close(np.exp(table), likelihood, rtol=1e-12)
    with pytest.warns(bg.ImpossibleRowsWarning, match="probability zero under every class"):
        bg.predict(fit, scipy.sparse.csr_array(rows), rule=bg.PlugIn())


def test_scikit_learn_agrees(data, new):
    X, y = (scipy.sparse.csr_array(data[0] * 1.0), data[1])
    prior = np.unique(y, return_counts=True)[1] / ROWS
    fit = bg.fit(bg.NaiveBayes(bg.BetaBernoulli(0.7, 0.7), class_prior=prior), X, y, method=bg.Exact())
    oracle = BernoulliNB(alpha=0.7).fit(X, y)
    close(np.log(fit.parameters["binary_probs"]), oracle.feature_log_prob_, rtol=1e-13)
    rows = scipy.sparse.csr_array(new * 1.0)
    for rule in (bg.PlugIn(), bg.BMA()):
        close(bg.predict(fit, rows, rule=rule).probabilities, oracle.predict_proba(rows), rtol=1e-10)


def test_kinds_of_the_schema_make_a_sparse_matrix_binary(data, new):
    X, y = data
    schema = bg.Schema(kinds={f"x{j}": "binary" for j in range(COLUMNS)})
    stated = bg.fit(bg.NaiveBayes(), scipy.sparse.csr_array(X * 1), y, method=bg.Exact(), schema=schema)
    family = bg.fit(bg.NaiveBayes(bg.BetaBernoulli()), X, y, method=bg.Exact())
    close(stated.log_joint(new, at="predictive"), family.log_joint(new, at="predictive"), rtol=1e-12)


def test_some_columns_of_a_sparse_matrix_are_binary_and_the_others_counts(data):
    rng = np.random.default_rng(4)
    X, y = np.column_stack([data[0][:, :3], rng.poisson(1.0, (ROWS, 4))]), data[1]
    families = {"x0": bg.BetaBernoulli(), "x1": bg.BetaBernoulli(), "x2": bg.BetaBernoulli()}
    both = bg.fit(bg.NaiveBayes(families), scipy.sparse.csr_array(X), y, method=bg.Exact())
    binary = bg.fit(bg.NaiveBayes(bg.BetaBernoulli()), X[:, :3], y, method=bg.Exact())
    counts = bg.fit(bg.NaiveBayes(), scipy.sparse.csr_array(X[:, 3:]), y, method=bg.Exact())
    labels = bg.DirichletCategorical(np.ones(3)).log_evidence(np.unique(y, return_inverse=True)[1])
    close(both.log_evidence, binary.log_evidence + counts.log_evidence - labels, rtol=1e-12)


@pytest.mark.parametrize("value", [2.0, -1.0, 0.5])
def test_a_cell_that_is_neither_is_refused_by_column_and_row(data, value):
    X, y = data[0] * 1.0, data[1]
    X[17, 3] = value
    with pytest.raises(bg.DataError, match=rf"Column 'x3' is binary, and has {value} at row 17"):
        bg.fit(BINARY, scipy.sparse.csr_array(X), y, method=bg.Exact())
    fit = bg.fit(BINARY, scipy.sparse.csr_array(data[0] * 1.0), y, method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"Column 'x3' is binary"):
        bg.predict(fit, scipy.sparse.csr_array(X), rule=bg.BMA())


def test_the_structure_average_of_a_sparse_matrix_is_that_of_all_subsets(data, new):
    """Log evidence, dependence and predictions by brute force over 2^7 subsets, each column's evidence by itself."""
    X, y = data[0].astype(float), np.unique(data[1], return_inverse=True)[1]
    family, rho = bg.BetaBernoulli(0.6, 1.8), 0.3
    model = bg.NaiveBayes(family, structure="average", dependence_prior=rho)

    def brute_force(X, y):
        columns = [
            [
                np.log(1 - rho) + family.log_evidence(x),
                np.log(rho) + sum(family.log_evidence(x[y == k]) for k in range(3)),
            ]
            for x in X.T
        ]
        subsets = np.asarray(list(itertools.product([0, 1], repeat=COLUMNS)))
        logs = np.asarray([sum(column[on] for column, on in zip(columns, subset, strict=True)) for subset in subsets])
        total = scipy.special.logsumexp(logs)
        labels = bg.DirichletCategorical(np.ones(3)).log_evidence(y)
        return total + labels, np.exp(logs - total) @ subsets

    fit = bg.fit(model, scipy.sparse.csr_array(X), y, method=bg.Exact())
    evidence, dependence = brute_force(X, y)
    close(fit.log_evidence, evidence, rtol=1e-10)
    close(fit.parameters["binary_dependence"], dependence, rtol=1e-10)
    table = fit.log_joint(scipy.sparse.csr_array(new * 1.0), at="predictive")
    for row, code in itertools.product(range(3), range(3)):
        longer, _ = brute_force(np.vstack([X, new[row]]), np.append(y, code))
        close(table[row, code], longer - evidence, rtol=1e-9)


def test_a_large_sparse_matrix_is_never_dense():
    """The dense matrix of floats would take 80 GB."""
    rng = np.random.default_rng(5)
    rows, columns, ones = 20_000, 500_000, 30
    indices = rng.integers(0, columns, (rows, ones))
    X = scipy.sparse.csr_array((np.ones(rows * ones), indices.ravel(), np.arange(0, rows * ones + 1, ones)))
    X.sum_duplicates()
    X.data[:] = 1.0
    model = bg.NaiveBayes(bg.BetaBernoulli(), structure="average")
    fit = bg.fit(model, X, rng.integers(0, 2, rows), method=bg.Exact())
    assert bg.predict(fit, X, rule=bg.BMA()).probabilities.shape == (rows, 2)
