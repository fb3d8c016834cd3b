"""Exponential families: log p(x | theta) = sum_j eta_j(theta) T_j(x) - A(theta) + log h(x)."""

import dataclasses
from collections.abc import Callable

import numpy as np

from .arrays import flatten_rows, log_linear, namespace, safe_product
from .base import Statistic
from .passes import class_counts, class_sums
from .summaries import Sums


@dataclasses.dataclass(frozen=True)
class ExponentialFamily(Statistic):
    """An exponential family with elementwise or vector statistics.

    Attributes:
        statistics: (values, inert) -> tuple of arrays T_j, each of the rows' shape.
        natural: parameters -> tuple of arrays eta_j, each of shape (K, *extra, *event); -inf is allowed.
        log_partition: parameters -> A, (K, *extra).
        log_base: (values, inert) -> log h, (n, *extra); or None where h = 1.
        event_dim: number of event axes of the distribution.
        uses_inert: whether `statistics` or `log_base` look at `inert`.
    """

    statistics: Callable
    natural: Callable
    log_partition: Callable
    log_base: Callable | None = None
    event_dim: int = 0
    uses_inert: bool = False

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Sum each statistic by class. See `Statistic.summarize`."""

        def by_class(rows):
            sums = class_sums(flatten_rows(rows), codes, num_classes, weights)
            return sums.reshape(num_classes, *rows.shape[1:])

        totals = tuple(by_class(rows) for rows in self.statistics(values, inert))
        extra = values.shape[1 : values.ndim - self.event_dim]
        base = np.zeros((num_classes, *extra))
        if self.log_base is not None:
            base = by_class(self.log_base(values, inert))
        return Sums(class_counts(codes, num_classes, weights), totals, base)

    def log_likelihood(self, parameters, summary):
        """Inner product of natural parameters and totals, less the log-partition. See `Statistic`."""
        terms = [safe_product(t, eta) for t, eta in zip(summary.totals, self.natural(parameters), strict=True)]
        events = tuple(range(-self.event_dim, 0))
        total = sum(term.sum(events) if events else term for term in terms)
        partition = self.log_partition(parameters)
        count = summary.count.reshape((-1,) + (1,) * (partition.ndim - 1))
        return total - safe_product(count, partition) + summary.log_base

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K): one matrix product for each statistic. Not where `uses_inert`."""
        pairs = zip(self.statistics(values, None), self.natural(parameters), strict=True)
        total = sum(log_linear(flatten_rows(t), eta.reshape(len(eta), -1)) for t, eta in pairs)
        partition = self.log_partition(parameters)
        total = total - partition.reshape(len(partition), -1).sum(-1)
        if self.log_base is None:
            return total
        base = self.log_base(values, None)
        return total + namespace(base).reshape(base, (len(base), -1)).sum(-1)[:, None]
