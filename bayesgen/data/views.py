"""Read-only views of X: one kind of table for each kind of X.

No cell is copied, cast or checked here, but by `Schema.encode_cells`.
"""

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias, final

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import table_chunks
from bayesgen.typing import Category

from .category_values import dtype_categories
from .columns import (
    DECLARED,
    PositionalNames,
    as_integers,
    holds_integers,
    holds_objects,
    kind_of_dtype,
    kind_of_objects,
    mismatch,
    values_of,
)
from .sequences import Padded, SequenceCells

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd
    from narwhals.typing import IntoFrame
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(abc.ABC):
    """A read-only view of X: columns by name, rows along axis 0, with labels and weights of rows.

    Attributes:
        names: the column names, in order.
        named: whether they came from the user (a frame, a mapping) or are positions (an array, a sparse matrix: "x0",
            "x1", ...).
        num_rows: number of rows.
        uniform_kind: the inferred kind where all columns have one dtype that tells it; else None.
        labels: labels of any type, (n,); None where none were given.
        declared_classes: the classes that the dtype of the labels declares, in order, or None.
        weights: frequency weights, (n,); None where none were given.
        num_dropped: number of rows of weight 0, which are left out.
        kept: positions of the rows among those given; None where none was dropped.
        index: the index of a frame or series of pandas; None for other data.
        chunk_number: of data in chunks, from 1; 0 for other data.
        start: position of the first row in the table that this is a slice of.
        unknown: column and `start` of a slice -> the number of its cells that were read with unknown values. Slices of
            a table share it, whatever the threads that read them, and so does who reads a slice again.
    """

    names: Sequence[str]
    num_rows: int
    named: bool = False
    uniform_kind: str | None = None
    labels: np.ndarray | None = None
    declared_classes: tuple[Category, ...] | None = None
    weights: np.ndarray | None = None
    num_dropped: int = 0
    kept: np.ndarray | None = None
    index: "pd.Index | None" = None
    chunk_number: int = 0
    start: int = 0
    unknown: dict[tuple[str, int], int] = field(default_factory=dict)
    sparse: ClassVar[bool] = False

    @abc.abstractmethod
    def inferred_kind(self, name: str) -> str:
        """real, binary, categorical or count: from the dtype, of objects from the types of the observed cells.

        KeyError: no such column. DataError: a column whose cells are lists.
        """

    def declared_categories(self, name: str) -> tuple[Category, ...] | None:
        """The values that the dtype of a column declares, in order; None where it declares none."""
        return None

    @abc.abstractmethod
    def column(self, name: str) -> np.ndarray:
        """The raw values (n,) of a column; in a mapping they may be (n, ...). KeyError: no such column."""

    def flat_column(self, name: str) -> np.ndarray:
        """`column`, one value a row. DataError: a column of a mapping whose rows are arrays."""
        return self.column(name)

    def sequences(self, name: str) -> SequenceCells:
        """The cells of a column of sequences, as they were given: lists stay lists."""
        return self.column(name)

    @abc.abstractmethod
    def matrix(self, names: Sequence[str]) -> "np.ndarray | csr_array":
        """The raw values (n, len(names)), an ndarray or csr_array. Copies only what it has to."""

    def rows(self, places: slice | np.ndarray) -> "Table":
        """The table of some rows, a slice or their positions. A slice is a view."""
        if isinstance(places, slice) and places == slice(0, self.num_rows):
            return self
        of_rows = {name: getattr(self, name) for name in ("labels", "weights", "kept", "index")}
        taken = {name: given[places] for name, given in of_rows.items() if given is not None}
        if isinstance(places, slice):
            return replace(self._of_rows(places), **taken, start=self.start + places.indices(self.num_rows)[0])
        return replace(self._of_rows(places), **taken, start=0, unknown={})

    def count_unknown(self, cells: Mapping[str, int]) -> None:
        """Remember how many cells of these rows have unknown values, by column."""
        for column, number in cells.items():
            self.unknown[column, self.start] = number

    @property
    def unknown_cells(self) -> Mapping[str, int]:
        """Column -> the number of its cells that were read with unknown values."""
        counts: dict[str, int] = {}
        for (column, _), number in self.unknown.items():
            counts[column] = counts.get(column, 0) + number
        return counts

    @abc.abstractmethod
    def _of_rows(self, places: slice | np.ndarray) -> "Table":
        """The same with the cells of some rows only."""

    def chunks(self, more_per_row: float = 0.0) -> list[slice]:
        """Slices of a few rows each, at least one, so that arrays computed from them stay small.

        `more_per_row` is the number of values that are computed from a row besides a copy of its cells.
        """
        return table_chunks(self.num_rows, self.cells_per_row + more_per_row) if self.num_rows else [slice(0, 0)]

    @property
    def cells_per_row(self) -> float:
        """The mean number of cells of a row."""
        return len(self.names)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayTable(Table):
    """A 2-D array (n, D) of one dtype."""

    values: np.ndarray
    names: PositionalNames

    def inferred_kind(self, name: str) -> str:
        position = self.names.position(name)
        return self.uniform_kind or self._kinds_of_objects[position]

    @cached_property
    def _kinds_of_objects(self) -> list[str]:
        """The kinds of columns of objects; of those without observed cells the kind of the others, if they have one."""
        kinds = [kind_of_objects(column, name) for name, column in zip(self.names, self.values.T, strict=True)]
        different = {kind for kind in kinds if kind is not None}
        default = different.pop() if len(different) == 1 else "categorical"
        return [kind or default for kind in kinds]

    def column(self, name: str) -> np.ndarray:
        return self.values[:, self.names.position(name)]

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        return self.values[:, self.names.positions(names)]

    def _of_rows(self, places: slice | np.ndarray) -> "ArrayTable":
        values = self.values[places]
        return replace(self, values=values, num_rows=len(values))


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SparseTable(Table):
    """A scipy.sparse matrix (n, D) of any format, read as csr: counts, unless the schema says otherwise."""

    values: "csr_array"
    names: PositionalNames
    uniform_kind: str = "count"
    sparse: ClassVar[bool] = True

    def inferred_kind(self, name: str) -> str:
        self.names.position(name)
        return self.uniform_kind

    def column(self, name: str) -> np.ndarray:
        return self.values[:, [self.names.position(name)]].toarray()[:, 0]

    def matrix(self, names: Sequence[str]) -> "csr_array":
        places = self.names.positions(names)
        return self.values if places == slice(0, len(self.names)) else self.values[:, places]

    def _of_rows(self, places: slice | np.ndarray) -> "SparseTable":
        values = successive_rows(self.values, places) if isinstance(places, slice) else self.values[places]
        return replace(self, values=values, num_rows=values.shape[0])

    @property
    def cells_per_row(self) -> float:
        return 4 + self.values.nnz / self.num_rows  # a row's class, its total, where it begins, and how long it is


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FrameTable(Table):
    """A data frame that narwhals reads. `frame` is its narwhals view."""

    frame: "nw.DataFrame"
    named: bool = True

    def inferred_kind(self, name: str) -> str:
        series = self.frame[name]
        if holds_objects(series):
            return kind_of_objects(values_of(series), name) or "categorical"
        return kind_of_dtype(self._dtypes[name], name)

    def declared_categories(self, name: str) -> tuple[Category, ...] | None:
        return dtype_categories(self.frame[name].to_native())

    @cached_property
    def _dtypes(self) -> Mapping[str, "nw.dtypes.DType"]:
        return self.frame.schema  # dtypes column by column take ten times as long

    def column(self, name: str) -> np.ndarray:
        values = values_of(self.frame[name])
        if holds_integers(self._dtypes[name], values):  # and each is a value of its own
            return np.asarray(self.frame[name].to_list(), object)
        return values

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        if not names:
            return np.empty((self.num_rows, 0))
        if self.frame.implementation.is_pyarrow():
            return np.stack([values_of(self.frame[name]) for name in names], axis=1)
        return self.frame.select(list(names)).to_numpy()

    def _of_rows(self, places: slice | np.ndarray) -> "FrameTable":
        frame = self.frame[places]
        return replace(self, frame=frame, num_rows=len(frame))


