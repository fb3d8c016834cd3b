"""Columns with finitely many values: counts of each value, and densities of rows by product or by look-up."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import scipy.special

from bayesgen.data import CountRows, sharing_cells
from bayesgen.records import record
from bayesgen.runtime import CACHED_CELLS, chunks, padded_size
from bayesgen.typing import Array, Bool, Float, Int, Integer, Real, Shaped

from .arrays import (
    Cells,
    Sparse,
    SparseRows,
    filled,
    filled_matrix,
    flatten_rows,
    log_factorial,
    log_linear,
    log_rising,
    namespace,
    safe_product,
)
from .base import CellSums, Likelihood, Parameters, RowDensity, Weight
from .summaries import Sample, Sums, class_sums, class_weights, trailing

# Sums over sparse rows of counts of terms that depend on count and column alone: equal pairs are computed once.
# `_multinomial_probabilities` in benchmarks/closed_form
MOST_KEYS = 1 << 23  # of counts times columns that are looked up: 8 MB of flags, 32 MB of indices
KEYS_PER_CELL = 32  # beyond which equal pairs are so rare that looking for them takes longer than computing them
MOST_FACTORS = 16  # of a product in place of a difference of log-gammas
LARGEST_FACTOR = 1e18  # so many of which have a product in floating point
HUGE_COUNT = 1e4  # from which differences of log-gammas are off by 1e-11 and more


def sum_log_rising_of_cells(
    values: SparseRows, starts: Float[np.ndarray, "K V"], log_starts: Float[np.ndarray, "K V"], *, by_factorials: bool
) -> Float[np.ndarray, "n K"]:
    """Sums over the cells of rows of log(gamma(start + count) / (gamma(start) count!)), for each class.

    Where the events of a row have an order, it is without the factorials: `by_factorials` is False.

    Most counts are 1, whose terms are the logs of the starts: their sums are the product of a sparse matrix of ones and
    `log_starts`. What the terms of other counts differ by is added by a second product: pairs (count, column) are far
    fewer than cells, so the difference of each pair is computed once.
    """
    counts = values.counts if isinstance(values, CountRows) and values.counts is not None else values.data
    cells = np.flatnonzero(counts != 1)
    counts, columns, term_index = _distinct_pairs(counts.take(cells), values.indices.take(cells), values.shape[1])
    pair_starts = starts.T[columns]
    terms = _log_rising_above_one(pair_starts, log_starts.T, counts, columns)
    if by_factorials:
        terms -= log_factorial(counts)[:, None]
        _take_huge_together(terms, pair_starts, counts)
    ends = np.searchsorted(cells, values.indptr).astype(term_index.dtype)
    sums = _summed_by_row(values.indices, values.indptr, log_starts.T)
    sums += _summed_by_row(term_index, ends, terms)
    return sums


def _summed_by_row(
    indices: Int[np.ndarray, " cells"], ends: Int[np.ndarray, " ends"], terms: Float[np.ndarray, "terms K"]
) -> Float[np.ndarray, "n K"]:
    """Sums of the terms with these indices over the cells of each row."""
    ones = _ones(padded_size(len(indices)))[: len(indices)]
    return np.asarray(sharing_cells(ones, indices, ends, len(terms)) @ terms)


@functools.lru_cache(maxsize=2)
def _ones(size: int) -> Float[np.ndarray, " size"]:
    """Ones, which are kept because new memory takes a quarter of the time of a product."""
    return np.ones(size)


def _distinct_pairs(
    counts: Real[np.ndarray, " cells"], columns: Int[np.ndarray, " cells"], num_columns: int
) -> tuple[Real[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " cells"]]:
    """Counts and columns of the pairs that occur, and the index of each cell's pair.

    Cells with small whole counts share a pair with their equals. Each of the others has a pair of its own. Whole counts
    come first, and ascend.
    """
    num_counts = min(MOST_KEYS, KEYS_PER_CELL * len(counts)) // num_columns
    with np.errstate(invalid="ignore"):
        keys = counts.astype(np.int32)  # differs from counts that are huge or not whole
    is_alone = keys >= num_counts
    if counts.dtype != np.int32:
        is_alone |= (keys != counts) | (keys < 0)
    alone = np.flatnonzero(is_alone)
    alone = alone[_levels(counts[alone]).argsort()]
    keys *= num_columns
    keys += columns
    keys[alone] = 0
    occurs = np.zeros(keys.max(initial=0) + 1, bool)
    occurs[keys] = True
    pairs = np.flatnonzero(occurs)
    pair_of_key = np.empty(len(occurs), np.int32)
    pair_of_key[pairs] = np.arange(len(pairs), dtype=np.int32)
    pair_index = pair_of_key[keys]
    pair_index[alone] = np.arange(len(pairs), len(pairs) + len(alone))
    pair_counts, pair_columns = np.divmod(pairs, num_columns)
    return np.append(pair_counts, counts[alone]), np.append(pair_columns, columns[alone]), pair_index


def _levels(counts: Real[np.ndarray, " n"]) -> Real[np.ndarray, " n"]:
    """The counts that are whole, and infinity for others."""
    return counts if counts.dtype.kind == "i" else np.where(counts == np.floor(counts), counts, np.inf)


def _log_rising_above_one(
    starts: Float[np.ndarray, "pairs K"],
    log_starts: Float[np.ndarray, "V K"],
    counts: Real[np.ndarray, " pairs"],
    columns: Int[np.ndarray, " pairs"],
) -> Float[np.ndarray, "pairs K"]:
    """`log_rising` less the logs of the starts, which no count from 1 on adds and takes away: they may be huge.

    For low whole counts it is the log of the product of start + r over 0 < r < count. Whole counts come first, and
    ascend.
    """
    levels, total = _levels(counts), np.ones(starts.shape)
    most = MOST_FACTORS + 1 if starts.max(initial=0) < LARGEST_FACTOR else 0
    zeros, short = np.searchsorted(levels, [0, most], side="right")
    for step in range(1, int(levels[short - 1]) if short else 0):
        longer = slice(np.searchsorted(levels, step, side="right"), short)
        total[longer] *= starts[longer] + step
    np.log(total[:short], out=total[:short])
    total[:zeros] = -log_starts[columns[:zeros]]
    steps, long = counts[short:, None], starts[short:]
    has_one = steps >= 1
    total[short:] = log_rising(long + has_one, steps - has_one)
    parts = short + np.flatnonzero(~has_one)
    total[parts] -= log_starts[columns[parts]]
    return total


def _take_huge_together(
    terms: Float[np.ndarray, "pairs K"], starts: Float[np.ndarray, "pairs K"], counts: Real[np.ndarray, " pairs"]
) -> None:
    """Replace terms of huge counts, whose log-gammas have few digits left for a difference, where starts are lower."""
    huge = np.flatnonzero(counts >= HUGE_COUNT)
    steps, low = counts[huge, None].astype(np.float64), starts[huge]
    together = log_rising(steps + 1.0, low - 1.0) - scipy.special.gammaln(low + 1.0)
    terms[huge] = np.where(low < steps, together, terms[huge])


@dataclasses.dataclass(frozen=True)
class BernoulliLikelihood(Likelihood):
    """Columns of zeros and ones, dense or sparse. Parameters: `log_one` and `log_zero`, (K, *extra); -inf allowed."""

    cell_sums = CellSums.VALUES

    def summary_of(self, sample: Sample) -> Sums:
        """Count ones and zeros by class: two totals (K, *extra). See `Likelihood.summarize`."""
        rows, count = sample.cells(), sample.counts()
        ones = sample.sums(rows, sample.observed)
        if sample.weights is None and sample.classes.ndim == 1:  # whole numbers, so the difference is exact
            zeros = trailing(count, ones.ndim) - ones
        elif isinstance(rows, Sparse):
            zeros = _sparse_zeros(rows, sample, count[:, None] - ones)
        else:
            zeros = sample.sums(1.0 - rows, sample.observed)
        return Sums(count, (ones, zeros), namespace(ones).zeros(ones.shape))

    def log_likelihood(self, parameters: Parameters, summary: Sums) -> Float[Array, "..."]:  # type: ignore[override]
        ones, zeros = summary.totals
        terms = safe_product(ones, parameters["log_one"]) + safe_product(zeros, parameters["log_zero"])
        return namespace(terms).asarray(terms)

    def density(self, parameters: Parameters) -> "BernoulliDensity":
        """Log odds of ones, and log probabilities of rows of zeros."""
        log_one, log_zero = (parameters[name].reshape(len(parameters[name]), -1) for name in ("log_one", "log_zero"))
        return BernoulliDensity.of(log_one, log_zero)


@record
class BernoulliDensity(RowDensity):
    """Densities of rows of zeros and ones: that of a row of zeros plus the log odds of its ones.

    So only the ones take time. A row with an event of probability zero has log probability -inf, exactly.

    Attributes:
        log_one, log_zero: log probabilities of both values.
        zeros: log probabilities of a row of zeros, without the columns in which ones are certain.
        log_odds: of ones; their log probability where they are certain.
        certain: mask of the columns in which ones are certain.
    """

    log_one: Float[Array, "K m"]
    log_zero: Float[Array, "K m"]
    zeros: Float[Array, " K"]
    log_odds: Float[Array, "K m"]
    certain: Bool[Array, "K m"]

    @classmethod
    def of(cls, log_one: Float[Array, "K m"], log_zero: Float[Array, "K m"]) -> "BernoulliDensity":
        """The density at these log probabilities."""
        xp = namespace(log_one, log_zero)
        certain = xp.isneginf(log_zero)
        possible = xp.where(certain, 0.0, log_zero)
        return cls(log_one, log_zero, possible.sum(-1), log_one - possible, certain)

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        if observed is not None:
            return self._observed_log_prob(flatten_rows(filled(values, observed)), flatten_rows(observed))
        rows = flatten_rows(values)
        table = self.zeros + log_linear(rows, self.log_odds)
        xp = namespace(self.log_odds, rows)
        if xp is np and not self.certain.any():
            return table
        missing = self.certain.sum(-1) > xp.asarray(rows @ self.certain.T.astype(self.log_odds.dtype))
        return xp.where(missing, -xp.inf, table)

    def sql_terms(self, literal: Callable[[float], str]) -> list[list[str]]:
        return looked_up_in_sql(np.stack([self.log_zero, self.log_one], axis=-1), literal)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        """Probabilities of ones."""
        return np.exp(np.asarray(self.log_one))[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        return (rng.random(values.shape) < np.exp(np.asarray(self.log_one))[classes]).astype(float)

    def _observed_log_prob(self, rows: Real[Array, "n m"], observed: Bool[Array, "n m"]) -> Float[Array, "n K"]:
        """Log probabilities of the observed cells, from those of both values."""
        xp = namespace(rows, observed, self.log_one)
        ones, zeros = xp.where(observed, rows, 0.0), xp.where(observed, 1.0 - rows, 0.0)
        return log_linear(ones, self.log_one) + log_linear(zeros, self.log_zero)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        assert isinstance(other, BernoulliDensity)
        xp = namespace(self.log_one, other.log_one)
        return self.of(
            xp.logaddexp(log_weight + self.log_one, log_other_weight + other.log_one),
            xp.logaddexp(log_weight + self.log_zero, log_other_weight + other.log_zero),
        )


def _sparse_zeros(rows: Sparse, sample: Sample, difference: Float[Array, "K m"]) -> Float[Array, "K m"]:
    """Weights of zeros by class in a sparse matrix: the difference of all weights and those of ones.

    Columns without zeros are found by counting, because rounding would leave them a tiny weight.
    """
    has_weight = (class_weights(sample.classes, sample.num_classes, sample.weights) > 0).astype(np.float64)
    full = class_sums(rows, has_weight, sample.num_classes) == has_weight.sum(0)[:, None]
    return np.where(full, 0.0, np.maximum(difference, 0.0))


def _group_width(num_classes: int, num_categories: int) -> int:
    """How many columns to count together: so many that their combinations stay in the fastest cache."""
    width = 1
    while num_categories > 1 and num_classes * num_categories ** (width + 1) <= 1 << 13:
        width += 1
    return width


def _count_jointly(
    rows: Shaped[Array, "n m"],
    codes: Int[Array, " n"],
    num_classes: int,
    weights: Real[Array, " n"] | None,
    size: int,
) -> Float[Array, "K m size"]:
    """Counts of values 0..size-1 by class and column, some columns at once: combinations are counted and summed.

    One column at a time takes 2.2 times the time of a whole fit: `_categorical` in benchmarks/closed_form.
    """
    total = np.zeros((num_classes, rows.shape[1], size))
    width = _group_width(num_classes, size)
    for part in chunks(len(rows), CACHED_CELLS // 2):  # many to each combination
        _add_counts(total, rows[part], codes[part], None if weights is None else weights[part], width)
    return total


def _add_counts(
    total: Float[Array, "K m size"],
    rows: Shaped[Array, "n m"],
    codes: Int[Array, " n"],
    weights: Real[Array, " n"] | None,
    width: int,
) -> None:
    """Add the counts of some rows, `width` columns at once."""
    num_classes, _, size = total.shape
    # short integers where they hold all combinations, because a processor handles many at a time
    dtype = np.int16 if num_classes * size**width < 2**15 else np.int64
    columns, codes = np.ascontiguousarray(rows.astype(dtype).T), codes.astype(dtype)
    for start in range(0, len(columns), width):
        group = columns[start : start + width]
        cells = codes.copy()
        for column in group:
            cells *= size
            cells += column
        counts = np.bincount(cells, weights=weights, minlength=num_classes * size ** len(group))
        counts = counts.reshape(num_classes, *(size,) * len(group))
        for index in range(len(group)):
            other_axes = tuple(axis + 1 for axis in range(len(group)) if axis != index)
            total[:, start + index] += counts.sum(other_axes)


@dataclasses.dataclass(frozen=True)
class CategoricalLikelihood(Likelihood):
    """Columns of codes 0..r-1. Parameters: `log_probs`, (K, *extra, r)."""

    num_categories: int
    cell_sums = CellSums.VALUES

    def summary_of(self, sample: Sample) -> Sums:
        """Count each value of each column by class: totals (K, *extra, r). See `Likelihood.summarize`."""
        rows, size = sample.cells(self.num_categories), self.num_categories  # a missing cell has a value of its own
        if sample.has_codes:
            num_values = size + (sample.observed is not None)
            arguments = sample.classes, sample.num_classes, sample.weights, num_values
            counts = _count_jointly(flatten_rows(rows), *arguments)[..., :size].reshape(*sample.shape, size)
        else:
            value_counts = [sample.sums(rows == value) for value in range(size)]
            counts = namespace(*value_counts).stack(value_counts, -1)
        return Sums(sample.counts(), (counts,), namespace(counts).zeros(sample.shape))

    def log_likelihood(self, parameters: Parameters, summary: Sums) -> Float[Array, "..."]:  # type: ignore[override]
        terms = safe_product(summary.totals[0], parameters["log_probs"]).sum(-1) + summary.log_base
        return namespace(terms).asarray(terms)

    def density(self, parameters: Parameters) -> "CategoricalDensity":
        """Tables of log probabilities by value."""
        log_probs = parameters["log_probs"]
        table = log_probs.reshape(len(log_probs), -1, self.num_categories)
        return CategoricalDensity(namespace(table).moveaxis(table, 0, -1))


@record
class CategoricalDensity(RowDensity):
    """Densities of rows of codes, by look-up."""

    log_probs: Float[Array, "m r K"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        rows, mask = filled_matrix(values, observed, 0)
        return looked_up(self.log_probs, rows.astype(int), mask)

    def sql_terms(self, literal: Callable[[float], str]) -> list[list[str]]:
        return looked_up_in_sql(np.asarray(self.log_probs).transpose(2, 0, 1), literal)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m r"]:
        """Probabilities of the values."""
        return np.exp(np.asarray(self.log_probs)).transpose(2, 0, 1)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        most = np.exp(np.asarray(self.log_probs)).cumsum(1)  # (m, r, K); of all values, 1 up to rounding
        uniform = rng.random(values.shape) * most[:, -1].T[classes]
        return (uniform[:, :, None] >= most.transpose(2, 0, 1)[classes]).sum(-1)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        assert isinstance(other, CategoricalDensity)
        return CategoricalDensity(mixed_tables(self.log_probs, other.log_probs, log_weight, log_other_weight))


def looked_up(
    table: Float[Array, "m r K"], codes: Integer[Array, "n m"], observed: Bool[Array, "n m"] | None
) -> Float[Array, "n K"]:
    """The table's entries for the observed codes of each row, summed over the columns."""
    xp = namespace(table, codes, observed)
    total = xp.zeros((len(codes), table.shape[-1]))
    for index in range(codes.shape[1]):
        cells = table[index][codes[:, index]]
        total = total + (cells if observed is None else xp.where(observed[:, index, None], cells, 0.0))
    return total


def looked_up_in_sql(table: Float[np.ndarray, "K m r"], literal: Callable[[float], str]) -> list[list[str]]:
    """For each class and column the table's entry for a code {0}, in SQL."""
    cases = [[[f"WHEN {code} THEN {literal(log)}" for code, log in enumerate(logs)] for logs in k] for k in table]
    return [[f"CASE {{0}} {' '.join(column)} END" for column in columns] for columns in cases]


def mixed_tables(
    table: Float[Array, "m r #K"], other: Float[Array, "m r #K"], log_weight: Weight, log_other_weight: Weight
) -> Float[Array, "m r K"]:
    """Log probabilities of the mixtures of two tables, with log weights by column."""
    xp = namespace(table, other)
    weights = (xp.reshape(logs, (-1, 1, 1)) for logs in (log_weight, log_other_weight))
    return xp.logaddexp(*(logs + logs_of for logs, logs_of in zip(weights, (table, other), strict=True)))
