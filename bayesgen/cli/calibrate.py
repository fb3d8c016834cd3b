"""`bayesgen calibrate`: whether posteriors of a model are right, by data sets that are simulated from its prior."""

import json as json_text
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

import bayesgen

from .names import MethodName, ModelName
from .options import AsJson, LearningOptions, with_options
from .running import Outcome, Screen, learning, run


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(LearningOptions):
    """The options of `bayesgen calibrate`."""

    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of each simulated data set.")] = 50
    simulations: Annotated[int, typer.Option(min=2, metavar="N", help="Number of simulated data sets.")] = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in (MethodName.EXACT, MethodName.NUTS):
            raise typer.BadParameter(f"--method {self.method} gives a point, without draws: take exact or nuts.")
        averages = {ModelName.GDA_AVERAGE, ModelName.NAIVE_BAYES_AVERAGE} & {*(self.models or ())}
        if averages:
            raise typer.BadParameter(f"{averages.pop()} averages over models: calibrate each of them.")


@with_options(CalibrateOptions)
def command(options: CalibrateOptions, json: AsJson = False) -> NoReturn:
    """Check by simulation that the posteriors of a model for the columns of DATA are right; exit status 1 if not.

    Each simulation draws a process from the prior and rows from the process, learns from these rows, and ranks the true
    values among draws from the posterior. Where posteriors are right, ranks are uniform.
    """
    run(lambda screen: _calibrated(options, screen), as_json=json)


def _calibrated(options: CalibrateOptions, screen: Screen) -> Outcome:
    with screen.waiting_for(f"Reading {options.data}"):
        from .tables import read

        data = read(options)
    with screen.waiting_for(learning([options.method], f" from {options.simulations} simulated tables")):
        from .display import calibration_shown

        [(name, model)] = data.models.items()
        X, y, seed = data.dataset.X, data.dataset.y, options.seed
        fit = bayesgen.fit(model, X, y, method=bayesgen.Exact(), schema=data.schema, seed=seed)  # holds the prior
        method = bayesgen.Exact() if options.method is MethodName.EXACT else bayesgen.NUTS()
        result = bayesgen.calibrate(
            fit,
            method=method,
            n=options.rows,
            simulations=options.simulations,
            covariates={name: values[: options.rows] for name, values in fit.read(X).covariates.items()},
            seed=seed,
        )
    title = f"{name} for the columns of {data.name}: {options.simulations} simulated tables of {options.rows} rows"
    return Outcome(
        [calibration_shown(result, title, screen.results)],
        content=lambda: json_text.loads(result.to_json()),
        passed=result.passed,
    )
