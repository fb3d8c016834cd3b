"""`bayesgen fit`: a model learned from a table, in a file for the other commands and for Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import bayesgen

from .names import MethodName
from .options import LearningOptions, NewFitFile, with_options
from .running import Outcome, Screen, learning, run


@dataclass(frozen=True, kw_only=True)
class FitOptions(LearningOptions):
    """The options of `bayesgen fit`."""

    num_samples: Annotated[int, typer.Option(min=1, metavar="N", help="Draws of each of the chains of nuts.")] = 1000


@with_options(FitOptions)
def command(options: FitOptions, out: NewFitFile) -> NoReturn:
    """Learn one model from all rows of DATA, and write it to a file."""
    run(lambda screen: _fitted(options, screen, out), out)


def _fitted(options: FitOptions, screen: Screen, out: Path) -> Outcome:
    with screen.waiting_for(f"Reading {options.data}"):
        from .tables import read, with_reading

        data = read(options)
    with screen.waiting_for(learning([options.method])):
        methods = {
            MethodName.MLE: bayesgen.MLE(),
            MethodName.MAP: bayesgen.MAP(),
            MethodName.EXACT: bayesgen.Exact(),
            MethodName.NUTS: bayesgen.NUTS(num_samples=options.num_samples),
        }
        [model] = data.models.values()
        fit = bayesgen.fit(
            model,
            data.dataset.X,
            data.dataset.y,
            method=methods[options.method],
            schema=data.schema,
            seed=options.seed,
        )
    return Outcome(text=f"{fit!r}\n", files={out: with_reading(fit, data).save})
