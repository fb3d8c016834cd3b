"""The kinds of numbers: real, binary and count, and their encoding; errors name culprit and remedy.

Dense matrices are checked in blocks of rows, so that no check needs a second matrix in memory.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real as RealNumber
from typing import NamedTuple, NoReturn, final

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import CACHED_CELLS, THREAD_CELLS, chunks, even_chunks, in_threads
from bayesgen.typing import Category, Num

from .kinds import CellCondition, Columns, Encoded, Kind
from .views import sharing_cells


@dataclass(frozen=True, repr=False, eq=False)
class Numbers(Kind):
    """A kind whose cells are numbers and are encoded as they are: see `encode_numbers`."""

    def encode(self, columns: Columns) -> Encoded:
        cells = columns.table.matrix(columns.table_names)
        return encode_numbers(cells, columns.names, self, takes_unknown=columns.takes_unknown)

    def check_decodable(self, column: str, values: Num[np.ndarray, "n ..."]) -> None:
        """DataError: the first number that breaks the rule of the kind, by row."""
        if self.condition is None:
            return
        wrong = ~self.condition.holds(values)
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            raise DataError(f"Column {column!r}: {values[wrong][0]:g} in row {row} is not {self.condition.words}.")


@final
@dataclass(frozen=True, repr=False, eq=False)
class Real(Numbers):
    """Real numbers, NaN where they are missing."""

    name = "real"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Binary(Numbers):
    """Truth values, or 0 and 1."""

    name = "binary"
    condition = CellCondition(lambda cells: (cells == 0) | (cells == 1), "True or False, or 1 or 0", takes_unknown=True)

    def decode(self, column: str, categories: Sequence[Category], values: Num[np.ndarray, "n ..."]) -> np.ndarray:
        return values > 0.5


MOST_COUNT = np.float64(1e100)  # log factorials are finite, and their sums; a plain number overflows beside float32


@final
@dataclass(frozen=True, repr=False, eq=False)
class Count(Numbers):
    """Whole numbers, zero or more."""

    name = "count"
    condition = CellCondition(
        lambda cells: (cells >= 0) & (cells <= MOST_COUNT) & (cells == np.floor(cells)),
        f"a whole number from 0 to {MOST_COUNT:g}",
        lambda cells: _are_counts(cells),
    )


REAL, BINARY, COUNT = Real(), Binary(), Count()


class Wording(NamedTuple):
    """The wording of messages on cells.

    Attributes:
        place: row of the matrix -> its name.
        declared: kind -> its declaration for the column.
    """

    place: Callable[[int], str] = "row {}".format
    declared: Callable[[str], str] = repr

    def remedy(self, column: str, kind: str) -> str:
        """What to do about values of another kind."""
        declared = f"Schema(kinds={{{column!r}: {self.declared(kind)}}})"
        return f"declare it, {declared}; a family chosen for it has to be of that kind."


ROWS = Wording()


def encode_numbers(
    matrix: np.ndarray | csr_array,
    names: Sequence[str],
    kind: Kind,
    *,
    takes_unknown: bool = False,
    wording: Wording = ROWS,
) -> Encoded:
    """The cells of columns of numbers as floats, with a mask of the observed ones, or None.

    `matrix` is (n, D), an ndarray or csr_array; `names` are its D columns. Floating real columns are returned without a
    copy, all others, and those of more than 64 bits, as float64. Missing cells are NaN in real columns and 0 in others.
    Raises DataError for text, for infinite cells, for cells that break the kind's rule (unknown binary cells are
    missing, if taken), and for missing cells of sparse matrices.
    """
    condition = kind.condition
    if not isinstance(matrix, np.ndarray):
        return Encoded(_encode_sparse(matrix, names, kind, wording), None)
    is_float = matrix.dtype in (np.float64, np.float32)
    numbers = matrix if is_float else _as_floats(matrix, names, kind, wording)
    if matrix.dtype.kind == "b" or (condition is not None and condition.hold_all(numbers)):
        return Encoded(numbers.astype(np.float64, copy=False), None)
    parts = even_chunks(len(numbers), THREAD_CELLS / max(1, numbers.shape[1]))
    finite = all([*in_threads(lambda rows: math.isfinite(norm(numbers[rows])), parts)])
    observed = None if finite else _observed(numbers, names, kind, wording)
    if condition is None:
        return Encoded(numbers, observed)
    unknown: dict[str, int] = {}
    if condition.takes_unknown and takes_unknown:
        is_value = condition.holds(numbers)
        counts = np.count_nonzero(~is_value & ~np.isnan(numbers), axis=0)
        unknown = {names[j]: int(counts[j]) for j in np.flatnonzero(counts).tolist()}
        observed = None if is_value.all() else is_value
    for rows in _cached_chunks(numbers):
        good = condition.holds(numbers[rows])
        if observed is not None:
            good |= ~observed[rows]
        if not good.all():
            row, column = map(int, np.argwhere(~good)[0])
            _refuse_cell(names[column], kind, numbers[rows][row, column], rows.start + row, wording)
    if observed is not None:
        numbers = np.where(observed, numbers, 0.0)
    return Encoded(numbers.astype(np.float64, copy=False), observed, unknown)


def refuse_missing_cells(observed: np.ndarray, names: Sequence[str], reason: str) -> None:
    """DataError that names the columns with missing cells, their numbers, and the first row that has one.

    `observed` is (n, D); `reason` says why they are refused, and what to do.
    """
    missing = np.count_nonzero(~observed, axis=0)
    row = int(np.argmin(observed.all(axis=1)))
    raise DataError(f"Cells are missing in {_counted(names, missing=missing)}, the first at row {row}. {reason}")


def norm(values: np.ndarray) -> float:
    """The root of the sum of squares: no cell is larger, and none is NaN or infinite if it is finite.

    Of large arrays it takes half the time of `isfinite`, or of looking for the largest cell.
    """
    cells = values.ravel("K").astype(np.result_type(values, np.float32), copy=False)
    with np.errstate(over="ignore"):
        return math.sqrt(np.dot(cells, cells))


def _observed(numbers: np.ndarray, names: Sequence[str], kind: Kind, wording: Wording) -> np.ndarray | None:
    """Mask of the observed cells; None where all are. DataError: infinite ones."""
    infinite = np.asarray(sum(np.isinf(numbers[rows]).sum(axis=0) for rows in _cached_chunks(numbers)))
    if infinite.any():
        row = int(np.argmax(np.isinf(numbers).any(axis=1)))
        raise DataError(
            f"These {kind.name} columns have cells that are no finite number: {_counted(names, infinite=infinite)}, "
            f"the first at {wording.place(row)}. Correct them, or make them NaN where the value is not known: cells "
            "may be missing."
        )
    observed = ~np.isnan(numbers)
    return None if observed.all() else observed


def _as_floats(matrix: np.ndarray, names: Sequence[str], kind: Kind, wording: Wording = ROWS) -> np.ndarray:
    if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= np.dtype(np.float64).itemsize:
        return matrix
    if matrix.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # infinite cells are refused by name
            return matrix.astype(np.float64)
    if matrix.dtype.kind not in "OUST":
        raise DataError(f"Column {names[0]!r} is declared {kind.name}, and has dtype {matrix.dtype}. Give it numbers.")
    columns = [_objects_as_floats(matrix[:, j].astype(object), name, kind, wording) for j, name in enumerate(names)]
    return np.stack(columns, axis=1)


def _objects_as_floats(values: np.ndarray, name: str, kind: Kind, wording: Wording) -> np.ndarray:
    """Python objects (n,) as float64, missing ones as NaN. DataError for anything else."""
    present = ~pd.isna(values)
    wrong = {t for t in set(map(type, values[present])) if not issubclass(t, RealNumber | Decimal | np.bool_)}
    if wrong:
        row = next(row for row, value in enumerate(values) if present[row] and type(value) in wrong)
        words = "a number" if kind.condition is None else kind.condition.words
        raise DataError(
            f"Column {name!r} is {kind.name}, and has {values[row]!r} at {wording.place(row)}. Turn it into {words}, "
            f"or {wording.remedy(name, 'categorical')}"
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


def _cached_chunks(matrix: np.ndarray) -> list[slice]:
    """Chunks of the rows of a matrix (n, D) that stay in the cache of a core, for checks of its cells."""
    return chunks(len(matrix), CACHED_CELLS // max(1, matrix.shape[1]))


def _are_counts(numbers: np.ndarray, counts: np.ndarray | None = None) -> bool:
    """Whether all cells are counts below 2^31, copied to `counts`; False where that has to be checked cell by cell."""

    def are_counts(rows: slice) -> bool:
        cells, copies = numbers[rows], None if counts is None else counts[rows]
        parts = chunks(len(cells), CACHED_CELLS // 2 // max(1, numbers.shape[1]))
        return all(whole_numbers(cells[part], None if copies is None else copies[part]) is not None for part in parts)

    return all([*in_threads(are_counts, even_chunks(len(numbers), THREAD_CELLS / max(1, numbers.shape[1])))])


def _counted(names: Sequence[str], **counts: np.ndarray) -> str:
    """The columns with such cells, each with their numbers."""
    culprits = np.flatnonzero(sum(counts.values()))
    parts = []
    for j in culprits[:10]:
        words = [f"{numbers[j]} {sort}" for sort, numbers in counts.items() if numbers[j]]
        parts.append(f"{names[int(j)]!r} ({', '.join(words)})")
    return ", ".join(parts) + (f" and {len(culprits) - 10} more" if len(culprits) > 10 else "")


def _refuse_cell(name: str, kind: Kind, value: float, row: int, wording: Wording) -> NoReturn:
    other = "count" if kind is not COUNT and value >= 0 and value == np.floor(value) else "real"
    assert kind.condition is not None
    raise DataError(
        f"Column {name!r} is {kind.name}, and has {quote_some([value])} at {wording.place(row)}. A {kind.name} cell "
        f"has to be {kind.condition.words}. Correct it, or {wording.remedy(name, other)}"
    )


def _encode_sparse(matrix: csr_array, names: Sequence[str], kind: Kind, wording: Wording) -> csr_array:
    """`encode_numbers` of a csr_array: only stored cells are checked, and indices are shared."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's own matrix keeps its repeated entries
        matrix.sum_duplicates()
    data = _as_floats(matrix.data[:, None], names, kind)[:, 0]
    counts = np.empty(data.shape, np.int32) if isinstance(kind, Count) else None
    are_counts = counts is not None and _are_counts(data[:, None], counts[:, None])
    if not are_counts:
        _check_sparse(data, matrix, names, kind, wording)
    data = data if kind.condition is None else data.astype(np.float64, copy=False)
    encoded = sharing_cells(data, matrix.indices, matrix.indptr, matrix.shape[1], counts if are_counts else None)
    encoded.has_canonical_format = True
    return encoded


