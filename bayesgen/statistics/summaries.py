"""Mergeable summaries of rows: what the likelihood needs to know of the data, class by class.

Shapes: K classes lead; `extra` are the site's further batch axes (columns), `event` those of its distribution.
Every summary has fixed shapes whatever the number of rows, so whatever is compiled for one serves all.
"""

import abc
import dataclasses

import jax
import numpy as np


class Summary(abc.ABC):
    """A sufficient statistic of some rows. Two summaries of disjoint rows merge into that of all rows."""

    @abc.abstractmethod
    def merge(self, other):
        """Return the summary of both sets of rows together (exact up to rounding)."""

    def __add__(self, other):
        return self.merge(other)

    @abc.abstractmethod
    def pooled(self):
        """Return the summary with the class axis summed out (of length 1)."""

    @abc.abstractmethod
    def of_class(self, index):
        """Return the summary of one class alone, without its class axis."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sums(Summary):
    """Weighted sums of the statistics T(x) of an exponential family.

    Attributes:
        count: (K,), the total weight of each class.
        totals: one array (K, *extra, ...) for each statistic.
        log_base: (K, *extra), the weighted sum of the log base measure, log h(x).
    """

    count: np.ndarray
    totals: tuple[np.ndarray, ...]
    log_base: np.ndarray

    def merge(self, other):
        """Add the sums."""
        return jax.tree.map(lambda a, b: a + b, self, other)

    def pooled(self):
        """Sum the class axis out."""
        return jax.tree.map(lambda a: a.sum(0, keepdims=True), self)

    def of_class(self, index):
        """Take one class."""
        return jax.tree.map(lambda a: a[index], self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments(Summary):
    """Weight, mean and centred scatter of each class, for normal distributions.

    Attributes:
        count: (K,), the total weight of each class.
        mean: (K, *event), zero where a class is empty.
        scatter: the sum of squares about the mean, (K, *event), or the matrix (K, D, D).
        log_base: (K, *extra), the log-Jacobian of a transformation of the data (zero if there is none).
    """

    count: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    log_base: np.ndarray

    @property
    def is_matrix(self):
        """Whether `scatter` holds cross products of the columns and not only squares."""
        return self.scatter.ndim > self.mean.ndim

    @np.errstate(over="ignore", invalid="ignore")  # as in `class_moments`
    def merge(self, other):
        """Merge by the pairwise formula of Chan, Golub and LeVeque (1983, eq. 2.1): no cancellation."""
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        delta = other.mean - self.mean
        mean = self.mean + _trailing(share, delta.ndim) * delta
        between = _trailing(self.count * share, self.scatter.ndim) * outer_or_square(delta, self.is_matrix)
        return Moments(count, mean, self.scatter + other.scatter + between, self.log_base + other.log_base)

    def pooled(self):
        """Merge all classes into one."""
        total = self._slice(0)
        for index in range(1, len(self.count)):
            total = total.merge(self._slice(index))
        return total

    def _slice(self, index):
        return jax.tree.map(lambda a: a[index : index + 1], self)

    def of_class(self, index):
        """Take one class."""
        return jax.tree.map(lambda a: a[index], self)


def outer_or_square(delta, is_matrix):
    """The square of a difference of means, elementwise or as an outer product over its last axis."""
    return delta[..., :, None] * delta[..., None, :] if is_matrix else delta**2


def _trailing(array, ndim):
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))
