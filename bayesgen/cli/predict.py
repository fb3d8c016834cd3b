"""`bayesgen predict`: the answers of a fit to the rows of a table."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import bayesgen

from .names import RuleName
from .options import Decimal, FitFile, Missing, RowsFile, Separator, WordsAreValues, check_data
from .running import Outcome, Screen, run

_RULES = {
    RuleName.PLUG_IN: lambda: bayesgen.PlugIn(),
    RuleName.BMA: lambda: bayesgen.BMA(),
    RuleName.CONDITIONAL_AVERAGE: lambda: bayesgen.ConditionalAverage(),
}


def command(
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
    missing: Missing = [],  # noqa: B006, which Typer copies
    words_are_values: WordsAreValues = False,
    separator: Separator = None,
    decimal: Decimal = None,
) -> NoReturn:
    """Predict each row of a table by a fit: a line for each row, in the order of the rows.

    Cells are read as those of the table that the fit learned from, unless options say otherwise.
    """
    reading = {
        "missing": missing,
        "words_are_values": words_are_values,
        "separator": separator,
        "decimal": decimal,
    }
    run(lambda screen: _predicted(fit, data, rule, reading, screen, out), out)


def _predicted(
    path: Path, data: str, rule: RuleName | None, reading: dict[str, Any], screen: Screen, out: Path
) -> Outcome:
    with screen.waiting_for(f"Predicting {data}"):
        from .tables import loaded, new_rows, rows_written

        fit = loaded(path)
        default = RuleName.PLUG_IN if fit.posterior.is_point else RuleName.BMA
        answer = bayesgen.predict(fit, new_rows(fit, data, reading), rule=_RULES[rule or default]())
        return rows_written(answer.to_frame(), out)
