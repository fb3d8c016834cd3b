"""Array helpers that work on NumPy and on JAX arrays alike, so that each formula is written once."""

import contextvars
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.special
from numpy.typing import ArrayLike

from bayesgen.data import CountRows, sharing_cells, whole_numbers
from bayesgen.errors import DataError
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int, Real, Result, Shaped

Sparse: TypeAlias = scipy.sparse.sparray | scipy.sparse.spmatrix
SparseRows: TypeAlias = scipy.sparse.csr_array | scipy.sparse.csr_matrix
Cells: TypeAlias = Shaped[Array, "n ..."] | Sparse

LOG_2PI = math.log(2 * math.pi)


def namespace(*arrays: object) -> Any:
    """`jax.numpy` if any argument is a JAX array (or tracer), else `numpy`."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def table_by_class(
    xp: Any, function: Callable[..., Float[Array, " n"]], *parameters: Float[Array, "K D"]
) -> Float[Array, "n K"]:
    """A function of the parameters of each class, of JAX in one operation: with a thousand classes it compiles too."""
    if xp is jnp:
        return jax.vmap(function, out_axes=-1)(*parameters)
    return np.stack([function(*class_parameters) for class_parameters in zip(*parameters, strict=True)], -1)


def correlations_of(matrices: Float[Array, "*K D D"]) -> Float[Array, "*K D D"]:
    """Covariances in units of the deviations of their columns; those that do not vary stay as they are. Traceable."""
    xp = namespace(matrices)
    spread = xp.sqrt(xp.diagonal(matrices, axis1=-2, axis2=-1))
    units = xp.where(spread > 0, spread, 1.0)
    return matrices / (units[..., :, None] * units[..., None, :])


def validation_of(values: object) -> bool | None:
    """NumPyro's `validate_args` of a distribution with these parameters: False where they are traced, else its default.

    Of traced triangles NumPyro would compile a dozen comparisons, and then not look at what they say.
    """
    return False if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)) else None


_FAILED: contextvars.ContextVar[list[Bool[Array, ""]] | None] = contextvars.ContextVar("_FAILED", default=None)


def any_known(conditions: Bool[ArrayOrNumber, "..."]) -> bool:
    """True if any condition under which a check refuses is known to hold.

    Under jit the answer is unknown: this returns False, and `with_failed_checks` reports later whether one held. In a
    function that someone else compiles, closed forms give what their formulas give, infinity or NaN where there is no
    value.
    """
    if not isinstance(conditions, jax.core.Tracer):
        return bool(np.any(conditions))
    failed = _FAILED.get()
    if failed is not None:
        failed.append(jnp.any(conditions))
    return False


def with_failed_checks(function: Callable[..., Result]) -> Callable[..., tuple[Result, Bool[Array, ""]]]:
    """The function, to be traced, with a second result: whether some check failed.

    Checks cannot raise on traced values. The caller runs a data set whose checks failed on the host, where the check
    raises its message.
    """

    def call(*arguments: Any) -> tuple[Result, Bool[Array, ""]]:
        failed: list[Bool[Array, ""]] = []
        token = _FAILED.set(failed)
        try:
            return function(*arguments), any_of(failed)
        finally:
            _FAILED.reset(token)

    return call


def any_of(conditions: Sequence[Bool[Array, ""]]) -> Bool[Array, ""]:
    """Whether one of several conditions holds. Traceable."""
    return jnp.any(jnp.stack(conditions)) if conditions else jnp.asarray(False)


def as_float(number: Float[Array, ""] | float) -> Any:
    """The number as a Python float; under jit as it is."""
    return number if isinstance(number, jax.core.Tracer) else float(number)


def special(xp: ModuleType) -> Any:
    """The module of special functions that belongs to the namespace `xp`."""
    return jax.scipy.special if xp is jnp else scipy.special


def flatten_rows(values: Cells) -> Any:
    """Rows of any shape as a matrix, (n, m). Sparse matrices pass through."""
    if scipy.sparse.issparse(values):
        return values
    return values.reshape(len(values), math.prod(values.shape[1:]))


def row_sums(values: Cells) -> Shaped[Array, " n"]:
    """Sums over the columns of a matrix, dense or sparse."""
    if not isinstance(values, Sparse):
        return values.sum(-1)
    rows = values.tocsr()
    return segment_sums(rows.data, rows.indptr)


def segment_sums(values: Real[Array, " cells"], ends: Int[Array, " ends"]) -> Float[Array, " n"]:
    """Sums of successive segments of a vector, the i-th from ends[i] to ends[i + 1]; of empty ones 0."""
    totals, is_filled = np.zeros(len(ends) - 1), np.diff(ends) > 0
    if is_filled.any():
        totals[is_filled] = np.add.reduceat(values, ends[:-1][is_filled])
    return totals


def precise(values: ArrayLike) -> Shaped[Array, "..."]:
    """NumPy arrays in float64, because logarithms of float32 values lose digits; JAX arrays as they are."""
    return values if isinstance(values, jax.Array) else np.asarray(values, np.float64)


def log_linear(values: Cells, log_weights: Float[Array, "K m"]) -> Float[Array, "n K"]:
    """Sum_j values[i, j] * log_weights[k, j], where 0 * (-inf) counts as 0.

    A positive value against a weight of -inf (an event of probability zero) gives -inf, exactly.
    """
    xp = namespace(log_weights, values)
    if xp is np and log_weights.min(initial=0.0) > -np.inf:
        return np.asarray(values @ log_weights.T)
    impossible = xp.isneginf(log_weights)
    if xp is np:
        infinite = 1e200  # as which it shows through products with values down to 1e-50
        table = np.asarray(values @ np.where(impossible, -infinite, log_weights).T)
        if (table < 1e-50 * infinite).all():  # else some values are negative, or not numbers
            table[table < -1e-50 * infinite] = -np.inf
            return table
    finite = xp.where(impossible, 0.0, log_weights)
    hits = values @ impossible.T.astype(finite.dtype)
    return xp.where(xp.asarray(hits) > 0, -xp.inf, xp.asarray(values @ finite.T))


def safe_product(values: Real[Array, "..."], log_weights: Float[Array, "..."] | float) -> Float[Array, "..."]:
    """Elementwise values * log_weights, where 0 * (-inf) counts as 0 (gradients stay finite)."""
    xp = namespace(values, log_weights)
    zero = values == 0
    return xp.where(zero, 0.0, values * xp.where(zero, 0.0, log_weights))


def log_factorial(values: Real[Array, "..."]) -> Float[Array, "..."]:
    """log(x!) elementwise. Counts repeat, so NumPy arrays are looked up in a table of the factorials that occur."""
    values = precise(values)
    codes = few_counts(values)
    if codes is None:
        return special(namespace(values)).gammaln(values + 1.0)
    return scipy.special.gammaln(np.arange(codes.max() + 1.0) + 1.0).take(codes)


def sum_log_factorials(values: SparseRows) -> Float[Array, " n"]:
    """Sums of log(x!) over the cells of sparse rows.

    By one product, where counts are whole and repeat: x log(x!) / x, with x as the column of a look-up table.
    """
    counts = stored_counts(values)
    if counts is None or (largest := counts.max(initial=0)) >= len(counts):
        return segment_sums(log_factorial(values.data), values.indptr)
    levels = np.arange(largest + 1.0)
    log_factorial_per_count = scipy.special.gammaln(levels + 1.0) / np.maximum(levels, 1.0)
    return sharing_cells(values.data, counts, values.indptr, len(levels)) @ log_factorial_per_count


def stored_counts(values: SparseRows) -> Int[np.ndarray, " cells"] | None:
    """The stored cells as 32-bit integers; None where one is no count below 2^31."""
    counts = values.counts if isinstance(values, CountRows) else None
    return whole_numbers(values.data) if counts is None else counts


def log_rising(start: Real[Array, "..."] | np.float64, step: Real[Array, "..."] | float) -> Any:
    """log gamma(start + step) - log gamma(start), elementwise, for positive starts and nonnegative steps.

    Log-gammas of large numbers are huge and have few digits left for a difference. From 16 on it comes from Stirling's
    series (Abramowitz and Stegun 1964, eq. 6.1.40), all of whose large terms are taken together.
    """
    xp = namespace(start, step)
    gammaln, large = special(xp).gammaln, xp.asarray(start) >= 16
    if xp is np and not large.any():
        return gammaln(start + step) - gammaln(start)
    base = xp.where(large, start, 16.0)
    total = base + step
    difference = step * xp.log(base) + (total - 0.5) * xp.log1p(step / base) - step + _stirling(total) - _stirling(base)
    if xp is np and large.all():
        return difference
    few = xp.where(large, 1.0, start)
    return xp.where(large, difference, gammaln(few + step) - gammaln(few))


def _stirling(values: Float[Array, "..."] | np.float64) -> Any:
    """Log gamma less Stirling's formula, to 1e-16 from 16 on."""
    inverse = 1 / values
    square = inverse * inverse  # that of large values may overflow
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))


