"""Mergeable summaries of rows: what the likelihood needs to know of the data, class by class.

Shapes: K classes lead; `extra` are the site's further batch axes (columns), `event` those of its distribution.
A summary weighs each cell: its counts have the shape (K,), or (K, *extra) where some cells were missing.
"""

import abc
import functools
from typing import TypeAlias, TypeVar

import jax
import numpy as np

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int

from .arrays import namespace, patterns_of

Table: TypeAlias = Float[Array, "..."]  # (K, *extra, ...), or that of one class, without its axis

AnySummary = TypeVar("AnySummary", bound="Summary")


class Summary(abc.ABC):
    """A sufficient statistic of some rows. Two summaries of disjoint rows merge into that of all rows."""

    @abc.abstractmethod
    def merge(self, other: "Summary") -> "Summary":
        """The summary of both sets of rows together (exact up to rounding)."""

    def __add__(self, other: "Summary") -> "Summary":
        return self.merge(other)

    @abc.abstractmethod
    def pooled(self) -> "Summary":
        """The summary with the class axis summed out (of length 1)."""

    @abc.abstractmethod
    def of_class(self, index: int) -> "Summary":
        """The summary of one class alone, without its class axis."""

    def with_empty_class(self, place: int) -> "Summary":
        """The summary with one more class, of which there are no rows, at this place among the classes."""
        return _with_zeros(self, place, 0)


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

    def merge(self, other: Summary) -> "Sums":
        """Add the sums."""
        assert isinstance(other, Sums)
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


@record
class PatternMoments(Summary):
    """Moments of jointly normal rows of which cells are missing: for each pattern of cells that are there, its rows'.

    Attributes:
        observed: the patterns, each once.
        moments: their moments, with the patterns as first axis; means and scatter are zero where cells are missing.
    """

    observed: Bool[Array, " P *event"]
    moments: Moments

    def merge(self, other: Summary) -> "PatternMoments":
        """Merge the moments of patterns that are alike."""
        if isinstance(other, Moments):
            whole = np.ones((1, *other.mean.shape[1:]), bool)
            other = PatternMoments(whole, jax.tree.map(lambda array: array[None], other))
        assert isinstance(other, PatternMoments)
        observed, places = patterns_of(np.concatenate([self.observed, other.observed]))
        first, second = places[: len(self.observed)], places[len(self.observed) :]
        spread = _spread(self.moments, first, len(observed))
        return PatternMoments(observed, spread._merged(_spread(other.moments, second, len(observed))))

    def pooled(self) -> "PatternMoments":
        """Merge all classes into one."""
        by_class = jax.tree.map(lambda array: namespace(array).swapaxes(array, 0, 1), self.moments)
        return PatternMoments(self.observed, jax.tree.map(lambda array: array[0, :, None], by_class.pooled()))

    def of_class(self, index: int) -> "PatternMoments":
        """Take one class."""
        return PatternMoments(self.observed, jax.tree.map(lambda array: array[:, index], self.moments))

    def with_empty_class(self, place: int) -> "PatternMoments":
        """The summary with one more class. The first axis of its moments is that of the patterns."""
        return PatternMoments(self.observed, _with_zeros(self.moments, place, 1))

    def by_column(self) -> Moments:
        """Moments of each column on its own, of all cells of it that are there."""
        count = trailing(self.moments.count, self.moments.mean.ndim) * self.observed[:, None]
        squares = namespace(count).diagonal(self.moments.scatter, axis1=-2, axis2=-1)
        patterns = Moments(count, self.moments.mean, squares, namespace(count).zeros(count.shape))
        return jax.tree.map(lambda array: array[0], patterns.pooled())


def _spread(moments: Moments, places: Int[Array, " P"], num_patterns: int) -> Moments:
    """The moments at these places among more patterns; of the others, those of no rows."""

    def put(array: Float[Array, "P ..."]) -> Float[Array, "patterns ..."]:
        whole = np.zeros((num_patterns, *array.shape[1:]))
        whole[places] = array
        return whole

    return jax.tree.map(put, moments)


def _with_zeros(summary: AnySummary, place: int, axis: int) -> AnySummary:
    """A summary whose arrays have zeros at a further place of an axis that they have in common."""
    return jax.tree.map(functools.partial(np.insert, obj=place, values=0.0, axis=axis), summary)


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