def _check_sparse(data: np.ndarray, matrix: csr_array, names: Sequence[str], kind: Kind, wording: Wording) -> None:
    finite = np.isfinite(data)
    if not finite.all():
        missing, infinite = (np.bincount(matrix.indices[f(data)], minlength=len(names)) for f in (np.isnan, np.isinf))
        culprits = _counted(names, missing=missing, infinite=infinite)
        raise DataError(
            f"X is sparse, and has cells that are no finite number: {culprits}. A cell that it does not store is "
            "zero, so none can be missing. Drop these rows; or give a dense array, X.toarray(), to a model of "
            "single columns, such as BetaBernoulli() or GammaPoisson() are."
        )
    if kind.condition is not None:
        good = kind.condition.holds(data)
        if not good.all():
            cell = int(np.argmin(good))
            row = int(np.searchsorted(matrix.indptr, cell, side="right")) - 1
            raise DataError(
                f"Column {names[matrix.indices[cell]]!r} is {kind.name}, and has {quote_some([data[cell]])} at "
                f"{wording.place(row)} of a sparse X. A {kind.name} cell has to be {kind.condition.words}. Correct it "
                "(give counts of words, say, in place of their tf-idf), or give a dense array, X.toarray()."
            )


def whole_numbers(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray | None:
    """The values as 32-bit integers, in `out`; None where one is negative, not whole, not finite, or from 2^31 on.

    Comparing a cast with its origin takes half the time of these checks one by one.
    """
    numbers = np.empty(values.shape, np.int32) if out is None else out
    with np.errstate(invalid="ignore"):
        numbers[...] = values
    return numbers if numbers.min(initial=0) >= 0 and (numbers == values).all() else None
