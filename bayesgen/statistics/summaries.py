"""Rows by class, and their summaries: sufficient statistics of one site, class by class, which merge.

Shapes: the axis of K classes comes first; `extra` are the site's further batch axes (columns), `event` those of its
distribution. A summary weighs each cell: its counts have the shape (K,), or (K, *extra) where some cells were missing.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import norm, sharing_cells
from bayesgen.errors import DataError
from bayesgen.records import record
from bayesgen.runtime import THREAD_CELLS, all_in_threads, chunks, even_chunks
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int, Real, Shaped

from .arrays import Cells, Sparse, any_known, filled, flatten_rows, namespace

Classes: TypeAlias = Int[Array, " n"] | Real[Array, "n K"]  # codes, or responsibilities


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows of one site in classes. The fields are the arguments of `Likelihood.summarize`."""

    values: Cells
    classes: Classes
    num_classes: int
    weights: Real[Array, " n"] | None = None
    observed: Bool[Array, "n ..."] | None = None
    row_parameters: Mapping[str, Array] | None = None

    @property
    def has_codes(self) -> bool:
        """Whether classes are codes and all arrays are NumPy's, for which there are faster passes."""
        arrays = (self.values, self.classes, self.weights, self.observed)
        return self.classes.ndim == 1 and namespace(*arrays) is np

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a table of cells by class: (K, *extra, *event)."""
        return (self.num_classes, *self.values.shape[1:])

    @property
    def mask(self) -> Bool[Array, "n m"] | None:
        """Mask of the observed cells of a matrix of rows; None where all are observed."""
        return None if self.observed is None else flatten_rows(self.observed)

    def cells(self, filling: float | int = 1.0) -> Cells:
        """The rows, with a value in place of missing cells."""
        return self.values if self.observed is None else filled(self.values, self.observed, filling)

    def take(self, rows: Int[Array, " k"]) -> "Sample":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        observed = None if self.observed is None else self.observed[rows]
        return dataclasses.replace(
            self, values=self.values[rows], classes=self.classes[rows], weights=weights, observed=observed
        )

    def counts(self) -> Float[Array, " K *columns"]:
        """Total weight of each class, (K,), or of its observed cells, where some are missing."""
        return class_counts(self.classes, self.num_classes, self.weights, self.observed)

    def sums(self, cells: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "K ..."]:
        """Weighted sums by class of what was computed from the rows, (n, *shape), over the observed cells."""
        mask = None if observed is None else flatten_rows(observed)
        total = class_sums(flatten_rows(cells), self.classes, self.num_classes, self.weights, mask)
        return total.reshape(self.num_classes, *cells.shape[1:])


def class_counts(
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    observed: Bool[Array, " n *columns"] | None = None,
) -> Float[Array, " K *columns"]:
    """Total weight of each class, (K,), or of its observed cells, (K, *columns), where some are missing."""
    if observed is not None:
        counts = class_sums(flatten_rows(observed), classes, num_classes, weights)
        return counts.reshape(num_classes, *observed.shape[1:])
    if classes.ndim == 2 or namespace(classes, weights) is jnp:
        return class_weights(classes, num_classes, weights).sum(0)
    return np.bincount(classes, weights=weights, minlength=num_classes).astype(np.float64)


def class_weights(classes: Classes, num_classes: int, weights: Real[Array, " n"] | None = None) -> Float[Array, "n K"]:
    """Weight of each row in each class: the responsibilities, one-hot where codes are given, times the row's weight."""
    if classes.ndim == 2:
        return classes if weights is None else classes * weights[:, None]
    if namespace(classes, weights) is jnp:
        one_hot = jax.nn.one_hot(classes, num_classes, dtype=float)
        return one_hot if weights is None else one_hot * weights[:, None]
    matrix = np.zeros((len(classes), num_classes))
    matrix[np.arange(len(classes)), classes] = 1.0 if weights is None else weights
    return matrix


