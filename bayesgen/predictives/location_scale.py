"""Normal and Student-t distributions of a number, one a row."""

import abc

import numpy as np
import scipy.special

from bayesgen.records import record
from bayesgen.statistics import LOG_2PI, log_rising
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution, normal_crps, normal_distance, student_t_crps, student_t_distance


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
        return -0.5 * (((values - self.loc) / self.scale) ** 2 + LOG_2PI) - np.log(self.scale)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        return scipy.special.ndtr((values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        return self.loc + self.scale * scipy.special.ndtri(probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        return normal_distance(np.asarray(values, np.float64), self.loc, self.scale)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score in closed form (Gneiting & Raftery 2007, eq. 21)."""
        return normal_crps(np.asarray(values, np.float64), self.loc, self.scale)

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
        excess = np.maximum(self.df - 2, 0.0)
        with np.errstate(divide="ignore"):
            return self.scale * np.sqrt(self.df / excess)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        half = 0.5 * self.df
        constant = log_rising(half, 0.5) - 0.5 * np.log(np.pi * self.df) - np.log(self.scale)
        return constant - (half + 0.5) * np.log1p(((values - self.loc) / self.scale) ** 2 / self.df)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        return scipy.special.stdtr(self.df, (values - self.loc) / self.scale)

    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        return self.loc + self.scale * scipy.special.stdtrit(self.df, probability)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        return student_t_distance(np.asarray(values, np.float64), self.df, self.loc, self.scale)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score in closed form (Jordan, Krüger & Lerch 2019, appendix A)."""
        return student_t_crps(np.asarray(values, np.float64), self.df, self.loc, self.scale)

    def standard_draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        return rng.standard_t(self.df, shape)
