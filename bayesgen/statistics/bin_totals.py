"""What a pass over rows finds of their bins: how many numbers are in each, and how far beyond the ends they lie."""

import numpy as np

from bayesgen.records import record
from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import namespace
from .bins import bin_codes, flat_edges, reached
from .passes import Classes, class_sums

CHUNK_ROWS = 1 << 13  # whose columns stay in a processor's cache: `_binned` in benchmarks


@record
class BinTotals:
    """Weighted totals by class.

    Attributes:
        counts: of the numbers in each bin.
        left, right: of the distances beyond both ends of what is flat.
        sums: of the numbers.
    """

    counts: Float[Array, "K m r"]
    left: Float[Array, "K m"]
    right: Float[Array, "K m"]
    sums: Float[Array, "K m"]


def bin_totals(
    rows: Real[Array, "n m"],
    edges: Float[np.ndarray, "m edges"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    observed: Bool[Array, "n m"] | None = None,
) -> BinTotals:
    """The totals of the cells that are there. Where classes are codes, in one pass over the data."""
    with np.errstate(over="ignore", invalid="ignore"):  # of sums of huge numbers, which are in no density
        if classes.ndim == 1 and namespace(rows, classes, weights, observed) is np:
            return _of_codes(rows, edges, classes, num_classes, weights, observed)
        return _plainly(rows, edges, classes, num_classes, weights, observed)


def _plainly(
    rows: Real[Array, "n m"],
    edges: Float[np.ndarray, "m edges"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n m"] | None,
) -> BinTotals:
    """The same bin by bin: of responsibilities, and traceably."""
    xp, flat, codes = namespace(rows), flat_edges(edges), bin_codes(rows, edges)
    cells = [codes == index for index in range(edges.shape[1] - 1)]
    left, right = xp.maximum(flat[:, 0] - rows, 0.0), xp.maximum(rows - flat[:, -1], 0.0)
    *counts, below, above, sums = (
        class_sums(cell, classes, num_classes, weights, observed) for cell in (*cells, left, right, rows)
    )
    return BinTotals(namespace(*counts).stack(counts, -1), below, above, sums)


def _of_codes(
    rows: Real[Array, "n m"],
    edges: Float[np.ndarray, "m edges"],
    codes: Int[Array, " n"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n m"] | None,
) -> BinTotals:
    """Counts and sums of distances from an origin, by the cells that the flat edges make: those beyond are two more.

    Distances from an edge in the middle have all digits, however far the data are from zero.
    """
    flat, size = flat_edges(edges), edges.shape[1]
    num_cells = size + 2  # the last one holds what is missing
    origin = flat[:, size // 2]
    counts, distances = (np.zeros((flat.shape[0], num_classes * num_cells)) for _ in range(2))
    for part in chunks(len(rows), CHUNK_ROWS):
        columns = np.array(rows[part].T, np.float64, order="C")
        cells = reached(columns, flat).astype(np.int64)
        columns -= origin[:, None]
        if observed is not None:
            missing = ~observed[part].T
            cells[missing], columns[missing] = size + 1, 0.0
        cells += codes[part] * num_cells
        weight = None if weights is None else weights[part]
        if weight is not None:
            columns *= weight
        for index, (cell, column) in enumerate(zip(cells, columns, strict=True)):
            counts[index] += np.bincount(cell, weight, counts.shape[1])
            distances[index] += np.bincount(cell, column, counts.shape[1])
    by_cell, from_origin = (
        table.reshape(-1, num_classes, num_cells)[..., :-1].swapaxes(0, 1) for table in (counts, distances)
    )
    left = (flat[:, 0] - origin) * by_cell[..., 0] - from_origin[..., 0]
    right = from_origin[..., -1] - (flat[:, -1] - origin) * by_cell[..., -1]
    inside = by_cell[..., 1:-1].copy()
    inside[..., 0] += by_cell[..., 0]
    inside[..., -1] += by_cell[..., -1]
    sums = from_origin.sum(-1) + origin * by_cell.sum(-1)
    return BinTotals(inside, np.maximum(left, 0.0), np.maximum(right, 0.0), sums)
