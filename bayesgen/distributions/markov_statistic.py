"""Sufficient statistics of Markov chains: how often each symbol follows each context."""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.runtime import chunks
from bayesgen.statistics import (
    Cells,
    Classes,
    KeptRows,
    Parameters,
    RowDensity,
    Statistic,
    Summary,
    Sums,
    class_counts,
    class_weights,
    flatten_rows,
    namespace,
    safe_product,
)
from bayesgen.typing import Array, Bool, Float, Integer, Real, Shaped

from .contexts import Contexts, as_codes
from .missing_steps import MissingSteps, most_missing

CHUNK_STEPS = 1 << 18  # of rows that are looked at together
UNROLLED = 16  # steps that are compiled one after another: words have no more, and need no loop


@record
class CountsAndRows(Summary):
    """Counts of the rows whose steps are all there, and the rows that lack some.

    Attributes:
        counts: of whole rows.
        kept: the others.
        most: how many of any k steps of theirs in a row are missing, at most.
    """

    counts: Sums
    kept: KeptRows
    most: int = static()

    @property
    def is_complete(self) -> bool:
        """No: what the missing steps are is hidden."""
        return False

    @property
    def count(self) -> Float[Array, " *K"]:
        """The weight of each class, of whole rows and others."""
        return self.counts.count + self.kept.count

    @property
    def log_base(self) -> Float[Array, "..."]:
        """0: there is no base measure."""
        return self.counts.log_base

    def merge(self, other: Summary) -> "CountsAndRows":
        """Add the counts, and keep all rows."""
        counts = self.counts.merge(other.counts if isinstance(other, CountsAndRows) else other)
        assert isinstance(counts, Sums)
        if not isinstance(other, CountsAndRows):
            return dataclasses.replace(self, counts=counts)
        return CountsAndRows(counts, self.kept.merge(other.kept), max(self.most, other.most))

    def pooled(self) -> "CountsAndRows":
        """Sum the class axis out."""
        return CountsAndRows(self.counts.pooled(), self.kept.pooled(), self.most)

    def of_class(self, index: int) -> "CountsAndRows":
        """Take one class."""
        return CountsAndRows(self.counts.of_class(index), self.kept.of_class(index), self.most)

    def with_empty_class(self, place: int) -> "CountsAndRows":
        """One more class, of which there are no rows."""
        counts = self.counts.with_empty_class(place)
        assert isinstance(counts, Sums)
        return CountsAndRows(counts, self.kept.with_empty_class(place), self.most)

    def padded(self) -> "CountsAndRows":
        """The rows filled up. See `Summary.padded`."""
        return dataclasses.replace(self, kept=self.kept.padded())


