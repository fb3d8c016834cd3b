"""Normal-inverse-gamma: real columns, each with its own variance or sharing one."""

from collections.abc import Mapping
from typing import Self

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import gammaln

from bayesgen.errors import FitError
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import (
    LOG_2PI,
    Moments,
    NormalLikelihood,
    RowDensity,
    flatten_rows,
    holds_anywhere,
    log_rising,
    namespace,
)
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Family, Key, ParameterTables
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Pooling,
    Scale,
    Stated,
    as_number,
    broadcast,
    check_counted,
    check_pooling,
    check_positive,
    default_common_variance,
    default_variances,
    num_columns_of,
)
from .rows import SphericalStudentTDensity, StudentTDensity
from .special import quotient, sample_gamma


@record
class NormalInverseGamma(Family):
    """Real columns with a normal-inverse-gamma prior on mean and variance.

    Generative story::

        variance ~ InverseGamma(shape, scale)
        mean     ~ Normal(mean, variance / kappa)
        x        ~ Normal(mean, variance)

    Args:
        mean: prior mean m; None resolves to the training column's mean. Kept as the field `location`.
        kappa: weight of the prior mean, in rows, > 0.
        shape: shape a of the inverse gamma, > 0.
        scale: its scale b, > 0; None resolves to v/2, v the training column's variance (denominator N); v = 1 for a
            column that does not vary, because it is constant or none of its cells is observed.
        tied: one variance for all classes.
        spherical: one variance for all columns of the block. b defaults to half the mean of v over the columns that
            vary; to 1/2 where none does.

    Source: Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 6.

    >>> posterior = NormalInverseGamma(mean=0, kappa=1, shape=2, scale=1).update([1.0, 2.0, 3.0])
    >>> float(posterior.mean()["mean"]), float(posterior.mean()["variance"])
    (1.5, 1.4)
    """

    location: Hyperparameter
    kappa: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter
    pooling: Pooling = static()
    kind = "real"
    scaled = True

    def __init__(
        self,
        mean: Stated = None,
        kappa: Stated = 0.01,
        shape: Stated = 1.5,
        scale: Stated = None,
        *,
        tied: bool = False,
        spherical: bool = False,
    ) -> None:
        check_positive("NormalInverseGamma", kappa=kappa, shape=shape, scale=scale)
        fill(self, location=as_number(mean), kappa=as_number(kappa), shape=as_number(shape), scale=as_number(scale))
        fill(self, pooling=Pooling(tied, spherical))

    likelihood = NormalLikelihood()

    @property
    def joint(self) -> bool:  # type: ignore[override]
        """A variance that columns share makes them one block."""
        return self.pooling.spherical

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D); missing hyperparameters come from the columns' means and variances."""
        check_pooling("NormalInverseGamma", self.pooling, scale)
        location = scale.mean if self.location is None else self.location
        rate = self.scale
        if rate is None:
            default = default_common_variance if self.pooling.spherical else default_variances
            rate = 0.5 * default(scale.variance)
        batch = scale.batch_shape
        shared = self.pooling.shape(batch)
        return self.replace(
            **broadcast("NormalInverseGamma", batch, location=location, kappa=self.kappa),
            **broadcast("NormalInverseGamma", shared, shape=self.shape, scale=rate),
            batch_shape=batch,
        )

    def _implied_scale(self) -> Scale:
        per_column = ("location", "kappa") if self.pooling.spherical else tuple(self.hyperparameters)
        values = {name: getattr(self, name) for name in per_column}
        return Scale(num_columns=num_columns_of("NormalInverseGamma", **values))

    def scale_of(self, summary: Moments) -> Scale:
        variance = summary.scatter / np.maximum(summary.cell_counts, 1e-300)
        columns = np.shape(variance)
        return Scale(num_columns=columns[0] if columns else None, mean=summary.mean, variance=variance)

    def _growth(self, summary: Moments) -> tuple[Float[ArrayOrNumber, "..."], Float[ArrayOrNumber, "..."]]:
        """What data add to shape and scale."""
        count, shift = summary.cell_counts, summary.mean - self.location
        squares = summary.scatter + self.kappa * (count / (self.kappa + count)) * shift**2
        count = namespace(count).broadcast_to(count, shift.shape)
        return 0.5 * self.pooling.pool(count), 0.5 * self.pooling.pool(squares)

    def _updated(self, summary: Moments) -> Self:
        count = summary.cell_counts
        kappa = self.kappa + count
        shift = summary.mean - self.location
        shape, scale = self._growth(summary)
        return self.replace(
            location=self.location + count / kappa * shift,
            kappa=namespace(kappa).broadcast_to(kappa, shift.shape),
            shape=self.shape + shape,
            scale=self.scale + scale,
            batch_shape=shift.shape,
        )

    def _log_evidence(self, summary: Moments) -> Float[ArrayOrNumber, "..."]:
        after, (shape, scale) = self._updated(summary), self._growth(summary)
        xp = namespace(after.kappa, scale)
        cells = self.pooling.pool(0.5 * xp.log(self.kappa / after.kappa) - 0.5 * LOG_2PI * summary.cell_counts)
        scales = self.shape * xp.log1p(scale / self.scale) + shape * xp.log(after.scale)
        return cells + log_rising(self.shape, shape) - scales

    def mean(self) -> ParameterTables:
        """Prior mean; scale / (shape - 1)."""
        family = self.closed("mean")
        return {"mean": family.location, "variance": family.pooling.squeeze(quotient(family.scale, family.shape - 1))}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode of means and variances: scale / (shape + 1 + c/2), c means sharing each variance."""
        family = self.closed("mode")
        members = family.pooling.members(family.batch_shape)
        variance = family.scale / (family.shape + 1 + 0.5 * members)
        return {"mean": family.location, "variance": family.pooling.squeeze(variance)}

    def variance(self) -> ParameterTables:
        """Variance of the mean (that of a Student t) and of the variance."""
        family = self.closed("variance")
        expected = quotient(family.scale, family.shape - 1)
        spread = quotient(expected**2, family.shape - 2)
        return {"mean": expected / family.kappa, "variance": family.pooling.squeeze(spread)}

    def maximum_likelihood(self, summary: Moments, names: Names = ANONYMOUS) -> ParameterTables:
        """Means, and variances with denominator N."""
        self._check_axes(summary)
        count = namespace(summary.count).broadcast_to(summary.cell_counts, summary.mean.shape)
        check_counted(names, count == 0)
        variance = self.pooling.pool(summary.scatter) / self.pooling.pool(count)
        zero = namespace(variance).broadcast_to(variance <= 0, summary.mean.shape)
        if holds_anywhere(zero):
            raise FitError(
                f"Block {names.block!r}: the variance is zero at {names.where(zero)} (a constant column), so the "
                f"likelihood is unbounded. Use {names.with_prior}, whose prior keeps it positive, or drop the "
                "column."
            )
        return {"mean": summary.mean, "variance": self.pooling.squeeze(variance)}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family = self.closed("sample")
        rng = generator(key)
        variance = 1.0 / sample_gamma(rng, family.shape, family.scale, shape)
        deviation = np.sqrt(variance / family.kappa)
        mean = family.location + deviation * rng.standard_normal((*shape, *family.batch_shape))
        return {"mean": mean, "variance": family.pooling.squeeze(variance)}

    def predictive(self) -> dist.Distribution:
        """Student t for each column; a multivariate one where columns share a variance."""
        family = self.closed("predictive")
        xp = namespace(family.scale, family.kappa)
        spread = xp.sqrt(family.scale / family.shape * (family.kappa + 1) / family.kappa)
        if not family.pooling.spherical:
            return dist.StudentT(2 * family.shape, family.location, spread).expand(np.shape(spread))
        return dist.MultivariateStudentT(
            2 * family.shape[..., 0], family.location, spread[..., None] * xp.eye(spread.shape[-1])
        )

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_variance` and `{name}_mean`, (K, D)."""
        shared = self.pooling.shape(self.batch_shape)
        squeezed = tuple(np.delete(shared, self.pooling.axes))
        shape, scale = (jnp.broadcast_to(value, shared).reshape(squeezed) for value in (self.shape, self.scale))
        prior = dist.InverseGamma(shape, scale).to_event(len(squeezed))
        variance = numpyro.sample(f"{name}_variance", prior)
        deviation = jnp.sqrt(self.pooling.expand(variance) / self.kappa)
        location = dist.Normal(self.location, deviation).expand(self.batch_shape).to_event(len(self.batch_shape))
        return {"mean": numpyro.sample(f"{name}_mean", location), "variance": variance}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        variance = jnp.broadcast_to(self.pooling.expand(parameters["variance"]), parameters["mean"].shape)
        return dist.Normal(parameters["mean"][labels], jnp.sqrt(variance)[labels]).to_event(1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        loc = parameters["mean"]
        xp = namespace(loc, parameters["variance"])
        scale = xp.broadcast_to(xp.sqrt(self.pooling.expand(parameters["variance"])), loc.shape)
        return {"loc": loc, "scale": scale}

    def _log_prior(self, parameters: Mapping[str, Array]) -> float:
        family, mean, variance = (
            self.closed("log_prior"),
            parameters["mean"],
            self.pooling.expand(parameters["variance"]),
        )
        constant = family.shape * np.log(family.scale) - gammaln(family.shape)
        of_variance = constant - (family.shape + 1) * np.log(variance) - family.scale / variance
        precision = family.kappa / variance
        of_mean = 0.5 * (np.log(precision) - LOG_2PI - precision * (mean - family.location) ** 2)
        return float(np.sum(of_variance) + np.sum(of_mean))

    def row_predictive(self) -> RowDensity:
        """Student-t columns, jointly where they share a variance."""
        xp = namespace(self.shape, self.scale)
        shape = xp.broadcast_to(self.shape, np.broadcast_shapes(self.location.shape, self.shape.shape))
        spread = xp.sqrt(self.scale / self.shape * (self.kappa + 1) / self.kappa)
        rows = SphericalStudentTDensity if self.pooling.spherical else StudentTDensity
        return rows(flatten_rows(2 * shape), flatten_rows(self.location), flatten_rows(spread))

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """mean: (class, feature); variance: the same, without the shared axes. None of one column alone."""
        if self.batch_shape == ():
            return {"mean": (), "variance": ()}
        axes = ("class",) * (not self.pooling.tied) + ("feature",) * (not self.pooling.spherical)
        return {"mean": ("class", "feature"), "variance": axes}
