"""`bayesgen compare`: the two-step and the one-step answer on test rows, and in a terminal a small study below."""

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import RenderableType
from rich.text import Text

import bayesgen

from .names import METHODS
from .options import AsJson, Methods, Options, ReportFile, command_line, with_options
from .running import Files, Outcome, Screen, learning, run, write_json

if TYPE_CHECKING:
    from bayesgen.data import Split

    from .tables import TrainingData

TEST_SIZE = 0.25
SMALL_SIZE, SMALL_ROWS, SMALL_REPEATS = 5, 20, 30  # of the study below: rows a class, or rows; training sets


def _check_share(value: float | None) -> float | None:
    """A share between 0 and 1, checked."""
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter("--test-size is a share, between 0 and 1.")
    return value


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """The options of `bayesgen compare`."""

    methods: Methods = field(default_factory=lambda: [",".join(METHODS)])
    test_size: Annotated[
        float | None,
        typer.Option(
            callback=_check_share,
            metavar="SHARE",
            help="Test on this share of the rows, at random.",
            show_default="0.25",
        ),
    ] = None
    per_class: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Train on the first N rows of each class, test on the rest."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_size is not None and self.per_class is not None:
            raise typer.BadParameter("--per-class determines the test rows: leave --test-size out.")

    @property
    def class_options(self) -> dict[str, Any]:
        return {"per-class": self.per_class, **super().class_options}


@with_options
def command(
    options: CompareOptions,
    json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            metavar="FOLDER",
            help="Write result.json, table.csv, predictions.csv and config.json there; for a regression also "
            "coverage.png.",
        ),
    ] = None,
    report: ReportFile = None,
) -> NoReturn:
    """Compare the two-step (plug-in) and the one-step (averaged) answers on test rows of DATA."""
    run(lambda screen: _compared(options, screen, out, report), report, folder=out, as_json=json)


def _compared(options: CompareOptions, screen: Screen, out: Path | None, report: Path | None) -> Outcome:
    """The comparison on test rows; in a terminal, for the named data sets, with a small study below."""
    with screen.waiting_for(f"Reading {options.data}"):
        from .columns import heading
        from .tables import pairs_of, read

        if options.per_class is None:
            options = replace(options, test_size=options.test_size or TEST_SIZE)
        data = read(options)
        split = data.split(options.test_size, options.per_class)
    screen.show(*heading(_title(data, split), data.columns))
    with screen.waiting_for(learning(options.methods)):
        from .display import comparison_shown

        models = data.models
        comparison = bayesgen.compare(
            models,
            split.X_train,
            split.y_train,
            split.X_test,
            split.y_test,
            methods=pairs_of(options.methods),
            seed=options.seed,
            schema=data.schema,
        ).with_costs(split.X_test)
    config = {
        "command": command_line("compare", data.options),
        "options": asdict(data.options),
        "data_sha256": None if data.content is None else hashlib.sha256(data.content).hexdigest(),
        "columns": [asdict(column) for column in data.columns],
        **comparison.config,
    }
    result = replace(comparison, config=config)
    files: Files = {} if out is None else _files(result, options.is_regression, out)
    if report is not None:
        files[report] = lambda path: result.to_html(path, title=data.name)
    shown = [comparison_shown(result, screen.results)]
    if screen.is_watched and data.content is None:
        screen.show(*shown)
        with screen.waiting_for("Learning from small training sets"):
            shown = _small_study(data, models, screen)
    return Outcome(shown, content=result.to_dict, files=files)


def _small_study(data: "TrainingData", models: dict[str, Any], screen: Screen) -> list[RenderableType]:
    """The answers that need no sampling from many small training sets, which are compared one by one.

    For so few sets this takes a fifth of the time that `study` takes, which compiles a function for all of them.
    """
    import pandas as pd

    from bayesgen.errors import without_warnings

    from .display import study_shown
    from .tables import pairs_of

    is_regression, pairs, tables = data.options.is_regression, pairs_of(["map", "exact"]), []
    size, unit = (SMALL_ROWS, "rows") if is_regression else (SMALL_SIZE, "rows of each class")
    with without_warnings(bayesgen.BayesgenWarning):  # of rows that nobody asked for
        for repeat, split in enumerate(data.splits(size, SMALL_REPEATS)):
            rows = (split.X_train, split.y_train, split.X_test, split.y_test)
            try:
                comparison = bayesgen.compare(models, *rows, methods=pairs, schema=data.schema, seed=data.options.seed)
            except bayesgen.BayesgenError as refusal:  # of each answer
                return [Text(f"From {size} rows to learn from there is no answer. {refusal}", style="dim")]
            scores = comparison.table.loc[:, :"ruled_out"]
            tables.append(scores.assign(refused=comparison.table["refused"], size=size, repeat=repeat))
    about = f"Standard errors are over {SMALL_REPEATS} random training sets of one data set, which share rows."
    config = {"per_class": not is_regression, "sizes": [size], "repeats": SMALL_REPEATS}
    study = bayesgen.Study(pd.concat(tables), tuple(pairs), about, config, {})
    title = f"\nOne split tells little. From {SMALL_REPEATS} random training sets of {size} {unit}:"
    return [Text(title, style="bold"), study_shown(study, screen.results)]


def _files(result: Any, is_regression: bool, folder: Path) -> Files:
    from bayesgen.plots import coverage, save_figure

    files: Files = {
        folder / "result.json": lambda path: write_json(result.to_dict(), path),
        folder / "config.json": lambda path: write_json(result.to_dict()["config"], path),
        folder / "table.csv": lambda path: result.table.to_csv(path, index=False),
        folder / "predictions.csv": lambda path: result.predictions.to_csv(path, index=False),
    }
    if is_regression:
        files[folder / "coverage.png"] = lambda path: save_figure(coverage(result), path)
    return files


def _title(data: "TrainingData", split: "Split") -> str:
    num_unlabelled = int(split.y_train.isna().sum())
    unlabelled = f" ({num_unlabelled} without labels)" if num_unlabelled else ""
    return (
        f"{data.name}: {len(split.y_train)} rows to learn from{unlabelled}, {len(split.y_test)} to test on, "
        f"{data.described(split.y_train)}, seed {data.options.seed}"
    )
