"""Low-rank normal: real columns that are linear in k hidden factors, with noise of one variance."""

import math
from collections.abc import Mapping
from typing import ClassVar, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform
from numpyro.distributions.util import promote_shapes, validate_sample

from bayesgen.data import REAL
from bayesgen.errors import ModelError, check_integer
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import (
    LOG_2PI,
    Moments,
    MultivariateNormalDensity,
    MultivariateNormalLikelihood,
    PatternMoments,
    RowDensity,
    Summary,
    namespace,
)
from bayesgen.typing import Array, ArrayOrNumber, Float, Int, PRNGKeyArray, Real

from .base import Key, LatentVariableFamily, ParameterTables
from .covariances import JointNormalFamily, check_noise
from .factors import (
    FactorDensity,
    ToBelow,
    ToDiagonal,
    ToNoise,
    below_diagonal,
    covariance_of,
    nearest_spectrum,
    pivoted_loadings,
    posterior_spectrum,
    spectrum_of,
    triangular,
)
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
    check_counted,
    check_positive,
    default_common_variance,
)
from .special import InverseGamma, log_normal, shrinkage

LEAST_THIN = 30  # columns from which thin products take less time than one of all columns: `surfaces` in benchmarks
ROUNDING = 1e-13  # of the entries of a covariance, as shares of the largest


