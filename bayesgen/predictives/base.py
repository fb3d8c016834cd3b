"""`PredictiveDistribution`: distributions of one number, one for each row, and their CRPS."""

import abc
from collections.abc import Callable, Sequence

import numpy as np
from numpyro.distributions.constraints import nonnegative_integer
from numpyro.distributions.transforms import IdentityTransform

from bayesgen.records import by_content
from bayesgen.runtime import ROUNDING
from bayesgen.typing import ArrayOrNumber, Float, Int

from .quadrature import integrate
from .supports import Line, Support, WholeNumbers


class PredictiveDistribution(abc.ABC):
    """n distributions of a number. Arguments have the rows last, (..., n)."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """n."""

    @property
    def spacing(self) -> float:
        """The distance of neighbouring values: 1 for whole numbers, 0 for real ones."""
        return 0.0

    @property
    @abc.abstractmethod
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        """Means; NaN where they do not exist."""

    @property
    @abc.abstractmethod
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """Standard deviations; infinite where they do not exist."""

    @abc.abstractmethod
    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Log densities of values, which are log probabilities where values are whole numbers."""

    @abc.abstractmethod
    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """P(X <= value)."""

    @abc.abstractmethod
    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        """Quantiles at a probability in (0, 1)."""

    @abc.abstractmethod
    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        """Independent draws from each distribution."""

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """P(X > value)."""
        return 1 - self.cdf(values)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"] | None:
        """E|X − value|; None where it is not known."""
        return None

    def half_distance(self) -> Float[np.ndarray, "*draws n"] | None:
        """E|X − X'| / 2 of two independent draws; None where it is not known."""
        return None

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score of a value for each row: ∫ (F(u) − 1[u ≥ value])² du.

        For whole numbers it is the sum over them (Epstein 1969; Czado, Gneiting & Held 2009, eq. 3).

        A proper score in the units of y, lower is better; for point forecasts it is the absolute error. It is
        E|X − value| − E|X − X'| / 2 where both are known (Gneiting & Raftery 2007, eq. 20 and 21).
        """
        distance = self.mean_distance(values)
        half = None if distance is None else self.half_distance()
        return crps_by_quadrature(self, np.asarray(values, np.float64)) if half is None else distance - half


DISTANCES = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 14.0, 24.0, 40.0])  # in u; sinh(40) scales are 1e17


def crps_by_quadrature(predictive: PredictiveDistribution, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """CRPS to a relative error of about 1e-8: ∫ F(y − t)² + (1 − F(y + t))² dt over distances t.

    For whole numbers it is the sum of F(y − 1 − t)² + (1 − F(y + t))². Rows without a centre or a width give NaN.
    """
    _, scale = centre_and_scale(predictive)
    has_scale, gap = np.isfinite(scale), predictive.spacing
    scale = np.where(has_scale & (gap == 0), scale, 1.0)
    support: Support = WholeNumbers.of(nonnegative_integer, len(y)) if gap else Line(IdentityTransform(), 0.0, 1.0)
    y = np.ceil(y) if gap else y

    def squares(distances: Float[np.ndarray, "values n"]) -> Float[np.ndarray, "values n"]:
        shares = predictive.cdf(y - gap - scale * distances), predictive.survival(y + scale * distances)
        # tails without end would add up the rounding of probabilities
        below, above = (np.where(has_scale & (share > ROUNDING), share, 0.0) for share in shares)
        return below**2 + above**2

    def log_squares(rows: Int[np.ndarray, " m"], distances: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        with np.errstate(divide="ignore"):
            return np.log(at_places(squares, rows, distances, len(y)))

    _, integrals = integrate(log_squares, len(y), support, None if gap else DISTANCES)
    return np.where(has_scale, scale * np.exp(integrals.logs), np.nan)


def at_places(
    function: Callable[[Float[np.ndarray, "values n"]], Float[np.ndarray, "values n"]],
    rows: Int[np.ndarray, " m"],
    values: Float[np.ndarray, " m"],
    num_rows: int,
) -> Float[np.ndarray, " m"]:
    """function(values) at pairs (row, value), for a function that takes a table with as many values of each row.

    Rows may come several times or not at all: the table is filled up with 0.
    """
    order = np.argsort(rows, kind="stable")
    rank = np.empty(len(rows), int)
    rank[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    table = np.zeros((rank.max(initial=-1) + 1, num_rows))
    table[rank, rows] = values
    return function(table)[rank, rows]


def centre_and_scale(predictive: PredictiveDistribution) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Rough centre and width of each distribution."""
    mean, std = np.asarray(predictive.mean), np.asarray(predictive.std)
    is_known = np.isfinite(mean) & np.isfinite(std) & (std > 0)
    if is_known.all():
        return mean, std
    with np.errstate(invalid="ignore"):  # impossible rows have no quantiles
        low, median, high = (predictive.quantile(probability) for probability in (0.25, 0.5, 0.75))
        return np.where(is_known, mean, median), np.where(is_known, std, high - low)