@final
@dataclass(frozen=True, eq=False)
class Column:
    """A column of a mapping.

    Attributes:
        values: (n,) or (n, ...).
        kind: the name of the kind of its dtype; None where cells are objects, which have types of their own.
        categories: those that its dtype declares, in order, or None.
        are_integers: whether these are integers that became floats, because some of the cells are missing.
        given: the rows where they are more than the array: lists of one length, and arrays with lengths; else None.
    """

    values: np.ndarray
    kind: str | None
    categories: tuple[Category, ...] | None = None
    are_integers: bool = False
    given: SequenceCells | None = None

    def rows(self, places: slice | np.ndarray) -> "Column":
        """Some of the rows."""
        given = self.given.rows(places) if isinstance(self.given, Padded) else self.given
        given = given[places] if isinstance(given, np.ndarray) else given
        return replace(self, values=self.values[places], given=given)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MappingTable(Table):
    """A mapping name -> array (n,) or (n, ...)."""

    columns: Mapping[str, Column]
    named: bool = True

    def inferred_kind(self, name: str) -> str:
        column = self.columns[name]
        return column.kind or kind_of_objects(column.values, name) or "categorical"

    def declared_categories(self, name: str) -> tuple[Category, ...] | None:
        return self.columns[name].categories

    def column(self, name: str) -> np.ndarray:
        column = self.columns[name]
        return as_integers(column.values) if column.are_integers else column.values

    def flat_column(self, name: str) -> np.ndarray:
        self._flat_array(name)
        return self.column(name)

    def sequences(self, name: str) -> SequenceCells:
        given = self.columns[name].given
        return self.column(name) if given is None else given

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        arrays = [self._flat_array(name) for name in names]
        if not arrays:
            return np.empty((self.num_rows, 0))
        if len(arrays) == 1:
            return arrays[0][:, None]
        if any(array.dtype.kind not in "biuf" for array in arrays):
            # stacked as they are, NumPy would turn the numbers among them into text
            arrays = [array.astype(object) for array in arrays]
        return np.stack(arrays, axis=1)

    def _of_rows(self, places: slice | np.ndarray) -> "MappingTable":
        columns = {name: column.rows(places) for name, column in self.columns.items()}
        return replace(self, columns=columns, num_rows=len(next(iter(columns.values())).values))

    @property
    def cells_per_row(self) -> float:
        return sum(column.values.size for column in self.columns.values()) / self.num_rows

    def _flat_array(self, name: str) -> np.ndarray:
        array = self.columns[name].values
        if array.ndim != 1:
            raise DataError(
                f"Column {name!r} has shape {array.shape}, and one value a row is wanted here. "
                f"Pass its parts as columns of their own; {DECLARED.format(name)}"
            )
        return array


