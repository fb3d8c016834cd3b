"""`bayesgen predict`: the answers of a fit to the rows of a table."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

import bayesgen

from .names import RuleName
from .options import FitFile, ReadingOptions, RowsFile, check_data, with_options
from .running import Outcome, Screen, run


@with_options
def command(
    options: ReadingOptions,
    fit: FitFile,
    data: Annotated[
        str,
        typer.Argument(
            metavar="NEW",
            callback=check_data,
            help="CSV, TSV or Parquet file of rows, with the columns of the fit; others, and the one of labels, are "
            "left out. - is standard input.",
        ),
    ],
    out: RowsFile = Path("-"),
    rule: Annotated[
        RuleName | None,
        typer.Option(
            help="Two-step: plug-in. One-step: bma, or conditional-average, which takes nothing from the columns "
            "about the process.",
            show_default="bma; plug-in for a fit by mle or map",
        ),
    ] = None,
) -> NoReturn:
    """Predict each row of a table by a fit: a line for each row, in the order of the rows.

    Cells are read as those of the table that the fit learned from, unless options say otherwise.
    """
    run(lambda screen: _predicted(fit, data, rule, options, screen, out), out)


def _predicted(
    path: Path, data: str, rule: RuleName | None, options: ReadingOptions, screen: Screen, out: Path
) -> Outcome:
    with screen.waiting_for(f"Predicting {data}"):
        from .tables import RULES, loaded, new_rows, rows_written

        fit = loaded(path)
        default: RuleName = "plug-in" if fit.posterior.is_point else "bma"
        answer = bayesgen.predict(fit, new_rows(fit, data, options), rule=RULES[rule or default])
        return rows_written(answer.to_frame(), out)