def log_rising_of_few(starts: Float[Array, "..."], counts: Real[Array, "..."]) -> Float[Array, "..."]:
    """`log_rising` of starts by counts, most of which are 0: of many words, few occur."""
    if namespace(starts, counts) is jnp:
        return log_rising(starts, counts)
    rising, occurs = np.zeros(counts.shape), counts > 0
    rising[occurs] = log_rising(np.broadcast_to(starts, counts.shape)[occurs], counts[occurs])
    return rising


def sum_log_rising(counts: Real[Array, "n D"], starts: Float[Array, "K D"]) -> Float[Array, "n K"]:
    """Sums over columns of `log_rising` of starts by counts. By look-up where counts repeat."""
    xp, codes = namespace(counts, starts), few_counts(counts)
    if codes is None:
        return table_by_class(xp, lambda start: log_rising(start, counts).sum(-1), starts)
    tables = log_rising(starts.T[:, None, :], np.arange(codes.max() + 1.0)[:, None])
    total = np.zeros((len(counts), len(starts)))
    for column, table in enumerate(tables):
        total += table[codes[:, column]]
    return total


def few_counts(values: Real[Array, "..."]) -> Int[np.ndarray, "..."] | None:
    """Counts as indices of a look-up table, where they are much smaller than their number; else None.

    None, too, for values that are no whole numbers from 0 on, and for JAX arrays.
    """
    if isinstance(values, jax.Array) or values.ndim == 0 or not values.size:
        return None
    counts = whole_numbers(values)
    return counts.astype(np.intp) if counts is not None and counts.max() < len(values) / 4 else None


