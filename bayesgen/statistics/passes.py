"""Passes over the rows: class-wise counts and sums, in chunks that stay in the processor's cache."""

import numpy as np
import scipy.sparse

CHUNK_ROWS = 4096


def chunks(num_rows, size=CHUNK_ROWS):
    """Slices that cover `num_rows` rows."""
    return [slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]


def class_counts(codes, num_classes, weights=None):
    """Total weight of each class, (K,)."""
    return np.bincount(codes, weights=weights, minlength=num_classes).astype(np.float64)


def membership(codes, num_classes, weights=None):
    """The (n, K) matrix with each row's weight in the column of its class."""
    matrix = np.zeros((len(codes), num_classes))
    matrix[np.arange(len(codes)), codes] = 1.0 if weights is None else weights
    return matrix


def class_sums(values, codes, num_classes, weights=None):
    """Weighted sums of the rows of an (n, m) matrix by class, (K, m). Takes sparse matrices."""
    if scipy.sparse.issparse(values):
        return _sparse_sums(values.tocsr(), codes, num_classes, weights)
    total = np.zeros((num_classes, values.shape[1]))
    for part in chunks(len(values)):
        weight = None if weights is None else weights[part]
        total += membership(codes[part], num_classes, weight).T @ values[part].astype(np.float64, copy=False)
    return total


def _sparse_sums(values, codes, num_classes, weights):
    """Sums by class of what a csr matrix stores: one count of the cells (class, column)."""
    num_columns = values.shape[1]
    size, lengths = num_classes * num_columns, np.diff(values.indptr)
    dtype = values.indices.dtype if size <= np.iinfo(values.indices.dtype).max else np.int64
    cells = np.repeat((codes * num_columns).astype(dtype), lengths)
    cells += values.indices
    data = values.data if weights is None else values.data * np.repeat(weights, lengths)
    # a matrix of one column, times one: adds up repeated cells faster than a count by weights does
    column = scipy.sparse.csc_array((data, cells, np.array([0, len(cells)], dtype)), shape=(size, 1))
    return (column @ np.ones(1)).reshape(num_classes, num_columns)
