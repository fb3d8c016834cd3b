"""The command line: `bayesgen compare iris`.

This module imports Typer alone; commands import the rest when they run, so that `--help` is quick.
"""

from pathlib import Path
from typing import Annotated

import typer

from bayesgen import __version__

from .names import MODELS_OF, CovarianceName, MethodName, ModelName, TaskName, UnknownName

app = typer.Typer(
    name="bayesgen",
    help="Learn generative processes and predict with them, in two steps and in one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bayesgen {__version__}")
        raise typer.Exit


@app.callback()
def _options_of_all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _split_methods(values: list[str]) -> list[str]:
    """Comma-separated and repeated names as one list, in the order in which they are shown."""
    names = {name.strip().lower() for value in values for name in value.split(",") if name.strip()}
    unknown = names - set(MethodName)
    if unknown or not names:
        known = ", ".join(MethodName)
        raise typer.BadParameter(f"{', '.join(sorted(unknown)) or 'nothing'} is none of {known}.")
    return [name for name in MethodName if name in names]


def _split_sizes(value: str) -> str:
    """Comma-separated positive whole numbers, checked."""
    if not all(part.strip().isdecimal() and int(part) > 0 for part in value.split(",")):
        raise typer.BadParameter(f"{value!r} has to be numbers such as 5,10,20.")
    return value


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="iris, wine, breast_cancer, digits, diabetes (a regression), or the path of a CSV or TSV file (perhaps "
        "gzipped) or of a Parquet file, with column names.",
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column that holds the classes, or the numbers to predict.", show_default="the last"
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.", show_default=False),
]
Sequences = Annotated[
    list[str] | None,
    typer.Option(
        "--sequence",
        metavar="COLUMN",
        help="Column of texts that are sequences of characters, such as words: naive-bayes has a Markov chain for each "
        "class. May be repeated.",
        show_default=False,
    ),
]
TaskOption = Annotated[TaskName, typer.Option(help="What is predicted: the class of a row, or a number (regression).")]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MARK",
        help="Text that marks a cell of a file as missing, such as '?'; may be repeated. Empty cells are missing, and "
        "NA, NaN, null and None.",
        show_default=False,
    ),
]
Unknown = Annotated[
    UnknownName | None,
    typer.Option(
        help="Values of a column that no training row has: declared with all values of the file, or taken as "
        "missing cells.",
        show_default="declared",
    ),
]
Models = Annotated[
    list[ModelName] | None,
    typer.Option(
        metavar="|".join(ModelName),
        help=f"Model to compare; may be repeated. For classes: {', '.join(MODELS_OF[TaskName.CLASSIFICATION])}; "
        "naive-bayes-average averages over the sets of columns that depend on the class, gda-average over the four "
        f"covariances, both by the exact method only. For numbers: {', '.join(MODELS_OF[TaskName.REGRESSION])}.",
        show_default="gda where all columns are numbers, else naive-bayes; linear for numbers",
    ),
]
Covariance = Annotated[CovarianceName | None, typer.Option(help="Covariance of gda.", show_default="full")]
Bins = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="N",
        help="Discretise: naive-bayes models columns of numbers by N bins, each with about the same number of training "
        "rows, instead of normal distributions.",
        show_default=False,
    ),
]
TestSize = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Test on this share of the rows, at random.", show_default="0.25"),
]
PerClass = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Train on the first N rows of each class, test on the rest."),
]
Methods = Annotated[
    list[str],
    typer.Option(
        callback=_split_methods,
        metavar="NAMES",
        help=f"Methods of training, among {', '.join(MethodName)}; comma-separated or repeated.",
    ),
]
SeedOption = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split and of NUTS.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, without tables.")]
Out = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        metavar="FOLDER",
        help="Write result.json, table.csv, predictions.csv and config.json there; for a regression also coverage.png.",
    ),
]