class Chi(dist.Distribution):
    """A positive number whose square over scale^2 has a chi-squared distribution with df degrees of freedom.

    p(x) = 2 x^(df - 1) exp(-x^2 / (2 scale^2)) / (2^(df / 2) gamma(df / 2) scale^df).

    If a matrix of independent Normal(0, scale) entries has n columns and is made lower triangular, with a positive
    diagonal, by an orthogonal matrix from the right, the entries below the diagonal stay normal, and the j-th on it has
    n - j + 1 degrees of freedom (Bartlett 1933, On the theory of statistical regression).

    Args:
        df: degrees of freedom, > 0.
        scale: > 0.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive, "scale": constraints.positive}
    support = constraints.positive

    def __init__(
        self,
        df: Real[Array, "*#batch"] | float,
        scale: Real[Array, "*#batch"] | float = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.scale = promote_shapes(df, scale)
        batch_shape = jnp.broadcast_shapes(jnp.shape(df), jnp.shape(scale))
        super().__init__(batch_shape=batch_shape, event_shape=(), validate_args=validate_args)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        assert key is not None
        shape = (*sample_shape, *self.batch_shape)
        return self.scale * jnp.sqrt(2 * jax.random.gamma(key, 0.5 * jnp.asarray(self.df), shape))

    @validate_sample
    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        standard, half = value / self.scale, 0.5 * self.df
        constant = (half - 1) * jnp.log(2.0) + gammaln(half) + jnp.log(self.scale)
        return (self.df - 1) * jnp.log(standard) - 0.5 * standard**2 - constant


@record
class LowRankNormal(LatentVariableFamily, JointNormalFamily):
    """Real columns that are linear in a few hidden factors, with noise of the same variance in all of them.

    Generative story, for k factors::

        noise_variance ~ InverseGamma(shape, scale)
        loadings       ~ Normal(0, loadings_scale), every entry of a matrix (D, k)
        covariance     = loadings loadings' + noise_variance I
        mean           ~ Normal(mean, covariance / kappa)
        factors        ~ Normal(0, I), k of them for each row
        x              ~ Normal(mean + loadings factors, noise_variance I)

    so that x ~ Normal(mean, covariance): rows lie near a k-dimensional plane. All columns share one noise variance, so
    give columns in like units: nothing is scaled silently.

    Parameters are `mean`, `covariance` and `noise_variance`. Loadings are identified only up to a rotation of the
    factors, which changes neither the covariance nor its prior, so they are not a parameter. `ProbabilisticPCA` has the
    loadings with orthogonal columns.

    The posterior has no closed form, and `Exact` refuses by name. The maximum of the likelihood has a closed form, and
    so has the joint mode over mean, loadings and noise variance, which `MAP` gives; where cells or labels are missing
    both are found by EM. `NUTS` samples lower triangular loadings, which have as many entries as the covariance has
    degrees of freedom.

    Args:
        num_factors: k, at least 1 and less than the number of columns.
        mean: prior mean, (D,); None resolves to the training columns' means. Kept as the field `location`.
        kappa: weight of the prior mean, in rows, > 0.
        loadings_scale: standard deviation of the entries of loadings, > 0; None resolves to the root of the mean
            variance of the training columns that vary, so that one factor can explain all variance. Columns that are
            constant, or have no observed cells, are not in that mean, which is 1 where no column varies.
        shape: shape of the noise variance's prior, > 0; 1.5 weighs as much as three cells.
        scale: its scale, > 0; None resolves to a twentieth of that mean variance.

    Source: Tipping and Bishop (1999), Probabilistic principal component analysis, eq. 7 and 8 (maximum likelihood).

    >>> import bayesgen as bg
    >>> X = [[1.0, 2.1, 0.1], [2.0, 3.9, 0.0], [3.0, 6.2, -0.1], [4.0, 7.9, 0.1], [5.0, 10.1, 0.0]]
    >>> model = bg.GenerativeClassifier([("size", bg.LowRankNormal(1), ["x0", "x1", "x2"])])
    >>> fit = bg.fit(bg.Mixture(model, 1), X, method=bg.MLE())
    >>> fit.parameters["size_noise_variance"].round(4).tolist()
    [0.0041]
    """

    num_factors: int = static()
    location: Hyperparameter
    kappa: Hyperparameter
    loadings_scale: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter
    kind = REAL
    traits = Traits(joint=True, scaled=True)
    why_no_closed_form = "its posterior is no LowRankNormal. Use NUTS(), or MAP() for the mode."
    pooling = Pooling()
    likelihood = MultivariateNormalLikelihood()

    def __init__(
        self,
        num_factors: int = 1,
        mean: Stated = None,
        kappa: Stated = 0.01,
        loadings_scale: Stated = None,
        shape: Stated = 1.5,
        scale: Stated = None,
    ) -> None:
        remedy = "Noise alone, without factors, is NormalInverseGamma(spherical=True)."
        check_integer("LowRankNormal: num_factors", num_factors, 1, remedy=remedy)
        check_positive("LowRankNormal", kappa=kappa, loadings_scale=loadings_scale, shape=shape, scale=scale)
        fill(self, num_factors=int(num_factors), location=as_number(mean), kappa=as_number(kappa))
        fill(self, loadings_scale=as_number(loadings_scale), shape=as_number(shape), scale=as_number(scale))

    # --- the prior ----------------------------------------------------------------------------------------------

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D) and (K,); missing hyperparameters come from the columns."""
        batch = scale.batch_shape
        classes, dimension = batch[:-1], batch[-1]
        if dimension < 2:
            raise ModelError(
                "LowRankNormal: one column alone has no factors, which tell how columns vary together. Use "
                "NormalInverseGamma()."
            )
        if self.num_factors >= dimension:
            raise ModelError(
                f"LowRankNormal: {self.num_factors} factors for {dimension} columns leave none for noise. Give at most "
                f"num_factors={dimension - 1}, or use NormalInverseWishart(), whose covariance is any."
            )
        variance = math.nan if scale.variance is None else default_common_variance(scale.variance)[..., 0]
        defaults = {
            "loadings_scale": np.asarray(np.sqrt(variance)) if self.loadings_scale is None else self.loadings_scale,
            "scale": np.asarray(0.05 * variance) if self.scale is None else self.scale,
        }
        location = scale.mean if self.location is None else self.location
        return self.replace(
            **broadcast("LowRankNormal", batch, location=location),
            **broadcast("LowRankNormal", classes, kappa=self.kappa, shape=self.shape, **defaults),
            batch_shape=batch,
        )

    @property
    def defaults(self) -> Mapping[str, str]:
        return {
            "location": "means of the columns",
            "loadings_scale": "root of their mean variance",
            "scale": "0.05 times their mean variance",
        }

    def _implied_scale(self) -> Scale:
        if not np.ndim(self.location):
            raise ModelError("LowRankNormal: used alone it takes its number of columns from mean, an array (D,).")
        return Scale(num_columns=np.shape(self.location)[-1])

    def moment_estimates(self, summary: Moments | PatternMoments) -> ParameterTables:
        """The covariance of complete rows; variances alone, where cells are missing."""
        if isinstance(summary, PatternMoments):
            variances = np.asarray(summary.by_column().scatter)
            return {"covariance": variances[..., None] * np.eye(variances.shape[-1])}
        return {"covariance": summary.scatter}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The same prior, with loadings triangular in the principal axes of this covariance."""
        return self.replace(reference_point=spectrum_of(np.asarray(parameters["covariance"]))[1])

    # --- closed forms of the prior --------------------------------------------------------------------------------

    @property
    def _noise(self) -> InverseGamma:
        return InverseGamma(self.shape, self.scale)

    def _isotropic(self, noise: Float[ArrayOrNumber, "*K"], loadings: Float[ArrayOrNumber, "*K"]) -> ParameterTables:
        """Parameters with the covariance (noise + num_factors * loadings) I, for variances of noise and loadings."""
        total = noise + self.num_factors * loadings
        covariance = np.asarray(total)[..., None, None] * np.eye(self.batch_shape[-1])
        return {"mean": self.location, "covariance": covariance, "noise_variance": noise}

    def mean(self) -> ParameterTables:
        """Prior mean; the factors' mean variance, and the noise's, on the diagonal."""
        family = self.closed("mean")
        return family._isotropic(family._noise.mean(), family.loadings_scale**2)

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode of mean, loadings (all zero) and noise variance; the mean's scale counts."""
        family = self.closed("mode")
        noise = family._noise.mode(family.batch_shape[-1])
        return family._isotropic(noise, 0.0 * family.loadings_scale)

    def variance(self) -> ParameterTables:
        """Variance of the mean, of each entry of the covariance, and of the noise variance."""
        family = self.closed("variance")
        expected, fourth = family.mean(), family.loadings_scale[..., None, None] ** 4
        noise = family._noise.variance()
        diagonal = np.eye(family.batch_shape[-1], dtype=bool)
        noise_variance = np.where(diagonal, noise[..., None, None], 0.0)
        return {
            "mean": np.diagonal(expected["covariance"], axis1=-2, axis2=-1) / family.kappa[..., None],
            "covariance": family.num_factors * fourth * (1 + diagonal) + noise_variance,
            "noise_variance": noise,
        }

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family, rng = self.closed("sample"), generator(key)
        classes, dimension = family.batch_shape[:-1], family.batch_shape[-1]
        noise = family._noise.sample(rng, shape)
        normal = rng.standard_normal((*shape, *classes, dimension, family.num_factors))
        loadings = family.loadings_scale[..., None, None] * normal
        factors = rng.standard_normal((*shape, *classes, family.num_factors, 1))
        noises = np.sqrt(noise)[..., None] * rng.standard_normal((*shape, *classes, dimension))
        mean = family.location + ((loadings @ factors)[..., 0] + noises) / np.sqrt(family.kappa)[..., None]
        covariance = loadings @ np.swapaxes(loadings, -1, -2) + noise[..., None, None] * np.eye(dimension)
        return {"mean": mean, "covariance": covariance, "noise_variance": noise}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        """Of mean, loadings and noise variance; the trace of the covariance gives the loadings' squared length."""
        family, covariance, noise = self.closed("log_prior"), parameters["covariance"], parameters["noise_variance"]
        dimension, variance = family.batch_shape[-1], family.loadings_scale**2
        squares = np.trace(covariance, axis1=-2, axis2=-1) - dimension * noise
        loading_terms = -0.5 * (squares / variance + dimension * family.num_factors * (LOG_2PI + np.log(variance)))
        mean_terms = log_normal(parameters["mean"] - family.location, covariance / family.kappa[..., None, None])
        return float(np.sum(loading_terms + family._noise.log_prob(noise) + mean_terms))

    # --- the posterior ----------------------------------------------------------------------------------------------

    def maximum_likelihood(self, summary: Moments, names: Names = ANONYMOUS) -> ParameterTables:
        """Means, and the covariances nearest to those of the rows (denominator N)."""
        count = np.asarray(summary.count)
        check_counted(names, count == 0, remedy="MAP()")
        values, vectors = spectrum_of(np.asarray(summary.scatter) / count[..., None, None])
        check_noise(np.asarray(values), count, self.num_factors, names)
        lengths, noise = nearest_spectrum(values, self.num_factors)
        return {
            "mean": summary.mean,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    def maximum_posterior(self, summary: Moments, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode of mean, loadings and noise variance, by `posterior_spectrum`."""
        family, count = self.closed("the mode"), np.asarray(summary.count)
        shift, share = summary.mean - family.location, shrinkage(family.kappa, count)
        scatter = summary.scatter + (family.kappa * share)[..., None, None] * shift[..., :, None] * shift[..., None, :]
        values, vectors = spectrum_of(np.asarray(scatter) / (count + 1)[..., None, None])
        values = np.maximum(values, 0.0)
        lengths, noise = np.zeros((*count.shape, family.num_factors)), np.zeros(count.shape)
        prior = np.stack([family.loadings_scale**2, family.shape, family.scale], -1)
        for index in np.ndindex(count.shape):
            lengths[index], noise[index] = posterior_spectrum(
                values[index],
                float(count[index]) + 1,
                family.num_factors,
                *prior[index].tolist(),
            )
        return {
            "mean": family.location + share[..., None] * shift,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    def central_parameters(self, summary: Moments | None = None) -> ParameterTables:
        """The joint mode, with factors of positive length, because length 0 is at the boundary of the space."""
        if summary is None:
            return super().central_parameters()
        mode, count = self.maximum_posterior(summary), np.asarray(summary.count)
        noise = np.asarray(mode["noise_variance"])
        values, vectors = spectrum_of(np.asarray(mode["covariance"]))
        least = (noise / (1 + count))[..., None]
        lengths = np.maximum(values[..., : self.num_factors] - noise[..., None], least)
        return mode | {"covariance": covariance_of(lengths, noise, vectors)}

    def posterior(self, summary: Summary) -> NoReturn:
        self._refuse("update")

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        return {"loc": parameters["mean"], "scale_tril": np.linalg.cholesky(parameters["covariance"])}

    def row_density(self, parameters: Mapping[str, Array]) -> RowDensity:
        """By factors, where they are few and the covariance is of them: that of a mean over draws is not."""
        density, dimension = super().row_density(parameters), self.batch_shape[-1]
        if namespace(*parameters.values()) is jnp or dimension < max(LEAST_THIN, 4 * self.num_factors):
            return density
        assert isinstance(density, MultivariateNormalDensity)
        covariance, noise = (np.asarray(parameters[name]) for name in ("covariance", "noise_variance"))
        loadings = pivoted_loadings(covariance, noise, self.num_factors)
        differences = loadings @ np.swapaxes(loadings, -1, -2) + noise[:, None, None] * np.eye(dimension) - covariance
        has_digits = (noise > np.finfo(float).tiny / np.finfo(float).eps).all()  # of squared distances in its unit
        is_exact = has_digits and (np.abs(differences).max((1, 2)) <= ROUNDING * covariance.max((1, 2))).all()
        return FactorDensity(density.ellipsoids, loadings, noise) if is_exact else density

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {
            "mean": ("class", "feature"),
            "covariance": ("class", "feature", "feature_2"),
            "noise_variance": ("class",),
        }

    # --- missing cells: EM ------------------------------------------------------------------------------------------

    def check_estimable(self, summary: PatternMoments, names: Names = ANONYMOUS) -> None:
        """Each class needs an observed cell of each column."""
        counts = np.zeros(self.batch_shape)
        np.add.at(counts, summary.classes, summary.count[:, None] * summary.observed)
        check_counted(names, counts == 0, remedy="MAP()")

    def at_free_parameters(self, vector: Float[np.ndarray, " F"]) -> ParameterTables | None:
        parameters = super().at_free_parameters(vector)
        if parameters is None:
            return None
        values, vectors = spectrum_of(np.asarray(parameters["covariance"]))
        lengths, noise = nearest_spectrum(values, self.num_factors)
        return parameters | {"covariance": covariance_of(lengths, noise, vectors), "noise_variance": noise}

    @property
    def _units(self) -> Float[np.ndarray, " D"]:
        """The unit of the loadings, for all columns."""
        return np.full(self.batch_shape[-1], np.mean(self.loadings_scale))

    # --- the program --------------------------------------------------------------------------------------------

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_noise`, `{name}_diagonal` and `{name}_below`, the triangular loadings, and `{name}_mean`.

        Record `{name}_covariance` and `{name}_noise_variance`.
        """
        classes, dimension, num_factors = self.batch_shape[:-1], self.batch_shape[-1], self.num_factors
        shape, scale, width, kappa = (
            jnp.broadcast_to(value, classes) for value in (self.shape, self.scale, self.loadings_scale, self.kappa)
        )
        noise = numpyro.sample(f"{name}_noise", dist.InverseGamma(shape, scale).to_event(len(classes)))
        freedom = jnp.asarray(np.arange(num_factors, 0, -1.0))
        on_diagonal = Chi(freedom, width[..., None]).to_event(len(classes) + 1)
        diagonal = numpyro.sample(f"{name}_diagonal", on_diagonal)
        size = len(below_diagonal(dimension, num_factors)[0])
        below = dist.Normal(0.0, width[..., None]).expand((*classes, size)).to_event(len(classes) + 1)
        loadings = triangular(diagonal, numpyro.sample(f"{name}_below", below), dimension)
        if self.reference_point is not None:
            loadings = jnp.asarray(self.reference_point) @ loadings
        noises = jnp.broadcast_to(noise[..., None], self.batch_shape)
        location = jnp.broadcast_to(self.location, self.batch_shape)
        means = dist.LowRankMultivariateNormal(
            location, loadings / jnp.sqrt(kappa)[..., None, None], noises / kappa[..., None]
        )
        mean = numpyro.sample(f"{name}_mean", means.to_event(len(classes)))
        covariance = loadings @ jnp.swapaxes(loadings, -1, -2) + noise[..., None, None] * jnp.eye(dimension)
        numpyro.deterministic(f"{name}_covariance", covariance)
        numpyro.deterministic(f"{name}_noise_variance", noise)
        return {"mean": mean, "loadings": loadings, "noises": noises}

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """The sites from which the covariance is computed."""
        arguments = self.num_factors, self.reference_point
        return {
            "noise": ("covariance", ToNoise(*arguments)),
            "diagonal": ("covariance", ToDiagonal(*arguments)),
            "below": ("covariance", ToBelow(*arguments)),
        }

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.LowRankMultivariateNormal(*(parameters[name][labels] for name in ("mean", "loadings", "noises")))
