"""Tables as commands read them: DATA with its columns and its models; rows of files, of standard input, in files."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import bayesgen
from bayesgen.data import (
    BINARY,
    CATEGORICAL,
    DATASET_NAMES,
    MISSING_WORDS,
    REAL,
    Dataset,
    FileReader,
    ResponseColumn,
    Schema,
    Split,
    load_dataset,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, warn

from .columns import ColumnAsRead, columns_as_read
from .names import MethodName, RuleName
from .options import Options, ReadingOptions, is_parquet, is_stream, separator_of
from .running import Outcome

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

_NOT_TEXT = (b"PAR1", b"\x1f\x8b", b"\x89HDF")  # Parquet, gzip, netCDF
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
MODELS: Mapping[str, Callable[[Options, Dataset], Any]] = {
    "naive-bayes": lambda options, dataset: bayesgen.NaiveBayes(_families(options)),
    "naive-bayes-average": lambda options, dataset: bayesgen.NaiveBayes(_families(options), structure="average"),
    "gda": lambda options, dataset: bayesgen.GaussianDiscriminant(options.covariance or "full"),
    "gda-average": lambda options, dataset: bayesgen.average(
        [bayesgen.GaussianDiscriminant(form) for form in ("full", "tied", "diag", "spherical")]
    ),
    "linear": lambda options, dataset: bayesgen.LinearRegression(_encoder(options, dataset)),
    "joint-gaussian": lambda options, dataset: bayesgen.JointGaussianRegression(),
    "naive-bayes-regression": lambda options, dataset: bayesgen.NaiveBayesRegression(),
}
METHODS: Mapping[MethodName, Any] = {
    "mle": bayesgen.MLE(),
    "map": bayesgen.MAP(),
    "exact": bayesgen.Exact(),
    "nuts": bayesgen.NUTS(),
}
RULES: Mapping[RuleName, Any] = {
    "plug-in": bayesgen.PlugIn(),
    "bma": bayesgen.BMA(),
    "conditional-average": bayesgen.ConditionalAverage(),
}


def default_models(options: Options, dataset: Dataset) -> list[str]:
    """One model, since NUTS compiles for each: for classes gda if all columns are numbers and --bins is not given."""
    if options.is_regression:
        return ["linear"]
    can_be_normal = options.bins is None and (dataset.all_real or options.covariance is not None)
    return ["gda" if can_be_normal else "naive-bayes"]


def notes(options: Options, dataset: Dataset, columns: Sequence[ColumnAsRead]) -> list[str]:
    """Notes on possible mistakes: columns that hardly repeat, options without effect, numbers taken as classes."""
    repeating = [column.name for column in columns if column.hardly_repeats]
    gaussian = [name for name in options.models or () if name in ("gda", "gda-average")]
    none_real = "" if dataset.any_real else f"No column of {dataset.name} holds real numbers, so "
    lines = [
        f"Columns that hardly repeat: {_with_counts(dataset, repeating)}. A column of names or dates tells nothing "
        "about other rows, and can make them impossible. To leave a column out: --drop."
        if repeating
        else "",
        f"{none_real}{' and '.join(gaussian)} is naive Bayes here." if none_real and gaussian else "",
        f"{none_real}--bins does nothing here." if none_real and options.bins is not None else "",
        "" if options.is_regression else hint_of_regression(dataset),
    ]
    return [line for line in lines if line]


def _families(options: Options) -> dict[str, Any]:
    """Families of columns of numbers; empty for the default, a normal one."""
    return {} if options.bins is None else {"real": bayesgen.DirichletHistogram(options.bins)}


def hint_of_regression(dataset: Dataset) -> str:
    """A hint that a target may be numbers to predict; empty where it holds few different ones."""
    y = dataset.y.dropna()
    num_values = y.nunique()
    if not _are_numbers(y) or num_values <= 20:  # which may well be classes
        return ""
    return (
        f"Target {y.name!r} holds {num_values} different numbers, each of which is taken as a class. To predict the "
        "number: --task regression."
    )


def _are_numbers(y: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(y.dtype) and not pd.api.types.is_bool_dtype(y.dtype)


def check_numbers(y: pd.Series) -> None:
    """Refuse a target that does not hold numbers."""
    if _are_numbers(y):
        return
    labels = y.dropna()
    numbers = pd.to_numeric(labels.astype(str), errors="coerce")
    texts = list(dict.fromkeys(labels[numbers.isna()].tolist()))
    content = quote_some(texts, 5) if texts else f"{y.dtype}"
    raise DataError(
        f"Target {y.name!r} holds {content}, and a regression predicts numbers. Name another target; for missing "
        "cells say --missing '?', or the text that marks them; for classes leave --task regression out."
    )


def _encoder(options: Options, dataset: Dataset) -> "ColumnTransformer | None":
    """An encoder of columns of texts: an indicator for each value but the first, and for missing cells.

    None where all columns are numbers. Values that training rows lack have an indicator if they are declared, and count
    as the first value if not.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    columns = dataset.columns
    names = [*columns.columns_of(BINARY.name), *columns.columns_of(CATEGORICAL.name)]
    if not names:
        return None
    missing = {name: [np.nan] if dataset.X[name].isna().any() else [] for name in names}
    values = [list[Any](columns.categories.get(name, (False, True))) + missing[name] for name in names]
    declared = [np.asarray(column_values, object) for column_values in values]
    unknown = {"handle_unknown": "ignore"} if options.unknown == "missing" else {"categories": declared}
    encoder = OneHotEncoder(**unknown, drop="first", sparse_output=False)
    return ColumnTransformer([("values", encoder, names)], remainder="passthrough", verbose_feature_names_out=False)


