"""Class-wise counts, means and centred scatter of many rows: the pass over the data that normal models need.

Rows are shifted by an origin for each class, close enough to its mean that nothing cancels when the second moments
are centred afterwards (Chan, Golub and LeVeque 1983, section 3); where an origin turns out to be far off, the rows
are gone through again. All work is done in buffers that serve chunk after chunk: fresh memory is what such a pass
would spend its time on.
"""

import dataclasses
from itertools import pairwise

import numpy as np

from .passes import chunks
from .summaries import Moments, outer_or_square

CHUNK_CELLS = 1 << 18
TILE_ROWS = 64
FAR = 1e2  # squared distance of an origin from the mean, in variances: costs two digits of sixteen


@np.errstate(over="ignore", invalid="ignore")  # scatter that is no number is refused by `check_magnitudes`
def class_moments(values, codes, num_classes, weights=None, matrix=False):
    """Centred moments of an (n, m) matrix by class; with `matrix`, cross products of the columns too.

    The origin of a class is the first of its heaviest rows. So a column that is constant there, but for rows of hardly
    any weight, is measured from that constant: its scatter is theirs to the last digit, exactly 0 if there are none.
    """
    codes = codes.astype(np.int16) if num_classes < 2**15 else codes  # a radix sort, for short integers
    origin = _heaviest_rows(values, codes, num_classes, weights)
    total = _moments_about(origin, values, codes, weights, matrix)
    squares = np.diagonal(total.scatter, axis1=1, axis2=2) if matrix else total.scatter
    far = total.count[:, None] * (total.mean - origin) ** 2 > FAR * squares
    if far.any():
        total = _moments_about(np.where(far, total.mean, origin), values, codes, weights, matrix)
    return total


def _moments_about(origin, values, codes, weights, matrix):
    num_classes, num_columns = origin.shape
    chunk_rows = max(CHUNK_CELLS // max(num_columns, 1), TILE_ROWS * num_classes)
    shifted = _ShiftedRows(origin, min(chunk_rows, len(values)), values.dtype, matrix)
    for part in chunks(len(values), chunk_rows):
        shifted.add(values[part], codes[part], None if weights is None else weights[part])
    return shifted.moments()


class _ShiftedRows:
    """Counts, sums and products of rows about an origin for each class, with memory for one chunk of rows."""

    def __init__(self, origin, num_rows, dtype, matrix):
        num_classes, num_columns = origin.shape
        self.origin, self.tiles, self.matrix = origin, np.tile(origin, TILE_ROWS), matrix
        self.sorted = np.empty((num_rows, num_columns), dtype)
        self.rows, self.products = np.empty((2, num_rows, num_columns))
        self.ones = np.ones(num_rows)
        self.total = _no_moments(num_classes, num_columns, matrix)

    def add(self, values, codes, weights):
        """Add one chunk: its rows sorted by class, each class on its own."""
        order = np.argsort(codes, kind="stable")
        ends = np.bincount(codes, minlength=len(self.origin)).cumsum().tolist()
        np.take(values, order, axis=0, out=self.sorted[: len(order)], mode="clip")
        np.copyto(self.rows[: len(order)], self.sorted[: len(order)])
        weights = self.ones if weights is None else weights[order]
        for index, (start, end) in enumerate(pairwise([0, *ends])):
            if start < end:
                members = slice(start, end)
                self._shift(index, self.rows[members])
                self.total.count[index] += weights[members].sum()
                self.total.mean[index] += weights[members] @ self.rows[members]
                self.total.scatter[index] += self._products(members, weights)

    def moments(self):
        """Moments of all rows that were added, about their own means."""
        sums = self.total
        count = sums.count[:, None]
        shift = np.divide(sums.mean, count, out=np.zeros_like(sums.mean), where=count > 0)
        between = count.reshape((-1,) + (1,) * (sums.scatter.ndim - 1)) * outer_or_square(shift, self.matrix)
        mean = np.where(count > 0, self.origin + shift, 0.0)
        return dataclasses.replace(sums, mean=mean, scatter=sums.scatter - between)

    def _shift(self, index, rows):
        """Subtract the origin in place, many rows at a time: NumPy's loops over short rows are slow."""
        whole = len(rows) // TILE_ROWS * TILE_ROWS
        tiles = rows[:whole].reshape(-1, self.tiles.shape[1])
        tiles -= self.tiles[index]
        rows[whole:] -= self.origin[index]

    def _products(self, members, weights):
        rows, products = self.rows[members], self.products[members]
        if not self.matrix:
            return weights[members] @ np.multiply(rows, rows, out=products)
        if weights is self.ones:
            return rows.T @ rows
        return np.multiply(rows, weights[members, None], out=products).T @ rows


def _heaviest_rows(values, codes, num_classes, weights):
    """The first of the heaviest rows of each class, (K, m); zeros where no row weighs anything."""
    rows = np.arange(len(codes))
    if weights is not None:
        heaviest = np.zeros(num_classes)
        np.maximum.at(heaviest, codes, weights)
        rows = np.flatnonzero((weights == heaviest[codes]) & (weights > 0))
    first = np.full(num_classes, -1)
    first[codes[rows[::-1]]] = rows[::-1]
    origin = np.zeros((num_classes, values.shape[1]))
    origin[first >= 0] = values[first[first >= 0]]
    return origin


def _no_moments(num_classes, num_columns, matrix):
    """Moments of no rows, in arrays of their own."""
    columns, square = (num_classes, num_columns), (num_classes, num_columns, num_columns)
    base = (num_classes,) if matrix else columns
    return Moments(np.zeros(num_classes), np.zeros(columns), np.zeros(square if matrix else columns), np.zeros(base))
