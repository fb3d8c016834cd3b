"""Counts: what tells them from other numbers, and sums over what a sparse matrix stores of them."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.special import gammaln

from bayesgen.data.number_kinds import COUNT, encode_numbers, whole_numbers
from bayesgen.errors import DataError
from bayesgen.statistics.arrays import few_counts, log_factorial, row_sums, segment_sums
from bayesgen.statistics.summaries import class_sums
from bayesgen.statistics.table import MULTINOMIAL


@pytest.fixture
def rng():
    """One generator for all random arrays of a test."""
    return np.random.default_rng(0)


NONE = [-1.0, 0.5, 2.0**31, 2.0**40 + 0.5, -(2.0**31), 1e300, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_whole_numbers_are_the_values(dtype):
    values = np.array([0, 3, 1, 250], dtype)
    found = whole_numbers(values)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("wrong", NONE)
def test_one_cell_that_is_no_small_whole_number_is_enough(wrong):
    assert whole_numbers(np.array([1.0, wrong, 2.0])) is None
    assert few_counts(np.array([1.0] * 50 + [wrong])) is None


def test_integers_that_do_not_fit_are_not_wrapped():
    assert whole_numbers(np.array([1, 2**32 + 1])) is None
    assert whole_numbers(np.array([1, 2**32 - 1], np.uint32)) is None


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_huge_counts_are_counts(kind):
    cells = kind(np.array([[1.0, 2.0**40], [0.0, 3.0]]))
    encoded, observed, _ = encode_numbers(cells, ["a", "b"], COUNT)
    assert abs(encoded - cells).max() == 0 and observed is None


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("wrong", [value for value in NONE if value < 0 or value % 1 or not np.isfinite(value)])
def test_no_other_cell_passes_for_a_count(kind, wrong):
    cells = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, wrong]])
    if np.isnan(wrong) and kind is np.asarray:  # the cell is missing, and no count
        numbers, observed, _ = encode_numbers(cells, ["a", "b", "c"], COUNT)
        assert numbers[1].tolist() == [0.0, 3.0, 0.0] and observed.tolist() == [[True] * 3, [True, True, False]]
        return
    with pytest.raises(DataError, match=r"'c'.*(at row 1|1 missing|1 infinite)"):
        encode_numbers(kind(cells), ["a", "b", "c"], COUNT)


def test_empty_segments_sum_to_zero(rng):
    values = rng.normal(size=7)
    ends = np.array([0, 0, 3, 3, 3, 7, 7])
    expected = [values[start:end].sum() for start, end in pairwise(ends)]
    np.testing.assert_allclose(segment_sums(values, ends), expected, rtol=1e-14)
    np.testing.assert_array_equal(segment_sums(values[:0], np.zeros(4, int)), np.zeros(3))


def test_documents_of_any_length(rng):
    """Rows that are empty, of words that come once, and with stored zeros, against log-gammas cell by cell."""
    dense = rng.poisson([0.0, 0.3, 6.0, 900.0], (61, 4)).astype(float)
    dense[[0, 17, 60]] = 0
    dense[5] = [1, 1, 0, 1]
    sparse = scipy.sparse.csr_array(dense)
    sparse.data[0] = dense[1, sparse.indices[0]] = 0.0  # row 0 is empty
    expected = gammaln(dense.sum(1) + 1) - gammaln(dense + 1).sum(1)
    np.testing.assert_allclose(row_sums(sparse), dense.sum(1), rtol=1e-14)
    np.testing.assert_allclose(log_factorial(dense), gammaln(dense + 1), rtol=1e-14)
    for rows in (dense, sparse):
        np.testing.assert_allclose(MULTINOMIAL.log_base(rows, None), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_sums_of_sparse_rows(dtype, weighted, rng):
    dense = rng.poisson(0.5, (43, 11)).astype(float)
    codes, weights = rng.integers(0, 3, 43), rng.gamma(1.0, 1.0, 43) if weighted else None
    sparse = scipy.sparse.csr_array(dense)
    sparse.indices, sparse.indptr = sparse.indices.astype(dtype), sparse.indptr.astype(dtype)
    expected = class_sums(dense, codes, 4, weights)
    np.testing.assert_allclose(class_sums(sparse, codes, 4, weights), expected, rtol=1e-13)
    assert not expected[3].any()
