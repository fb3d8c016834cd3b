"""Mixtures of predictive distributions, and roots of increasing functions for their quantiles."""

import math
from collections.abc import Callable

import jax
import numpy as np
import scipy.special

from bayesgen.records import record
from bayesgen.typing import ArrayOrNumber, Float, Int

from .base import PredictiveDistribution, centre_and_scale, find_roots, half_distance_of_draws


@record
class MixturePredictive(PredictiveDistribution):
    """Mixtures of S distributions for each row: by draw, or by structure.

    Attributes:
        log_weights: logs of the weights, which sum to 1.
        components: one distribution whose parameters have a leading axis S, or S distributions.
    """

    log_weights: Float[np.ndarray, "S n"]
    components: PredictiveDistribution | tuple[PredictiveDistribution, ...]

    @property
    def num_rows(self) -> int:
        return int(self.log_weights.shape[-1])

    def _of_components(
        self, ask: Callable[[PredictiveDistribution], Float[np.ndarray, "..."]]
    ) -> Float[np.ndarray, "S n"]:
        """A function of each component."""
        if isinstance(self.components, PredictiveDistribution):
            return ask(self.components)
        return np.stack([ask(component) for component in self.components])

    @property
    def weights(self) -> Float[np.ndarray, "S n"]:
        return np.exp(self.log_weights)

    @property
    def means(self) -> Float[np.ndarray, "S n"]:
        """Means of the components."""
        return np.broadcast_to(self._of_components(lambda predictive: predictive.mean), self.log_weights.shape)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Weighted means of the components' means; components of weight 0 do not count."""
        return _weighted(self.weights, self.means)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """From the variances within components and between them."""
        weights, means, stds = self.weights, self.means, self._of_components(lambda predictive: predictive.std)
        return np.sqrt(_weighted(weights, stds**2 + (means - _weighted(weights, means)) ** 2))

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        def of_each(row_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            logs = self.log_weights + self._of_components(lambda predictive: predictive.log_density(row_values))
            return scipy.special.logsumexp(logs, axis=0)

        return self._of_each(of_each, values)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        weights = self.weights

        def of_each(row_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return _weighted(weights, self._of_components(lambda predictive: predictive.cdf(row_values)))

        return self._of_each(of_each, values)

    def _of_each(
        self,
        function: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
        values: Float[ArrayOrNumber, "..."],
    ) -> Float[np.ndarray, "..."]:
        """A function of one value a row, of several."""
        values = np.asarray(values, np.float64)
        shape = np.broadcast_shapes(values.shape, (self.num_rows,))
        table = np.broadcast_to(values, shape).reshape(math.prod(shape[:-1]), self.num_rows)
        return np.stack([function(row_values) for row_values in table]).reshape(shape)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """Roots between the least and the greatest of the components' quantiles."""
        ends = self._of_components(lambda predictive: predictive.quantile(probability))
        counts = self.log_weights > -np.inf
        low, high = np.where(counts, ends, np.inf).min(0), np.where(counts, ends, -np.inf).max(0)
        return find_roots(lambda x: self.cdf(x) - probability, lambda x: np.exp(self.log_density(x)), low, high)

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        weights = self.weights

        def of_each(row_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return _weighted(weights, self._of_components(lambda predictive: predictive.survival(row_values)))

        return self._of_each(of_each, values)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"] | None:
        components = (self.components,) if isinstance(self.components, PredictiveDistribution) else self.components
        distances = [component.mean_distance(values) for component in components]
        known = [distance for distance in distances if distance is not None]
        if len(known) < len(distances):
            return None
        return _weighted(
            self.weights, known[0] if isinstance(self.components, PredictiveDistribution) else np.stack(known)
        )

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"]:
        """The continuous ranked probability score, E|X − value| − E|X − X'| / 2 (Gneiting & Raftery 2007, eq. 21).

        The first term in closed form, the second by quadrature; the score by quadrature where a component has no closed
        form or the mixture no finite variance.
        """
        distance = self.mean_distance(values) if np.isfinite(self.std).all() else None
        if distance is None:
            return super().crps(values)
        return distance - half_distance_of_draws(self.cdf, self.survival, *centre_and_scale(self))

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        bounds = self.weights.cumsum(0)
        uniform = rng.random((num_draws, self.num_rows)) * bounds[-1]
        chosen = np.stack(
            [np.searchsorted(of_row, u, "right") for of_row, u in zip(bounds.T, uniform.T, strict=True)], -1
        ) if self.num_rows else np.zeros((num_draws, 0), int)  # fmt: skip
        chosen = np.minimum(chosen, len(bounds) - 1)
        if isinstance(self.components, PredictiveDistribution):
            one = jax.tree.map(lambda leaf: _picked(leaf, chosen), self.components)
            return one.draws(rng, 1)[0]
        of_components = np.stack([component.draws(rng, num_draws) for component in self.components])
        return np.take_along_axis(of_components, chosen[None], 0)[0]


def _picked(leaf: Float[np.ndarray, "#S #n"], chosen: Int[np.ndarray, "num n"]) -> Float[np.ndarray, "num n"]:
    """A parameter of the chosen components."""
    rows = np.arange(chosen.shape[1]) if leaf.shape[1] > 1 else np.zeros(chosen.shape[1], int)
    return leaf[chosen if len(leaf) > 1 else np.zeros_like(chosen), rows]


def _weighted(weights: Float[np.ndarray, "S n"], values: Float[np.ndarray, "#S #n"]) -> Float[np.ndarray, " n"]:
    """Weighted sums; terms of weight 0 are 0, even if their value is infinite or NaN."""
    return np.where(weights > 0, weights * values, 0.0).sum(0)
