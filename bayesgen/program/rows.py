"""Reading the data of a program of one's own: arrays by attribute site, checked against the sites."""

import functools
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints

from bayesgen.data import Rows, read_table
from bayesgen.errors import DataError
from bayesgen.statistics import SufficientStatistics, sufficient_statistics

from .data_side import by_chunks, inert_parameters, supports_by_row


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


def check_values(program, rows: Rows):
    """DataError for values that their site cannot take: fractions of counts, more successes than trials.

    Where rows have no labels, a value has to be possible under some class.
    """
    attributes = rows.values
    for name, site in program.structure.attributes:
        if site.discrete:
            values = attributes[name]
            _refuse_values(name, values, values != np.floor(values), lambda where: "whole numbers")
    for name, support in program.supports.fixed.items():
        with jax.enable_x64(True):
            impossible = ~np.asarray(support(attributes[name]))
        _refuse_values(name, attributes[name], impossible, lambda where, support=support: str(support))
    names, size, codes = program.supports.by_row, rows.num_rows, rows.labels
    if not names or not size:
        return
    num_classes = program.num_classes if program.supports.by_class else 1
    classes = [np.full(size, k) for k in range(num_classes)] if codes is None else [codes]
    read = functools.partial(supports_by_row, names=names)
    of_classes = [by_chunks(read, program, labels, rows.covariates, attributes) for labels in classes]
    for name in names:
        _check_bounds(name, attributes[name], [supports[name] for supports in of_classes])


def _check_bounds(name, values, supports):
    """DataError for values that are in none of these supports, whose bounds are arrays with the rows first."""
    if isinstance(supports[0], type(constraints.multinomial(1))):
        _check_totals(name, values, [support.upper_bound for support in supports])

    def described(where):
        return " or ".join(sorted({str(jax.tree.map(lambda bound: bound[where], support)) for support in supports}))

    _refuse_values(name, values, ~np.any([support(values) for support in supports], axis=0), described)


def _check_totals(name, values, totals):
    """DataError for multinomial rows whose sum is none of these totals."""
    sums = values.sum(-1)
    wrong = np.all([sums != total for total in totals], axis=0)
    if wrong.any():
        row = tuple(np.argwhere(wrong)[0])
        stated = " or ".join(sorted({f"{total[row]:g}" for total in totals}))
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} rows do not sum to the program's total_count; row {row[0]} sums "
            f"to {sums[row]:g}, not {stated}. Pass the totals as a covariate."
        )


def _refuse_values(name, values, impossible, support):
    """DataError where some values are impossible; `support` says, for a cell, which values are not."""
    if impossible.any():
        where = tuple(np.argwhere(impossible)[0])
        raise DataError(
            f"Attribute {name!r}: {int(impossible.sum())} values are outside its support ({support(where)}); the "
            f"first is {values[where]} in row {where[0]}. Correct them, or the distribution in the program."
        )


def summarize_rows(program: Any, rows: Rows) -> SufficientStatistics:
    """The sufficient statistics of rows: summaries of the compressed sites, and the rows if there are others."""
    if program.supports.by_class:
        check_values(program, rows)
    plan = program.plan
    inert = by_chunks(inert_parameters, program, rows.codes, rows.covariates) if plan.inert else {}
    return sufficient_statistics(
        rows, dict(plan.compressed), program.num_classes, inert=inert, keeps_rows=bool(plan.rowwise)
    )
