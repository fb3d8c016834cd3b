"""Categorical columns: counts of each value, and densities by table look-up."""

import dataclasses

import numpy as np

from . import passes
from .arrays import flatten_rows, namespace, safe_product
from .base import Statistic
from .summaries import Sums


@dataclasses.dataclass(frozen=True)
class CategoricalStatistic(Statistic):
    """Columns of codes 0..r-1. Parameters: `log_probs`, (K, *extra, r)."""

    num_categories: int

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Count each value of each column by class: totals (K, *extra, r). See `Statistic.summarize`."""
        rows = flatten_rows(values)
        size, offset = num_classes * self.num_categories, codes * self.num_categories
        columns = [
            np.bincount(offset + rows[:, index].astype(np.int64), weights=weights, minlength=size)
            for index in range(rows.shape[1])
        ]
        counts = np.stack(columns, -1).reshape(num_classes, self.num_categories, -1).astype(np.float64)
        shape = (num_classes, *values.shape[1:])
        counts = np.moveaxis(counts, 1, -1).reshape(*shape, self.num_categories)
        return Sums(passes.class_counts(codes, num_classes, weights), (counts,), np.zeros(shape))

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
