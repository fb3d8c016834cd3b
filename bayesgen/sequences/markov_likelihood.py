"""The likelihood of Markov chains: counts of symbols by context, and a recursion for missing time steps."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.runtime import CACHED_CELLS, chunks
from bayesgen.statistics import (
    Cells,
    Classes,
    LatentLikelihood,
    Likelihood,
    Parameters,
    RetainedRows,
    RowDensity,
    Sample,
    Summary,
    Sums,
    class_counts,
    class_weights,
    flatten_rows,
    namespace,
    safe_product,
)
from bayesgen.typing import Array, Bool, Float, Int, Integer, Real, Shaped

from .contexts import Contexts, integer_codes


@dataclasses.dataclass(frozen=True)
class MissingSteps(LatentLikelihood):
    """Chains with missing time steps. Parameters: `log_probs`, (K, contexts, r).

    The forward recursion has the values of the missing time steps in the current context as its state, so that its cost
    depends on their number, and not on the number of contexts. The scales that prevent underflow have no gradient:
    expected counts are sums of products of probabilities, none of them negative.

    Attributes:
        contexts: of the chain.
        most: the largest number of missing time steps among any k successive ones; None where it is not known.
    """

    contexts: Contexts
    most: int | None = None

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """The joint probabilities of each time step and the missing ones in its context."""
        return float(values.shape[1] * self._num_options(values.shape[1]) * self.contexts.num_symbols)

    def _num_kept(self, num_steps: int) -> int:
        """The number of missing time steps in the state of the recursion."""
        most = self.contexts.order if self.most is None else self.most
        return min(most, self.contexts.order, num_steps)

    def _num_options(self, num_steps: int) -> int:
        """The number of values of the state."""
        return self.contexts.num_before ** self._num_kept(num_steps)

    @functools.partial(jax.jit, static_argnums=0)
    def log_probs(
        self,
        parameters: Parameters,
        values: Real[Array, "m T ..."],
        observed: Bool[Array, "m T ..."] | None,
        classes: Int[Array, " m"],
    ) -> Float[Array, " m"]:
        """Log of the sum over all values of the missing time steps. See `LatentLikelihood.log_probs`."""
        codes, inside = integer_codes(jnp.asarray(values))
        seen = jnp.ones(codes.shape, bool) if observed is None else jnp.asarray(observed)
        codes = jnp.where(seen, codes, 0)
        num_rows, num_steps = codes.shape
        table = jnp.exp(jnp.asarray(parameters["log_probs"]))
        rows = table.reshape(-1, self.contexts.num_symbols)
        first_rows = (jnp.asarray(classes) * self.contexts.size)[:, None] + self.contexts.by_step(codes)
        num_kept, num_options = self._num_kept(num_steps), self._num_options(num_steps)
        options = np.indices((self.contexts.num_before,) * num_kept).reshape(num_kept, num_options)

        def next_step(state: tuple[jax.Array, ...], at: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], None]:
            (before, mass, log_scale, steps_ago), (first_row, may_be, is_missing, is_inside) = state, at
            contexts = first_row[:, None] + self._place_values(steps_ago) @ options
            joint = before[:, :, None] * rows[contexts] * may_be[:, None]
            scale = jax.lax.stop_gradient(joint.sum((1, 2)))
            scale = jnp.where(scale > 0, scale, 1.0)
            joint = joint / scale[:, None, None]
            steps_ago = jnp.where(is_missing[:, None], jnp.roll(steps_ago, -1, 1).at[:, -1:].set(0), steps_ago) + 1
            before = jnp.where(is_inside[:, None], self._next_state(joint, is_missing), before)
            mass = jnp.where(is_inside, joint.sum((1, 2)), mass)
            return (before, mass, log_scale + jnp.where(is_inside, jnp.log(scale), 0.0), steps_ago), None

        start: tuple[jax.Array, ...] = (
            jnp.zeros((num_rows, num_options), table.dtype).at[:, 0].set(1.0),
            jnp.ones(num_rows, table.dtype),
            jnp.zeros(num_rows, table.dtype),
            jnp.full((num_rows, num_kept), num_steps + self.contexts.order),  # none of the steps
        )
        may_be = self._possible_symbols(codes, inside, seen)
        by_step = tuple(jnp.moveaxis(array, 1, 0) for array in (first_rows, may_be, ~seen, inside))
        (_, mass, log_scale, _), _ = jax.lax.scan(next_step, start, by_step)
        is_possible = mass > 0
        return jnp.where(is_possible, log_scale + jnp.log(jnp.where(is_possible, mass, 1.0)), -jnp.inf)

    def _place_values(self, steps_ago: Integer[jax.Array, "m kept"]) -> Integer[jax.Array, "m kept"]:
        """The place values, in the index of a context, of symbols this many steps ago: 0 beyond the k latest."""
        powers = np.array([0, *(self.contexts.num_before**back for back in range(self.contexts.order)), 0])
        return jnp.asarray(powers)[jnp.minimum(steps_ago, self.contexts.order + 1)]

    def _possible_symbols(
        self, codes: Integer[Array, "m T"], inside: Bool[Array, "m T"], seen: Bool[Array, "m T"]
    ) -> Float[Array, "m T r"]:
        """Indicators of the possible symbols of each time step: the end only where nothing follows."""
        symbols = jnp.arange(self.contexts.num_symbols)
        may_be = jnp.where(seen[..., None], codes[..., None] == symbols, True)
        if self.contexts.end is not None:
            is_followed = jnp.concatenate([inside[:, 1:], jnp.zeros((len(inside), 1), bool)], 1)
            may_be &= ~((symbols == self.contexts.end) & is_followed[..., None])
        return may_be.astype(float)

    def _next_state(
        self, joint: Float[jax.Array, "m options r"], is_missing: Bool[jax.Array, " m"]
    ) -> Float[jax.Array, "m options"]:
        """Probabilities of the next state. A missing time step replaces the earliest one, which is marginalised."""
        end = self.contexts.end
        next_joint = joint if end is None else jnp.delete(joint, end, axis=2, assume_unique_indices=True)
        after_missing = next_joint.reshape(len(joint), -1, joint.shape[1]).sum(1)
        return jnp.where(is_missing[:, None], after_missing, next_joint.sum(2))


UNROLLED_STEPS = 16  # so that words, which are shorter, need no loop


@record
class CountsAndRows(Summary):
    """Counts of the complete rows, and the rows with missing time steps.

    Attributes:
        counts: of complete rows.
        retained: the other rows.
        most: their largest number of missing time steps among any k successive ones.
    """

    counts: Sums
    retained: RetainedRows
    most: int = static()

    @property
    def is_complete(self) -> bool:
        return False

    @property
    def count(self) -> Float[Array, " *K"]:
        return self.counts.count + self.retained.count

    @property
    def totals(self) -> tuple[Float[Array, "K ... contexts r"], ...]:
        """The counts of complete rows alone, as of a summary without others."""
        return self.counts.totals

    @property
    def log_base(self) -> Float[Array, "..."]:
        """0, because there is no base measure."""
        return self.counts.log_base

    def merge(self, other: Summary) -> "CountsAndRows":
        return self.joined([other])

    def joined(self, others: Sequence[Summary]) -> "CountsAndRows":
        """Add the counts, and keep all rows."""
        with_rows = [other for other in others if isinstance(other, CountsAndRows)]
        counts = self.counts.joined([other.counts if isinstance(other, CountsAndRows) else other for other in others])
        assert isinstance(counts, Sums)
        most = max(part.most for part in (self, *with_rows))
        return CountsAndRows(counts, self.retained.joined([other.retained for other in with_rows]), most)

    def pooled(self) -> "CountsAndRows":
        return CountsAndRows(self.counts.pooled(), self.retained.pooled(), self.most)

    def select_class(self, index: int) -> "CountsAndRows":
        return CountsAndRows(self.counts.select_class(index), self.retained.select_class(index), self.most)

    def with_empty_class(self, place: int) -> "CountsAndRows":
        counts = self.counts.with_empty_class(place)
        assert isinstance(counts, Sums)
        return CountsAndRows(counts, self.retained.with_empty_class(place), self.most)

    def padded(self) -> "CountsAndRows":
        return dataclasses.replace(self, retained=self.retained.padded())


@dataclasses.dataclass(frozen=True)
class MarkovLikelihood(Likelihood):
    """Chains of codes 0..r-1, (n, *extra, T), padded. Parameters: `log_probs`, (K, *extra, contexts, r).

    Rows with missing time steps are retained, and these time steps marginalised. A row without observed time steps has
    factor 1.

    Attributes:
        contexts: of the chain.
    """

    contexts: Contexts

    def missing_likelihood(self, most: int) -> MissingSteps:
        """The likelihood of rows with at most this many missing time steps among any k successive ones."""
        return MissingSteps(self.contexts, most)

    def most_missing(self, observed: Bool[Array, "n T"]) -> int:
        """The largest number of missing time steps among any k successive ones; k under tracing."""
        order = self.contexts.order
        if not order or namespace(observed) is not np:
            return order
        until = np.cumsum(np.pad(~np.asarray(observed), ((0, 0), (order, 0))), 1)
        return int((until[:, order:] - until[:, :-order]).max(initial=0))

    def summary_of(self, sample: Sample) -> Sums | CountsAndRows:
        """Count the symbols after each context: totals (K, *extra, contexts, r). See `Likelihood.summarize`.

        Raises:
            DataError: missing time steps where a row has several sequences.
        """
        if sample.observed is None:
            return self._counted(sample)
        xp, is_complete = namespace(sample.observed), sample.observed.all(-1)
        if is_complete.ndim > 1:
            raise DataError(
                "A site with several sequences a row has missing steps. Sample each of them at a site of its own."
            )
        shares = xp.ones(sample.values.shape[0]) if sample.weights is None else sample.weights
        counts = self._counted(dataclasses.replace(sample, weights=xp.where(is_complete, shares, 0.0)))
        if xp is jnp:  # compiled functions meet no rows with some of their time steps missing
            return counts
        observed, codes = np.asarray(sample.observed), np.asarray(sample.values).astype(int)
        is_partial = self.contexts.is_informative(codes, observed) & ~is_complete
        if not is_partial.any():
            return counts
        partial_weights = np.where(is_partial, shares, 0.0)
        retained = RetainedRows.from_rows(codes, sample.classes, sample.num_classes, partial_weights, observed)
        return CountsAndRows(
            counts, retained, self.most_missing(observed if retained.observed is None else retained.observed)
        )

    def _counted(self, sample: Sample) -> Sums:
        """The counts of complete rows."""
        classes, num_classes, weights = sample.classes, sample.num_classes, sample.weights
        codes, inside = integer_codes(sample.values)
        extra, shape = codes.shape[1:-1], (self.contexts.size, self.contexts.num_symbols)
        rows, mask = _by_column(codes), _by_column(inside)
        by_column = [
            self._column_counts(rows[:, column], mask[:, column], classes, num_classes, weights)
            for column in range(rows.shape[1])
        ]
        xp = namespace(*by_column)
        counts = xp.stack(by_column, 1).reshape(num_classes, *extra, *shape)
        return Sums(class_counts(classes, num_classes, weights), (counts,), xp.zeros((num_classes, *extra)))

    def _column_counts(
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
            row_weights = class_weights(jnp.asarray(classes), num_classes, weights)
            return _scattered(entries, jnp.asarray(row_weights), size)
        total: Float[np.ndarray, "K entries"] = np.zeros((num_classes, size))
        for part in chunks(num_rows, max(max(CACHED_CELLS, total.size) // max(num_steps, 1), 1)):
            part_weights = None if weights is None else weights[part]
            if classes.ndim == 2:
                by_row = self.contexts.counts_by_row(codes[part], inside[part])
                total += (by_row.T @ class_weights(classes[part], num_classes, part_weights)).T
            else:
                cells = np.asarray(self.contexts.entries(codes[part]) + size * classes[part][:, None])
                step_weights = None if part_weights is None else np.repeat(part_weights, inside[part].sum(1))
                total += np.bincount(cells[np.asarray(inside[part])], step_weights, total.size).reshape(total.shape)
        return total

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Sums | CountsAndRows
    ) -> Float[Array, "..."]:
        """Counts times log probabilities, plus the log probabilities of rows with missing time steps."""
        terms = safe_product(summary.totals[0], parameters["log_probs"]).sum((-2, -1))
        terms = namespace(terms).asarray(terms)
        if isinstance(summary, CountsAndRows):
            return terms + self.missing_likelihood(summary.most).log_likelihood(parameters, summary.retained)
        return terms

    def e_step(self, parameters: Parameters, summary: Sums | CountsAndRows) -> tuple[float, Sums]:
        """The log-likelihood of all classes, and the expected counts of all rows."""
        if not isinstance(summary, CountsAndRows):
            return float(np.sum(self.log_likelihood(parameters, summary))), summary
        log_likelihood = np.sum(self.log_likelihood(parameters, summary.counts))
        retained, uses = self.missing_likelihood(summary.most).expected_counts(parameters, summary.retained)
        totals = (summary.totals[0] + uses["log_probs"],)
        expected = dataclasses.replace(summary.counts, count=summary.count, totals=totals)
        return float(log_likelihood + np.sum(retained)), expected

    def density(self, parameters: Parameters) -> "MarkovDensity":
        """Tables of log probabilities by context and symbol."""
        return MarkovDensity(parameters["log_probs"], self)


@record
class MarkovDensity(RowDensity):
    """Densities of chains, by look-up."""

    log_probs: Float[Array, "K ... contexts r"]
    likelihood: MarkovLikelihood = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ... T"] | None = None) -> Float[Array, "n K"]:
        if observed is None:
            return self._complete_log_prob(values)
        xp = namespace(self.log_probs, values, observed)
        is_informative = xp.asarray(self.likelihood.contexts.is_informative(values, observed))
        codes = xp.asarray(values).astype(int)
        if xp is not np:
            return xp.where(is_informative[:, None], self._partial_log_prob(codes, observed), 0.0)
        table, is_complete = np.zeros((len(codes), len(self.log_probs))), np.asarray(observed.all(-1))
        table[is_complete] = self._complete_log_prob(codes[is_complete])
        is_partial = np.asarray(is_informative) & ~is_complete
        if is_partial.any():
            table[is_partial] = self._partial_log_prob(codes[is_partial], np.asarray(observed)[is_partial])
        return table

    def _partial_log_prob(self, codes: Integer[Array, "n T"], observed: Bool[Array, "n T"]) -> Float[Array, "n K"]:
        """Log probabilities of rows with missing time steps."""
        likelihood = self.likelihood.missing_likelihood(self.likelihood.most_missing(observed))
        return likelihood.density({"log_probs": self.log_probs}).log_prob(codes, observed)

    def _complete_log_prob(self, values: Cells) -> Float[Array, "n K"]:
        """Log probabilities of complete rows."""
        codes, inside = integer_codes(values)
        rows, mask = _by_column(codes), _by_column(inside)
        contexts, num_columns = self.likelihood.contexts, rows.shape[1]
        tables = flatten_rows(self.log_probs).reshape(len(self.log_probs), num_columns, -1)
        xp = namespace(tables, rows)
        total = xp.zeros((len(rows), len(tables)))
        for column in range(num_columns):
            table = tables[:, column].T
            if xp is np:
                for part in chunks(len(rows), max(CACHED_CELLS // max(rows.shape[-1], 1), 1)):
                    part_counts = contexts.counts_by_row(rows[part, column], mask[part, column])
                    total[part] += part_counts @ table
            else:
                padded = jnp.concatenate([table, jnp.zeros((1, len(tables)))])
                total = total + _looked_up(padded, jnp.where(mask, contexts.entries(rows), len(table))[:, column])
        return total


def _by_column(steps: Shaped[Array, "n ... T"]) -> Shaped[Array, "n m T"]:
    """The sequences of each row along one axis."""
    return steps.reshape(len(steps), math.prod(steps.shape[1:-1]), steps.shape[-1])


def _looked_up(table: Float[Array, "entries K"], entries: Integer[Array, "n T"]) -> Float[Array, "n K"]:
    """The sum of the table's rows at the entries of each row, time step by time step."""

    def add(total: jax.Array, at_step: jax.Array) -> tuple[jax.Array, None]:
        return total + table[at_step], None

    return jax.lax.scan(add, jnp.zeros((len(entries), table.shape[1])), jnp.asarray(entries).T, unroll=UNROLLED_STEPS)[
        0
    ]


def _scattered(entries: Integer[Array, "n T"], of_rows: Float[jax.Array, "n K"], size: int) -> Float[Array, "K size"]:
    """Sums of the rows' weights at their entries, time step by time step; those past the end are at `size`."""

    def add(total: jax.Array, at_step: jax.Array) -> tuple[jax.Array, None]:
        return total.at[at_step].add(of_rows), None

    return jax.lax.scan(add, jnp.zeros((size + 1, of_rows.shape[1])), jnp.asarray(entries).T)[0][:size].T
