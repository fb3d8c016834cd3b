"""Read-only views of X: one kind of table for each kind of X.

No cell is copied, cast or checked here, but by `Schema.encode_cells`.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import narwhals as nw
import numpy as np
import pandas as pd
from scipy.sparse import csr_array, vstack

from bayesgen.errors import DataError
from bayesgen.runtime import table_chunks
from bayesgen.typing import Category

from .columns import (
    DECLARED,
    PositionalNames,
    as_integers,
    as_objects,
    dtype_categories,
    holds_integers,
    holds_objects,
    kind_of_dtype,
    kind_of_objects,
    values_of,
)
from .sequences import Padded, SequenceCells

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame


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
        label_name: the name of the column that y was, where it was one of X.
        declared_classes: the classes that the dtype of the labels declares, in order, or None.
        weights: frequency weights, (n,); None where none were given.
        num_dropped: number of rows of weight 0, which are left out.
        positions: of the rows among those given; None where none was dropped.
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
    label_name: str | None = None
    declared_classes: tuple[Category, ...] | None = None
    weights: np.ndarray | None = None
    num_dropped: int = 0
    positions: np.ndarray | None = None
    index: pd.Index | None = None
    chunk_number: int = 0
    start: int = 0
    unknown: dict[tuple[str, int], int] = field(default_factory=dict)
    sparse: ClassVar[bool] = False
    form: ClassVar[str]
    """What a message calls X."""

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
    def matrix(self, names: Sequence[str]) -> np.ndarray | csr_array:
        """The raw values (n, len(names)), an ndarray or csr_array. Copies only what it has to."""

    def rows(self, places: slice | np.ndarray) -> "Table":
        """The table of some rows, a slice or their positions. A slice is a view."""
        if isinstance(places, slice) and places == slice(0, self.num_rows):
            return self
        columns = {name: getattr(self, name) for name in ("labels", "weights", "positions", "index")}
        columns = {name: values[places] for name, values in columns.items() if values is not None}
        if isinstance(places, slice):
            return replace(self._take(places), **columns, start=self.start + places.indices(self.num_rows)[0])
        return replace(self._take(places), **columns, start=0, unknown={})

    @property
    def unknown_cells(self) -> Mapping[str, int]:
        """Column -> the number of its cells that were read with unknown values."""
        counts: dict[str, int] = {}
        for (column, _), number in self.unknown.items():
            counts[column] = counts.get(column, 0) + number
        return counts

    @abc.abstractmethod
    def _take(self, places: slice | np.ndarray) -> "Table":
        """The table with the cells of some rows."""

    @abc.abstractmethod
    def with_rows_of(self, parts: "Sequence[Any]") -> "Table":
        """The table with the cells of all `parts`, tables of this class with the same columns."""

    @abc.abstractmethod
    def with_cells(self, cells: "NewCells") -> "Copy":
        """A copy of the data, in the form in which they were given, with other values in some cells."""

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
    form: ClassVar[str] = "an array"

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

    def _take(self, places: slice | np.ndarray) -> "ArrayTable":
        values = self.values[places]
        return replace(self, values=values, num_rows=len(values))

    def with_rows_of(self, parts: "Sequence[ArrayTable]") -> "ArrayTable":
        return replace(self, values=np.concatenate([part.values for part in parts]))

    def with_cells(self, cells: "NewCells") -> np.ndarray:
        array = self.values.copy()
        for name, (rows, values) in cells.items():
            array[rows, self.names.position(name)] = values
        return _without_objects(array) if cells else array


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SparseTable(Table):
    """A scipy.sparse matrix (n, D) of any format, read as csr: counts, unless the schema says otherwise."""

    values: csr_array
    names: PositionalNames
    uniform_kind: str = "count"
    sparse: ClassVar[bool] = True
    form: ClassVar[str] = "a sparse matrix"

    def inferred_kind(self, name: str) -> str:
        self.names.position(name)
        return self.uniform_kind

    def column(self, name: str) -> np.ndarray:
        return self.values[:, [self.names.position(name)]].toarray()[:, 0]

    def matrix(self, names: Sequence[str]) -> csr_array:
        positions = self.names.positions(names)
        return self.values if positions == slice(0, len(self.names)) else self.values[:, positions]

    def _take(self, places: slice | np.ndarray) -> "SparseTable":
        values = successive_rows(self.values, places) if isinstance(places, slice) else self.values[places]
        return replace(self, values=values, num_rows=values.shape[0])

    def with_rows_of(self, parts: "Sequence[SparseTable]") -> "SparseTable":
        return replace(self, values=csr_array(vstack([part.values for part in parts])))

    def with_cells(self, cells: "NewCells") -> csr_array:  # sparse matrices have no missing cells
        return self.values.copy()

    @property
    def cells_per_row(self) -> float:
        return 4 + self.values.nnz / self.num_rows  # a row's class, its total, where it begins, and how long it is


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FrameTable(Table):
    """A data frame that narwhals reads. `frame` is its narwhals view."""

    frame: nw.DataFrame
    named: bool = True
    form: ClassVar[str] = "a frame"

    def inferred_kind(self, name: str) -> str:
        series = self.frame[name]
        if holds_objects(series):
            return kind_of_objects(values_of(series), name) or "categorical"
        return kind_of_dtype(self._dtypes[name], name)

    def declared_categories(self, name: str) -> tuple[Category, ...] | None:
        return dtype_categories(self.frame[name].to_native())

    @cached_property
    def _dtypes(self) -> Mapping[str, nw.dtypes.DType]:
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
            return np.stack([values_of(column) for column in self.frame.select(list(names)).iter_columns()], axis=1)
        return self.frame.select(list(names)).to_numpy()

    def _take(self, places: slice | np.ndarray) -> "FrameTable":
        frame = self.frame[places]
        return replace(self, frame=frame, num_rows=len(frame))

    def with_rows_of(self, parts: "Sequence[FrameTable]") -> "FrameTable":
        frames = [part.frame.select(list(self.names)) for part in parts]
        return replace(self, frame=nw.concat(frames, how="vertical"))

    def with_cells(self, cells: "NewCells") -> "IntoFrame":
        columns = []
        for name, (rows, values) in cells.items():
            column, items = self.frame[name], values.tolist()
            as_texts = column.dtype == nw.Categorical and self.frame.implementation.is_pyarrow()  # takes no new values
            if len(rows) == len(column) and not _takes(column.dtype, values):
                columns.append(nw.new_series(name, items, backend=self.frame.implementation))
                continue
            if column.dtype.is_integer() and _are_integers(values, column.dtype):
                items = [int(item) for item in items]
            elif column.dtype.is_integer():
                column = column.cast(nw.Float64)
            filled_in = (column.cast(nw.String) if as_texts else column).scatter(rows.tolist(), items)
            columns.append(filled_in.cast(nw.Categorical) if as_texts else filled_in)
        return self.frame.with_columns(*columns).to_native()


@final
@dataclass(frozen=True, eq=False)
class Column:
    """A column of a mapping.

    Attributes:
        values: (n,) or (n, ...).
        kind: the name of the kind of its dtype; None where cells are objects, which have types of their own.
        categories: those that its dtype declares, in order, or None.
        are_integers: whether these are integers that became floats, because some of the cells are missing.
        sequences: the cells as given, where the array does not hold all of them: lists of one length, and arrays with
            lengths; else None.
    """

    values: np.ndarray
    kind: str | None
    categories: tuple[Category, ...] | None = None
    are_integers: bool = False
    sequences: SequenceCells | None = None

    def rows(self, places: slice | np.ndarray) -> "Column":
        """Some of the rows."""
        sequences = self.sequences.rows(places) if isinstance(self.sequences, Padded) else self.sequences
        sequences = sequences[places] if isinstance(sequences, np.ndarray) else sequences
        return replace(self, values=self.values[places], sequences=sequences)

    @property
    def cells(self) -> np.ndarray:
        """The cells (n,) or (n, ...); lists stay lists, which arrays of one length would hide."""
        if self.sequences is None:
            return self.values
        return as_objects(self.sequences.sequences() if isinstance(self.sequences, Padded) else list(self.sequences))

    def with_rows_of(self, parts: "Sequence[Column]", name: str) -> "Column":
        """The column with the cells of all parts. DataError: parts of another dtype."""
        for index, part in enumerate(parts):
            if (part.kind, part.categories) != (self.kind, self.categories):
                raise DataError(f"Column {name!r} is of one dtype in data set 0 and of another in data set {index}.")
        return replace(self, values=np.concatenate([part.cells for part in parts]), sequences=None)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MappingTable(Table):
    """A mapping name -> array (n,) or (n, ...)."""

    columns: Mapping[str, Column]
    named: bool = True
    form: ClassVar[str] = "a mapping"

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
        sequences = self.columns[name].sequences
        return self.column(name) if sequences is None else sequences

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

    def _take(self, places: slice | np.ndarray) -> "MappingTable":
        columns = {name: column.rows(places) for name, column in self.columns.items()}
        return replace(self, columns=columns, num_rows=len(next(iter(columns.values())).values))

    def with_rows_of(self, parts: "Sequence[MappingTable]") -> "MappingTable":
        columns = {c: column.with_rows_of([part.columns[c] for part in parts], c) for c, column in self.columns.items()}
        return replace(self, columns=columns)

    def with_cells(self, cells: "NewCells") -> dict[str, np.ndarray]:
        arrays = {name: column.values.copy() for name, column in self.columns.items()}
        for name, (rows, values) in cells.items():
            arrays[name][rows] = values
            arrays[name] = _without_objects(arrays[name])
        return arrays

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


def successive_rows(values: csr_array, part: slice) -> csr_array:
    """Successive rows of a csr_array, which share its cells, unlike SciPy's own slices."""
    start, stop, _ = part.indices(values.shape[0])
    ends = values.indptr[start : stop + 1]
    cells = slice(ends[0], ends[-1])
    counts = values.counts[cells] if isinstance(values, CountRows) and values.counts is not None else None
    rows = sharing_cells(values.data[cells], values.indices[cells], ends - ends[0], values.shape[1], counts)
    rows.has_canonical_format = values.has_canonical_format
    return rows


