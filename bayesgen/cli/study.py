"""`bayesgen study`: both answers over many random training sets of several sizes."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import bayesgen

from .options import AsJson, Methods, Options, ReportFile, with_options
from .running import Files, Outcome, Screen, learning, run


def _check_sizes(value: str) -> str:
    """Comma-separated positive whole numbers, checked."""
    if not all(part.strip().isdecimal() and int(part) > 0 for part in value.split(",")):
        raise typer.BadParameter(f"{value!r} has to be numbers such as 5,10,20.")
    return value


@with_options
def command(
    options: Options,
    methods: Methods = ["mle,map,exact"],  # noqa: B006, which Typer copies
    sizes: Annotated[
        str,
        typer.Option(
            callback=_check_sizes,
            metavar="N,N,...",
            help="Numbers of training rows of each class; of all rows together for numbers.",
        ),
    ] = "5,10,20",
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Training sets of each size.")] = 50,
    json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            metavar="FOLDER",
            help="Write config.json, table.csv, summary.csv and study.png there, and the finished parts, in units: a "
            "study that was stopped goes on there.",
        ),
    ] = None,
    report: ReportFile = None,
) -> NoReturn:
    """Compare both answers over many random training sets of several sizes; other rows of DATA are the test rows."""
    drawn = {"sizes": [int(size) for size in sizes.split(",")], "repeats": repeats}
    run(lambda screen: _studied(options, methods, drawn, screen, out, report), report, folder=out, as_json=json)


def _studied(
    options: Options, methods: list[str], drawn: dict[str, Any], screen: Screen, out: Path | None, report: Path | None
) -> Outcome:
    """The study with these sizes and repeats; with a folder its units are kept there."""
    with screen.waiting_for(f"Reading {options.data}"):
        from .columns import heading
        from .tables import read

        data = read(options)
    title = f"{data.name}: {drawn['repeats']} training sets of each size, seed {options.seed}"
    screen.show(*heading(title, data.columns))
    with screen.waiting_for(learning(methods)):
        from bayesgen.plots import learning_curves, save_figure

        from .display import study_shown
        from .tables import pairs_of

        result = bayesgen.study(
            data.models,
            data.dataset.X,
            data.dataset.y,
            **drawn,
            pairs=pairs_of(methods),
            schema=data.schema,
            seed=options.seed,
            out=out,
        )
    files: Files = {}
    if out is not None:  # beside config.json, which the study writes first
        files |= {
            out / "table.csv": lambda path: result.table.to_csv(path, index=False),
            out / "summary.csv": lambda path: result.summary.to_csv(path, index=False),
            out / "study.png": lambda path: save_figure(learning_curves(result), path),
        }
    if report is not None:
        files[report] = lambda path: result.to_html(path, title=data.name)
    return Outcome([study_shown(result, screen.results)], content=result.to_dict, files=files)
