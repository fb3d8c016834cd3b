"""Histograms: columns of numbers with a constant density within bins; counts by bin, and densities by look-up."""

import dataclasses
import functools
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int, Integer, Real, Shaped

from .arrays import Cells, any_known, filled_matrix, flatten_rows, namespace, safe_product
from .base import Likelihood, Parameters, RowDensity, Weight
from .discrete import looked_up, mixed_tables
from .summaries import Sample, Sums

# Densities are flat within bins, and exponential with the scales `tails` beyond the ends; where an end is infinite,
# from the inner edge of its bin on. A bin's probability is spread over its flat width and its tail's scale.

FEW_EDGES = 255  # up to which comparing with each edge is faster than searching: `_binned` in benchmarks


def flat_edges(edges: Float[Array, "*D edges"]) -> Float[Array, "*D edges"]:
    """The edges of the flat parts of the density: the bin of an infinite end has no flat part."""
    xp = namespace(edges)
    first, last = edges[..., :1], edges[..., -1:]
    first = xp.where(xp.isinf(first), edges[..., 1:2], first)
    last = xp.where(xp.isinf(last), edges[..., -2:-1], last)
    return xp.concatenate([first, edges[..., 1:-1], last], -1)


def bin_widths(edges: Float[Array, "*#D edges"], tails: Float[Array, "*#D 2"]) -> Float[Array, "*D r"]:
    """The widths that divide probabilities of bins: those of the flat parts plus the scales of tails."""
    flat = flat_edges(edges)
    xp = namespace(flat, tails)
    widths = xp.diff(flat, axis=-1)
    left, right = _tails_of_bins(tails, widths.shape[-1])
    return widths + left + right


def _tails_of_bins(
    tails: Float[Array, "*D 2"], num_bins: int
) -> tuple[Float[Array, "*D {num_bins}"], Float[Array, "*D {num_bins}"]]:
    """The scales of the tails to the left and right of each bin: 0 but for the first and last bin."""
    xp = namespace(tails)
    nothing = xp.zeros((*tails.shape[:-1], num_bins - 1))
    return xp.concatenate([tails[..., :1], nothing], -1), xp.concatenate([nothing, tails[..., 1:]], -1)


def excess(
    values: Float[Array, "*#n"], edges: Float[Array, "*#n edges"], tails: Float[Array, "*#n 2"]
) -> Float[Array, "*n"]:
    """Distances of values beyond the flat parts, in units of the tails' scales: infinite where there is no tail."""
    flat = flat_edges(edges)
    xp = namespace(values, flat, tails)
    total: Any = 0.0
    for side, beyond in ((0, flat[..., 0] - values), (1, values - flat[..., -1])):
        scale = tails[..., side]
        inside = xp.maximum(beyond, 0.0) / xp.where(scale > 0, scale, 1.0)
        total = total + xp.where((beyond > 0) & (scale == 0), xp.inf, inside)
    return total


def bin_codes(values: Real[Array, "n D"], edges: Float[Array, "D edges"]) -> Integer[Array, "n D"]:
    """The bin of each number: the number of inner edges up to it. Arbitrary for NaN."""
    inner = edges[:, 1:-1]
    if namespace(values, edges) is jnp:
        return (values[:, :, None] >= inner).sum(-1)
    parts = [reached(np.ascontiguousarray(values[part].T), inner) for part in chunks(len(values))]
    return np.concatenate(parts, axis=1).T if parts else np.zeros(values.shape, np.int64)


def reached(columns: Real[Array, "D n"], edges: Float[Array, "D edges"]) -> Integer[np.ndarray, "D n"]:
    """The number of edges, in ascending order, that are at most each number. Arbitrary for NaN."""
    if edges.shape[1] > FEW_EDGES:
        pairs = zip(columns, edges, strict=True)
        return np.stack([np.searchsorted(column_edges, column, side="right") for column, column_edges in pairs])
    number, is_reached = np.zeros(columns.shape, np.uint8), np.empty(columns.shape, bool)
    for edge in edges.T:
        np.greater_equal(columns, edge[:, None], out=is_reached)
        number += is_reached.view(np.uint8)
    return number


