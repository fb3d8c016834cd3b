"""Normal and Student-t distributions of a number, one a row."""

import abc

import numpy as np
import scipy.special

from bayesgen.records import record
from bayesgen.statistics import log_rising
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution, normal_crps, normal_distance, student_t_crps, student_t_distance

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


class LocationScale(PredictiveDistribution):
    """Shifted and scaled forms of one distribution. With a leading axis of draws there are n for each draw."""

    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def num_rows(self) -> int:
        """The last axis."""
        return int(self.loc.shape[-1])

    @abc.abstractmethod
    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """Draws about 0 with scale 1; the shape ends in that of the parameters."""

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Probabilities of being larger, however small: the distributions are symmetric."""
        return self.cdf(2 * self.loc - values)

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        """Independent draws from each."""
        return self.loc + self.scale * self.standard_draws(rng, (num_draws, *self.loc.shape))


@record
class NormalPredictive(LocationScale):
    """Normal distributions.

    >>> predictive = NormalPredictive(np.array([0.0, 3.0]), np.array([1.0, 2.0]))
    >>> predictive.quantile(0.975).round(2).tolist()
    [1.96, 6.92]
    """

    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        """Locations."""
        return self.loc

    @property
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """Scales."""
        return np.broadcast_to(self.scale, self.loc.shape)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Log densities of values."""
        return -0.5 * ((values - self.loc) / self.scale) ** 2 - HALF_LOG_2PI - np.log(self.scale)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Probabilities of being at most so large."""
        return scipy.special.ndtr((values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        """Quantiles."""
        return self.loc + self.scale * scipy.special.ndtri(probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """E|X − value|."""
        return normal_distance(np.asarray(values, np.float64), self.loc, self.scale)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score in closed form (Gneiting & Raftery 2007, eq. 21)."""
        return normal_crps(np.asarray(values, np.float64), self.loc, self.scale)

    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """Standard normal ones."""
        return rng.standard_normal(shape)


@record
class StudentTPredictive(LocationScale):
    """Student-t distributions. There is no mean at 1 degree of freedom and below, no standard deviation at 2."""

    df: Float[np.ndarray, "*draws n"]
    loc: Float[np.ndarray, "*draws n"]
    scale: Float[np.ndarray, "*draws n"]

    @property
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        """Locations, where there is a mean."""
        return np.where(self.df > 1, self.loc, np.nan)

    @property
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """scale sqrt(df / (df - 2))."""
        excess = np.maximum(self.df - 2, 0.0)
        with np.errstate(divide="ignore"):
            return self.scale * np.sqrt(self.df / excess)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Log densities of values."""
        half = 0.5 * self.df
        constant = log_rising(half, 0.5) - 0.5 * np.log(np.pi * self.df) - np.log(self.scale)
        return constant - (half + 0.5) * np.log1p(((values - self.loc) / self.scale) ** 2 / self.df)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Probabilities of being at most so large."""
        return scipy.special.stdtr(self.df, (values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        """Quantiles."""
        return self.loc + self.scale * scipy.special.stdtrit(self.df, probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """E|X − value|; infinite where there is no mean."""
        return student_t_distance(np.asarray(values, np.float64), self.df, self.loc, self.scale)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score in closed form (Jordan, Krüger & Lerch 2019, appendix A)."""
        return student_t_crps(np.asarray(values, np.float64), self.df, self.loc, self.scale)

    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """Standard Student-t ones."""
        return rng.standard_t(self.df, shape)