def class_sums(
    values: Shaped[Array, "n m"] | Sparse,
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    observed: Bool[Array, "n m"] | None = None,
) -> Float[Array, "K m"]:
    """Weighted sums of the rows of a matrix by class, over the observed cells."""
    if isinstance(values, Sparse):
        return _sparse_sums(values.tocsr(), classes, num_classes, weights)
    if namespace(values, classes, weights, observed) is jnp:
        cells = values if observed is None else jnp.where(observed, values, 0)
        row_weights = class_weights(jnp.asarray(classes), num_classes, weights)
        return jnp.matmul(row_weights.T, cells.astype(float), precision=jax.lax.Precision.HIGHEST)
    if observed is None and classes.ndim == 1 and values.shape[1] == 1:
        cells = values[:, 0] if weights is None else values[:, 0] * weights
        return np.bincount(classes, cells, num_classes).astype(np.float64, copy=False)[:, None]  # of no row: integers
    total = np.zeros((num_classes, values.shape[1]))
    for part in chunks(len(values)):
        cells = values[part].astype(np.float64, copy=False)
        if observed is not None:
            cells = np.where(observed[part], cells, 0.0)
        weight = None if weights is None else weights[part]
        total += class_weights(classes[part], num_classes, weight).T @ cells
    return total


def _sparse_sums(
    values: Sparse, classes: Classes, num_classes: int, weights: Real[Array, " n"] | None
) -> Float[Array, "K m"]:
    """Sums of a csr matrix by class; where classes are codes, sums of its entries by (class, column)."""
    if classes.ndim == 2:
        return np.asarray(values.T @ class_weights(classes, num_classes, weights)).T
    num_columns = values.shape[1]
    starts = num_columns * np.arange(num_classes, dtype=np.int32 if num_classes * num_columns < 1 << 31 else np.int64)
    entries = np.repeat(starts[classes], np.diff(values.indptr))  # codes are checked here, as products check no index
    entries += values.indices
    by_row = sharing_cells(values.data, entries, values.indptr, num_classes * num_columns)
    totals = by_row.T @ (np.ones(len(classes)) if weights is None else weights.astype(np.float64, copy=False))
    return totals.reshape(num_classes, num_columns)


AnySummary = TypeVar("AnySummary", bound="Summary")
ClassTable: TypeAlias = Float[Array, "..."]  # (K, *extra, ...), or that of one class, without its axis


class Summary(abc.ABC):
    """Sufficient statistics of rows of one site. Summaries of disjoint rows merge into that of all rows."""

    @abc.abstractmethod
    def merge(self, other: "Summary") -> "Summary":
        """The summary of both sets of rows together (exact up to rounding)."""

    def __add__(self, other: "Summary") -> "Summary":
        return self.merge(other)

    def joined(self, others: Sequence["Summary"]) -> "Summary":
        """The summary of these rows and of all others together; rows that are retained are copied once."""
        return functools.reduce(lambda total, other: total.merge(other), others, self)

    @property
    def is_complete(self) -> bool:
        """Whether no cell and no variable that the likelihood depends on is missing or hidden."""
        return True

    @abc.abstractmethod
    def pooled(self) -> "Summary":
        """The summary of all classes as one, with a class axis of length 1."""

    def select_class(self, index: int) -> Self:
        """The summary of one class alone, without its class axis."""
        return jax.tree.map(lambda array: array[index, ...], self)

    def in_one_axis(self) -> "Summary":
        """The summary with all extra axes of its cells as one axis of columns."""
        raise NotImplementedError(f"{type(self).__name__} has no single axis of columns.")

    def by_column(self) -> "Summary":
        """The summary of the observed cells of each column on its own."""
        return self

    def with_empty_class(self, place: int) -> "Summary":
        """The summary with one more class, of which there are no rows, at this place among the classes."""
        return jax.tree.map(functools.partial(np.insert, obj=place, values=0.0, axis=0), self)

    def padded(self) -> "Summary":
        """The same with axes that depend on the data padded to sizes that share compilations."""
        return self


@record
class Sums(Summary):
    """Weighted sums of the statistics T(x) of an exponential family.

    Attributes:
        count: the weight of each class, or of each of its columns where some cells were missing.
        totals: one array for each statistic.
        log_base: the weighted sum of the log base measure, log h(x).
    """

    count: ClassTable
    totals: tuple[ClassTable, ...]
    log_base: ClassTable

    @property
    def cell_counts(self) -> ClassTable:
        """The weight of each class and column, or with axes of length 1 where it is that of the class."""
        return trailing(self.count, self.log_base.ndim)

    def merge(self, other: Summary) -> Summary:
        return self._merged(other) if isinstance(other, Sums) else other.merge(self)

    def _merged(self, other: "Sums") -> "Sums":
        counts = _same_ndim(self.count, other.count)
        totals = tuple(total + other_total for total, other_total in zip(self.totals, other.totals, strict=True))
        return Sums(counts[0] + counts[1], totals, self.log_base + other.log_base)

    def in_one_axis(self) -> "Sums":
        return _in_one_axis(self, self.log_base.ndim)

    def pooled(self) -> "Sums":
        return jax.tree.map(lambda array: array.sum(0, keepdims=True), self)


