"""Rows of sites whose events are sequences: arrays of any number of steps, or lists and texts of any length."""

from numbers import Real
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np
from numpyro.distributions.constraints import Constraint

from bayesgen.data import PADDING, Steps, padded_symbols, steps_of
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .structure import Site, StepsOfSite

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


def read_sequences(
    name: str, site: Site, cells: Shaped[np.ndarray, "n ..."]
) -> tuple[Shaped[np.ndarray, "n ..."], Observed]:
    """The sequences of a site in an array of as many steps as the longest has, and a mask of the steps that are there.

    Numbers are codes of symbols, padded by PADDING, or values of steps, padded by NaN; NaN elsewhere is a step that is
    missing. Texts, and lists of what is no number, are symbols that the distribution was given the names of. The mask
    is None where nothing is missing; of numbers nothing is seen past the end.

    Raises:
        DataError: what are no such sequences, or longer ones than the site has, naming row and step.
    """
    assert site.steps is not None
    of_symbols, is_one = site.steps.of_symbols, site.step_axis == 1 and site.position == 0
    if of_symbols and is_one and (cells.ndim == 1 or cells.dtype.kind in "UT"):
        steps = steps_of(cells, name)
        values, observed = padded_symbols(_codes(name, site.steps, steps), steps.lengths, steps.missing)
    else:
        array = numbers(name, _stacked(name, site, cells) if is_one and cells.ndim == 1 else cells)
        array = _of_site(name, site, array)
        observed = ~np.isnan(array)
        values = np.where(observed, array, 0.0)
        values = _whole(name, values) if of_symbols else values
    _check_lengths(name, site, values != PADDING if of_symbols else observed)
    return values, None if observed.all() else observed


def _codes(name: str, of_site: StepsOfSite, steps: Steps) -> Int[np.ndarray, " N"]:
    """The codes of steps, -1 where they are missing."""
    if not steps.of_text and _are_numbers(steps.values):
        values = np.asarray([np.nan if value is None else value for value in steps.values.tolist()], np.float64)
        _refuse_first(
            name, steps, ~np.isnan(values) & ((values < 0) | (values != np.floor(values))), "a code is 0, 1, ..."
        )
        return np.where(np.isnan(values), PADDING, values).astype(np.int64)
    if of_site.symbols is None:
        raise DataError(
            f"Attribute {name!r} has symbols such as {quote_some(steps.distinct(name), 3)}, and its distribution was "
            "not told what its codes stand for. Give it symbols=..., or give codes 0, 1, ..."
        )
    codes = steps.codes(of_site.symbols, f"Attribute {name!r}")
    _refuse_first(name, steps, codes < PADDING, f"its symbols are {quote_some(of_site.symbols)}")
    return codes


