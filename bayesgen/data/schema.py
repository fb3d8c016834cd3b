"""`Schema`: columns, kinds, categories and classes of data, and their encoding. Bad data are refused here."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, final

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError, warn
from bayesgen.runtime import all_in_threads

from .binned import BINNED, Binned, constant_columns
from .categories import as_labels, check_num_classes, codes_among, inferred_categories, inferred_classes
from .category_values import declared_values
from .columns import ColumnKinds, PositionalNames, check_kinds, check_known, text_names
from .encoding import Encoded, decoded, encode_categories, encode_numbers
from .kinds import KINDS, Kind, has_categories, name_of_kind, resolved_kind, stated_kind
from .response import Covariate, ResponseColumn
from .sequence_cells import encode_sequences, inferred_symbols
from .sequences import SEQUENCE, SequenceOf
from .tables import read_table
from .views import Table, names_among

NamesOf: TypeAlias = Callable[[Sequence[str]], Sequence[str]]

ONE_COMPONENT = (0,)  # the classes of a mixture of one component, whose rows have no labels


@final
@dataclass(frozen=True, repr=False)
class Schema:
    """Columns, kinds, categories and classes of a data set. `resolve` infers all that is not stated.

    kinds: column -> "real" | "binary" | "categorical" | "count" | `Binned(...)`, bins of numbers, whose edges come from
        the data where they are not stated | `SequenceOf(...)`, or "sequence", sequences of symbols or numbers.
    categories: column -> all possible values, in order; for sequences of symbols, their alphabet. By default those that
        the dtype declares (a pandas Categorical, a polars Enum), else the sorted values of the training data (a polars
        Categorical and an Arrow dictionary declare nothing).
    classes: the labels, in order, at least two. A declared class may have no rows. By default those that the dtype of
        the labels declares, else the sorted labels, with a warning where these look like a quantity: numbers one of
        which is not whole, or which are more than ten and more than half the rows.
    columns, named: the column names in order, and whether they are the user's or positions ("x0", ...).
    sparse: whether the training data were a sparse matrix, whose counts are one multinomial block.
    mean, variance: (D,) per column in order of `columns`, NaN for categorical ones, as is the variance of a column
        without observed cells; None until a fit fills them in. Default priors come from them, so data fitted with the
        schema of a fit have that fit's prior. They take no part in comparisons.
    unknown: how to treat values that are neither in the training data nor declared, of categorical and binary columns
        and of symbols: "error" refuses them by name, "missing" takes the cell or the time step as missing, with one
        `UnknownValuesWarning` that counts such cells.
    response: the name, mean and variance of a continuous label, the y of a regression; None where there is none.
    covariates: shapes and dtypes of the columns that a program uses and does not model.
    ranges: column -> the lowest and the highest value of covariates that a program uses as indexes of tables whose
        sizes it does not show. Training rows widen declared ranges; values of new rows outside them are refused. They
        take no part in comparisons.

    Raises DataError for an unknown kind and for empty or repeated categories, classes or columns.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    classes: Sequence[Any] | None = None
    columns: Sequence[str] | None = None
    named: bool = True
    sparse: bool = False
    mean: np.ndarray | None = field(default=None, compare=False)
    variance: np.ndarray | None = field(default=None, compare=False)
    unknown: str = "error"
    response: ResponseColumn | None = None
    covariates: Mapping[str, Covariate] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.kinds, ColumnKinds):
            _set(self, "kinds", {column: stated_kind(kind) for column, kind in self.kinds.items()})
        check_kinds(self.kinds)
        if self.unknown not in ("error", "missing"):
            raise DataError(f"Schema: unknown must be 'error' or 'missing', got {self.unknown!r}.")
        categories = {c: declared_values(v, f"categories of column {c!r}") for c, v in self.categories.items()}
        _set(self, "categories", categories)
        if self.classes is not None:
            _set(self, "classes", declared_values(self.classes, "classes"))
            if self.classes != ONE_COMPONENT:
                check_num_classes(self.classes)
        if self.columns is not None and not isinstance(self.columns, PositionalNames):
            _set(self, "columns", text_names(self.columns))

    def __hash__(self) -> int:
        """By content, as far as it costs little however many columns there are."""
        num_columns = None if self.columns is None else len(self.columns)
        return hash((self.classes, num_columns, self.named, self.sparse, frozenset(self.categories)))

    @classmethod
    def infer(
        cls,
        X: Any,
        y: Any = None,
        *,
        declared: "Schema | None" = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> "Schema":
        """The resolved schema of these data: `declared` first, then `kinds`, then the dtypes."""
        return (declared or cls()).resolve(read_table(X), y, implied_kinds=kinds or {})

    def resolve(self, table: Table, y: Any = None, *, implied_kinds: Mapping[str, Kind] | None = None) -> "Schema":
        """This schema with columns, kinds, categories and classes filled in from data.

        Kinds are those declared here, else those in `implied_kinds`, else those of the dtypes. `y` (n,) may be None. A
        resolved schema is returned as it is, after a check of the table. Raises DataError where schema, table and
        labels do not fit each other.
        """
        if self.columns is None:
            schema = replace(self, columns=table.names, named=table.named, sparse=table.sparse)
        else:
            self.check_table(table)
            is_resolved = len(self.kinds) == len(self.columns)
            schema = self if is_resolved else replace(self, sparse=table.sparse)
        kinds = schema._complete_kinds(table, implied_kinds or {})
        names_of = functools.partial(schema.names_in, table)
        schema = replace(schema, kinds=resolved_bins(kinds, table, names_of))
        categories = resolved_categories(schema, table, names_of)
        return replace(schema, categories=categories, classes=resolved_classes(self.classes, y, table.num_rows))

    def widened(self, values: Mapping[str, Any]) -> "Schema":
        """The schema with ranges extended to these values of covariates."""
        if not values:
            return self
        ends = {name: [*self.ranges.get(name, ()), int(np.min(v)), int(np.max(v))] for name, v in values.items()}
        return replace(self, ranges={**self.ranges, **{name: (min(of), max(of)) for name, of in ends.items()}})

    def check_table(self, table: Table) -> None:
        """DataError unless the table has this schema's columns.

        Named columns may come in any order, but all and no others. Arrays are taken by position.
        """
        self.names_in(table, ())

    def names_in(self, table: Table, columns: Sequence[str]) -> Sequence[str]:
        """The table's names of some columns. DataError unless it has this schema's columns."""
        return names_among(self._resolved_columns(), self.named, table, columns)

    def encode_cells(self, table: Table, columns: Sequence[str]) -> Encoded:
        """The numbers (n, len(columns)) of some columns of one kind, and a mask of the observed cells.

        The numbers are a csr_array where the table is sparse; the mask is None where no cell is missing.
        real, binned: floats, without a copy where possible; other numbers as float64; NaN where missing.
        binary: 0.0 and 1.0; count: whole numbers as float64; categorical: codes 0..r-1, int64, never sparse. All these
        are 0 where missing.
        Raises DataError for cells that are infinite, of the wrong type, or outside the kind (see `unknown`), for
        missing cells of a sparse table, and for a table that does not have this schema's columns.
        """
        names = self.names_in(table, columns)
        kind = self._common_kind(columns)
        takes_unknown = self.unknown == "missing"
        if kind == SEQUENCE:
            cells = {column: table.sequences(name) for column, name in zip(columns, names, strict=True)}
            sequences = {column: self.sequence(column) for column in columns}
            return encode_sequences(cells, sequences, self.categories, takes_unknown=takes_unknown)
        if kind == "categorical":
            places = dict(zip(columns, names, strict=True))
            return encode_categories(table, places, self.categories, takes_unknown=takes_unknown)
        numbers, observed = encode_numbers(table.matrix(names), columns, kind, takes_unknown=takes_unknown)
        if kind == BINNED:
            check_ends(numbers, observed, {column: self.bins(column) for column in columns})
        return numbers, observed

    def decode(self, column: str, values: Any) -> Any:
        """The inverse of `encode_cells` for a column: categories, truth values, texts or lists of symbols.

        Args:
            column: its name.
            values: (n,) codes or numbers, or (n, T), such as simulated sequences.

        Returns:
            An array; for sequences a list, each up to its end.

        Raises:
            DataError: no such column; invalid codes; rows without an end, where sequences have one.

        >>> schema = Schema.infer({"word": ["ab", "cab"]}, kinds={"word": "sequence"})
        >>> schema.decode("word", [[2, 0, -1], [1, 1, 1]])
        ['ca', 'bbb']
        """
        check_known([column], self._resolved_columns(), self.named)
        return decoded(column, self.kinds[column], self.categories.get(column, ()), np.asarray(values))

    def encode_labels(self, y: Any, name: str = "y") -> np.ndarray:
        """Codes (n,), int64, of labels (n,) among `classes`; `name` is what messages call them.

        Raises DataError for missing or unknown labels, and where y is empty or not 1-D.
        """
        return self._encode_labels(y, False, name)

    def label_codes(self, labels: np.ndarray | None, name: str = "y") -> np.ndarray | None:
        """`encode_labels` of training data, -1 for labels that are missing; None where there are no classes."""
        if labels is None and self.classes is not None:
            raise DataError(f"{name} is missing: the model has classes, and learns them from a label for each row.")
        if labels is not None and self.classes is None:
            raise DataError(f"The model has no classes, so it takes no {name}: drop it.")
        return None if labels is None else self._encode_labels(labels, True, name)

    def _encode_labels(self, y: Any, takes_missing: bool, name: str = "y") -> np.ndarray:
        if self.classes is None:
            raise DataError("The schema has no classes. Resolve it with labels, or give Schema(classes=...).")
        remedy = (
            f"Correct {name}, or declare every class: Schema(classes=[...]). A fit learns one more by fit.add_class."
        )
        return codes_among(as_labels(y), self.classes, name, "The classes are", remedy, takes_missing=takes_missing)

    def num_categories(self, column: str) -> int:
        """The number of categories or symbols of a column. DataError for other columns."""
        if column not in self.categories:
            raise DataError(f"Column {column!r} is not a categorical column of the schema.")
        return len(self.categories[column])

    def num_values(self, column: str) -> int | None:
        """The number of values, bins, or symbols and the end, of a column; None where it is not finite."""
        kind = self.kinds[column]
        if isinstance(kind, Binned):
            return self.bins(column).num_bins
        if isinstance(kind, SequenceOf):
            return self.num_categories(column) + kind.end if kind.of_symbols else None
        return self.num_categories(column) if kind == "categorical" else None

    def sequence(self, column: str) -> SequenceOf:
        """The kind of a column of sequences. DataError where the column has none."""
        kind = self.kinds.get(column)
        if not isinstance(kind, SequenceOf):
            raise DataError(f"Column {column!r} is not a column of sequences of the schema.")
        return kind

    def bins(self, column: str) -> Binned:
        """The bins of a binned column. DataError where the column is not binned."""
        kind = self.kinds.get(column)
        if not isinstance(kind, Binned):
            raise DataError(f"Column {column!r} is not a binned column of the schema.")
        return kind

    def columns_of(self, kind: str) -> Sequence[str]:
        """The columns of one kind, in order; `columns` itself where these are all."""
        columns = self._resolved_columns()
        if isinstance(self.kinds, ColumnKinds) and not self.kinds.overrides:
            return columns if kind == name_of_kind(self.kinds.default) else ()
        chosen = tuple(column for column in columns if name_of_kind(self.kinds[column]) == kind)
        return columns if len(chosen) == len(columns) else chosen

    def __repr__(self) -> str:
        if self.columns is None:
            stated = {"kinds": self.kinds, "categories": self.categories, "classes": self.classes}
            stated |= {} if self.unknown == "error" else {"unknown": self.unknown}
            return f"Schema({', '.join(f'{k}={v!r}' for k, v in stated.items() if v)})"
        counts = {kind: len(self.columns_of(kind)) for kind in KINDS}
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        classes = "None" if self.classes is None else f"[{quote_some(self.classes)}]"
        label = f"classes={classes}" if self.response is None else f"response={self.response.name!r}"
        return f"Schema(columns=[{quote_some(self.columns, 5)}] ({kinds}), {label})"

    def _resolved_columns(self) -> Sequence[str]:
        if self.columns is None:
            raise DataError("The schema has no columns yet. Resolve it first, or use Schema.infer(X, y).")
        return self.columns

    def _complete_kinds(self, table: Table, implied_kinds: Mapping[str, Kind]) -> Mapping[str, Kind]:
        columns = self._resolved_columns()
        default: Kind | None = table.uniform_kind
        if isinstance(implied_kinds, ColumnKinds):  # one kind for all columns, however many
            default, implied_kinds = implied_kinds.default, implied_kinds.overrides
        stated_names = () if isinstance(self.kinds, ColumnKinds) else self.kinds
        check_known([*stated_names, *implied_kinds, *self.categories], columns, self.named)
        if isinstance(self.kinds, ColumnKinds):
            return self.kinds
        known = dict.fromkeys([*implied_kinds, *self.kinds])
        stated = {c: resolved_kind(self.kinds.get(c), implied_kinds.get(c) or default) for c in known}
        if default is not None and isinstance(columns, PositionalNames):
            return ColumnKinds(columns, default, stated)
        names = self.names_in(table, columns)
        pairs = zip(columns, names, strict=True)
        return {c: stated.get(c) or default or table.inferred_kind(name) for c, name in pairs}

    def _common_kind(self, columns: Sequence[str]) -> str:
        if isinstance(self.kinds, ColumnKinds) and not self.kinds.overrides and columns == self.columns:
            return name_of_kind(self.kinds.default)
        check_known(columns, self._resolved_columns(), self.named)
        kinds = {name_of_kind(self.kinds[column]): column for column in columns}
        if len(kinds) != 1:
            raise DataError(f"Columns of one kind are encoded together, and these are {kinds or 'none'}.")
        return next(iter(kinds))


def _set(schema: Schema, name: str, value: Any) -> None:
    object.__setattr__(schema, name, value)  # frozen for users; __post_init__ alone may tidy


def resolved_categories(declared: Schema, table: Table, names_of: NamesOf) -> dict[str, Sequence[Any]]:
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
