"""Mixtures of predictive distributions."""

import functools
import math
from collections.abc import Callable

import jax
import numpy as np
import scipy.special

from bayesgen.records import record
from bayesgen.runtime import positions
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution, centre_and_scale
from .roots import find_roots


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
            return np.broadcast_to(ask(self.components), self.log_weights.shape)
        return np.stack([ask(component) for component in self.components])

    @functools.cached_property
    def weights(self) -> Float[np.ndarray, "S n"]:
        """The weights."""
        return np.exp(self.log_weights)

    @property
    def means(self) -> Float[np.ndarray, "S n"]:
        """Means of the components."""
        return self._of_components(lambda predictive: predictive.mean)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Weighted means of the components' means; components of weight 0 do not count."""
        return self._weighted(self.means)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """From the variances within components and between them."""
        means, stds = self.means, self._of_components(lambda predictive: predictive.std)
        return np.sqrt(self._weighted(stds**2 + (means - self._weighted(means)) ** 2))

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        def mean(logs: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " n"]:
            return scipy.special.logsumexp(self.log_weights + logs, axis=0)

        return self._at(values, lambda predictive, of_rows: predictive.log_density(of_rows), mean)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._at(values, lambda predictive, of_rows: predictive.cdf(of_rows), self._weighted)

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._at(values, lambda predictive, of_rows: predictive.survival(of_rows), self._weighted)

    def _at(
        self,
        values: Float[ArrayOrNumber, "..."],
        ask: Callable[[PredictiveDistribution, Float[np.ndarray, " n"]], Float[np.ndarray, "..."]],
        mean: Callable[[Float[np.ndarray, "S n"]], Float[np.ndarray, " n"]],
    ) -> Float[np.ndarray, "..."]:
        """The mean over components of a function of values, one value a row at a time."""
        whole = np.broadcast_arrays(np.asarray(values, np.float64), self.log_weights[0])[0]
        table = whole.reshape(math.prod(whole.shape[:-1]), self.num_rows)

        def at(of_rows: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return mean(self._of_components(lambda predictive: ask(predictive, of_rows)))

        return np.array([at(of_rows) for of_rows in table]).reshape(whole.shape)

    def _weighted(self, values: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " n"]:
        """Weighted sums; terms of weight 0 are 0, even if their value is infinite or NaN."""
        return np.where(self.weights > 0, self.weights * values, 0.0).sum(0)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """Roots between the least and the greatest of the components' quantiles."""
        ends = self._of_components(lambda predictive: predictive.quantile(probability))
        counts = self.log_weights > -np.inf
        low, high = np.where(counts, ends, np.inf).min(0), np.where(counts, ends, -np.inf).max(0)
        return find_roots(lambda x: self.cdf(x) - probability, lambda x: np.exp(self.log_density(x)), low, high)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"] | None:
        """The weighted mean of those of the components; None where one is not known, or the variance is infinite."""
        components = (self.components,) if isinstance(self.components, PredictiveDistribution) else self.components
        distances = [component.mean_distance(values) for component in components]
        known = [distance for distance in distances if distance is not None]
        is_known = len(known) == len(distances) and np.isfinite(self.std).all()
        return self._weighted(np.vstack(known)) if is_known else None

    def half_distance(self) -> Float[np.ndarray, " n"] | None:
        """∫ F(u) (1 − F(u)) du to a relative error of about 1e-8; None where a thousand steps do not suffice.

        By the trapezoid rule over w with u = centre + scale sinh(w), which converges geometrically where F is smooth:
        the step is halved until the integral converges. Panels take two to six times as many evaluations of all
        components. Rows whose centre or scale is not finite give NaN.
        """
        centre, scale = centre_and_scale(self)
        known, half_width = np.isfinite(centre) & np.isfinite(scale), 3.0
        while half_width < 40.0:  # sinh(40) scales from the centre is 1e17
            distance = np.sinh(half_width)
            beyond = np.maximum(self.cdf(centre - scale * distance), self.survival(centre + scale * distance))
            tails = np.max(beyond, initial=0.0, where=~np.isnan(beyond)) * distance
            if tails <= 1e-11:  # of the integral, in scales
                break
            half_width *= 1.25

        def integrand(w: float) -> Float[np.ndarray, " n"]:
            beyond = (self.cdf if w < 0 else self.survival)(centre + scale * np.sinh(w))
            return np.where(known, beyond * (1 - beyond) * np.cosh(w), 0.0)

        num_steps, total = 16, sum(integrand(w) for w in np.linspace(-half_width, half_width, 17)) / 16
        while num_steps < 1024:
            between = np.linspace(-half_width, half_width, 2 * num_steps + 1)[1::2]
            coarser, total = total, (total + sum(integrand(w) for w in between) / num_steps) / 2
            num_steps *= 2
            if (np.abs(total - coarser) <= 1e-5 * total).all():  # halving the step squares the error
                return np.where(known, total * 2 * half_width * scale, np.nan)
        return None

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        chosen = positions(rng, self.weights.T, num_draws)
        if isinstance(self.components, PredictiveDistribution):
            shape = self.log_weights.shape
            picked = jax.tree.map(
                lambda leaf: np.take_along_axis(np.broadcast_to(leaf, shape), chosen, 0), self.components
            )
            return picked.draws(rng, 1)[0]
        of_components = np.stack([component.draws(rng, num_draws) for component in self.components])
        return np.take_along_axis(of_components, chosen[None], 0)[0]
