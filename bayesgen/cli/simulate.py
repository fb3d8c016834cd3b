"""`bayesgen simulate`: rows that a fit, or its prior, generates."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

import bayesgen

from .options import FitFile, RowsFile, Seed
from .running import Outcome, Screen, run


def command(
    fit: FitFile,
    rows: Annotated[int, typer.Option("--rows", min=1, metavar="N", help="Number of rows.")] = 100,
    prior: Annotated[
        bool, typer.Option("--prior", help="Draw the process from the prior of the model, before it saw any row.")
    ] = False,
    out: RowsFile = Path("-"),
    seed: Seed = 0,
) -> NoReturn:
    """Generate rows with labels, all from one process: one draw from the posterior of a fit, or its point."""
    run(lambda screen: _simulated(fit, rows, prior, seed, screen, out), out)


def _simulated(path: Path, num_rows: int, is_prior: bool, seed: int, screen: Screen, out: Path) -> Outcome:
    with screen.waiting_for("Simulating"):
        import pandas as pd

        from bayesgen.fitting import frame_of_rows

        from .tables import READING, loaded, rows_written

        fit = loaded(path)
        if is_prior and isinstance(fit, bayesgen.AverageFit):
            raise bayesgen.ModelError(f"{path} holds an average of models, each of which has a prior. Fit one of them.")
        frame = None
        if not fit.program.covariates:
            drawn = fit.program.simulate(num_rows, seed=seed) if is_prior else None
            frame = fit.simulate(num_rows, seed=seed) if drawn is None else frame_of_rows(fit, drawn)
        if not isinstance(frame, pd.DataFrame):
            raise bayesgen.ModelError(
                f"{path} does not generate tables: some of its columns are sequences, or are given and not modelled. "
                "In Python: bayesgen.load(...).simulate(...)."
            )
        target = fit.attributes.get(READING, {}).get("target")  # None of a fit that no command made
        return rows_written(frame if target is None else frame.set_axis([*frame.columns[:-1], target], axis=1), out)
