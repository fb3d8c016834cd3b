"""Data sets to try things on: scikit-learn's by name, and files; and how to split them for testing."""

import dataclasses
import difflib
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split

from bayesgen.errors import BayesgenWarning, DataError, warn
from bayesgen.typing import Category

from .schema import Schema
from .sequence_of import SEQUENCE

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def _read_text(separator: str) -> Callable[[Path, Sequence[str], Sequence[str]], pd.DataFrame]:
    def read(path: Path, missing: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
        header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _check_distinct(path, header.iloc[0].tolist())  # pandas would rename the second of two
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it tells of cells about to be dropped
            return pd.read_csv(
                path,
                sep=separator,
                index_col=False,
                low_memory=False,
                na_values=list(missing),
                dtype=dict.fromkeys(texts, str),
            )

    return read


def _read_parquet(path: Path, missing: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    if find_spec("pyarrow") is None:
        raise DataError(f"{path} is a Parquet file, which pyarrow reads. Install it: pip install pyarrow")
    from pyarrow import parquet

    _check_distinct(path, parquet.read_schema(path).names)
    frame = pd.read_parquet(path, engine="pyarrow")
    return frame.mask(frame.isin(list(missing))) if missing else frame


def _check_distinct(path: Path, names: list[str]) -> None:
    """Refuse a table in which two columns have one name (several may have none)."""
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        raise DataError(f"{path} has several columns called {', '.join(map(repr, repeated))}. Rename or drop some.")


_READERS = {
    ".tsv": _read_text("\t"),
    ".tab": _read_text("\t"),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
}
# ValueError covers what pandas and Arrow raise of contents they cannot read, other encodings included.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserWarning)


def read_file(path: Path, missing: Sequence[str], texts: Sequence[str], known: Sequence[str]) -> pd.DataFrame:
    """A table from a CSV, TSV or Parquet file.

    Args:
        path: the file, perhaps gzipped.
        missing: texts that mark a cell as missing, besides those that pandas knows.
        texts: columns whose cells stay the texts that they are in a CSV or TSV file, be they digits; Parquet has types.
        known: names that may be meant where there is no such file.

    Raises:
        DataError: no such file; one that cannot be read, is empty, or has two columns of one name.
    """
    if not path.exists():
        close = difflib.get_close_matches(str(path), known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        names = ", ".join(known)
        raise DataError(f"There is no file {str(path)!r}.{hint} The data sets known by name are {names}.")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    read = _READERS.get(suffixes[-1] if suffixes else "", _read_text(","))
    try:
        frame = read(path, missing, texts)
    except DataError:
        raise
    except pd.errors.EmptyDataError as refusal:
        raise DataError(f"{path} is empty. It needs a header line and rows.") from refusal
    except _UNREADABLE as refusal:
        raise DataError(f"{path} cannot be read as a table: {str(refusal).strip()}") from refusal
    if len(frame) == 0:
        raise DataError(f"{path} has no rows below its header line.")
    return frame


_TARGET = "target"


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Training rows and test rows. X is a data frame or a sparse matrix, y a series of labels."""

    X_train: "pd.DataFrame | csr_array"
    y_train: pd.Series
    X_test: "pd.DataFrame | csr_array"
    y_test: pd.Series


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Attributes and labels. `X` is a data frame (n, D), or a sparse matrix of counts; `y` a series (n,).

    Labels are classes, or numbers to predict. Rows without a label are used for training only, never for testing.
    """

    name: str
    X: "pd.DataFrame | csr_array"
    y: pd.Series

    @property
    def all_real(self) -> bool:
        """Whether every column holds numbers, so that the columns may be jointly normal."""
        return all(self._are_real())

    @property
    def any_real(self) -> bool:
        """Whether some column holds numbers."""
        return any(self._are_real())

    def _are_real(self) -> list[bool]:
        """Whether each column holds numbers; a matrix of counts is one column that does not."""
        if not isinstance(self.X, pd.DataFrame):
            return [False]
        return [
            pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype) for dtype in self.X.dtypes
        ]

    @property
    def not_real(self) -> list[str]:
        """Names of the columns of a frame that do not hold numbers."""
        columns = self.X.columns if isinstance(self.X, pd.DataFrame) else ()
        return [str(name) for name, is_real in zip(columns, self._are_real(), strict=False) if not is_real]

    def without(self, columns: Sequence[str]) -> "Dataset":
        """The same without some columns. Raises DataError for a name that no column has, and where none is left."""
        if len(columns) == 0:
            return self
        names = list(self.X.columns) if isinstance(self.X, pd.DataFrame) else []
        for name in columns:
            if name not in names:
                raise DataError(_no_column(self.name, name, names, "leave out"))
        if set(columns) >= set(names):
            raise DataError(f"{self.name} has no column left. Leave fewer out.")
        return dataclasses.replace(self, X=self.X.drop(columns=list(columns)))

    @property
    def categories(self) -> Mapping[str, Sequence[Category]]:
        """The categories of each text column in the whole table."""
        return Schema.infer(self.X).categories

    @property
    def declared(self) -> Schema:
        """A schema with all categories and classes of the whole table, of which training rows may lack some."""
        return self.declare()

    def declare(self, sequences: Sequence[str] = ()) -> Schema:
        """`declared`, with these columns as sequences of symbols, and their alphabets. DataError: no such column."""
        names = list(self.X.columns) if isinstance(self.X, pd.DataFrame) else []
        for name in sequences:
            if name not in names:
                raise DataError(_no_column(self.name, name, names, "read as sequences"))
        kinds = dict.fromkeys(sequences, SEQUENCE)
        whole = Schema.infer(self.X, self.y, declared=Schema(kinds=kinds))
        return Schema(kinds=kinds, categories=whole.categories, classes=whole.classes)

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
        place_in_class = self.y.groupby(self.y, observed=True).cumcount().to_numpy()
        to_learn = (place_in_class < rows) | self.y.isna().to_numpy()
        if to_learn.all():
            raise DataError(f"With {rows} rows per class to learn from, none is left to test on.")
        return self._parts(np.flatnonzero(to_learn), np.flatnonzero(~to_learn))

    def _parts(self, train: np.ndarray, test: np.ndarray) -> Split:
        table = self.X.iloc if isinstance(self.X, pd.DataFrame) else self.X
        return Split(table[train], self.y.iloc[train], table[test], self.y.iloc[test])


def load_dataset(
    source: str | Path, *, target: str | None = None, missing: Sequence[str] = (), texts: Sequence[str] = ()
) -> Dataset:
    """A data set of scikit-learn by name, or a table from a file.

    source: "iris", "wine", "breast_cancer", "digits" (pixels as counts, one multinomial block), "diabetes" (whose
        target is a number), or the path of a CSV or TSV file with a header line, perhaps gzipped, or of a Parquet file
        where pyarrow is installed.
    target: the column that holds the classes, or the numbers to predict; None means the last one.
    missing: texts that mark a cell of a file as missing, such as "?", besides those that pandas knows: an empty cell,
        NA, NaN, null, None, ... (see `pandas.read_csv`).
    texts: columns of a CSV or TSV file whose cells stay as they are written: digits with their leading zeros, "true".

    Other cells are taken as pandas reads them: a column of numbers is real, of true and false binary, of texts
    categorical. A "?" that is not in `missing` is a text like any other; a warning names the columns that would hold
    numbers without it. Labels may be missing, too.
    Raises DataError where there is no such file, or it cannot be read, is empty, or lacks the target.

    >>> load_dataset("iris").X.columns.tolist()
    ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)', 'petal width (cm)']
    """
    name = str(source)
    if name == _DIGITS:
        return _load_digits(target)
    frame = _FRAMES[name]() if name in _FRAMES else read_file(Path(source), missing, texts, DATASET_NAMES)
    frame = frame.rename(columns=str)
    if target is None:
        target = frame.columns[-1]
    if target not in frame:
        raise DataError(_no_column(name, target, list(frame.columns), "predict"))
    y, X = frame[target], frame.drop(columns=target)
    if X.shape[1] == 0:
        raise DataError(f"{name} has one column only, {target!r}. Are its cells separated otherwise?")
    _warn_of_question_marks(X.drop(columns=list(texts), errors="ignore"))
    return Dataset(name, X, _whole(y))


def _whole(y: pd.Series) -> pd.Series:
    """Labels that are whole numbers as such, where pandas has made them floats because some are missing."""
    known = y.dropna()
    if known.empty:
        raise DataError(f"Target {y.name!r} is missing in all {len(y)} rows. Label some of them, or name another.")
    is_whole = y.dtype.kind == "f" and len(known) < len(y) and bool((known == known.round()).all())
    return y.astype("Int64") if is_whole else y


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
    return Dataset(_DIGITS, sparse.csr_array(bunch.data.astype(int)), pd.Series(bunch.target, name=_TARGET))


def _no_column(name: str, wanted: str, columns: list[str], purpose: str) -> str:
    close = difflib.get_close_matches(wanted, columns, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{name} has no column {wanted!r} to {purpose}.{hint} Its columns: {', '.join(map(repr, columns))}."


def _warn_of_question_marks(X: pd.DataFrame) -> None:
    """Warn of columns that would be numbers if they had no "?": as categories they are seldom meant."""
    found = []
    for column in X.select_dtypes(exclude="number"):
        texts = X[column].dropna().astype(str)
        marks = texts == "?"
        if marks.any() and pd.to_numeric(texts[~marks], errors="coerce").notna().all():
            found.append(f"{column!r} ({marks.sum()} cells)")
    if found:
        warn(
            f"Columns that hold numbers and '?' are taken as categorical, one category for each number: "
            f"{', '.join(found)}. To have them taken as numbers, some of which are missing, say missing=['?'], on the "
            "command line --missing '?'.",
            BayesgenWarning,
        )


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
