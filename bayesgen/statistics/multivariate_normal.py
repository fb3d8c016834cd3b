"""Jointly normal columns: centred moments, by pattern where cells are missing, densities of rows, and the E-step.

The E-step gives complete rows from their observed cells, and the log-likelihood of these cells.

Source: Little and Rubin (2019), Statistical Analysis with Missing Data, section 11.2; Ghahramani and Jordan (1994),
Supervised learning from incomplete data via an EM approach, section 3.2.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record
from bayesgen.runtime import CACHED_CELLS, all_in_threads
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .arrays import LOG_2PI, Cells, inverse_lower, log_diagonal, namespace
from .base import CellSums, Likelihood, Parameters, Reference, RowDensity
from .conditioning import (
    Ellipsoids,
    condition,
    conditional_draws,
    conditional_means,
    conditioned,
    marginal_log_probs,
)
from .moments import class_moments
from .normal import median_of_draws, standard_log_density
from .patterns import Part, PatternMoments, PatternRows
from .summaries import Moments, Sample, trailing


def expected_moments(
    summary: PatternMoments, loc: Float[Array, "K D"], scale_tril: Float[Array, "K D D"]
) -> tuple[Moments, Float[np.ndarray, " K"]]:
    """Expected moments of complete rows given their observed cells, and the log-likelihood of these, by class.

    Missing cells have their conditional means, and the scatter includes their conditional covariances.
    """
    (num_classes, dimension), loc, inverse = loc.shape, np.asarray(loc), inverse_lower(np.asarray(scale_tril))
    precision, rows = np.swapaxes(inverse, -1, -2) @ inverse, summary.as_rows

    def completed_part(job: tuple[int, Part]) -> tuple[Moments, Float[np.ndarray, "D D"]]:
        k, part = job
        return _completed_part(rows, part, loc[k], precision[[k]])

    threads_pay = rows.rows.size > CACHED_CELLS // 2
    completed_parts = all_in_threads(completed_part, rows.parts) if threads_pay else map(completed_part, rows.parts)
    square = np.zeros((1, dimension, dimension))
    totals = [Moments(np.zeros(1), np.zeros((1, dimension)), square, np.zeros(1))] * num_classes
    conditional = np.zeros((num_classes, dimension, dimension))
    for (k, _), (moments, missing_covariance) in zip(rows.parts, completed_parts, strict=True):
        totals[k] = totals[k]._merged(moments)
        conditional[k] += missing_covariance
    total = jax.tree.map(lambda *arrays: np.concatenate(arrays), *totals)
    about_loc = total.scatter + total.count[:, None, None] * total.mean[:, :, None] * total.mean[:, None, :]
    distances = np.einsum("kij,kij->k", precision, about_loc)
    log_likelihood = total.log_base - total.count * log_diagonal(np.asarray(scale_tril)) - 0.5 * distances
    mean = np.where(total.count[:, None] > 0, loc + total.mean, 0.0)
    return Moments(total.count, mean, total.scatter + conditional, np.zeros(num_classes)), log_likelihood


def _completed_part(
    rows: PatternRows, part: Part, loc: Float[np.ndarray, " D"], precision: Float[np.ndarray, "1 D D"]
) -> tuple[Moments, Float[np.ndarray, "D D"]]:
    """Moments about `loc` of a part of the rows of a class, completed, and the sum of conditional covariances.

    In place of a log base, the moments hold the log-likelihood but for distances and the determinant of the class.
    """
    is_mean, (num_missing, num_patterns) = rows.is_mean[part.rows], part.missing.shape
    weights = rows.weights[part.rows] * is_mean
    total = weights.sum()
    residuals = np.ascontiguousarray(rows.rows[part.rows].T) - loc[:, None] * is_mean
    completed = condition(precision, residuals[None], part)
    shift = residuals @ weights / (total or 1.0)
    residuals -= shift[:, None] * is_mean
    scatter = residuals * rows.weights[part.rows] @ residuals.T
    pattern_weights = np.bincount(np.arange(num_patterns)[part.pattern], weights, num_patterns)
    conditional = _sum_of_inverses(completed.factor[0], pattern_weights, part.missing, len(loc))
    log_terms = -pattern_weights @ completed.half_log_det[0] - 0.5 * LOG_2PI * total * (len(loc) - num_missing)
    return Moments(total[None], shift[None], scatter[None], log_terms[None]), conditional


def _sum_of_inverses(
    factor: Float[np.ndarray, "s s p"],
    weights: Float[np.ndarray, " p"],
    columns: Int[np.ndarray, "s p"],
    dimension: int,
) -> Float[np.ndarray, "D D"]:
    """The weighted sum of the inverses of matrices with these Cholesky factors, each in its columns, in order."""
    inverse, lower = np.zeros_like(factor), np.zeros(dimension**2)
    for j in range(len(factor)):
        np.einsum("kp,kip->ip", factor[j, :j], inverse[:j, :j], out=inverse[j, :j])
        inverse[j, j] = -1.0
        inverse[j, : j + 1] /= -factor[j, j]
    for j in range(len(factor)):
        entries = np.einsum("kp,kip->ip", inverse[j:, j] * weights, inverse[j:, : j + 1])
        places = columns[j] * dimension + columns[: j + 1]
        lower += np.bincount(places.ravel(), entries.ravel(), dimension**2)
    below = np.tril(lower.reshape(dimension, dimension), -1)
    return below + below.T + np.diag(lower[:: dimension + 1])


def log_likelihood_of_groups(
    loc: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], summary: PatternMoments
) -> Float[np.ndarray, " K *extra"]:
    """Log-likelihood of the observed cells of the rows of each class."""
    if summary.num_classes is None:
        return log_likelihood_of_groups(loc[None], scale_tril[None], dataclasses.replace(summary, num_classes=1))[0]
    total = np.empty(loc.shape[:-1])
    for extra in np.ndindex(loc.shape[1:-1]):
        place = (slice(None), *extra)
        groups = dataclasses.replace(
            summary, observed=summary.observed[place], mean=summary.mean[place], spread=summary.spread[place]
        )
        total[place] = expected_moments(groups, loc[place], scale_tril[place])[1]
    return total


# The traceable likelihood of groups of rows with the same observed cells. Its gradient is that of complete rows at
# their expected moments (Fisher's identity: Dempster, Laird and Rubin 1977, eq. 2.16), which come from the same pass.
# Differentiating Cholesky factors group by group takes five times as long (1,000 groups, 20 columns).


@record
class _Expected:
    """Expected sums of complete rows, about the means of their classes.

    Attributes:
        count: weight of the rows.
        first: sum of the completed rows.
        second: sum of their products.
        conditional: sum of the conditional covariances of missing cells.
    """

    count: Float[Array, " K"]
    first: Float[Array, " K *extra D"]
    second: Float[Array, " K *extra D D"]
    conditional: Float[Array, " K *extra D D"]


def traced_log_likelihood(
    loc: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], summary: PatternMoments
) -> Float[Array, " K *extra"]:
    """Log-likelihood of the observed cells of the rows of each class. Differentiable in the parameters alone."""
    if summary.num_classes is None:
        return traced_log_likelihood(loc[None], scale_tril[None], dataclasses.replace(summary, num_classes=1))[0]
    return _log_likelihood(jnp.asarray(loc), jnp.asarray(scale_tril), summary)


@jax.custom_jvp
def _log_likelihood(
    loc: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], summary: PatternMoments
) -> Float[Array, " K *extra"]:
    return _expectation(loc, scale_tril, summary)[0]


@_log_likelihood.defjvp
def _log_likelihood_jvp(
    primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Float[Array, " K *extra"], Float[Array, " K *extra"]]:
    loc, scale_tril, summary = primals
    value, expected = _expectation(loc, scale_tril, summary)
    slope = jax.jvp(
        lambda at_loc, factor: _complete_log_likelihood(at_loc - loc, factor, expected), (loc, scale_tril), tangents[:2]
    )[1]
    return value, slope


def _complete_log_likelihood(
    shift: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], expected: _Expected
) -> Float[Array, " K *extra"]:
    """Log-likelihood, up to a constant, of complete rows from their expected sums, means being shifted."""
    count = expected.count.reshape(-1, *(1,) * (shift.ndim - 1))
    cross = expected.first[..., :, None] * shift[..., None, :]
    squares = count[..., None] * shift[..., :, None] * shift[..., None, :]
    about = expected.second + expected.conditional - cross - jnp.swapaxes(cross, -1, -2) + squares
    whiten = inverse_lower(scale_tril)
    return -count[..., 0] * log_diagonal(scale_tril) - 0.5 * jnp.einsum("...ij,...jk,...ik->...", whiten, about, whiten)


def _expectation(
    loc: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], summary: PatternMoments
) -> tuple[Float[Array, " K *extra"], _Expected]:
    """The log-likelihood of the observed cells, and the expected sums. See `conditioning` for the formulas."""
    observed, classes, count = (jnp.asarray(a) for a in (summary.observed, summary.classes, summary.count))
    class_index = jnp.arange(len(loc))[:, None]
    weights = jnp.where(classes == class_index, count, 0.0)
    inverse = inverse_lower(scale_tril)
    precision = (jnp.swapaxes(inverse, -1, -2) @ inverse)[classes]
    residuals = jnp.where(observed, summary.mean - loc[classes], 0.0)
    rows, conditional, half_log_det = conditioned(precision, residuals, observed)
    groups = summary.spread_groups
    slope = jnp.einsum("s...ij,s...j->s...i", precision[groups], summary.spread)
    spread = summary.spread - jnp.einsum("s...ij,s...j->s...i", conditional[groups], slope)
    in_class = (classes[groups] == class_index).astype(float)
    expected = _Expected(
        weights.sum(1),
        jnp.einsum("kg,g...i->k...i", weights, rows),
        jnp.einsum("kg,g...i,g...j->k...ij", weights, rows, rows)
        + jnp.einsum("ks,s...i,s...j->k...ij", in_class, spread, spread),
        jnp.einsum("kg,g...ij->k...ij", weights, conditional),
    )
    distances = jnp.einsum("k...ij,k...jl,k...il->k...", inverse, expected.second, inverse)
    constant = jnp.einsum("kg,g...->k...", weights, 0.5 * LOG_2PI * observed.sum(-1) + half_log_det)
    counts = expected.count.reshape(-1, *(1,) * (distances.ndim - 1))
    return -counts * log_diagonal(scale_tril) - constant - 0.5 * distances, expected


@dataclasses.dataclass(frozen=True)
class MultivariateNormalLikelihood(Likelihood):
    """Jointly normal columns. Parameters: `loc` (K, *extra, D) and `scale_tril` (K, *extra, D, D)."""

    takes_squares = True
    cell_sums = CellSums.PRODUCTS

    def summary_of(self, sample: Sample) -> Moments | PatternMoments:
        """Centred moments and cross products by class. See `Likelihood.summarize`.

        Where cells are missing, those of each class and pattern of observed cells. Rows without observed cells are left
        out, because they slow EM down; in compiled functions, which meet no other missing cells, they get weight 0.
        """
        if sample.mask is not None and namespace(sample.mask) is jnp:
            row_weights = jnp.where(sample.mask.any(1), 1.0 if sample.weights is None else sample.weights, 0.0)
            sample = dataclasses.replace(sample, values=sample.cells(), weights=row_weights, observed=None)
        elif sample.mask is not None:
            has_cells = np.asarray(sample.mask).any(1)
            sample = sample if has_cells.all() else sample.take(np.flatnonzero(has_cells))
        values, classes, num_classes, weights = sample.values, sample.classes, sample.num_classes, sample.weights
        if sample.observed is not None and not np.all(sample.observed):
            return PatternMoments.from_rows(values, classes, num_classes, weights, sample.observed)
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
        xp = namespace(loc, scale_tril, summary.mean)
        if isinstance(summary, PatternMoments):
            return (traced_log_likelihood if xp is jnp else log_likelihood_of_groups)(loc, scale_tril, summary)
        whiten = self._whitening(parameters)
        count = trailing(summary.count, whiten.ndim - 2)
        shift = xp.einsum("...ij,...j->...i", whiten, summary.mean - loc)
        spread = xp.einsum("...ij,...jk,...ik->...", whiten, summary.scatter, whiten)
        constant = count * (0.5 * LOG_2PI * loc.shape[-1] - log_diagonal(whiten))
        return xp.asarray(summary.log_base - constant - 0.5 * (spread + count * (shift**2).sum(-1)))

    def _whitening(self, parameters: Parameters) -> Float[Array, "... D D"]:
        """Inverses of the Cholesky factors."""
        return inverse_lower(parameters["scale_tril"])

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
        first, second, halves = _column_pairs(dimension)
        squares = halves * (jnp.eye(dimension) - precision)[..., first, second]
        return jnp.concatenate([part.reshape(*constant.shape, -1) for part in (slope, squares)], -1), constant

    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        num_classes, _, dimension = self.loc.shape
        columns = jnp.moveaxis(values.reshape(len(values), *self.loc.shape[1:]), 0, -1)
        whitened = jnp.einsum("kmij,kmjn->kmin", self.inverse, columns - self.loc[..., None])
        first, second, _ = _column_pairs(dimension)
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


def _column_pairs(dimension: int) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """All pairs of columns, and the factors of their products in half a quadratic form."""
    first, second = np.triu_indices(dimension)
    return first, second, np.where(first == second, 0.5, 1.0)


@dataclasses.dataclass(frozen=True)
class WhitenedNormalLikelihood(MultivariateNormalLikelihood):
    """Jointly normal columns. Parameters: `loc`, `scale_tril`, and its inverse `whitening`, (K, *extra, D, D)."""

    def _whitening(self, parameters: Parameters) -> Float[Array, "... D D"]:
        return parameters["whitening"]


# Jointly normal columns whose covariance is of low rank but for a diagonal: a few factors, and noise.

# columns, and columns a factor, from which on factors cost less: `_factors` in benchmarks/surfaces
MANY_COLUMNS, COLUMNS_PER_FACTOR = 20, 3


@dataclasses.dataclass(frozen=True)
class LowRankNormalLikelihood(MultivariateNormalLikelihood):
    """Jointly normal columns with covariance W W' + diag(c).

    Parameters: `loc` and `scale_tril`, as of any jointly normal columns, and beside them `cov_factor` W
    (K, *extra, D, k) and `cov_diag` c (K, *extra, D), by which likelihoods cost less. The sufficient statistics of rows
    are those of any jointly normal columns: moments, by pattern where cells are missing.
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
        residual = shift - xp.einsum("...dk,...k->...d", factor, factors)
        mean_squares = (residual**2 / noise).sum(-1) + (factors**2).sum(-1)
        factor_scatter = expected @ scatter
        left = scatter - factor @ factor_scatter  # (I - W Z) S, and below the diagonal of (I - W Z) S (I - W Z)'
        noises = xp.diagonal(left, axis1=-2, axis2=-1) - ((left @ xp.swapaxes(expected, -1, -2)) * factor).sum(-1)
        scatter_squares = (noises / noise).sum(-1) + (factor_scatter * expected).sum((-2, -1))
        constant = count * (half_log_det + 0.5 * LOG_2PI * dimension)
        return xp.asarray(summary.log_base - constant - 0.5 * (scatter_squares + count * mean_squares))
