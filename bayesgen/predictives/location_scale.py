"""Normal and Student-t distributions of a number, one a row."""

import abc

import numpy as np
from scipy import special

from bayesgen.records import record
from bayesgen.statistics import LOG_2PI, log_rising
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution


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
        return self.loc

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
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        return np.where(self.df > 1, self.loc, np.nan)

    @property
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """scale sqrt(df / (df - 2))."""
        with np.errstate(divide="ignore"):
            return self.scale * np.sqrt(self.df / np.maximum(self.df - 2, 0.0))

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
