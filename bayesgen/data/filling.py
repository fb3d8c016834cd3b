"""Data with other values in some cells, in the form in which they came."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .views import ArrayTable, FrameTable, MappingTable, Table

Cells: TypeAlias = Mapping[str, tuple[np.ndarray, np.ndarray]]  # column -> (rows, values)


@functools.singledispatch
def filled(table: Table, cells: Cells) -> Any:
    """A copy of a table's data in the form in which they came, with other values in some cells.

    Tables of other kinds than those below, sparse matrices, have no cells that could be missing.
    """
    return table.matrix(table.names).copy()


@filled.register
def _(table: ArrayTable, cells: Cells) -> np.ndarray:
    values = table.values.copy()
    for name, (rows, found) in cells.items():
        values[rows, table.names.position(name)] = found
    return _without_objects(values) if cells else values


@filled.register
def _(table: MappingTable, cells: Cells) -> dict[str, np.ndarray]:
    arrays = {name: array.copy() for name, array in table.arrays.items()}
    for name, (rows, found) in cells.items():
        arrays[name][rows] = found
        arrays[name] = _without_objects(arrays[name])
    return arrays


@filled.register
def _(table: FrameTable, cells: Cells) -> Any:
    import narwhals as nw

    columns = []
    for name, (rows, found) in cells.items():
        column, values = table.frame[name], found.tolist()
        as_texts = column.dtype == nw.Categorical and table.frame.implementation.is_pyarrow()  # which takes no others
        if len(rows) == len(column) and not _takes(column.dtype, found):
            columns.append(nw.new_series(name, values, backend=table.frame.implementation))
            continue
        if column.dtype.is_integer() and _are_integers(found, column.dtype):
            values = [int(value) for value in values]
        elif column.dtype.is_integer():
            column = column.cast(nw.Float64)
        filled_in = (column.cast(nw.String) if as_texts else column).scatter(rows.tolist(), values)
        columns.append(filled_in.cast(nw.Categorical) if as_texts else filled_in)
    return table.frame.with_columns(*columns).to_native()


def _are_integers(values: np.ndarray, dtype: Any) -> bool:
    """Whether numbers are whole and within the range of an integer dtype."""
    limits = np.iinfo(str(dtype).lower())
    return bool(((values == np.floor(values)) & (values >= limits.min) & (values <= limits.max)).all())


def _takes(dtype: Any, values: np.ndarray) -> bool:
    """Whether a column without any cell, whose dtype may tell nothing of it, can hold values."""
    import narwhals as nw

    if dtype == nw.Boolean:
        return values.dtype.kind == "b"
    return values.dtype.kind in "iuf" if dtype.is_numeric() else dtype in (nw.String, nw.Categorical, nw.Enum)


def collected(copies: Sequence[Any]) -> Any:
    """Several copies of data in one: arrays, and those of mappings, have a first axis of copies; frames are a list."""
    if isinstance(copies[0], np.ndarray):
        return np.stack(copies)
    if isinstance(copies[0], dict):
        return {name: np.stack([copy[name] for copy in copies]) for name in copies[0]}
    return list(copies)


def _without_objects(values: np.ndarray) -> np.ndarray:
    """Numbers and booleans that were objects because some were missing, as an array of their own dtype."""
    if values.dtype.kind != "O":
        return values
    plain = np.asarray(values.tolist())
    return plain if plain.dtype.kind in "biuf" and plain.shape == values.shape else values
