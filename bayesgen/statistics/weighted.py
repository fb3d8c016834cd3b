"""Centred moments of rows that belong to every class in part: what EM needs of normal models, in one pass.

Chunks of rows stay in the processor's cache, where they are centred at each class's mean in the chunk; their moments
are merged by the pairwise formula, so that nothing cancels.
"""

import numpy as np

from bayesgen.runtime import chunks
from bayesgen.typing import Array, Float, Real

from .passes import class_weights
from .summaries import Moments
from .two_pass import two_pass_moments

CHUNK_CELLS = 1 << 17  # with a copy of each they fill a megabyte twice
FAR = 1e4  # squared distance of a class's mean from the middle, in variances: costs four digits of sixteen
CONSTANT = 1e-24  # of the largest square in a column: scatter that is less may be that of a column that is constant


def weighted_moments(
    values: Real[Array, "n m"],
    responsibilities: Real[Array, "n K"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    matrix: bool,
) -> Moments:
    """`class_moments` of rows with responsibilities, all of whose cells are there."""
    num_rows, num_columns = values.shape
    total: Moments | None = None
    for part in chunks(num_rows, max(1, CHUNK_CELLS // max(num_columns, 1))) or [slice(0, 0)]:
        rows = values[part].astype(np.float64, copy=False)
        of_rows = class_weights(responsibilities[part], num_classes, None if weights is None else weights[part])
        moments = _of_chunk(rows, of_rows.astype(np.float64, copy=False), matrix)
        total = moments if total is None else total._merged(moments)
    assert total is not None
    return total


def _of_chunk(rows: Float[Array, "n m"], of_rows: Float[Array, "n K"], matrix: bool) -> Moments:
    """Moments of a chunk; by the plain formulas where columns may be constant, which they tell to the last digit."""
    if not len(rows):
        return two_pass_moments(rows, of_rows, of_rows.shape[1], None, matrix)
    columns = np.ascontiguousarray((rows - rows[0]).T)  # NumPy is slow with short rows
    count = np.ones(len(rows)) @ of_rows
    shift = of_rows.T @ columns.T / np.where(count > 0, count, 1.0)[:, None]
    scatter = (_cross_products if matrix else _squares)(columns, of_rows, count, shift)
    squares = np.diagonal(scatter, axis1=1, axis2=2) if matrix else scatter
    largest = np.maximum(columns.max(1), -columns.min(1)) ** 2
    if (squares <= CONSTANT * count[:, None] * largest).any():
        return two_pass_moments(rows, of_rows, of_rows.shape[1], None, matrix)
    mean = np.where(count[:, None] > 0, rows[0] + shift, 0.0)
    return Moments(count, mean, scatter, np.zeros(mean.shape[:1] if matrix else mean.shape))


def _cross_products(
    columns: Float[Array, "m n"],
    of_rows: Float[Array, "n K"],
    count: Float[Array, " K"],
    shift: Float[Array, "K m"],
) -> Float[Array, "K m m"]:
    """Class by class: columns less the class's mean, by roots of weights, times themselves."""
    centred, scatter = np.empty(columns.shape), np.empty((*shift.shape, shift.shape[1]))
    for index, roots in enumerate(np.sqrt(of_rows.T)):
        np.subtract(columns, shift[index][:, None], out=centred)
        np.multiply(centred, roots, out=centred)
        np.matmul(centred, centred.T, out=scatter[index])
    return scatter


def _squares(
    columns: Float[Array, "m n"],
    of_rows: Float[Array, "n K"],
    count: Float[Array, " K"],
    shift: Float[Array, "K m"],
) -> Float[Array, "K m"]:
    """All classes at once about the middle of the rows, or class by class where some lie far from it."""
    middle = columns.mean(1)
    squares = np.square(columns - middle[:, None])
    between = count[:, None] * (shift - middle) ** 2
    scatter = (squares @ of_rows).T - between
    if not (between <= FAR * scatter).all():
        for index, weights in enumerate(of_rows.T):
            np.square(np.subtract(columns, shift[index][:, None], out=squares), out=squares)
            np.matmul(squares, weights, out=scatter[index])
    return scatter
