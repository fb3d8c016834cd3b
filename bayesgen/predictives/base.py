"""What is known of a response: distributions of one number, one for each row."""

import abc

import numpy as np

from bayesgen.typing import ArrayOrNumber, Float

from .crps import crps_by_quadrature


class PredictiveDistribution(abc.ABC):
    """n distributions of numbers. Values that are asked about have the rows last, (..., n)."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """n."""

    @property
    @abc.abstractmethod
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        """Means; NaN where there is none."""

    @property
    @abc.abstractmethod
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """Standard deviations; infinite where there is none."""

    @abc.abstractmethod
    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Log densities of values."""

    @abc.abstractmethod
    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Probabilities of being at most so large."""

    @abc.abstractmethod
    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        """The value below which a number falls with this probability, in (0, 1)."""

    @abc.abstractmethod
    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        """Independent draws from each."""

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Probabilities of being larger."""
        return 1 - self.cdf(values)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"] | None:
        """E|X − value|; None where it has no closed form."""
        return None

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score of a value for each row, in its units: the smaller the better.

        By quadrature of the distribution function, unless there is a closed form: see `bayesgen.predictives.crps`.
        """
        return crps_by_quadrature(self.cdf, np.asarray(values, np.float64), *centre_and_scale(self))


def centre_and_scale(predictive: PredictiveDistribution) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """About the middle of each distribution, and its width."""
    mean, std = np.asarray(predictive.mean), np.asarray(predictive.std)
    is_known = np.isfinite(mean) & np.isfinite(std) & (std > 0)
    if is_known.all():
        return mean, std
    with np.errstate(invalid="ignore"):  # rows that are impossible have none
        low, middle, high = (predictive.quantile(probability) for probability in (0.25, 0.5, 0.75))
        return np.where(is_known, mean, middle), np.where(is_known, std, high - low)
