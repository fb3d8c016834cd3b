"""Reading X, an array, a data frame, a sparse matrix or a mapping, as a read-only `Table`; or chunks of such data."""

import contextlib
import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

import narwhals as nw
import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse, sparray, spmatrix

from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenError, DataError, UnknownValuesWarning, warn
from bayesgen.typing import Data, Values

from .categories import as_labels
from .columns import (
    PositionalNames,
    as_array,
    as_objects,
    as_series,
    as_weights,
    check_index,
    dtype_categories,
    holds_integers,
    holds_lists,
    holds_objects,
    index_of,
    kind_of_dtype,
    look_alikes,
    refuse_empty,
    text_names,
)
from .sequences import Padded
from .sources import as_source
from .views import ArrayTable, Column, FrameTable, MappingTable, SparseTable, Table

ALL_ZERO = "sample_weight is zero for all rows. Give some row a positive weight."

_KIND_OF_DTYPE = {"b": "binary", **dict.fromkeys("iuf", "real"), **dict.fromkeys("UST", "categorical"), "O": None}


def read_table(X: Data, y: Values | None = None, sample_weight: Values | None = None, *, least_rows: int = 1) -> Table:
    """X as a table, with its labels and weights where they are given; a table stays as it is.

    X is a 2-D array or what np.asarray makes 2-D, a data frame that narwhals reads (pandas, polars, pyarrow,
    ...), a scipy.sparse matrix or array, or a mapping name -> array. No cell is read. Rows of weight 0 are left out,
    even if these are all. Raises DataError for anything else, for fewer rows than `least_rows` or no columns, for names
    or lengths that clash, and for labels or weights that are not one a row. y and sample_weight may be names of columns
    of a frame or mapping, which then are no columns of the table.
    """
    label = y if isinstance(y, str) else None
    if label is not None or isinstance(sample_weight, str):
        X, y, sample_weight = columns_by_name(X, y, sample_weight)
    table = dataclasses.replace(X, unknown={}) if isinstance(X, Table) else _read_cells(X, least_rows)
    if y is None and sample_weight is None:
        return table
    labels = None if y is None else as_labels(y)
    if labels is not None and len(labels) != table.num_rows:
        raise DataError(f"X has {table.num_rows} rows and y has {len(labels)} labels. Give one label a row.")
    check_index(X, y, "y")
    check_index(X, sample_weight, "sample_weight")
    declared = None if y is None else dtype_categories(y)
    weights = as_weights(sample_weight, table.num_rows)
    table = dataclasses.replace(
        table, labels=labels, declared_classes=declared, weights=weights, label_name=label or table.label_name
    )
    if weights is None or weights.all():
        return table
    positive = np.flatnonzero(weights)
    return dataclasses.replace(table.rows(positive), num_dropped=len(weights) - len(positive), positions=positive)


