"""The data of a program of one's own: arrays by attribute site, checked against the sites, and their statistics."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Covariate, Rows, Table, covariate_values, read_table, response_of_rows
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.statistics import SufficientStatistics, sufficient_statistics
from bayesgen.typing import Array, Bool, Float, Shaped

from .base import Program
from .data_side import inert_parameters, supports_by_row
from .indexing import check_indexes
from .missing import check_missing
from .sequence_rows import check_sequences, is_row_of_symbols, numbers, read_sequences
from .structure import Site

AnyProgram = TypeVar("AnyProgram", bound=Program)


def read_rows(program: Program, X: Any, labelled: bool = False) -> Rows:
    """The rows of a mapping, a data frame or a `Table`, by site.

    Args:
        program: the program.
        X: the data.
        labelled: whether a column of the label site's name may be there too, as in simulated rows. It is not read.

    Raises:
        DataError: names missing or extra, a shape that is not the site's, values that are infinite or outside
            the site's support, missing covariates, and missing cells that cannot be left out (see `check_missing`).
    """
    table = read_table(X)
    program, covariates = with_covariates(program, covariate_cells(program, table))
    check_indexes(program, covariates)
    structure = program.structure
    columns = _columns(program, table, {program.label, program.response_site} if labelled else set())
    if program.response_site is not None:
        columns[program.response_site] = response_of_rows(table, program.response_site)
    values: dict[str, Shaped[np.ndarray, "n ..."]] = {}
    mask: Bool[Array, "n ..."] | None
    observed: dict[str, Bool[Array, "n ..."]] = {}
    for name, site in structure.attributes:
        if site.steps is None:
            values[name], mask = _attribute(name, site, columns[name])
        else:
            is_given = table.named and is_row_of_symbols(site)
            cells = table.sequences(name) if is_given else columns[name]
            values[name], mask = read_sequences(name, site, cells)
        if mask is not None:
            observed[name] = mask
    rows = Rows(values, observed, covariates)
    is_new = program.response_site is not None and table.labels is None
    check_missing(program, rows, {program.response_site} if is_new else set())
    check_values(program, rows)
    return rows


def _columns(program: Program, table: Table, unread: set[str | None]) -> dict[str, Shaped[np.ndarray, "n ..."]]:
    wanted = [name for name in (*program.attributes, *program.covariates) if name != program.response_site]
    if not table.named:
        if len(wanted) == 1:
            return {wanted[0]: np.asanyarray(table.matrix(table.names))}
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


def _attribute(
    name: str, site: Site, cells: Shaped[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "n ..."], Bool[np.ndarray, "n ..."] | None]:
    """The values of a site, and a mask of those that are there: None where none is missing."""
    values = numbers(name, cells)
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
    if not np.isnan(values.min(initial=0)):
        return values, None
    observed = ~np.isnan(values)
    return np.where(observed, values, 0.0) if site.discrete else values, observed


def covariate_cells(program: Program, table: Table) -> dict[str, Shaped[np.ndarray, "n ..."]]:
    """The cells of the program's covariates. An array without names is that of the only one, its one column (n,)."""
    names = program.covariates
    if len(names) == 1 and not table.named:
        cells = np.asanyarray(table.matrix(table.names))
        return {names[0]: cells[:, 0] if cells.shape[1:] == (1,) else cells}
    missing = [name for name in names if name not in table.names]
    if missing:
        raise DataError(
            f"The data have no columns for the covariates {missing} of the program: give a mapping or a data frame "
            f"with these names and those of its attribute sites. It has {quote_some(table.names)}."
        )
    return {name: table.column(name) for name in names}


def with_covariates(
    program: AnyProgram, cells: Mapping[str, Shaped[np.ndarray, "n ..."]]
) -> tuple[AnyProgram, dict[str, Shaped[Array, "n ..."]]]:
    """The program of covariates with these cells, and their values.

    Raises:
        DataError: those that are not as the program knows them; any with which it cannot be run.
    """
    if program.known_covariates is None:
        found = {name: covariate_values(name, of_name) for name, of_name in cells.items()}
        return program.of_covariates({name: Covariate.of(values) for name, values in found.items()}), {**found}
    columns = program.covariate_columns
    return program, {name: columns[name].values(name, of_name) for name, of_name in cells.items()}


