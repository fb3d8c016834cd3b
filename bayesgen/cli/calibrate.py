"""`bayesgen calibrate`: whether posteriors of a model are right, by data sets that are simulated from its prior."""

from json import loads
from typing import Annotated, NoReturn

import typer

import bayesgen

from .options import AsJson, LearningOptions, with_options
from .running import Outcome, Screen, learning, run

LINES_SHOWN = 10  # unless more have failed


@with_options
def command(
    options: LearningOptions,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of each simulated data set.")] = 50,
    simulations: Annotated[int, typer.Option(min=2, metavar="N", help="Number of simulated data sets.")] = 200,
    json: AsJson = False,
) -> NoReturn:
    """Check by simulation that the posteriors of a model for the columns of DATA are right; exit status 1 if not.

    Each simulation draws a process from the prior and rows from the process, learns from these rows, and ranks the true
    values among draws from the posterior. Where posteriors are right, ranks are uniform.
    """
    run(lambda screen: _calibrated(options, rows, simulations, screen), as_json=json)


def _calibrated(options: LearningOptions, rows: int, simulations: int, screen: Screen) -> Outcome:
    with screen.waiting_for(f"Reading {options.data}"):
        from .tables import METHODS, read

        data = read(options)
    with screen.waiting_for(learning([options.method], f" from {simulations} simulated tables")):
        [(name, model)] = data.models.items()
        X, y, seed = data.dataset.X, data.dataset.y, options.seed
        fit = bayesgen.fit(model, X, y, method=bayesgen.Exact(), schema=data.schema, seed=seed)  # holds the prior
        result = bayesgen.calibrate(
            fit,
            method=METHODS[options.method],
            n=rows,
            simulations=simulations,
            covariates={name: values[:rows] for name, values in fit.read(X).covariates.items()},
            seed=seed,
        )
    title = f"{name} for the columns of {data.name}: {simulations} simulated tables of {rows} rows"
    num_lines = max(LINES_SHOWN, (~result.table["passed"]).sum())
    lines = result.table.sort_values("p_value", kind="stable").head(num_lines)
    table = lines.to_string(index=False, float_format="{:.3g}".format)
    return Outcome(
        text=f"{title}\n{result!r}\n\n{len(lines)} of {len(result.table)} tests of ranks, by p-value:\n{table}\n",
        content=lambda: loads(result.to_json()),
        passed=result.passed,
    )
