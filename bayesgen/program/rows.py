"""Reading the data of a program of one's own: arrays by attribute site, checked against the sites."""

import numpy as np

from bayesgen.data import Rows, read_table
from bayesgen.errors import DataError

from .compiled import check_values


def read_rows(program, X, labelled=False) -> Rows:
    """Read a mapping, a data frame or a `Table` into rows by site.

    Args:
        labelled: whether a column of the label site's name may be there too, as in simulated rows. It is not read.

    Raises:
        DataError: names missing or extra, a shape that is not the site's, values that are not finite or outside
            the site's support.
    """
    table = read_table(X)
    structure = program.structure
    columns = _columns(program, table, {program.label} if labelled else set())
    rows = Rows(
        {name: _attribute(name, site, columns[name]) for name, site in structure.attributes},
        covariates={name: _finite(name, columns[name]) for name in structure.covariates},
    )
    check_values(program, rows)
    return rows


def _columns(program, table, unread):
    wanted = [*program.attributes, *program.covariates]
    if not table.named:
        if len(wanted) == 1:
            return {wanted[0]: np.asarray(table.matrix(table.names))}
        raise DataError(
            f"The program has the attribute sites {wanted}: give a mapping or a data frame with these names, "
            "not an array."
        )
    missing = [name for name in wanted if name not in table.names]
    extra = [name for name in table.names if name not in wanted and name not in unread]
    if missing or extra:
        raise DataError(
            f"The data must have one column for each site of the program: missing {missing}, not in the program "
            f"{extra}. Name the columns like the sites. A site of the plate that is no column (a latent for each row, "
            "or an attribute that was reparametrised and so goes by another name) is not supported: sum it out, or "
            "sample the attribute itself."
        )
    return {name: table.column(name) for name in wanted}


def _attribute(name, site, values):
    values = _finite(name, values)
    shape = (len(values), *site.row_shape)
    expected = list(site.row_shape)
    expected.insert(site.position, len(values))
    if site.position == 0 and values.shape == (len(values), 1) and site.row_shape == ():
        values = values[:, 0]
    if site.position > 0 and values.ndim == len(expected):
        values = np.moveaxis(values, site.position, 0)
        shape = (len(values), *site.row_shape)
    if values.shape != shape:
        raise DataError(
            f"Attribute {name!r}: rows have shape {values.shape[1:]}, the program's site has {site.row_shape}."
        )
    return values


def _finite(name, values):
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"Column {name!r} holds values that are not numbers ({error}). Encode them as the program samples them."
        ) from None
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise DataError(
            f"Column {name!r} has {int(bad.sum())} missing or infinite values. Drop these rows, or impute them; "
            "missing cells are not supported yet."
        )
    return numbers