@dataclasses.dataclass(frozen=True)
class MarkovStatistic(Statistic):
    """Chains of codes 0..r-1, (n, *extra, T), padded. Parameters: `log_probs`, (K, *extra, contexts, r).

    Rows that lack some of their steps are kept as they are, and these steps summed out. A row of which no step is
    there tells nothing.

    Attributes:
        contexts: of the chain.
    """

    contexts: Contexts

    def of_missing(self, most: int) -> MissingSteps:
        """The statistic of rows that lack some steps: of any k in a row at most so many."""
        return MissingSteps(self.contexts, most)

    def most_missing(self, observed: Bool[Array, "n T"]) -> int:
        """How many of any k steps in a row are missing, at most; k where it is not known while it is traced."""
        order = self.contexts.order
        return most_missing(np.asarray(observed), order) if namespace(observed) is np else order

    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n *extra T"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Sums | CountsAndRows:
        """Count the symbols after each context: totals (K, *extra, contexts, r). See `Statistic.summarize`.

        Raises:
            DataError: missing steps where a row has several sequences.
        """
        if observed is None:
            return self._counted(values, classes, num_classes, weights)
        is_whole, is_telling = observed.all(-1), self.contexts.is_telling(values, observed)
        if is_whole.ndim > 1:
            raise DataError(
                "A site with several sequences a row has missing steps. Sample each of them at a site of its own."
            )
        xp = namespace(values, classes, weights, observed)
        shares = xp.ones(len(values)) if weights is None else weights
        of_whole = self._counted(values, classes, num_classes, xp.where(is_whole, shares, 0.0))
        is_partial = is_telling & ~is_whole
        if xp is np and not is_partial.any():
            return of_whole
        of_partial, codes = xp.where(is_partial, shares, 0.0), xp.asarray(values).astype(int)
        kept = KeptRows.of_rows(codes, classes, num_classes, of_partial, observed)
        return CountsAndRows(of_whole, kept, self.most_missing(observed if kept.observed is None else kept.observed))

    def _counted(self, values: Cells, classes: Classes, num_classes: int, weights: Real[Array, " n"] | None) -> Sums:
        """The counts of rows whose steps are all there."""
        codes, inside = as_codes(values)
        extra, shape = codes.shape[1:-1], (self.contexts.size, self.contexts.num_symbols)
        rows, mask = _by_column(codes), _by_column(inside)
        by_column = [
            self._of_column(rows[:, column], mask[:, column], classes, num_classes, weights)
            for column in range(rows.shape[1])
        ]
        xp = namespace(*by_column)
        counts = xp.stack(by_column, 1).reshape(num_classes, *extra, *shape)
        return Sums(class_counts(classes, num_classes, weights), (counts,), xp.zeros((num_classes, *extra)))

    def _of_column(
        self,
        codes: Integer[Array, "n T"],
        inside: Bool[Array, "n T"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None,
    ) -> Float[Array, "K entries"]:
        """Counts by class and entry of the table."""
        size, (num_rows, num_steps) = self.contexts.size * self.contexts.num_symbols, codes.shape
        if namespace(codes, classes, weights) is jnp:
            entries = jnp.where(inside, self.contexts.entries(codes), size)
            of_rows = class_weights(jnp.asarray(classes), num_classes, weights)
            return _scattered(entries, jnp.asarray(of_rows), size)
        total: Float[np.ndarray, "K entries"] = np.zeros((num_classes, size))
        for part in chunks(num_rows, max(max(CHUNK_STEPS, total.size) // max(num_steps, 1), 1)):
            of_part = None if weights is None else weights[part]
            if classes.ndim == 2:
                by_row = self.contexts.counts_by_row(codes[part], inside[part])
                total += (by_row.T @ class_weights(classes[part], num_classes, of_part)).T
            else:
                places = np.asarray(self.contexts.entries(codes[part]) + size * classes[part][:, None])
                of_steps = None if of_part is None else np.repeat(of_part, inside[part].sum(1))
                total += np.bincount(places[np.asarray(inside[part])], of_steps, total.size).reshape(total.shape)
        return total

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Sums | CountsAndRows
    ) -> Float[Array, "..."]:
        """Counts times log probabilities, and the log probabilities of rows that lack steps."""
        whole = summary.counts if isinstance(summary, CountsAndRows) else summary
        terms = safe_product(whole.totals[0], parameters["log_probs"]).sum((-2, -1))
        terms = namespace(terms).asarray(terms)
        if isinstance(summary, CountsAndRows):
            return terms + self.of_missing(summary.most).log_likelihood(parameters, summary.kept)
        return terms

    def completed(self, parameters: Parameters, summary: Sums | CountsAndRows) -> tuple[float, Sums]:
        """The log-likelihood of all classes, and the counts that are expected of all rows."""
        log_likelihood = np.sum(self.log_likelihood(parameters, _whole(summary)))
        if not isinstance(summary, CountsAndRows):
            return float(log_likelihood), summary
        of_rows, expected = self.of_missing(summary.most).expected_counts(parameters, summary.kept)
        counts = summary.counts.totals[0] + expected["log_probs"]
        whole = dataclasses.replace(summary.counts, count=summary.count, totals=(counts,))
        return float(log_likelihood + np.sum(of_rows)), whole

    def density(self, parameters: Parameters) -> "MarkovDensity":
        """Tables of log probabilities by context and symbol."""
        return MarkovDensity(parameters["log_probs"], self)


@record
class MarkovDensity(RowDensity):
    """Densities of chains, by look-up."""

    log_probs: Float[Array, "K ... contexts r"]
    statistic: MarkovStatistic = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ... T"] | None = None) -> Float[Array, "n K"]:
        """Log probability of each row under each class, of the steps that are there."""
        if observed is None:
            return self._of_whole(values)
        xp = namespace(self.log_probs, values, observed)
        is_telling = xp.asarray(self.statistic.contexts.is_telling(values, observed))
        codes = xp.asarray(values).astype(int)
        if xp is not np:
            return xp.where(is_telling[:, None], self._of_incomplete(codes, observed), 0.0)
        table, is_whole = np.zeros((len(codes), len(self.log_probs))), np.asarray(observed.all(-1))
        table[is_whole] = self._of_whole(codes[is_whole])
        is_partial = np.asarray(is_telling) & ~is_whole
        if is_partial.any():
            table[is_partial] = self._of_incomplete(codes[is_partial], np.asarray(observed)[is_partial])
        return table

    def _of_incomplete(self, codes: Integer[Array, "n T"], observed: Bool[Array, "n T"]) -> Float[Array, "n K"]:
        """Of rows that lack some steps."""
        of_missing = self.statistic.of_missing(self.statistic.most_missing(observed))
        return of_missing.density({"log_probs": self.log_probs}).log_prob(codes, observed)

    def _of_whole(self, values: Cells) -> Float[Array, "n K"]:
        """Of rows whose steps are all there."""
        codes, inside = as_codes(values)
        rows, mask = _by_column(codes), _by_column(inside)
        contexts, num_columns = self.statistic.contexts, rows.shape[1]
        tables = flatten_rows(self.log_probs).reshape(len(self.log_probs), num_columns, -1)
        xp = namespace(tables, rows)
        total = xp.zeros((len(rows), len(tables)))
        for column in range(num_columns):
            table = tables[:, column].T
            if xp is np:
                for part in chunks(len(rows), max(CHUNK_STEPS // max(rows.shape[-1], 1), 1)):
                    of_part = contexts.counts_by_row(rows[part, column], mask[part, column])
                    total[part] += of_part @ table
            else:
                padded = jnp.concatenate([table, jnp.zeros((1, len(tables)))])
                total = total + _looked_up(padded, jnp.where(mask, contexts.entries(rows), len(table))[:, column])
        return total


def _by_column(steps: Shaped[Array, "n ... T"]) -> Shaped[Array, "n m T"]:
    """The sequences of each row along one axis."""
    return steps.reshape(len(steps), math.prod(steps.shape[1:-1]), steps.shape[-1])


def _whole(summary: Sums | CountsAndRows) -> Sums:
    return summary.counts if isinstance(summary, CountsAndRows) else summary


def _looked_up(table: Float[Array, "entries K"], entries: Integer[Array, "n T"]) -> Float[Array, "n K"]:
    """Of each row the sum of the table's rows at its entries, step by step."""

    def add(total: jax.Array, at_step: jax.Array) -> tuple[jax.Array, None]:
        return total + table[at_step], None

    return jax.lax.scan(add, jnp.zeros((len(entries), table.shape[1])), jnp.asarray(entries).T, unroll=UNROLLED)[0]


def _scattered(entries: Integer[Array, "n T"], of_rows: Float[jax.Array, "n K"], size: int) -> Float[Array, "K size"]:
    """Sums of the rows' weights at their entries, step by step; what lies past the end is at `size`."""

    def add(total: jax.Array, at_step: jax.Array) -> tuple[jax.Array, None]:
        return total.at[at_step].add(of_rows), None

    return jax.lax.scan(add, jnp.zeros((size + 1, of_rows.shape[1])), jnp.asarray(entries).T)[0][:size].T