@by_content
class Deferred:
    """Distributions too large to keep, which are made again for each call.

    Attributes:
        make: makes the distributions.
        mean, std: their means and standard deviations.
        spacing: the distance of neighbouring values.
    """

    make: Callable[[], PredictiveDistribution]
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    spacing: float


class CombinedPredictive(PredictiveDistribution):
    """Distributions put together from parts, each of which answers for itself."""

    parts: Sequence[PredictiveDistribution | Deferred | None]

    @abc.abstractmethod
    def _values_by_part(self, values: Float[np.ndarray, "..."]) -> Sequence[Float[np.ndarray, "..."]]:
        """The values that each part is asked for."""

    @abc.abstractmethod
    def _combined(self, answers: Sequence[Float[np.ndarray, "..."] | None]) -> Float[np.ndarray, "..."]:
        """One array from the answers of the parts; None for a part that is None."""

    def _ask(
        self,
        question: Callable[[PredictiveDistribution, Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
        values: Float[ArrayOrNumber, "..."] | float = 0.0,
    ) -> Float[np.ndarray, "..."]:
        predictives = (part.make() if isinstance(part, Deferred) else part for part in self.parts)
        pairs = zip(predictives, self._values_by_part(np.asarray(values, np.float64)), strict=True)
        return self._combined(
            [None if part is None else np.asarray(question(part, part_values)) for part, part_values in pairs]
        )

    @property
    def num_rows(self) -> int:
        return self.mean.shape[-1]

    @property
    def spacing(self) -> float:
        return next(part.spacing for part in self.parts if part is not None)

    @property
    def mean(self) -> Float[np.ndarray, "*fits n"]:
        return self._combined([None if part is None else part.mean for part in self.parts])

    @property
    def std(self) -> Float[np.ndarray, "*fits n"]:
        return self._combined([None if part is None else part.std for part in self.parts])

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._ask(lambda part, values: part.log_density(values), values)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._ask(lambda part, values: part.cdf(values), values)

    def quantile(self, probability: float) -> Float[np.ndarray, "*fits n"]:
        return self._ask(lambda part, values: part.quantile(probability))

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*fits n"]:
        return self._ask(lambda part, values: part.crps(values), values)

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        return self._ask(lambda part, values: part.draws(rng, num_draws))


@by_content
class ConsecutivePredictive(CombinedPredictive):
    """Distributions of successive rows, from parts of some rows each, in order."""

    parts: tuple[PredictiveDistribution | Deferred, ...]

    def _values_by_part(self, values: Float[np.ndarray, "..."]) -> Sequence[Float[np.ndarray, "..."]]:
        lengths = [len(part.mean) for part in self.parts]
        by_row = np.broadcast_to(values, np.broadcast_shapes(values.shape, (sum(lengths),)))
        return np.split(by_row, np.cumsum(lengths)[:-1], axis=-1)

    def _combined(self, answers: Sequence[Float[np.ndarray, "..."] | None]) -> Float[np.ndarray, "..."]:
        return np.concatenate([np.asarray(answer) for answer in answers], -1)


@by_content
class StackedPredictive(CombinedPredictive):
    """Distributions of the same rows by several fits, which become the axis before that of the rows.

    Attributes:
        parts: distributions by each fit; None, and NaN in answers, where there is none.
    """

    parts: tuple[PredictiveDistribution | None, ...]

    def _values_by_part(self, values: Float[np.ndarray, "..."]) -> Sequence[Float[np.ndarray, "..."]]:
        return [values] * len(self.parts)

    def _combined(self, answers: Sequence[Float[np.ndarray, "..."] | None]) -> Float[np.ndarray, "..."]:
        shape = next(answer.shape for answer in answers if answer is not None)
        return np.stack([np.full(shape, np.nan) if answer is None else answer for answer in answers], axis=-2)


def deferred(make: Callable[[], PredictiveDistribution], predictive: PredictiveDistribution) -> ConsecutivePredictive:
    """`predictive`, not kept in memory, but made anew by `make` for each call."""
    mean, std = np.asarray(predictive.mean), np.asarray(predictive.std)
    return ConsecutivePredictive((Deferred(make, mean, std, predictive.spacing),))


def joined_predictives(parts: Sequence[PredictiveDistribution]) -> PredictiveDistribution:
    """The distributions of all rows, from those of successive rows."""
    return parts[0] if len(parts) == 1 else ConsecutivePredictive(tuple(parts))
