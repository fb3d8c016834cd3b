"""What families of columns with means linear in features are to programs and statistics, whatever their prior."""

import abc
import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesgen.distributions import LINEAR_NORMAL, LinearNormal
from bayesgen.records import record, static
from bayesgen.statistics import Cells, DensityGivenFeatures, Summary, filled, log_rising
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int

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
        self, parameters: Mapping[str, Array], labels: Int[Array, "*n"], features: Array | None = None
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

    @property
    def row_shapes(self) -> Mapping[int, str]:
        """Features, and then the column."""
        return {2: "(n, F + 1), features and then y"}

    def _summary_of_rows(self, rows: Cells, weights: Array | None) -> Summary:
        inert = {"features": rows[:, :-1]}
        codes = np.zeros(len(rows), np.int64)
        return self.statistic.summarize(rows[:, -1], codes, 1, weights, inert=inert).of_class(0)

    @abc.abstractmethod
    def predictive_parameters(
        self, features: Float[Array, "n F"]
    ) -> tuple[Float[ArrayOrNumber, " *batch"], Float[Array, " n *batch"], Float[Array, " n *batch"]]:
        """Degrees of freedom, locations and scales of the predictive Student t of the columns at features."""

    def row_predictive(self) -> "LinearStudentTRows":
        """Student-t columns, given the features of the rows."""
        return LinearStudentTRows(self)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """intercept, variance: (class, feature), coefficients: (class, feature, regressor).

        Of one column alone that has no class, coefficients: (feature).
        """
        axes = () if self.batch_shape == () else ("class", "feature")
        of_all = {"coefficients": (*axes, "regressor" if axes else "feature"), "variance": axes}
        return {"intercept": axes, **of_all} if self.intercept else of_all


@record
class LinearStudentTRows(DensityGivenFeatures):
    """Densities of rows of columns about lines, the parameters integrated out."""

    family: LinearFamily
    source: str = static(default="")

    def log_prob_given(
        self, features: Float[Array, "n F"], values: Float[Array, "n ..."], observed: Bool[Array, "n ..."] | None
    ) -> Float[Array, "n K"]:
        """Log density of each row under each class, given its features."""
        df, loc, scale = (np.asarray(array) for array in self.family.predictive_parameters(np.asarray(features)))
        cells = np.asarray(values if observed is None else filled(values, observed))[:, None]
        constant = log_rising(0.5 * df, 0.5) - 0.5 * np.log(df * math.pi) - np.log(scale)
        logs = constant - 0.5 * (df + 1) * np.log1p(((cells - loc) / scale) ** 2 / df)
        logs = logs if observed is None else np.where(np.asarray(observed)[:, None], logs, 0.0)
        return logs.reshape(*logs.shape[:2], -1).sum(-1)
