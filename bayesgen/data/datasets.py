"""Data sets to try things on: scikit-learn's by name, and files; and how to split them for testing."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split

from bayesgen.errors import DataError, check_text
from bayesgen.typing import Category

from .categories import CATEGORICAL, factorize
from .files import MISSING_WORDS, FileReader, name_of_source
from .number_kinds import REAL
from .schema import Schema
from .sequence_of import SEQUENCE
from .tables import read_table

_TARGET = "target"


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Training rows and test rows. X is a data frame or a sparse matrix, y a series of labels."""

    X_train: pd.DataFrame | csr_array
    y_train: pd.Series
    X_test: pd.DataFrame | csr_array
    y_test: pd.Series

    def __repr__(self) -> str:
        rows = f"{len(self.y_train):,} rows to learn from, {len(self.y_test):,} to test on"
        return f"Split: {rows}, labels {self.y_train.name!r}; split.X_train, .y_train, .X_test, .y_test"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Attributes and labels. `X` is a data frame (n, D), or a sparse matrix of counts; `y` a series (n,).

    Labels are classes, or numbers to predict. Rows without a label are used for training only, never for testing.
    `kinds` are the declared ones, column -> name.
    """

    name: str
    X: pd.DataFrame | csr_array
    y: pd.Series

    kinds: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = f"{len(self.y):,} rows, {self.X.shape[1]} columns"
        return f"Dataset {self.name}: {shape}, labels {self.y.name!r}; dataset.X, .y, .split()"

    @cached_property
    def columns(self) -> Schema:
        """The schema of the columns: their kinds, those declared first, and the categories of the whole table."""
        return Schema.infer(self.X, declared=Schema(kinds=self.kinds))

    @property
    def all_real(self) -> bool:
        """Whether every column holds numbers, so that the columns may be jointly normal."""
        return len(self.columns.columns_of(REAL.name)) == self.X.shape[1]

    @property
    def any_real(self) -> bool:
        """Whether some column holds numbers."""
        return len(self.columns.columns_of(REAL.name)) > 0

    @property
    def identifiers(self) -> list[str]:
        """Columns of texts or dates, of no declared kind, of whose observed cells more than half are different."""
        if not isinstance(self.X, pd.DataFrame):
            return []
        table = read_table(self.X)

        def identifies(name: str) -> bool:
            cells = self.X[name].dropna()
            is_text = cells.dtype.kind == "M" or table.inferred_kind(name) == CATEGORICAL.name
            return is_text and 2 * cells.nunique() > len(cells)

        return [name for name in map(str, self.X) if name not in self.kinds and identifies(name)]

    def without(self, columns: Sequence[str]) -> "Dataset":
        """The same without some columns. Raises DataError for a name that no column has, and where none is left."""
        if len(columns) == 0:
            return self
        self.check_names(columns, "leave out")
        if set(columns) >= set(self.X):
            raise DataError(f"{self.name} has no column left. Leave fewer out, or keep one: --keep COLUMN.")
        kinds = {name: kind for name, kind in self.kinds.items() if name not in columns}
        return dataclasses.replace(self, X=self.X.drop(columns=list(columns)), kinds=kinds)

    def check_names(self, names: Sequence[str], purpose: str) -> None:
        """DataError for a name that no column has; `purpose` says what it was to be named for."""
        for name in names:
            _check_column(self.name, name, [*map(str, self.X)] if isinstance(self.X, pd.DataFrame) else [], purpose)

    @property
    def categories(self) -> Mapping[str, Sequence[Category]]:
        """The categories of each text column, and the symbols of each column of sequences, in the whole table."""
        return self.columns.categories

    @property
    def declared(self) -> Schema:
        """A schema with all categories and classes of the whole table, of which training rows may lack some."""
        classes = Schema.infer(self.X, self.y, declared=self.columns).classes
        return Schema(kinds=self.kinds, categories=self.categories, classes=classes)

    def split(self, *, test_size: float = 0.25, seed: int = 0, by_class: bool = True) -> Split:
        """Training rows and a random test set: the share `test_size` of all rows, and of each class if `by_class`.

        Raises DataError where a class has a single row, or one of the two sets would have fewer rows than there are
        classes; without `by_class`, where one of them would be empty.
        """
        labelled = self.y.notna().to_numpy()
        rows = np.flatnonzero(labelled)
        if by_class:
            self._check_split_classes()
        try:
            train, test = train_test_split(
                rows, test_size=test_size, random_state=seed, stratify=self.y.iloc[rows] if by_class else None
            )
        except ValueError as refusal:
            classes = f" in {self.y.nunique()} classes" if by_class else ""
            raise DataError(
                f"{len(rows)} rows{classes} cannot be split with test size {test_size}: {refusal}"
            ) from refusal
        return self._parts(np.sort(np.append(train, np.flatnonzero(~labelled))), np.sort(test))

    def _check_split_classes(self) -> None:
        """Refuse a class that cannot stand on both sides."""
        counts = self.y.value_counts()
        if counts.min() < 2:
            raise DataError(
                f"Class {_plain(counts.idxmin())!r} of target {self.y.name!r} has one row only, and both "
                f"sides of a split need one. Merge or drop such classes, or choose another target."
            )

    def split_per_class(self, rows: int) -> Split:
        """The first `rows` rows of each class for training, and all others for testing.

        Raises DataError where a class has fewer rows, or no rows are left for testing.
        """
        counts = self.y.value_counts()
        if counts.min() < rows:
            raise DataError(
                f"Class {_plain(counts.idxmin())!r} of target {self.y.name!r} has {counts.min()} rows, fewer "
                f"than the {rows} per class to learn from. Ask for fewer."
            )
        codes, _ = factorize(self.y.to_numpy(), "y")
        place_in_class = self.y.groupby(codes).cumcount().to_numpy()
        to_learn = (place_in_class < rows) | self.y.isna().to_numpy()
        if to_learn.all():
            raise DataError(f"With {rows} rows per class to learn from, none is left to test on.")
        return self._parts(np.flatnonzero(to_learn), np.flatnonzero(~to_learn))

    def _parts(self, train: np.ndarray, test: np.ndarray) -> Split:
        table = self.X.iloc if isinstance(self.X, pd.DataFrame) else self.X
        return Split(table[train], self.y.iloc[train], table[test], self.y.iloc[test])


def load_dataset(
    source: str | Path | BinaryIO,
    *,
    target: str | None = None,
    missing: Sequence[str] = (),
    texts: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    label_kind: str | None = None,
    words_are_values: bool = False,
    separator: str | None = None,
    decimal: str = ".",
) -> Dataset:
    """A data set of scikit-learn by name, or a table from a file.

    Args:
        source: "iris", "wine", "breast_cancer", "digits" (pixels as counts, one multinomial block), "diabetes" (whose
            target is a number), or the path of a CSV or TSV file with a header line, perhaps gzipped, or of a Parquet
            file where pyarrow is installed; or a stream of bytes, such as `sys.stdin.buffer`, with the content of a CSV
            file.
        target: the column that holds the classes, or the numbers to predict; None means the last one.
        missing: texts that mark a cell of a file as missing, such as "?", besides an empty cell. A number is marked by
            every text of it. A warning names texts that no cell is.
        texts: columns of a CSV or TSV file whose cells stay as they are written: digits with their leading zeros,
            "true", "NA", blanks. Only an empty cell and `missing` mark a missing one.
        kinds: column -> its kind, such as "categorical" where digits are codes, "real" where numbers have leading
            zeros, "count", "binary" or "sequence". Texts of a column declared categorical are not read as numbers.
        label_kind: the kind of the target: "real" for numbers, "categorical" for texts that are not read as numbers.
        words_are_values: whether NA, N/A, NaN, nan, NULL, null, None and the like are values of the columns of a CSV or
            TSV file. They are missing cells by default, and a warning counts them.
        separator: what separates the cells of a CSV or TSV file; by default a comma, or a tab in a TSV file.
        decimal: "." or ",": what stands before the decimals of its numbers.

    Cells of CSV and TSV files are read without the blanks around them. A column whose cells are all numbers is real, of
    true and false binary, of texts categorical. Numbers with leading zeros, such as 0071, are codes: their column is
    categorical. So are labels of which two are written differently and are one number. Warnings name such columns,
    those of numbers that other texts keep from being real, and a "?" that is taken as a value. Labels may be missing.
    Raises DataError where there is no such file, or it cannot be read, is empty, or lacks the target.

    >>> load_dataset("iris").X.columns.tolist()
    ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)', 'petal width (cm)']
    """
    if not isinstance(source, str | Path) and not hasattr(source, "read"):
        raise DataError(f"The source must be a path, the name of a data set, or a stream of bytes, got {source!r}.")
    is_sign = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
    is_separator = separator is None or (is_sign and separator != decimal)
    if decimal not in (".", ",") or not is_separator:
        raise DataError(
            f"separator={separator!r} and decimal={decimal!r}: give one character that separates cells, and "
            "another, '.' or ',', that stands before decimals."
        )
    if target is not None:
        check_text("target", target, DataError)
    name, kinds = name_of_source(source), dict(kinds or {})
    if name == _DIGITS:
        return _load_digits(target)
    if name in _FRAMES:
        frame = _FRAMES[name]()
    else:
        words = frozenset() if words_are_values else MISSING_WORDS
        texts = [*texts, *(column for column, kind in kinds.items() if kind == SEQUENCE)]
        reader = FileReader(missing, words, texts, kinds, label_kind, separator, decimal)
        frame = reader.read(Path(source) if isinstance(source, str) else source, target, DATASET_NAMES)
    return _with_target(name, frame.rename(columns=str), target, kinds)


def _with_target(name: str, frame: pd.DataFrame, target: str | None, kinds: Mapping[str, str]) -> Dataset:
    """The data set of a table with its labels in the column `target`, or in the last one."""
    target = frame.columns[-1] if target is None else target
    _check_column(name, target, list(frame.columns), "predict")
    for column in kinds:
        _check_column(name, column, list(frame.columns), "declare")
    y, X = frame[target], frame.drop(columns=target)
    if X.shape[1] == 0:
        raise DataError(f"{name} has one column only, {target!r}. Are its cells separated otherwise?")
    attribute_kinds = {column: kind for column, kind in kinds.items() if column != target}
    return Dataset(name, X, _integer_labels(y), attribute_kinds)


def _integer_labels(y: pd.Series) -> pd.Series:
    """Labels that are whole numbers as integers, where pandas has made them floats because some are missing."""
    observed = y.dropna()
    if observed.empty:
        raise DataError(f"Target {y.name!r} is missing in all {len(y)} rows. Label some of them, or name another.")
    are_integers = y.dtype.kind == "f" and len(observed) < len(y) and bool((observed == observed.round()).all())
    return y.astype("Int64") if are_integers else y


def _class_names_last(load: Callable[..., Any]) -> Callable[[], pd.DataFrame]:
    """The loader of a scikit-learn set as a frame: attributes first, class names in the last column."""

    def read() -> pd.DataFrame:
        bunch = load(as_frame=True)
        labels = np.asarray(bunch.target_names)[bunch.target.to_numpy()]
        return bunch.data.assign(**{_TARGET: labels.tolist()})

    return read


def _load_diabetes() -> pd.DataFrame:
    """Diabetes in its own units, the measure of its progression last."""
    bunch = sklearn_datasets.load_diabetes(as_frame=True, scaled=False)
    return bunch.data.assign(**{_TARGET: bunch.target})


_FRAMES = {
    "iris": _class_names_last(sklearn_datasets.load_iris),
    "wine": _class_names_last(sklearn_datasets.load_wine),
    "breast_cancer": _class_names_last(sklearn_datasets.load_breast_cancer),
    "diabetes": _load_diabetes,
}
_DIGITS = "digits"
DATASET_NAMES = (*_FRAMES, _DIGITS)


def _load_digits(target: str | None) -> Dataset:
    if target not in (None, _TARGET):
        raise DataError(f"{_DIGITS} has no column {target!r} to predict: its one target is {_TARGET!r}.")
    bunch = sklearn_datasets.load_digits()
    return Dataset(_DIGITS, csr_array(bunch.data.astype(int)), pd.Series(bunch.target, name=_TARGET))


def _check_column(name: str, wanted: str, columns: list[str], purpose: str) -> None:
    """DataError where no column of a data set is called so."""
    if wanted in columns:
        return
    close = difflib.get_close_matches(wanted, columns, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise DataError(
        f"{name} has no column {wanted!r} to {purpose}.{hint} Its columns: {', '.join(map(repr, columns))}."
    )


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
