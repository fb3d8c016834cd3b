"""Encoding of cells as the numbers that models take, and decoding; errors name culprit and remedy.

Dense matrices are checked in blocks of rows, so that no check needs a second matrix in memory.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import checked_chunks
from bayesgen.typing import Bool, Int, Num, Shaped

from .categories import codes_among, encode_integers
from .category_values import category_array
from .kinds import Kind
from .sequences import PADDING, SequenceOf
from .views import ArrayTable, Table, sharing_cells


def decoded(column: str, kind: Kind, categories: Sequence[Any], values: Num[np.ndarray, "n ..."]) -> Any:
    """The inverse of `Schema.encode_cells` for a column: an array, or a list of texts, lists of symbols, or arrays.

    Args:
        column: its name, for messages.
        kind: of the column.
        categories: its categories or symbols, if it has any.
        values: codes or numbers (n,), of sequences (n, T).

    Raises:
        DataError: invalid codes, and rows without an end of sequences that have one; naming the row.
    """
    if isinstance(kind, SequenceOf):
        return _texts(column, kind, categories, values) if kind.of_symbols else _numbers(values)
    if kind == "categorical":
        return category_array(categories)[_codes(column, values, 0, len(categories) - 1)]
    return values > 0.5 if kind == "binary" else values


def _codes(column: str, values: Num[np.ndarray, "n ..."], least: int, most: int) -> Int[np.ndarray, "n ..."]:
    """The values as integers. DataError where one is not a whole number from `least` to `most`."""
    wrong = ~((values >= least) & (values <= most) & (values == np.floor(values)))
    if wrong.any():
        cell = tuple(map(int, np.argwhere(wrong)[0]))
        place = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "step"), cell, strict=False))
        past = f", and {PADDING} past an end" if least == PADDING else ""
        raise DataError(f"Column {column!r}: {values[cell]:g} in {place}, is no code: they are 0 to {most}{past}.")
    return values.astype(np.int64)


def _numbers(values: Num[np.ndarray, "n T"]) -> list[Num[np.ndarray, " steps"]]:
    """Each row up to the last observed time step."""
    ends = [np.flatnonzero(~np.isnan(row)) for row in values]
    return [row[: place[-1] + 1 if len(place) else 0] for row, place in zip(values, ends, strict=True)]


def _texts(column: str, kind: SequenceOf, symbols: Sequence[Any], values: Num[np.ndarray, "n T"]) -> list[Any]:
    """The symbols of each row, up to its end."""
    end = len(symbols)
    codes = _codes(column, values, PADDING, end - 1 + kind.end)
    is_cut = ~(codes == end).any(1)
    if kind.end and is_cut.any():
        raise DataError(
            f"Column {column!r}: row {int(np.argmax(is_cut))} has no end, {end}: the beginning of a sequence, cut "
            "where it was too long, and would be read as a whole one. Simulate with a larger max_length of the family, "
            f"or decode the rows that end alone, codes[(codes == {end}).any(1)]."
        )
    is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols)
    steps = [[symbols[code] for code in row if PADDING < code < end] for row in codes.tolist()]
    return ["".join(row) for row in steps] if is_text else steps


Encoded: TypeAlias = tuple[Any, Bool[np.ndarray, "n D"] | None]  # numbers, and a mask where some cells are missing

# kind -> (what a cell has to satisfy, the same in words)
_RULES: Mapping[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "binary": (lambda cells: (cells == 0) | (cells == 1), "True or False, or 1 or 0"),
    "count": (lambda cells: (cells >= 0) & (cells == np.floor(cells)), "a whole number, zero or more"),
}


def _declare(name: str, kind: str) -> str:
    return f"declare it, Schema(kinds={{{name!r}: {kind}}}); a family chosen for it has to be of that kind."


class Wording(NamedTuple):
    """The wording of messages on cells.

    Attributes:
        place: row of the matrix -> its name.
        declared: kind -> its declaration for the column.
        remedy: (column, declared kind) -> what to do where values are of another kind.
        unknown: what to do about cells that are not finite.
    """

    place: Callable[[int], str] = "row {}".format
    declared: Callable[[str], str] = repr
    remedy: Callable[[str, str], str] = _declare
    unknown: str = "make them NaN where the value is not known: cells may be missing"


ROWS = Wording()


def encode_numbers(
    matrix: Any, names: Sequence[str], kind: str, *, takes_unknown: bool = False, wording: Wording = ROWS
) -> Encoded:
    """The cells of real, binned, binary or count columns as floats, with a mask of the observed ones, or None.

    `matrix` is (n, D), an ndarray or csr_array; `names` are its D columns. Floating real columns are returned without a
    copy, all others as float64. Missing cells are NaN in real columns and 0 in others. Raises DataError for text, for
    infinite cells, for cells that break the kind's rule (unknown binary cells are missing, if taken), and for missing
    cells of sparse matrices.
    """
    if not isinstance(matrix, np.ndarray):
        return _encode_sparse(matrix, names, kind, wording), None
    numbers = matrix if matrix.dtype.kind == "f" else _as_floats(matrix, names, kind, wording)
    if matrix.dtype.kind == "b" or (kind == "count" and _are_counts(numbers)):
        return numbers.astype(np.float64, copy=False), None
    chunks = checked_chunks(numbers.shape)
    finite = all(np.isfinite(numbers[rows]).all() for rows in chunks)
    observed = None if finite else _observed(numbers, names, kind, wording)
    if kind not in _RULES:
        return numbers, observed
    rule, _ = _RULES[kind]
    if kind == "binary" and takes_unknown:
        known = rule(numbers)
        observed = None if known.all() else known
    for rows in chunks:
        good = rule(numbers[rows])
        if observed is not None:
            good |= ~observed[rows]
        if not good.all():
            row, column = (int(place) for place in np.argwhere(~good)[0])
            _refuse_cell(names[column], kind, numbers[rows][row, column], rows.start + row, wording)
    if observed is not None:
        numbers = np.where(observed, numbers, 0.0)
    return numbers.astype(np.float64, copy=False), observed


def encode_categories(
    table: Table,
    columns: Mapping[str, str],
    categories: Mapping[str, Sequence[Any]],
    *,
    takes_unknown: bool = False,
) -> Encoded:
    """Codes (n, D), int64, of categorical columns, with a mask of the observed cells: None where all are.

    `columns` is the schema's name of a column -> the table's; `categories` the schema's name -> its values. Missing
    cells have code 0. Unknown values are missing, if they are taken, else a DataError.
    """
    categories = {column: categories[column] for column in columns}
    if isinstance(table, ArrayTable):
        integers = encode_integers(table.matrix(list(columns.values())), list(categories.values()))
        if integers is not None:
            return integers, None
    codes = np.empty((len(columns), table.num_rows), np.int64)  # column by column, as they are read and counted
    for j, (column, name) in enumerate(columns.items()):
        values = table.flat_column(name)
        codes[j] = category_codes(column, values, categories[column], takes_unknown=takes_unknown)
    observed = codes.T >= 0 if codes.min(initial=0) < 0 else None
    return np.maximum(codes, 0, out=codes).T if observed is not None else codes.T, observed


def category_codes(
    column: str, values: Shaped[np.ndarray, " n"], categories: Sequence[Any], *, takes_unknown: bool = False
) -> np.ndarray:
    """Codes (n,) of the cells of a categorical column, -1 where they are missing.

    Unknown values are -2, if they are taken, else a DataError.
    """
    remedy = (
        f"Correct it, declare every value, Schema(categories={{{column!r}: [...]}}), or take such cells as missing, "
        "Schema(unknown='missing')."
    )
    what, known = f"Column {column!r}", "Its categories are"
    return codes_among(values, categories, what, known, remedy, takes_missing=True, takes_unknown=takes_unknown)


def refuse_missing_cells(observed: np.ndarray, names: Sequence[str], reason: str) -> None:
    """DataError that names the columns with missing cells, their numbers, and the first row that has one.

    `observed` is (n, D); `reason` says why they are refused, and what to do.
    """
    missing = np.count_nonzero(~observed, axis=0)
    row = int(np.argmin(observed.all(axis=1)))
    raise DataError(f"Cells are missing in {_counted(names, missing=missing)}, the first at row {row}. {reason}")


def _observed(numbers: np.ndarray, names: Sequence[str], kind: str, wording: Wording) -> np.ndarray:
    """Mask of the observed cells. DataError: infinite ones."""
    chunks = checked_chunks(numbers.shape)
    infinite = np.asarray(sum(np.isinf(numbers[rows]).sum(axis=0) for rows in chunks))
    if infinite.any():
        row = int(np.argmax(np.isinf(numbers).any(axis=1)))
        raise DataError(
            f"These {kind} columns have cells that are no finite number: {_counted(names, infinite=infinite)}, the "
            f"first at {wording.place(row)}. Correct them, or {wording.unknown}."
        )
    return ~np.isnan(numbers)


def _as_floats(matrix: np.ndarray, names: Sequence[str], kind: str, wording: Wording = ROWS) -> np.ndarray:
    if matrix.dtype.kind == "f":
        return matrix
    if matrix.dtype.kind in "biu":
        return matrix.astype(np.float64)
    if matrix.dtype.kind not in "OUST":
        raise DataError(f"Column {names[0]!r} is declared {kind}, and has dtype {matrix.dtype}. Give it numbers.")
    columns = [_objects_as_floats(matrix[:, j].astype(object), name, kind, wording) for j, name in enumerate(names)]
    return np.stack(columns, axis=1)


def _objects_as_floats(values: np.ndarray, name: str, kind: str, wording: Wording) -> np.ndarray:
    """Python objects (n,) as float64, missing ones as NaN. DataError for anything else."""
    import pandas as pd

    present = ~pd.isna(values)
    wrong = {t for t in set(map(type, values[present])) if not issubclass(t, Real | Decimal | np.bool_)}
    if wrong:
        row = next(row for row, value in enumerate(values) if present[row] and type(value) in wrong)
        words = _RULES[kind][1] if kind in _RULES else "a number"
        raise DataError(
            f"Column {name!r} is {kind}, and has {values[row]!r} at {wording.place(row)}. Turn it into {words}, or "
            f"{wording.remedy(name, wording.declared('categorical'))}"
        )
    floats = np.full(len(values), np.nan)
    try:
        floats[present] = values[present].astype(np.float64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if present[row] and abs(value) > sys.float_info.max)
        raise DataError(
            f"Column {name!r} has a number at {wording.place(row)} that is larger than any floating-point number. Give "
            "it in other units, or as text."
        ) from None
    return floats


def _are_counts(numbers: np.ndarray) -> bool:
    """Whether all cells are counts below 2^31; False where that has to be checked cell by cell."""
    return all(whole_numbers(numbers[rows]) is not None for rows in checked_chunks(numbers.shape))


def _counted(names: Sequence[str], **counts: np.ndarray) -> str:
    """The columns with such cells, each with their numbers."""
    culprits = np.flatnonzero(sum(counts.values()))
    parts = []
    for j in culprits[:10]:
        words = [f"{of_sort[j]} {sort}" for sort, of_sort in counts.items() if of_sort[j]]
        parts.append(f"{names[int(j)]!r} ({', '.join(words)})")
    return ", ".join(parts) + (f" and {len(culprits) - 10} more" if len(culprits) > 10 else "")


def _refuse_cell(name: str, kind: str, value: Any, row: int, wording: Wording) -> NoReturn:
    other = "count" if value >= 0 and value == np.floor(value) else "real"
    raise DataError(
        f"Column {name!r} is {kind}, and has {quote_some([value])} at {wording.place(row)}. A {kind} cell has to be "
        f"{_RULES[kind][1]}. Correct it, or {wording.remedy(name, wording.declared(other))}"
    )


def _encode_sparse(matrix: Any, names: Sequence[str], kind: str, wording: Wording) -> Any:
    """`encode_numbers` of a csr_array: only stored cells are checked, and indices are shared."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's own matrix keeps its repeated entries
        matrix.sum_duplicates()
    data = _as_floats(matrix.data[:, None], names, kind)[:, 0]
    if not (kind == "count" and _are_counts(data[:, None])):
        _check_sparse(data, matrix, names, kind, wording)
    data = data if kind not in _RULES else data.astype(np.float64, copy=False)
    encoded = sharing_cells(data, matrix.indices, matrix.indptr, matrix.shape[1])
    encoded.has_canonical_format = True
    return encoded


def _check_sparse(data: np.ndarray, matrix: Any, names: Sequence[str], kind: str, wording: Wording) -> None:
    finite = np.isfinite(data)
    if not finite.all():
        missing, infinite = (np.bincount(matrix.indices[f(data)], minlength=len(names)) for f in (np.isnan, np.isinf))
        culprits = _counted(names, missing=missing, infinite=infinite)
        raise DataError(
            f"X is sparse, and has cells that are no finite number: {culprits}. What it does not store is zero, so "
            "none of its cells can be missing. Drop these rows; or give a dense array, X.toarray(), to a model of "
            "single columns, such as BetaBernoulli() or GammaPoisson() are."
        )
    if kind in _RULES:
        rule, _ = _RULES[kind]
        good = rule(data)
        if not good.all():
            cell = int(np.argmin(good))
            row = int(np.searchsorted(matrix.indptr, cell, side="right")) - 1
            _refuse_cell(names[matrix.indices[cell]], kind, data[cell], row, wording)


def whole_numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as 32-bit integers; None where one is negative, not whole, not finite, or from 2^31 on.

    Comparing a cast with its origin takes half the time of these checks one by one.
    """
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.int32)
    return numbers if numbers.min(initial=0) >= 0 and (numbers == values).all() else None