def _are_numbers(values: Shaped[np.ndarray, " N"]) -> bool:
    """Whether all are numbers or missing."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "iufb"
    return all(value is None or isinstance(value, Real) for value in values.tolist())


def _refuse_first(name: str, steps: Steps, wrong: Bool[np.ndarray, " N"], why: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        value = steps.values[index]
        shown = chr(value) if steps.of_text else value
        raise DataError(f"Attribute {name!r} has {quote_some([shown])} at {steps.place(index)}: {why}. Correct it.")


def _stacked(name: str, site: Site, cells: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, "n T ..."]:
    """Lists of steps, or of arrays, in one array, padded by what says that nothing is there."""
    steps_shape = site.event_shape[1:]
    arrays = [_of_row(name, row, cell, steps_shape) for row, cell in enumerate(cells.tolist())]
    longest = max([len(array) for array in arrays], default=0)
    padded = np.full((len(arrays), max(longest, 1), *steps_shape), np.nan)
    for row, array in enumerate(arrays):
        padded[row, : len(array)] = array
    return padded


def _of_row(name: str, row: int, cell: Any, step_shape: tuple[int, ...]) -> Float[np.ndarray, "steps ..."]:
    """The steps of one sequence of numbers, none of them where it is missing."""
    is_list = isinstance(cell, list | tuple | np.ndarray)
    if not is_list and not (cell is None or cell != cell):
        _refuse_row(name, row, f"{cell!r}, which is no list of numbers", step_shape)
    if not is_list or not len(cell):
        return np.empty((0, *step_shape))
    try:
        array = np.asarray(cell, np.float64)
    except (TypeError, ValueError) as error:
        _refuse_row(name, row, f"what are no numbers ({error})", step_shape)
    if array.shape[1:] != step_shape:
        _refuse_row(name, row, f"steps of the shape {array.shape[1:]}", step_shape)
    return array


def _refuse_row(name: str, row: int, found: str, step_shape: tuple[int, ...]) -> NoReturn:
    raise DataError(
        f"Attribute {name!r} has {found} in row {row}. A row is a sequence of steps of the shape {step_shape}; None or "
        "NaN marks what is missing."
    )


def _of_site(name: str, site: Site, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "n ..."]:
    """An array with the rows first, of the shape of the site but for the number of steps."""
    expected = list(site.row_shape)
    expected.insert(site.position, -1)
    if site.position > 0 and values.ndim == len(expected):
        values = np.moveaxis(values, site.position, 0)
    without_steps = [size for axis, size in enumerate(values.shape[1:], 1) if axis != site.step_axis]
    wanted = [size for axis, size in enumerate(site.row_shape, 1) if axis != site.step_axis]
    if values.ndim != len(expected) or without_steps != wanted:
        shown = tuple("T" if axis == site.step_axis else str(size) for axis, size in enumerate(site.row_shape, 1))
        raise DataError(
            f"Attribute {name!r}: rows have shape {values.shape[1:]}, and sequences of T steps at the program's site "
            f"have ({', '.join(shown)}{',' * (len(shown) == 1)})."
        )
    if not values.shape[site.step_axis]:  # all are empty
        nothing = [(0, int(axis == site.step_axis)) for axis in range(values.ndim)]
        values = np.pad(values, nothing, constant_values=PADDING if site.discrete else np.nan)
    return values


def _whole(name: str, values: Float[np.ndarray, "n ..."]) -> Int[np.ndarray, "n ..."]:
    """Codes as integers."""
    codes = values.astype(np.int64)
    if (codes != values).any():
        *row, step = (int(place) for place in np.argwhere(codes != values)[0])
        raise DataError(
            f"Attribute {name!r} has {values[(*row, step)]:g} at row {row[0]}, step {step}: a code is 0, 1, ... "
            "Correct it."
        )
    return codes


def _check_lengths(name: str, site: Site, there: Bool[np.ndarray, "n ..."]) -> None:
    """Refuse sequences of more steps than the site has, of steps that are there."""
    assert site.steps is not None
    most = site.steps.most
    if most is None or there.shape[site.step_axis] <= most:
        return
    of_steps = np.moveaxis(there, site.step_axis, 1)[:, most:]
    longer = of_steps.reshape(len(of_steps), -1).any(1)
    if longer.any():
        row = int(np.argmax(longer))
        raise DataError(
            f"Attribute {name!r} has a sequence of more than {most} steps in row {row}, and the program says length="
            f"{most}. Give its distribution a longer length, or max_length, or cut the sequence."
        )


def check_sequences(
    name: str, site: Site, support: Constraint, values: Shaped[np.ndarray, "n ..."], observed: Observed
) -> None:
    """Refuse steps that the site cannot take: each is looked at alone, and symbols with the one that follows.

    Args:
        name: of the site.
        site: what is known of it.
        support: of its sequences, of any number of steps.
        values: the rows, whatever stands where nothing is seen.
        observed: mask of the steps that are there; None where all are.

    Raises:
        DataError: naming row and step.
    """
    assert site.steps is not None
    axis, of_symbols = site.step_axis, site.steps.of_symbols
    observed = None if observed is None else np.asarray(observed)
    if not of_symbols and observed is not None:
        values = np.where(observed, values, np.nan)
    with jax.enable_x64(True):
        _refuse_step(name, values, axis, ~np.asarray(support(np.expand_dims(values, axis + 1))), str(support))
        if not of_symbols or values.shape[axis] < 2:
            return
        pairs = np.stack([values[..., :-1], values[..., 1:]], -1)
        broken = ~np.asarray(support(pairs))
    if observed is not None:
        broken &= observed[..., :-1] & observed[..., 1:]
    _refuse_step(name, values, axis, broken, f"{PADDING} stands past the end of a sequence, and nothing else does")


def _refuse_step(
    name: str, values: Shaped[np.ndarray, "n ..."], axis: int, wrong: Bool[np.ndarray, "n ..."], why: str
) -> None:
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} steps are outside its support ({why}); the first is "
            f"{values[place]} in row {place[0]}, step {place[axis]}. Correct them, or the distribution in the program."
        )
