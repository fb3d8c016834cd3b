"""What families of columns with means linear in features are to programs and statistics, whatever their prior."""

import abc
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesgen.distributions import LINEAR_NORMAL, LinearNormal
from bayesgen.errors import ModelError
from bayesgen.records import record, static
from bayesgen.statistics import Moments, RowDensity
from bayesgen.typing import Array, Int

from .base import Family, Parameters


@record
class LinearFamily(Family, abc.ABC):
    """Columns with normal noise about means that are linear in features, which are a covariate.

    Attributes:
        intercept: whether there is one; without, the mean where all features are 0 is 0.
    """

    intercept: bool = static(default=True, init=False)
    kind = "real"
    covariate = "features"
    statistic = LINEAR_NORMAL

    def likelihood(
        self, parameters: Mapping[str, Array], labels: Int[Array, " n"], features: Array | None = None
    ) -> dist.Distribution:
        """Normal columns about their lines; features (n, F) are a covariate of the program, (n,) stand for all."""
        assert features is not None
        coefficients, variance = parameters["coefficients"][labels], parameters["variance"][labels]
        intercept = parameters["intercept"][labels] if self.intercept else 0.0
        num_columns = coefficients.ndim - 2
        features = features[:, None] if features.ndim == 1 else features
        shape = (features.shape[0], *(1,) * num_columns, coefficients.shape[-1])
        features = jnp.broadcast_to(features.reshape(*shape[:-1], -1), shape)
        return LinearNormal(features, coefficients, intercept, jnp.sqrt(variance)).to_event(num_columns)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> Parameters:
        """Coefficients, intercept and scale of each column."""
        scale = np.sqrt(parameters["variance"])
        intercept = parameters["intercept"] if self.intercept else np.zeros_like(scale)
        return {"coefficients": parameters["coefficients"], "intercept": intercept, "scale": scale}

    def summarize(self, values: Any, weights: Array | None = None) -> Moments:
        """Summarise rows (n, F + 1), the features and then the column."""
        rows = np.asarray(values, np.float64)
        if rows.ndim != 2 or not rows.shape[1]:
            raise ModelError(f"{type(self).__name__} takes rows (n, F + 1), features and then y; got {rows.shape}.")
        inert = {"features": rows[:, :-1]}
        codes = np.zeros(len(rows), np.int64)
        return self.statistic.summarize(rows[:, -1], codes, 1, weights, inert=inert).of_class(0)

    def row_predictive(self) -> RowDensity:
        """None without features: see `predictive_parameters`."""
        raise NotImplementedError("Rows have no predictive density without their features.")

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """intercept, variance: (class, feature), coefficients: (class, feature, regressor).

        Of one column alone that has no class, coefficients: (feature).
        """
        axes = () if self.batch_shape == () else ("class", "feature")
        of_all = {"coefficients": (*axes, "regressor" if axes else "feature"), "variance": axes}
        return {"intercept": axes, **of_all} if self.intercept else of_all