def columns_by_name(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """X, y and sample_weight, where y and sample_weight may be names of columns of X: then X without these columns.

    Raises:
        DataError: names of columns that a frame or mapping does not have, or of the same one; names beside an array.
    """
    named = {argument: name for argument, name in (("y", y), ("sample_weight", sample_weight)) if isinstance(name, str)}
    if not named:
        return X, y, sample_weight
    view = None if isinstance(X, Mapping | np.ndarray | list | tuple) else _narwhals_view(X)
    if isinstance(view, nw.DataFrame):
        check_columns(named, view.columns)
        columns: dict[str, Any] = {name: view[name].to_native() for name in named.values()}
        X = view.drop(list(columns)).to_native()
    elif isinstance(X, Mapping):
        columns = dict(zip(text_names(X), X.values(), strict=True))
        check_columns(named, columns)
        X = {name: values for name, values in columns.items() if name not in named.values()}
    elif as_source(X) is not None:
        return X, y, sample_weight
    else:
        raise DataError(
            f"{quote_some(named)} is the name of a column, {quote_some(named.values())}, and X has no named columns. "
            "Give a frame or a mapping, or the values."
        )
    return X, columns[y] if isinstance(y, str) else y, columns[w] if isinstance(w := sample_weight, str) else w


def check_columns(named: Mapping[str, str], columns: Iterable[str]) -> None:
    """DataError where the names of the columns of y and sample_weight are the same, or are not among the columns."""
    names = list(columns)
    for argument, name in named.items():
        if name not in names:
            raise DataError(
                f"{argument} is {name!r}, and X has no such column. The columns are {quote_some(names)}."
                f"{look_alikes([name], names)}"
            )
    if len(set(named.values())) < len(named):
        raise DataError(f"y and sample_weight are the same column, {named['y']!r}. Give two columns.")


def _read_cells(X: Data, least_rows: int) -> Table:
    if issparse(X):
        return _read_sparse(X, least_rows)
    if isinstance(X, Mapping):
        return _read_mapping(X, least_rows)
    if not isinstance(X, np.ndarray | list | tuple):
        native = _narwhals_view(X)
        if native is not None and not isinstance(native, nw.LazyFrame):
            return _read_frame(native, least_rows)
        if (source := as_source(X)) is not None:
            source.refuse_rows("Rows are wanted one by one", source.names)
    cells = cast(Values, X)  # or as good as that: NumPy says
    array = as_array(cells, "X", takes_lists=True)
    _check_shape(array.shape, least_rows)
    kind = _kind_of_dtype(cells.dtype if isinstance(cells, np.ma.MaskedArray) else array.dtype, "X")
    return ArrayTable(values=array, names=PositionalNames(array.shape[1]), num_rows=array.shape[0], uniform_kind=kind)


def _read_sparse(X: spmatrix | sparray, least_rows: int) -> SparseTable:
    _check_shape(X.shape, least_rows)
    values = csr_array(X)
    if X.format == "csr":
        values.has_canonical_format = X.has_canonical_format  # so that it is not checked again
    return SparseTable(values=values, names=PositionalNames(X.shape[1]), num_rows=X.shape[0])


def _check_shape(shape: tuple[int, ...], least_rows: int, least_columns: int = 1) -> None:
    if len(shape) == 1:
        raise DataError(
            f"X has shape {shape}, and has to be 2-D (rows, columns), with rows of one length. {{'v': X}} makes it one "
            "column, whose cells may be sequences; {'v': [X]} one column with one sequence; np.reshape(X, (1, -1)) one "
            "row."
        )
    if len(shape) != 2:
        raise DataError(f"X has {len(shape)} dimensions (shape {shape}), and has to be 2-D (rows, columns).")
    if shape[0] < least_rows or shape[1] < least_columns:
        refuse_empty(shape)


def _kind_of_dtype(dtype: np.dtype, what: str) -> str | None:
    """The name of the kind of a dtype of NumPy; None for objects."""
    if dtype.kind not in _KIND_OF_DTYPE:
        raise DataError(f"{what} has dtype {dtype}, which has no kind. Turn it into numbers, booleans or strings.")
    return _KIND_OF_DTYPE[dtype.kind]


def _narwhals_view(X: Data) -> nw.DataFrame | nw.LazyFrame | nw.Series | None:
    """X as a narwhals frame or series; None where narwhals does not know it."""
    names = list(getattr(X, "columns", ()) if hasattr(X, "set_axis") else getattr(X, "column_names", ()))
    texts = text_names(names)  # before narwhals sees them, for one message whatever the library
    if list(texts) != names:
        X = cast(pd.DataFrame, X).set_axis(
            list(texts), axis=1
        )  # pandas alone has names that are not str; this copies no data
    view = nw.from_native(X, pass_through=True, allow_series=True)
    return view if isinstance(view, nw.DataFrame | nw.LazyFrame | nw.Series) else None


def _read_frame(view: nw.DataFrame | nw.Series, least_rows: int) -> FrameTable:
    if isinstance(view, nw.Series):
        raise DataError(
            f"X is a series of {len(view)} values, and has to be 2-D. X.to_frame() makes it one column, whose cells "
            "may be sequences; {'v': [X]} one column with one sequence. One row of a pandas frame stays a frame by "
            "df.iloc[[0]] (df.iloc[0] is a series)."
        )
    _check_shape(view.shape, least_rows, least_columns=0)  # rows alone, of a program that has no other columns
    index = index_of(view.to_native())
    return FrameTable(frame=view, names=tuple(view.columns), num_rows=view.shape[0], index=index)


def _read_mapping(X: Mapping[Hashable, Values], least_rows: int) -> MappingTable:
    names = text_names(X)
    columns = {name: _read_column(values, name) for name, values in zip(names, X.values(), strict=True)}
    first = next(iter(columns), "")
    num_rows = len(columns[first].values) if columns else 0
    for name, column in columns.items():
        if len(column.values) != num_rows:
            raise DataError(
                f"Column {first!r} has {num_rows} rows and column {name!r} has {len(column.values)}. "
                f"Give every column the same rows."
            )
    _check_shape((num_rows, len(columns)), least_rows)
    return MappingTable(columns=columns, names=names, num_rows=num_rows, index=_common_index(X))


def _read_column(values: Values, name: str) -> Column:
    """A column of a mapping. DataError: one value alone; a dtype without kind."""
    series = as_series(values)
    if isinstance(values, Padded):
        return Column(as_objects(values.sequences()), None, sequences=values)
    array = as_array(values, f"Column {name!r}", takes_lists=True)
    if array.ndim == 0:
        raise DataError(f"Column {name!r} is {type(values).__name__}, not an array with one row a value.")
    sequences = as_objects(values) if isinstance(values, list | tuple) and array.ndim > 1 else None
    categories = dtype_categories(values)
    if categories is not None:
        kind: str | None = "categorical"
    elif series is not None:
        are_cells = holds_objects(series) or (holds_lists(series.dtype) and array.ndim == 1)
        kind = None if are_cells else kind_of_dtype(series.dtype, name)
    else:
        dtype = values.dtype if isinstance(values, np.ma.MaskedArray) else array.dtype
        kind = _kind_of_dtype(dtype, f"Column {name!r}")
    return Column(array, kind, categories, series is not None and holds_integers(series.dtype, array), sequences)


def _common_index(X: Mapping[Hashable, Values]) -> pd.Index | None:
    """The common index of the pandas series among the columns; None where there are none.

    Raises:
        DataError: two series have different indexes.
    """
    name = next((name for name, values in X.items() if index_of(values) is not None), None)
    if name is None:
        return None
    check_index(X, X[name], f"X[{name!r}]")
    return index_of(X[name])


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
        form = f"one of length {len(chunk)}" if isinstance(chunk, tuple) else f"of type {type(chunk).__name__}"
        raise DataError(f"This has to be a tuple (X, y) or (X, y, sample_weight), as all others, and is {form}.")
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


def joined_tables(parts: Sequence[Table]) -> Table:
    """The rows of several tables of the same columns, one table after another, with their labels and weights.

    Raises:
        DataError: tables of unlike form, columns or dtypes, naming the first that differs by its number.
    """
    first = parts[0]
    for index, part in enumerate(parts):
        if type(part) is not type(first) or part.named != first.named or {*part.names} != {*first.names}:
            raise DataError(
                f"Data sets 0 and {index} are {first.form} with the columns {quote_some(first.names)}, and {part.form} "
                f"with {quote_some(part.names)}. Give all data sets the same columns, in any order, in one form."
            )
        if part.uniform_kind != first.uniform_kind or (part.labels is None) != (first.labels is None):
            raise DataError(
                f"Data sets 0 and {index} differ: give all of them labels or none, and columns of the same dtypes."
            )
    labels, weights = [part.labels for part in parts if part.labels is not None], None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(p.num_rows) if p.weights is None else p.weights for p in parts])
    return dataclasses.replace(
        first.with_rows_of(parts),
        num_rows=sum(part.num_rows for part in parts),
        labels=np.concatenate(labels) if labels else None,
        weights=weights,
        index=None,
        num_dropped=0,
        positions=None,
        unknown={},
    )