def inverse_lower(scale_tril: Float[Array, "... D D"]) -> Float[Array, "... D D"]:
    """Inverses of lower-triangular matrices."""
    xp = namespace(scale_tril)
    identity = xp.broadcast_to(xp.eye(scale_tril.shape[-1]), scale_tril.shape)
    if xp is jnp:
        return jax.scipy.linalg.solve_triangular(scale_tril, identity, lower=True)
    flat = scale_tril.reshape(-1, *scale_tril.shape[-2:])
    solved = [scipy.linalg.solve_triangular(factor, identity.reshape(flat.shape)[0], lower=True) for factor in flat]
    return np.stack(solved).reshape(scale_tril.shape)


def log_diagonal(scale_tril: Float[Array, "... D D"]) -> Float[ArrayOrNumber, "..."]:
    """Sum of the logs of the diagonals of factors: half a log-determinant."""
    xp = namespace(scale_tril)
    return xp.log(xp.diagonal(scale_tril, axis1=-2, axis2=-1)).sum(-1)


def filled(values: Cells, observed: Bool[Array, "n ..."], filling: float | int = 1.0) -> Shaped[Array, "n ..."]:
    """The rows with `filling` in place of missing cells, so that every formula is finite."""
    if isinstance(values, Sparse):
        raise DataError("A sparse matrix has no missing cells: cells not stored are zero. Give a dense array.")
    return namespace(values, observed).where(observed, values, filling)


def filled_matrix(values: Cells, observed: Bool[Array, "n ..."] | None, filling: float | int = 1.0) -> tuple[Any, Any]:
    """Rows of any shape as a matrix (n, m) that is filled in, and its mask of observed cells; None where all are."""
    if observed is None:
        return flatten_rows(values), None
    return flatten_rows(filled(values, observed, filling)), flatten_rows(observed)


def refuse_missing(name: str) -> NoReturn:
    """Refuse missing cells of vectors whose parts have no density of their own."""
    raise DataError(
        f"The vectors of {name} have missing cells, and a part of such a vector has no density. Drop these "
        "rows, or model the columns one by one."
    )
