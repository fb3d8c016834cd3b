"""Numeric cells to the numbers that a model sees, or an error that names the culprit and the remedy.

Dense matrices are looked at in blocks of rows, so that no check needs a second matrix in memory.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import checked_chunks

from .views import sharing_cells

# kind -> (what a cell has to satisfy, the same in words)
_RULES: Mapping[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "binary": (lambda cells: (cells == 0) | (cells == 1), "True or False, or 1 or 0"),
    "count": (lambda cells: (cells >= 0) & (cells == np.floor(cells)), "a whole number, zero or more"),
}


def encode_numbers(matrix: Any, names: Sequence[str], kind: str) -> Any:
    """The cells of real, binary or count columns as floats.

    `matrix` is (n, D), an ndarray or csr_array; `names` are its D columns. Floating real columns come back as
    they are, without a copy; everything else as float64. Raises DataError for text, for missing or infinite
    cells, and for cells that break the kind's rule.
    """
    if not isinstance(matrix, np.ndarray):
        return _encode_sparse(matrix, names, kind)
    numbers = matrix if matrix.dtype.kind == "f" else _as_floats(matrix, names, kind)
    if matrix.dtype.kind == "b" or (kind == "count" and _are_counts(numbers)):
        return numbers.astype(np.float64, copy=False)
    chunks = checked_chunks(numbers.shape)
    if not all(np.isfinite(numbers[rows]).all() for rows in chunks):
        missing, infinite = (sum(test(numbers[rows]).sum(axis=0) for rows in chunks) for test in (np.isnan, np.isinf))
        _refuse_not_finite(np.asarray(missing), np.asarray(infinite), names, kind)
    if kind == "real":
        return numbers
    rule, words = _RULES[kind]
    for rows in chunks:
        good = rule(numbers[rows])
        if not good.all():
            row, column = (int(place) for place in np.argwhere(~good)[0])
            _refuse_cell(names[column], kind, numbers[rows][row, column], rows.start + row, words)
    return numbers.astype(np.float64, copy=False)


def _as_floats(matrix: np.ndarray, names: Sequence[str], kind: str) -> np.ndarray:
    if matrix.dtype.kind == "f":
        return matrix
    if matrix.dtype.kind in "biu":
        return matrix.astype(np.float64)
    if matrix.dtype.kind not in "OUST":
        raise DataError(f"Column {names[0]!r} is declared {kind}, and has dtype {matrix.dtype}. Give it numbers.")
    columns = [_objects_as_floats(matrix[:, j].astype(object), name, kind) for j, name in enumerate(names)]
    return np.stack(columns, axis=1)


def _objects_as_floats(values: np.ndarray, name: str, kind: str) -> np.ndarray:
    """Python objects (n,) as float64, missing ones as NaN. DataError for anything else that is no number."""
    import pandas as pd

    present = ~pd.isna(values)
    wrong = {t for t in set(map(type, values[present])) if not issubclass(t, Real | Decimal | np.bool_)}
    if wrong:
        row = next(row for row, value in enumerate(values) if present[row] and type(value) in wrong)
        words = _RULES[kind][1] if kind in _RULES else "a number"
        raise DataError(
            f"Column {name!r} is {kind}, and has {values[row]!r} at row {row}. Turn it into {words}, or "
            f"{_declare(name, 'categorical')}"
        )
    floats = np.full(len(values), np.nan)
    try:
        floats[present] = values[present].astype(np.float64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if present[row] and abs(value) > sys.float_info.max)
        raise DataError(
            f"Column {name!r} has a number at row {row} that is larger than any floating-point number. Give it in "
            "other units, or as text."
        ) from None
    return floats


def _are_counts(numbers: np.ndarray) -> bool:
    """Whether all cells are counts; of huge ones it does not know, so False asks for a closer look."""
    return all(whole_numbers(numbers[rows]) is not None for rows in checked_chunks(numbers.shape))


def _refuse_not_finite(missing: np.ndarray, infinite: np.ndarray, names: Sequence[str], kind: str) -> None:
    culprits = np.flatnonzero(missing + infinite)
    parts = []
    for j in culprits[:10]:
        counts = [f"{count} {word}" for count, word in ((missing[j], "missing"), (infinite[j], "infinite")) if count]
        parts.append(f"{names[int(j)]!r} ({', '.join(counts)})")
    more = f" and {len(culprits) - 10} more" if len(culprits) > 10 else ""
    raise DataError(
        f"These {kind} columns have cells that are no finite number: {', '.join(parts)}{more}. Until missing "
        f"cells are supported, drop or impute those rows."
    )


def _refuse_cell(name: str, kind: str, value: Any, row: int, words: str) -> None:
    other = "count" if value >= 0 and value == np.floor(value) else "real"
    raise DataError(
        f"Column {name!r} is {kind}, and has {quote_some([value])} at row {row}. A {kind} cell has to be {words}. "
        f"Correct it, or {_declare(name, other)}"
    )


def _declare(name: str, kind: str) -> str:
    return f"declare it, Schema(kinds={{{name!r}: {kind!r}}}); a family chosen for it has to be of that kind."


def _encode_sparse(matrix: Any, names: Sequence[str], kind: str) -> Any:
    """`encode_numbers` of a csr_array: only what it stores is looked at, and its indices are shared."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's own matrix keeps its repeated entries
        matrix.sum_duplicates()
    data = _as_floats(matrix.data[:, None], names, kind)[:, 0]
    if not (kind == "count" and _are_counts(data[:, None])):
        _check_sparse(data, matrix, names, kind)
    data = data if kind == "real" else data.astype(np.float64, copy=False)
    encoded = sharing_cells(data, matrix.indices, matrix.indptr, matrix.shape[1])
    encoded.has_canonical_format = True
    return encoded


def _check_sparse(data: np.ndarray, matrix: Any, names: Sequence[str], kind: str) -> None:
    finite = np.isfinite(data)
    if not finite.all():
        counts = [np.bincount(matrix.indices[f(data)], minlength=len(names)) for f in (np.isnan, np.isinf)]
        _refuse_not_finite(counts[0], counts[1], names, kind)
    if kind != "real":
        rule, words = _RULES[kind]
        good = rule(data)
        if not good.all():
            cell = int(np.argmin(good))
            row = int(np.searchsorted(matrix.indptr, cell, side="right")) - 1
            _refuse_cell(names[matrix.indices[cell]], kind, data[cell], row, words)


def whole_numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as 32-bit integers; None where one is negative, not whole, not finite, or has 32 bits or more.

    A cast that is compared with what it came from tells all of that in half the time that it takes to ask each.
    """
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.int32)
    return numbers if numbers.min(initial=0) >= 0 and (numbers == values).all() else None
