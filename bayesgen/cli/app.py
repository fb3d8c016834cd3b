"""The command line: `bayesgen compare iris`.

A command is a file of this room, with its options and its work. These files import Typer and Rich alone, and the rest
when they work, so that `--help` is quick.
"""

from typing import Annotated

import typer

from bayesgen import __version__

from . import calibrate, compare, diagnose, fit, predict, simulate, study

app = typer.Typer(
    name="bayesgen",
    help="Learn generative processes and predict with them, in two steps and in one.",
    no_args_is_help=True,
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


for verb in (compare, study, fit, predict, diagnose, simulate, calibrate):
    app.command(verb.__name__.rpartition(".")[2])(verb.command)