def bin_moments(
    edges: Float[Array, "*#D edges"], tails: Float[Array, "*#D 2"]
) -> tuple[Float[Array, "*D r"], Float[Array, "*D r"]]:
    """The mean and the variance of each bin: a mixture of its flat part and its tails."""
    flat = flat_edges(edges)
    xp = namespace(flat, tails)
    widths, total = xp.diff(flat, axis=-1), bin_widths(edges, tails)
    center = flat[..., :-1] + widths / 2
    left, right = _tails_of_bins(tails, widths.shape[-1])
    # (weight, distance of the part's mean from the center of the flat part, variance)
    parts = [
        (widths / total, 0.0, widths**2 / 12),
        (left / total, -(widths / 2 + left), left**2),
        (right / total, widths / 2 + right, right**2),
    ]
    shift = functools.reduce(lambda so_far, part: so_far + part[0] * part[1], parts, xp.zeros(total.shape))
    squares = functools.reduce(lambda so_far, part: so_far + part[0] * (part[1] ** 2 + part[2]), parts, 0.0 * shift)
    return center + shift, squares - shift**2


def quantiles(
    levels: Float[Array, "*n"],
    edges: Float[Array, "*#n edges"],
    probs: Float[Array, "*#n r"],
    tails: Float[Array, "*#n 2"],
) -> Float[Array, "*n"]:
    """Quantiles at these levels."""
    xp = namespace(levels, edges, probs, tails)
    flat, widths = flat_edges(edges), bin_widths(edges, tails)
    upto = xp.cumsum(probs, -1)
    most = probs.shape[-1] - 1
    code = xp.minimum((levels[..., None] >= upto).sum(-1), most)

    def at_bin(array: Array) -> Any:
        shape = (*levels.shape, array.shape[-1])
        return xp.take_along_axis(xp.broadcast_to(array, shape), code[..., None], -1)[..., 0]

    prob, width = at_bin(probs), at_bin(widths)
    share = xp.clip((levels - at_bin(upto) + prob) / xp.where(prob > 0, prob, 1.0), 0.0, 1.0)
    left, right = xp.where(code == 0, tails[..., 0], 0.0), xp.where(code == most, tails[..., 1], 0.0)
    place = share * width - left  # from the start of the flat part
    start, length = at_bin(flat[..., :-1]), width - left - right
    below, above = (xp.where(scale > 0, scale, 1.0) for scale in (left, right))
    tiny = xp.finfo(xp.asarray(share).dtype).tiny
    in_left = below * xp.log(xp.maximum(share * width / below, tiny))
    in_right = length - above * xp.log(xp.maximum((1.0 - share) * width / above, tiny))
    values = start + xp.where(place < 0, in_left, xp.where(place > length, in_right, place))
    end = xp.where(code == most, xp.inf, at_bin(edges[..., 1:]))
    return xp.minimum(values, xp.nextafter(end, -xp.inf))  # an edge is in the bin that begins there


BINNED_CHUNK_ROWS = 1 << 13  # whose columns stay in cache: `_binned` in benchmarks


@record
class BinTotals:
    """Weighted totals by class.

    Attributes:
        counts: of the numbers in each bin.
        left, right: of the distances beyond both ends of the flat parts.
        sums: of the numbers.
    """

    counts: Float[Array, "K m r"]
    left: Float[Array, "K m"]
    right: Float[Array, "K m"]
    sums: Float[Array, "K m"]


def bin_totals(rows: Real[Array, "n m"], edges: Float[np.ndarray, "m edges"], sample: Sample) -> BinTotals:
    """The totals of the observed cells. Where classes are codes, in one pass over the data."""
    with np.errstate(over="ignore", invalid="ignore"):  # of sums of huge numbers, which no density uses
        return (_totals_by_code if sample.has_codes else _plainly)(rows, edges, sample)