def _with_counts(dataset: Dataset, names: Sequence[str]) -> str:
    """Columns with their numbers of different values."""
    return ", ".join(f"{name!r} ({dataset.X[name].nunique():,} values in {len(dataset.y):,} rows)" for name in names)


class Piped(io.BytesIO):
    """The content of standard input, which may be read again."""

    name = "standard input"


def source_of(data: str) -> str | Piped:
    """The name of a data set or of a file, or the text on standard input.

    Raises:
        DataError: standard input that is no text.
    """
    if not is_stream(data):
        return data
    content = sys.stdin.buffer.read()
    if content.startswith(_NOT_TEXT):
        raise DataError("Standard input takes CSV, and this is netCDF, Parquet or compressed: name the file instead.")
    return Piped(content)


@dataclass(frozen=True)
class TrainingData:
    """The table that a command learns from.

    Attributes:
        options: with their defaults, some of which depend on the table.
        dataset: the table, without the columns that are left out.
        left_out: these columns.
        content: the bytes of the file; None of a named data set.
    """

    options: Options
    dataset: Dataset
    left_out: Sequence[str]
    content: bytes | None

    @cached_property
    def schema(self) -> Schema:
        """Kinds, classes or the name of the number, and all values of the table unless unknown ones are missing."""
        dataset = self.dataset
        if self.options.is_regression:
            response = ResponseColumn(str(dataset.y.name))
            schema = Schema(kinds=dataset.kinds, categories=dataset.categories, response=response)
        else:
            schema = dataset.declared
        return schema if self.options.unknown != "missing" else replace(schema, categories={}, unknown="missing")

    @cached_property
    def columns(self) -> Sequence[ColumnAsRead]:
        """How its columns were read."""
        return columns_as_read(self.dataset, self.schema)

    @property
    def name(self) -> str:
        """What the table is called."""
        return Path(self.dataset.name).name

    def described(self, labels: pd.Series) -> str:
        """The target in words, for a title: the classes, or the range of the numbers, among some labels."""
        observed, options = labels.dropna(), self.options
        if options.is_regression:
            return f"{options.target} from {float(observed.min()):,.5g} to {float(observed.max()):,.5g}"
        classes = sorted(set(observed))
        names = ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")
        bins = "" if options.bins is None else f", naive Bayes with {options.bins} bins"
        return f"{len(classes)} classes of {options.target} ({names}){bins}"

    def split(self, test_size: float | None, per_class: int | None) -> Split:
        """The rows to learn from and to test on: with classes in proportion, or the first rows of each class."""
        dataset, drawn = self.dataset, dict[str, Any](test_size=test_size, seed=self.options.seed)
        if self.options.is_regression:
            check_numbers(dataset.y)
            return dataset.split(**drawn, by_class=False)
        try:
            return dataset.split(**drawn) if per_class is None else dataset.split_per_class(per_class)
        except DataError as refusal:
            raise DataError(f"{refusal} {hint_of_regression(dataset)}".strip()) from refusal

    def splits(self, size: int, repeats: int) -> Iterator[Split]:
        """Random splits into so many rows to learn from, of each class where there are classes, and all others."""
        dataset = self.dataset
        for repeat in range(repeats):
            order = np.random.default_rng([self.options.seed, repeat]).permutation(len(dataset.y))
            X = dataset.X.iloc[order] if isinstance(dataset.X, pd.DataFrame) else dataset.X[order]
            shuffled = replace(dataset, X=X, y=dataset.y.iloc[order])
            if self.options.is_regression:
                yield shuffled.split(test_size=1 - size / len(order), seed=repeat, by_class=False)
            else:
                yield shuffled.split_per_class(size)

    @property
    def models(self) -> dict[str, Any]:
        """Models by name. Notes possible mistakes."""
        for note in notes(self.options, self.dataset, self.columns):
            warn(note)
        return {name: MODELS[name](self.options, self.dataset) for name in self.options.models or ()}


