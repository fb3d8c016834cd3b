"""Normal distributions whose mean is linear in features of the row: lines, curves and surfaces with noise."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr, ndtri
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample

from bayesgen.records import record, static
from bayesgen.runtime import chunks, compiled
from bayesgen.typing import Array, Bool, Float, Int, PRNGKeyArray, Real

from .arrays import LOG_2PI, filled, flatten_rows, namespace, precise
from .base import CellSums, DensityGivenFeatures, Likelihood, Parameters, register
from .moments import class_moments
from .summaries import Moments, Sample

BLOCK_COLUMNS = 32  # with the same features, whose cross products are computed together


class LinearNormal(dist.Distribution):
    """Normal distribution whose mean is linear in features: y ~ Normal(intercept + features @ coefficients, scale).

    In a program this is a straight line with Gaussian noise, or a curve or surface if the features are powers, splines
    or indicators. Features are covariates of the program, or other attributes, and do not depend on latents. Means and
    cross products of the rows are then sufficient statistics, and bayesgen reads the rows once.

    Args:
        features: an array with the features on the last axis.
        coefficients: of the features, likewise.
        intercept: the mean where all features are 0.
        scale: standard deviation of the noise, > 0.

    >>> import bayesgen as bg, numpyro, numpyro.distributions as dist
    >>> def line(n, *, x):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 10))
    ...     with numpyro.plate("rows", n):
    ...         numpyro.sample("y", bg.LinearNormal(x[:, None], slope[None], 0.0, 0.5))
    >>> program = bg.GenerativeProgram(line, label=None)
    >>> fit = bg.fit(program, {"x": [0.0, 1.0, 2.0], "y": [0.1, 1.9, 4.1]}, method=bg.MLE())
    >>> fit.parameters["slope"].round(3).item()
    2.02
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "features": constraints.real_vector,
        "coefficients": constraints.real_vector,
        "intercept": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    reparametrized_params: ClassVar[list[str]] = ["features", "coefficients", "intercept", "scale"]

    def __init__(
        self,
        features: Real[Array, "*#batch F"],
        coefficients: Real[Array, "*#batch F"],
        intercept: Real[Array, "*#batch"] | float = 0.0,
        scale: Real[Array, "*#batch"] | float = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        shapes = np.shape(features), np.shape(coefficients)
        if not all(shapes) or shapes[0][-1] != shapes[1][-1]:
            raise ValueError(f"features and coefficients need a last axis of one length, got the shapes {shapes}.")
        self.features, self.coefficients = precise(features), precise(coefficients)
        self.intercept, self.scale = precise(intercept), precise(scale)
        batch_shape = jnp.broadcast_shapes(*(shape[:-1] for shape in shapes), jnp.shape(intercept), jnp.shape(scale))
        super().__init__(batch_shape=batch_shape, event_shape=(), validate_args=validate_args)

    @property
    def loc(self) -> Float[Array, "*#batch"]:
        """Mean of each row."""
        return self.intercept + (self.features * self.coefficients).sum(-1)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return jnp.broadcast_to(self.scale**2, self.batch_shape)

    @functools.partial(compiled, static_argnames="sample_shape")
    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        assert key is not None
        return self.loc + self.scale * jax.random.normal(key, (*sample_shape, *self.batch_shape))

    @validate_sample
    @compiled
    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        return -0.5 * ((value - self.loc) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * LOG_2PI

    def cdf(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, q: Real[Array, "..."]) -> Float[Array, "..."]:
        return self.loc + self.scale * ndtri(q)


@dataclasses.dataclass(frozen=True)
class LinearNormalLikelihood(Likelihood):
    """Columns with normal noise about means that are linear in features of the row.

    Parameters: `coefficients` (K, *extra, F), `intercept` and `scale` (K, *extra); row parameters: `features`,
    (n, *extra, F), or (n, F) where all columns have the same. The summary is that of (features, y) together, y last:
    `Moments` whose mean is (K, *extra, F + 1), for each column over the rows in which it is observed.
    """

    has_row_parameters = True
    takes_squares = True
    cell_sums = CellSums.PRODUCTS  # of the features, and of a column at the end

    def summary_of(self, sample: Sample) -> Moments:
        """Centred moments and cross products of features and column. See `Likelihood.summarize`."""
        assert sample.row_parameters is not None
        parts = list(_block_moments(sample.row_parameters["features"], sample))
        xp = namespace(*(part.mean for part in parts))
        mean, scatter = (
            xp.concatenate(arrays, 1) for arrays in zip(*((p.mean, p.scatter) for p in parts), strict=True)
        )
        count = parts[0].count
        if sample.observed is not None:
            counts = [xp.broadcast_to(part.count[:, None], part.mean.shape[:2]) for part in parts]
            count = xp.concatenate(counts, 1).reshape(sample.shape)
        num_features = mean.shape[-1]
        return Moments(
            count,
            mean.reshape(*sample.shape, num_features),
            scatter.reshape(*sample.shape, num_features, num_features),
            xp.zeros(sample.shape),
        )

    def log_likelihood(self, parameters: Parameters, summary: Moments) -> Float[Array, "..."]:  # type: ignore[override]
        """-n log(scale) - n/2 log(2 pi) - (scatter of the residuals + n (their mean)^2) / (2 scale^2)."""
        coefficients, intercept, scale = (parameters[name] for name in ("coefficients", "intercept", "scale"))
        xp = namespace(coefficients, intercept, scale, summary.mean)
        count = summary.count.reshape(summary.count.shape + (1,) * (scale.ndim - summary.count.ndim))
        contrast = xp.concatenate([-coefficients, xp.ones((*coefficients.shape[:-1], 1))], -1)
        residual = (contrast * summary.mean).sum(-1) - intercept
        squares = xp.einsum("...i,...ij,...j->...", contrast, summary.scatter, contrast) + count * residual**2
        return xp.asarray(summary.log_base - count * (xp.log(scale) + 0.5 * LOG_2PI) - 0.5 * squares / scale**2)

    def density(self, parameters: Parameters) -> "LinearNormalDensity":
        return LinearNormalDensity(parameters["coefficients"], parameters["intercept"], parameters["scale"])


@record
class LinearNormalDensity(DensityGivenFeatures):
    """Densities of columns about lines in their features."""

    coefficients: Float[Array, "K *extra F"]
    intercept: Float[Array, " K *extra"]
    scale: Float[Array, " K *extra"]
    source: str = static(default="")

    def log_prob_given(
        self, features: Float[Array, "n F"], values: Float[Array, "n ..."], observed: Bool[Array, "n ..."] | None
    ) -> Float[Array, "n K"]:
        num_classes, num_features = self.coefficients.shape[0], self.coefficients.shape[-1]
        cells = flatten_rows(values if observed is None else filled(values, observed))[:, None]
        slopes = self.coefficients.reshape(num_classes, -1, num_features)
        intercept, scale = (array.reshape(num_classes, -1) for array in (self.intercept, self.scale))
        xp = namespace(features, cells, slopes)
        loc = xp.einsum("nf,kmf->nkm", features, slopes) + intercept
        logs = -0.5 * ((cells - loc) / scale) ** 2 - xp.log(scale) - 0.5 * LOG_2PI
        return (logs if observed is None else xp.where(flatten_rows(observed)[:, None], logs, 0.0)).sum(-1)


def _block_moments(features: Real[Array, "n ..."], sample: Sample) -> Iterator[Moments]:
    """Moments (K, columns, F + 1) of successive columns with their features."""
    cells, observed, weights = flatten_rows(sample.cells()), sample.mask, sample.weights
    num_features, xp = features.shape[-1], namespace(features, cells, observed)
    shared = features.ndim == 2
    features = features if shared else features.reshape(*cells.shape, num_features)
    most = max(BLOCK_COLUMNS, num_features) if shared and observed is None else 1  # with the same features and rows
    for columns in chunks(cells.shape[1], most):
        block_features, row_weights = features if shared else features[:, columns.start], weights
        if observed is not None:
            mask = observed[:, columns.start]
            row_weights = mask * (1.0 if weights is None else weights)
            block_features = xp.where(mask[:, None], block_features, 0)
        together = xp.concatenate([block_features, cells[:, columns]], 1)
        moments = class_moments(together, sample.classes, sample.num_classes, row_weights, matrix=True)
        matrix_rows = _matrix_rows(num_features, cells[:, columns].shape[1])
        scatter = moments.scatter[:, matrix_rows[:, :, None], matrix_rows[:, None, :]]
        yield Moments(moments.count, moments.mean[:, matrix_rows], scatter, moments.log_base)


def _matrix_rows(num_features: int, num_columns: int) -> Int[np.ndarray, "columns {num_features}+1"]:
    """The rows of a matrix of features and columns that belong to each column."""
    feature_rows = np.broadcast_to(np.arange(num_features), (num_columns, num_features))
    return np.concatenate([feature_rows, num_features + np.arange(num_columns)[:, None]], 1)


LINEAR_NORMAL = LinearNormalLikelihood()
register(
    LinearNormal,
    LINEAR_NORMAL,
    lambda line: {"coefficients": line.coefficients, "intercept": line.intercept, "scale": line.scale},
    row_parameters=lambda distribution: {"features": distribution.features},
    event_dims={"features": 1, "coefficients": 1},
)
