"""Resolving a schema by rows: bins, categories, alphabets, classes; and covariates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from bayesgen.errors import DataError, warn
from bayesgen.runtime import all_in_threads
from bayesgen.typing import Array, Bool, Shaped

from .binned import BINNED, Binned, constant_columns
from .categories import as_labels, check_num_classes, inferred_categories, inferred_classes
from .columns import ColumnKinds
from .encoding import encode_numbers
from .kinds import Kind, has_categories, name_of_kind
from .sequence_cells import inferred_symbols
from .sequences import SEQUENCE
from .views import Table

# kind of a dtype -> the dtype that programs compute with, and what a message calls its numbers
_DTYPES: Final = {"b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.int64), "f": np.dtype(np.float64)}
_NUMBERS: Final = {"b": "truth values", "i": "whole numbers", "f": "real numbers"}


@dataclass(frozen=True)
class Covariate:
    """Shape and dtype of a covariate; by default one real number a row.

    Attributes:
        row_shape: the shape of its value in a row, () for one number.
        dtype: bool, int64 or float64, as the data have it.
    """

    row_shape: tuple[int, ...] = ()
    dtype: np.dtype = _DTYPES["f"]

    def __str__(self) -> str:
        return f"{_shown((*self.row_shape,))} of {_NUMBERS[self.dtype.kind]}"

    @classmethod
    def of(cls, values: Shaped[np.ndarray, "n ..."]) -> "Covariate":
        """The covariate with these values."""
        return cls(values.shape[1:], values.dtype)

    def values(self, name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        """The values of rows of this covariate: those of `covariate_values`, in its dtype.

        Raises:
            DataError: rows of another shape; numbers that this dtype would change.
        """
        values = covariate_values(name, cells)
        if values.shape[1:] != self.row_shape:
            raise DataError(
                f"Covariate {name!r} has the shape {_shown(values.shape[1:])}, and {_shown(self.row_shape)} in the "
                "data that were seen first. Give it the same in training and in prediction."
            )
        converted, differs = _converted(values, self.dtype)
        if differs.any():
            place = tuple(map(int, np.argwhere(differs)[0]))
            raise DataError(
                f"Covariate {name!r} has {values[place]} in row {place[0]}, and {_NUMBERS[self.dtype.kind]} in the "
                f"data that were seen first. If both are right, give the values seen first as {values.dtype}, too."
            )
        return converted


def covariate_values(name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
    """The cells of a covariate as they are: truth values, whole numbers (int64) or real ones (float64).

    Raises:
        DataError: cells that are missing, infinite or not numbers.
    """
    if cells.dtype.kind == "O":
        import pandas as pd

        _refuse_missing(name, np.asarray(pd.isna(cells)))
        cells = _of_objects(name, cells.tolist())
    if cells.dtype.kind not in _DTYPES:
        raise DataError(
            f"Covariate {name!r} holds no numbers, but {cells.dtype}. Encode them as the program computes with them; "
            "names of groups, say, as 0, 1, 2 and so on."
        )
    values, differs = _converted(cells, _DTYPES[cells.dtype.kind])
    if values.dtype.kind == "f":
        _refuse_missing(name, np.isnan(values))
        differs = np.isinf(values)
    if differs.any():
        place = tuple(map(int, np.argwhere(differs)[0]))
        raise DataError(f"Covariate {name!r} has {cells[place]} in row {place[0]}: correct it, or drop the row.")
    return values


def check_ranges(ranges: Mapping[str, tuple[int, int]], values: Mapping[str, Shaped[Array, "n ..."]]) -> None:
    """Refuse values of covariates outside their ranges.

    Raises:
        DataError: naming the covariate and the first such row.
    """
    for name in sorted(ranges.keys() & values.keys()):
        lowest, highest = ranges[name]
        outside = (values[name] < lowest) | (values[name] > highest)
        if outside.any():
            place = tuple(map(int, np.argwhere(outside)[0]))
            raise DataError(
                f"Covariate {name!r} has {values[name][place]} in row {place[0]}, and {lowest} to {highest} in "
                "training; the program computes indexes from it and from other things, so that nothing shows whether "
                "there are such entries. If there are, train with rows that have it or declare "
                f"Schema(ranges={{{name!r}: (lowest, highest)}}), or let the program index by {name!r} alone, "
                f"table[y, {name}] for table[{name} * size + y]."
            )


def _converted(
    values: Shaped[np.ndarray, "*shape"], dtype: np.dtype
) -> tuple[Shaped[np.ndarray, "*shape"], Bool[np.ndarray, "*shape"]]:
    """The values in another dtype, and a mask of those that it changes."""
    with np.errstate(invalid="ignore"):
        converted = values.astype(dtype, copy=False)
        changed = converted.astype(values.dtype, copy=False) != values
        return converted, changed | ((converted < 0) != (values < 0))


def _of_objects(name: str, cells: list[Any]) -> Shaped[np.ndarray, "..."]:
    try:
        return np.asarray(cells)
    except ValueError as error:
        raise DataError(f"Covariate {name!r} has rows of several shapes ({error}). Give all rows the same.") from None


def _refuse_missing(name: str, missing: Bool[np.ndarray, "..."]) -> None:
    if missing.any():
        row = int(np.argmax(missing.reshape(len(missing), -1).any(1)))
        raise DataError(
            f"Covariate {name!r} has {int(missing.sum())} missing cells, the first in row {row}. The program "
            "computes with covariates and has no distribution for them: drop these rows, or impute them."
        )


def _shown(row_shape: tuple[int, ...]) -> str:
    """The shape of all rows."""
    return f"(n{''.join(f', {size}' for size in row_shape)}{'' if row_shape else ','})"


NamesOf: TypeAlias = Callable[[Sequence[str]], Sequence[str]]


class Declared(Protocol):
    """Kinds and categories of columns."""

    @property
    def kinds(self) -> Mapping[str, Kind]: ...
    @property
    def categories(self) -> Mapping[str, Sequence[Any]]: ...
    def columns_of(self, kind: str) -> Sequence[str]:
        """The columns of one kind."""
        ...


def resolved_categories(declared: Declared, table: Table, names_of: NamesOf) -> dict[str, Sequence[Any]]:
    """The categories of categorical columns and the alphabets of sequences: those declared, else those of the table.

    Raises:
        DataError: categories of columns of other kinds; columns without any value or symbol.
    """
    for column in declared.categories:
        if not has_categories(declared.kinds[column]):
            raise DataError(
                f"Column {column!r} has categories, and is {name_of_kind(declared.kinds[column])}. Leave them out, or "
                f"declare Schema(kinds={{{column!r}: 'categorical'}})."
            )
    categories = {}
    for kind, inferred in (("categorical", inferred_categories), (SEQUENCE, _inferred_symbols)):
        columns = declared.columns_of(kind)
        for column, name in zip(columns, names_of(columns), strict=True):
            if column in declared.categories:
                categories[column] = declared.categories[column]
            elif has_categories(declared.kinds[column]):
                categories[column] = inferred(column, table, name)
    return categories


def _inferred_symbols(column: str, table: Table, name: str) -> Sequence[Any]:
    return inferred_symbols(column, table.sequences(name))


def resolved_classes(declared: Sequence[Any] | None, y: Any, num_rows: int) -> Sequence[Any] | None:
    """The classes: those declared, else those of the labels; None where there are neither.

    Raises:
        DataError: labels that are not one a row; fewer than two classes.
    """
    if y is None:
        return declared
    labels = as_labels(y)
    if len(labels) != num_rows:
        raise DataError(f"X has {num_rows} rows and y has {len(labels)} labels. Give one label a row.")
    if declared is None:
        return inferred_classes(y, labels)
    check_num_classes(declared)
    return declared


def resolved_bins(kinds: Mapping[str, Kind], table: Table, names_of: NamesOf) -> Mapping[str, Kind]:
    """The kinds of columns with edges and tails for all bins; `names_of` gives what the table calls some columns.

    One warning names the columns that have fewer bins than were asked for, because too many of their values are equal.

    Raises:
        DataError: binned columns without numbers, with one value only, or of sparse tables.
    """
    uniform = isinstance(kinds, ColumnKinds) and not isinstance(kinds.default, Binned)
    some = kinds.overrides if isinstance(kinds, ColumnKinds) and uniform else kinds  # columns may be very many
    stated = {column: kind for column, kind in some.items() if isinstance(kind, Binned) and not kind.is_resolved}
    if not stated:
        return kinds
    if table.sparse:
        raise DataError(
            f"X is sparse, and column {next(iter(stated))!r} is binned, which takes every cell. Give it X.toarray()."
        )
    names = dict(zip(stated, names_of(list(stated)), strict=True))

    def bins_of(column: str) -> Binned | None:
        return _bins_of(column, stated[column], table, names[column])

    results = dict(zip(stated, all_in_threads(bins_of, list(stated)), strict=True))
    found = {column: bins for column, bins in results.items() if bins is not None}
    if len(found) < len(stated):
        raise DataError(constant_columns([column for column in stated if column not in found]))
    _warn_of_fewer(stated, found)
    if isinstance(kinds, ColumnKinds) and uniform:
        return ColumnKinds(kinds.names, kinds.default, {**kinds.overrides, **found})
    return {**kinds, **found}


def _bins_of(column: str, bins: Binned, table: Table, name: str) -> Binned | None:
    """The resolved bins of a column, which the table calls `name`; None where it has only one value."""
    matrix = np.ascontiguousarray(table.matrix([name]))  # because reading columns of a wide table is slow
    cells, observed = encode_numbers(matrix, [column], BINNED)
    rows = slice(None) if observed is None else observed[:, 0]
    weights, values = None if table.weights is None else table.weights[rows], np.asarray(cells)[rows, 0]
    if bins.edges is not None or not len(values) or values.min() < values.max():
        return bins.resolved(values, weights, column)
    if matrix.dtype.kind in "iu" and matrix.min() != matrix.max():
        raise DataError(
            f"Column {column!r} is binned, and its integers are so large that in double precision they are all "
            f"{values[0]:.17g}. Subtract a constant, or drop it."
        )
    return None


def _warn_of_fewer(stated: Mapping[str, Binned], found: Mapping[str, Binned]) -> None:
    """One warning that names the columns with fewer bins than were asked for."""
    fewer = [
        f"{column!r} ({found[column].num_bins} of {bins.num_bins})"
        for column, bins in stated.items()
        if found[column].num_bins < bins.num_bins
    ]
    if fewer:
        more = f" and {len(fewer) - 10} more" if len(fewer) > 10 else ""
        warn(
            f"Columns have fewer bins than were asked for, because no bin divides equal values: "
            f"{', '.join(fewer[:10])}{more}."
        )


def check_ends(numbers: np.ndarray, observed: np.ndarray | None, columns: Mapping[str, Binned]) -> None:
    """DataError for cells (n, D) beyond an end of the bins of their column that has no tail; it names the column."""
    for index, (column, bins) in enumerate(columns.items()):
        if bins.edges is None or bins.tails is None or all(bins.tails):
            continue
        cells = numbers[:, index]
        outside = (bins.tails[0] == 0) & (cells < bins.edges[0]) | (bins.tails[1] == 0) & (cells > bins.edges[-1])
        outside = outside if observed is None else outside & observed[:, index]
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"Column {column!r} has {cells[row]:g} at row {row}, beyond the ends of its bins, {bins.edges[0]:g} "
                f"and {bins.edges[-1]:g}, where they have no tails. Correct it, or declare it with tails above 0, "
                f"Schema(kinds={{{column!r}: Binned(edges=..., tails=...)}}), or with wider edges."
            )
