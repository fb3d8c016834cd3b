"""Columns with finitely many values: counts of each value, and densities of rows by product or by look-up."""

import dataclasses

import numpy as np
import scipy.sparse

from .arrays import flatten_rows, log_linear, namespace, safe_product
from .base import Statistic
from .passes import chunks, class_counts, class_sums
from .summaries import Sums

MOST_COMBINATIONS = 1 << 13
JOINT_ROWS = 1 << 17  # many to each combination


@dataclasses.dataclass(frozen=True)
class BernoulliStatistic(Statistic):
    """Columns of zeros and ones, dense or sparse. Parameters: `log_one` and `log_zero`, (K, *extra); -inf allowed."""

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Count ones and zeros by class: two totals (K, *extra). See `Statistic.summarize`."""
        shape = (num_classes, *values.shape[1:])
        rows, count = flatten_rows(values), class_counts(codes, num_classes, weights)
        ones = class_sums(rows, codes, num_classes, weights)
        if weights is None:  # whole numbers, so the difference is exact
            zeros = count[:, None] - ones
        else:
            zeros = _class_zeros(rows, codes, num_classes, weights, count[:, None] - ones)
        return Sums(count, (ones.reshape(shape), zeros.reshape(shape)), np.zeros(shape))

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


def _class_zeros(rows, codes, num_classes, weights, difference):
    """Weights of zeros by class, (K, m). In a sparse matrix they are the difference of totals and weights of ones.

    There a column that has no zeros is found by counting, because rounding must not leave it a little of one.
    """
    if not scipy.sparse.issparse(rows):
        return class_sums(1.0 - rows, codes, num_classes, weights)
    seen = (weights > 0).astype(np.float64)
    ones = class_sums(rows, codes, num_classes, seen)
    full = ones == class_counts(codes, num_classes, seen)[:, None]
    return np.where(full, 0.0, np.maximum(difference, 0.0))


def _group_width(num_classes, num_categories):
    """How many columns to count together: as many as have few enough combinations to stay in the fastest cache."""
    width = 1
    while num_categories > 1 and num_classes * num_categories ** (width + 1) <= MOST_COMBINATIONS:
        width += 1
    return width


@dataclasses.dataclass(frozen=True)
class CategoricalStatistic(Statistic):
    """Columns of codes 0..r-1. Parameters: `log_probs`, (K, *extra, r)."""

    num_categories: int

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Count each value of each column by class: totals (K, *extra, r). See `Statistic.summarize`."""
        rows = flatten_rows(values)
        width = _group_width(num_classes, self.num_categories)
        counts = np.zeros((num_classes, rows.shape[1], self.num_categories))
        for part in chunks(len(rows), JOINT_ROWS):
            weight = None if weights is None else weights[part]
            self._add_counts(counts, rows[part], codes[part], weight, width)
        shape = (num_classes, *values.shape[1:])
        totals = (counts.reshape(*shape, self.num_categories),)
        return Sums(class_counts(codes, num_classes, weights), totals, np.zeros(shape))

    def _add_counts(self, total, rows, codes, weights, width):
        """Add the counts (K, columns, r) of some rows: those of the combinations of `width` columns, summed out."""
        size, num_classes = self.num_categories, len(total)
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
