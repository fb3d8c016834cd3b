"""Columns with finitely many values: counts of each value, and densities of rows by product or by look-up."""

import dataclasses

import numpy as np
import scipy.sparse

from .arrays import flatten_rows, log_linear, namespace, safe_product
from .base import Statistic
from .passes import class_counts, class_sums
from .summaries import Sums


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


@dataclasses.dataclass(frozen=True)
class CategoricalStatistic(Statistic):
    """Columns of codes 0..r-1. Parameters: `log_probs`, (K, *extra, r)."""

    num_categories: int

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Count each value of each column by class: totals (K, *extra, r). See `Statistic.summarize`."""
        rows = flatten_rows(values)
        size, offset = num_classes * self.num_categories, codes * self.num_categories
        columns = [
            np.bincount(offset + rows[:, index].astype(np.int64, copy=False), weights=weights, minlength=size)
            for index in range(rows.shape[1])
        ]
        counts = np.stack(columns, -1).reshape(num_classes, self.num_categories, -1).astype(np.float64)
        shape = (num_classes, *values.shape[1:])
        counts = np.moveaxis(counts, 1, -1).reshape(*shape, self.num_categories)
        return Sums(class_counts(codes, num_classes, weights), (counts,), np.zeros(shape))

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
