"""Summaries of rows: sufficient statistics of one site, class by class, which merge.

Shapes: the axis of K classes comes first; `extra` are the site's further batch axes (columns), `event` those of its
distribution. A summary weighs each cell: its counts have the shape (K,), or (K, *extra) where some cells were missing.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record
from bayesgen.typing import Array, Float

from .arrays import Cells, any_known, namespace

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

    @abc.abstractmethod
    def select_class(self, index: int) -> "Summary":
        """The summary of one class alone, without its class axis."""

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
        counts = _alike(self.count, other.count)
        totals = tuple(one + another for one, another in zip(self.totals, other.totals, strict=True))
        return Sums(counts[0] + counts[1], totals, self.log_base + other.log_base)

    def pooled(self) -> "Sums":
        return jax.tree.map(lambda array: array.sum(0, keepdims=True), self)

    def select_class(self, index: int) -> "Sums":
        return jax.tree.map(lambda array: array[index, ...], self)


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
        one, another = _alike(self.count, other.count)
        count, xp = one + another, namespace(one, another)
        share = xp.where(count > 0, another / xp.where(count > 0, count, 1.0), 0.0)
        delta = other.mean - self.mean
        mean = self.mean + trailing(share, delta.ndim) * delta
        between = trailing(one * share, self.scatter.ndim) * outer_or_square(delta, self.is_matrix)
        return Moments(count, mean, self.scatter + other.scatter + between, self.log_base + other.log_base)

    def pooled(self) -> "Moments":
        total = self._slice(0)
        for index in range(1, len(self.count)):
            total = total._merged(self._slice(index))
        return total

    def _slice(self, index: int) -> "Moments":
        return jax.tree.map(lambda array: array[index : index + 1], self)

    def select_class(self, index: int) -> "Moments":
        return jax.tree.map(lambda array: array[index, ...], self)


def outer_or_square(delta: ClassTable, is_matrix: bool) -> ClassTable:
    """The square of a difference of means, elementwise or as an outer product over its last axis."""
    return delta[..., :, None] * delta[..., None, :] if is_matrix else delta**2


def trailing(array: ClassTable, ndim: int) -> ClassTable:
    """The array with axes of length 1 at its end, up to this number of axes."""
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))


def _alike(one: ClassTable, another: ClassTable) -> tuple[ClassTable, ClassTable]:
    """Counts with the same number of axes: those of classes broadcast to those of cells."""
    ndim = max(one.ndim, another.ndim)
    return trailing(one, ndim), trailing(another, ndim)


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


def check_rows(values: Cells, units: Float[Array, "..."] | float, name_of: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse new rows that are so far from the training data that squared distances overflow.

    Args:
        values: cells of columns with means and variances; NaN where they are missing.
        units: standard deviations of the columns, or 1 where they are not known.
        name_of: index tuple of a column -> its name at the start of a sentence.

    Raises:
        DataError: names the first such column, the row and the value.
    """
    values = np.asarray(values)
    limits = np.minimum(MOST_MAGNITUDE, 0.1 * MOST_MAGNITUDE * np.asarray(units))  # squares in both units are finite
    least = limits.min(initial=MOST_MAGNITUDE)
    if values.dtype.kind == "f" and np.finfo(values.dtype).max <= least:
        return
    largest = max(values.max(initial=0), -values.min(initial=0))
    if largest <= least:  # many times as fast as column by column
        return
    if np.isnan(largest):
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
