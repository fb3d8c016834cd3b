"""The work of the commands: options become objects, results become tables and files."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from bayesgen.averaging import average
from bayesgen.data import (
    BINARY,
    CATEGORICAL,
    DATASET_NAMES,
    REAL,
    Dataset,
    ResponseColumn,
    Schema,
    Split,
    load_dataset,
)
from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenError, BayesgenWarning, DataError, warn, warnings_told_to
from bayesgen.evaluation import DEFAULT_PAIRS, Comparison, Pair, Study, compare, study
from bayesgen.families import DirichletHistogram, Family
from bayesgen.models import (
    GaussianDiscriminant,
    JointGaussianRegression,
    LinearRegression,
    NaiveBayes,
    NaiveBayesRegression,
)
from bayesgen.runtime import interruptibly

from .display import ColumnAsRead, can_encode, column_table, columns_as_read, show, show_study
from .interruption import undone_unless_finished
from .names import CovarianceName, ModelName, TaskName
from .options import CompareOptions, Options, StudyOptions, command_line

AVERAGED = (CovarianceName.FULL, CovarianceName.TIED, CovarianceName.DIAG, CovarianceName.SPHERICAL)
MODELS: Mapping[str, Callable[[Options, Dataset], Any]] = {
    ModelName.NAIVE_BAYES: lambda options, dataset: NaiveBayes(_families(options)),
    ModelName.NAIVE_BAYES_AVERAGE: lambda options, dataset: NaiveBayes(_families(options), structure="average"),
    ModelName.GDA: lambda options, dataset: GaussianDiscriminant(str(options.covariance or CovarianceName.FULL)),
    ModelName.GDA_AVERAGE: lambda options, dataset: average([GaussianDiscriminant(str(form)) for form in AVERAGED]),
    ModelName.LINEAR: lambda options, dataset: LinearRegression(_encoder(options, dataset)),
    ModelName.JOINT_GAUSSIAN: lambda options, dataset: JointGaussianRegression(),
    ModelName.NAIVE_BAYES_REGRESSION: lambda options, dataset: NaiveBayesRegression(),
}
TEST_SIZE = 0.25


def default_models(options: Options, dataset: Dataset) -> list[ModelName]:
    """One model, since NUTS compiles for each: for classes gda if all columns are numbers and --bins is not given."""
    if options.task is TaskName.REGRESSION:
        return [ModelName.LINEAR]
    if options.bins is not None:
        return [ModelName.NAIVE_BAYES]
    return [ModelName.GDA if dataset.all_real or options.covariance is not None else ModelName.NAIVE_BAYES]


def split_rows(options: CompareOptions, dataset: Dataset) -> Split:
    """The rows to learn from and to test on: with classes in proportion, or the first rows of each class."""
    drawn: dict[str, Any] = {"test_size": options.test_size or TEST_SIZE, "seed": options.seed}
    if options.task is TaskName.REGRESSION:
        _check_numbers(dataset.y)
        return dataset.split(**drawn, by_class=False)
    try:
        return dataset.split(**drawn) if options.per_class is None else dataset.split_per_class(options.per_class)
    except DataError as refusal:
        raise DataError(f"{refusal} {_hint_of_regression(dataset)}".strip()) from refusal


def declared_schema(options: Options, dataset: Dataset) -> Schema:
    """Declared kinds, classes or the name of the number, and all values of the file unless unknown ones are missing."""
    if options.task is TaskName.REGRESSION:
        response = ResponseColumn(str(dataset.y.name))
        schema = Schema(kinds=dataset.kinds, categories=dataset.categories, response=response)
    else:
        schema = dataset.declared
    return schema if options.unknown != "missing" else replace(schema, categories={}, unknown="missing")


def description(options: CompareOptions, split: Split) -> str:
    """The prediction in words, for the title: the classes, or the range of the numbers."""
    labels = split.y_train.dropna()
    if options.task is TaskName.REGRESSION:
        numbers = labels.to_numpy(np.float64)
        return f"{options.target} from {numbers.min():,.5g} to {numbers.max():,.5g}"
    classes = sorted(labels.unique().tolist())
    names = ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")
    bins = "" if options.bins is None else f", naive Bayes with {options.bins} bins"
    return f"{len(classes)} classes of {options.target} ({names}){bins}"


def notes(options: Options, dataset: Dataset, columns: Sequence[ColumnAsRead]) -> list[str]:
    """Notes on possible mistakes: columns that hardly repeat, options without effect, numbers taken as classes."""
    repeating = [column.name for column in columns if column.hardly_repeats]
    gaussian = [name for name in options.models or () if name in (ModelName.GDA, ModelName.GDA_AVERAGE)]
    none_real = "" if dataset.any_real else f"No column of {dataset.name} holds real numbers, so "
    lines = [
        f"Columns that hardly repeat: {_with_counts(dataset, repeating)}. A column of names or dates tells nothing "
        "about other rows, and can make them impossible. To leave a column out: --drop."
        if repeating
        else "",
        f"{none_real}{' and '.join(gaussian)} is naive Bayes here." if none_real and gaussian else "",
        f"{none_real}--bins does nothing here." if none_real and options.bins is not None else "",
        _hint_of_regression(dataset) if options.task is TaskName.CLASSIFICATION else "",
    ]
    return [line for line in lines if line]


def _families(options: Options) -> dict[str, Family]:
    """Families of columns of numbers; empty for the default, a normal one."""
    return {} if options.bins is None else {"real": DirichletHistogram(options.bins)}


def _hint_of_regression(dataset: Dataset) -> str:
    """A hint that a target may be numbers to predict; empty where it holds few different ones."""
    y = dataset.y.dropna()
    is_number = pd.api.types.is_numeric_dtype(y.dtype) and not pd.api.types.is_bool_dtype(y.dtype)
    num_values = y.nunique()
    if not is_number or num_values <= 20:  # which may well be classes
        return ""
    return (
        f"Target {y.name!r} holds {num_values} different numbers, each of which is taken as a class. To predict the "
        "number: --task regression."
    )


def _check_numbers(y: pd.Series) -> None:
    """Refuse a target that does not hold numbers."""
    if pd.api.types.is_numeric_dtype(y.dtype) and not pd.api.types.is_bool_dtype(y.dtype):
        return
    labels = y.dropna()
    numbers = pd.to_numeric(labels.astype(str), errors="coerce")
    texts = list(dict.fromkeys(labels[numbers.isna()].tolist()))
    content = quote_some(texts, 5) if texts else f"{y.dtype}"
    raise DataError(
        f"Target {y.name!r} holds {content}, and a regression predicts numbers. Name another target; for missing "
        "cells say --missing '?', or the text that marks them; for classes leave --task regression out."
    )


def _encoder(options: Options, dataset: Dataset) -> ColumnTransformer | None:
    """An encoder of columns of texts: an indicator for each value but the first, and for missing cells.

    None where all columns are numbers. Values that training rows lack have an indicator if they are declared, and count
    as the first value if not.
    """
    columns = dataset.columns
    names = [*columns.columns_of(BINARY.name), *columns.columns_of(CATEGORICAL.name)]
    values = {name: list(columns.categories.get(name, (False, True))) for name in names}
    if not values:
        return None
    for name, column_values in values.items():
        if dataset.X[name].isna().any():
            column_values.append(np.nan)
    if options.unknown == "missing":
        encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    else:
        categories = [np.asarray(column_values, object) for column_values in values.values()]
        encoder = OneHotEncoder(categories=categories, drop="first", sparse_output=False)
    return ColumnTransformer([("values", encoder, [*values])], remainder="passthrough", verbose_feature_names_out=False)


Files: TypeAlias = dict[str, Callable[[Path], object]]  # name -> function that writes the file


@dataclass(frozen=True)
class Outcome:
    """What a command made.

    Attributes:
        result: the comparison, or the study.
        show: prints it on a console.
        files: the files of its folder.
    """

    result: Comparison | Study
    show: Callable[[Console], None]
    files: Files


def run_command(work: Callable[[], Outcome], as_json: bool, out: Path | None) -> int:
    """Do the work of a command, write its files, show its result; the exit status, 1 where it was refused."""
    plain: dict[str, Any] = {"markup": False, "emoji": False}  # names and classes are texts of the user's
    messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), **plain)
    try:
        with ExitStack() as contexts:
            contexts.enter_context(_warnings_on(messages))
            files = {} if out is None else contexts.enter_context(_folder(out))
            outcome = interruptibly(work)
            files |= {} if out is None else outcome.files
    except (BayesgenError, OSError) as refusal:
        messages.print(Text.assemble(("bayesgen: ", "bold red"), str(refusal)))
        return 1
    if as_json:
        print(_json(outcome.result.to_dict(), sys.stdout.encoding))
    else:
        outcome.show(Console(**plain))
        if out is not None:
            messages.print(f"The whole result is in {out}.", style="dim")
    return 0


def _with_counts(dataset: Dataset, names: Sequence[str]) -> str:
    """Columns with their numbers of different values."""
    return ", ".join(f"{name!r} ({dataset.X[name].nunique():,} values in {len(dataset.y):,} rows)" for name in names)


CommandOptions = TypeVar("CommandOptions", bound=Options)


def _loaded(options: CommandOptions) -> tuple[Dataset, CommandOptions]:
    """The data, and the options with their defaults, some of which depend on the data."""
    dataset = load_dataset(
        options.data,
        target=options.target,
        missing=options.missing,
        kinds=options.kinds,
        label_kind=REAL.name if options.task is TaskName.REGRESSION else None,
        words_are_values=options.words_are_values,
        separator=options.separator and options.separator.replace(r"\t", "\t"),
        decimal=options.decimal,
    ).without(options.drop)
    dataset.check_names(options.keep, "keep")
    left_out = [name for name in dataset.identifiers if name not in options.keep]
    if left_out:
        warn(
            f"Columns of texts or dates that hardly repeat are left out: {_with_counts(dataset, left_out)}. Names and "
            "dates tell nothing about other rows. To keep a column: --keep COLUMN."
        )
        dataset = dataset.without(left_out)
    models = options.models or default_models(options, dataset)
    return dataset, replace(options, target=str(dataset.y.name), models=models)


def _arguments(
    options: Options, dataset: Dataset, columns: Sequence[ColumnAsRead]
) -> tuple[dict[str, Any], list[Pair]]:
    """Models by name, and pairs of methods and rules, with notes on possible mistakes."""
    for note in notes(options, dataset, columns):
        warn(note)
    pairs = [pair for pair in DEFAULT_PAIRS if type(pair[0]).__name__.lower() in options.methods]
    return {name: MODELS[name](options, dataset) for name in options.models or ()}, pairs


def study_answers(options: StudyOptions, out: Path | None) -> Outcome:
    """The study; with a folder its units are kept there."""
    dataset, options = _loaded(options)
    schema = declared_schema(options, dataset)
    columns = columns_as_read(dataset, schema)
    models, pairs = _arguments(options, dataset, columns)
    result = study(
        models,
        dataset.X,
        dataset.y,
        sizes=tuple(map(int, options.sizes.split(","))),
        repeats=options.repeats,
        pairs=pairs,
        schema=schema,
        seed=options.seed,
        out=out,
    )
    title = f"{Path(options.data).name}: {options.repeats} training sets of each size, seed {options.seed}"

    files: Files = {  # beside config.json, which the study writes first
        "table.csv": lambda path: result.table.to_csv(path, index=False),
        "summary.csv": lambda path: result.summary.to_csv(path, index=False),
        "study.png": lambda path: _draw(result, path),
    }
    return Outcome(result, lambda console: show_study(result, title, console, column_table(columns)), files)


def compare_answers(options: CompareOptions) -> Outcome:
    """The comparison on test rows, and how columns were read."""
    dataset, options = _loaded(options)
    if options.per_class is None:
        options = replace(options, test_size=options.test_size or TEST_SIZE)
    split, schema = split_rows(options, dataset), declared_schema(options, dataset)
    columns = columns_as_read(dataset, schema)
    models, pairs = _arguments(options, dataset, columns)
    comparison = compare(
        models,
        split.X_train,
        split.y_train,
        split.X_test,
        split.y_test,
        methods=pairs,
        seed=options.seed,
        schema=schema,
    ).with_costs(split.X_test)
    config = {
        "command": command_line("compare", options),
        "options": asdict(options),
        "data_sha256": None
        if options.data in DATASET_NAMES
        else hashlib.sha256(Path(options.data).read_bytes()).hexdigest(),
        "columns": [asdict(column) for column in columns],
    }
    result, title = replace(comparison, config=config | dict(comparison.config)), _title(options, split)
    files: Files = {
        "result.json": lambda path: _write_json(result.to_dict(), path),
        "config.json": lambda path: _write_json(result.to_dict()["config"], path),
        "table.csv": lambda path: result.table.to_csv(path, index=False),
        "predictions.csv": lambda path: result.predictions.to_csv(path, index=False),
    }
    if options.task is TaskName.REGRESSION:
        files["coverage.png"] = lambda path: _draw(result, path)
    return Outcome(result, lambda console: show(result, title, console, column_table(columns)), files)


def _draw(result: Study | Comparison, path: Path) -> None:
    """Write the figure of a study, or of a comparison of predictions of numbers."""
    from bayesgen.plots import coverage, learning_curves, save_figure

    save_figure(learning_curves(result) if isinstance(result, Study) else coverage(result), path)


def _title(options: CompareOptions, split: Split) -> str:
    num_unlabelled = int(split.y_train.isna().sum())
    unlabelled = f" ({num_unlabelled} without labels)" if num_unlabelled else ""
    return (
        f"{Path(options.data).name}: {len(split.y_train)} rows to learn from{unlabelled}, {len(split.y_test)} to test "
        f"on, {description(options, split)}, seed {options.seed}"
    )


@contextmanager
def _folder(path: Path) -> Iterator[Files]:
    """Files to be, which are written when the block ends: to a folder aside, then moved, so that none is incomplete.

    An error or Ctrl-C leaves neither these nor folders that were made for them.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    files: Files = {}
    aside = path / f".bayesgen-{uuid4().hex}"

    def remove() -> None:
        shutil.rmtree(aside, ignore_errors=True)
        for folder in missing:
            with suppress(OSError):  # not made yet, or not empty
                folder.rmdir()

    with undone_unless_finished(remove):
        aside.mkdir(parents=True)
        yield files
        try:
            for name, write in files.items():
                write(aside / name)
            for name in files:
                os.replace(aside / name, path / name)
            aside.rmdir()
        except OSError as error:
            raise OSError(f"The result cannot be written to {path}: {error.strerror or error}") from error


def _write_json(content: Any, path: Path) -> None:
    path.write_text(_json(content, "utf-8") + "\n", encoding="utf-8")


def _json(content: Any, encoding: str) -> str:
    """Strict JSON, with escapes in place of letters where the encoding lacks some of them."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    return text if can_encode(text, encoding) else json.dumps(content, indent=2, allow_nan=False)


def _warnings_on(console: Console) -> AbstractContextManager[None]:
    """Show warnings of bayesgen as notes, each once, and others as Python does."""
    seen = set()

    def show_note(message: str, category: type[BayesgenWarning]) -> None:
        if message not in seen:
            seen.add(message)
            console.print(Text.assemble(("note: ", "yellow"), message))

    return warnings_told_to(show_note)
