"""Densities of sparse rows of counts, against the plain form: log-gammas of each cell, by mpmath."""

import functools

import mpmath
import numpy as np
import pytest
import scipy.sparse
import scipy.special

import bayesgen as bg
from bayesgen.data import successive_rows
from bayesgen.statistics import discrete, sum_log_rising_of_cells
from bayesgen.statistics.arrays import sum_log_factorials

NUM_CLASSES = 3


def plain(values, starts):
    """Sums over all cells, one after another, with as many digits as it takes."""
    cells = values.tocoo()
    total = np.full((values.shape[0], len(starts)), mpmath.mpf(0))
    for row, column, count in zip(*cells.coords, cells.data.tolist(), strict=True):
        for k, start in enumerate(starts[:, column].tolist()):
            total[row, k] += log_term(start, count)
    return total.astype(float)


@functools.cache
def log_term(start, count):
    with mpmath.workdps(40):
        start, count = mpmath.mpf(start), mpmath.mpf(count)
        return mpmath.loggamma(start + count) - mpmath.loggamma(start) - mpmath.loggamma(count + 1)


def random_counts(largest=6, num_rows=40, num_columns=30):
    rng = np.random.default_rng(0)
    dense = rng.integers(0, largest, (num_rows, num_columns)) * (rng.random((num_rows, num_columns)) < 0.3)
    dense[[0, 7, num_rows - 1]] = 0  # rows without a cell, at the ends too
    dense[:, 4] = 0
    return scipy.sparse.csr_array(dense.astype(float))


def with_cells(*cells):
    values = random_counts().toarray()
    for row, column, count in cells:
        values[row, column] = count
    return scipy.sparse.csr_array(values)


def with_stored_zeros():
    values = random_counts()
    values.data[::5] = 0.0
    return values


def with_long_indices():
    values = random_counts()
    values.indices, values.indptr = values.indices.astype(np.int64), values.indptr.astype(np.int64)
    return values


CASES = {
    "small counts": random_counts,
    "counts about the longest product": lambda: random_counts(largest=2 * discrete.MOST_FACTORS),
    "huge counts": lambda: with_cells((1, 2, 1e6), (2, 2, 1e6), (3, 3, 5e9), (5, 6, 2**31)),
    "counts that are not whole": lambda: with_cells((1, 2, 0.5), (2, 2, 2.5), (3, 0, 1e-3)),
    "stored zeros": with_stored_zeros,
    "integers of 64 bits as indices": with_long_indices,
    "fewer cells than columns": lambda: random_counts(num_rows=9)[5:7],
    "no cell": lambda: scipy.sparse.csr_array((4, 30)),
    "no row": lambda: scipy.sparse.csr_array((0, 30)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("most_keys", [1, 40, 1 << 23])
@pytest.mark.parametrize("small", [1e-3, 1e-8, 1e-300])
def test_sums_over_cells(case, most_keys, small, monkeypatch):
    monkeypatch.setattr(discrete, "MOST_KEYS", most_keys)
    values = CASES[case]()
    starts = np.random.default_rng(1).gamma(1.0, 5.0, (NUM_CLASSES, values.shape[1]))
    starts[0, :10], starts[1, :10] = small, 1e4
    sums = sum_log_rising_of_cells(values, starts, np.log(starts), by_factorials=True)
    np.testing.assert_allclose(sums, plain(values, starts), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("unlike", [3e9, 0.5])
def test_one_count_unlike_the_others_leaves_them_their_pairs(unlike):
    values = random_counts(num_rows=400)
    without = discrete._distinct_pairs(values.data, values.indices, 30)
    counts, columns, pair_index = discrete._distinct_pairs(*with_cell(values, 5, unlike), 30)
    assert len(without[0]) <= 6 * 30 and len(counts) <= len(without[0]) + 2
    np.testing.assert_array_equal(counts[pair_index], with_cell(values, 5, unlike)[0])
    np.testing.assert_array_equal(columns[pair_index], values.indices)


def with_cell(values, index, count):
    data = values.data.copy()
    data[index] = count
    return data, values.indices


@pytest.mark.parametrize("case", CASES)
def test_sums_of_log_factorials(case):
    values = CASES[case]()
    cells = scipy.special.gammaln(values.toarray() + 1.0)
    np.testing.assert_allclose(sum_log_factorials(values), cells.sum(1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("start", [1e30, 1e200])
def test_concentrations_whose_products_overflow(start):
    values, starts = random_counts(), np.full((NUM_CLASSES, 30), start)
    sums = sum_log_rising_of_cells(values, starts, np.log(starts), by_factorials=True)
    np.testing.assert_allclose(sums, plain_far(values, starts), rtol=1e-12)


def plain_far(values, starts):
    """Where a start is so large that all its factors are equal."""
    counts = values.toarray()
    return counts @ np.log(starts).T - scipy.special.gammaln(counts + 1.0).sum(1)[:, None]


@pytest.mark.parametrize("part", [slice(0, 40), slice(3, 9), slice(7, 8), slice(5, 5), slice(35, 60)])
def test_successive_rows_share_their_cells(part):
    values = random_counts()
    rows = successive_rows(values, part)
    np.testing.assert_array_equal(rows.toarray(), values.toarray()[part])
    assert rows.nnz == 0 or np.shares_memory(rows.data, values.data)


@pytest.fixture(scope="module")
def data():
    """Counts of words in two classes that both lack a word; the second lacks another, and has a long document."""
    X = random_counts(num_rows=60).toarray()
    y = np.arange(60) % 2
    X[y == 1, 9] = 0
    X[3, 11] = 700
    return scipy.sparse.csr_array(X), y


@pytest.mark.parametrize("rule", [bg.PlugIn(), bg.BMA()], ids=["plug-in", "BMA"])
@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_and_dense_rows_agree(data, rule, form):
    X, y = data
    model = bg.NaiveBayes(bg.DirichletMultinomial(0.5))
    fit = bg.fit(model, X, y, method=bg.Exact())
    sparse, dense = bg.predict(fit, form(X), rule=rule), bg.predict(fit, X.toarray(), rule=rule)
    np.testing.assert_allclose(sparse.log_probabilities, dense.log_probabilities, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(sparse.log_marginal, dense.log_marginal, rtol=1e-10)


def test_words_that_a_class_never_had_are_impossible_there(data):
    X, y = data
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    new = scipy.sparse.csr_array(np.eye(30)[[9, 0]] * 2)
    table = fit.log_joint(new)
    assert np.isneginf(table[0, 1])
    assert np.isfinite(table[[0, 1, 1], [0, 0, 1]]).all()
    stored = scipy.sparse.csr_array(([2.0, 0.0], [0, 9], [0, 2]), shape=(1, 30))
    np.testing.assert_array_equal(fit.log_joint(stored), table[1:])  # a stored zero is no word


def test_predictions_in_many_chunks_are_those_in_one(data, monkeypatch):
    X, y = data
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    whole = bg.predict(fit, X, rule=bg.BMA())
    monkeypatch.setattr("bayesgen.runtime.chunking.LEAST_ROWS", 7)
    monkeypatch.setattr("bayesgen.posteriors.base.THREAD_CELLS", 1)
    np.testing.assert_allclose(bg.predict(fit, X, rule=bg.BMA()).log_marginal, whole.log_marginal, rtol=1e-12)
