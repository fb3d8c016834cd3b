"""The E-step of jointly normal rows: complete rows given their observed cells, and the log-likelihood of these cells.

Source: Little and Rubin (2019), Statistical Analysis with Missing Data, section 11.2; Ghahramani and Jordan (1994),
Supervised learning from incomplete data via an EM approach, section 3.2.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record
from bayesgen.runtime import all_in_threads
from bayesgen.typing import Array, Float

from .arrays import LOG_2PI, inverse_lower, log_diagonal
from .conditioning import Conditioned, Part, condition, conditioned, parts_of
from .patterns import PatternMoments
from .summaries import Moments

THREAD_CELLS = 1 << 17  # of means of groups, from which on threads pay


def expected_moments(
    summary: PatternMoments, loc: Float[Array, "K D"], scale_tril: Float[Array, "K D D"]
) -> tuple[Moments, Float[np.ndarray, " K"]]:
    """Expected moments of complete rows given their observed cells, and the log-likelihood of these, by class.

    Missing cells have their conditional means, and the scatter includes their conditional covariances.
    """
    (num_classes, dimension), loc, inverse = loc.shape, np.asarray(loc), inverse_lower(np.asarray(scale_tril))
    precision, classes = np.swapaxes(inverse, -1, -2) @ inverse, np.asarray(summary.classes)
    jobs = []
    for k in range(num_classes):
        groups = np.flatnonzero(classes == k)
        parts = parts_of(np.asarray(summary.observed)[groups], np.arange(len(groups)))
        jobs += [(k, dataclasses.replace(part, rows=groups[part.rows])) for part in parts]

    def of_part(job: tuple[int, Part]) -> tuple[Moments, Float[np.ndarray, "D D"]]:
        k, part = job
        return _of_part(summary, part, loc[k], precision[k])

    found = all_in_threads(of_part, jobs) if summary.mean.size > THREAD_CELLS else map(of_part, jobs)
    square = np.zeros((1, dimension, dimension))
    totals = [Moments(np.zeros(1), np.zeros((1, dimension)), square, np.zeros(1))] * num_classes
    conditional = np.zeros((num_classes, dimension, dimension))
    for (k, _), (moments, of_missing) in zip(jobs, found, strict=True):
        totals[k] = totals[k]._merged(moments)
        conditional[k] += of_missing
    whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *totals)
    about_loc = whole.scatter + whole.count[:, None, None] * whole.mean[:, :, None] * whole.mean[:, None, :]
    distances = np.einsum("kij,kij->k", precision, about_loc)
    log_likelihood = whole.log_base - whole.count * log_diagonal(np.asarray(scale_tril)) - 0.5 * distances
    mean = np.where(whole.count[:, None] > 0, loc + whole.mean, 0.0)
    return Moments(whole.count, mean, whole.scatter + conditional, np.zeros(num_classes)), log_likelihood


def _of_part(
    summary: PatternMoments, part: Part, loc: Float[np.ndarray, " D"], precision: Float[np.ndarray, "D D"]
) -> tuple[Moments, Float[np.ndarray, "D D"]]:
    """Moments about `loc` of a part of the groups of a class, completed, and the sum of conditional covariances.

    In place of a log base, the moments hold the log-likelihood but for distances and the determinant of the class.
    """
    observed, means = np.asarray(summary.observed), np.asarray(summary.mean)
    given, count = condition(loc, precision, means, observed, part), np.asarray(summary.count)[part.rows]
    total, size = count.sum(), given.missing.shape[1]
    shift = count @ given.residuals / (total or 1.0)
    centred = given.residuals - shift
    scatter = (count[:, None] * centred).T @ centred + _completed_scatter(summary, part, given, precision)
    places, dimension = given.missing.T, len(loc)
    places = (places[:, None] * dimension + places[None]).ravel()
    of_missing = np.bincount(places, (count * given.covariance).ravel(), dimension**2).reshape(dimension, dimension)
    log_terms = -count @ given.half_log_det - 0.5 * LOG_2PI * total * (dimension - size)
    return Moments(total[None], shift[None], scatter[None], log_terms[None]), of_missing


def _completed_scatter(
    summary: PatternMoments, part: Part, given: Conditioned, precision: Float[np.ndarray, "D D"]
) -> Float[np.ndarray, "D D"]:
    """The sum of the scatter matrices of groups, completed: missing cells are linear in the observed ones."""
    first, last = np.searchsorted(summary.scatter_groups, [part.rows[0], part.rows[-1] + 1])
    groups, scatter = summary.scatter_groups[first:last] - part.rows[0], np.asarray(summary.scatter[first:last])
    missing = given.missing[groups]
    if not missing.size:
        return scatter.sum(0)
    maps = np.tile(np.eye(len(precision)), (len(groups), 1, 1))
    slopes = np.ascontiguousarray(np.moveaxis(given.covariance[:, :, groups], -1, 0)) @ precision[missing]
    np.put_along_axis(maps, missing[:, :, None], -slopes, 1)
    return (maps @ scatter @ np.swapaxes(maps, -1, -2)).sum(0)


def log_likelihood_of_groups(
    loc: Float[Array, " K *extra D"], scale_tril: Float[Array, " K *extra D D"], summary: PatternMoments
) -> Float[np.ndarray, " K *extra"]:
    """Log-likelihood of the observed cells of the rows of each class."""
    if summary.num_classes is None:
        return log_likelihood_of_groups(loc[None], scale_tril[None], dataclasses.replace(summary, num_classes=1))[0]
    total = np.empty(loc.shape[:-1])
    for extra in np.ndindex(loc.shape[1:-1]):
        place = (slice(None), *extra)
        of_extra = dataclasses.replace(
            summary, observed=summary.observed[place], mean=summary.mean[place], scatter=summary.scatter[place]
        )
        total[place] = expected_moments(of_extra, loc[place], scale_tril[place])[1]
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

    def of_whole_rows(at_loc: Float[Array, "..."], at_scale_tril: Float[Array, "..."]) -> Float[Array, "..."]:
        return _of_whole_rows(at_loc - loc, at_scale_tril, expected)

    return value, jax.jvp(of_whole_rows, (loc, scale_tril), tangents[:2])[1]


def _of_whole_rows(
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
    of_class = jnp.arange(len(loc))[:, None]
    weights = jnp.where(classes == of_class, count, 0.0)
    inverse = inverse_lower(scale_tril)
    precision = (jnp.swapaxes(inverse, -1, -2) @ inverse)[classes]
    residuals = jnp.where(observed, summary.mean - loc[classes], 0.0)
    rows, conditional, half_log_det = conditioned(precision, residuals, observed)
    spread, of_spread = summary.scatter_groups, classes[summary.scatter_groups] == of_class
    maps = jnp.eye(loc.shape[-1]) - conditional[spread] @ precision[spread]
    maps = jnp.where(observed[spread][..., None, :], maps, 0.0)
    within = jnp.einsum("...ij,...jk,...lk->...il", maps, summary.scatter, maps)
    expected = _Expected(
        weights.sum(1),
        jnp.einsum("kg,g...i->k...i", weights, rows),
        jnp.einsum("kg,g...i,g...j->k...ij", weights, rows, rows)
        + jnp.einsum("ks,s...ij->k...ij", of_spread.astype(float), within),
        jnp.einsum("kg,g...ij->k...ij", weights, conditional),
    )
    distances = jnp.einsum("k...ij,k...jl,k...il->k...", inverse, expected.second, inverse)
    constant = jnp.einsum("kg,g...->k...", weights, 0.5 * LOG_2PI * observed.sum(-1) + half_log_det)
    counts = expected.count.reshape(-1, *(1,) * (distances.ndim - 1))
    return -counts * log_diagonal(scale_tril) - constant - 0.5 * distances, expected
