"""Missing cells of normal rows given the observed ones, by blocks of the precision, which are small where few lack.

With L = inv(S) the precision of a row, m its missing and o its observed cells, and r the row less its mean: given r_o,
the missing r_m are normal with mean -inv(L_mm) L_mo r_o and covariance inv(L_mm). The squared distance of the observed
cells is r' L r of the row completed by this mean; the log-determinant of their covariance is log|S| + log|L_mm|.

Source: Rue and Held (2005), Gaussian Markov Random Fields, theorem 2.5; the marginal's distance and determinant by the
inverse of a partitioned matrix (Horn and Johnson 2013, section 0.7.3).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.runtime import all_in_threads, chunks
from bayesgen.typing import Array, Bool, Float, Int

from .arrays import LOG_2PI, inverse_lower, log_diagonal
from .patterns import PatternMoments, patterns_of
from .summaries import Moments

BLOCK_CELLS = 1 << 15  # of blocks that are inverted at once, to stay in cache
THREAD_CELLS = 1 << 17  # of means of groups, from which on threads pay


def completed_rows(
    precision: Float[Array, "... D D"], residuals: Float[Array, "... D"], observed: Bool[Array, "... D"]
) -> tuple[Float[Array, "... D"], Float[Array, "..."]]:
    """Rows less their means, completed by conditional means, and half of log|L_mm|.

    The traceable form, of one shape for every pattern: with O = diag(observed), (I - O) L (I - O) + O has the
    determinant of L_mm. Residuals are zero where cells are missing.
    """
    missing = ~jnp.asarray(observed)
    both = missing[..., :, None] & missing[..., None, :]
    factor = jnp.linalg.cholesky(jnp.where(both, precision, jnp.eye(residuals.shape[-1])))
    slope = jnp.where(missing, jnp.einsum("...ij,...j->...i", precision, residuals), 0.0)
    half = jax.scipy.linalg.solve_triangular(factor, slope[..., None], lower=True)
    filling = jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)[..., 0]
    return residuals - filling, log_diagonal(factor)


def inverse_blocks(
    precision: Float[np.ndarray, "D D"], missing: Int[np.ndarray, "g s"]
) -> tuple[Float[np.ndarray, "s s g"], Float[np.ndarray, " g"]]:
    """inv(L_mm) and half of log|L_mm| for sets m of missing columns.

    All sets at once, by symmetric sweeps (Goodnight 1979, A tutorial on the SWEEP operator, section 3): positive
    definite matrices need no pivoting. LAPACK, called for one matrix after another, takes several times as long for
    small ones: `missing` in benchmarks.
    """
    places = missing.T
    blocks = precision[places[:, None], places[None]]
    half_log_det, product = np.zeros(len(missing)), np.empty_like(blocks)
    for index in range(len(blocks)):
        pivot = blocks[index, index].copy()
        half_log_det += 0.5 * np.log(pivot)
        column = blocks[index].copy()
        scaled = column / pivot
        blocks -= np.multiply(column[:, None], scaled[None], out=product)
        blocks[index] = blocks[:, index] = scaled
        blocks[index, index] = -1.0 / pivot
    return np.negative(blocks, out=blocks), half_log_det


# --- rows, for their densities ----------------------------------------------------------------------------------


def marginal_squares(
    loc: Float[Array, "K D"],
    inverse: Float[Array, "K D D"],
    rows: Float[Array, "n D"],
    observed: Bool[Array, "n D"],
) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
    """Squared distances of rows from classes in the observed columns, and half of log|L_mm|.

    Args:
        loc: means.
        inverse: inverses of the Cholesky factors of the covariances, whose squares are the precisions.
        rows: zero where cells are missing.
        observed: mask of the observed cells.
    """
    precision = np.asarray(np.swapaxes(inverse, -1, -2) @ inverse)
    patterns, of_row = (np.asarray(array) for array in patterns_of(observed))
    num_missing = (~patterns).sum(1)
    order = np.argsort(of_row, kind="stable")
    squares, half_log_det = np.empty((2, len(rows), len(loc)))
    for part in _parts(num_missing[of_row[order]], loc.shape[1]):
        places = order[part]
        first, last = of_row[places[0]], of_row[places[-1]]
        missing = _places(~patterns[first : last + 1])
        pattern, cells, mask = of_row[places] - first, rows[places], observed[places]
        for k in range(len(loc)):
            residuals = np.where(mask, cells - loc[k], 0.0)
            blocks, half_logs = inverse_blocks(precision[k], missing)
            _complete(residuals, precision[k], missing[pattern], blocks[:, :, pattern])
            whitened = residuals @ inverse[k].T
            squares[places, k] = np.einsum("nd,nd->n", whitened, whitened)
            half_log_det[places, k] = half_logs[pattern]
    return squares, half_log_det


def _complete(
    residuals: Float[np.ndarray, "g D"],
    precision: Float[np.ndarray, "D D"],
    missing: Int[np.ndarray, "g s"],
    blocks: Float[np.ndarray, "s s g"],
) -> None:
    """Put the conditional means into the missing cells."""
    slope = np.take_along_axis(residuals @ precision, missing, 1).T
    np.put_along_axis(residuals, missing, -np.einsum("ijg,jg->gi", blocks, slope), 1)


def _places(missing: Bool[np.ndarray, "g D"]) -> Int[np.ndarray, "g s"]:
    """The missing columns, of rows with the same number of them."""
    return np.nonzero(missing)[1].reshape(len(missing), -1)


def _parts(
    num_missing: Int[np.ndarray, " n"], dimension: int, classes: Int[np.ndarray, " n"] | None = None
) -> list[slice]:
    """Slices of successive rows (of one class) with the same number of missing cells, which fit into cache."""
    changes = np.diff(num_missing, append=-1) != 0
    changes = changes if classes is None else changes | (np.diff(classes, append=-1) != 0)
    parts, start = [], 0
    for end in (np.flatnonzero(changes) + 1).tolist():
        most = BLOCK_CELLS // max(int(num_missing[start]) ** 2, dimension)
        parts += [slice(start + part.start, start + part.stop) for part in chunks(end - start, max(most, 1))]
        start = end
    return parts


# --- groups of rows, for EM -------------------------------------------------------------------------------------


def expected_moments(
    summary: PatternMoments, loc: Float[Array, "K D"], scale_tril: Float[Array, "K D D"]
) -> tuple[Moments, Float[np.ndarray, " K"]]:
    """Expected moments of complete rows given their observed cells, and the log-likelihood of these, by class.

    This is the E-step of EM: missing cells have their conditional means, and the scatter includes their conditional
    covariances.

    Source: Little and Rubin (2019), Statistical Analysis with Missing Data, section 11.2; Ghahramani and Jordan
    (1994), Supervised learning from incomplete data via an EM approach, section 3.2.
    """
    num_classes, dimension = loc.shape
    loc, inverse, classes = np.asarray(loc), inverse_lower(scale_tril), np.asarray(summary.classes)
    precision = np.asarray(np.swapaxes(inverse, -1, -2) @ inverse)
    parts = _parts((~np.asarray(summary.observed)).sum(1), dimension, classes)

    def of_part(part: slice) -> tuple[int, "_Expected"]:
        k = int(classes[part.start])
        return k, _expected(summary, part, loc[k], precision[k])

    mapped = all_in_threads(of_part, parts) if summary.mean.size > THREAD_CELLS else map(of_part, parts)
    totals = [_Expected.nothing(dimension) for _ in range(num_classes)]
    for k, found in mapped:
        totals[k] = totals[k].merged(found)
    count, log_terms = (np.array([getattr(total, name) for total in totals]) for name in ("count", "log_terms"))
    shift, scatter, conditional = (
        np.stack([getattr(total, name) for total in totals]) for name in ("shift", "scatter", "conditional")
    )
    about_loc = scatter + count[:, None, None] * shift[:, :, None] * shift[:, None, :]
    distances = np.einsum("kij,kij->k", precision, about_loc)
    log_likelihood = log_terms - count * log_diagonal(scale_tril) - 0.5 * distances
    mean = np.where(count[:, None] > 0, loc + shift, 0.0)
    return Moments(count, mean, scatter + conditional, np.zeros(num_classes)), log_likelihood


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


@dataclasses.dataclass(frozen=True)
class _Expected:
    """Expected moments of groups of one class.

    Attributes:
        count: weight of the rows.
        shift: mean of the completed rows, less the mean at which they were completed.
        scatter: of the completed rows about their mean.
        conditional: sum of the conditional covariances.
        log_terms: the log-likelihood but for distances and the determinant of the class.
    """

    count: float
    shift: Float[np.ndarray, " D"]
    scatter: Float[np.ndarray, "D D"]
    conditional: Float[np.ndarray, "D D"]
    log_terms: float

    @classmethod
    def nothing(cls, dimension: int) -> "_Expected":
        """The moments of no rows."""
        square = np.zeros((dimension, dimension))
        return cls(0.0, np.zeros(dimension), square, square, 0.0)

    def merged(self, other: "_Expected") -> "_Expected":
        """The moments of both, by the pairwise formula."""
        count = self.count + other.count
        share, delta = other.count / (count or 1.0), other.shift - self.shift
        return _Expected(
            count,
            self.shift + share * delta,
            self.scatter + other.scatter + self.count * share * np.outer(delta, delta),
            self.conditional + other.conditional,
            self.log_terms + other.log_terms,
        )


def _expected(
    summary: PatternMoments, part: slice, loc: Float[np.ndarray, " D"], precision: Float[np.ndarray, "D D"]
) -> _Expected:
    """Expected moments of groups of one class with the same number of missing cells."""
    observed, count, means = (np.asarray(a[part]) for a in (summary.observed, summary.count, summary.mean))
    dimension, missing = len(loc), _places(~observed)
    blocks, half_logs = inverse_blocks(precision, missing)
    residuals = np.where(observed, means - loc, 0.0)
    _complete(residuals, precision, missing, blocks)
    total = count.sum()
    shift = count @ residuals / (total or 1.0)
    residuals -= shift
    scatter = (count[:, None] * residuals).T @ residuals + _completed_scatter(summary, part, precision, missing, blocks)
    places = missing.T
    conditional = _scattered(places[:, None] * dimension + places[None], count * blocks, dimension**2)
    log_terms = -count @ half_logs - 0.5 * LOG_2PI * total * (dimension - missing.shape[1])
    return _Expected(float(total), shift, scatter, conditional.reshape(dimension, dimension), float(log_terms))


def _completed_scatter(
    summary: PatternMoments,
    part: slice,
    precision: Float[np.ndarray, "D D"],
    missing: Int[np.ndarray, "g s"],
    blocks: Float[np.ndarray, "s s g"],
) -> Float[np.ndarray, "D D"]:
    """The sum of the scatter matrices of groups, completed: missing cells are linear in the observed ones."""
    first, last = np.searchsorted(summary.scatter_groups, [part.start, part.stop])
    groups = summary.scatter_groups[first:last] - part.start
    scatter, dimension = np.asarray(summary.scatter[first:last]), len(precision)
    total = scatter.sum(0)
    if not missing.shape[1] or not len(groups):
        return total
    places = missing[groups]
    slopes = -np.moveaxis(blocks[:, :, groups], -1, 0) @ precision[places]  # of missing cells on all others
    between = slopes @ scatter
    within = between @ np.swapaxes(slopes, -1, -2)
    columns = np.arange(dimension)
    cross = _scattered(places[:, :, None] * dimension + columns, between, dimension**2).reshape(dimension, dimension)
    corner = _scattered(places[:, :, None] * dimension + places[:, None], within, dimension**2)
    return total + cross + cross.T + corner.reshape(dimension, dimension)


def _scattered(
    places: Int[np.ndarray, "..."], terms: Float[np.ndarray, "..."], size: int
) -> Float[np.ndarray, " size"]:
    """Sums of terms by place."""
    return np.bincount(places.ravel(), weights=terms.ravel(), minlength=size).astype(np.float64)