@record
class Moments(Summary):
    """Weight, mean and centred scatter of each class, for normal distributions.

    Attributes:
        count: the weight of each class, or of each of its columns where some cells were missing.
        mean: zero where a class (or its column) is empty.
        scatter: the sum of squares about the mean, or the matrix (K, D, D).
        log_base: the log-Jacobian of a transformation of the data (zero if there is none).
    """

    count: ClassTable
    mean: ClassTable
    scatter: ClassTable
    log_base: ClassTable

    @property
    def is_matrix(self) -> bool:
        """Whether `scatter` holds cross products of the columns and not only squares."""
        return self.scatter.ndim > self.mean.ndim

    @property
    def cell_counts(self) -> ClassTable:
        """The weight of each class and column, or with axes of length 1 where it is that of the class."""
        return trailing(self.count, self.mean.ndim)

    def merge(self, other: Summary) -> Summary:
        """Merge by the pairwise formula of Chan, Golub and LeVeque (1983, eq. 2.1): no cancellation."""
        return self._merged(other) if isinstance(other, Moments) else other.merge(self)

    @np.errstate(over="ignore", invalid="ignore")  # as in `class_moments`
    def _merged(self, other: "Moments") -> "Moments":
        weight, other_weight = _same_ndim(self.count, other.count)
        count, xp = weight + other_weight, namespace(weight, other_weight)
        share = xp.where(count > 0, other_weight / xp.where(count > 0, count, 1.0), 0.0)
        delta = other.mean - self.mean
        mean = self.mean + trailing(share, delta.ndim) * delta
        between = trailing(weight * share, self.scatter.ndim) * outer_or_square(delta, self.is_matrix)
        return Moments(count, mean, self.scatter + other.scatter + between, self.log_base + other.log_base)

    def in_one_axis(self) -> "Moments":
        return _in_one_axis(self, self.log_base.ndim)

    def pooled(self) -> "Moments":
        total = self._slice(0)
        for index in range(1, len(self.count)):
            total = total._merged(self._slice(index))
        return total

    def _slice(self, index: int) -> "Moments":
        return jax.tree.map(lambda array: array[index : index + 1], self)


def column_moments(summary: Summary) -> tuple[Float[ArrayOrNumber, "..."], Float[ArrayOrNumber, "..."]]:
    """Means and variances (denominator N) of the observed cells of columns, from a summary without a class axis.

    Of a column without observed cells the mean is 0 and the variance NaN. Of sums the variance is not known: NaN.
    """
    summary = summary.by_column()
    assert isinstance(summary, Moments | Sums)
    xp = namespace(summary.count)
    has_cells = summary.cell_counts > 0
    count = xp.where(has_cells, summary.cell_counts, 1.0)
    if isinstance(summary, Sums):
        mean = summary.totals[0] / count
        return mean, np.full(mean.shape, np.nan)
    scatter = xp.diagonal(summary.scatter, axis1=-2, axis2=-1) if summary.is_matrix else summary.scatter
    return summary.mean, xp.where(has_cells, scatter / count, np.nan)


def outer_or_square(delta: ClassTable, is_matrix: bool) -> ClassTable:
    """The square of a difference of means, elementwise or as an outer product over its last axis."""
    return delta[..., :, None] * delta[..., None, :] if is_matrix else delta**2


def _in_one_axis(summary: AnySummary, num_axes: int) -> AnySummary:
    """A summary whose tables (K, *extra, ...), of so many axes before the dots, are (K, D, ...)."""

    def reshaped(array: ClassTable) -> ClassTable:
        extra, last_axes = array.shape[1:num_axes], array.shape[num_axes:]
        return array.reshape(len(array), math.prod(extra), *last_axes) if array.ndim >= num_axes else array

    return jax.tree.map(reshaped, summary)


