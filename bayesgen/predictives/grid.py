"""Distributions of a response by their log joint density, normalised by quadrature."""

from collections.abc import Iterator

import numpy as np

from bayesgen.records import by_content
from bayesgen.runtime import ROUNDING
from bayesgen.typing import ArrayOrNumber, Bool, Float, Int

from .base import PredictiveDistribution
from .quadrature import LogFunction, Panels, integrate
from .supports import NODES, Support


@by_content
class GridPredictive(PredictiveDistribution):
    """Distributions of y by their log joint density and its integrals on panels.

    Attributes:
        log_joint: log p(x, y).
        support: the values of y.
        panels: the panels.
        densities: of u, at the nodes.
        log_normalizer: log p(x), the log of the integral of the joint.
    """

    log_joint: LogFunction
    support: Support
    panels: Panels
    densities: Float[np.ndarray, "P 15"]
    log_normalizer: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, log_joint: LogFunction, num_rows: int, support: Support) -> "GridPredictive":
        """The distribution of y in each row."""
        panels, integrals = integrate(log_joint, num_rows, support)
        totals = np.where(integrals.totals > 0, integrals.totals, 1.0)[panels.rows]
        matters = integrals.by_panel >= 1e-18 * totals  # all other panels add up to less than rounding
        matters |= np.isneginf(integrals.peaks)[panels.rows]  # so that each row has panels
        densities = (integrals.functions / totals[:, None])[matters]
        return cls(log_joint, support, panels.take(matters), densities, integrals.logs)

    @property
    def num_rows(self) -> int:
        return len(self.log_normalizer)

    @property
    def spacing(self) -> float:
        return self.support.spacing

    def nodes(
        self, num: int
    ) -> Iterator[tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"], Float[np.ndarray, " m"]]]:
        """Row, y and log weight in integrals of the nodes of successive rows, about `num` nodes at once."""
        ends = np.searchsorted(self.panels.rows, np.arange(self.num_rows), side="right")
        last = np.flatnonzero(np.diff(ends * len(NODES) // num)) + 1
        for indices in np.split(np.arange(len(self.panels.rows)), ends[last - 1]):
            panels = self.panels.take(indices)
            values, log_slopes = self.support.values(panels.nodes, panels.rows[:, None])
            with np.errstate(divide="ignore"):
                log_weights = np.log(self.support.rules(panels.left, panels.right)[0])
            yield np.repeat(panels.rows, len(NODES)), values.ravel(), (log_weights + log_slopes).ravel()

    @property
    def weights(self) -> Float[np.ndarray, "P 15"]:
        """Weights of the nodes in expectations."""
        return self.support.rules(self.panels.left, self.panels.right)[0] * self.densities

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        return self._integral(self.panels.values)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        return np.sqrt(self._integral((self.panels.values - self.mean[self.panels.rows][:, None]) ** 2))

    def _integral(self, values: Float[np.ndarray, "P 15"]) -> Float[np.ndarray, " n"]:
        weights = self.weights
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.where(weights > 0, weights * values, 0.0).sum(1)
        return self._where_possible(np.bincount(self.panels.rows, terms, self.num_rows))

    def _where_possible(self, answers: Float[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m n"]:
        """The answers, NaN in rows that are impossible."""
        return np.where(np.isneginf(self.log_normalizer), np.nan, answers)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        """The log joint at the values themselves, less the log normalizer; -inf beyond the support."""
        y, rows = np.broadcast_arrays(np.asarray(values, np.float64), np.arange(self.num_rows))
        possible = self.support.holds(y, rows)
        logs = self.log_joint(rows.ravel(), np.where(possible, y, self.support.start).ravel()).reshape(y.shape)
        return np.where(possible, logs - self.log_normalizer, np.where(np.isnan(y), np.nan, -np.inf))

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        y, rows = np.broadcast_arrays(np.asarray(values, np.float64), np.arange(self.num_rows))
        u = self.support.coordinates(y, rows)
        panel, is_inside = self._last_panel(self.panels.left, u)
        weights = self.support.weights_up_to(u, self.panels.left[panel], self.panels.right[panel])
        within = (self.densities[panel] * weights).sum(-1)
        probabilities = np.where(is_inside, np.clip(self._before[panel] + within, 0.0, 1.0), 0.0)
        return self._where_possible(np.where(np.isnan(y), np.nan, probabilities))

    @property
    def _before(self) -> Float[np.ndarray, " P"]:
        """Probability to the left of each panel, in its row."""
        total = np.concatenate([[0.0], self.weights.sum(1).cumsum()])
        return total[:-1] - total[np.searchsorted(self.panels.rows, self.panels.rows)]

    def _last_panel(
        self, keys: Float[np.ndarray, " P"], limits: Float[np.ndarray, "... n"]
    ) -> tuple[Int[np.ndarray, "... n"], Bool[np.ndarray, "... n"]]:
        """The last panel of each row whose key is at most the limit, and whether there is one; else the first."""
        ends = np.searchsorted(self.panels.rows, [np.arange(self.num_rows), np.arange(1, self.num_rows + 1)])
        last, after = np.broadcast_to(ends[0], limits.shape), np.broadcast_to(ends[1], limits.shape)
        while (after - last > 1).any():  # bisection in all rows at once
            middle = (last + after) // 2
            is_reached = keys[middle] <= limits
            last, after = np.where(is_reached, middle, last), np.where(is_reached, after, middle)
        return last, keys[last] <= limits

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        return self._at(np.full(self.num_rows, probability))

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        return self._at(rng.random((num_draws, self.num_rows)))

    def _at(self, probabilities: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "... n"]:
        """The values at which the distribution function has these probabilities."""
        probabilities = probabilities - ROUNDING * self.spacing  # whose sums may be less, by rounding
        panel, _ = self._last_panel(self._before, probabilities)
        ends = self.panels.left[panel], self.panels.right[panel]
        missing = probabilities - self._before[panel]
        return self._where_possible(self.support.quantiles(missing, self.densities[panel], *ends))