def _check_models(
    task: TaskName,
    model: list[ModelName] | None,
    covariance: CovarianceName | None,
    bins: int | None,
    of_classes: dict[str, object],
) -> None:
    """Refuse options of models, or of classes, that do not go together."""
    others = [name for name in model or () if name not in MODELS_OF[task]]
    if others:
        raise typer.BadParameter(f"{others[0]} is not a model for {task}: take one of {', '.join(MODELS_OF[task])}.")
    of_classes = {**of_classes, "--covariance": covariance, "--bins": bins}
    given = [option for option, value in of_classes.items() if value is not None]
    if task is TaskName.REGRESSION and given:
        raise typer.BadParameter(f"{given[0]} is an option for classes, and --task regression has none.")
    if covariance is not None and model is not None and ModelName.GDA not in model:
        raise typer.BadParameter("--covariance is an option of gda: add --model gda.")
    if bins is not None and model is not None and not {ModelName.NAIVE_BAYES, ModelName.NAIVE_BAYES_AVERAGE} & {*model}:
        raise typer.BadParameter("--bins is an option of naive-bayes: add --model naive-bayes.")


@app.command("compare")
def compare_command(
    data: Data = "iris",
    target: TargetColumn = None,
    drop: Drop = None,
    sequence: Sequences = None,
    task: TaskOption = TaskName.CLASSIFICATION,
    missing: Missing = None,
    unknown: Unknown = None,
    model: Models = None,
    covariance: Covariance = None,
    bins: Bins = None,
    test_size: TestSize = None,
    per_class: PerClass = None,
    methods: Methods = ["mle,map,exact,nuts"],  # noqa: B006 - Typer reads it, nobody changes it
    seed: SeedOption = 0,
    json: AsJson = False,
    out: Out = None,
) -> None:
    """Compare the two-step (plug-in) and the one-step (averaged) answers on test rows of DATA."""
    if test_size is not None and per_class is not None:
        raise typer.BadParameter("--per-class determines the test rows: leave --test-size out.")
    if test_size is not None and not 0 < test_size < 1:
        raise typer.BadParameter("--test-size is a share, between 0 and 1.")
    _check_models(task, model, covariance, bins, {"--per-class": per_class, "--sequence": sequence or None})
    from .commands import CompareOptions, run_compare

    options = CompareOptions(
        data=data,
        target=target,
        drop=tuple(dict.fromkeys(drop or ())),
        sequences=tuple(dict.fromkeys(sequence or ())),
        task=task,
        models=None if model is None else tuple(dict.fromkeys(model)),
        covariance=covariance,
        bins=bins,
        test_size=test_size,
        per_class=per_class,
        methods=tuple(methods),
        seed=seed,
        missing=tuple(dict.fromkeys(missing or ())),
        unknown=unknown,
    )
    raise typer.Exit(run_compare(options, as_json=json, out=out))


Sizes = Annotated[
    str,
    typer.Option(
        callback=_split_sizes,
        metavar="N,N,...",
        help="Numbers of training rows of each class; of all rows together for numbers.",
    ),
]
Repeats = Annotated[int, typer.Option(min=1, metavar="N", help="Training sets of each size.")]
OutOfStudy = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        metavar="FOLDER",
        help="Write config.json, table.csv, summary.csv and study.png there, and the finished parts, in units: a study "
        "that was stopped goes on there.",
    ),
]


@app.command("study")
def study_command(
    data: Data = "iris",
    target: TargetColumn = None,
    drop: Drop = None,
    sequence: Sequences = None,
    task: TaskOption = TaskName.CLASSIFICATION,
    missing: Missing = None,
    unknown: Unknown = None,
    model: Models = None,
    covariance: Covariance = None,
    bins: Bins = None,
    sizes: Sizes = "5,10,20",
    repeats: Repeats = 50,
    methods: Methods = ["mle,map,exact"],  # noqa: B006 - Typer reads it, nobody changes it
    seed: SeedOption = 0,
    json: AsJson = False,
    out: OutOfStudy = None,
) -> None:
    """Compare both answers over many random training sets of several sizes; other rows of DATA are the test rows."""
    _check_models(task, model, covariance, bins, {"--sequence": sequence or None})
    from .commands import StudyOptions, run_study

    options = StudyOptions(
        data=data,
        target=target,
        drop=tuple(dict.fromkeys(drop or ())),
        sequences=tuple(dict.fromkeys(sequence or ())),
        task=task,
        models=None if model is None else tuple(dict.fromkeys(model)),
        covariance=covariance,
        bins=bins,
        methods=tuple(methods),
        seed=seed,
        missing=tuple(dict.fromkeys(missing or ())),
        unknown=unknown,
        sizes=tuple(map(int, sizes.split(","))),
        repeats=repeats,
    )
    raise typer.Exit(run_study(options, as_json=json, out=out))
