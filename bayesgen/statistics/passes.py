"""The pass over the rows: class-wise sums and centred moments, in chunks that stay in the processor's cache."""

import dataclasses

import numpy as np
import scipy.sparse

from .summaries import Moments

CHUNK_ROWS = 8192


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
    scatter = np.zeros((num_classes, num_columns, num_columns) if matrix else (num_classes, num_columns))
    log_base = np.zeros(num_classes if matrix else (num_classes, num_columns))
    total = Moments(np.zeros(num_classes), np.zeros((num_classes, num_columns)), scatter, log_base)
    chunk_scatter = _scatter_matrices if matrix else _scatter_squares
    for part in chunks(len(values)):
        rows = values[part] - origin[codes[part]]
        weight = None if weights is None else weights[part]
        members = membership(codes[part], num_classes, weight)
        count = members.sum(0)
        mean = (members.T @ rows) / np.where(count > 0, count, 1.0)[:, None]
        centred = rows - mean[codes[part]]
        total = total.merge(Moments(count, mean, chunk_scatter(centred, members, codes[part]), log_base))
    seen = total.count > 0
    return dataclasses.replace(total, mean=np.where(seen[:, None], total.mean + origin, 0.0))


def _scatter_squares(centred, members, codes):
    return members.T @ centred**2


def _scatter_matrices(centred, members, codes):
    num_classes = members.shape[1]
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(num_classes + 1))
    centred, weights = centred[order], members.sum(1)[order]
    out = np.empty((num_classes, centred.shape[1], centred.shape[1]))
    for index in range(num_classes):
        rows = slice(bounds[index], bounds[index + 1])
        half = centred[rows] * np.sqrt(weights[rows])[:, None]
        out[index] = half.T @ half
    return out