def check_numbers(y: np.ndarray, num_classes: int) -> None:
    """Refuse labels that are names where the program knows only how many classes there are."""
    if y.dtype.kind not in "UTO":
        return
    names = list(dict.fromkeys(label for label in y.tolist() if isinstance(label, str)))
    if names:
        raise DataError(
            f"y holds names such as {quote_some(names)}, and the program was made with their number, "
            f"classes={num_classes}, so its labels are 0 to {num_classes - 1}. Name them in the order of the label "
            f"site's values: GenerativeProgram(function, classes=[{', '.join(map(repr, sorted(names)))}])."
        )


def check_values(program: Program, rows: Rows) -> None:
    """Refuse values that their site cannot take: fractions of counts, more successes than trials.

    Where a row has no label, a value has to be possible under some class. Missing cells are not looked at.
    """
    for name, site in program.structure.attributes:
        if site.discrete and site.steps is None:
            values = rows.values[name]
            _refuse_values(name, values, values != np.floor(values), lambda cell: "whole numbers")
    for name, support in program.supports.fixed.items():
        site = program.structure.attribute[name]
        if site.steps is not None:
            check_sequences(name, site, support, rows.values[name], rows.observed.get(name))
            continue
        with jax.enable_x64(True):
            impossible = _seen(rows, name, ~np.asarray(support(rows.values[name])))
        _refuse_values(name, rows.values[name], impossible, functools.partial(_written, support))
    if not program.supports.by_row or not rows.num_rows:
        return
    known = np.full(rows.num_rows, -1) if rows.labels is None else rows.labels
    num_classes = program.num_classes if program.supports.by_class and (known < 0).any() else 1
    labels = [np.where(known < 0, index, known) for index in range(num_classes)]
    supports_of_labels = [supports_by_row(program, rows, codes) for codes in labels]
    for name in program.supports.by_row:
        _check_bounds(name, rows, [supports[name] for supports in supports_of_labels])


def _seen(rows: Rows, name: str, wrong: Bool[np.ndarray, "n ..."]) -> Bool[np.ndarray, "n ..."]:
    """Which of these cells, or events, are wrong and not missing."""
    if name not in rows.observed:
        return wrong
    observed = rows.observed[name]
    return wrong & observed.all(tuple(range(wrong.ndim, observed.ndim)))


def _written(support: Constraint, cell: tuple[int, ...]) -> str:
    return str(support)


def _check_bounds(name: str, rows: Rows, supports: list[Constraint]) -> None:
    """Refuse values that are in none of these supports, whose bounds are arrays with the rows first."""
    values = rows.values[name]
    if isinstance(supports[0], type(constraints.multinomial(1))):
        _check_totals(name, rows, [support.upper_bound for support in supports])

    def described(cell: tuple[int, ...]) -> str:
        return " or ".join(sorted({str(jax.tree.map(lambda bound: bound[cell], support)) for support in supports}))

    impossible = ~np.any([support(values) for support in supports], axis=0)
    _refuse_values(name, values, _seen(rows, name, impossible), described)


def _check_totals(name: str, rows: Rows, totals: list[Array]) -> None:
    """Refuse multinomial rows whose sum is none of these totals."""
    sums = rows.values[name].sum(-1)
    wrong = _seen(rows, name, np.all([sums != total for total in totals], axis=0))
    if wrong.any():
        row = tuple(map(int, np.argwhere(wrong)[0]))
        stated = " or ".join(sorted({f"{total[row]:g}" for total in totals}))
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} rows do not sum to the program's total_count; row {row[0]} sums "
            f"to {sums[row]:g}, not {stated}. Pass the totals as a covariate."
        )


def _refuse_values(
    name: str,
    values: Float[np.ndarray, "n ..."],
    impossible: Bool[np.ndarray, "n ..."],
    support: Callable[[tuple[int, ...]], str],
) -> None:
    """Refuse values where some are impossible; `support` says, for a cell, which values are not."""
    if impossible.any():
        cell = tuple(map(int, np.argwhere(impossible)[0]))
        raise DataError(
            f"Attribute {name!r}: {int(impossible.sum())} values are outside its support ({support(cell)}); the "
            f"first is {values[cell]} in row {cell[0]}. Correct them, or the distribution in the program."
        )


def summarize_rows(program: Program, rows: Rows) -> SufficientStatistics:
    """The sufficient statistics of rows: summaries of the compressed sites, and the rows if there are others."""
    if program.supports.by_class:
        check_values(program, rows)
    plan = program.plan
    return sufficient_statistics(
        rows,
        dict(plan.compressed),
        program.num_classes,
        inert=inert_parameters(program, rows) if plan.inert else {},
        keeps_rows=bool(plan.rowwise),
    )
