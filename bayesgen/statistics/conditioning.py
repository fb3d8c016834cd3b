"""Normal rows given their observed cells, by blocks of the precision, which are small where few cells are missing.

With L = inv(S) the precision of a row, m its missing and o its observed cells, and r the row less its mean: given r_o,
the missing r_m are normal with mean -inv(L_mm) L_mo r_o and covariance inv(L_mm). The squared distance of the observed
cells is r' L r of the row completed by this mean; the log-determinant of their covariance is log|S| + log|L_mm|.

There is one function for each form in which rows and processes come:

    condition          many rows, some processes, in NumPy: patterns of missing cells share their blocks
    conditioned        any batch, traceable and differentiable: one shape for every pattern
    marginal_log_probs many rows, many processes: log densities alone, not differentiable
    last_given_rest    the last column given the others, many processes

Source: Rue and Held (2005), Gaussian Markov Random Fields, theorem 2.5; the marginal's distance and determinant by the
inverse of a partitioned matrix (Horn and Johnson 2013, section 0.7.3).
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record
from bayesgen.runtime import CACHED_CELLS, all_in_threads, chunks, even_chunks
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import LOG_2PI, correlations_of, inverse_lower, log_diagonal, namespace
from .patterns import PART_CELLS, Part, parts_of, patterns_of

MOST_APART = 1e3  # deviations between classes, beyond which differences of whitened rows lose four digits and more


@dataclasses.dataclass(frozen=True)
class Conditioned:
    """Rows of some classes given their observed cells.

    Attributes:
        residuals: the rows less their means, missing cells at their conditional means.
        factor: Cholesky factors of L_mm, of each class and pattern.
        half_log_det: half of log|L_mm|.
    """

    residuals: Float[np.ndarray, "k D g"]
    factor: Float[np.ndarray, "k s s p"]
    half_log_det: Float[np.ndarray, "k p"]


def condition(precision: Float[np.ndarray, "k D D"], residuals: Float[np.ndarray, "k D g"], part: Part) -> Conditioned:
    """A part of the rows given their observed cells, under some classes, from the precisions of these.

    Args:
        residuals: rows less the means of the classes. Missing cells, whose values are ignored, are completed in place.
    """
    (num_classes, _, num_rows), factor = residuals.shape, block_factors(precision, part.missing)
    if len(part.missing):
        cells = part.missing[:, part.pattern] * num_rows + np.arange(num_rows)
        flat = residuals.reshape(num_classes, -1)
        flat[:, cells] = 0.0
        slope = np.take((precision @ residuals).reshape(num_classes, -1), cells, axis=1)
        factor_of_row = factor[..., part.pattern]
        flat[:, cells] = -solve_transposed(factor_of_row, solve_lower(factor_of_row, slope))
    return Conditioned(residuals, factor, np.log(np.einsum("kiip->kip", factor)).sum(1))


def block_factors(
    precision: Float[np.ndarray, "k D D"], missing: Int[np.ndarray, "s p"]
) -> Float[np.ndarray, "k s s p"]:
    """Cholesky factors of L_mm for sets m of missing columns; entries above their diagonals are undefined.

    All sets at once, column by column: LAPACK, called for one matrix after another, takes several times as long for
    small ones (`missing` in benchmarks).
    """
    (num_classes, dimension, _), (size, num_sets) = precision.shape, missing.shape
    factor, entries = np.empty((num_classes, size, size, num_sets)), precision.reshape(num_classes, -1)
    starts = missing * dimension
    for j in range(size):
        column = np.take(entries, starts[j:] + missing[j], axis=1)
        column -= np.einsum("kijp,kjp->kip", factor[:, j:, :j], factor[:, j, :j])
        np.sqrt(column[:, 0], out=factor[:, j, j])
        np.divide(column[:, 1:], factor[:, j, None, j], out=factor[:, j + 1 :, j])
    return factor


def solve_lower(factor: Float[np.ndarray, "k s s g"], values: Float[np.ndarray, "k s g"]) -> Float[np.ndarray, "k s g"]:
    """The values multiplied by the inverses of lower-triangular matrices, in place."""
    for j in range(values.shape[1]):
        values[:, j] -= np.einsum("kjg,kjg->kg", factor[:, j, :j], values[:, :j])
        values[:, j] /= factor[:, j, j]
    return values


def solve_transposed(
    factor: Float[np.ndarray, "k s s g"], values: Float[np.ndarray, "k s g"]
) -> Float[np.ndarray, "k s g"]:
    """The values multiplied by the inverses of the transposes of lower-triangular matrices, in place."""
    for j in reversed(range(values.shape[1])):
        values[:, j] -= np.einsum("kjg,kjg->kg", factor[:, j + 1 :, j], values[:, j + 1 :])
        values[:, j] /= factor[:, j, j]
    return values


def conditioned_parts(
    loc: Float[np.ndarray, "K D"],
    precision: Float[np.ndarray, "K D D"],
    rows: Float[np.ndarray, "n D"],
    observed: Bool[np.ndarray, "n D"],
) -> Iterator[tuple[Part, slice, Conditioned]]:
    """The rows given their observed cells: parts of the rows, under some successive classes each."""
    for part in parts_of(*patterns_of(observed)):
        columns = np.ascontiguousarray(rows[part.rows].T)
        for classes in chunks(len(loc), PART_CELLS // max(len(part.missing) ** 2 * len(part.rows), columns.size)):
            yield part, classes, condition(precision[classes], columns - loc[classes, :, None], part)


# --- traceable forms, of one shape for every pattern ------------------------------------------------------------


def conditioned(
    precision: Float[Array, "... D D"], residuals: Float[Array, "... D"], observed: Bool[Array, "... D"]
) -> tuple[Float[Array, "... D"], Float[Array, "... D D"], Float[Array, "..."]]:
    """Completed rows less their means, conditional covariances (0 elsewhere), and half of log|L_mm|.

    With O = diag(observed), (I - O) L (I - O) + O has the determinant of L_mm. Residuals are zero where cells are
    missing.
    """
    missing = ~jnp.asarray(observed)
    both_missing = missing[..., :, None] & missing[..., None, :]
    root = inverse_lower(jnp.linalg.cholesky(jnp.where(both_missing, precision, jnp.eye(residuals.shape[-1]))))
    covariance = jnp.where(both_missing, jnp.swapaxes(root, -1, -2) @ root, 0.0)
    slope = jnp.einsum("...ij,...j->...i", precision, residuals)
    return residuals - jnp.einsum("...ij,...j->...i", covariance, slope), covariance, -log_diagonal(root)


def observed_distances(
    loc: Float[Array, "... D"],
    scale_tril: Float[Array, "... D D"],
    rows: Float[Array, "... D"],
    observed: Bool[Array, "... D"],
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Squared distances in the observed columns, and half the log-determinants of their covariances."""
    inverse = inverse_lower(scale_tril)
    residuals = jnp.where(observed, rows - loc, 0.0)
    completed, _, half_log_det = conditioned(jnp.swapaxes(inverse, -1, -2) @ inverse, residuals, observed)
    whitened = jnp.einsum("...ij,...j->...i", inverse, completed)
    return (whitened**2).sum(-1), half_log_det + log_diagonal(scale_tril)


