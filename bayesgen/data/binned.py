"""`Binned`: the kind of a column of real numbers in bins."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from bayesgen.describe import quote_some
from bayesgen.errors import DataError, as_numbers, check_integer, warn
from bayesgen.records import fill
from bayesgen.runtime import all_in_threads
from bayesgen.typing import Float

from .kinds import Columns, Encoded, Kind
from .number_kinds import REAL, encode_numbers
from .views import Table

BINNED = "binned"


@final
@dataclass(frozen=True, repr=False)
class Binned(Kind):
    """The kind of a column of numbers whose density is a histogram.

    Bins are half-open: a number on an edge belongs to the bin that begins there. Numbers beyond an end belong to the
    bin at that end. Cells remain numbers. A model gives each bin a probability; the density is constant inside a bin
    and exponential beyond the ends, so that it can be compared with the density of a normal column.

    Args:
        num_bins: number of bins, at least two, each with about the same number of training rows; 10 if neither it nor
            edges are stated.
        edges: the num_bins + 1 edges in increasing order, the two ends included; an end may be infinite. None takes
            them from the training rows, cut half-way between neighbouring values at the quantiles 1/num_bins,
            2/num_bins, ..., with infinite ends. Equal values are never divided: where one value would fill several
            bins, there are fewer bins, and a warning says so.
        tails: the scale of the exponential tail beyond each end, in the units of the column: one number or two. 0 means
            no tail: numbers beyond that end are refused. None takes the scales of highest likelihood, as follows.

    The tail of an infinite end starts at the finite edge of the end bin, and its scale is the mean distance of the
    training values from this edge. The tail of a finite end starts at the end, beyond a flat bin of width w. If n rows
    belong to this bin, and the distances of the rows beyond the end sum to D, then n s^2 = D (w + s), where s is the
    scale. It is at least w / (n + 1): a tail that no training row has reached keeps about the probability of one more
    row. Scales are rounded to six digits.

    Edges and tails that are not stated come from the weighted rows that resolve the schema first; for data in chunks,
    from the first chunk. `fit.schema.kinds[column]` holds them. They are part of the model. The evidence of the fit is
    exact for stated `edges` and `tails`, and a little too high for edges and tails from the training rows.

    `Schema(kinds={"age": Binned(5)})` bins one column, `NaiveBayes({"real": DirichletHistogram(5)})` all columns of
    numbers.

    Raises:
        DataError: fewer than two bins; edges that do not increase; tails that are negative, or 0 at an infinite end.

    >>> Binned(edges=[0, 18, 65, float("inf")]).names
    ('[0, 18)', '[18, 65)', '[65, inf)')
    >>> import bayesgen as bg
    >>> schema = bg.Schema(kinds={"age": Binned(2)})
    >>> fit = bg.fit(bg.NaiveBayes(), {"age": [20, 30, 50, 70]}, list("aabb"), method=bg.Exact(), schema=schema)
    >>> fit.schema.kinds["age"]
    Binned(edges=(-inf, 40.0, inf), tails=(15.0, 20.0))
    """

    name = BINNED
    noun_for_values = ("bins", "state edges")
    reason_for_fewer_bins = ", because equal values are in one bin"

    num_bins: int
    edges: tuple[float, ...] | None
    tails: tuple[float, float] | None

    def __init__(
        self, num_bins: int | None = None, edges: ArrayLike | None = None, tails: ArrayLike | None = None
    ) -> None:
        if num_bins is not None:
            check_integer("Binned: num_bins", num_bins, 2, DataError)
        ends = None if edges is None else _as_edges(edges)
        if ends is not None and num_bins not in (None, len(ends) - 1):
            raise DataError(
                f"Binned: {len(ends)} edges are those of {len(ends) - 1} bins, not of {num_bins}. Leave num_bins out."
            )
        size = len(ends) - 1 if ends is not None else 10 if num_bins is None else int(num_bins)
        fill(self, num_bins=size, edges=ends, tails=None if tails is None else _as_tails(tails, ends))

    @property
    def is_resolved(self) -> bool:
        """Whether edges and tails are known."""
        return self.edges is not None and self.tails is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bins, '[2, 3.5)'. DataError where their edges are not known yet."""
        edges = self._known_edges
        short = [f"{edge:.6g}" for edge in edges]
        words = short if len(set(short)) == len(short) else [repr(edge) for edge in edges]
        starts = ["(" if math.isinf(edge) else "[" for edge in edges]
        return tuple(
            f"{start}{words[j]}, {words[j + 1]})" for j, start in enumerate(starts[:-1])
        )  # numbers beyond a finite end are in the bin that ends there

    def codes(self, values: Float[np.ndarray, " n"]) -> np.ndarray:
        """The index of the bin of each value (n,); arbitrary for NaN."""
        return np.searchsorted(np.asarray(self._known_edges[1:-1]), values, side="right")

    @property
    def _known_edges(self) -> tuple[float, ...]:
        if self.edges is None:
            raise DataError(
                "These bins have no edges yet: a fit finds them. Look at fit.schema.kinds, or state edges=."
            )
        return self.edges

    def resolved(
        self, values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"] | None, column: str
    ) -> "Binned":
        """The bins with edges and tails, from the observed values of a column.

        Raises:
            DataError: values that determine no edges or tails, naming the column.
        """
        if self.is_resolved:
            return self
        order = np.argsort(values, kind="stable") if weights is not None else None
        ordered = (np.sort(values) if order is None else values[order]).astype(np.float64)
        sizes = None if weights is None or order is None else weights[order]
        edges = self.edges or (-math.inf, *_cuts(ordered, sizes, self.num_bins, column), math.inf)
        tails = self.tails or _tails(np.asarray(edges), ordered, sizes, column)
        return Binned(edges=edges, tails=tails)

    @property
    def events(self) -> Kind:
        """Cells stay numbers, with a density each."""
        return REAL

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"edges": self.edges, "tails": self.tails}

    def num_values(self, num_categories: int) -> int:
        return self.num_bins

    def resolve(self, columns: Columns) -> Mapping[str, Kind]:
        """The bins of columns with edges and tails.

        One warning names the columns that have fewer bins than were asked for, because too many of their values are
        equal.

        Raises:
            DataError: columns without numbers, with one value only, or of sparse tables.
        """
        stated = {column: bins for column in columns.names if isinstance(bins := columns.kinds[column], Binned)}
        if columns.table.sparse:
            raise DataError(
                f"X is sparse, and column {next(iter(stated))!r} is binned, which takes every cell. Give it "
                "X.toarray()."
            )
        names = dict(zip(columns.names, columns.table_names, strict=True))
        resolve = functools.partial(_resolved_bins, table=columns.table, stated=stated, names=names)
        bins_or_none = dict(zip(stated, all_in_threads(resolve, list(stated)), strict=True))
        resolved = {column: bins for column, bins in bins_or_none.items() if bins is not None}
        if len(resolved) < len(stated):
            raise DataError(constant_columns([column for column in stated if column not in resolved]))
        _warn_of_fewer(stated, resolved)
        return resolved

    def encode(self, columns: Columns) -> Encoded:
        """Cells stay numbers, NaN where they are missing. DataError: cells beyond an end without tail."""
        encoded = encode_numbers(columns.table.matrix(columns.table_names), columns.names, self)
        bins = {column: columns.kinds[column] for column in columns.names}
        _check_ends(encoded.values, encoded.observed, {c: kind for c, kind in bins.items() if isinstance(kind, Binned)})
        return encoded

    def __repr__(self) -> str:
        stated = {"edges": self.edges, "tails": self.tails}
        shown = [f"{name}={value}" for name, value in stated.items() if value is not None]
        return f"Binned({', '.join(shown if self.edges else [str(self.num_bins), *shown])})"


