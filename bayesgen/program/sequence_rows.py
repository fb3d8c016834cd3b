"""Rows of sites whose events are sequences: arrays of any number of steps, or lists and texts of any length."""

from collections.abc import Hashable, Sequence
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np
from numpyro.distributions.constraints import Constraint

from bayesgen.data import (
    PADDING,
    UNKNOWN,
    Cells,
    CodedSequences,
    Padded,
    Steps,
    as_one_sequence,
    padded_symbols,
    refuse_unknown,
    step_codes,
    steps_of,
)
from bayesgen.errors import DataError
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .structure import Site

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


def simulated(site: Site, values: Shaped[Array, "..."]) -> Shaped[np.ndarray, "..."]:
    """Values of a site that a program made, which say whether they are codes."""
    return CodedSequences(values) if is_row_of_symbols(site) else np.asarray(values)


def read_sequences(name: str, site: Site, cells: Cells) -> tuple[Shaped[np.ndarray, "n ..."], Observed]:
    """The sequences of a site in an array of as many steps as the longest has, and a mask of the steps that are there.

    Of symbols, `bayesgen.data.step_codes` tells whether cells are codes: where the distribution was not given names of
    symbols they are. Of numbers, NaN past the last step is no step; elsewhere it is a step that is missing. The mask is
    None where nothing is missing; of numbers nothing is seen past the end.

    Raises:
        DataError: what are no such sequences, or longer ones than the site has, naming row and step.
    """
    assert site.steps is not None
    of_symbols, is_one = site.steps.of_symbols, _is_one(site)
    if of_symbols and is_one and (isinstance(cells, Padded) or cells.ndim < 3):
        values, observed = _symbols(f"Attribute {name!r}", site.steps.symbols, steps_of(cells, name))
    else:
        assert isinstance(cells, np.ndarray)
        array = numbers(name, _stacked(name, site, cells) if is_one and cells.ndim == 1 else cells)
        array = _of_site(name, site, array)
        observed = ~np.isnan(array)
        values = np.where(observed, array, 0.0)
        values = _whole(name, values) if of_symbols else values
    _check_lengths(name, site, values != PADDING if of_symbols else observed)
    return values, None if observed.all() else observed


def _symbols(
    what: str, symbols: Sequence[Hashable] | None, steps: Steps
) -> tuple[Int[np.ndarray, "n T"], Bool[np.ndarray, "n T"]]:
    """Codes (n, T), and which steps are there."""
    codes, _ = step_codes(steps, what, symbols)
    if (codes == UNKNOWN).any():
        refuse_unknown(steps, codes, what, symbols)
    return padded_symbols(codes, steps.lengths, steps.missing)


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


def _refuse_row(name: str, row: int, found: str, step_shape: tuple[int, ...], remedy: str = "") -> NoReturn:
    raise DataError(
        f"Attribute {name!r} has {found} in row {row}. A row is a sequence of steps of the shape {step_shape}; None or "
        f"NaN marks what is missing.{remedy}"
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
            f"Attribute {name!r} has {values[(*row, step)]:g} at row {row[0]}, step {step}: a code is 0, 1 and so "
            "on. Correct it."
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
