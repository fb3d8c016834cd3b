"""Weights, means and centred scatter of rows by class: the sufficient statistics of normal models.

Rows are shifted by an origin for each class, close enough to its mean that nothing cancels when the second moments
are centred afterwards (Chan, Golub and LeVeque 1983, section 3); where an origin is too far from the mean, there is a
second pass. Buffers are reused chunk after chunk, because allocation would dominate the time of the pass.
"""

from collections.abc import Iterator
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError
from bayesgen.runtime import CACHE_ROWS, CACHED_CELLS, LEAST_ROWS, beyond_memory, chunks
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import namespace
from .summaries import Classes, Moments, class_counts, class_weights, outer_or_square

LARGE_PRODUCTS = 2**20  # bytes: of fewer, nobody asks whether they fit memory


def two_pass_moments(
    values: Real[Array, "n m"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    matrix: bool = False,
    observed: Bool[Array, "n m"] | None = None,
) -> Moments:
    """`class_moments` by the plain formulas, class by class: means first, then squares of residuals."""
    xp = namespace(values, classes, weights, observed)
    if not len(values):
        values, classes = xp.zeros((1, values.shape[1])), xp.zeros((1, num_classes))
        weights, observed = None, None if observed is None else xp.zeros(values.shape, bool)
    rows = (values if observed is None else xp.where(observed, values, 0.0)).astype(float)
    if xp is jnp:
        count, mean, scatter = jax.lax.map(
            lambda row_weights: _class_moments(rows, row_weights, observed, matrix),
            class_weights(jnp.asarray(classes), num_classes, weights).T,
        )
    else:
        parts = [_class_moments(*arrays, matrix) for arrays in _by_class(rows, classes, num_classes, weights, observed)]
        count, mean, scatter = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    count = count[:, 0] if observed is None else count
    return Moments(count, mean, scatter, xp.zeros(mean.shape[:1] if matrix else mean.shape))


def _by_class(
    rows: Float[Array, "n m"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n m"] | None,
) -> Iterator[tuple[Float[Array, "k m"], Real[Array, " k"], Bool[Array, "k m"] | None]]:
    """Arguments of `_class_moments` for each class: where classes are codes, only the rows of the class."""
    for index in range(num_classes):
        if classes.ndim == 2:
            row_weights = classes[:, index] if weights is None else classes[:, index] * weights
            yield rows, row_weights, observed
            continue
        members = np.flatnonzero(classes == index)
        members = members if len(members) else np.zeros(1, int)
        row_weights = (classes[members] == index) * (1.0 if weights is None else weights[members])
        yield rows[members], row_weights, None if observed is None else observed[members]


def _class_moments(
    rows: Float[Array, "n m"], weights: Real[Array, " n"], observed: Bool[Array, "n m"] | None, matrix: bool
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, "..."]]:
    """Count, mean and scatter of the columns, where rows have these weights."""
    xp = namespace(rows, weights, observed)
    cells = xp.broadcast_to(weights[:, None], rows.shape) if observed is None else weights[:, None] * observed
    count = cells.sum(0)
    origin = xp.take_along_axis(rows, cells.argmax(0)[None], 0)
    shift = (cells * (rows - origin)).sum(0) / xp.where(count > 0, count, 1.0)
    mean = xp.where(count > 0, origin[0] + shift, 0.0)
    residuals = xp.where(cells > 0, rows - mean, 0.0)
    weighted = cells * residuals
    if not matrix:
        return count, mean, (weighted * residuals).sum(0)
    return count, mean, xp.matmul(weighted.T, residuals)


# Moments of rows with responsibilities, for EM: chunks that fit into cache are centred at each class's mean, and merged
# by the pairwise formula, so that nothing cancels.


def weighted_moments(
    values: Real[Array, "n m"],
    responsibilities: Real[Array, "n K"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    matrix: bool,
) -> Moments:
    """`class_moments` of complete rows with responsibilities."""
    num_rows, num_columns = values.shape
    total: Moments | None = None
    for part in chunks(num_rows, max(1, CACHED_CELLS // 2 // max(num_columns, 1))) or [slice(0, 0)]:
        rows = np.asarray(values[part], np.float64)
        row_weights = class_weights(responsibilities[part], num_classes, None if weights is None else weights[part])
        moments = _chunk_moments(rows, np.asarray(row_weights, np.float64), matrix)
        total = moments if total is None else total._merged(moments)
    assert total is not None
    return total


def _chunk_moments(rows: Float[np.ndarray, "n m"], row_weights: Float[np.ndarray, "n K"], matrix: bool) -> Moments:
    """Moments of a chunk; by the plain formulas where columns may be constant, because these are exact."""
    if not len(rows):
        return two_pass_moments(rows, row_weights, row_weights.shape[1], None, matrix)
    columns = rows.T.copy()  # NumPy is slow with short rows
    columns -= rows[0][:, None]
    count = np.ones(len(rows)) @ row_weights
    shift = row_weights.T @ columns.T / np.where(count > 0, count, 1.0)[:, None]
    largest = np.einsum("mn,mn->m", columns, columns)
    if matrix:
        scatter = _cross_products(columns, row_weights, shift)
    else:
        scatter = _squares(rows, columns, row_weights, count, shift)
    squares = np.diagonal(scatter, axis1=1, axis2=2) if matrix else scatter
    if (squares <= 1e-24 * count[:, None] * largest).any():  # may be rounding of the scatter of a constant
        return two_pass_moments(rows, row_weights, row_weights.shape[1], None, matrix)
    mean = np.where(count[:, None] > 0, rows[0] + shift, 0.0)
    return Moments(count, mean, scatter, np.zeros(mean.shape[:1] if matrix else mean.shape))


def _cross_products(
    columns: Float[Array, "m n"], row_weights: Float[Array, "n K"], shift: Float[Array, "K m"]
) -> Float[Array, "K m m"]:
    """Weighted cross products of the columns about the mean of each class, one class after another."""
    centred, scatter = np.empty(columns.shape), np.empty((*shift.shape, shift.shape[1]))
    for index, roots in enumerate(np.sqrt(row_weights.T)):
        np.subtract(columns, shift[index][:, None], out=centred)
        np.multiply(centred, roots, out=centred)
        np.matmul(centred, centred.T, out=scatter[index])
    return scatter


def _squares(
    rows: Float[np.ndarray, "n m"],
    columns: Float[np.ndarray, "m n"],
    row_weights: Float[np.ndarray, "n K"],
    count: Float[np.ndarray, " K"],
    shift: Float[np.ndarray, "K m"],
) -> Float[np.ndarray, "K m"]:
    """Weighted squares about the mean of each class, in the memory of the columns, which are rows less the first.

    All at once, unless one is far from the first row: a squared distance of more variances loses more than four digits.
    """
    between = count[:, None] * shift**2
    scatter = (np.square(columns, out=columns) @ row_weights).T - between
    if not (between <= 1e4 * scatter).all():
        for index, weights in enumerate(row_weights.T):
            np.subtract(rows.T, (rows[0] + shift[index])[:, None], out=columns)
            np.matmul(np.square(columns, out=columns), weights, out=scatter[index])
    return scatter


@np.errstate(over="ignore", invalid="ignore")  # scatter that overflows is refused by `check_magnitudes`
def class_moments(
    values: Real[Array, "n m"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    matrix: bool = False,
    observed: Bool[Array, "n m"] | None = None,
) -> Moments:
    """Centred moments of the observed cells, by class; with `matrix`, cross products of the columns too.

    The origin of a class is the first of its heaviest rows. So the scatter of a column that is constant in a class is
    exactly 0, and rows of tiny weight that differ from the constant keep all their digits.

    Raises:
        DataError: so many columns that their cross products do not fit memory.
    """
    num_columns = values.shape[1]
    products = f"Cross products of {num_columns:,} columns in each class"
    size = 8.0 * num_classes * num_columns**2 if matrix else 0.0
    if size > LARGE_PRODUCTS and (too_much := beyond_memory(products, size)) is not None:
        raise DataError(f"{too_much} Leave columns out, or model them one by one (covariance='diag', NaiveBayes).")
    if observed is None and namespace(values, classes, weights) is np:
        moments = weighted_moments if classes.ndim == 2 else _moments_by_code
        return moments(values, classes, num_classes, weights, matrix)
    return two_pass_moments(values, classes, num_classes, weights, matrix, observed)


def _moments_by_code(
    values: Real[Array, "n m"],
    codes: Int[Array, " n"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    matrix: bool,
) -> Moments:
    """`class_moments` where classes are codes: one pass over the data, or two where an origin is far from the mean."""
    origin = _heaviest_rows(values, codes, num_classes, weights)
    total = _moments_about(origin, values, codes, weights, matrix)
    squares = np.diagonal(total.scatter, axis1=1, axis2=2) if matrix else total.scatter
    # a squared distance of a hundred variances loses two digits
    far = total.count[:, None] * (total.mean - origin) ** 2 > 100.0 * squares
    if far.any():
        total = _moments_about(np.where(far, total.mean, origin), values, codes, weights, matrix)
    return total


def _moments_about(
    origin: Float[Array, "K m"],
    values: Real[Array, "n m"],
    codes: Int[Array, " n"],
    weights: Real[Array, " n"] | None,
    matrix: bool,
) -> Moments:
    """Moments of each class, from sums and products of the distances of its rows from an origin."""
    shifted = _ShiftedRows(origin, len(values), values.dtype, matrix)
    for part in chunks(len(values), shifted.num_rows):
        shifted.add(values[part], codes[part], None if weights is None else weights[part])
    return shifted.moments(class_counts(codes, len(origin), weights))


class _ShiftedRows:
    """Sums and products of rows about an origin for each class, with memory for one chunk of them.

    Rows are sorted by class, and each class is a matrix product.
    """

    def __init__(self, origin: Float[Array, "K m"], num_rows: int, dtype: np.dtype, matrix: bool) -> None:
        num_classes, num_columns = origin.shape
        self.origin, self.matrix = origin, matrix
        most = max(CACHED_CELLS // max(num_columns, 1), LEAST_ROWS * num_classes)
        self.num_rows = max(1, min(num_rows, most))
        self.sorted = np.empty((self.num_rows, num_columns), dtype)
        self.rows, self.spare = np.empty((2, *self.sorted.shape))
        self.sums, self.products = np.zeros(origin.shape), np.zeros(origin.shape + origin.shape[1:] * matrix)

    def add(self, values: Real[Array, "n m"], codes: Int[Array, " n"], weights: Real[Array, " n"] | None) -> None:
        """Add one chunk, each class on its own."""
        num_classes = len(self.origin)
        codes = codes.astype(np.int16) if num_classes < 2**15 else codes  # a radix sort, for short integers
        order = np.argsort(codes, kind="stable")
        ends = np.bincount(codes, minlength=num_classes).cumsum().tolist()
        np.take(values, order, axis=0, out=self.sorted[: len(order)], mode="clip")
        np.copyto(self.rows[: len(order)], self.sorted[: len(order)])
        for index, (start, end) in enumerate(pairwise([0, *ends])):
            if start < end:
                self._add_class(index, slice(start, end), None if weights is None else weights[order[start:end]])

    def _add_class(self, index: int, members: slice, weights: Real[Array, " k"] | None) -> None:
        rows, spare = self.rows[members], self.spare[members]
        rows -= self.origin[index]
        row_weights = np.ones(len(rows)) if weights is None else weights
        self.sums[index] += row_weights @ rows
        if not self.matrix:
            self.products[index] += row_weights @ np.multiply(rows, rows, out=spare)
            return
        weighted = rows if weights is None else np.multiply(rows, weights[:, None], out=spare)
        self.products[index] += weighted.T @ rows

    def moments(self, count_of_class: Float[Array, " K"]) -> Moments:
        """Moments of all rows that were added, about their own means."""
        count = count_of_class[:, None]
        shift = np.divide(self.sums, count, out=np.zeros_like(self.sums), where=count > 0)
        between = count.reshape((-1,) + (1,) * (self.products.ndim - 1)) * outer_or_square(shift, self.matrix)
        mean = np.where(count > 0, self.origin + shift, 0.0)
        base = np.zeros(count.shape[:1] if self.matrix else mean.shape)
        return Moments(count_of_class, mean, self.products - between, base)


def _heaviest_rows(
    values: Real[Array, "n m"],
    codes: Int[Array, " n"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
) -> Float[Array, "K m"]:
    """The first of the heaviest rows of each class; zeros where no row has a weight."""
    if weights is None:
        first = _first_rows(codes, np.arange(min(len(codes), CACHE_ROWS)), num_classes)
        if (first < 0).any():  # a class that the first rows lack
            first = _first_rows(codes, np.arange(len(codes)), num_classes)
    else:
        heaviest = np.zeros(num_classes)
        np.maximum.at(heaviest, codes, weights)
        first = _first_rows(codes, np.flatnonzero((weights == heaviest[codes]) & (weights > 0)), num_classes)
    origin = np.zeros((num_classes, values.shape[1]))
    origin[first >= 0] = values[first[first >= 0]]
    return origin


def _first_rows(codes: Int[Array, " n"], rows: Int[Array, " k"], num_classes: int) -> Int[Array, " K"]:
    """The first of `rows` in each class, -1 where there is none."""
    first = np.full(num_classes, -1)
    first[codes[rows[::-1]]] = rows[::-1]
    return first