def trailing(array: ClassTable, ndim: int) -> ClassTable:
    """The array with axes of length 1 at its end, up to this number of axes."""
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))


def _same_ndim(count: ClassTable, other_count: ClassTable) -> tuple[ClassTable, ClassTable]:
    """Counts with the same number of axes: those of classes broadcast to those of cells."""
    ndim = max(count.ndim, other_count.ndim)
    return trailing(count, ndim), trailing(other_count, ndim)


MOST_MAGNITUDE = 1e152  # numbers up to here and from 1 / 1e152 on have squares, and sums of squares, with all digits


def check_magnitudes(moments: Moments, name_of: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse columns whose squares overflow or vanish in floating point, so that they have no variance.

    Args:
        moments: `Moments` of the columns, with a class axis or without.
        name_of: index tuple of a column -> its name at the start of a sentence.

    Raises:
        DataError: names the first such column, and the magnitude of its values.
    """
    sizes = _magnitudes(moments)
    wrong = (sizes > MOST_MAGNITUDE) | ((sizes > 0) & (sizes < 1 / MOST_MAGNITUDE))
    if any_known(wrong):
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        size = sizes[place]
        happens = "overflow" if size > MOST_MAGNITUDE else "vanish"
        raise DataError(
            f"{name_of(place)} has values of about {size:.0e}, whose squares {happens} in floating point, so it has no "
            f"variance that could be computed. Take it in other units (divide it by {size:.0e}), or drop it."
        )


def check_rows(values: Cells, variance: Float[Array, "..."] | None, name_of: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse new rows that are so far from the training data that squared distances overflow.

    Args:
        values: cells of columns with means and variances; NaN where they are missing.
        variance: of the training columns; None where it is not known, for units of 1, as in constant columns.
        name_of: index tuple of a column -> its name at the start of a sentence.

    Raises:
        DataError: names the first such column, the row and the value.
    """
    values = np.asarray(values)
    units = np.ones(()) if variance is None else np.sqrt(np.where(variance > 0, variance, 1.0))
    limits = np.minimum(MOST_MAGNITUDE, 0.1 * MOST_MAGNITUDE * units)  # squares in both units are finite
    least = limits.min(initial=MOST_MAGNITUDE)
    if values.dtype.kind == "f" and np.finfo(values.dtype).max <= least:
        return

    def are_small(part: slice) -> bool:
        cells = np.asarray(values[part])
        if norm(cells) <= least:
            return True
        # NaN where it is missing does not count
        return bool(max(np.fmax.reduce(cells, None, initial=0), -np.fmin.reduce(cells, None, initial=0)) <= least)

    if all(all_in_threads(are_small, even_chunks(len(values), THREAD_CELLS / max(values[:1].size, 1)))):
        return  # many times as fast as column by column
    values = np.where(np.isnan(values), 0.0, values)
    wrong = np.maximum(values.max(0, initial=0), -values.min(0, initial=0)) > limits
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        cells = values.reshape(len(values), -1)[:, np.ravel_multi_index(place, values.shape[1:])]
        row = int(np.argmax(np.abs(cells)))
        raise DataError(
            f"{name_of(place)} has {cells[row]:.3g} at row {row}, so far from the training data that squares "
            "overflow in floating point and no density could be computed. Correct the cell, or drop the row."
        )


def _magnitudes(moments: Moments) -> Float[Array, "..."]:
    """Mean or standard deviation of each column, whichever is larger, in the class where it is largest."""
    largest, xp = np.finfo(np.float64).max, namespace(moments.mean, moments.scatter)
    scatter = xp.diagonal(moments.scatter, axis1=-2, axis2=-1) if moments.is_matrix else moments.scatter
    count = xp.reshape(moments.count, np.shape(moments.count) + (1,) * (np.ndim(scatter) - np.ndim(moments.count)))
    scatter, mean = (xp.nan_to_num(xp.abs(values), nan=largest, posinf=largest) for values in (scatter, moments.mean))
    sizes = xp.maximum(mean, xp.sqrt(scatter) / xp.sqrt(xp.where(count > 0, count, 1.0)))
    return xp.asarray(sizes.max(0) if np.ndim(moments.count) else sizes)
