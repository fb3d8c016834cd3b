"""Joint normal and Student-t rows: the last column given those others that are there."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from bayesgen.runtime import chunks
from bayesgen.typing import Bool, Float, Int

FACTOR_CELLS = 1 << 20  # of the Cholesky factors that are held at once


@dataclasses.dataclass(frozen=True)
class LastGivenRest:
    """The last of P columns given the D = P - 1 others, under each of S processes.

    Attributes:
        loc: conditional locations.
        scale: roots of what is left of the last column's scale matrix entry: conditional deviations of normal rows.
        squares: squared distances of the other columns that are there.
        num_observed: how many of these there are.
    """

    loc: Float[np.ndarray, "S n"]
    scale: Float[np.ndarray, "S n"]
    squares: Float[np.ndarray, "S n"] | None
    num_observed: Int[np.ndarray, " n"]


def last_given_rest(
    loc: Float[np.ndarray, "S P"],
    matrix: Float[np.ndarray, "S P P"],
    rows: Float[np.ndarray, "n D"],
    observed: Bool[np.ndarray, "n D"] | None = None,
    *,
    with_squares: bool = False,
) -> LastGivenRest:
    """Condition joint rows on the columns that are there.

    Of the correlation matrix of these and the last column, whose Cholesky factor is L, the last row of L has the
    regression and the deviation that is left: no difference of large numbers is taken.

    Args:
        loc, matrix: means and covariances, or locations and scale matrices.
        rows: the other columns; what stands in cells that are missing does not matter.
        observed: mask of the cells that are there; None where all are.
        with_squares: whether distances are wanted.
    """
    num_processes, num_rows = len(loc), len(rows)
    found = {name: np.empty((num_processes, num_rows)) for name in ("loc", "scale", "squares")}
    center = loc[:, :-1].mean(0)
    shift, deviations = loc[:, :-1] - center, np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
    correlations = matrix / (deviations[..., :, None] * deviations[..., None, :])
    patterns, members = _patterns(rows, observed)
    for part in chunks(len(patterns), max(1, FACTOR_CELLS // matrix.size)):
        for place, mask, factor in zip(
            members[part], patterns[part], _factors(correlations, patterns[part]), strict=True
        ):
            inverse = np.linalg.inv(factor[:, :-1, :-1])
            slope = np.einsum("sd,sde->se", factor[:, -1, :-1], inverse) * deviations[:, -1:] / deviations[:, :-1]
            residuals = rows[place] - center
            residuals = residuals if mask.all() else np.where(mask, residuals, 0.0)
            found["loc"][:, place] = slope @ residuals.T + (loc[:, -1] - (slope * shift).sum(1))[:, None]
            found["scale"][:, place] = (deviations[:, -1] * factor[:, -1, -1])[:, None]
            if with_squares:
                maps = inverse / deviations[:, None, :-1] * mask
                for s in range(num_processes):
                    found["squares"][s, place] = (((residuals - shift[s]) @ maps[s].T)[:, mask] ** 2).sum(1)
    counts = np.full(num_rows, rows.shape[1]) if observed is None else observed.sum(1)
    return LastGivenRest(found["loc"], found["scale"], found["squares"] if with_squares else None, counts)


def _patterns(
    rows: Float[np.ndarray, "n D"], observed: Bool[np.ndarray, "n D"] | None
) -> tuple[Bool[np.ndarray, "G D"], list[slice | Int[np.ndarray, " _"]]]:
    """Which columns are there, pattern by pattern, and the rows of each."""
    if observed is None or observed.all():
        return np.ones((1, rows.shape[1]), bool), [slice(0, len(rows))]
    if (observed == observed[0]).all():
        return observed[:1], [slice(0, len(rows))]
    packed = np.packbits(observed, axis=1)
    keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, pattern = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    ends = np.cumsum(np.bincount(pattern, minlength=len(first)))[:-1]
    return observed[first], list(np.split(order, ends))


def _factors(
    correlations: Float[np.ndarray, "S P P"], patterns: Bool[np.ndarray, "g D"]
) -> Iterator[Float[np.ndarray, "S P P"]]:
    """Cholesky factors of the columns that are there and the last; of those that are not, of the identity."""
    masks = np.concatenate([patterns, np.ones((len(patterns), 1), bool)], 1)
    both = masks[:, None, :, None] & masks[:, None, None, :]
    yield from np.linalg.cholesky(np.where(both, correlations, np.eye(correlations.shape[-1])))
