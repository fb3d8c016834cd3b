"""Jointly normal columns: centred moments, by pattern where cells are missing, and densities of rows."""

import dataclasses
import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .arrays import LOG_2PI, Cells, inverse_lower, log_diagonal, namespace
from .base import Likelihood, Parameters, Reference, RowDensity
from .conditioning import Ellipsoids, conditional_draws, conditional_means, marginal_log_probs
from .expectation import log_likelihood_of_groups, traced_log_likelihood
from .moments import class_moments
from .normal import median_of_draws, standard_log_density
from .passes import Sample
from .patterns import PatternMoments
from .summaries import Moments, trailing


@dataclasses.dataclass(frozen=True)
class MultivariateNormalLikelihood(Likelihood):
    """Jointly normal columns. Parameters: `loc` (K, *extra, D) and `scale_tril` (K, *extra, D, D)."""

    takes_squares = True

    def summary_of(self, sample: Sample) -> Moments | PatternMoments:
        """Centred moments and cross products by class. See `Likelihood.summarize`.

        Where cells are missing, those of each class and pattern of observed cells. Rows without observed cells are left
        out, because they slow EM down.
        """
        if sample.mask is not None:
            has_cells = np.asarray(sample.mask).any(1)
            sample = sample if has_cells.all() else sample.take(np.flatnonzero(has_cells))
        values, classes, num_classes, weights = sample.values, sample.classes, sample.num_classes, sample.weights
        if sample.observed is not None and not np.all(sample.observed):
            return PatternMoments.of_rows(values, classes, num_classes, weights, sample.observed)
        extra, dimension = values.shape[1:-1], values.shape[-1]
        blocks = values.reshape(len(values), math.prod(extra), dimension)
        parts = [
            class_moments(blocks[:, index], classes, num_classes, weights, matrix=True)
            for index in range(blocks.shape[1])
        ]
        xp = namespace(parts[0].mean)
        mean, scatter = (xp.stack(arrays, 1) for arrays in zip(*((p.mean, p.scatter) for p in parts), strict=True))
        return Moments(
            parts[0].count,
            mean.reshape(num_classes, *extra, dimension),
            scatter.reshape(num_classes, *extra, dimension, dimension),
            xp.zeros((num_classes, *extra)),
        )

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Moments | PatternMoments
    ) -> Float[Array, "..."]:
        """-n log|L| - nD/2 log(2 pi) - tr(inv(L) (scatter + n d d') inv(L)') / 2, with d = mean - loc.

        Where cells are missing, the marginal likelihood of the observed cells, group by group.
        """
        loc, scale_tril = parameters["loc"], parameters["scale_tril"]
        if isinstance(summary, PatternMoments):
            is_traced = namespace(loc, scale_tril, summary.mean) is jnp
            return (traced_log_likelihood if is_traced else log_likelihood_of_groups)(loc, scale_tril, summary)
        xp, whiten = namespace(loc, scale_tril, summary.mean), inverse_lower(scale_tril)
        count = trailing(summary.count, whiten.ndim - 2)
        shift = xp.einsum("...ij,...j->...i", whiten, summary.mean - loc)
        spread = xp.einsum("...ij,...jk,...ik->...", whiten, summary.scatter, whiten)
        half_log_det = log_diagonal(scale_tril)
        constant = count * (half_log_det + 0.5 * LOG_2PI * loc.shape[-1])
        return xp.asarray(summary.log_base - constant - 0.5 * (spread + count * (shift**2).sum(-1)))

    def density(self, parameters: Parameters) -> "MultivariateNormalDensity":
        """Invert the Cholesky factors once."""
        return MultivariateNormalDensity(Ellipsoids.of(parameters["loc"], parameters["scale_tril"]))

    def log_prob_of_many(
        self,
        parameters: Mapping[str, Float[Array, "draws K ..."]],
        values: Cells,
        observed: Bool[Array, "n ..."] | None = None,
    ) -> Float[Array, "K draws n"]:
        """See `Likelihood.log_prob_of_many`. Not differentiable where cells are missing."""
        if observed is None:
            return super().log_prob_of_many(parameters, values)
        loc, scale_tril = _joint(parameters)
        draws, num_classes, extra, dimension = loc.shape
        rows, mask = (jnp.asarray(array).reshape(len(array), extra, dimension) for array in (values, observed))
        total = jnp.zeros((len(rows), draws * num_classes))
        for index in range(extra):
            flat = loc[:, :, index].reshape(-1, dimension), scale_tril[:, :, index].reshape(-1, dimension, dimension)
            total = total + marginal_log_probs(*flat, rows[:, index], mask[:, index])
        return total.reshape(-1, draws, num_classes).transpose(2, 1, 0)

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> "MultivariateNormalReference":
        """Medians of means and of Cholesky factors over the draws, and inverses of these factors."""
        loc, scale_tril = (median_of_draws(draws) for draws in _joint(parameters))
        return MultivariateNormalReference(loc, scale_tril, inverse_lower(scale_tril))


