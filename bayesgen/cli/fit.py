"""`bayesgen fit`: a model learned from a table, in a file for the other commands and for Python."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

import bayesgen

from .options import LearningOptions, NewFitFile, with_options
from .running import Outcome, Screen, learning, run


@with_options
def command(
    options: LearningOptions,
    out: NewFitFile,
    num_samples: Annotated[int, typer.Option(min=1, metavar="N", help="Draws of each of the chains of nuts.")] = 1000,
) -> NoReturn:
    """Learn one model from all rows of DATA, and write it to a file."""
    run(lambda screen: _fitted(options, num_samples, screen, out), out)


def _fitted(options: LearningOptions, num_samples: int, screen: Screen, out: Path) -> Outcome:
    with screen.waiting_for(f"Reading {options.data}"):
        from .tables import METHODS, read, with_reading

        data = read(options)
    with screen.waiting_for(learning([options.method])):
        method = bayesgen.NUTS(num_samples=num_samples) if options.method == "nuts" else METHODS[options.method]
        [model] = data.models.values()
        fit = bayesgen.fit(model, data.dataset.X, data.dataset.y, method=method, schema=data.schema, seed=options.seed)
    return Outcome(text=f"{fit!r}\n", files={out: with_reading(fit, data).save})