def names_among(known: Sequence[str], are_names: bool, table: Table, columns: Sequence[str]) -> Sequence[str]:
    """The table's names of some columns of a schema. An array in place of named columns is taken by position.

    Args:
        known: the columns of the schema.
        are_names: whether these are the user's names, and not positions.
        table: the table.
        columns: some of `known`.

    Raises:
        DataError: a table whose columns are not those of the schema.
    """
    names = table.names
    if not table.named:
        if len(names) != len(known):
            raise DataError(
                f"X has {len(names)} columns, and the schema has {len(known)}: "
                f"{quote_some(known)}. Give it those columns, in that order."
            )
        if not are_names:
            return columns
        if columns is known:
            return names
        place = {column: j for j, column in enumerate(known)}
        return [names[place[column]] for column in columns]
    message = None if tuple(names) == known else mismatch(known, names)
    if message is not None:
        origin = "" if are_names else " The schema comes from an array: give an array, or these names."
        raise DataError(f"{message}{origin} Rename, add or drop columns.")
    return columns


def successive_rows(values: "csr_array", part: slice) -> "csr_array":
    """Successive rows of a csr_array, which share its cells, unlike SciPy's own slices."""
    start, stop, _ = part.indices(values.shape[0])
    ends = values.indptr[start : stop + 1]
    cells = slice(ends[0], ends[-1])
    rows = sharing_cells(values.data[cells], values.indices[cells], ends - ends[0], values.shape[1])
    rows.has_canonical_format = values.has_canonical_format
    return rows


