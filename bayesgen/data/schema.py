"""`Schema`: columns, kinds, categories and classes of data, and their encoding. Bad data are refused here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.records import copied, fill
from bayesgen.typing import Array, Bool, Category, Data, Shaped, Values

from .binned import Binned
from .categories import CATEGORICAL, as_labels, check_num_classes, codes_among, inferred_classes
from .columns import PositionalNames, declared_values, look_alikes, mismatch, refuse_empty, text_names
from .kinds import (
    KINDS,
    ColumnKinds,
    Columns,
    Decoded,
    Kind,
    StatedKind,
    as_kind,
    register_kind,
    resolved_kind,
    uniform_kind,
)
from .number_kinds import BINARY, COUNT, REAL
from .response import Covariate, ResponseColumn
from .sequence_of import SEQUENCE, SequenceOf
from .tables import read_table
from .views import Table

for kind_of_columns in (REAL, BINARY, CATEGORICAL, COUNT, Binned(), SequenceOf()):
    register_kind(kind_of_columns)

ONE_COMPONENT = (0,)  # the classes of a mixture of one component, whose rows have no labels


@final
@dataclass(frozen=True, repr=False)
class Schema:
    """Columns, kinds, categories and classes of a data set. `resolve` infers from data what is not stated.

    Args:
        kinds: column -> "real" | "binary" | "categorical" | "count" | `Binned(...)`, bins of numbers, whose edges come
            from the data where they are not stated | `SequenceOf(...)`, or "sequence", sequences of symbols or numbers.
            In a resolved schema they are objects with such a `name`.
        categories: column -> all possible values, in order; for sequences of symbols, their alphabet. By default the
            values that the dtype declares (a pandas Categorical, a polars Enum), else the sorted values of the training
            data. A polars Categorical and an Arrow dictionary declare none.
        classes: the labels, in order, at least two. A declared class may have no rows. By default the values that the
            dtype of the labels declares, else the sorted labels. Labels that look like a quantity give a warning:
            numbers that are not all whole, or more than ten different numbers that are more than half as many as the
            rows.
        columns, named: the column names in order, and whether they are the user's or positions ("x0", ...).
        sparse: whether the training data were a sparse matrix, whose counts are one multinomial block.
        mean, variance: (D,), of the columns in the order of `columns`; NaN for categorical columns, and the variance
            also for columns without observed cells. None until a fit fills them in. Default priors are computed from
            them, so that a fit with the schema of another fit has the same default prior. Equality of schemas ignores
            them.
        unknown: how to treat values that are neither in the training data nor declared, of categorical and binary
            columns and of symbols: "error" refuses them by name, "missing" takes the cell or the time step as missing,
            with one `UnknownValuesWarning` that counts such cells.
        response: the name, mean and variance of a continuous label, the y of a regression; None where there is none.
        covariates: shapes and dtypes of the columns that a program uses and does not model.
        ranges: column -> the lowest and the highest value of covariates that a program uses as indexes of tables whose
            sizes it does not show. Training rows widen declared ranges; values of new rows outside them are refused.
            Equality of schemas ignores them.
        label: the name of the column of X that y was in training, which new rows may have; None where it was none.
            Equality of schemas ignores it.

    Raises DataError for an unknown kind and for empty or repeated categories, classes or columns.
    """

    kinds: Mapping[str, StatedKind] = field(default_factory=dict)
    categories: Mapping[str, Sequence[Category]] = field(default_factory=dict)
    classes: Sequence[Category] | None = None
    columns: Sequence[str] | None = None
    named: bool = True
    sparse: bool = False
    mean: Array | None = field(default=None, compare=False)
    variance: Array | None = field(default=None, compare=False)
    unknown: str = "error"
    response: ResponseColumn | None = None
    covariates: Mapping[str, Covariate] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    label: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.kinds, ColumnKinds):
            fill(self, kinds=dict(self.kinds))
            for column, kind in self.kinds.items():
                as_kind(kind, column)
        if not isinstance(self.unknown, str) or self.unknown not in ("error", "missing"):
            raise DataError(f"Schema: unknown must be 'error' or 'missing', got {self.unknown!r}.")
        for name, values in (("mean", self.mean), ("variance", self.variance)):
            if values is not None and not self._is_scale(values):
                raise DataError(f"Schema: {name} is made by fits, an array with a number a column, got {values!r}.")
        if not isinstance(self.response, ResponseColumn | None):
            raise DataError(f"Schema: response is made by fits, Schema.response of another fit, got {self.response!r}.")
        listed = self.categories.items()
        fill(self, categories={c: declared_values(values, f"categories of column {c!r}") for c, values in listed})
        if self.classes is not None:
            fill(self, classes=declared_values(self.classes, "classes"))
            if len(self.classes) > 1 or self.classes != ONE_COMPONENT:  # durations are not compared with numbers
                check_num_classes(self.classes)
        if self.columns is not None and not isinstance(self.columns, PositionalNames):
            fill(self, columns=text_names(self.columns))

    def _is_scale(self, values: object) -> bool:
        """Whether these are means or variances as fits make them: a floating-point number for each column."""
        if not isinstance(values, Array) or values.dtype.kind != "f" or values.ndim not in (1, 2):
            return False
        return values.shape[-1] == len(self.columns or ())

    def __hash__(self) -> int:
        """By content, as far as it costs little however many columns there are."""
        num_columns = None if self.columns is None else len(self.columns)
        return hash((self.classes, num_columns, self.named, self.sparse, frozenset(self.categories)))

    @classmethod
    def infer(
        cls,
        X: Data,
        y: Values | None = None,
        *,
        declared: "Schema | None" = None,
        kinds: Mapping[str, StatedKind] | None = None,
    ) -> "Schema":
        """The resolved schema of these data: `declared` first, then `kinds`, then the dtypes.

        Columns of Python objects are of the kind of their observed cells: numbers, truth values, or else categories.
        """
        table = read_table(X, y)
        return (declared or cls()).resolve(table, table.labels, implied_kinds=kinds)

    def resolve(
        self,
        table: Table,
        y: np.ndarray | None = None,
        *,
        implied_kinds: Mapping[str, StatedKind] | None = None,
    ) -> "Schema":
        """This schema with columns, kinds, categories and classes filled in from data.

        Kinds are those declared here, else those in `implied_kinds`, else those of the dtypes. `y`, the table's
        labels, may be None. A resolved schema is returned as it is, after a check of the table. Raises DataError where
        schema, table and labels do not fit each other.
        """
        if not table.names:
            refuse_empty((table.num_rows, 0))
        schema, classes = self, self.classes
        is_resolved = self.columns is not None and len(self.kinds) == len(self.columns)
        if self.columns is None:
            schema = copied(self, columns=table.names, named=table.named)
        else:
            self.check_table(table)
        if y is not None:
            classes = classes or table.declared_classes or inferred_classes(y)
            check_num_classes(classes)
        kinds = schema._with_parameters(schema._complete_kinds(table, implied_kinds or {}), table)
        categories = schema._complete_categories(kinds, table)
        sparse = self.sparse if is_resolved else table.sparse
        return copied(schema, kinds=kinds, categories=categories, classes=classes, sparse=sparse)

    def widened(self, values: Mapping[str, Array | tuple[int, int]]) -> "Schema":
        """The schema with ranges extended to these values of covariates."""
        if not values:
            return self
        ends = {name: [*self.ranges.get(name, ()), int(np.min(v)), int(np.max(v))] for name, v in values.items()}
        return replace(self, ranges={**self.ranges, **{name: (min(v), max(v)) for name, v in ends.items()}})

    def check_ranges(self, values: Mapping[str, Shaped[Array, "n ..."]]) -> None:
        """Refuse values of covariates outside their ranges.

        Raises:
            DataError: naming the covariate and the first such row.
        """
        for name in sorted(self.ranges.keys() & values.keys()):
            lowest, highest = self.ranges[name]
            outside = (values[name] < lowest) | (values[name] > highest)
            if outside.any():
                cell = tuple(map(int, np.argwhere(outside)[0]))
                raise DataError(
                    f"Covariate {name!r} has {values[name][cell]} in row {cell[0]}, and {lowest} to {highest} in "
                    "training; the program computes indexes from it and from other values, so it is unknown whether "
                    "there are such entries. If there are, train with rows that have it or declare "
                    f"Schema(ranges={{{name!r}: (lowest, highest)}}), or let the program index by {name!r} alone, "
                    f"table[y, {name}] for table[{name} * size + y]."
                )

    def check_table(self, table: Table) -> None:
        """DataError unless the table has this schema's columns.

        Named columns may be in any order; none may be missing or added. Arrays are taken by position.
        """
        self.names_in(table, ())

    def names_in(self, table: Table, columns: Sequence[str]) -> Sequence[str]:
        """The table's names of some columns: the same, or by position where X is an array and the schema has names.

        Raises:
            DataError: a table that does not have this schema's columns.
        """
        schema_columns, names = self._resolved_columns(), table.names
        if table.named:
            message = None if tuple(names) == schema_columns else mismatch(schema_columns, names)
            if message is not None:
                origin = "" if self.named else " The schema comes from an array: give an array, or these names."
                raise DataError(f"{message}{origin} Rename, add or drop columns.")
            return columns
        if len(names) != len(schema_columns):
            raise DataError(
                f"X has {len(names)} columns, and the schema has {len(schema_columns)}: "
                f"{quote_some(schema_columns)}. Give it those columns, in that order."
            )
        if not self.named:
            return columns
        if columns is schema_columns:
            return names
        position = {column: j for j, column in enumerate(schema_columns)}
        return [names[position[column]] for column in columns]

    def row_chunks(self, table: Table) -> list[slice]:
        """Slices of a few rows of a table each, by their numbers of cells: each time step of a sequence is one."""
        columns = self.columns_of(SEQUENCE) if self.kinds else ()
        if not columns or not table.num_rows:
            return table.chunks()
        sample = table.rows(np.unique(np.linspace(0, table.num_rows - 1, 256).astype(int)))  # enough for a mean length
        return table.chunks(sum(_mean_length(sample.column(name)) for name in self.names_in(table, columns)))

    def encode_cells(
        self, table: Table, columns: Sequence[str]
    ) -> tuple[np.ndarray | csr_array, Bool[np.ndarray, "n D"] | None]:
        """The numbers (n, len(columns)) of some columns of one kind, and a mask of the observed cells.

        The numbers are a csr_array where the table is sparse; the mask is None where no cell is missing.
        real, binned: floats, without a copy where possible; other numbers as float64; NaN where missing.
        binary: 0.0 and 1.0; count: whole numbers as float64; categorical: codes 0..r-1, int64, never sparse. All these
        are 0 where missing. Sequences: see `SequenceOf.encode`.
        Raises DataError for cells that are infinite, of the wrong type, or outside the kind (see `unknown`), for
        missing cells of a sparse table, and for a table that does not have this schema's columns. The table counts
        unknown values that are taken as missing.
        """
        names, kinds = self.names_in(table, columns), self._kinds_of_block(columns)
        block = Columns(table, columns, names, kinds, self.categories, self.unknown == "missing")
        encoded = kinds[columns[0]].encode(block)
        for column, number in encoded.unknown.items():
            table.unknown[column, table.start] = number
        return encoded.values, encoded.observed

    def decode(self, column: str, values: ArrayLike) -> Decoded:
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
        kind, codes = self.kind_of(column), np.asarray(values)
        kind.check_decodable(column, codes)
        return kind.decode(column, self.categories.get(column, ()), codes)

    def encode_labels(self, y: Values, name: str = "y", *, takes_missing: bool = False) -> np.ndarray:
        """Codes (n,), int64, of labels (n,) among `classes`; of missing ones -1, if taken. Messages call them `name`.

        Raises DataError for missing or unknown labels, and where y is empty or not 1-D.
        """
        if self.classes is None:
            raise DataError("The schema has no classes. Resolve it with labels, or give Schema(classes=...).")
        remedy = (
            f"Correct {name}, or declare every class: Schema(classes=[...]). A fit learns one more by fit.add_class."
        )
        return codes_among(as_labels(y), self.classes, name, "The classes are", remedy, takes_missing=takes_missing)

    def label_codes(self, labels: Values | None, name: str = "y") -> np.ndarray | None:
        """`encode_labels` of training data, -1 for labels that are missing; None where there are no classes."""
        if labels is None and self.classes is not None:
            raise DataError(f"{name} is missing: the model has classes, and learns them from a label for each row.")
        if labels is not None and self.classes is None:
            raise DataError(f"The model has no classes, so it takes no {name}: drop it.")
        return None if labels is None else self.encode_labels(labels, name, takes_missing=True)

    def kind_of(self, column: str) -> Kind:
        """The kind of a column, with its parameters."""
        return as_kind(self.kinds[column], column)

    def num_categories(self, column: str) -> int:
        """The number of categories or symbols of a column. DataError for other columns."""
        if column not in self.categories:
            raise DataError(f"Column {column!r} is not a categorical column of the schema.")
        return len(self.categories[column])

    def num_values(self, column: str) -> int | None:
        """The number of values, bins, or symbols and the end, of a column; None where it is not finite."""
        return self.kind_of(column).num_values(len(self.categories.get(column, ())))

    def sequence(self, column: str) -> SequenceOf:
        """The kind of a column of sequences. DataError where the column has none."""
        kind = self.kind_of(column) if column in self.kinds else None
        if not isinstance(kind, SequenceOf):
            raise DataError(f"Column {column!r} is not a column of sequences of the schema.")
        return kind

    def bins(self, column: str) -> Binned:
        """The bins of a binned column. DataError where the column is not binned."""
        kind = self.kind_of(column) if column in self.kinds else None
        if not isinstance(kind, Binned):
            raise DataError(f"Column {column!r} is not a binned column of the schema.")
        return kind

    def columns_of(self, kind: str) -> Sequence[str]:
        """The columns of one kind, by its name, in order; `columns` itself where these are all."""
        columns = self._resolved_columns()
        if (common := uniform_kind(self.kinds)) is not None:
            return columns if kind == common.name else ()
        chosen = tuple(c for c in columns if c in self.kinds and self.kind_of(c).name == kind)  # sites have no kinds
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

    def _complete_kinds(self, table: Table, implied_kinds: Mapping[str, StatedKind]) -> Mapping[str, Kind]:
        """The kind of each column: stated here, else implied, else that of its dtype."""
        columns = self._resolved_columns()
        default: StatedKind | None = table.uniform_kind
        if isinstance(implied_kinds, ColumnKinds):  # one kind for all columns, however many
            default, implied_kinds = implied_kinds.default, implied_kinds.overrides
        stated_names = () if isinstance(self.kinds, ColumnKinds) else self.kinds
        check_known([*stated_names, *implied_kinds, *self.categories], columns, self.named)
        if isinstance(self.kinds, ColumnKinds):
            return self.kinds
        names = dict.fromkeys([*implied_kinds, *self.kinds])
        stated = {c: resolved_kind(self.kinds.get(c), implied_kinds.get(c) or default, c) for c in names}
        if default is not None and isinstance(columns, PositionalNames):
            return ColumnKinds(columns, as_kind(default, columns[0]), stated)
        pairs = zip(columns, self.names_in(table, columns), strict=True)
        return {c: stated.get(c) or as_kind(default or table.inferred_kind(name), c) for c, name in pairs}

    def _with_parameters(self, kinds: Mapping[str, Kind], table: Table) -> Mapping[str, Kind]:
        """The kinds with parameters from the data where they are not stated."""
        overrides = kinds.overrides if isinstance(kinds, ColumnKinds) and kinds.default.is_resolved else None
        unresolved: dict[str, list[str]] = {}
        for column, kind in (kinds if overrides is None else overrides).items():
            if not kind.is_resolved:
                unresolved.setdefault(kind.name, []).append(column)
        resolved: dict[str, Kind] = {}
        for columns in unresolved.values():
            names = self.names_in(table, columns)
            resolved |= kinds[columns[0]].resolve(Columns(table, columns, names, kinds, self.categories))
        if not resolved:
            return kinds
        if isinstance(kinds, ColumnKinds) and overrides is not None:
            return ColumnKinds(kinds.names, kinds.default, {**overrides, **resolved})
        return {**kinds, **resolved}

    def _complete_categories(self, kinds: Mapping[str, Kind], table: Table) -> dict[str, Sequence[Category]]:
        """The categories and alphabets: those declared, else those of the table.

        Raises:
            DataError: categories of columns of other kinds; columns without any value or symbol.
        """
        for column in self.categories:
            if not kinds[column].has_categories:
                raise DataError(
                    f"Column {column!r} has categories, and is {kinds[column].name}. Leave them out, or declare "
                    f"Schema(kinds={{{column!r}: 'categorical'}})."
                )
        common = uniform_kind(kinds)
        if common is not None and not common.has_categories:
            return {}
        columns = [column for column in self._resolved_columns() if kinds[column].has_categories]
        return {
            column: tuple(self.categories.get(column) or kinds[column].infer_categories(column, table, name))
            for column, name in zip(columns, self.names_in(table, columns), strict=True)
        }

    def _kinds_of_block(self, columns: Sequence[str]) -> Mapping[str, Kind]:
        """The kinds of columns that are encoded together. DataError: unknown columns, or some of unlike kinds."""
        if isinstance(self.kinds, ColumnKinds) and not self.kinds.overrides and columns == self.columns:
            return self.kinds
        check_known(columns, self._resolved_columns(), self.named)
        kinds = {column: self.kind_of(column) for column in columns}
        kind_names = list(dict.fromkeys(kind.name for kind in kinds.values()))
        if len(kind_names) != 1:
            raise DataError(f"Columns of one kind are encoded together, and these are {kind_names or 'none'}.")
        return kinds


def check_known(names: Sequence[str], columns: Sequence[str], named: bool) -> None:
    """DataError for names that are not among the columns."""
    columns_set = columns if isinstance(columns, PositionalNames) else set(columns)
    unknown = [name for name in names if name not in columns_set]
    if unknown:
        note = "" if named else " (X has no column names, so they are named by position)"
        raise DataError(
            f"The schema names {quote_some(unknown)}, and the columns are {quote_some(columns)}{note}."
            f"{look_alikes(unknown, columns)}{_hint_at_families(unknown)} Correct the names."
        )


def _hint_at_families(names: Sequence[str]) -> str:
    """A hint for names of kinds in place of names of columns."""
    kinds = [name for name in names if name in KINDS]
    hint = "A schema tells of columns one by one; a model takes a family for all columns of a kind"
    return f" {hint}, NaiveBayes({{{kinds[0]!r}: ...}})." if kinds else ""


def _mean_length(cells: Shaped[np.ndarray, "n ..."]) -> float:
    """The mean number of time steps of sequences; cells that are not sequences have none."""
    if cells.ndim > 1:
        return float(cells.shape[1])
    return float(np.mean([len(cell) if hasattr(cell, "__len__") else 0 for cell in cells.tolist()]))
