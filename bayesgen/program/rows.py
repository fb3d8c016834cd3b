"""Data read as the rows of a program: arrays by attribute site, rows first, with masks of the observed cells."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from bayesgen.data import (
    PADDING,
    UNKNOWN,
    CodedSequences,
    Covariate,
    Padded,
    Rows,
    SequenceCells,
    SequenceSteps,
    Table,
    as_one_sequence,
    covariate_values,
    padded_symbols,
    read_table,
    refuse_unknown,
    response_of_rows,
    step_codes,
    steps_of,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Array, Bool, Data, Float, Int, Shaped

from .missing import check_missing
from .structure import Program, Site

Observed: TypeAlias = Bool[Array, "n ..."] | None


def numbers(name: str, cells: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Cells as numbers, NaN where they are missing."""
    if cells.dtype.kind == "O":
        import pandas as pd

        cells = np.where(pd.isna(cells), np.nan, cells)
    try:
        values = np.asarray(cells, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"Column {name!r} holds values that are not numbers ({error}). Encode them as the program samples them."
        ) from None
    num_infinite = 0 if np.isfinite(values).all() else int(np.isinf(values).sum())
    if num_infinite:
        raise DataError(
            f"Column {name!r} has {num_infinite} infinite values. Correct them, or make them NaN where the value "
            "is not known: cells may be missing."
        )
    return values


def is_row_of_symbols(site: Site) -> bool:
    """Whether a row of a site is one sequence of symbols, the rows being the first axis."""
    return site.steps is not None and site.steps.of_symbols and _is_one(site)


def _is_one(site: Site) -> bool:
    return site.step_axis == 1 and site.position == 0


def simulated(site: Site, values: Shaped[Array, "..."], rows_first: bool) -> Shaped[np.ndarray, "..."]:
    """Simulated values of a site, as data have them; codes of symbols as `CodedSequences`."""
    values = np.moveaxis(np.asarray(values), site.position, 0) if rows_first else values
    return CodedSequences(values) if is_row_of_symbols(site) else np.asarray(values)


def read_sequences(name: str, site: Site, cells: SequenceCells) -> tuple[Shaped[np.ndarray, "n ..."], Observed]:
    """The sequences of a site in an array, padded to the longest one, and a mask of the observed time steps.

    Cells of a distribution without names of symbols are codes, see `bayesgen.data.step_codes`. Sequences of numbers end
    before trailing NaN; other NaN are missing time steps. The mask is None where nothing is missing; it is False past
    the end of sequences of numbers.

    Raises:
        DataError: cells that are no such sequences, or longer ones than the site has, naming row and time step.
    """
    assert site.steps is not None
    are_codes, is_one = site.steps.of_symbols, _is_one(site)
    if are_codes and is_one and (isinstance(cells, Padded) or cells.ndim < 3):
        values, observed = _symbols(f"Attribute {name!r}", site.steps.symbols, steps_of(cells, name))
    else:
        assert isinstance(cells, np.ndarray)
        array = numbers(name, _stacked(name, site, cells) if is_one and cells.ndim == 1 else cells)
        array = _with_rows_first(name, site, array)
        observed = ~np.isnan(array)
        values = np.where(observed, array, 0.0)
        values = _as_codes(name, values) if are_codes else values
    _check_lengths(name, site, values != PADDING if are_codes else observed)
    return values, None if observed.all() else observed


def _symbols(
    column: str, symbols: Sequence[Hashable] | None, steps: SequenceSteps
) -> tuple[Int[np.ndarray, "n T"], Bool[np.ndarray, "n T"]]:
    """Codes, and a mask of the observed time steps."""
    codes, _ = step_codes(steps, column, symbols)
    if (codes == UNKNOWN).any():
        refuse_unknown(steps, codes, column, symbols)
    return padded_symbols(codes, steps.lengths, steps.missing)


def _stacked(name: str, site: Site, cells: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, "n T ..."]:
    """Lists of numbers, or of arrays, in one array, padded by NaN."""
    steps_shape = site.event_shape[1:]
    arrays = [_sequence_of_numbers(name, row, cell, steps_shape) for row, cell in enumerate(cells.tolist())]
    longest = max([len(array) for array in arrays], default=0)
    padded = np.full((len(arrays), max(longest, 1), *steps_shape), np.nan)
    for row, array in enumerate(arrays):
        padded[row, : len(array)] = array
    return padded


