"""Training data as tables: one, or one for each chunk of data that come in chunks."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard, cast

import numpy as np
from scipy.sparse import issparse

from bayesgen.errors import BayesgenError, DataError, UnknownValuesWarning, warn
from bayesgen.typing import Data, Shaped, Values

from .schema import Schema
from .sequence_of import SEQUENCE
from .tables import read_table
from .views import Table

ALL_ZERO = "sample_weight is zero for all rows. Give some row a positive weight."


def read_tables(
    X: Data | Iterable[tuple], y: Values | None = None, sample_weight: Values | None = None
) -> Iterator[Table]:
    """The table of X, y and sample_weight; or those of successive chunks, tuples of these, that have rows.

    Raises:
        DataError: not a table (see `read_table`) or not a chunk, naming the chunk; data without rows.
    """
    if not is_chunked(X):
        table = read_table(cast(Data, X), y, sample_weight)
        if not table.num_rows:
            raise DataError(ALL_ZERO)
        yield table
        return
    if y is not None or sample_weight is not None:
        raise DataError("Chunks hold their labels and weights: give tuples (X, y) or (X, y, sample_weight), and no y.")
    number, has_rows = 0, False
    for number, chunk in enumerate(X, 1):
        with naming_origin(number):
            table = read_chunk(chunk)
        if table.num_rows:
            has_rows = True
            yield dataclasses.replace(table, chunk_number=number)
    if not number:
        raise DataError("X is an iterable without chunks. Give at least one (a generator can be read only once).")
    if not has_rows:
        raise DataError(ALL_ZERO)


def is_chunked(X: Data | Iterable[tuple]) -> TypeGuard[Iterable[tuple]]:
    """Whether X is an iterable of chunks, not a table.

    It is if it can be iterated over but not indexed (a generator, `zip`, an object with `__iter__` alone), or if it
    is a list or tuple whose first item is a tuple that begins with an array, frame or mapping: the rows of a table
    hold cells there. So [(1.0, 2.0), (3.0, 4.0)] is a table of two rows, and [(X1, y1), (X2, y2)] two chunks.
    """
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], tuple) and bool(X[0]) and _holds_cells(X[0][0])
    is_array = issparse(X) or hasattr(X, "__array__") or hasattr(X, "__getitem__")
    return isinstance(X, Iterable) and not is_array


def _holds_cells(value: object) -> bool:
    return isinstance(value, list | tuple | Mapping) or issparse(value) or len(getattr(value, "shape", ())) > 0


def read_chunk(chunk: tuple) -> Table:
    """The table of (X,), (X, y) or (X, y, sample_weight).

    Raises:
        DataError: anything but such a tuple, saying what it is.
    """
    if not isinstance(chunk, tuple) or not 1 <= len(chunk) <= 3:
        found = f"one of length {len(chunk)}" if isinstance(chunk, tuple) else f"of type {type(chunk).__name__}"
        raise DataError(f"This has to be a tuple (X, y) or (X, y, sample_weight), as all others, and is {found}.")
    return read_table(*chunk)


@contextlib.contextmanager
def naming_origin(chunk_number: int, num_dropped: int = 0) -> Iterator[None]:
    """Add to messages of errors which chunk was refused, and that rows of weight 0 are not counted.

    `chunk_number` is 0 for data that do not come in chunks.
    """
    try:
        yield
    except BayesgenError as error:
        message = str(error)
        if num_dropped and isinstance(error, DataError):
            message += f" (Rows are counted without the {num_dropped} of weight 0.)"
        if chunk_number:
            message = f"Chunk {chunk_number}: {message}"
        if chunk_number > 1:
            message += " (What the schema does not declare comes from chunk 1.)"
        if message == str(error):
            raise
        raise type(error)(message) from error


def row_chunks(schema: Schema, table: Table) -> list[slice]:
    """Slices of a few rows of a table each, by their numbers of cells: each time step of a sequence is one."""
    columns = schema.columns_of(SEQUENCE) if schema.kinds else ()
    if not columns or not table.num_rows:
        return table.chunks()
    some = table.rows(np.unique(np.linspace(0, table.num_rows - 1, 256).astype(int)))  # enough for a mean length
    return table.chunks(sum(_mean_length(some.column(name)) for name in schema.names_in(table, columns)))


def _mean_length(cells: Shaped[np.ndarray, "n ..."]) -> float:
    """The mean number of time steps of sequences; cells that are not sequences have none."""
    if cells.ndim > 1:
        return float(cells.shape[1])
    return float(np.mean([len(cell) if hasattr(cell, "__len__") else 0 for cell in cells.tolist()]))


def warn_of_unknown(cells: Mapping[str, int]) -> None:
    """One warning that counts the cells of each column, if there are any."""
    if cells:
        counted = ", ".join(f"{column!r} ({count})" for column, count in list(cells.items())[:10])
        more = f" and {len(cells) - 10} more" if len(cells) > 10 else ""
        warn(
            f"Cells with values that their columns neither had in training nor declare are taken as missing: "
            f"{counted}{more}.",
            UnknownValuesWarning,
        )