def _plainly(rows: Real[Array, "n m"], edges: Float[np.ndarray, "m edges"], sample: Sample) -> BinTotals:
    """The totals bin by bin: for responsibilities, and under tracing."""
    xp, flat, codes = namespace(rows), flat_edges(edges), bin_codes(rows, edges)
    cells = [codes == index for index in range(edges.shape[1] - 1)]
    left, right = xp.maximum(flat[:, 0] - rows, 0.0), xp.maximum(rows - flat[:, -1], 0.0)
    *counts, below, above, sums = (sample.sums(cell, sample.mask) for cell in (*cells, left, right, rows))
    return BinTotals(namespace(*counts).stack(counts, -1), below, above, sums)


def _totals_by_code(rows: Real[Array, "n m"], edges: Float[np.ndarray, "m edges"], sample: Sample) -> BinTotals:
    """The totals in one pass, from counts and sums of distances from an origin, by flat part and beyond both ends.

    Distances from a central edge keep all digits, however far the data are from zero.
    """
    flat, size = flat_edges(edges), edges.shape[1]
    codes, num_classes, weights, mask = sample.classes, sample.num_classes, sample.weights, sample.mask
    num_cells = size + 2  # the last one holds missing cells
    origin = flat[:, size // 2]
    counts, distances = (np.zeros((flat.shape[0], num_classes * num_cells)) for _ in range(2))
    for part in chunks(len(rows), BINNED_CHUNK_ROWS):
        columns = np.array(rows[part].T, np.float64, order="C")
        cells = reached(columns, flat).astype(np.int64)
        columns -= origin[:, None]
        if mask is not None:
            missing = ~mask[part].T
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


@dataclasses.dataclass(frozen=True)
class HistogramLikelihood(Likelihood):
    """Columns of numbers in bins. Parameters: `log_probs` (K, *extra, r), `edges` (.., r + 1), and `tails` (.., 2).

    The edges and tails are the same for all classes. Compiled functions take them from the parameters, so that other
    edges compile nothing anew; those kept here serve to summarise rows, and have no part in comparisons.

    Attributes:
        num_bins: r.
        edges, tails: of each column, (D, r + 1) and (D, 2), or of all, (r + 1,) and (2,); None where a program computes
            them from its parameters.
        has_base: whether densities are those of the numbers, or probabilities of bins.
    """

    num_bins: int
    edges: Float[Array, "... edges"] | None = dataclasses.field(default=None, compare=False, repr=False)
    tails: Float[Array, "... 2"] | None = dataclasses.field(default=None, compare=False, repr=False)
    has_base: bool = True

    @property
    def summarizes(self) -> bool:
        return self.edges is not None

    def summary_of(self, sample: Sample) -> Sums:
        """Count the numbers in each bin, totals (K, *extra, r), and sum them. See `Likelihood.summarize`.

        Raises:
            DataError: numbers beyond an end without a tail; rows of another number of columns than the edges.
        """
        assert self.edges is not None and self.tails is not None, "the edges are not known"
        rows, shape = flatten_rows(sample.cells(0.0)), sample.shape
        if self.edges.ndim > 1 and len(self.edges) != rows.shape[1]:
            raise DataError(
                f"The rows have the shape {sample.values.shape}, and the bins are of {len(self.edges)} columns. Give "
                "rows of these columns, or edges of as many."
            )
        edges, tails = (np.broadcast_to(array, (rows.shape[1], array.shape[-1])) for array in (self.edges, self.tails))
        totals = bin_totals(rows, edges, sample)
        xp = namespace(totals.counts)
        base = xp.zeros(totals.sums.shape)
        if self.has_base:
            base = -(totals.counts * np.log(bin_widths(edges, tails))).sum(-1)
            for tail, beyond in ((tails[:, 0], totals.left), (tails[:, 1], totals.right)):
                if any_known(beyond[:, tail == 0] > 0):
                    _refuse_outside(rows, edges, tails, sample.mask)
                base = base - beyond / np.where(tail > 0, tail, 1.0)
        counts = totals.counts.reshape(*shape, self.num_bins)
        return Sums(sample.counts(), (counts, totals.sums.reshape(shape)), base.reshape(shape))

    def log_likelihood(self, parameters: Parameters, summary: Sums) -> Float[Array, "..."]:  # type: ignore[override]
        """Sum over bins of count times log probability, less the logs of widths."""
        terms = safe_product(summary.totals[0], parameters["log_probs"]).sum(-1) + summary.log_base
        return namespace(terms).asarray(terms)

    def density(self, parameters: Parameters) -> "HistogramDensity":
        """Tables of log densities by bin."""
        log_probs = parameters["log_probs"]
        table = log_probs.reshape(len(log_probs), -1, self.num_bins)
        edges, tails = (
            parameters[name].reshape(-1, *table.shape[1:2], size)
            for name, size in (("edges", self.num_bins + 1), ("tails", 2))
        )
        return HistogramDensity(namespace(table).moveaxis(table, 0, -1), edges[0], tails[0], self.has_base)

    def without_base(self) -> "HistogramLikelihood":
        """The likelihood of the bins alone."""
        return dataclasses.replace(self, has_base=False)


@record
class HistogramDensity(RowDensity):
    """Densities of rows of numbers in bins, by look-up.

    Attributes:
        log_probs: log probabilities of the bins.
        edges, tails: of the columns.
        has_base: whether densities are those of the numbers, or probabilities of bins.
    """

    log_probs: Float[Array, "m r K"]
    edges: Float[Array, "m edges"]
    tails: Float[Array, "m 2"]
    has_base: bool = static(default=True)

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        rows, mask = filled_matrix(values, observed, 0.0)
        xp, table = namespace(self.log_probs, rows, mask), self.log_probs
        if self.has_base:
            table = table - xp.log(bin_widths(self.edges, self.tails))[..., None]
        if xp is not np or len(rows) <= BINNED_CHUNK_ROWS:
            return self._chunk_log_prob(rows, mask, table)
        parts = [(rows[part], None if mask is None else mask[part]) for part in chunks(len(rows), BINNED_CHUNK_ROWS)]
        return np.concatenate([self._chunk_log_prob(*part, table) for part in parts])

    def _chunk_log_prob(
        self, rows: Real[Array, "n m"], mask: Bool[Array, "n m"] | None, table: Float[Array, "m r K"]
    ) -> Float[Array, "n K"]:
        """Log density of a chunk of rows, from tables of log densities within bins."""
        xp, codes = namespace(table, rows, mask), bin_codes(rows, self.edges)
        total = looked_up(table, codes, mask)
        if not self.has_base:
            return total
        beyond = excess(rows, self.edges, self.tails)
        return total - (beyond if mask is None else xp.where(mask, beyond, 0.0)).sum(-1)[:, None]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        means, _ = bin_moments(*map(np.asarray, (self.edges, self.tails)))
        return np.einsum("mrk,mr->km", np.exp(np.asarray(self.log_probs)), means)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        probs, edges, tails = (np.asarray(array) for array in (np.exp(self.log_probs), self.edges, self.tails))
        uniform = rng.random(values.shape).reshape(len(values), -1)
        draws = [
            quantiles(uniform[:, index], edges[index], probs[index].T[classes], tails[index])
            for index in range(len(edges))
        ]
        return np.stack(draws, 1)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        assert isinstance(other, HistogramDensity)
        table = mixed_tables(self.log_probs, other.log_probs, log_weight, log_other_weight)
        return dataclasses.replace(self, log_probs=table)


def _refuse_outside(
    rows: Real[np.ndarray, "n m"],
    edges: Float[np.ndarray, "m edges"],
    tails: Float[np.ndarray, "m 2"],
    observed: Bool[Array, "n m"] | None,
) -> NoReturn:
    """Refuse the first number beyond an end that has no tail."""
    outside = np.isinf(excess(rows, edges, tails))
    row, column = np.argwhere(outside if observed is None else outside & observed)[0].tolist()
    raise DataError(
        f"{rows[row, column]:g} in row {row} lies beyond the ends of its bins, {edges[column, 0]:g} and "
        f"{edges[column, -1]:g}, which have no tails. State tails, or wider edges."
    )