def _resolved_bins(
    column: str, *, stated: Mapping[str, Binned], table: Table, names: Mapping[str, str]
) -> Binned | None:
    """The bins of a column with edges and tails; None where it has only one value. `names` are those in the table."""
    bins = stated[column]
    matrix = np.ascontiguousarray(table.matrix([names[column]]))  # because reading columns of a wide table is slow
    cells, observed, _ = encode_numbers(matrix, [column], bins)
    rows = slice(None) if observed is None else observed[:, 0]
    weights, values = None if table.weights is None else table.weights[rows], np.asarray(cells)[rows, 0]
    if bins.edges is not None or not len(values) or values.min() < values.max():
        return bins.resolved(values, weights, column)
    if matrix.dtype.kind in "iu" and matrix.min() != matrix.max():
        raise DataError(
            f"Column {column!r} is binned, and its integers are so large that in double precision they are all "
            f"{values[0]:.17g}. Subtract a constant, or drop it."
        )
    return None


def _warn_of_fewer(stated: Mapping[str, Binned], resolved: Mapping[str, Binned]) -> None:
    """One warning that names the columns with fewer bins than were asked for."""
    fewer = [
        f"{column!r} ({resolved[column].num_bins} of {bins.num_bins})"
        for column, bins in stated.items()
        if resolved[column].num_bins < bins.num_bins
    ]
    if fewer:
        more = f" and {len(fewer) - 10} more" if len(fewer) > 10 else ""
        warn(
            f"Columns have fewer bins than were asked for, because no bin divides equal values: "
            f"{', '.join(fewer[:10])}{more}."
        )


