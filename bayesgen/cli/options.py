"""The options that several commands have: the fields of a dataclass are options of a command.

This module imports Typer alone; commands import the rest when they run, so that `--help` is quick.
"""

import dataclasses
import functools
import inspect
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .names import KINDS, METHODS, MODELS, MODELS_OF, CovarianceName, MethodName, TaskName, UnknownName


def _split_methods(values: list[str]) -> list[str]:
    """Comma-separated and repeated names as one list, in the order in which they are shown."""
    names = {name.strip().lower() for value in values for name in value.split(",") if name.strip()}
    unknown = names.difference(METHODS)
    if unknown or not names:
        raise typer.BadParameter(f"{', '.join(sorted(unknown)) or 'nothing'} is none of {', '.join(METHODS)}.")
    return [name for name in METHODS if name in names]


def _check_kinds(values: list[str] | None) -> list[str] | None:
    """Declarations of kinds, COLUMN=KIND, checked."""
    for value in values or ():
        column, _, kind = value.rpartition("=")
        if not column or kind not in KINDS:
            raise typer.BadParameter(f"{value!r} has to be COLUMN=KIND, with one of {', '.join(KINDS)}.")
    return values


def is_stream(path: str | Path | None) -> bool:
    """Whether a name stands for standard input or standard output."""
    return str(path) == "-"


def check_data(value: str) -> str:
    """The name of a data set, or the path of a file that exists, which is seen before libraries are loaded."""
    if Path(value).suffix and not Path(value).exists():
        typer.echo(f"bayesgen: There is no file '{value}'. Name another, or a data set such as iris.", err=True)
        raise typer.Exit(1)
    return value


def _check_fit(value: Path) -> Path:
    """The path of a fit, which is no text, so that standard input and output do not carry it."""
    if is_stream(value) or value.suffix != ".nc":
        raise typer.BadParameter(f"A fit is a netCDF file, and '{value}' does not name one: call it fit.nc.")
    return value