def _sequence_of_numbers(name: str, row: int, cell: Any, step_shape: tuple[int, ...]) -> Float[np.ndarray, "steps ..."]:
    """One sequence of numbers as an array, empty where it is missing."""
    is_list = isinstance(cell, list | tuple | np.ndarray)
    if not is_list and not (cell is None or cell != cell):
        _refuse_row(name, row, f"{cell!r}, which is no list of numbers", step_shape, as_one_sequence(name, cell))
    if not is_list or not len(cell):
        return np.empty((0, *step_shape))
    try:
        array = np.asarray(cell, np.float64)
    except (TypeError, ValueError) as error:
        _refuse_row(name, row, f"what are no numbers ({error})", step_shape)
    if array.shape[1:] != step_shape:
        _refuse_row(name, row, f"steps of the shape {array.shape[1:]}", step_shape)
    return array


def _refuse_row(name: str, row: int, content: str, step_shape: tuple[int, ...], remedy: str = "") -> NoReturn:
    raise DataError(
        f"Attribute {name!r} has {content} in row {row}. A row is a sequence of steps of the shape {step_shape}; None "
        f"or NaN marks what is missing.{remedy}"
    )


def _with_rows_first(name: str, site: Site, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "n ..."]:
    """An array with the rows first, of the shape of the site up to the number of time steps."""
    expected = list(site.row_shape)
    expected.insert(site.position, -1)
    if site.position > 0 and values.ndim == len(expected):
        values = np.moveaxis(values, site.position, 0)
    without_steps = [size for axis, size in enumerate(values.shape[1:], 1) if axis != site.step_axis]
    site_sizes = [size for axis, size in enumerate(site.row_shape, 1) if axis != site.step_axis]
    if values.ndim != len(expected) or without_steps != site_sizes:
        shown = tuple("T" if axis == site.step_axis else str(size) for axis, size in enumerate(site.row_shape, 1))
        raise DataError(
            f"Attribute {name!r}: rows have shape {values.shape[1:]}, and sequences of T steps at the program's site "
            f"have ({', '.join(shown)}{',' * (len(shown) == 1)})."
        )
    if not values.shape[site.step_axis]:  # all are empty
        nothing = [(0, int(axis == site.step_axis)) for axis in range(values.ndim)]
        values = np.pad(values, nothing, constant_values=PADDING if site.discrete else np.nan)
    return values


def _as_codes(name: str, values: Float[np.ndarray, "n ..."]) -> Int[np.ndarray, "n ..."]:
    """Codes as integers."""
    codes = values.astype(np.int64)
    if (codes != values).any():
        *row, step = (int(place) for place in np.argwhere(codes != values)[0])
        raise DataError(
            f"Attribute {name!r} has {values[(*row, step)]:g} at row {row[0]}, step {step}: a code is 0, 1 and so "
            "on. Correct it."
        )
    return codes


def _check_lengths(name: str, site: Site, is_step: Bool[np.ndarray, "n ..."]) -> None:
    """Refuse sequences of more time steps than the site has."""
    assert site.steps is not None
    most = site.steps.most
    if most is None or is_step.shape[site.step_axis] <= most:
        return
    beyond = np.moveaxis(is_step, site.step_axis, 1)[:, most:]
    longer = beyond.reshape(len(beyond), -1).any(1)
    if longer.any():
        row = int(np.argmax(longer))
        raise DataError(
            f"Attribute {name!r} has a sequence of more than {most} steps in row {row}, and the program says length="
            f"{most}. Give its distribution a longer length, or max_length, or cut the sequence."
        )


AnyProgram = TypeVar("AnyProgram", bound=Program)


