"""The pass over the rows: class-wise sums and centred moments, in chunks that stay in the processor's cache."""

import dataclasses
import functools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from .summaries import Moments

CHUNK_ROWS = 4096


def chunks(num_rows, size=CHUNK_ROWS):
    """Yield slices that cover `num_rows` rows."""
    for start in range(0, num_rows, size):
        yield slice(start, min(start + size, num_rows))


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
        rows = np.arange(len(codes))
        data = np.ones(len(codes)) if weights is None else weights
        selector = scipy.sparse.csr_array((data, (codes, rows)), shape=(num_classes, len(codes)))
        return np.asarray((selector @ values).todense(), dtype=np.float64)
    total = np.zeros((num_classes, values.shape[1]))
    for part in chunks(len(values)):
        weight = None if weights is None else weights[part]
        total += membership(codes[part], num_classes, weight).T @ values[part].astype(np.float64, copy=False)
    return total


def class_moments(values, codes, num_classes, weights=None, matrix=False):
    """Centred moments of an (n, m) matrix by class; with `matrix`, cross products of the columns too.

    Each class has its first row as the origin: a column that is constant within a class has scatter exactly 0
    there, and large offsets cost nothing.
    """
    num_columns = values.shape[1]
    origin = np.zeros((num_classes, num_columns))
    first = np.full(num_classes, -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    origin[first >= 0] = values[first[first >= 0]]
    short = codes.astype(np.int16) if num_classes < 2**15 else codes  # a radix sort, for short integers
    scatter = _cross_products if matrix else _squares

    def moments_of(part):
        return _chunk_moments(values[part], short[part], origin, None if weights is None else weights[part], scatter)

    parts = in_threads(moments_of, chunks(len(values)))
    total = functools.reduce(Moments.merge, parts, _no_moments(num_classes, num_columns, matrix))
    seen = total.count > 0
    return dataclasses.replace(total, mean=np.where(seen[:, None], total.mean + origin, 0.0))


def _no_moments(num_classes, num_columns, matrix):
    """Moments of no rows, in arrays of their own."""
    columns, square = (num_classes, num_columns), (num_classes, num_columns, num_columns)
    base = (num_classes,) if matrix else columns
    return Moments(np.zeros(num_classes), np.zeros(columns), np.zeros(square if matrix else columns), np.zeros(base))


def _chunk_moments(values, codes, origin, weights, scatter):
    """Moments of a chunk about each class's origin: its rows sorted by class, each class on its own."""
    num_classes, num_columns = origin.shape
    total = _no_moments(num_classes, num_columns, scatter is _cross_products)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(num_classes + 1))
    for index in range(num_classes):
        members = order[bounds[index] : bounds[index + 1]]
        if not members.size:
            continue
        rows = values[members] - origin[index]
        weight = None if weights is None else weights[members]
        count = len(rows) if weight is None else weight.sum()
        if count > 0:
            mean = (rows.sum(0) if weight is None else weight @ rows) / count
            rows -= mean
            total.count[index], total.mean[index] = count, mean
            total.scatter[index] = scatter(rows, weight)
    return total


def _squares(rows, weight):
    return np.einsum("ij,ij->j", rows, rows) if weight is None else weight @ rows**2


def _cross_products(rows, weight):
    return rows.T @ rows if weight is None else (rows * weight[:, None]).T @ rows


def in_threads(function, parts):
    """Map a function over the parts of a pass on all cores (NumPy lets go of the interpreter); results in order."""
    parts = list(parts)
    if len(parts) < 8:
        return [function(part) for part in parts]
    # one thread for each matrix product: threads of threads would wait for each other
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, parts))
