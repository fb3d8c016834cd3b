"""Normal and Student-t distributions of a number, one a row, and mixtures of predictive distributions."""

import abc
import functools
import math
from collections.abc import Callable

import jax
import numpy as np
from scipy import special

from bayesgen.records import record
from bayesgen.runtime import positions
from bayesgen.statistics import LOG_2PI, log_rising
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution, centre_and_scale
from .supports import find_roots


class LocationScale(PredictiveDistribution):
    """A location-scale family, symmetric about 0. Parameters may have a leading axis of draws."""

    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def num_rows(self) -> int:
        return int(self.loc.shape[-1])

    @abc.abstractmethod
    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """Draws with location 0 and scale 1; the shape ends in that of the parameters."""

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """P(X > value), precise for small probabilities, by symmetry."""
        return self.cdf(2 * self.loc - values)

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        return self.loc + self.scale * self.standard_draws(rng, (num_draws, *self.loc.shape))


@record
class NormalPredictive(LocationScale):
    """Normal distributions.

    >>> predictive = NormalPredictive(np.array([0.0, 3.0]), np.array([1.0, 2.0]))
    >>> predictive.quantile(0.975).round(2).tolist()
    [1.96, 6.92]
    >>> predictive.crps(np.array([1.0, 3.0])).round(4).tolist()
    [0.6024, 0.4674]
    """

    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        return self.loc.copy()

    @property
    def std(self) -> Float[np.ndarray, "*draws n"]:
        return np.broadcast_to(self.scale, self.loc.shape)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        return -0.5 * (((np.asarray(values) - self.loc) / self.scale) ** 2 + LOG_2PI) - np.log(self.scale)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        return special.ndtr((values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        return self.loc + self.scale * special.ndtri(probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """σ [z (2Φ(z) − 1) + 2φ(z)]."""
        z = (values - self.loc) / self.scale
        return self.scale * (z * (2 * special.ndtr(z) - 1) + np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2))

    def half_distance(self) -> Float[np.ndarray, "*draws n"]:
        """σ / √π."""
        return self.std / np.sqrt(np.pi)

    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        return rng.standard_normal(shape)


@record
class StudentTPredictive(LocationScale):
    """Student-t distributions. The mean exists above 1 degree of freedom, the standard deviation above 2."""

    df: Float[np.ndarray, "*draws n"]
    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def _shared_df(self) -> Float[np.ndarray, "*draws #n"]:
        """The degrees of freedom: one number where all rows share it in memory."""
        return self.df if any(self.df.strides) else self.df[..., :1]

    @property
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        return self.loc.copy() if (self._shared_df > 1).all() else np.where(self.df > 1, self.loc, np.nan)

    @property
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """scale sqrt(df / (df - 2))."""
        with np.errstate(divide="ignore"):
            return self.scale * np.sqrt(self._shared_df / np.maximum(self._shared_df - 2, 0.0))

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        half = 0.5 * self.df
        constant = log_rising(half, 0.5) - 0.5 * np.log(np.pi * self.df) - np.log(self.scale)
        return constant - (half + 0.5) * np.log1p(((values - self.loc) / self.scale) ** 2 / self.df)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        return special.stdtr(self.df, (values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        return self.loc + self.scale * special.stdtrit(self.df, probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """Infinite where ν is 1 or less."""
        with np.errstate(divide="ignore"):
            distance = _standard_distance((np.asarray(values) - self.loc) / self.scale, self.df)
        return np.where(self.df > 1, self.scale * distance, np.inf)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """s [z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1) − 2√ν/(ν − 1) B(1/2, ν − 1/2) / B(1/2, ν/2)²].

        The source states it for ν > 1; both sides are analytic in ν, so that it holds down to ν = 1/2, and at ν = 1 in
        the limit. It is infinite below.

        Source: Jordan, Krüger & Lerch (2019), Evaluating probabilistic forecasts with scoringRules, appendix A.
        """
        z, df = np.broadcast_arrays((values - self.loc) / self.scale, self.df)
        margin = 1e-5  # distance from one degree of freedom within which the terms of the closed form cancel
        near_one = np.abs(df - 1) < margin
        below, above = (_standard_crps(z, np.full_like(df, 1 + side * margin)) for side in (-1, 1))
        between = below + (above - below) * (df - (1 - margin)) / (2 * margin)
        elsewhere = _standard_crps(z, np.where((df > 0.5) & ~near_one, df, 2.0))
        return self.scale * np.where(df > 0.5, np.where(near_one, between, elsewhere), np.inf)

    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        return rng.standard_t(self.df, shape)


def _standard_distance(z: Float[np.ndarray, "#*n"], df: Float[np.ndarray, "#*n"]) -> Float[np.ndarray, "..."]:
    """E|X − z| = z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1)."""
    density = np.exp(-special.betaln(df / 2, 0.5) - (df + 1) / 2 * np.log1p(z**2 / df)) / np.sqrt(df)
    return z * (2 * special.stdtr(df, z) - 1) + 2 * density * (df + z**2) / (df - 1)


def _standard_crps(z: Float[np.ndarray, "#*n"], df: Float[np.ndarray, "#*n"]) -> Float[np.ndarray, "..."]:
    log_ratio = special.betaln(0.5, df - 0.5) - 2 * special.betaln(0.5, df / 2)
    return _standard_distance(z, df) - 2 * np.sqrt(df) / (df - 1) * np.exp(log_ratio)


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

    def _by_component(
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
        return self._by_component(lambda predictive: predictive.mean)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Weighted means of the components' means; components of weight 0 do not count."""
        return self._weighted(self.means)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """From the variances within components and between them."""
        means, stds = self.means, self._by_component(lambda predictive: predictive.std)
        return np.sqrt(self._weighted(stds**2 + (means - self._weighted(means)) ** 2))

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        def mean(logs: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " n"]:
            return special.logsumexp(self.log_weights + logs, axis=0)

        return self._at(values, lambda predictive, row_values: predictive.log_density(row_values), mean)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._at(values, lambda predictive, row_values: predictive.cdf(row_values), self._weighted)

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._at(values, lambda predictive, row_values: predictive.survival(row_values), self._weighted)

    def _at(
        self,
        values: Float[ArrayOrNumber, "..."],
        ask: Callable[[PredictiveDistribution, Float[np.ndarray, " n"]], Float[np.ndarray, "..."]],
        mean: Callable[[Float[np.ndarray, "S n"]], Float[np.ndarray, " n"]],
    ) -> Float[np.ndarray, "..."]:
        """The mean over components of a function of values, one value a row at a time."""
        shape = np.broadcast_shapes(np.shape(values), (self.num_rows,))
        table = np.broadcast_to(values, shape).reshape(math.prod(shape[:-1]), self.num_rows)

        def at(row_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return mean(self._by_component(lambda predictive: ask(predictive, row_values)))

        return np.array([at(row_values) for row_values in table.astype(np.float64)]).reshape(shape)

    def _weighted(self, values: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " n"]:
        """Weighted sums; terms of weight 0 are 0, even if their value is infinite or NaN."""
        return np.where(self.weights > 0, self.weights * values, 0.0).sum(0)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """Roots between the least and the greatest of the components' quantiles."""
        ends = self._by_component(lambda predictive: predictive.quantile(probability))
        counts = self.log_weights > -np.inf
        low, high = np.where(counts, ends, np.inf).min(0), np.where(counts, ends, -np.inf).max(0)
        return find_roots(lambda x: self.cdf(x) - probability, lambda x: np.exp(self.log_density(x)), low, high)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"] | None:
        """The weighted mean of those of the components; None where one is not known, or the variance is infinite."""
        components = (self.components,) if isinstance(self.components, PredictiveDistribution) else self.components
        distances = [component.mean_distance(values) for component in components]
        available = [distance for distance in distances if distance is not None]
        has_mean = len(available) == len(distances) and np.isfinite(self.std).all()
        return self._weighted(np.vstack(available)) if has_mean else None

    def half_distance(self) -> Float[np.ndarray, " n"] | None:
        """∫ F(u) (1 − F(u)) du to a relative error of about 1e-8; None where a thousand steps do not suffice.

        By the trapezoid rule over w with u = centre + scale sinh(w), which converges geometrically where F is smooth:
        the step is halved until the integral converges. Panels take two to six times as many evaluations of all
        components. Rows whose centre or scale is not finite give NaN.
        """
        centre, scale = centre_and_scale(self)
        is_finite, half_width = np.isfinite(centre) & np.isfinite(scale), 3.0
        while half_width < 40.0:  # sinh(40) scales from the centre is 1e17
            distance = np.sinh(half_width)
            beyond = np.maximum(self.cdf(centre - scale * distance), self.survival(centre + scale * distance))
            tails = np.max(beyond, initial=0.0, where=~np.isnan(beyond)) * distance
            if tails <= 1e-11:  # of the integral, in scales
                break
            half_width *= 1.25

        def integrand(w: float) -> Float[np.ndarray, " n"]:
            beyond = (self.cdf if w < 0 else self.survival)(centre + scale * np.sinh(w))
            return np.where(is_finite, beyond * (1 - beyond) * np.cosh(w), 0.0)

        num_steps, total = 16, sum(integrand(w) for w in np.linspace(-half_width, half_width, 17)) / 16
        while num_steps < 1024:
            between = np.linspace(-half_width, half_width, 2 * num_steps + 1)[1::2]
            coarser, total = total, (total + sum(integrand(w) for w in between) / num_steps) / 2
            num_steps *= 2
            if (np.abs(total - coarser) <= 1e-5 * total).all():  # halving the step squares the error
                return np.where(is_finite, total * 2 * half_width * scale, np.nan)
        return None

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        chosen = positions(rng, self.weights.T, num_draws)
        if isinstance(self.components, PredictiveDistribution):
            shape = self.log_weights.shape
            picked = jax.tree.map(
                lambda leaf: np.take_along_axis(np.broadcast_to(leaf, shape), chosen, 0), self.components
            )
            return picked.draws(rng, 1)[0]
        draws = np.stack([component.draws(rng, num_draws) for component in self.components])
        return np.take_along_axis(draws, chosen[None], 0)[0]