def is_parquet(path: Path) -> bool:
    """Whether the ending of a name is that of a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def separator_of(path: Path) -> str | None:
    """What separates the cells of a text file with this name, perhaps gzipped; None for other files."""
    return SEPARATORS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def _check_rows(value: Path) -> Path:
    """The path of a file of rows, whose ending names a format that can be written."""
    if not is_stream(value) and not is_parquet(value) and separator_of(value) is None:
        raise typer.BadParameter(f"'{value}' has to end with one of {', '.join(SEPARATORS)}, .parquet; or say -.")
    if is_parquet(value) and find_spec("pyarrow") is None:
        raise typer.BadParameter("pyarrow writes Parquet files. Install it, pip install pyarrow, or write .csv.")
    return value


SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ","}
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, without tables.")]
FitFile = Annotated[
    Path, typer.Argument(metavar="FIT", callback=_check_fit, help="File of a fit, which `bayesgen fit` wrote.")
]
NewFitFile = Annotated[
    Path,
    typer.Option("--out", metavar="FILE", callback=_check_fit, dir_okay=False, help="File of the fit, such as fit.nc."),
]
RowsFile = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=_check_rows,
        dir_okay=False,
        help="File of the rows: .csv or .tsv (also with .gz), or .parquet; - is standard output, as CSV.",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", dir_okay=False, help="Write a report there, a page of HTML in one file."),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything that is random.")]
Decimal = Annotated[
    str | None, typer.Option(metavar="SIGN", help="What stands before decimals, '.' or ','.", show_default="'.'")
]
_ABOUT_MODELS = (
    f"For classes: {', '.join(MODELS_OF['classification'])}; naive-bayes-average averages over the sets of "
    "columns that depend on the class, gda-average over the four covariances, both by the exact method only. For "
    f"numbers: {', '.join(MODELS_OF['regression'])}."
)
Methods = Annotated[
    list[str],
    typer.Option(
        callback=_split_methods,
        metavar="NAMES",
        help=f"Methods of training, among {', '.join(METHODS)}; comma-separated or repeated.",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the cells of a file are read, as given: what is not given is as in the table of the fit, or the default."""

    missing: Annotated[
        list[str],
        typer.Option(
            metavar="MARK",
            help="Text that marks a cell of a file as missing, such as '?'; may be repeated. Empty cells are missing.",
            show_default=False,
        ),
    ] = dataclasses.field(default_factory=list)
    words_are_values: Annotated[
        bool,
        typer.Option(
            "--words-are-values",
            help="NA, N/A, NaN, NULL, None and the like are values, as in a column of countries, not missing cells.",
        ),
    ] = False
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="SIGN",
            help="What separates the cells of a text file, such as ';'.",
            show_default="a comma; a tab in TSV files",
        ),
    ] = None
    decimal: Decimal = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ReadingOptions):
    """The options of commands that learn from a table, as given; None means the default."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            callback=check_data,
            help="iris, wine, breast_cancer, digits, diabetes (a regression), or the path of a CSV or TSV file "
            "(perhaps gzipped) or of a Parquet file, with column names; - is standard input.",
        ),
    ] = "iris"
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that holds the classes, or the numbers to predict.", show_default="the last"
        ),
    ] = None
    drop: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.", show_default=False),
    ] = dataclasses.field(default_factory=list)
    keep: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="Column to keep although it hardly repeats: columns of texts or dates are left out where more than "
            "half of their cells differ. May be repeated.",
            show_default=False,
        ),
    ] = dataclasses.field(default_factory=list)
    kind: Annotated[
        list[str],
        typer.Option(
            callback=_check_kinds,
            metavar="COLUMN=KIND",
            help=f"What the cells of a column are, one of {', '.join(KINDS)}: codes that look like numbers are "
            "categorical. May be repeated.",
            show_default=False,
        ),
    ] = dataclasses.field(default_factory=list)
    sequences: Annotated[
        list[str],
        typer.Option(
            "--sequence",
            metavar="COLUMN",
            help="Column of texts that are sequences of characters, such as words: naive-bayes has a Markov chain for "
            "each class. May be repeated.",
            show_default=False,
        ),
    ] = dataclasses.field(default_factory=list)
    decimal: Decimal = "."
    task: Annotated[TaskName, typer.Option(help="What is predicted: the class of a row, or a number (regression).")] = (
        "classification"
    )
    unknown: Annotated[
        UnknownName | None,
        typer.Option(
            help="Values of a column that no training row has: declared with all values of the file, or taken as "
            "missing cells.",
            show_default="declared",
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="|".join(MODELS),
            autocompletion=lambda: list(MODELS),
            help=f"Model; may be repeated where models are compared. {_ABOUT_MODELS}",
            show_default="gda where all columns are numbers, else naive-bayes; linear for numbers",
        ),
    ] = None
    covariance: Annotated[CovarianceName | None, typer.Option(help="Covariance of gda.", show_default="full")] = None
    bins: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Discretise: naive-bayes models columns of numbers by N bins, each with about the same number of "
            "training rows, instead of normal distributions.",
            show_default=False,
        ),
    ] = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        models = self.models or ()
        unsuited = [name for name in models if name not in MODELS_OF[self.task]]
        if unsuited:
            suited = ", ".join(MODELS_OF[self.task])
            raise typer.BadParameter(f"{unsuited[0]} is not a model for {self.task}: take one of {suited}.")
        for_classes = [f"--{name.replace('_', '-')}" for name, value in self.class_options.items() if value]
        if self.is_regression and for_classes:
            raise typer.BadParameter(f"{for_classes[0]} is an option for classes, and --task regression has none.")
        if self.covariance is not None and models and "gda" not in models:
            raise typer.BadParameter("--covariance is an option of gda: add --model gda.")
        if self.bins is not None and models and not {"naive-bayes", "naive-bayes-average"} & {*models}:
            raise typer.BadParameter("--bins is an option of naive-bayes: add --model naive-bayes.")

    @property
    def is_regression(self) -> bool:
        """Whether numbers are predicted."""
        return self.task == "regression"

    @property
    def kinds(self) -> dict[str, str]:
        """Column -> its declared kind."""
        stated = {column: kind for column, _, kind in (value.rpartition("=") for value in self.kind)}
        return stated | dict.fromkeys(self.sequences, "sequence")

    @property
    def class_options(self) -> dict[str, Any]:
        """The values of the options that regressions do not have, by name."""
        return {"sequence": self.sequences, "covariance": self.covariance, "bins": self.bins}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningOptions(Options):
    """The options of commands that learn one model."""

    method: Annotated[MethodName, typer.Option(help="Method of training.")] = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.models or ()) > 1:
            raise typer.BadParameter("--model is given several times, and one model is learned.")


def _name(field: dataclasses.Field[Any]) -> str:
    """The name of an option, as Typer has it, which may be the singular of the field's."""
    declared = field.type.__metadata__[0].default  # type: ignore[union-attr]
    return declared.removeprefix("--").replace("-", "_") if isinstance(declared, str) else field.name


def command_line(command: str, options: Options) -> str:
    """The command with these options."""
    words = ["bayesgen", command, options.data]
    for field in (field for field in dataclasses.fields(options) if field.name != "data"):
        value, name = getattr(options, field.name), f"--{_name(field).replace('_', '-')}"
        for part in value if isinstance(value, list) else [] if value in (None, False) else [value]:
            words += [name] if part is True else [name, str(part)]
    return shlex.join(words)


def with_options(command: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    """The command, where the fields of its first argument, the options, are arguments that Typer reads."""
    first, *own_arguments = inspect.signature(command).parameters.values()
    fields = {_name(field): field for field in dataclasses.fields(first.annotation)}

    @functools.wraps(command)
    def with_fields(**arguments: Any) -> NoReturn:
        values = {field.name: arguments.pop(name) for name, field in fields.items()}
        stated = {name: value for name, value in values.items() if value is not None}
        once = {name: list(dict.fromkeys(value)) for name, value in stated.items() if isinstance(value, list)}
        command(first.annotation(**stated | once), **arguments)

    of_fields = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory() or None,
            annotation=field.type,
        )
        for name, field in fields.items()
    ]
    keywords = [argument.replace(kind=Parameter.KEYWORD_ONLY) for argument in own_arguments]
    with_fields.__signature__ = inspect.Signature([*of_fields, *keywords])  # type: ignore[attr-defined]
    return with_fields
