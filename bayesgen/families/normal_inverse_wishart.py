"""Normal-inverse-Wishart: real columns with a full covariance, one for each class or one for all."""

from collections.abc import Mapping
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.special
from numpyro.distributions.transforms import CholeskyTransform, Transform

from bayesgen.data import REAL
from bayesgen.errors import ModelError
from bayesgen.records import fill, record, static
from bayesgen.runtime import generator
from bayesgen.statistics import (
    Moments,
    MultivariateNormalLikelihood,
    PatternMoments,
    RowDensity,
    inverse_lower,
    namespace,
    validation_of,
)
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Key, ParameterTables, check_axes
from .coordinates import (
    InverseWishartWhitening,
    NormalByWhitening,
    RelativeFactor,
    ToWhitening,
    Unwhitening,
    moved,
)
from .covariances import JointNormalFamily, check_ranks, check_scale
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
    check_pooling,
    check_positive,
    default_variances,
)
from .special import (
    LOG_PI,
    InverseGamma,
    factor_of,
    inverse_wishart_variance,
    log_inverse_wishart,
    log_multigamma_rising,
    log_normal,
    quotient,
    sample_inverse_wishart_root,
    shrinkage,
    slogdet,
    slogdet_growth,
)
from .student_t import MultivariateStudentTDensity, joint_student_t

LEAST_SHARE = 1e-3  # of a determinant without a row, from which on its logarithm has ten digits left


