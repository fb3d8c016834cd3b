"""Predictive distributions of many rows: concatenated from parts, or made on demand."""

from collections.abc import Callable, Sequence

import numpy as np

from bayesgen.records import by_content
from bayesgen.typing import ArrayOrNumber, Float

from .base import PredictiveDistribution


@by_content
class JoinedPredictive(PredictiveDistribution):
    """Distributions of successive rows, concatenated.

    Attributes:
        parts: distributions of some rows each, in order.
    """

    parts: tuple[PredictiveDistribution, ...]

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self.parts)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        return np.concatenate([part.mean for part in self.parts], -1)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        return np.concatenate([part.std for part in self.parts], -1)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._of_parts(values, lambda part, of_part: part.log_density(of_part))

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self._of_parts(values, lambda part, of_part: part.cdf(of_part))

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        return np.concatenate([part.quantile(probability) for part in self.parts], -1)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"]:
        return self._of_parts(values, lambda part, of_part: part.crps(of_part))

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        return np.concatenate([part.draws(rng, num_draws) for part in self.parts], -1)

    def _of_parts(
        self,
        values: Float[ArrayOrNumber, "..."],
        ask: Callable[[PredictiveDistribution, Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
    ) -> Float[np.ndarray, "..."]:
        values = np.asarray(values, np.float64)
        whole = np.broadcast_to(values, np.broadcast_shapes(values.shape, (self.num_rows,)))
        ends = np.cumsum([part.num_rows for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(whole, ends, axis=-1), strict=True)
        return np.concatenate([ask(part, of_part) for part, of_part in pairs], -1)


def joined_predictives(parts: Sequence[PredictiveDistribution]) -> PredictiveDistribution:
    """The distributions of all rows, from those of successive rows."""
    return parts[0] if len(parts) == 1 else JoinedPredictive(tuple(parts))


@by_content
class DeferredPredictive(PredictiveDistribution):
    """Distributions too large to keep, which are made again for each call.

    Attributes:
        make: makes the distributions.
        means, stds: their means and standard deviations.
    """

    make: Callable[[], PredictiveDistribution]
    means: Float[np.ndarray, " n"]
    stds: Float[np.ndarray, " n"]

    @property
    def num_rows(self) -> int:
        return len(self.means)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        return self.means

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        return self.stds

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self.make().log_density(values)

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        return self.make().cdf(values)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        return self.make().quantile(probability)

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, " n"]:
        return self.make().crps(values)

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        return self.make().draws(rng, num_draws)