def marginal_log_probs(
    loc: Float[Array, "B D"],
    scale_tril: Float[Array, "B D D"],
    rows: Float[Array, "n D"],
    observed: Bool[Array, "n D"],
) -> Float[Array, "n B"]:
    """Log densities of the observed cells of each row under each of many normal distributions. Not differentiable.

    The missing columns are eliminated from the precisions one after another, for all distributions at once. This leaves
    the inverse covariances of the observed columns, and the pivots are the ratios of determinants. Most rows have few
    missing cells, so this is faster than a Cholesky factor for each row and distribution: `missing` in benchmarks.
    """
    inverse = inverse_lower(scale_tril)
    precision = jnp.moveaxis(jnp.swapaxes(inverse, -1, -2) @ inverse, 0, -1)  # distributions last: neighbours in memory
    constant = -log_diagonal(inverse)
    means = loc.T

    def row_log_probs(row_and_mask: tuple[Float[Array, " D"], Bool[Array, " D"]]) -> Float[Array, " B"]:
        row, mask = row_and_mask
        column_order, num_missing = jnp.argsort(mask), (~mask).sum()  # those that are missing come first

        def eliminated(
            index: Array, state: tuple[Float[Array, "D D B"], Float[Array, " B"]]
        ) -> tuple[Float[Array, "D D B"], Float[Array, " B"]]:
            left, half_log_det = state
            column = left[column_order[index]]
            pivot = column[column_order[index]]
            return left - column[:, None] * (column / pivot)[None], half_log_det + 0.5 * jnp.log(pivot)

        left, half_log_det = jax.lax.fori_loop(0, num_missing, eliminated, (precision, constant))
        residuals = jnp.where(mask[:, None], row[:, None] - means, 0.0)
        squares = jnp.einsum("ib,ijb,jb->b", residuals, left, residuals)
        return -0.5 * (squares + LOG_2PI * mask.sum()) - half_log_det

    return jax.lax.map(row_log_probs, (jnp.where(observed, rows, 0.0), jnp.asarray(observed)))