@record
class NormalInverseWishart(JointNormalFamily):
    """Jointly normal columns with a normal-inverse-Wishart prior on mean and covariance.

    Generative story::

        covariance ~ InverseWishart(df, scale)
        mean       ~ Normal(mean, covariance / kappa)
        x          ~ Normal(mean, covariance)

    Args:
        mean: prior mean m, (D,); None resolves to the training columns' means. Kept as the field `location`.
        kappa: weight of the prior mean, in rows, > 0.
        df: degrees of freedom nu > D - 1; None resolves to D + 2.
        scale: scale matrix S, (D, D); None resolves to diag(v), v the training columns' variances; v = 1 for a column
            that does not vary, because it is constant or none of its cells is observed.
        tied: one covariance for all classes.

    Missing cells are marginalised. The family is not closed under updating with such rows: `MLE` and `MAP` maximise by
    EM, `NUTS` samples, and the closed forms refuse.

    Source: Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, eq. 250-254 (posterior),
    258 (predictive), 266 (evidence).

    >>> prior = NormalInverseWishart(mean=[0, 0], kappa=1, df=4, scale=[[2, 0], [0, 2]])
    >>> prior.update([[1.0, 0.0], [1.0, 3.0]]).mean()["mean"].round(4).tolist()
    [0.6667, 1.0]
    """

    location: Hyperparameter
    kappa: Hyperparameter
    df: Hyperparameter
    scale: Hyperparameter
    pooling: Pooling = static()
    kind = REAL
    traits = Traits(joint=True, scaled=True)
    likelihood = MultivariateNormalLikelihood()

    def __init__(
        self, mean: Stated = None, kappa: Stated = 0.01, df: Stated = None, scale: Stated = None, *, tied: bool = False
    ) -> None:
        check_positive("NormalInverseWishart", kappa=kappa, df=df)
        fill(self, location=as_number(mean), kappa=as_number(kappa), df=as_number(df), scale=as_number(scale))
        fill(self, pooling=Pooling(tied))
        check_scale(self.scale)

    @property
    def defaults(self) -> Mapping[str, str]:
        return {"location": "means of the columns", "scale": "their variances on the diagonal"}

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D) and (K, D, D); missing hyperparameters come from the columns."""
        check_pooling("NormalInverseWishart", self.pooling, scale)
        batch, dimension = scale.batch_shape, scale.batch_shape[-1]
        classes = batch[:-1]
        shared = (1,) * len(classes) if self.pooling.tied else classes
        df = np.asarray(dimension + 2.0) if self.df is None else self.df
        if not isinstance(df, dist.Distribution | jax.Array) and (df <= dimension - 1).any():
            raise ModelError(f"NormalInverseWishart: df must exceed D - 1 = {dimension - 1}, got {df}.")
        matrix = self.scale
        if matrix is None:
            matrix = namespace(scale.variance).diag(default_variances(scale.variance))
        location = scale.mean if self.location is None else self.location
        name = "NormalInverseWishart"
        return self.replace(
            **broadcast(name, batch, location=location),
            **broadcast(name, classes, kappa=self.kappa),
            **broadcast(name, shared, df=df),
            **broadcast(name, (*shared, dimension, dimension), scale=matrix),
            batch_shape=batch,
        )

    def _implied_scale(self) -> Scale:
        return Scale(num_columns=self.scale.shape[-1])

    def _growth(self, summary: Moments) -> tuple[Float[Array, "*K"], Float[Array, "*K D D"]]:
        """The terms that data add to the degrees of freedom and to the scale matrix."""
        count, shift = summary.count, summary.mean - self.location
        share = self.kappa * shrinkage(self.kappa, count)
        between = share[..., None, None] * shift[..., :, None] * shift[..., None, :]
        return self._pool(count), self._pool(summary.scatter + between)

    def posterior(self, summary: Moments) -> Self:
        count, shift = summary.count, summary.mean - self.location
        df, scale = self._growth(summary)
        return self.replace(
            location=self.location + shrinkage(self.kappa, count)[..., None] * shift,
            kappa=self.kappa + count,
            df=self.df + df,
            scale=self.scale + scale,
            batch_shape=shift.shape,
        )

    def _log_evidence(self, summary: Moments) -> Float[ArrayOrNumber, "..."]:
        after, (df, scale) = self.posterior(summary), self._growth(summary)
        dimension = self.batch_shape[-1]
        cells = 0.5 * dimension * (namespace(after.kappa).log(self.kappa / after.kappa) - summary.count * LOG_PI)
        gammas = log_multigamma_rising(0.5 * self.df, 0.5 * df, dimension)
        scales = 0.5 * (self.df * slogdet_growth(self.scale, scale) + df * slogdet(after.scale))
        return self._pool(cells) + gammas - scales

    def mean(self) -> ParameterTables:
        """Mean of each parameter; for the covariance, scale / (df - D - 1)."""
        family = self.closed("mean")
        return {"mean": family.location, "covariance": family._covariance(family._expected())}

    def _expected(self) -> Float[Array, "*K D D"]:
        excess = (self.df - self.batch_shape[-1] - 1)[..., None, None]
        return quotient(self.scale, excess)

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode; a covariance is scale / (df + D + 1 + c), where c means share it."""
        family = self.closed("mode")
        members = family.batch_shape[0] if family.pooling.tied else 1
        covariance = family.scale / (family.df + family.batch_shape[-1] + 1 + members)[..., None, None]
        return {"mean": family.location, "covariance": family._covariance(covariance)}

    def variance(self) -> ParameterTables:
        """Variance of the mean (a multivariate t) and of each entry of the covariance."""
        family = self.closed("variance")
        diagonal = namespace(family.scale, family.df).diagonal(family._expected(), axis1=-2, axis2=-1)
        entries = inverse_wishart_variance(family.scale, family.df)
        return {"mean": diagonal / family.kappa[..., None], "covariance": family._covariance(entries)}

    def quantile(self, prob: float) -> ParameterTables:
        """Of Student-t means and inverse gamma variances; covariances of two columns have no closed form."""
        family = self.closed("quantile")
        freedom = np.asarray(family.df - family.batch_shape[-1] + 1)[..., None]
        scales = np.diagonal(family.scale, axis1=-2, axis2=-1)
        spread = np.sqrt(scales / (family.kappa[..., None] * freedom))
        entries = np.full(family.scale.shape, np.nan)
        np.einsum("...ii->...i", entries)[...] = InverseGamma(0.5 * freedom, 0.5 * scales).quantile(prob)
        mean = family.location + scipy.special.stdtrit(freedom, prob) * spread
        return {"mean": mean, "covariance": family._covariance(entries)}

    def maximum_likelihood(self, summary: Moments | PatternMoments, names: Names = ANONYMOUS) -> ParameterTables:
        """Means, and covariances with denominator N."""
        if not isinstance(summary, Moments):
            self._refuse("maximum likelihood")
        check_axes(self, summary)
        check_ranks(summary, self._pool, self.pooling.tied, names)
        count = self._pool(summary.count)
        return {
            "mean": summary.mean,
            "covariance": self._covariance(self._pool(summary.scatter) / count[..., None, None]),
        }

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family = self.closed("sample")
        rng = generator(key)
        root = sample_inverse_wishart_root(rng, family.df, family.scale, shape)
        noise = rng.standard_normal((*shape, *family.batch_shape))
        mean = family.location + np.einsum("...ij,...j->...i", root, noise) / np.sqrt(family.kappa)[..., None]
        covariance = root @ np.swapaxes(root, -2, -1)
        return {"mean": mean, "covariance": np.squeeze(covariance, -3) if family.pooling.tied else covariance}

    def _predictive_parameters(self) -> dict[str, Float[Array, "..."]]:
        dimension = self.batch_shape[-1]
        freedom = self.df - dimension + 1
        xp = namespace(self.kappa, self.scale)
        widen = xp.sqrt((self.kappa + 1) / (self.kappa * freedom))
        scale_tril = factor_of(self.scale) * widen[..., None, None]
        df = xp.broadcast_to(freedom, self.batch_shape[:-1]).astype(np.float64)
        return {"df": df, "loc": self.location, "scale_tril": scale_tril}

    def predictive(self) -> dist.Distribution:
        """Multivariate Student t (Murphy 2007, eq. 258)."""
        return dist.MultivariateStudentT(**self.closed("predictive")._predictive_parameters())

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_scale_tril` and `{name}_mean`; record `{name}_covariance`."""
        classes, dimension = self.batch_shape[:-1], self.batch_shape[-1]
        shared = () if self.pooling.tied else classes
        square = (*shared, dimension, dimension)
        matrix = jnp.reshape(self.scale, square) if self.pooling.tied else jnp.broadcast_to(self.scale, square)
        df = jnp.reshape(self.df, ()) if self.pooling.tied else jnp.broadcast_to(self.df, shared)
        root, site = jnp.linalg.cholesky(matrix), f"{name}_scale_tril"
        weight = jnp.sqrt(jnp.broadcast_to(self.kappa, classes))[..., None, None]
        location = jnp.broadcast_to(self.location, self.batch_shape)
        means: dist.Distribution
        if self.reference_point is None:
            prior = dist.InverseWishartCholesky(df, scale_tril=root, validate_args=validation_of(root))
            sampled = numpyro.sample(site, prior.to_event(len(shared)))
            factor = jnp.broadcast_to(sampled, (*classes, dimension, dimension)) / weight
            means = dist.MultivariateNormal(location, scale_tril=factor, validate_args=validation_of(factor))
            scale_tril = sampled
        else:
            reference_mean, reference_whitening = self.reference_point
            prior = moved(
                InverseWishartWhitening(df, scale_tril=root, validate_args=validation_of(root)),
                RelativeFactor(reference_whitening),
            )
            sampled = numpyro.sample(site, prior.to_event(len(shared)))
            whitening = jnp.broadcast_to(sampled, (*classes, dimension, dimension))
            means = moved(NormalByWhitening(location, weight * whitening), Unwhitening(reference_mean, whitening))
            scale_tril = inverse_lower(sampled)
        mean = numpyro.sample(f"{name}_mean", means.to_event(len(classes)))
        numpyro.deterministic(f"{name}_covariance", scale_tril @ scale_tril.swapaxes(-2, -1))
        return {"mean": mean, "scale_tril": sampled}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """Coordinates that are nearly independent whatever the number of rows.

        The site of the covariance holds the inverse of its Cholesky factor, relative to one near it: `RelativeFactor`.
        Means are standardised by their covariance. So no factor is inverted where the density is evaluated.
        """
        return self.replace(
            reference_point=(parameters["mean"], inverse_lower(np.linalg.cholesky(parameters["covariance"])))
        )

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """The Cholesky factor is sampled, or its inverse; the covariance is the parameter."""
        return {"scale_tril": ("covariance", CholeskyTransform() if self.reference_point is None else ToWhitening())}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        scale_tril = parameters["scale_tril"]
        factor = scale_tril if self.pooling.tied else scale_tril[labels]
        mean = parameters["mean"][labels]
        if self.reference_point is not None:
            return NormalByWhitening(mean, jnp.broadcast_to(factor, (*mean.shape, mean.shape[-1])))
        return dist.MultivariateNormal(mean, scale_tril=factor, validate_args=validation_of(factor))

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        loc = parameters["mean"]
        factor = factor_of(parameters["covariance"])
        xp = namespace(loc, factor)
        return {"loc": loc, "scale_tril": xp.broadcast_to(factor, (*loc.shape, loc.shape[-1]))}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        family, covariance = self.closed("log_prior"), parameters["covariance"]
        covariance = covariance[None] if self.pooling.tied else covariance
        mean_terms = log_normal(parameters["mean"] - family.location, covariance / family.kappa[..., None, None])
        return float(np.sum(log_inverse_wishart(covariance, family.df, family.scale)) + np.sum(mean_terms))

    def row_predictive(self) -> RowDensity:
        return MultivariateStudentTDensity.of(**self._predictive_parameters())

    def log_prob_left_out(
        self, values: Float[np.ndarray, "n D"], classes: Int[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"] | None:
        """Student t whose scale matrix is that of all rows less one of rank one (Sherman and Morrison 1950).

        NaN for a row that is nearly all of the scatter or of the weight of its class: digits are lost with the square
        of the share that is left without it.
        """
        if self.pooling.tied:
            return None
        density = MultivariateStudentTDensity.of(**self._predictive_parameters())
        (squares, half_log_det), dimension = np.empty((2, len(values))), values.shape[1]
        for k in range(len(self.kappa)):  # other classes are as they are in a prediction
            rows = classes == k
            distances = jax.tree.map(lambda leaf, k=k: leaf[[k]], density.ellipsoids).distances(values[rows])
            squares[rows], half_log_det[rows] = distances.squares[:, 0, 0], distances.half_log_det[0, 0, 0]
        kappa, df = self.kappa[classes], density.df[classes]
        has_digits = kappa - weights > LEAST_SHARE * kappa
        kappa_rest, df_rest = np.where(has_digits, kappa - weights, kappa), np.where(has_digits, df - weights, df)
        widening, widening_rest = (kappa + 1) / (kappa * df), (kappa_rest + 1) / (kappa_rest * df_rest)
        square = squares * widening  # under the posterior's scale matrix
        share = 1 - weights * kappa / kappa_rest * square  # of the determinant that is left without the row
        has_digits &= share > LEAST_SHARE
        share = np.where(has_digits, share, 1.0)
        change = 0.5 * (np.log(share) + dimension * np.log(widening_rest / widening))
        half_log_det = half_log_det + change
        square_rest = (kappa / kappa_rest) ** 2 * square / (share * widening_rest)
        log_prob = joint_student_t(df_rest, square_rest[None], half_log_det[None], np.full((1, 1), dimension))
        return np.where(has_digits, log_prob[0], np.nan)

    def tilted(self, parameters: Mapping[str, np.ndarray], slopes: Float[np.ndarray, "K D"]) -> ParameterTables | None:
        if not self.pooling.tied:
            return None
        return {"mean": parameters["mean"] + slopes @ parameters["covariance"]}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        matrix = ("feature", "feature_2")
        return {
            "mean": ("class", "feature"),
            "covariance": matrix if self.pooling.tied else ("class", *matrix),
        }
