"""Joint normal and Student-t rows, the columns of each that are missing given those that are there."""

from collections.abc import Iterator

import numpy as np

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import patterns_of
from .mahalanobis import Ellipsoids


@record
class Conditional:
    """The columns that rows of one pattern lack, given those that they have.

    Attributes:
        members: positions of the rows.
        missing: the columns that are missing.
        mean: their conditional means.
        factor: Cholesky factors of their conditional covariances, which are the same in all rows.
        squares: squared distances of the columns that are there.
        num_observed: how many these are.
    """

    members: Int[np.ndarray, " m"]
    missing: Int[np.ndarray, " d"]
    mean: Float[np.ndarray, "m K d"]
    factor: Float[np.ndarray, "K d d"]
    squares: Float[np.ndarray, "m K"]
    num_observed: Int[np.ndarray, ""]


def conditionals(
    ellipsoids: Ellipsoids, rows: Real[np.ndarray, "n D"], observed: Bool[np.ndarray, "n D"]
) -> Iterator[Conditional]:
    """The `Conditional` of each pattern of columns that lacks some.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 4.3.1, theorem 4.3.1.
    """
    loc, factor = np.asarray(ellipsoids.loc[:, 0]), np.asarray(ellipsoids.scale_tril[:, 0])
    covariance = factor @ np.swapaxes(factor, -1, -2)
    patterns, of_row = patterns_of(observed)
    for index, pattern in enumerate(patterns):
        there, missing = np.flatnonzero(pattern), np.flatnonzero(~np.asarray(pattern))
        if not len(missing):
            continue
        members = np.flatnonzero(of_row == index)
        given = np.linalg.cholesky(covariance[:, there[:, None], there])
        gain = np.linalg.solve(given, covariance[:, there[:, None], missing])  # (K, columns that are there, missing)
        residuals = rows[members][:, there] - loc[:, None, there]
        whitened = np.linalg.solve(given, np.swapaxes(residuals, -1, -2))  # (K, columns that are there, m)
        mean = loc[:, missing] + np.einsum("kom,kod->mkd", whitened, gain)
        spread = covariance[:, missing[:, None], missing] - np.swapaxes(gain, -1, -2) @ gain
        squares = (whitened**2).sum(1).T
        yield Conditional(members, missing, mean, np.linalg.cholesky(spread), squares, np.asarray(len(there)))


def conditional_means(
    ellipsoids: Ellipsoids, values: Array, observed: Bool[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K D"]:
    """Means of missing columns given those that are there, under each class; 0 in the others."""
    means = np.zeros((len(values), len(ellipsoids.loc), values.shape[1]))
    for part in conditionals(ellipsoids, np.asarray(values), observed):
        means[part.members[:, None], :, part.missing] = np.swapaxes(part.mean, 1, 2)
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

    Source: Ding (2016), On the conditional distribution of the multivariate t distribution.
    """
    draws = np.zeros(values.shape)
    for part in conditionals(ellipsoids, np.asarray(values), observed):
        codes, places = classes[part.members], np.arange(len(part.members))
        deviations = np.einsum("mde,me->md", part.factor[codes], rng.standard_normal(part.mean[:, 0].shape))
        if df is not None:
            freedom = df[codes] + part.num_observed
            growth = (df[codes] + part.squares[places, codes]) / freedom
            deviations *= np.sqrt(growth / (rng.chisquare(freedom) / freedom))[:, None]
        draws[part.members[:, None], part.missing] = part.mean[places, codes] + deviations
    return draws
