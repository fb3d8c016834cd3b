"""Real columns of a few factors and noise: jointly normal ones near a line, a plane, a surface of k dimensions."""

import math
import numbers
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import Transform
from scipy.special import gammaln

from bayesgen.distributions import Chi
from bayesgen.errors import FitError, ModelError
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import Moments, MultivariateNormalLikelihood, PatternMoments, RowDensity, Summary
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Family, Key, Parameters
from .covariances import JointCells, check_noise, covariances_at, vector_of_factors
from .factors import (
    ToBelow,
    ToDiagonal,
    ToNoise,
    below,
    covariance_of,
    least_squares,
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
    as_number,
    broadcast,
    check_positive,
    default_common_variance,
)
from .special import LOG_2PI, log_normal

# Rows of a few factors and noise of which cells are missing: what EM asks of their family.


class LowRankCells(JointCells):
    """What `LowRankNormal` knows of rows of which cells are missing, besides what all jointly normal ones do."""

    num_factors: int
    loadings_scale: Hyperparameter

    def check_estimable(self, summary: Summary, names: Names = ANONYMOUS) -> None:
        """Every class needs a cell of every column; how columns vary together the factors tell."""
        if not isinstance(summary, PatternMoments):
            return
        counts = np.zeros(self.batch_shape)
        np.add.at(counts, summary.classes, summary.count[:, None] * summary.observed)
        if (counts == 0).any():
            raise FitError(
                f"Block {names.block!r}: no cell is there at {names.where(counts == 0)}, so maximum likelihood has no "
                "estimate of its mean. Use MAP(), or leave out that class or column."
            )

    def free_parameters(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """Means, and Cholesky factors of the covariances with logs of their diagonals, in the units of the prior."""
        unit = self._unit
        factors = np.linalg.cholesky(parameters["covariance"]) / unit
        return np.concatenate([np.ravel((parameters["mean"] - self.location) / unit), vector_of_factors(factors)])

    def at_free_parameters(self, vector: Float[np.ndarray, " F"]) -> Parameters | None:
        """The inverse of `open_vector`, covariances being made the nearest ones of the family."""
        unit, num_means = self._unit, math.prod(self.batch_shape)
        covariance = covariances_at(vector[num_means:], (*self.batch_shape, self.batch_shape[-1]))
        if covariance is None:
            return None
        values, vectors = spectrum_of(covariance * unit**2)
        lengths, noise = least_squares(values, self.num_factors)
        return {
            "mean": self.location + vector[:num_means].reshape(self.batch_shape) * unit,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    @property
    def _unit(self) -> float:
        return float(np.mean(self.loadings_scale))


# The prior of a few factors and noise: its moments, draws and density.


class LowRankPrior(Family):
    """What `LowRankNormal` knows of its parameters before any data: see there for the story of the prior."""

    num_factors: int
    location: Hyperparameter
    kappa: Hyperparameter
    loadings_scale: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter

    def _isotropic(self, noise: Float[ArrayOrNumber, "*K"], loadings: Float[ArrayOrNumber, "*K"]) -> Parameters:
        """A process without preferred axes: the variance of loadings counts once for each factor."""
        total = noise + self.num_factors * loadings
        covariance = np.asarray(total)[..., None, None] * np.eye(self.batch_shape[-1])
        return {"mean": self.location, "covariance": covariance, "noise_variance": noise}

    def mean(self) -> Parameters:
        """Prior mean; the factors' mean variance, and the noise's, on the diagonal."""
        family = self.closed("mean")
        return family._isotropic(family._expected_noise(), family.loadings_scale**2)

    def _expected_noise(self) -> Float[np.ndarray, "*K"]:
        excess = np.asarray(self.shape - 1)
        return np.where(excess > 0, self.scale / np.where(excess > 0, excess, 1.0), np.inf)

    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """Joint mode of mean, loadings (all zero) and noise variance; the mean's scale counts."""
        family = self.closed("mode")
        noise = family.scale / (family.shape + 1 + 0.5 * family.batch_shape[-1])
        return family._isotropic(noise, 0.0 * family.loadings_scale)

    def variance(self) -> Parameters:
        """Variance of the mean, of each entry of the covariance, and of the noise variance."""
        family = self.closed("variance")
        expected, fourth = family.mean(), family.loadings_scale[..., None, None] ** 4
        exists = family.shape > 2
        spare = np.where(exists, family.shape, 3.0)
        noise = np.where(exists, (family.scale / (spare - 1)) ** 2 / (spare - 2), np.inf)
        diagonal = np.eye(family.batch_shape[-1], dtype=bool)
        of_noise = np.where(diagonal, noise[..., None, None], 0.0)
        return {
            "mean": np.diagonal(expected["covariance"], axis1=-2, axis2=-1) / family.kappa[..., None],
            "covariance": family.num_factors * fourth * (1 + diagonal) + of_noise,
            "noise_variance": noise,
        }

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Parameters:
        """Independent draws of the parameters."""
        family, rng = self.closed("sample"), generator(key)
        classes, dimension = family.batch_shape[:-1], family.batch_shape[-1]
        noise = family.scale / rng.standard_gamma(family.shape, (*shape, *classes))
        normal = rng.standard_normal((*shape, *classes, dimension, family.num_factors))
        loadings = family.loadings_scale[..., None, None] * normal
        factors = rng.standard_normal((*shape, *classes, family.num_factors, 1))
        noises = np.sqrt(noise)[..., None] * rng.standard_normal((*shape, *classes, dimension))
        mean = family.location + ((loadings @ factors)[..., 0] + noises) / np.sqrt(family.kappa)[..., None]
        covariance = loadings @ np.swapaxes(loadings, -1, -2) + noise[..., None, None] * np.eye(dimension)
        return {"mean": mean, "covariance": covariance, "noise_variance": noise}

    def _log_prior(self, parameters: Mapping[str, Array]) -> float:
        """Of mean, loadings and noise variance, whose size the trace of the covariance tells."""
        family, covariance, noise = self.closed("log_prior"), parameters["covariance"], parameters["noise_variance"]
        dimension, variance = family.batch_shape[-1], family.loadings_scale**2
        squares = np.trace(covariance, axis1=-2, axis2=-1) - dimension * noise
        of_loadings = -0.5 * (squares / variance + dimension * family.num_factors * (LOG_2PI + np.log(variance)))
        constant = family.shape * np.log(family.scale) - gammaln(family.shape)
        of_noise = constant - (family.shape + 1) * np.log(noise) - family.scale / noise
        of_mean = log_normal(parameters["mean"] - family.location, covariance / family.kappa[..., None, None])
        return float(np.sum(of_loadings + of_noise + of_mean))


NOISE_SHARE = 0.05  # of the variance of columns, that the default prior takes for noise


@record
class LowRankNormal(LowRankPrior, LowRankCells):
    """Real columns made of a few factors, linearly, and of noise that is alike in all of them.

    Generative story, for k factors::

        noise_variance ~ InverseGamma(shape, scale)
        loadings       ~ Normal(0, loadings_scale), every entry of a matrix (D, k)
        covariance     = loadings loadings' + noise_variance I
        mean           ~ Normal(mean, covariance / kappa)
        factors        ~ Normal(0, I), k of them for each row
        x              ~ Normal(mean + loadings factors, noise_variance I)

    so that x ~ Normal(mean, covariance): rows lie near a surface of k dimensions. The noise has one variance, so give
    columns of like units: nothing is scaled silently.

    Parameters are `mean`, `covariance` and `noise_variance`. Loadings are known but for a rotation of the factors,
    under which the covariance, its prior included, stays the same: so they are no parameter. `ProbabilisticPCA` tells
    the ones whose columns are orthogonal.

    There is no closed posterior, and `Exact` refuses by name. The maximum of the likelihood has a closed form, and so
    has the joint mode over mean, loadings and noise variance, which `MAP` gives; where cells or labels are missing both
    are found by EM. `NUTS` samples loadings that are made lower triangular, which are as many numbers as the covariance
    has.

    Args:
        num_factors: k, at least 1 and less than the number of columns.
        mean: prior mean, (D,); None resolves to the training columns' means. Kept as the field `location`.
        kappa: weight of the prior mean, in rows, > 0.
        loadings_scale: standard deviation of the entries of loadings, > 0; None resolves to the root of the mean
            variance of the training columns that vary, so that one factor may be all there is. A column that is
            constant, or without observed cells, adds nothing to that mean, which is 1 where no column varies.
        shape: of the noise variance, > 0; 1.5 is worth three cells.
        scale: likewise, > 0; None resolves to a twentieth of that mean variance.

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
    basis: Any
    kind = "real"
    joint = True
    scaled = True
    is_closed = False
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
        if not isinstance(num_factors, numbers.Integral) or isinstance(num_factors, bool) or num_factors < 1:
            raise ModelError(
                f"LowRankNormal: num_factors must be a whole number and at least 1, got {num_factors!r}. Noise alone, "
                "without factors, is NormalInverseGamma(spherical=True)."
            )
        check_positive("LowRankNormal", kappa=kappa, loadings_scale=loadings_scale, shape=shape, scale=scale)
        fill(self, num_factors=int(num_factors), location=as_number(mean), kappa=as_number(kappa), basis=None)
        fill(self, loadings_scale=as_number(loadings_scale), shape=as_number(shape), scale=as_number(scale))

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """All but the basis, which says nothing of the prior."""
        return {name: value for name, value in super().hyperparameters.items() if name != "basis"}

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
        given = {
            "loadings_scale": np.asarray(np.sqrt(variance)) if self.loadings_scale is None else self.loadings_scale,
            "scale": np.asarray(NOISE_SHARE * variance) if self.scale is None else self.scale,
        }
        location = scale.mean if self.location is None else self.location
        return self.replace(
            **broadcast("LowRankNormal", batch, location=location),
            **broadcast("LowRankNormal", classes, kappa=self.kappa, shape=self.shape, **given),
            batch_shape=batch,
        )

    def _implied_scale(self) -> Scale:
        if not np.ndim(self.location):
            raise ModelError("LowRankNormal: used alone it takes its number of columns from mean, an array (D,).")
        return Scale(num_columns=np.shape(self.location)[-1])

    def scale_of(self, summary: Moments) -> Scale:
        """Means and variances of the columns."""
        variance = np.diagonal(summary.scatter, axis1=-2, axis2=-1) / max(summary.count, 1e-300)
        return Scale(num_columns=len(variance), mean=summary.mean, variance=variance)

    def moment_estimates(self, summary: Moments | PatternMoments) -> Parameters:
        """The covariance of complete rows; variances alone, where cells are missing."""
        if isinstance(summary, PatternMoments):
            variances = np.asarray(summary.by_column().scatter)
            return {"covariance": variances[..., None] * np.eye(variances.shape[-1])}
        return {"covariance": summary.scatter}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The same prior, loadings being made triangular in the axes of the covariance at a process."""
        return self.replace(basis=spectrum_of(np.asarray(parameters["covariance"]))[1])

    # --- what data say ------------------------------------------------------------------------------------------

    def maximum_likelihood(self, summary: Moments, names: Names = ANONYMOUS) -> Parameters:
        """Means, and the covariances nearest to those of the rows (denominator N)."""
        count = np.asarray(summary.count)
        if (count == 0).any():
            raise FitError(
                f"Block {names.block!r}: no rows at {names.where(count == 0)}, so maximum likelihood has no estimate. "
                "Use MAP(), or leave that class out."
            )
        values, vectors = spectrum_of(np.asarray(summary.scatter) / count[..., None, None])
        check_noise(np.asarray(values), count, self.num_factors, names)
        lengths, noise = least_squares(values, self.num_factors)
        return {
            "mean": summary.mean,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    def maximum_posterior(self, summary: Moments, names: Names = ANONYMOUS) -> Parameters:
        """Joint mode of mean, loadings and noise variance, which are those of one more row: the prior's mean."""
        family, count = self.closed("the mode"), np.asarray(summary.count)
        shift = summary.mean - family.location
        share = (family.kappa * count / (family.kappa + count))[..., None, None]
        scatter = summary.scatter + share * shift[..., :, None] * shift[..., None, :]
        values, vectors = spectrum_of(np.asarray(scatter) / (count + 1)[..., None, None])
        values = np.maximum(values, 0.0)
        lengths, noise = np.zeros((*count.shape, family.num_factors)), np.zeros(count.shape)
        for index in np.ndindex(count.shape):
            lengths[index], noise[index] = posterior_spectrum(
                values[index],
                float(count[index]) + 1,
                family.num_factors,
                *(float(each[index]) for each in (family.loadings_scale**2, family.shape, family.scale)),
            )
        return {
            "mean": family.location + (count / (family.kappa + count))[..., None] * shift,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    def posterior_center(self, summary: Moments) -> Parameters:
        """The joint mode, its factors no shorter than rows can tell from none: there the space has its edge."""
        mode, count = self.maximum_posterior(summary), np.asarray(summary.count)
        noise = np.asarray(mode["noise_variance"])
        values, vectors = spectrum_of(np.asarray(mode["covariance"]))
        least = (noise / (1 + count))[..., None]
        lengths = np.maximum(values[..., : self.num_factors] - noise[..., None], least)
        return mode | {"covariance": covariance_of(lengths, noise, vectors)}

    def _updated(self, summary: Summary) -> NoReturn:
        _refuse("update")

    def _log_evidence(self, summary: Summary) -> NoReturn:
        _refuse("log_evidence")

    def predictive(self) -> NoReturn:
        """Refused: see the class."""
        _refuse("predictive")

    def row_predictive(self) -> RowDensity:
        """Refused: see the class."""
        _refuse("predictive")

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> Parameters:
        """Means, and Cholesky factors of the covariances."""
        return {"loc": parameters["mean"], "scale_tril": np.linalg.cholesky(parameters["covariance"])}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """mean: (class, feature); covariance: (class, feature, feature_2); noise_variance: (class,)."""
        return {
            "mean": ("class", "feature"),
            "covariance": ("class", "feature", "feature_2"),
            "noise_variance": ("class",),
        }

    # --- the program --------------------------------------------------------------------------------------------

    def sample_sites(self, name: str) -> Parameters:
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
        size = len(below(dimension, num_factors)[0])
        others = dist.Normal(0.0, width[..., None]).expand((*classes, size)).to_event(len(classes) + 1)
        loadings = triangular(diagonal, numpyro.sample(f"{name}_below", others), dimension)
        if self.basis is not None:
            loadings = jnp.asarray(self.basis) @ loadings
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
        """The sites that stand for the covariance."""
        arguments = self.num_factors, self.basis
        return {
            "noise": ("covariance", ToNoise(*arguments)),
            "diagonal": ("covariance", ToDiagonal(*arguments)),
            "below": ("covariance", ToBelow(*arguments)),
        }

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        """Multivariate normal rows of low rank but for noise."""
        return dist.LowRankMultivariateNormal(*(parameters[name][labels] for name in ("mean", "loadings", "noises")))


def _refuse(verb: str) -> NoReturn:
    raise ModelError(
        f"LowRankNormal: {verb} has no closed form, because its posterior is no LowRankNormal. Fit by NUTS() or MAP()."
    )