class CountRows(csr_array):
    """A csr_array whose stored cells are whole numbers from 0, below 2^31.

    Attributes:
        counts: the same numbers as integers; None in what SciPy makes of such rows.
    """

    counts: np.ndarray | None = None


def sharing_cells(
    data: np.ndarray, columns: np.ndarray, ends: np.ndarray, num_columns: int, counts: np.ndarray | None = None
) -> csr_array:
    """A csr_array that shares these arrays; SciPy's constructor copies those that are parts of others."""
    rows = (csr_array if counts is None else CountRows)((len(ends) - 1, num_columns), dtype=data.dtype)
    rows.data, rows.indices, rows.indptr = data, columns, ends
    if isinstance(rows, CountRows):
        rows.counts = counts
    return rows


if TYPE_CHECKING:
    Copy: TypeAlias = np.ndarray | dict[str, np.ndarray] | csr_array | IntoFrame  # of data, in their own form
NewCells: TypeAlias = Mapping[str, tuple[np.ndarray, np.ndarray]]  # column -> (rows, values)


def _are_integers(values: np.ndarray, dtype: nw.dtypes.DType) -> bool:
    """Whether numbers are whole and within the range of an integer dtype."""
    limits = np.iinfo(str(dtype).lower())
    return bool(((values == np.floor(values)) & (values >= limits.min) & (values <= limits.max)).all())


def _takes(dtype: nw.dtypes.DType, values: np.ndarray) -> bool:
    """Whether a column whose cells are all missing can hold these values by its dtype."""
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