def read_rows(program: Program, X: Data | Table, labelled: bool = False) -> Rows:
    """The rows of a mapping, a data frame or a `Table`, by site.

    Args:
        program: the program.
        X: the data.
        labelled: whether columns with the names of the label site and of local latents are allowed, as in simulated
            rows. They are not read.

    Raises:
        DataError: missing or extra names, a shape that is not the site's, values that are infinite or outside the
            site's support, missing covariates, and missing cells that cannot be marginalised (see `check_missing`).
    """
    table = read_table(X)
    program, covariates = with_covariates(program, covariate_cells(program, table))
    structure = program.structure
    simulated_besides = {program.label, program.response_site, *program.local}
    columns = _columns(program, table, simulated_besides if labelled else set())
    if program.response_site is not None:
        columns[program.response_site] = response_of_rows(table, program.response_site)
    values: dict[str, Shaped[np.ndarray, "n ..."]] = {}
    mask: Bool[Array, "n ..."] | None
    observed: dict[str, Bool[Array, "n ..."]] = {}
    for name, site in structure.attributes:
        if site.steps is None:
            values[name], mask = _attribute(name, site, columns[name], program.rows_first)
        else:
            is_given = table.named and is_row_of_symbols(site)
            cells = table.sequences(name) if is_given else columns[name]
            values[name], mask = read_sequences(name, site, cells)
        if mask is not None:
            observed[name] = mask
    rows = Rows(values, observed, covariates)
    is_new = program.response_site is not None and table.labels is None
    check_missing(program, rows, {program.response_site} if is_new else set())
    program.check_values(rows)
    return rows


def read_covariates(program: Program, table: Table) -> Rows:
    """Rows of covariates alone, for which a program generates the sites."""
    _, covariates = with_covariates(program, covariate_cells(program, table))
    return Rows({}, {}, covariates)


def _columns(program: Program, table: Table, unread: set[str | None]) -> dict[str, Shaped[np.ndarray, "n ..."]]:
    names = [name for name in (*program.attributes, *program.covariates) if name != program.response_site]
    if not table.named:
        if len(names) == 1:
            return {names[0]: np.asanyarray(table.matrix(table.names))}
        raise DataError(
            f"The program has the attribute sites {names}: give a mapping or a data frame with these names, "
            "not an array."
        )
    missing = [name for name in names if name not in table.names]
    extra = [name for name in table.names if name not in names and name not in unread]
    if len(missing) == len(program.attributes) == 1 and not extra and program.covariates and program.label is None:
        raise DataError(
            f"The data have no column {missing[0]!r}, the program's only attribute. If it is to be predicted, name it "
            f"when the program is made: label={missing[0]!r}."
        )
    if missing or extra:
        raise DataError(
            f"The data must have one column for each site of the program: missing {missing}, not in the program "
            f"{extra}. Name the columns like the sites. A latent of each row is no column where local=(...) names it. "
            "Another site of the plate that is no column (an attribute that was reparametrised and so goes by another "
            "name) is not supported: sample the attribute itself."
        )
    return {name: table.column(name) for name in names}


def _attribute(
    name: str, site: Site, cells: Shaped[np.ndarray, "..."], rows_first: bool
) -> tuple[Float[np.ndarray, "n ..."], Bool[np.ndarray, "n ..."] | None]:
    """The values of a site, and a mask of the observed ones: None where none is missing."""
    values = site.rows_of(numbers(name, cells), rows_first)
    if site.position == 0 and values.shape == (len(values), 1) and site.row_shape == ():
        values = values[:, 0]
    if values.shape != (len(values), *site.row_shape):
        raise DataError(
            f"Attribute {name!r}: rows have shape {values.shape[1:]}, the program's site has {site.row_shape}."
        )
    if not np.isnan(values.min(initial=0)):
        return values, None
    observed = ~np.isnan(values)
    return np.where(observed, values, 0.0) if site.discrete else values, observed


def covariate_cells(program: Program, table: Table) -> dict[str, Shaped[np.ndarray, "n ..."]]:
    """Covariate -> cells. An array without names holds the only covariate, as (n,) if it has one column."""
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
        DataError: covariates of other shapes or dtypes than the program's; any with which it cannot be run, or that
            make an index lie outside its axis.
    """
    if program.known_covariates is None:
        values = {name: covariate_values(name, column) for name, column in cells.items()}
        program = program.for_covariates({name: Covariate.of(array) for name, array in values.items()})
    else:
        columns = program.covariate_columns
        values = {name: columns[name].values(name, column) for name, column in cells.items()}
    program.check_indexes(values)
    return program, {**values}


def check_numbers(y: np.ndarray, num_classes: int) -> None:
    """Refuse string labels where the program has only the number of its classes."""
    if y.dtype.kind not in "UTO":
        return
    names = list(dict.fromkeys(label for label in y.tolist() if isinstance(label, str)))
    if names:
        raise DataError(
            f"y holds names such as {quote_some(names)}, and the program was made with their number, "
            f"classes={num_classes}, so its labels are 0 to {num_classes - 1}. Name them in the order of the label "
            f"site's values: GenerativeProgram(function, classes=[{', '.join(map(repr, sorted(names)))}])."
        )
