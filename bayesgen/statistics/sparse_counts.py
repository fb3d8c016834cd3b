"""Sums over the cells of sparse rows of counts, where what a cell adds hangs on its count and its column alone."""

from typing import TypeAlias

import numpy as np
import scipy.sparse

from bayesgen.typing import Float, Int

from .arrays import log_factorial, log_rising

SparseRows: TypeAlias = scipy.sparse.csr_array | scipy.sparse.csr_matrix
MOST_KEYS = 1 << 23  # of counts times columns that are looked up: 8 MB of flags, 32 MB of places
MOST_LOGARITHMS = 16  # of a sum that stands for a difference of log-gammas


def sum_log_rising_of_cells(
    values: SparseRows, starts: Float[np.ndarray, "K V"], *, by_factorials: bool = True
) -> Float[np.ndarray, "n K"]:
    """Sums over the cells of rows of log(gamma(start + count) / (gamma(start) count!)), for each class.

    Where the events of a row have an order, it is without the factorials: `by_factorials` is False.

    Pairs (count, column) are far fewer than cells. What a pair adds is computed once, and the sums are one product: of
    a sparse matrix of ones that has a column for each pair, and the table of what the pairs add.
    """
    pairs, others, places = _pairs(values)
    counts, columns = np.divmod(pairs, values.shape[1])
    other_counts, other_columns = values.data[others], values.indices[others]
    of_pairs = _log_rising_of_whole(starts.T[columns], counts)
    of_others = log_rising(starts.T[other_columns], other_counts[:, None])
    if by_factorials:
        of_pairs = of_pairs - log_factorial(counts)[:, None]
        of_others = of_others - log_factorial(other_counts)[:, None]
    added = np.concatenate([of_pairs, of_others])
    ones = np.ones(len(places))
    return scipy.sparse.csr_array((ones, places, values.indptr), shape=(values.shape[0], len(added))) @ added


def _pairs(
    values: SparseRows,
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " others"], Int[np.ndarray, " cells"]]:
    """The pairs (count, column) that occur as ascending numbers count * V + column; the cells of other counts; places.

    Whole counts below MOST_KEYS / V are looked up. Each other cell is a pair of its own, behind the pairs. Places are
    those of the cells among all pairs.
    """
    num_columns = values.shape[1]
    with np.errstate(invalid="ignore"):
        keys = values.data.astype(np.int32)  # of other counts a number that differs from them
    largest = min(keys.max(initial=0), max(MOST_KEYS // num_columns, 1) - 1)
    others = np.flatnonzero((keys != values.data) | (keys.view(np.uint32) > largest))  # negative ones too
    keys[others] = 0
    keys *= num_columns
    keys += values.indices
    occurs = np.zeros((largest + 1) * num_columns, bool)
    occurs[keys] = True
    pairs = np.flatnonzero(occurs)
    place_of_key = np.empty(len(occurs), np.int32)
    place_of_key[pairs] = np.arange(len(pairs), dtype=np.int32)
    places = place_of_key[keys]
    places[others] = np.arange(len(pairs), len(pairs) + len(others))
    return pairs, others, places


def _log_rising_of_whole(
    starts: Float[np.ndarray, "pairs K"], counts: Int[np.ndarray, " pairs"]
) -> Float[np.ndarray, "pairs K"]:
    """`log_rising` by whole counts, which ascend: the sum of log(start + r) over r < count, where it is short."""
    total = np.zeros(starts.shape)
    short = np.searchsorted(counts, MOST_LOGARITHMS, side="right")
    for step in range(counts[short - 1] if short else 0):
        longer = slice(np.searchsorted(counts, step, side="right"), short)
        total[longer] += np.log(starts[longer] + step)
    total[short:] = log_rising(starts[short:], counts[short:, None])
    return total
