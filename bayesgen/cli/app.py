"""The command line: `bayesgen compare iris`.

This module imports Typer alone; commands import the rest when they run, so that `--help` is quick.
"""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bayesgen import __version__

from .options import CompareOptions, StudyOptions, with_options

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


AsJson = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, without tables.")]


@app.command("compare")
@with_options(CompareOptions)
def compare_command(
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
) -> NoReturn:
    """Compare the two-step (plug-in) and the one-step (averaged) answers on test rows of DATA."""
    from .commands import compare_answers, run_command

    raise typer.Exit(run_command(lambda: compare_answers(options), json, out))


@app.command("study")
@with_options(StudyOptions)
def study_command(
    options: StudyOptions,
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
) -> NoReturn:
    """Compare both answers over many random training sets of several sizes; other rows of DATA are the test rows."""
    from .commands import run_command, study_answers

    raise typer.Exit(run_command(lambda: study_answers(options, out), json, out))