def _check_ends(numbers: np.ndarray, observed: np.ndarray | None, columns: Mapping[str, Binned]) -> None:
    """DataError for cells (n, D) beyond an end of the bins of their column that has no tail; it names the column."""
    for index, (column, bins) in enumerate(columns.items()):
        if bins.edges is None or bins.tails is None or all(bins.tails):
            continue
        cells, first, last = numbers[:, index], np.float64(bins.edges[0]), np.float64(bins.edges[-1])
        outside = (bins.tails[0] == 0) & (cells < first) | (bins.tails[1] == 0) & (cells > last)
        outside = outside if observed is None else outside & observed[:, index]
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"Column {column!r} has {cells[row]:g} at row {row}, beyond the ends of its bins, {bins.edges[0]:g} "
                f"and {bins.edges[-1]:g}, where they have no tails. Correct it, or declare it with tails above 0, "
                f"Schema(kinds={{{column!r}: Binned(edges=..., tails=...)}}), or with wider edges."
            )


def constant_columns(columns: Sequence[str]) -> str:
    """The message for binned columns with one value each."""
    have = "Column {} is binned, and has" if len(columns) == 1 else "Columns {} are binned, and each of them has"
    return (
        f"{have.format(quote_some(columns))} one value only, which cannot be cut into bins. Leave such columns out, or "
        f"state their bins: Schema(kinds={{{columns[0]!r}: Binned(edges=[...])}})."
    )


def _as_edges(edges: ArrayLike) -> tuple[float, ...]:
    array = as_numbers("Binned: edges", edges, DataError)
    if array.ndim != 1 or len(array) < 3:
        raise DataError(f"Binned: edges are at least three numbers, of two bins or more, got {edges!r}.")
    if not (np.diff(array) > 0).all() or not np.isfinite(array[1:-1]).all():
        raise DataError(
            f"Binned: edges must increase, and only the ends may be infinite, got {quote_some(array.tolist())}."
        )
    return tuple(array.tolist())


