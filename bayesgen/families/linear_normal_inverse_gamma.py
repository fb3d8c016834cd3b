"""Linear normal-inverse-gamma: columns with means that are linear in features (lines, curves, surfaces)."""

import math
from collections.abc import Mapping
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.util import cholesky_of_inverse

from bayesgen.errors import ModelError, check_flag
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import (
    LINEAR_NORMAL,
    DensityGivenFeatures,
    LinearNormal,
    Moments,
    any_known,
    column_moments,
    filled,
    log_rising,
    namespace,
    validation_of,
)
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int, Real

from .base import Key, ParameterTables
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Pooling,
    Scale,
    Stated,
    Traits,
    as_number,
    broadcast,
    check_positive,
    default_variances,
    num_columns_of,
)
from .least_squares import (
    BayesianLeastSquares,
    InterceptPrior,
    as_matrix,
    check_features,
    check_intercept,
    check_precision,
    least_squares,
    row_counts,
)
from .normal_inverse_gamma import Growth, NoisyFamily
from .special import log_normal, shrinkage, slogdet_growth


@record
class LinearStudentTDensity(DensityGivenFeatures):
    """Student-t columns given features: the parameters of the lines are integrated out."""

    family: "LinearNormalInverseGamma"
    source: str = static(default="")

    def log_prob_given(
        self, features: Float[Array, "n F"], values: Float[Array, "n ..."], observed: Bool[Array, "n ..."] | None
    ) -> Float[Array, "n K"]:
        df, loc, scale = self.family.predictive_parameters(features)
        xp = namespace(values, loc, scale)
        cells = xp.asarray(values if observed is None else filled(values, observed))[:, None]
        constant = log_rising(0.5 * df, 0.5) - 0.5 * xp.log(df * math.pi) - xp.log(scale)
        logs = constant - 0.5 * (df + 1) * xp.log1p(((cells - loc) / scale) ** 2 / df)
        logs = logs if observed is None else xp.where(xp.asarray(observed)[:, None], logs, 0.0)
        return logs.reshape(*logs.shape[:2], -1).sum(-1)


