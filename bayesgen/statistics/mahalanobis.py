"""Squared Mahalanobis distances of rows from all classes, and conditional means and draws of missing columns."""

import abc
import dataclasses
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record
from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import filled, inverse_lower, log_diagonal, namespace
from .completion import BLOCK_CELLS, completed_rows, inverse_blocks, marginal_squares

WHITENED_CELLS, MIN_ROWS = 1 << 18, 64  # of rows x classes x columns, to stay in cache
FAR_CLASSES = 1e3  # standard deviations between classes that cost three digits of sixteen


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
    """Means and Cholesky factors of K classes, and the maps that whiten rows.

    Attributes:
        loc: extra axes flattened into one, m.
        scale_tril: likewise.
        whitening: the maps, in the fastest form that loses no digits.
    """

    loc: Float[Array, "K m D"]
    scale_tril: Float[Array, "K m D D"]
    whitening: "WhiteningMaps"

    @classmethod
    def of(cls, loc: Float[Array, "K *extra D"], scale_tril: Float[Array, "K *extra D D"]) -> "Ellipsoids":
        """Invert the factors once."""
        num_classes, *extra, dimension = loc.shape
        loc = loc.reshape(num_classes, math.prod(extra), dimension)
        scale_tril = scale_tril.reshape(*loc.shape, dimension)
        return cls(loc, scale_tril, whitening_of(loc, scale_tril))

    def distances(self, values: Real[Array, "n ..."], observed: Bool[Array, "n ..."] | None = None) -> Distances:
        """Distances of rows (n, *extra, D) from each class, in the observed columns."""
        rows = values.reshape(len(values), *self.loc.shape[1:])
        if observed is not None:
            mask = observed.reshape(rows.shape)
            rows = filled(rows, mask, 0.0)
            of_masked = self._row_by_row if namespace(rows, mask, self.loc) is jnp else self._by_pattern
            return of_masked(rows, mask)
        dimension = np.full((1, 1, self.loc.shape[1]), self.loc.shape[-1])
        return Distances(self.whitening.squares(rows), self.whitening.half_log_det[None], dimension)

    def _by_pattern(self, rows: Float[Array, "n m D"], mask: Bool[Array, "n m D"]) -> Distances:
        """Distances by the number of missing cells, complete rows apart."""
        squares, half_log_det = np.empty((2, len(rows), *self.loc.shape[:2]))
        inverse, whole = inverse_lower(self.scale_tril), mask.all((1, 2))
        squares[whole] = self.whitening.squares(rows[whole])
        half_log_det[:] = self.whitening.half_log_det
        rows, holes = rows[~whole], mask[~whole]
        for index in range(self.loc.shape[1]):
            loc, root = self.loc[:, index], inverse[:, index]
            squares[~whole, :, index], half_logs = marginal_squares(loc, root, rows[:, index], holes[:, index])
            half_log_det[~whole, :, index] += half_logs
        return Distances(squares, half_log_det, mask.sum(-1)[:, None])

    def _row_by_row(self, rows: Float[Array, "n m D"], mask: Bool[Array, "n m D"]) -> Distances:
        """The traced form, in which patterns are not known: each row has a Cholesky factor of its own."""
        inverse = inverse_lower(jnp.asarray(self.scale_tril))
        precision = jnp.swapaxes(inverse, -1, -2) @ inverse

        def of_row(
            row_and_mask: tuple[Float[Array, "m D"], Bool[Array, "m D"]],
        ) -> tuple[Float[Array, "K m"], Float[Array, "K m"]]:
            row, observed = row_and_mask
            residuals = jnp.where(observed, row - self.loc, 0.0)
            whole, half_logs = completed_rows(precision, residuals, observed)
            whitened = jnp.einsum("kmij,kmj->kmi", inverse, whole)
            return (whitened**2).sum(-1), half_logs

        most = max(BLOCK_CELLS // max(precision.size, 1), 1)
        squares, half_logs = jax.lax.map(of_row, (jnp.asarray(rows), jnp.asarray(mask)), batch_size=most)
        return Distances(squares, self.whitening.half_log_det + half_logs, mask.sum(-1)[:, None])


def restricted(
    loc: Float[Array, "... D"], scale_tril: Float[Array, "... D D"], mask: Bool[Array, "... D"]
) -> tuple[Float[Array, "... D"], Float[Array, "... D D"]]:
    """Means and Cholesky factors of the observed columns; of the others, 0 and those of the identity."""
    xp = namespace(loc, scale_tril, mask)
    both = mask[..., :, None] & mask[..., None, :]
    covariance = scale_tril @ xp.swapaxes(scale_tril, -1, -2)
    factor = xp.linalg.cholesky(xp.where(both, covariance, xp.eye(loc.shape[-1])))
    return xp.where(mask, loc, 0.0), factor


class WhiteningMaps(abc.ABC):
    """Maps under which the covariance of each class is the identity, and its mean 0."""

    half_log_det: Float[Array, "K m"]

    @abc.abstractmethod
    def squares(self, rows: Float[Array, "n m D"]) -> Float[Array, "n K m"]:
        """Squared lengths of rows that are whitened for each class."""

    @staticmethod
    def of(loc: Float[Array, "K m D"], scale_tril: Float[Array, "K m D D"]) -> "ClassWhitening":
        """The plain form."""
        inverse = inverse_lower(scale_tril)
        return ClassWhitening(loc, inverse, -log_diagonal(inverse))


@record
class ClassWhitening(WhiteningMaps):
    """Each class on its own: rows less its mean, times its inverse Cholesky factor."""

    loc: Float[Array, "K m D"]
    inverse: Float[Array, "K m D D"]
    half_log_det: Float[Array, "K m"]

    def squares(self, rows: Float[Array, "n m D"]) -> Float[Array, "n K m"]:
        xp = namespace(rows, self.loc)
        classes = [
            xp.einsum("nmd,med->nme", rows - loc, inverse) for loc, inverse in zip(self.loc, self.inverse, strict=True)
        ]
        return xp.stack([(whitened**2).sum(-1) for whitened in classes], 1)


@record
class CommonWhitening(WhiteningMaps):
    """All classes at once, by one matrix product a block of columns: affine maps of rows less one center.

    Attributes:
        center: the mean of the classes' means, subtracted first, so that offsets lose no digits.
        maps: factors of (row - center, 1).
    """

    center: Float[Array, "m D"]
    maps: Float[Array, "m E F"]
    half_log_det: Float[Array, "K m"]

    def squares(self, rows: Float[Array, "n m D"]) -> Float[Array, "n K m"]:
        """In chunks of rows that stay in the processor's cache."""
        parts = chunks(len(rows), max(WHITENED_CELLS // self.maps[0, 0].size, MIN_ROWS))
        return np.concatenate([self._squares(rows[part]) for part in parts or [slice(0)]])

    def _squares(self, rows: Float[Array, "n m D"]) -> Float[Array, "n K m"]:
        num_classes, dimension = len(self.half_log_det), rows.shape[-1]
        rows, ones = rows - self.center, np.ones((len(rows), 1))
        squares = []
        for index, maps in enumerate(self.maps):
            whitened = np.concatenate([rows[:, index], ones], 1) @ maps
            whitened = whitened.reshape(-1, num_classes, dimension)
            squares.append(np.einsum("nkd,nkd->nk", whitened, whitened))
        return np.stack(squares, -1)


def whitening_of(loc: Float[Array, "K m D"], scale_tril: Float[Array, "K m D D"]) -> WhiteningMaps:
    """All classes at once in NumPy, unless they lie so far apart that a common center loses digits; else one by one."""
    by_class = WhiteningMaps.of(loc, scale_tril)
    if namespace(loc, scale_tril) is jnp:
        return by_class
    center = loc.mean(0)
    shift = np.einsum("kmij,kmj->mki", by_class.inverse, center - loc)
    if not abs(shift).max(initial=0.0) <= FAR_CLASSES:
        return by_class
    linear = np.transpose(by_class.inverse, (1, 3, 0, 2))  # (m, D, K, D), the last axis whitened
    maps = np.concatenate([linear, shift[:, None]], 1)
    return CommonWhitening(center, maps.reshape(*maps.shape[:2], -1), by_class.half_log_det)


@dataclasses.dataclass(frozen=True)
class Completion:
    """The distribution of s missing columns in g rows of one class, given the observed ones.

    Attributes:
        members: positions of the rows.
        missing: the missing columns of each.
        mean: the conditional means of these.
        covariance: their conditional covariances.
        squares: squared distances of the observed columns.
    """

    members: Int[np.ndarray, " g"]
    missing: Int[np.ndarray, "g s"]
    mean: Float[np.ndarray, "g s"]
    covariance: Float[np.ndarray, "g s s"]
    squares: Float[np.ndarray, " g"]


def completions(
    loc: Float[np.ndarray, " D"],
    precision: Float[np.ndarray, "D D"],
    rows: Float[np.ndarray, "n D"],
    observed: Bool[np.ndarray, "n D"],
) -> Iterator[Completion]:
    """The rows with missing columns, a few at a time, of one class with this mean and precision."""
    num_missing = (~observed).sum(1)
    for number in np.unique(num_missing[num_missing > 0]).tolist():
        lacking = np.flatnonzero(num_missing == number)
        for part in chunks(len(lacking), max(BLOCK_CELLS // max(number**2, len(loc)), 1)):
            members = lacking[part]
            missing = np.nonzero(~observed[members])[1].reshape(-1, number)
            residuals = np.where(observed[members], rows[members] - loc, 0.0)
            blocks, _ = inverse_blocks(precision, missing)
            slope = np.take_along_axis(residuals @ precision, missing, 1)
            shift = -np.einsum("ijg,gj->gi", blocks, slope)
            np.put_along_axis(residuals, missing, shift, 1)
            squares = np.einsum("gd,gd->g", residuals @ precision, residuals)
            yield Completion(members, missing, loc[missing] + shift, np.moveaxis(blocks, -1, 0), squares)


def conditional_means(
    ellipsoids: Ellipsoids, values: Array, observed: Bool[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K D"]:
    """Means of missing columns given the observed ones, under each class; 0 in the others."""
    means = np.zeros((len(values), len(ellipsoids.loc), values.shape[1]))
    for k, (loc, precision) in enumerate(_of_classes(ellipsoids)):
        for part in completions(loc, precision, np.asarray(values), observed):
            means[part.members[:, None], k, part.missing] = part.mean
    return means


def conditional_draws(
    ellipsoids: Ellipsoids,
    values: Array,
    observed: Bool[np.ndarray, "n D"],
    classes: Int[np.ndarray, " n"],
    rng: np.random.Generator,
    df: Float[np.ndarray, " K"] | None = None,
) -> Float[np.ndarray, "n D"]:
    """Draws of missing columns given the observed ones and the class; 0 in the others.

    Rows are jointly normal, or multivariate Student t with these degrees of freedom. Then the missing columns are
    Student t, too, with one more degree of freedom for each observed column, and a scale that grows with the distance
    of these.

    Source: Ding (2016), On the conditional distribution of the multivariate t distribution, section 2.
    """
    draws = np.zeros(values.shape)
    for k, (loc, precision) in enumerate(_of_classes(ellipsoids)):
        of_class = np.flatnonzero(classes == k)
        for part in completions(loc, precision, np.asarray(values)[of_class], observed[of_class]):
            factor = np.linalg.cholesky(part.covariance)
            deviations = np.einsum("gij,gj->gi", factor, rng.standard_normal(part.mean.shape))
            if df is not None:
                freedom = df[k] + len(loc) - part.missing.shape[1]
                deviations *= np.sqrt((df[k] + part.squares) / rng.chisquare(freedom, len(part.members)))[:, None]
            draws[of_class[part.members][:, None], part.missing] = part.mean + deviations
    return draws


def _of_classes(ellipsoids: Ellipsoids) -> Iterator[tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]]]:
    """Mean and precision of each class, of a site without extra axes."""
    inverse = np.asarray(inverse_lower(ellipsoids.scale_tril[:, 0]))
    yield from zip(np.asarray(ellipsoids.loc[:, 0]), np.swapaxes(inverse, -1, -2) @ inverse, strict=True)
