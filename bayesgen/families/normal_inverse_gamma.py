"""Normal-inverse-gamma: real columns, each with its own variance or sharing one."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Self

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.special
from numpyro.distributions.transforms import AffineTransform

from bayesgen.data import REAL, Real
from bayesgen.errors import FitError
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import (
    INVERSE_GAMMA,
    LOG_2PI,
    NORMAL,
    Moments,
    NormalLikelihood,
    RowDensity,
    any_known,
    flatten_rows,
    log_rising,
    namespace,
)
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Family, Key, ParameterTables, check_axes, default_family
from .coordinates import moved
from .forms import Form, Tables, register_form
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Pooling,
    Scale,
    Stated,
    TableShape,
    Traits,
    as_number,
    broadcast,
    check_counted,
    check_pooling,
    check_positive,
    default_common_variance,
    default_variances,
    num_columns_of,
)
from .special import InverseGamma, shrinkage
from .student_t import SphericalStudentTDensity, StudentTDensity


@dataclasses.dataclass(frozen=True)
class Growth:
    """The terms that rows add to a normal-inverse-gamma prior.

    Attributes:
        count: the weight of the rows that the location depends on.
        mean: that of these rows.
        freedom: degrees of freedom of the residuals.
        squares: sum of squared residuals, and of squared distances from the prior in its units.
        coefficients: what they add to the precision of coefficients; None without any.
        posterior: fields of the posterior besides location and variance.
    """

    count: Float[ArrayOrNumber, "*batch"]
    mean: Float[ArrayOrNumber, "*batch"]
    freedom: Float[ArrayOrNumber, "*batch"]
    squares: Float[ArrayOrNumber, "*batch"]
    coefficients: Float[Array, "*batch F F"] | None = None
    posterior: Mapping[str, Array] = dataclasses.field(default_factory=dict)


class NoisyFamily(Family, abc.ABC):
    """Columns with normal noise about a location, whose prior is normal given the inverse gamma variance of the noise.

    Variances may be shared. A location of weight 0 is flat, with density 1 in the units of the column.
    """

    location: Hyperparameter
    kappa: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter
    pooling: Pooling
    batch_shape: TableShape
    kind = REAL

    @property
    def _noise(self) -> InverseGamma:
        return InverseGamma(self.shape, self.scale)

    @abc.abstractmethod
    def _growth(self, summary: Moments) -> Growth: ...

    @property
    @abc.abstractmethod
    def _num_normals(self) -> int:
        """How many means and coefficients share each variance."""

    def _proper(self, verb: str) -> Self:
        """The family as a table of numbers, for verbs that a flat location refuses."""
        return self.closed(verb)

    @abc.abstractmethod
    def _at_location(self, variance: Float[ArrayOrNumber, "..."]) -> ParameterTables:
        """The parameters with this variance, the others being those of the prior."""

    def _grown(self, growth: Growth) -> Self:
        share = shrinkage(self.kappa, growth.count)
        return self.replace(
            **growth.posterior,
            location=self.location + share * (growth.mean - self.location),
            kappa=self.kappa + growth.count,
            shape=self.shape + 0.5 * self.pooling.pool(growth.freedom),
            scale=self.scale + 0.5 * self.pooling.pool(growth.squares),
            batch_shape=share.shape,
        )

    def posterior(self, summary: Moments) -> Self:
        return self._grown(self._growth(summary))

    def _log_det(self, growth: Growth) -> Float[ArrayOrNumber, "..."] | float:
        """Growth of the log determinant of the precision of coefficients."""
        return 0.0

    def _log_evidence(self, summary: Moments) -> Float[ArrayOrNumber, "..."]:
        growth = self._growth(summary)
        after, xp = self._grown(growth), namespace(growth.squares, growth.count)
        before, kappa = (xp.where(family.kappa > 0, family.kappa, 1.0) for family in (self, after))
        normals = 0.5 * (xp.log(before / kappa) - self._log_det(growth) - LOG_2PI * growth.freedom)
        half, squares = (0.5 * self.pooling.pool(table) for table in (growth.freedom, growth.squares))
        scales = self.shape * xp.log1p(squares / self.scale) + half * xp.log(after.scale)
        return self.pooling.pool(normals) + log_rising(self.shape, half) - scales

    def mean(self) -> ParameterTables:
        """Mean of each parameter; for the variance, scale / (shape - 1)."""
        family = self._proper("mean")
        return family._at_location(family.pooling.squeeze(family._noise.mean()))

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode; the variance is scale / (shape + 1 + c/2), where c means and coefficients share it."""
        family = self._proper("mode")
        return family._at_location(family.pooling.squeeze(family._noise.mode(family._num_normals)))

    def quantile(self, prob: float) -> ParameterTables:
        """Of Student-t locations and coefficients, by their standard deviations, and of inverse gamma variances."""
        family = self._proper("quantile")
        means, variances, noise = family.mean(), family.variance(), family._noise
        shape = np.asarray(noise.shape)
        with np.errstate(invalid="ignore"):  # NaN where a variance is infinite
            units = scipy.special.stdtrit(2 * shape, prob) * np.sqrt((shape - 1) / shape)
            quantiles = {
                name: means[name] + units.reshape(units.shape + (1,) * (np.ndim(value) - units.ndim)) * np.sqrt(value)
                for name, value in variances.items()
            }
        return quantiles | {"variance": family.pooling.squeeze(noise.quantile(prob))}

    def _sampled(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> tuple[Float[ArrayOrNumber, "..."], Float[ArrayOrNumber, "..."]]:
        """Draws of variance and location."""
        variance = self._noise.sample(rng, shape)
        deviation = np.sqrt(variance / self.kappa)
        return variance, self.location + deviation * rng.standard_normal((*shape, *self.batch_shape))

    def _log_density(self, location: Float[ArrayOrNumber, "..."], variance: Float[ArrayOrNumber, "..."]) -> float:
        """Log prior density of variance and location, whose flat prior has the density 1."""
        precision = np.where(self.kappa > 0, self.kappa, 1.0) / variance
        normal = 0.5 * (np.log(precision) - LOG_2PI - precision * (location - self.location) ** 2)
        return float(np.sum(self._noise.log_prob(variance)) + np.sum(np.where(self.kappa > 0, normal, 0.0)))

    def _spread(self, growth: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Scales of Student-t columns whose variance, given that of the noise, is `growth` times as large."""
        return namespace(self.scale, growth).sqrt(self.scale / self.shape * growth)


@record
class NormalInverseGamma(NoisyFamily):
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
    def traits(self) -> Traits:  # type: ignore[override]
        """A variance that columns share makes them one block."""
        return Traits(joint=self.pooling.spherical, scaled=True)

    @property
    def defaults(self) -> Mapping[str, str]:
        scale = "half their mean variance" if self.pooling.spherical else "half their variances"
        return {"location": "means of the columns", "scale": scale}

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

    def _growth(self, summary: Moments) -> Growth:
        count, shift = summary.cell_counts, summary.mean - self.location
        squares = summary.scatter + self.kappa * shrinkage(self.kappa, count) * shift**2
        count = namespace(count).broadcast_to(count, shift.shape)
        return Growth(count, summary.mean, count, squares)

    @property
    def _num_normals(self) -> int:
        return self.pooling.members(self.batch_shape)

    def _at_location(self, variance: Float[ArrayOrNumber, "..."]) -> ParameterTables:
        return {"mean": self.location, "variance": variance}

    def variance(self) -> ParameterTables:
        """Variance of the mean, which is Student t, and of the variance."""
        family = self.closed("variance")
        noise = family._noise
        return {"mean": noise.mean() / family.kappa, "variance": family.pooling.squeeze(noise.variance())}

    def maximum_likelihood(self, summary: Moments, names: Names = ANONYMOUS) -> ParameterTables:
        """Means, and variances with denominator N."""
        check_axes(self, summary)
        count = namespace(summary.count).broadcast_to(summary.cell_counts, summary.mean.shape)
        check_counted(names, count == 0)
        variance = self.pooling.pool(summary.scatter) / self.pooling.pool(count)
        zero = namespace(variance).broadcast_to(variance <= 0, summary.mean.shape)
        if any_known(zero):
            raise FitError(
                f"Block {names.block!r}: the variance is zero at {names.where(zero)} (a constant column), so the "
                f"likelihood is unbounded. Use {names.with_prior}, whose prior keeps it positive, or drop the "
                "column."
            )
        return {"mean": summary.mean, "variance": self.pooling.squeeze(variance)}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family = self.closed("sample")
        variance, mean = family._sampled(generator(key), shape)
        return {"mean": mean, "variance": family.pooling.squeeze(variance)}

    def predictive(self) -> dist.Distribution:
        """Student t for each column; a multivariate one where columns share a variance."""
        family = self.closed("predictive")
        spread = family._spread((family.kappa + 1) / family.kappa)
        if not family.pooling.spherical:
            return dist.StudentT(2 * family.shape, family.location, spread).expand(np.shape(spread))
        scales = spread[..., None] * namespace(spread).eye(spread.shape[-1])
        return dist.MultivariateStudentT(2 * family.shape[..., 0], family.location, scales)

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_variance` and `{name}_mean`, (K, D)."""
        shared = self.pooling.shape(self.batch_shape)
        squeezed = tuple(np.delete(shared, self.pooling.axes))
        shape, scale = (jnp.broadcast_to(value, shared).reshape(squeezed) for value in (self.shape, self.scale))
        prior = dist.InverseGamma(shape, scale).to_event(len(squeezed))
        variance = numpyro.sample(f"{name}_variance", prior)
        deviation = jnp.sqrt(self.pooling.expand(variance) / self.kappa)
        means = dist.Normal(self.location, deviation).expand(self.batch_shape)
        if self.reference_point is not None:
            means = moved(means, AffineTransform(self.reference_point, jnp.sqrt(self.pooling.expand(variance))))
        mean = numpyro.sample(f"{name}_mean", means.to_event(len(self.batch_shape)))
        return {"mean": mean, "variance": variance}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """Means in units of their deviations: nearly independent of the variances for any number of rows."""
        return self.replace(reference_point=parameters["mean"])

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        mean = parameters["mean"]
        variance = jnp.broadcast_to(self.pooling.expand(parameters["variance"]), mean.shape)
        return dist.Normal(mean[labels], jnp.sqrt(variance)[labels]).to_event(mean.ndim - 1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        loc = parameters["mean"]
        xp = namespace(loc, parameters["variance"])
        scale = xp.broadcast_to(xp.sqrt(self.pooling.expand(parameters["variance"])), loc.shape)
        return {"loc": loc, "scale": scale}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        variance = self.pooling.expand(parameters["variance"])
        return self.closed("log_prior")._log_density(parameters["mean"], variance)

    def row_predictive(self) -> RowDensity:
        """Student-t columns, jointly where they share a variance."""
        shape, spread = np.broadcast_shapes(self.location.shape, self.shape.shape), (self.kappa + 1) / self.kappa
        df = namespace(self.shape).broadcast_to(2 * self.shape, shape)
        rows = SphericalStudentTDensity if self.pooling.spherical else StudentTDensity
        return rows(flatten_rows(df), flatten_rows(self.location), flatten_rows(self._spread(spread)))

    def tilted(self, parameters: Mapping[str, np.ndarray], slopes: Float[np.ndarray, "K D"]) -> ParameterTables | None:
        return {"mean": parameters["mean"] + slopes * parameters["variance"]} if self.pooling.tied else None

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """mean: (class, feature); variance: the same, without the shared axes. None of one column alone."""
        if self.batch_shape == ():
            return {"mean": (), "variance": ()}
        axes = ("class",) * (not self.pooling.tied) + ("feature",) * (not self.pooling.spherical)
        return {"mean": ("class", "feature"), "variance": axes}


def _normal_inverse_gamma(arguments: Mapping[str, Tables], parameters: Tables, pooling: Pooling) -> NormalInverseGamma:
    """The weight of the mean is the variance in units of that of its prior."""
    mean, noise = arguments["mean"], arguments["variance"]
    kappa = np.asarray(parameters["variance"]) / np.asarray(mean["scale"]) ** 2
    for axis in pooling.axes:
        noise = {name: np.take(value, [0], axis) for name, value in noise.items()}
    shared = {"tied": pooling.tied, "spherical": pooling.spherical}
    family = NormalInverseGamma(mean["loc"], kappa, noise["concentration"], noise["rate"], **shared)
    return family.replace(batch_shape=kappa.shape)


register_form(
    Form(
        NormalInverseGamma,
        lambda likelihood: likelihood == NORMAL,
        {"mean": NORMAL, "variance": INVERSE_GAMMA},
        lambda p: {"mean": np.asarray(p["loc"]), "variance": np.asarray(p["scale"]) ** 2},
        _normal_inverse_gamma,
        pooled="variance",
    )
)
default_family.register(Real, lambda kind, is_sparse: NormalInverseGamma())