def read(options: Options) -> TrainingData:
    """DATA as the options say. A warning names the columns of texts and dates that are left out."""
    source = source_of(options.data)
    dataset = load_dataset(
        source,
        target=options.target,
        missing=options.missing,
        kinds=options.kinds,
        label_kind=REAL.name if options.is_regression else None,
        words_are_values=options.words_are_values,
        separator=_unescaped(options.separator),
        decimal=options.decimal or ".",
    ).without(options.drop)
    dataset.check_names(options.keep, "keep")
    identifiers = [name for name in dataset.identifiers if name not in options.keep]
    if identifiers:
        warn(
            f"Columns of texts or dates that hardly repeat are left out: {_with_counts(dataset, identifiers)}. Names "
            "and dates tell nothing about other rows. To keep a column: --keep COLUMN."
        )
        dataset = dataset.without(identifiers)
    options = replace(options, target=str(dataset.y.name), models=options.models or default_models(options, dataset))
    own_bytes = source.getvalue() if isinstance(source, Piped) else None
    content = own_bytes if own_bytes is not None or options.data in DATASET_NAMES else Path(options.data).read_bytes()
    return TrainingData(options, dataset, [*options.drop, *identifiers], content)


READING = "command_line"  # name, among the attributes of a fit, of what is said here of its table


def with_reading(fit: Any, data: TrainingData) -> Any:
    """The fit, with what commands have to know of its table in order to read new rows in the same way."""
    options = {
        name: getattr(data.options, name) for name in ("target", *(field.name for field in fields(ReadingOptions)))
    }
    reading = {**options, "left_out": list(data.left_out)}
    return replace(fit, attributes={**fit.attributes, READING: reading})


def loaded(path: Path) -> Any:
    """The fit of rows in a file."""
    fit = bayesgen.load(path)
    if not isinstance(fit, bayesgen.Fit):
        raise DataError(f"{path} holds a {type(fit).__name__}, and commands take a fit of one table.")
    return fit


def pairs_of(methods: Sequence[str]) -> list[Any]:
    """The (method, rule) pairs of some methods."""
    from bayesgen.evaluation import DEFAULT_PAIRS

    return [pair for pair in DEFAULT_PAIRS if type(pair[0]).__name__.lower() in methods]


def new_rows(fit: Any, data: str, options: ReadingOptions) -> Any:
    """Rows with the columns of a fit, read as its table was, except for the options that are given.

    Columns that the fit does not use are left out, with a note on those that its table did not have.
    """
    reading = fit.attributes.get(READING, {})
    rows = load_dataset(data).X if data in DATASET_NAMES else _read_as(fit.schema, data, reading, options)
    if not isinstance(rows, pd.DataFrame):
        return rows
    unused = [name for name in rows if name not in fit.schema.kinds]
    unknown = [name for name in unused if name not in (reading.get("target"), *reading.get("left_out", ()))]
    if unknown:
        warn(f"Columns that the fit does not use are left out: {quote_some(unknown)}.")
    return rows.drop(columns=unused)


def _read_as(schema: Schema, data: str, reading: Mapping[str, Any], options: ReadingOptions) -> pd.DataFrame:
    """The rows of a file, or of standard input, with the kinds of a schema."""
    if not schema.named:
        raise DataError(
            f"The fit learned from an array, whose columns have no names to be found in {data}. Predict in Python."
        )
    kinds = {name: schema.kind_of(name) for name in schema.columns or ()}
    codes = [name for name, values in schema.categories.items() if not all(isinstance(v, str) for v in values)]
    read_as = {**reading, **{name: value for name, value in asdict(options).items() if value}}
    reader = FileReader(
        missing=read_as.get("missing", []),
        words=frozenset() if read_as.get("words_are_values") else MISSING_WORDS,
        texts=[name for name, kind in kinds.items() if kind.has_steps],
        kinds={name: kind.name for name, kind in kinds.items() if name not in codes},
        label_kind=None,
        separator=_unescaped(read_as.get("separator")),
        decimal=read_as.get("decimal") or ".",
        met={*reading.get("missing", ())},  # new rows need not have missing cells
    )
    source = source_of(data)
    return reader.read(source if isinstance(source, Piped) else Path(source), "", DATASET_NAMES).rename(columns=str)


def _unescaped(separator: str | None) -> str | None:
    return separator and separator.replace(r"\t", "\t")


def rows_written(frame: pd.DataFrame, path: Path) -> Outcome:
    """The outcome of a command that makes rows: a file, by the ending of its name, or CSV on standard output.

    Texts are written as they are, so that they can be compared with those of other files. A note names columns with
    texts that a spreadsheet would take for formulas.
    """
    if is_parquet(path):
        return Outcome(files={path: lambda aside: frame.to_parquet(aside, index=False)})
    texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    formulas = [name for name in texts if frame[name].astype(str).str.startswith(_FORMULA_SIGNS).any()]
    if formulas:
        warn(
            f"Texts of {quote_some(formulas)} begin with one of {' '.join(_FORMULA_SIGNS[:4])} and are written as they "
            "are. A spreadsheet takes them for formulas: import such columns as text."
        )
    if is_stream(path):
        return Outcome(text=frame.to_csv(index=False, lineterminator="\n"))
    return Outcome(files={path: lambda aside: frame.to_csv(aside, index=False, sep=separator_of(path) or ",")})
