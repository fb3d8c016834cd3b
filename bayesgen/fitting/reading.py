"""Reading new rows for a fit: by its columns, or by the sites of its program."""

from collections.abc import Sequence
from typing import Any

from bayesgen.data import Rows, Table, read_table, unknown_cells, warn_of_unknown
from bayesgen.program import read_rows


def read_new_rows(fit: Any, X: Any) -> Rows:
    """See `Fit.read`."""
    if isinstance(X, Rows):
        return X
    table = read_table(X)
    warn_of_new_values(fit, table)
    rows: Rows = fit.rows_of(table)
    return rows


def warn_of_new_values(fit: Any, table: Table) -> None:
    """See `Fit.warn_of_new_values`."""
    if not _are_sites(fit, table.names):
        warn_of_unknown(unknown_cells(fit.schema, table))


def rows_of_table(fit: Any, table: Table) -> Rows:
    """See `Fit.rows_of`."""
    if _are_sites(fit, table.names):
        return read_rows(fit.program, table, labelled=True)
    rows: Rows = fit.concrete.read(fit.schema, table)
    fit.concrete.check_rows(fit.schema, rows.values)
    return rows


def _are_sites(fit: Any, names: Sequence[str]) -> bool:
    """Whether these are the sites that the program makes, and not the columns that it was trained on."""
    if names == fit.schema.columns:  # the usual case, for which no program is bound
        return False
    attributes = fit.program.attributes if fit.prior is None else fit.prior.keys() - {"class"}
    sites = {*attributes, *fit.program.covariates}
    few = len(names) <= len(sites) + 1  # columns may be very many
    return few and sites == set(names) - {fit.program.label} and set(names) != set(fit.schema.columns or ())