# --- distances, means and draws of rows, for all classes --------------------------------------------------------


@record
class Distances:
    """Distances of rows from classes; the site's extra axes are flattened into one, m.

    Attributes:
        squares: squared distances.
        half_log_det: half the log-determinants of the covariances of the observed cells.
        dimension: the number of these cells.
    """

    squares: Float[Array, "n K m"]
    half_log_det: Float[Array, "#n K m"]
    dimension: Int[Array, "#n 1 m"]


@record
class Ellipsoids:
    """Means and Cholesky factors of K classes, and the inverses of these; extra axes are flattened into one, m."""

    loc: Float[Array, "K m D"]
    scale_tril: Float[Array, "K m D D"]
    inverse: Float[Array, "K m D D"]

    @classmethod
    def of(cls, loc: Float[Array, "K *extra D"], scale_tril: Float[Array, "K *extra D D"]) -> "Ellipsoids":
        """Invert the factors once."""
        num_classes, *extra, dimension = loc.shape
        loc = loc.reshape(num_classes, math.prod(extra), dimension)
        scale_tril = scale_tril.reshape(*loc.shape, dimension)
        return cls(loc, scale_tril, inverse_lower(scale_tril))

    def distances(self, values: Real[Array, "n ..."], observed: Bool[Array, "n ..."] | None = None) -> Distances:
        """Distances of rows (n, *extra, D) from each class, in the observed columns."""
        rows = values.reshape(len(values), *self.loc.shape[1:])
        mask = None if observed is None else observed.reshape(rows.shape)
        xp = namespace(rows, mask, self.loc)
        if mask is not None:
            function = self._row_by_row if xp is jnp else self._by_pattern
            return Distances(*function(xp.asarray(rows), xp.asarray(mask)), mask.sum(-1)[:, None])
        dimension, half_log_det = np.full((1, 1, rows.shape[1]), rows.shape[2]), log_diagonal(self.scale_tril)[None]
        if xp is jnp:
            squares = jax.vmap(functools.partial(_squared_distances, rows), out_axes=1)(self.loc, self.inverse)
            return Distances(squares, half_log_det, dimension)
        return Distances(self._complete_squares(np.asarray(rows)), half_log_det, dimension)

    def means_and_precisions(self, index: int = 0) -> tuple[Float[np.ndarray, "K D"], Float[np.ndarray, "K D D"]]:
        """Means and precision matrices of the classes, at an index of the extra axis."""
        inverse = np.asarray(self.inverse[:, index])
        return np.asarray(self.loc[:, index]), np.swapaxes(inverse, -1, -2) @ inverse

    def _complete_squares(self, rows: Real[np.ndarray, "n m D"]) -> Float[np.ndarray, "n K m"]:
        """Squared distances of complete rows, columns of a chunk in long vectors."""
        (loc, inverse), squares = map(np.asarray, (self.loc, self.inverse)), np.empty((*self.loc.shape[:2], len(rows)))
        distances = (loc - loc[:1])[..., None]
        is_near = (np.abs(inverse) @ np.abs(distances) <= MOST_APART).all()  # else differences lose digits
        is_shared = bool((inverse == inverse[:1]).all() and is_near)  # then rows are whitened once for all classes
        centers = (inverse @ distances)[..., 0] if is_shared else loc
        for part in chunks(len(rows), max(CACHED_CELLS // max(4 * self.loc[0].size, 1), 256)):
            columns = np.moveaxis(rows[part], 0, -1).copy()
            residuals, whitened = np.empty((2, *columns.shape[1:]))
            if is_shared:
                columns = inverse[0] @ (columns - loc[0][..., None])
            for place in np.ndindex(*self.loc.shape[:2]):
                np.subtract(columns[place[1]], centers[place][:, None], out=residuals)
                squared = residuals if is_shared else np.matmul(inverse[place], residuals, out=whitened)
                squared *= squared
                squared.sum(0, out=squares[(*place, part)])
        return np.moveaxis(squares, -1, 0)

    def _by_pattern(
        self, rows: Float[np.ndarray, "n m D"], mask: Bool[np.ndarray, "n m D"]
    ) -> tuple[Float[np.ndarray, "n K m"], Float[np.ndarray, "n K m"]]:
        """Squared distances and half log-determinants, rows with the same number of missing cells together."""
        squares, half_log_det = np.empty((2, *self.loc.shape[:2], len(rows)))
        for index in range(self.loc.shape[1]):
            at = (*self.means_and_precisions(index), rows[:, index], mask[:, index])
            for part, classes, conditional in conditioned_parts(*at):
                whitened = np.asarray(self.inverse[classes, index]) @ conditional.residuals
                squares[classes, index, part.rows] = np.einsum("kdg,kdg->kg", whitened, whitened)
                half_log_det[classes, index, part.rows] = conditional.half_log_det[:, part.pattern]
        return np.moveaxis(squares, -1, 0), np.moveaxis(half_log_det, -1, 0) + log_diagonal(self.scale_tril)

    def _row_by_row(
        self, rows: Float[Array, "n m D"], mask: Bool[Array, "n m D"]
    ) -> tuple[Float[Array, "n K m"], Float[Array, "n K m"]]:
        """The traced form, in which patterns are not known: each row has a Cholesky factor of its own."""
        loc, scale_tril = jnp.asarray(self.loc), jnp.asarray(self.scale_tril)
        most = max(CACHED_CELLS // max(scale_tril.size, 1), 1)
        at = (jnp.asarray(rows), jnp.asarray(mask))
        squares, half_log_det = jax.lax.map(lambda row: observed_distances(loc, scale_tril, *row), at, batch_size=most)
        return squares, half_log_det


def _squared_distances(
    rows: Float[Array, "n m D"], loc: Float[Array, "m D"], inverse: Float[Array, "m D D"]
) -> Float[Array, "n m"]:
    return (jnp.einsum("nmd,med->nme", rows - loc, inverse) ** 2).sum(-1)


def conditional_means(
    ellipsoids: Ellipsoids, values: Array, observed: Bool[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K D"]:
    """Rows completed by the means of missing columns given the observed ones, under each class."""
    means = np.empty((len(values), len(ellipsoids.loc), values.shape[1]))
    loc, precision = ellipsoids.means_and_precisions()
    for part, classes, conditional in conditioned_parts(loc, precision, np.asarray(values), observed):
        means[part.rows, classes] = loc[classes] + np.moveaxis(conditional.residuals, -1, 0)
    return means


def conditional_draws(
    ellipsoids: Ellipsoids,
    values: Array,
    observed: Bool[np.ndarray, "n D"],
    classes: Int[np.ndarray, " n"],
    rng: np.random.Generator,
    df: Float[np.ndarray, " K"] | None = None,
) -> Float[np.ndarray, "n D"]:
    """Rows completed by draws of missing columns given the observed ones and the class.

    Rows are jointly normal, or multivariate Student t with these degrees of freedom. Then the missing columns are
    Student t, too, with one more degree of freedom for each observed column, and a scale that grows with the distance
    of these.

    Source: Ding (2016), On the conditional distribution of the multivariate t distribution, section 2.
    """
    draws, (loc, precision) = np.empty(values.shape), ellipsoids.means_and_precisions()
    for k in range(len(loc)):
        members = np.flatnonzero(classes == k)
        at = (loc[[k]], precision[[k]], np.asarray(values)[members], observed[members])
        for part, _, conditional in conditioned_parts(*at):
            residuals, missing = conditional.residuals[0].T, part.missing[:, part.pattern].T
            noise = rng.standard_normal(missing.shape).T[None]
            deviations = solve_transposed(conditional.factor[..., part.pattern], noise)[0].T
            if df is not None:
                squares = np.einsum("gd,gd->g", residuals @ precision[k], residuals)
                freedom = df[k] + len(loc[k]) - missing.shape[1]
                deviations = deviations * np.sqrt((df[k] + squares) / rng.chisquare(freedom, len(squares)))[:, None]
            completed = loc[k] + residuals
            np.put_along_axis(completed, missing, np.take_along_axis(completed, missing, 1) + deviations, 1)
            draws[members[part.rows]] = completed
    return draws


# --- the last column, under many processes ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LastGivenRest:
    """The last of P columns given the D = P - 1 others, under each of S processes.

    Attributes:
        loc: conditional locations.
        scale: conditional deviations of normal rows; roots of the conditional scale of Student-t rows.
        squares: squared distances of the other observed columns.
        half_log_det: half the log-determinants of the covariances, or scale matrices, of these.
        num_observed: the number of these.
    """

    loc: Float[np.ndarray, "S n"]
    scale: Float[np.ndarray, "S n"]
    squares: Float[np.ndarray, "S n"] | None
    half_log_det: Float[np.ndarray, "S n"]
    num_observed: Int[np.ndarray, " #n"]


def last_given_rest(
    loc: Float[np.ndarray, "S P"],
    matrix: Float[np.ndarray, "S P P"],
    rows: Float[np.ndarray, "n D"],
    observed: Bool[np.ndarray, "n D"] | None = None,
    *,
    with_squares: bool = False,
) -> LastGivenRest:
    """Condition joint rows on the observed columns, for all processes at once.

    The last row of the Cholesky factor of the correlations of these and the last column has the regression and the
    residual deviation: no difference of large numbers is taken.

    Args:
        loc, matrix: means and covariances, or locations and scale matrices.
        rows: the other columns; values of missing cells are ignored.
        observed: mask of the observed cells; None where all are.
        with_squares: whether to compute squared distances.
    """
    observed = np.broadcast_to(True, rows.shape) if observed is None else observed
    mean = np.empty((len(loc), len(rows)))
    squares = np.empty(mean.shape) if with_squares else None
    center = loc[:, :-1].mean(0)  # subtracted from rows first, so that offsets lose no digits
    shift, deviations = loc[:, :-1] - center, np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
    correlations = correlations_of(matrix)
    patterns, pattern_of_row = patterns_of(observed)
    rows_by_pattern: Sequence[Int[np.ndarray, " _"] | slice] = [slice(None)]
    if len(patterns) > 1:
        by_pattern = np.argsort(pattern_of_row, kind="stable")
        rows_by_pattern = np.split(by_pattern, np.flatnonzero(np.diff(pattern_of_row[by_pattern])) + 1)

    def fill(
        mask: Bool[np.ndarray, " D"],
        slope: Float[np.ndarray, "S D"],
        constant: Float[np.ndarray, "S 1"],
        maps: Float[np.ndarray, "S D D"],
        places: Int[np.ndarray, " _"] | slice,
    ) -> None:
        residuals = np.subtract(rows[places].T, center[:, None], order="C")  # long vectors of columns
        residuals[~mask] = 0.0
        mean[:, places] = slope @ residuals + constant
        if squares is not None:
            for s, whiten in enumerate(maps):
                white = whiten @ residuals
                if shift[s].any():
                    white -= (whiten @ shift[s])[:, None]
                squares[s, places] = np.einsum("dn,dn->n", white, white)

    scale, half_log_det = np.empty((2, len(loc), len(patterns)))
    for index, (mask, members) in enumerate(zip(patterns, rows_by_pattern, strict=False)):
        is_used = np.append(mask, True)
        factor = np.linalg.cholesky(np.where(is_used[:, None] & is_used, correlations, np.eye(len(is_used))))
        inverse = np.linalg.inv(factor[:, :-1, :-1])
        slope = np.einsum("sd,sde->se", factor[:, -1, :-1], inverse) * deviations[:, -1:] / deviations[:, :-1]
        constant = (loc[:, -1] - (slope * shift).sum(1))[:, None]
        scale[:, index] = deviations[:, -1] * factor[:, -1, -1]
        log_deviations = np.where(mask, np.log(deviations[:, :-1]), 0.0).sum(1)
        half_log_det[:, index] = log_diagonal(factor[:, :-1, :-1]) + log_deviations
        fill_places = functools.partial(fill, mask, slope, constant, inverse / deviations[:, None, :-1] * mask)
        parts = even_chunks(len(pattern_of_row[members]), CACHED_CELLS / 4 / matrix.shape[-1])
        all_in_threads(fill_places, parts if isinstance(members, slice) else [members[part] for part in parts])
    pattern_index = slice(None) if len(patterns) == 1 else pattern_of_row
    scale, half_log_det = (np.broadcast_to(table[:, pattern_index], mean.shape) for table in (scale, half_log_det))
    return LastGivenRest(mean, scale, squares, half_log_det, patterns.sum(1)[pattern_index])
