"""Exponential families: log p(x | theta) = sum_j eta_j(theta) T_j(x) - A(theta) + log h(x)."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayesgen.records import record, static
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, flatten_rows, log_linear, namespace, safe_product
from .base import Parameters, Statistic
from .densities import RowDensity
from .missing import filled, refuse_missing
from .passes import Classes, class_counts, class_sums
from .summaries import Sums, trailing


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
        name: what messages call it.
        mean: natural parameters -> mean; None where it is not known.
        draw: (random numbers, natural parameters) -> a draw of each; None where it is not known.
    """

    statistics: Callable[[Any, Any], tuple[Any, ...]]
    natural: Callable[[Any], tuple[Any, ...]]
    log_partition: Callable[[Any], Any]
    log_base: Callable[[Any, Any], Any] | None = None
    event_dim: int = 0
    uses_inert: bool = False
    name: str = "this distribution"
    mean: Callable[[Any], Any] | None = None
    draw: Callable[[np.random.Generator, Any], Any] | None = None

    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n ..."] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Sums:
        """Sum each statistic by class. See `Statistic.summarize`; vectors are there, or missing, as a whole."""
        events = None if observed is None else self.whole_events(observed)
        if observed is not None:
            values = filled(values, observed)

        def by_class(rows: Cells) -> Float[Array, "K ..."]:
            mask = observed if observed is None or rows.shape == observed.shape else events
            cells = None if mask is None else flatten_rows(mask)
            sums = class_sums(flatten_rows(rows), classes, num_classes, weights, cells)
            return sums.reshape(num_classes, *rows.shape[1:])

        with np.errstate(divide="ignore"):  # of cells that are filled in, which may lie at the edge of the support
            totals = tuple(by_class(rows) for rows in self.statistics(values, inert))
            extra = values.shape[1 : values.ndim - self.event_dim]
            if self.log_base is not None:
                base = by_class(self.log_base(values, inert))
            else:
                base = namespace(*totals).zeros((num_classes, *extra))
        return Sums(class_counts(classes, num_classes, weights, events), totals, base)

    def whole_events(self, observed: Bool[Array, "n ..."]) -> Bool[Array, "n ..."]:
        """Mask (n, *extra) of the events that are there. A DataError refuses vectors that are there in part."""
        axes = tuple(range(-self.event_dim, 0))
        events = namespace(observed).asarray(observed.all(axes))
        if axes and namespace(observed) is np and (events != observed.any(axes)).any():
            refuse_missing(self.name)
        return events

    def log_likelihood(self, parameters: Parameters, summary: Sums) -> Float[Array, "..."]:  # type: ignore[override]
        """Inner product of natural parameters and totals, less the log-partition. See `Statistic`."""
        terms = [safe_product(t, eta) for t, eta in zip(summary.totals, self.natural(parameters), strict=True)]
        events = tuple(range(-self.event_dim, 0))
        total = sum(term.sum(events) if events else term for term in terms)
        partition = self.log_partition(parameters)
        count = trailing(summary.count, partition.ndim)
        whole = total - safe_product(count, partition) + summary.log_base
        return namespace(whole).asarray(whole)

    def without_base(self) -> "ExponentialFamily":
        """The same with h = 1."""
        return self if self.log_base is None else dataclasses.replace(self, log_base=None)

    def density(self, parameters: Parameters) -> "ExponentialFamilyDensity":
        """Natural parameters and log-partitions. Not where `uses_inert`."""
        natural = tuple(eta.reshape(len(eta), -1) for eta in self.natural(parameters))
        partition = self.log_partition(parameters)
        return ExponentialFamilyDensity(natural, partition.reshape(len(partition), -1), self)


@record
class ExponentialFamilyDensity(RowDensity):
    """Densities of rows under an exponential family: one matrix product for each statistic.

    Attributes:
        natural: eta_j, extra and event axes flattened; -inf where a value is impossible.
        log_partition: A, extra axes flattened.
    """

    natural: tuple[Float[Array, "K m"], ...]
    log_partition: Float[Array, "K extra"]
    family: ExponentialFamily = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        family, mask, events = self.family, None, None
        if observed is not None:
            values, mask = filled(values, observed), flatten_rows(observed)
            events = flatten_rows(family.whole_events(observed))
        with np.errstate(divide="ignore"):  # as in `ExponentialFamily.summarize`
            statistics = [flatten_rows(rows) for rows in family.statistics(values, None)]
            base = None if family.log_base is None else family.log_base(values, None)
        if mask is not None:
            xp = namespace(mask, *statistics)
            statistics = [xp.where(mask, rows, 0.0) for rows in statistics]
        table = sum(log_linear(rows, eta) for rows, eta in zip(statistics, self.natural, strict=True))
        partition = self.log_partition.sum(-1) if events is None else events.astype(float) @ self.log_partition.T
        table = table - partition
        if base is None:
            return table
        base = namespace(base).reshape(base, (len(base), -1))
        return table + (base if events is None else namespace(base, events).where(events, base, 0.0)).sum(-1)[:, None]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        """Means of missing cells."""
        assert self.family.mean is not None, f"the mean of {self.family.name} is not known"
        return np.asarray(self.family.mean(self.natural))[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of missing cells."""
        assert self.family.draw is not None, f"draws of {self.family.name} are not known"
        return self.family.draw(rng, tuple(np.asarray(eta)[classes] for eta in self.natural))