def sharing_cells(data: np.ndarray, columns: np.ndarray, ends: np.ndarray, num_columns: int) -> "csr_array":
    """A csr_array that shares these arrays; SciPy's constructor copies those that are parts of others."""
    from scipy.sparse import csr_array

    rows = csr_array((len(ends) - 1, num_columns), dtype=data.dtype)
    rows.data, rows.indices, rows.indptr = data, columns, ends
    return rows


if TYPE_CHECKING:
    Copy: TypeAlias = np.ndarray | dict[str, np.ndarray] | csr_array | IntoFrame  # of data, in their own form
NewCells: TypeAlias = Mapping[str, tuple[np.ndarray, np.ndarray]]  # column -> (rows, values)


@functools.singledispatch
def with_cells(table: Table, cells: NewCells) -> "Copy":
    """A copy of a table's data, in their own form, with other values in some cells.

    This is the form for sparse matrices, which have no missing cells.
    """
    return table.matrix(table.names).copy()


@with_cells.register(ArrayTable)
def _(table: ArrayTable, cells: NewCells) -> np.ndarray:
    values = table.values.copy()
    for name, (rows, found) in cells.items():
        values[rows, table.names.position(name)] = found
    return _without_objects(values) if cells else values


@with_cells.register(MappingTable)
def _(table: MappingTable, cells: NewCells) -> dict[str, np.ndarray]:
    arrays = {name: column.values.copy() for name, column in table.columns.items()}
    for name, (rows, found) in cells.items():
        arrays[name][rows] = found
        arrays[name] = _without_objects(arrays[name])
    return arrays


@with_cells.register(FrameTable)
def _(table: FrameTable, cells: NewCells) -> "IntoFrame":
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


def _are_integers(values: np.ndarray, dtype: "nw.dtypes.DType") -> bool:
    """Whether numbers are whole and within the range of an integer dtype."""
    limits = np.iinfo(str(dtype).lower())
    return bool(((values == np.floor(values)) & (values >= limits.min) & (values <= limits.max)).all())


def _takes(dtype: "nw.dtypes.DType", values: np.ndarray) -> bool:
    """Whether a column whose cells are all missing can hold these values by its dtype."""
    import narwhals as nw

    if dtype == nw.Boolean:
        return values.dtype.kind == "b"
    return values.dtype.kind in "iuf" if dtype.is_numeric() else dtype in (nw.String, nw.Categorical, nw.Enum)


def collected(copies: "list[Copy]") -> "np.ndarray | dict[str, np.ndarray] | list[Copy]":
    """Copies of data as one object: arrays, alone or in mappings, get a first axis; frames become a list."""
    if arrays := [copy for copy in copies if isinstance(copy, np.ndarray)]:
        return np.stack(arrays)
    if mappings := [copy for copy in copies if isinstance(copy, dict)]:
        return {name: np.stack([mapping[name] for mapping in mappings]) for name in mappings[0]}
    return copies


def _without_objects(values: np.ndarray) -> np.ndarray:
    """Numbers and booleans that were objects because some were missing, as an array of their own dtype."""
    if values.dtype.kind != "O":
        return values
    plain = np.asarray(values.tolist())
    return plain if plain.dtype.kind in "biuf" and plain.shape == values.shape else values
