"""Columns with finitely many values: counts of each value, and densities of rows by product or by look-up."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import scipy.sparse

from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import flatten_rows, log_linear, namespace, safe_product
from .base import Statistic
from .missing import fill
from .passes import Cells, Classes, Sparse, chunks, class_counts, class_sums, class_weights
from .summaries import Sums, trailing

MOST_COMBINATIONS = 1 << 13
JOINT_ROWS = 1 << 17  # many to each combination


@dataclasses.dataclass(frozen=True)
class BernoulliStatistic(Statistic):
    """Columns of zeros and ones, dense or sparse. Parameters: `log_one` and `log_zero`, (K, *extra); -inf allowed."""

    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, " n *extra"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Sums:
        """Count ones and zeros by class: two totals (K, *extra). See `Statistic.summarize`."""
        shape = (num_classes, *values.shape[1:])
        mask = None if observed is None else flatten_rows(observed)
        rows = flatten_rows(values if observed is None else fill(values, observed))
        ones = class_sums(rows, classes, num_classes, weights, mask)
        count = class_counts(classes, num_classes, weights, observed)
        if weights is None and classes.ndim == 1:  # whole numbers, so the difference is exact
            zeros = trailing(count, 2).reshape(num_classes, -1) - ones
        elif scipy.sparse.issparse(rows):
            zeros = _sparse_zeros(rows, classes, num_classes, weights, count[:, None] - ones)
        else:
            zeros = class_sums(1.0 - rows, classes, num_classes, weights, mask)
        base = namespace(ones).zeros(shape)
        return Sums(count, (ones.reshape(shape), zeros.reshape(shape)), base)

    def log_likelihood(self, parameters, summary):
        """Counts times log probabilities."""
        ones, zeros = summary.totals
        return safe_product(ones, parameters["log_one"]) + safe_product(zeros, parameters["log_zero"])

    def prepare(self, parameters):
        """The log probability of a row of zeros, the log odds of ones, and the ones that are certain."""
        if "log_odds" in parameters:
            return parameters
        one, zero = (parameters[name].reshape(len(parameters[name]), -1) for name in ("log_one", "log_zero"))
        xp = namespace(one)
        certain = xp.isneginf(zero)
        zero = xp.where(certain, 0.0, zero)
        return {"zeros": zero.sum(-1), "log_odds": one - zero, "certain": certain}

    def row_log_prob(self, parameters, values):
        """Log probability of rows, (n, K): that of a row of zeros, and the log odds of the ones.

        So only the ones cost anything. A row with an event of probability zero has log probability -inf, exactly.
        """
        prepared, rows = self.prepare(parameters), flatten_rows(values)
        certain, log_odds = prepared["certain"], prepared["log_odds"]
        table = prepared["zeros"] + log_linear(rows, log_odds)
        xp = namespace(log_odds, rows)
        if xp is np and not certain.any():
            return table
        missing = certain.sum(-1) > xp.asarray(rows @ certain.T.astype(log_odds.dtype))
        return xp.where(missing, -xp.inf, table)


def _sparse_zeros(
    rows: Sparse,
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    difference: Float[Array, "K m"],
) -> Float[Array, "K m"]:
    """Weights of zeros by class in a sparse matrix: the difference of all weights and those of ones.

    A column that has no zeros is found by counting, because rounding must not leave it a little of one.
    """
    seen = (class_weights(classes, num_classes, weights) > 0).astype(np.float64)
    full = class_sums(rows, seen, num_classes) == seen.sum(0)[:, None]
    return np.where(full, 0.0, np.maximum(difference, 0.0))


def _group_width(num_classes: int, num_categories: int) -> int:
    """How many columns to count together: as many as have few enough combinations to stay in the fastest cache."""
    width = 1
    while num_categories > 1 and num_classes * num_categories ** (width + 1) <= MOST_COMBINATIONS:
        width += 1
    return width


def _count_jointly(
    rows: Shaped[Array, "n m"],
    codes: Int[Array, " n"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    size: int,
) -> Float[Array, "K m size"]:
    """Counts of values 0..size-1 by class and column, some columns at once: of their combinations, summed out."""
    total = np.zeros((num_classes, rows.shape[1], size))
    width = _group_width(num_classes, size)
    for part in chunks(len(rows), JOINT_ROWS):
        _add_counts(total, rows[part], codes[part], None if weights is None else weights[part], width)
    return total


def _add_counts(
    total: Float[Array, "K m size"],
    rows: Shaped[Array, "n m"],
    codes: Int[Array, " n"],
    weights: Real[Array, " n"] | None,
    width: int,
) -> None:
    """Add the counts of some rows, `width` columns at once."""
    num_classes, _, size = total.shape
    # short integers, which a processor takes many of at a time, wherever they hold all combinations
    dtype = np.int16 if num_classes * size**width < 2**15 else np.int64
    columns, codes = np.ascontiguousarray(rows.astype(dtype).T), codes.astype(dtype)
    for start in range(0, len(columns), width):
        group = columns[start : start + width]
        cells = codes.copy()
        for column in group:
            cells *= size
            cells += column
        counts = np.bincount(cells, weights=weights, minlength=num_classes * size ** len(group))
        counts = counts.reshape(num_classes, *(size,) * len(group))
        for index in range(len(group)):
            others = tuple(axis + 1 for axis in range(len(group)) if axis != index)
            total[:, start + index] += counts.sum(others)


@dataclasses.dataclass(frozen=True)
class CategoricalStatistic(Statistic):
    """Columns of codes 0..r-1. Parameters: `log_probs`, (K, *extra, r)."""

    num_categories: int

    def summarize(
        self,
        values: Shaped[Array, " n *extra"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, " n *extra"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Sums:
        """Count each value of each column by class: totals (K, *extra, r). See `Statistic.summarize`."""
        size = self.num_categories
        if observed is not None:  # missing cells have a value of their own, which is not counted
            values, size = fill(values, observed, self.num_categories), size + 1
        rows = flatten_rows(values)
        if classes.ndim == 1 and namespace(values, classes, weights) is np:
            counts = _count_jointly(rows, classes, num_classes, weights, size)[..., : self.num_categories]
        else:
            of_values = [
                class_sums(rows == value, classes, num_classes, weights) for value in range(self.num_categories)
            ]
            counts = namespace(*of_values).stack(of_values, -1)
        shape = (num_classes, *values.shape[1:])
        count = class_counts(classes, num_classes, weights, observed)
        return Sums(count, (counts.reshape(*shape, self.num_categories),), namespace(counts).zeros(shape))

    def log_likelihood(self, parameters, summary):
        """Sum over values of count times log probability."""
        return safe_product(summary.totals[0], parameters["log_probs"]).sum(-1) + summary.log_base

    def row_log_prob(self, parameters, values):
        """Log probability of rows, (n, K)."""
        xp = namespace(parameters["log_probs"], values)
        table = parameters["log_probs"]
        rows = flatten_rows(values).astype(int)
        table = xp.moveaxis(table.reshape(len(table), -1, self.num_categories), 0, -1)  # (columns, r, K)
        total = xp.zeros((len(rows), table.shape[-1]))
        for index in range(rows.shape[1]):
            total = total + table[index][rows[:, index]]
        return total