@record
class LinearNormalInverseGamma(NoisyFamily):
    """Columns with normal noise about a linear function of features, and a conjugate prior on all parameters.

    Generative story of a row with the features f, where c is a point amid the features of all rows::

        variance     ~ InverseGamma(shape, scale)
        coefficients ~ Normal(coefficients, variance * inverse(precision))
        value at c   ~ Normal(mean, variance / kappa), or flat (density 1 in the units of the column) where kappa is 0
        intercept    = value at c - c @ coefficients
        x            ~ Normal(intercept + f @ coefficients, variance)

    Args:
        coefficients: prior means of the coefficients: 0, or one number for each feature.
        precision: prior precision of the coefficients, in units of the noise variance, > 0: a number, one for each
            feature, or a matrix. A prior that weighs as much as n rows has the scatter of their features as precision.
            None resolves to 0.01 diag(v), the weight of a hundredth of a row, where v are the variances of the training
            features.
        mean: prior mean m of the value at c; None resolves to the training column's mean. Kept as `location`.
        kappa: weight of that value, in rows, >= 0; 0 is a flat intercept.
        shape: shape a of the inverse gamma, > 0.
        scale: its scale b, > 0; None resolves to v/2, v the training column's variance (denominator N).
        center: the point c amid the features; None resolves to the means of the training features.
        intercept: whether the means have an intercept; without one, they are 0 where all features are 0.

    A noise variance s that is known is shape=1e12, scale=1e12 * s.

    Used alone, the family takes rows (n, F + 1): the features, then the column. The evidence exists for kappa=0, too,
    because the flat prior has the density 1.

    Source: Bishop, Pattern Recognition and Machine Learning, exercises 3.12 to 3.14 and 3.23; the prior of the value at
    c is the prior of the mean in Murphy (2007), section 6.

    >>> rows = [[0.0, 1.1], [1.0, 2.9], [2.0, 5.2], [3.0, 6.8]]
    >>> posterior = LinearNormalInverseGamma().update(rows)
    >>> posterior.mean()["coefficients"].round(3).tolist(), float(posterior.mean()["intercept"].round(3))
    ([1.935], 1.097)
    """

    coefficients: Hyperparameter
    precision: Hyperparameter
    location: Hyperparameter
    kappa: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter
    center: Hyperparameter
    intercept: bool = static()
    pooling = Pooling()
    traits = Traits(scaled=True, features=True, covariate="features")
    likelihood = LINEAR_NORMAL

    def __init__(
        self,
        coefficients: Stated = 0.0,
        precision: Stated = None,
        mean: Stated = None,
        kappa: Stated = 0.0,
        shape: Stated = 1.5,
        scale: Stated = None,
        center: Stated = None,
        *,
        intercept: bool = True,
    ) -> None:
        name = type(self).__name__
        check_flag(f"{name}: intercept", intercept)
        check_positive(name, shape=shape, scale=scale)
        check_precision(name, precision)
        check_intercept(name, mean, kappa, center, intercept)
        if not intercept:
            mean = center = 0.0
        fill(self, coefficients=as_number(coefficients), precision=as_number(precision), location=as_number(mean))
        fill(self, kappa=as_number(kappa), shape=as_number(shape), scale=as_number(scale), center=as_number(center))
        fill(self, intercept=bool(intercept))

    @property
    def defaults(self) -> Mapping[str, str]:
        return {
            "location": "mean of the response",
            "scale": "half its variance",
            "precision": "0.01 times variances of the features",
            "center": "means of the features",
        }

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D) and the features; missing hyperparameters come from means and variances of both."""
        batch, num_features = scale.batch_shape, scale.num_features
        stated = {"coefficients": self.coefficients, "precision": self.precision, "center": self.center}
        name = type(self).__name__
        check_features(name, num_features, stated)
        precision = 0.01 * default_variances(scale.feature_variance) if self.precision is None else self.precision
        if not isinstance(precision, dist.Distribution):
            precision = np.asarray(as_matrix(precision, num_features))
        location = scale.mean if self.location is None else self.location
        center = scale.feature_mean if self.center is None else self.center
        rate = 0.5 * default_variances(scale.variance) if self.scale is None else self.scale
        return self.replace(
            **broadcast(name, (*batch, num_features), coefficients=self.coefficients, center=center),
            **broadcast(name, (*batch, num_features, num_features), precision=precision),
            **broadcast(name, batch, location=location, kappa=self.kappa, shape=self.shape, scale=rate),
            batch_shape=batch,
        )

    def _implied_scale(self) -> Scale:
        per_column = {name: getattr(self, name) for name in ("location", "kappa", "shape", "scale")}
        shapes = [np.shape(value) for value in (self.coefficients, self.center, self.precision)]
        num_features = max((shape[-1] for shape in shapes if shape), default=1)
        return Scale(num_columns=num_columns_of(type(self).__name__, **per_column), feature_mean=np.zeros(num_features))

    def scale_of(self, summary: Moments) -> Scale:
        mean, variance = column_moments(summary)
        return Scale(
            num_columns=len(mean) if mean.ndim > 1 else None,
            mean=mean[..., -1],
            variance=variance[..., -1],
            feature_mean=mean[..., :-1],
            feature_variance=variance[..., :-1],
        )

    # --- closed forms -------------------------------------------------------------------------------------------

    def _growth(self, summary: Moments) -> Growth:
        kappa, count = self.kappa if self.intercept else None, row_counts(summary) * float(self.intercept)
        regression = BayesianLeastSquares.of(
            summary, self.coefficients, self.precision, self.location, self.center, kappa
        )
        shift = shrinkage(self.kappa, count)[..., None] * (summary.mean[..., :-1] - self.center)
        posterior = {"coefficients": regression.coefficients, "precision": regression.precision}
        posterior["center"] = self.center + shift
        growth = regression.freedom, regression.squares, regression.growth
        return Growth(count, summary.mean[..., -1], *growth, posterior)

    def _log_det(self, growth: Growth) -> Float[ArrayOrNumber, "..."]:
        assert growth.coefficients is not None
        return slogdet_growth(self.precision, growth.coefficients)

    @property
    def is_proper(self) -> bool:
        return not (self.intercept and bool((np.asarray(self.kappa) == 0).any()))

    def _proper(self, verb: str) -> Self:
        """The family as a table of numbers; a flat intercept has no moments, draws and predictive."""
        family = self.closed(verb)
        if family.intercept and any_known(family.kappa == 0):
            raise ModelError(
                f"{type(self).__name__}: {verb} does not exist, because the intercept is flat (kappa=0) before any "
                "data. Update with data first, or give kappa a positive number."
            )
        return family

    def _with_intercept(
        self, location: Float[ArrayOrNumber, "..."], coefficients: Float[ArrayOrNumber, "..."], **parameters: Any
    ) -> ParameterTables:
        """Parameters by name; the intercept, if there is one, is computed from the value at the center."""
        named = {"coefficients": coefficients, **parameters}
        if self.intercept:
            named = {"intercept": location - (self.center * coefficients).sum(-1), **named}
        return {name: namespace(value).asarray(value) for name, value in named.items()}

    def _at_location(self, variance: Float[ArrayOrNumber, "..."]) -> ParameterTables:
        return self._with_intercept(self.location, self.coefficients, variance=variance)

    @property
    def _num_normals(self) -> int:
        return self.coefficients.shape[-1] + self.intercept

    def covariance(self) -> Float[Array, "*batch F F"]:
        """Covariance of the coefficients, which are jointly Student-t."""
        family = self.closed("covariance")
        return family._noise.mean()[..., None, None] * np.linalg.inv(family.precision)

    def variance(self) -> ParameterTables:
        """Variance of each parameter, elementwise."""
        family = self._proper("variance")
        noise, covariance = family._noise, family.covariance()
        diagonal = np.diagonal(covariance, axis1=-2, axis2=-1)
        variances: ParameterTables = {"coefficients": diagonal, "variance": noise.variance()}
        if not family.intercept:
            return variances
        center_variance = np.einsum("...i,...ij,...j->...", family.center, covariance, family.center)
        return {"intercept": noise.mean() / family.kappa + center_variance, **variances}

    def maximum_likelihood(self, summary: Moments, names: Names = ANONYMOUS) -> ParameterTables:
        """Least squares, and the mean of its squared residuals."""
        return least_squares(summary, self.intercept, names)

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family, rng = self._proper("sample"), generator(key)
        located = family if family.intercept else family.replace(kappa=np.ones(family.batch_shape))
        variance, location = located._sampled(rng, shape)
        normal = rng.standard_normal((*shape, *family.coefficients.shape))
        factor = np.swapaxes(np.linalg.cholesky(family.precision), -1, -2)
        spread = np.linalg.solve(factor, normal[..., None])[..., 0]
        coefficients = family.coefficients + np.sqrt(variance)[..., None] * spread
        return family._with_intercept(location, coefficients, variance=variance)

    def predictive(self, features: Real[Array, "n F"]) -> dist.Distribution:  # type: ignore[override]
        """Student t of the columns at features."""
        return dist.StudentT(*self.predictive_parameters(np.asarray(features, np.float64)))

    def predictive_parameters(
        self, features: Real[Array, "n F"]
    ) -> tuple[Float[ArrayOrNumber, " *batch"], Float[Array, " n *batch"], Float[Array, " n *batch"]]:
        """Degrees of freedom, locations and scales of the Student t of the columns at features."""
        family = self._proper("predictive")
        xp = namespace(features, family.precision)
        shift = xp.swapaxes(features - family.center[..., None, :], -1, -2)  # columns in long vectors
        whitened = xp.linalg.inv(xp.linalg.cholesky(family.precision)) @ shift
        location = xp.moveaxis((family.coefficients[..., None, :] @ shift)[..., 0, :], -1, 0) + family.location
        growth = 1.0 + xp.moveaxis(xp.einsum("...fn,...fn->...n", whitened, whitened), -1, 0)
        growth = growth + 1.0 / family.kappa if family.intercept else growth
        return 2 * family.shape, location, family._spread(growth)

    # --- what models and fits need ------------------------------------------------------------------------------

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_variance`, `{name}_coefficients` and, given these, `{name}_intercept`."""
        batch, size = self.batch_shape, len(self.batch_shape)
        prior = dist.InverseGamma(self.shape, self.scale).expand(batch).to_event(size)
        variance = numpyro.sample(f"{name}_variance", prior)
        num_features = self.center.shape[-1]
        factor = cholesky_of_inverse(as_matrix(jnp.asarray(self.precision), num_features))
        factor = jnp.sqrt(variance)[..., None, None] * factor
        normal = dist.MultivariateNormal(self.coefficients, scale_tril=factor, validate_args=validation_of(factor))
        coefficients = numpyro.sample(f"{name}_coefficients", normal.expand(batch).to_event(size))
        parameters = {"coefficients": coefficients, "variance": variance}
        if not self.intercept:
            return parameters
        at_zero = self.location - (self.center * coefficients).sum(-1)
        intercept = InterceptPrior(at_zero, variance, self.kappa).expand(batch).to_event(size)
        return {"intercept": numpyro.sample(f"{name}_intercept", intercept), **parameters}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        family, variance = self.closed("log_prior"), np.asarray(parameters["variance"])
        shift = parameters["coefficients"] - family.coefficients
        coefficient_terms = log_normal(shift, variance[..., None, None] * np.linalg.inv(family.precision))
        if not family.intercept:
            return float(np.sum(family._noise.log_prob(variance)) + np.sum(coefficient_terms))
        value = parameters["intercept"] + (family.center * parameters["coefficients"]).sum(-1)
        return family._log_density(value, variance) + float(np.sum(coefficient_terms))

    def site_distribution(
        self, parameters: Mapping[str, Array], labels: Int[Array, "*n"], features: Array | None = None
    ) -> dist.Distribution:
        """Normal columns about lines in the features (n, F), or (n,) of a single one: a covariate of the program."""
        assert features is not None
        coefficients, variance = parameters["coefficients"][labels], parameters["variance"][labels]
        intercept = parameters["intercept"][labels] if self.intercept else 0.0
        num_columns = coefficients.ndim - 2
        features = features[:, None] if features.ndim == 1 else features
        shape = (features.shape[0], *(1,) * num_columns, coefficients.shape[-1])
        features = jnp.broadcast_to(features.reshape(*shape[:-1], -1), shape)
        return LinearNormal(features, coefficients, intercept, jnp.sqrt(variance)).to_event(num_columns)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Coefficients, intercept and scale of each column."""
        xp = namespace(parameters["variance"])
        scale = xp.sqrt(parameters["variance"])
        intercept = parameters["intercept"] if self.intercept else xp.zeros_like(scale)
        return {"coefficients": parameters["coefficients"], "intercept": intercept, "scale": scale}

    def row_predictive(self) -> "LinearStudentTDensity":
        return LinearStudentTDensity(self)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """intercept, variance: (class, feature), coefficients: (class, feature, regressor).

        Of one column alone that has no class, coefficients: (feature).
        """
        axes = () if self.batch_shape == () else ("class", "feature")
        parameters = {"coefficients": (*axes, "regressor" if axes else "feature"), "variance": axes}
        return {"intercept": axes, **parameters} if self.intercept else parameters
