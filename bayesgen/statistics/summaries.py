"""Mergeable summaries of rows: what the likelihood needs to know of the data, class by class.

Shapes: K classes lead; `extra` are the site's further batch axes (columns), `event` those of its distribution.
A summary weighs each cell: its counts have the shape (K,), or (K, *extra) where some cells were missing.
"""

import abc
import functools
from typing import TypeAlias

import jax
import numpy as np

from bayesgen.records import record
from bayesgen.typing import Array, Float

from .arrays import namespace

Table: TypeAlias = Float[Array, "..."]  # (K, *extra, ...), or that of one class, without its axis


class Summary(abc.ABC):
    """A sufficient statistic of some rows. Two summaries of disjoint rows merge into that of all rows."""

    @abc.abstractmethod
    def merge(self, other: "Summary") -> "Summary":
        """The summary of both sets of rows together (exact up to rounding)."""

    def __add__(self, other: "Summary") -> "Summary":
        return self.merge(other)

    @property
    def is_complete(self) -> bool:
        """Whether nothing that the likelihood of these rows depends on is hidden or missing."""
        return True

    @abc.abstractmethod
    def pooled(self) -> "Summary":
        """The summary with the class axis summed out (of length 1)."""

    @abc.abstractmethod
    def of_class(self, index: int) -> "Summary":
        """The summary of one class alone, without its class axis."""

    def by_column(self) -> "Summary":
        """That of each column on its own, of all cells of it that are there: itself, where columns are alone."""
        return self

    def with_empty_class(self, place: int) -> "Summary":
        """The summary with one more class, of which there are no rows, at this place among the classes."""
        return jax.tree.map(functools.partial(np.insert, obj=place, values=0.0, axis=0), self)

    def padded(self) -> "Summary":
        """The same in a shape for which functions are compiled once: what depends on the data's shape is filled up."""
        return self


@record
class Sums(Summary):
    """Weighted sums of the statistics T(x) of an exponential family.

    Attributes:
        count: the weight of each class, or of each of its columns where some cells were missing.
        totals: one array for each statistic.
        log_base: the weighted sum of the log base measure, log h(x).
    """

    count: Table
    totals: tuple[Table, ...]
    log_base: Table

    @property
    def cell_counts(self) -> Table:
        """The weight of each class and column, or with axes of length 1 where it is that of the class."""
        return trailing(self.count, self.log_base.ndim)

    def merge(self, other: Summary) -> Summary:
        """Add the sums."""
        return self._merged(other) if isinstance(other, Sums) else other.merge(self)

    def _merged(self, other: "Sums") -> "Sums":
        counts = _alike(self.count, other.count)
        totals = tuple(one + another for one, another in zip(self.totals, other.totals, strict=True))
        return Sums(counts[0] + counts[1], totals, self.log_base + other.log_base)

    def pooled(self) -> "Sums":
        """Sum the class axis out."""
        return jax.tree.map(lambda array: array.sum(0, keepdims=True), self)

    def of_class(self, index: int) -> "Sums":
        """Take one class."""
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

    count: Table
    mean: Table
    scatter: Table
    log_base: Table

    @property
    def is_matrix(self) -> bool:
        """Whether `scatter` holds cross products of the columns and not only squares."""
        return self.scatter.ndim > self.mean.ndim

    @property
    def cell_counts(self) -> Table:
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
        """Merge all classes into one."""
        total = self._slice(0)
        for index in range(1, len(self.count)):
            total = total._merged(self._slice(index))
        return total

    def _slice(self, index: int) -> "Moments":
        return jax.tree.map(lambda array: array[index : index + 1], self)

    def of_class(self, index: int) -> "Moments":
        """Take one class."""
        return jax.tree.map(lambda array: array[index, ...], self)


def outer_or_square(delta: Table, is_matrix: bool) -> Table:
    """The square of a difference of means, elementwise or as an outer product over its last axis."""
    return delta[..., :, None] * delta[..., None, :] if is_matrix else delta**2


def trailing(array: Table, ndim: int) -> Table:
    """The array with axes of length 1 at its end, so that counts of classes meet tables of their columns."""
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))


def _alike(one: Table, another: Table) -> tuple[Table, Table]:
    """Counts of as many axes: those of classes meet those of cells."""
    ndim = max(one.ndim, another.ndim)
    return trailing(one, ndim), trailing(another, ndim)
