"""Fixed class probabilities: a class prior with nothing to learn."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayesgen.data import CATEGORICAL
from bayesgen.errors import ModelError
from bayesgen.records import fill, record
from bayesgen.statistics import CategoricalLikelihood, RowDensity, Sums, safe_product
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Family, Key, ParameterTables
from .hyperparameters import ANONYMOUS, Names, Scale


@record
class FixedCategorical(Family):
    """Codes 0..r-1 with known probabilities. Every closed form is trivial; updating changes nothing.

    Args:
        probs: (r,) probabilities, nonnegative, summing to 1.
    """

    probs: Float[Array, " r"]
    kind = CATEGORICAL

    def __init__(self, probs: ArrayLike | Sequence[float]) -> None:
        values = np.asarray(probs, np.float64)
        if values.ndim != 1 or (values < 0).any() or not np.isclose(values.sum(), 1.0, rtol=0, atol=1e-9):
            raise ModelError(f"Fixed probabilities must be nonnegative and sum to 1, got {values.tolist()!r}.")
        fill(self, probs=values, batch_shape=values.shape)

    def resolve(self, scale: Scale) -> Self:
        """Check the length."""
        if scale.num_categories not in (None, len(self.probs)):
            raise ModelError(
                f"There are {len(self.probs)} fixed class probabilities, but {scale.num_categories} classes."
            )
        return self

    @property
    def num_values(self) -> int:
        return len(self.probs)

    @property
    def likelihood(self) -> CategoricalLikelihood:
        return CategoricalLikelihood(len(self.probs))

    def _updated(self, summary: Sums) -> Self:
        return self

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        counts = summary.totals[0]
        with np.errstate(divide="ignore"):
            logs = np.log(self.probs)
        return safe_product(counts, logs).sum(-1)

    def mean(self) -> ParameterTables:
        return {"probs": self.probs}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        return self.mean()

    def variance(self) -> ParameterTables:
        return {"probs": np.zeros_like(self.probs)}

    def quantile(self, prob: float) -> ParameterTables:
        return self.mean()

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        return self.mean()

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        return {"probs": np.broadcast_to(self.probs, (*shape, len(self.probs)))}

    def predictive(self) -> dist.Distribution:
        return dist.Categorical(probs=self.probs)

    def sample_sites(self, name: str) -> ParameterTables:
        return {"probs": self.probs}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Categorical(probs=parameters["probs"][labels])

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        with np.errstate(divide="ignore"):
            return {"log_probs": np.log(parameters["probs"])}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        return 0.0

    def row_predictive(self) -> RowDensity:
        return self.row_density(self.mean())

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("category",)}
