"""What `bayesgen compare` can be asked to do: tell classes, or numbers; with which models, on which split."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from bayesgen.averaging import average
from bayesgen.data import Dataset, ResponseColumn, Schema, Split
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, warn
from bayesgen.evaluation import Comparison
from bayesgen.families import DirichletHistogram, Family
from bayesgen.models import (
    GaussianDiscriminant,
    JointGaussianRegression,
    LinearRegression,
    NaiveBayes,
    NaiveBayesRegression,
)
from bayesgen.report import can_draw, coverage_figure, save

from .columns import columns_as_read
from .options import CompareOptions

_AVERAGED = ("full", "tied", "diag", "spherical")  # covariances of gda-average
TEST_SIZE = 0.25
_MANY = 20  # different numbers in a target from which on it is told that they are taken as classes


class Task(abc.ABC):
    """What is to be told of new rows.

    Attributes:
        models: models by the name that `--model` has for them, made for some options and data.
    """

    models: ClassVar[Mapping[str, Callable[[CompareOptions, Dataset], Any]]]

    @abc.abstractmethod
    def default_models(self, options: CompareOptions, dataset: Dataset) -> tuple[str, ...]:
        """The models where none is named."""

    @abc.abstractmethod
    def split(self, options: CompareOptions, dataset: Dataset) -> Split:
        """The rows to learn from and to test on."""

    @abc.abstractmethod
    def schema(self, options: CompareOptions, dataset: Dataset) -> Schema:
        """What is declared of the columns and labels."""

    @abc.abstractmethod
    def told(self, options: CompareOptions, split: Split) -> str:
        """What is to be told, for the title."""

    def notes(self, options: CompareOptions, dataset: Dataset) -> list[str]:
        """What a person may not have meant: columns that hardly repeat."""
        named = [
            f"{column.name!r} ({column.values:,} values in {len(dataset.y):,} rows)"
            for column in columns_as_read(dataset, self.schema(options, dataset))
            if column.hardly_repeats
        ]
        if not named:
            return []
        return [
            f"Columns that hardly repeat: {', '.join(named)}. What names or dates a row says nothing of others, and "
            "can make them impossible. To leave a column out: --drop."
        ]

    def figures(self, comparison: Comparison) -> Mapping[str, Callable[[Path], None]]:
        """Functions that draw into a file, by the name of the file."""
        return {}


class Classification(Task):
    """Classes are told."""

    models = MappingProxyType(
        {
            "naive-bayes": lambda options, dataset: NaiveBayes(_of_numbers(options)),
            "naive-bayes-average": lambda options, dataset: NaiveBayes(_of_numbers(options), structure="average"),
            "gda": lambda options, dataset: GaussianDiscriminant(covariance=options.covariance or "full"),
            "gda-average": lambda options, dataset: average([GaussianDiscriminant(form) for form in _AVERAGED]),
        }
    )

    def default_models(self, options: CompareOptions, dataset: Dataset) -> tuple[str, ...]:
        """One, since NUTS compiles for each: jointly normal columns where all are numbers, which are in no bins."""
        if options.bins is not None:
            return ("naive-bayes",)
        return ("gda" if dataset.all_real or options.covariance is not None else "naive-bayes",)

    def split(self, options: CompareOptions, dataset: Dataset) -> Split:
        """With classes in proportion, or the first rows of each."""
        try:
            if options.per_class is not None:
                return dataset.split_per_class(options.per_class)
            return dataset.split(test_size=options.test_size or TEST_SIZE, seed=options.seed)
        except DataError as refusal:
            raise DataError(f"{refusal} {_told_as_numbers(dataset)}".strip()) from refusal

    def schema(self, options: CompareOptions, dataset: Dataset) -> Schema:
        """Columns of sequences; values and classes of the whole file, or its classes alone."""
        declared = dataset.declare(options.sequences)
        return declared if options.unknown != "missing" else replace(declared, categories={}, unknown="missing")

    def told(self, options: CompareOptions, split: Split) -> str:
        """How many classes, and the first of them."""
        classes = sorted(split.y_train.dropna().unique().tolist())
        names = ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")
        bins = "" if options.bins is None else f", naive Bayes with {options.bins} bins"
        return f"{len(classes)} classes of {options.target} ({names}){bins}"

    def notes(self, options: CompareOptions, dataset: Dataset) -> list[str]:
        """Gaussian models that are naive Bayes by another name; bins of nothing; numbers that are taken as classes."""
        gaussian = [name for name in options.models or () if name.startswith("gda")]
        alike = f"No column of {dataset.name} holds real numbers, so {' and '.join(gaussian)} is naive Bayes here."
        no_bins = f"No column of {dataset.name} holds real numbers, so --bins does nothing here."
        notes = [
            *super().notes(options, dataset),
            alike if gaussian and not dataset.any_real else "",
            no_bins if options.bins is not None and not dataset.any_real else "",
            _told_as_numbers(dataset),
        ]
        return [note for note in notes if note]


def _of_numbers(options: CompareOptions) -> dict[str, Family]:
    """The family of columns of numbers: none is named where they are normal, as by default."""
    return {} if options.bins is None else {"real": DirichletHistogram(options.bins)}


def _told_as_numbers(dataset: Dataset) -> str:
    """A hint that a target may be meant as numbers; empty where it holds few different ones."""
    y = dataset.y.dropna()
    is_number = pd.api.types.is_numeric_dtype(y.dtype) and not pd.api.types.is_bool_dtype(y.dtype)
    num_values = y.nunique()
    if not is_number or num_values <= _MANY:
        return ""
    return (
        f"Target {y.name!r} holds {num_values} different numbers, each of which is taken as a class. To predict the "
        "number: --task regression."
    )


def _check_numbers(y: pd.Series) -> None:
    """Refuse a target of other than numbers, with what it holds."""
    if pd.api.types.is_numeric_dtype(y.dtype) and not pd.api.types.is_bool_dtype(y.dtype):
        return
    known = y.dropna()
    numbers = pd.to_numeric(known.astype(str), errors="coerce")
    strange = list(dict.fromkeys(known[numbers.isna()].tolist()))
    what = quote_some(strange, 5) if strange else f"{y.dtype}"
    raise DataError(
        f"Target {y.name!r} holds {what}, and a regression predicts numbers. Name another target; for cells that are "
        "missing say --missing '?', or whatever marks them; for classes leave --task regression out."
    )


def _encoder(options: CompareOptions, dataset: Dataset) -> ColumnTransformer | None:
    """What makes numbers of columns of texts: one for each value but the first, and for missing cells, 0 or 1.

    None where all columns are numbers. Values that training rows lack have a number of theirs too where they are
    declared, and are taken as the first where not.
    """
    declared = dataset.categories
    values = {name: list(declared.get(name, (False, True))) for name in dataset.not_real}
    if not values:
        return None
    for name, of_column in values.items():
        if dataset.X[name].isna().any():
            of_column.append(np.nan)
    if options.unknown == "missing":
        encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    else:
        categories = [np.asarray(of_column, object) for of_column in values.values()]
        encoder = OneHotEncoder(categories=categories, drop="first", sparse_output=False)
    return ColumnTransformer([("values", encoder, [*values])], remainder="passthrough", verbose_feature_names_out=False)


class Regression(Task):
    """A number is told."""

    models = MappingProxyType(
        {
            "linear": lambda options, dataset: LinearRegression(_encoder(options, dataset)),
            "joint-gaussian": lambda options, dataset: JointGaussianRegression(),
            "naive-bayes-regression": lambda options, dataset: NaiveBayesRegression(),
        }
    )

    def default_models(self, options: CompareOptions, dataset: Dataset) -> tuple[str, ...]:
        """A line in the columns."""
        return ("linear",)

    def split(self, options: CompareOptions, dataset: Dataset) -> Split:
        """Of rows at random."""
        _check_numbers(dataset.y)
        return dataset.split(test_size=options.test_size or TEST_SIZE, seed=options.seed, by_class=False)

    def schema(self, options: CompareOptions, dataset: Dataset) -> Schema:
        """The name of the target, and values of the whole file."""
        response = ResponseColumn(str(dataset.y.name))
        if options.unknown == "missing":
            return Schema(unknown="missing", response=response)
        return Schema(categories=dataset.categories, response=response)

    def told(self, options: CompareOptions, split: Split) -> str:
        """The range of the numbers."""
        known = split.y_train.dropna().to_numpy(np.float64)
        return f"{options.target} from {known.min():,.5g} to {known.max():,.5g}"

    def figures(self, comparison: Comparison) -> Mapping[str, Callable[[Path], None]]:
        """How often intervals hold the truth."""
        if not can_draw():
            warn('No coverage.png is drawn without matplotlib: pip install "bayesgen[plots]".')
            return {}
        return {"coverage.png": lambda path: save(coverage_figure(comparison), path)}


TASKS: Mapping[str, Task] = {"classification": Classification(), "regression": Regression()}
