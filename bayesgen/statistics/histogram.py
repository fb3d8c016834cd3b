"""Columns of numbers whose density is flat within bins: counts by bin, and densities of rows by look-up."""

import dataclasses
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, flatten_rows, namespace, safe_product
from .base import Parameters, Statistic
from .bin_totals import CHUNK_ROWS, bin_totals
from .bins import bin_codes, bin_means, bin_widths, excess, quantiles
from .densities import RowDensity, Weight
from .discrete import looked_up, mixed_tables
from .missing import filled
from .passes import Classes, class_counts
from .summaries import Sums


@dataclasses.dataclass(frozen=True)
class HistogramStatistic(Statistic):
    """Columns of numbers in bins. Parameters: `log_probs` (K, *extra, r), `edges` (.., r + 1), and `tails` (.., 2).

    The edges and tails are the same for all classes. Functions that are compiled take them from the parameters, so
    that others compile nothing anew; those that are kept here, to summarise rows with, have no part in comparisons.

    Attributes:
        num_bins: r.
        edges, tails: those of each column, (D, r + 1) and (D, 2), or of all, (r + 1,) and (2,); None where a program
            computes them, so that they are not known beside its parameters.
        has_base: whether densities are of the numbers, and not of the bins alone.
    """

    num_bins: int
    edges: Float[np.ndarray, "... edges"] | None = dataclasses.field(default=None, compare=False, repr=False)
    tails: Float[np.ndarray, "... 2"] | None = dataclasses.field(default=None, compare=False, repr=False)
    has_base: bool = True

    @property
    def summarizes(self) -> bool:
        """Whether the edges are known."""
        return self.edges is not None

    def summarize(
        self,
        values: Shaped[Array, " n *extra"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, " n *extra"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Sums:
        """Count the numbers in each bin: totals (K, *extra, r), and the sums of the numbers. See `Statistic.summarize`.

        Raises:
            DataError: numbers beyond an end without a tail; rows of another number of columns than the edges.
        """
        assert self.edges is not None and self.tails is not None, "the edges are not known"
        cells = values if observed is None else filled(values, observed, 0.0)
        rows, mask = flatten_rows(cells), None if observed is None else flatten_rows(observed)
        if self.edges.ndim > 1 and len(self.edges) != rows.shape[1]:
            raise DataError(
                f"The rows have the shape {values.shape}, and the bins are of {len(self.edges)} columns. Give rows of "
                "these columns, or edges of as many."
            )
        edges, tails = (np.broadcast_to(array, (rows.shape[1], array.shape[-1])) for array in (self.edges, self.tails))
        totals = bin_totals(rows, edges, classes, num_classes, weights, mask)
        xp = namespace(totals.counts)
        base = xp.zeros(totals.sums.shape)
        if self.has_base:
            base = -(totals.counts * np.log(bin_widths(edges, tails))).sum(-1)
            for tail, beyond in ((tails[:, 0], totals.left), (tails[:, 1], totals.right)):
                if xp is np and (beyond[:, tail == 0] > 0).any():
                    _refuse_outside(rows, edges, tails, mask)
                base = base - beyond / np.where(tail > 0, tail, 1.0)
        count, shape = class_counts(classes, num_classes, weights, observed), (num_classes, *values.shape[1:])
        return Sums(
            count, (totals.counts.reshape(*shape, self.num_bins), totals.sums.reshape(shape)), base.reshape(shape)
        )

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

    def without_base(self) -> "HistogramStatistic":
        """The same for the bins alone, whose probabilities are all that depends on parameters."""
        return dataclasses.replace(self, has_base=False)


@record
class HistogramDensity(RowDensity):
    """Densities of rows of numbers in bins, by look-up.

    Attributes:
        log_probs: log probabilities of the bins.
        edges, tails: those of the columns.
        has_base: whether densities are of the numbers, and not of the bins alone.
    """

    log_probs: Float[Array, "m r K"]
    edges: Float[Array, "m edges"]
    tails: Float[Array, "m 2"]
    has_base: bool = static(default=True)

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        rows = flatten_rows(values if observed is None else filled(values, observed, 0.0))
        mask = None if observed is None else flatten_rows(observed)
        xp, table = namespace(self.log_probs, rows, mask), self.log_probs
        if self.has_base:
            table = table - xp.log(bin_widths(self.edges, self.tails))[..., None]
        if xp is not np or len(rows) <= CHUNK_ROWS:
            return self._of_rows(rows, mask, table)
        parts = [(rows[part], None if mask is None else mask[part]) for part in chunks(len(rows), CHUNK_ROWS)]
        return np.concatenate([self._of_rows(*part, table) for part in parts])

    def _of_rows(
        self, rows: Real[Array, "n m"], mask: Bool[Array, "n m"] | None, table: Float[Array, "m r K"]
    ) -> Float[Array, "n K"]:
        """Log density of a few rows, by the tables of log densities within bins."""
        xp, codes = namespace(table, rows, mask), bin_codes(rows, self.edges)
        total = looked_up(table, codes, mask)
        if not self.has_base:
            return total
        beyond = excess(rows, self.edges, self.tails)
        return total - (beyond if mask is None else xp.where(mask, beyond, 0.0)).sum(-1)[:, None]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        """Means of missing cells."""
        means = bin_means(*map(np.asarray, (self.edges, self.tails)))
        return np.einsum("mrk,mr->km", np.exp(np.asarray(self.log_probs)), means)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of missing cells."""
        probs, edges, tails = (np.asarray(array) for array in (np.exp(self.log_probs), self.edges, self.tails))
        uniform = rng.random(values.shape).reshape(len(values), -1)
        draws = [
            quantiles(uniform[:, index], edges[index], probs[index].T[classes], tails[index])
            for index in range(len(edges))
        ]
        return np.stack(draws, 1)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        """Mixtures of probabilities are probabilities: what they cost is what one density costs."""
        assert isinstance(other, HistogramDensity)
        table = mixed_tables(self.log_probs, other.log_probs, log_weight, log_other_weight)
        return dataclasses.replace(self, log_probs=table)


def _refuse_outside(
    rows: Real[np.ndarray, "n m"],
    edges: Float[np.ndarray, "m edges"],
    tails: Float[np.ndarray, "m 2"],
    observed: Bool[np.ndarray, "n m"] | None,
) -> NoReturn:
    """Refuse the first number beyond an end that has no tail."""
    outside = np.isinf(excess(rows, edges, tails))
    row, column = np.argwhere(outside if observed is None else outside & observed)[0].tolist()
    raise DataError(
        f"{rows[row, column]:g} in row {row} lies beyond the ends of its bins, {edges[column, 0]:g} and "
        f"{edges[column, -1]:g}, which have no tails. State tails, or wider edges."
    )
