"""Joint normal and Student-t rows: the last column given the observed others."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bayesgen.runtime import all_in_threads, chunks, even_chunks
from bayesgen.typing import Bool, Float, Int

FACTOR_CELLS = 1 << 20  # of the Cholesky factors that are held at once
ROW_CELLS = 1 << 18  # of rows that a thread takes at once, to stay in cache


@dataclasses.dataclass(frozen=True)
class LastGivenRest:
    """The last of P columns given the D = P - 1 others, under each of S processes.

    Attributes:
        loc: conditional locations.
        scale: conditional deviations of normal rows; roots of the conditional scale of Student-t rows.
        squares: squared distances of the other observed columns.
        num_observed: the number of these.
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
    """Condition joint rows on the observed columns.

    The last row of the Cholesky factor of the correlations of these and the last column has the regression and the
    residual deviation: no difference of large numbers is taken.

    Args:
        loc, matrix: means and covariances, or locations and scale matrices.
        rows: the other columns; values of missing cells are ignored.
        observed: mask of the observed cells; None where all are.
        with_squares: whether to compute squared distances.
    """
    found = _Found(*(np.empty((len(loc), len(rows))) for _ in range(2 + with_squares)))
    center = loc[:, :-1].mean(0)
    deviations = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
    correlations = matrix / (deviations[..., :, None] * deviations[..., None, :])
    patterns, members = _patterns(rows, observed)
    for part in chunks(len(patterns), max(1, FACTOR_CELLS // matrix.size)):
        factors = _factors(correlations, patterns[part])
        for place, mask, factor in zip(members[part], patterns[part], factors, strict=True):
            given = _OfPattern.of(loc, deviations, center, factor, mask)
            few = even_chunks(len(rows), ROW_CELLS / matrix.shape[-1]) if isinstance(place, slice) else [place]
            all_in_threads(functools.partial(given.fill, found, rows), few)
    counts = np.full(len(rows), rows.shape[1]) if observed is None else observed.sum(1)
    return LastGivenRest(found.loc, found.scale, found.squares, counts)


class _Found(NamedTuple):
    """Arrays of results, which are written chunk by chunk."""

    loc: Float[np.ndarray, "S n"]
    scale: Float[np.ndarray, "S n"]
    squares: Float[np.ndarray, "S n"] | None = None


@dataclasses.dataclass(frozen=True)
class _OfPattern:
    """The regression of the last column for rows with the same observed columns.

    Attributes:
        mask: of the observed columns.
        center: subtracted from rows first, so that offsets lose no digits.
        slope, constant, scale: of the last column given rows less the center.
        maps, shift: rows less the center, less the shift, times the maps are white.
    """

    mask: Bool[np.ndarray, " D"]
    center: Float[np.ndarray, " D"]
    slope: Float[np.ndarray, "S D"]
    constant: Float[np.ndarray, " S"]
    scale: Float[np.ndarray, " S"]
    maps: Float[np.ndarray, "S D D"]
    shift: Float[np.ndarray, "S D"]

    @classmethod
    def of(
        cls,
        loc: Float[np.ndarray, "S P"],
        deviations: Float[np.ndarray, "S P"],
        center: Float[np.ndarray, " D"],
        factor: Float[np.ndarray, "S P P"],
        mask: Bool[np.ndarray, " D"],
    ) -> "_OfPattern":
        """From the Cholesky factor of the correlations, which are those of the identity for missing columns."""
        inverse, shift = np.linalg.inv(factor[:, :-1, :-1]), loc[:, :-1] - center
        slope = np.einsum("sd,sde->se", factor[:, -1, :-1], inverse) * deviations[:, -1:] / deviations[:, :-1]
        maps = inverse / deviations[:, None, :-1] * mask
        constant = loc[:, -1] - (slope * shift).sum(1)
        return cls(mask, center, slope, constant, deviations[:, -1] * factor[:, -1, -1], maps, shift)

    def fill(self, found: _Found, rows: Float[np.ndarray, "n D"], place: slice | Int[np.ndarray, " _"]) -> None:
        """Write the results for some rows of this pattern."""
        residuals = rows[place] - self.center
        residuals = residuals if self.mask.all() else np.where(self.mask, residuals, 0.0)
        found.loc[:, place] = self.slope @ residuals.T + self.constant[:, None]
        found.scale[:, place] = self.scale[:, None]
        if found.squares is not None:
            for s, (maps, shift) in enumerate(zip(self.maps, self.shift, strict=True)):
                white = (residuals - shift) @ maps.T
                found.squares[s, place] = np.einsum("nd,nd->n", white, white)


def _patterns(
    rows: Float[np.ndarray, "n D"], observed: Bool[np.ndarray, "n D"] | None
) -> tuple[Bool[np.ndarray, "G D"], list[slice | Int[np.ndarray, " _"]]]:
    """The patterns of observed columns, and the rows of each."""
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
    """Cholesky factors of the correlations of observed columns and the last; identities for missing columns."""
    masks = np.concatenate([patterns, np.ones((len(patterns), 1), bool)], 1)
    both = masks[:, None, :, None] & masks[:, None, None, :]
    yield from np.linalg.cholesky(np.where(both, correlations, np.eye(correlations.shape[-1])))