@record
class MultivariateNormalDensity(RowDensity):
    """Densities of jointly normal rows, missing columns being marginalised."""

    ellipsoids: Ellipsoids

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        distances = self.ellipsoids.distances(values, observed)
        return (-0.5 * (distances.squares + LOG_2PI * distances.dimension) - distances.half_log_det).sum(-1)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        """Means of missing cells, of sites without extra axes."""
        return conditional_means(self.ellipsoids, values, observed)

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of missing cells, of sites without extra axes."""
        return conditional_draws(self.ellipsoids, values, observed, classes, rng)


@record
class MultivariateNormalReference(Reference):
    """Jointly normal columns: features are the columns whitened by the reference, and products of two."""

    loc: Float[Array, "K m D"]
    scale_tril: Float[Array, "K m D D"]
    inverse: Float[Array, "K m D D"]

    def natural_parameters(
        self, parameters: Mapping[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        loc, factor = _joint(parameters)
        dimension = loc.shape[-1]
        maps = inverse_lower(factor) @ self.scale_tril  # from what the reference has whitened to what the process has
        shift = jnp.einsum("kmij,skmj->skmi", self.inverse, loc - self.loc)
        precision = jnp.einsum("skmij,skmil->skmjl", maps, maps)
        slope = jnp.einsum("skmij,skmj->skmi", precision, shift)
        constant = (log_diagonal(maps) - 0.5 * (slope * shift).sum(-1)).sum(-1)
        first, second, halves = _pairs(dimension)
        squares = halves * (jnp.eye(dimension) - precision)[..., first, second]
        return jnp.concatenate([part.reshape(*constant.shape, -1) for part in (slope, squares)], -1), constant

    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        num_classes, _, dimension = self.loc.shape
        columns = jnp.moveaxis(values.reshape(len(values), *self.loc.shape[1:]), 0, -1)
        whitened = jnp.einsum("kmij,kmjn->kmin", self.inverse, columns - self.loc[..., None])
        first, second, _ = _pairs(dimension)
        products = whitened[:, :, first] * whitened[:, :, second]
        whitened, products = (part.reshape(num_classes, -1, len(values)) for part in (whitened, products))
        return standard_log_density(whitened, -log_diagonal(self.inverse).sum(-1)), jnp.concatenate(
            [whitened, products], 1
        )


def _joint(
    parameters: Mapping[str, Float[Array, "draws K ..."]],
) -> tuple[Float[Array, "draws K m D"], Float[Array, "draws K m D D"]]:
    """Means and Cholesky factors, extra axes flattened into one."""
    loc, factor = parameters["loc"], parameters["scale_tril"]
    shape = (*loc.shape[:2], math.prod(loc.shape[2:-1]), loc.shape[-1])
    return loc.reshape(shape), factor.reshape(*shape, shape[-1])


def _pairs(dimension: int) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Pairs of columns, and by what a quadratic form weighs their products."""
    first, second = np.triu_indices(dimension)
    return first, second, np.where(first == second, 0.5, 1.0)


# Jointly normal columns whose covariance is of low rank but for a diagonal: a few factors, and noise.

MANY_COLUMNS, COLUMNS_PER_FACTOR = (
    20,
    3,
)  # columns, and columns a factor, from which on factors cost less: `_factors` in benchmarks/surfaces


@dataclasses.dataclass(frozen=True)
class LowRankNormalLikelihood(MultivariateNormalLikelihood):
    """Jointly normal columns with covariance W W' + diag(c).

    Parameters: `loc` and `scale_tril`, as of any jointly normal columns, and beside them `cov_factor` W
    (K, *extra, D, k) and `cov_diag` c (K, *extra, D), by which likelihoods cost less. What is to be known of rows is
    what is to be known of any that are jointly normal: moments, by pattern where cells are missing.
    """

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Moments | PatternMoments
    ) -> Float[Array, "..."]:
        """As of `MultivariateNormalLikelihood`; complete rows with few factors cost D^2 k instead of D^3.

        With C = diag(c) and M = I + W' inv(C) W, the factors of a row r are expected at Z r, Z = inv(M) W' inv(C). The
        squared distance of r is that of r - W Z r by the noise alone, plus |Z r|^2: sums of squares, in which nothing
        cancels. The determinant of the covariance is that of C times that of M.

        Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, eq. A.9 and A.10.
        """
        loc, factor, noise = (parameters[name] for name in ("loc", "cov_factor", "cov_diag"))
        dimension, num_factors = factor.shape[-2:]
        if isinstance(summary, PatternMoments) or dimension < max(MANY_COLUMNS, COLUMNS_PER_FACTOR * num_factors):
            return super().log_likelihood(parameters, summary)
        xp = namespace(loc, factor, noise, summary.mean)
        weighted = xp.swapaxes(factor / noise[..., None], -1, -2)
        precision = weighted @ factor + xp.eye(num_factors)
        expected = xp.linalg.solve(precision, weighted)
        half_log_det = log_diagonal(xp.linalg.cholesky(precision)) + 0.5 * xp.log(noise).sum(-1)
        shift, scatter, count = summary.mean - loc, summary.scatter, trailing(summary.count, loc.ndim - 1)
        factors = xp.einsum("...kd,...d->...k", expected, shift)
        rest = shift - xp.einsum("...dk,...k->...d", factor, factors)
        of_means = (rest**2 / noise).sum(-1) + (factors**2).sum(-1)
        of_factors = expected @ scatter
        left = scatter - factor @ of_factors  # (I - W Z) S, and below the diagonal of (I - W Z) S (I - W Z)'
        noises = xp.diagonal(left, axis1=-2, axis2=-1) - ((left @ xp.swapaxes(expected, -1, -2)) * factor).sum(-1)
        of_scatter = (noises / noise).sum(-1) + (of_factors * expected).sum((-2, -1))
        constant = count * (half_log_det + 0.5 * LOG_2PI * dimension)
        return xp.asarray(summary.log_base - constant - 0.5 * (of_scatter + count * of_means))
