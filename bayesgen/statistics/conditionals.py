"""Joint normal and Student-t rows: the columns of each that are missing, given those that are there."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int

from .arrays import inverse_lower
from .completion import BLOCK_CELLS, inverse_blocks
from .mahalanobis import Ellipsoids


@dataclasses.dataclass(frozen=True)
class Completion:
    """What rows of one class lack, given what they have: g rows that lack s columns each.

    Attributes:
        members: positions of the rows.
        missing: the columns that each of them lacks.
        mean: the conditional means of these.
        covariance: their conditional covariances.
        squares: squared distances of the columns that are there.
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
    """The rows that lack columns, a few at a time, of one class with this mean and precision."""
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
    """Means of missing columns given those that are there, under each class; 0 in the others."""
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
    """Draws of missing columns given those that are there and the class; 0 in the others.

    Rows are jointly normal, or multivariate Student t with these degrees of freedom: then the missing columns are so
    too, with as many more degrees of freedom as columns are there, and a scale that grows with the distance of these.

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