def _as_tails(tails: ArrayLike, edges: Sequence[float] | None) -> tuple[float, float]:
    try:
        left, right = np.broadcast_to(np.asarray(tails, np.float64), (2,)).tolist()
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"Binned: tails must be a number or two, got {tails!r}.") from None
    ends = (-math.inf, math.inf) if edges is None else (edges[0], edges[-1])
    for scale, end in zip((left, right), ends, strict=True):
        if not (0 <= scale < math.inf):
            raise DataError(f"Binned: tails must be finite and not negative, got {tails!r}.")
        if scale == 0 and math.isinf(end):
            raise DataError(
                "Binned: a bin with an infinite end needs a tail above 0, or its density would be zero. Give tails "
                "above 0, or edges with finite ends."
            )
    return left, right


def _cuts(
    ordered: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"] | None, num_bins: int, column: str
) -> tuple[float, ...]:
    """The edges between bins of about equal weight, each between two neighbouring values."""
    if not len(ordered):
        raise DataError(
            f"Column {column!r} is binned, and every cell is missing. Drop it, or state its bins: "
            f"Schema(kinds={{{column!r}: Binned(edges=[...])}})."
        )
    if ordered[0] == ordered[-1]:
        raise DataError(constant_columns([column]))
    size = len(ordered)
    upto = np.arange(1.0, size + 1) if weights is None else np.cumsum(weights)
    targets = upto[-1] * np.arange(1, num_bins) / num_bins
    # the number of values below a cut; equal values are on one side of it, that which leaves bins more nearly equal
    near = np.clip(np.searchsorted(upto, targets * (1 - 1e-12), side="left") + 1, 1, size - 1)
    below = np.searchsorted(ordered, ordered[near - 1], side="left")
    above = np.searchsorted(ordered, ordered[near - 1], side="right")
    sums = np.concatenate([[0.0], upto])
    first = (below > 0) & ((above == size) | (targets - sums[below] < sums[above] - targets))
    cuts = np.unique(np.where(first, below, above))
    lower, upper = ordered[cuts - 1], ordered[cuts]
    halfway = lower + (upper / 2 - lower / 2)
    return tuple(np.where(halfway > lower, halfway, upper).tolist())


def _tails(
    edges: Float[np.ndarray, " edges"],
    ordered: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"] | None,
    column: str,
) -> tuple[float, float]:
    """The scales of highest likelihood of both tails; see `Binned`."""
    largest = max(abs(ordered[0]), abs(ordered[-1])) if len(ordered) else 0.0
    most = 1e300  # sums of distances between such numbers do not overflow
    if largest > most:
        raise DataError(
            f"Column {column!r} is binned, and has values of about {largest:.1e}, whose sums overflow in floating "
            f"point. Take it in other units, below {most:g}, or drop it."
        )
    stop, start = (int(np.searchsorted(ordered, edge, side="left")) for edge in (edges[1], edges[-2]))
    ends = (slice(0, stop), slice(start, len(ordered)))
    cells = [(ordered[end], None if weights is None else weights[end]) for end in ends]
    left = _scale(edges[1] - edges[0], edges[1], -1.0, *cells[0])
    right = _scale(edges[-1] - edges[-2], edges[-2], 1.0, *cells[1])
    inner = np.diff(edges[1:-1])
    left = left or (inner[0] if len(inner) else right)
    right = right or (inner[-1] if len(inner) else left)
    if not left or not right:
        raise DataError(
            f"Column {column!r}: no training value is inside the end bins of {quote_some(edges.tolist())}, so the "
            "scales of their tails are unknown. State tails=, or finite ends."
        )
    return float(f"{left:.6g}"), float(f"{right:.6g}")  # independent of the order of rows


def _scale(
    width: float, edge: float, sign: float, values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"] | None
) -> float:
    """The scale of one tail, from the values in the end bin; 0 where it has none."""
    flat = 0.0 if math.isinf(width) else width
    beyond = np.maximum(sign * (values - edge) - flat, 0.0)
    number = float(len(values) if weights is None else weights.sum())
    if not number:
        return flat
    shares = 1 / number if weights is None else weights / number
    mean = float((beyond * shares).sum())
    likeliest = mean / 2 + math.sqrt(mean) * math.sqrt(mean / 4 + flat)
    return max(likeliest, flat / (number + 1))
