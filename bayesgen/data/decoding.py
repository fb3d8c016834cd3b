"""Numbers of columns as users write them: what `Schema.encode_cells` turns into these numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Int, Num

from .kinds import Kind
from .levels import levels_array
from .sequences import PADDING, SequenceOf


def decoded(column: str, kind: Kind, levels: Sequence[Any], values: Num[np.ndarray, "n ..."]) -> Any:
    """Values of a column of this kind, an array; sequences as a list of texts, of lists of symbols, or of arrays.

    Args:
        column: its name, for messages.
        kind: of the column.
        levels: its categories or symbols, if it has any.
        values: codes or numbers (n,), of sequences (n, T).

    Raises:
        DataError: codes of no category or symbol, and of sequences that have an end, a row without it; naming the row.
    """
    if isinstance(kind, SequenceOf):
        return _texts(column, kind, levels, values) if kind.of_symbols else _numbers(values)
    if kind == "categorical":
        return levels_array(levels)[_codes(column, values, 0, len(levels) - 1)]
    return values > 0.5 if kind == "binary" else values


def _codes(column: str, values: Num[np.ndarray, "n ..."], least: int, most: int) -> Int[np.ndarray, "n ..."]:
    """The values as integers. DataError where one is no whole number from `least` to `most`."""
    wrong = ~((values >= least) & (values <= most) & (values == np.floor(values)))
    if wrong.any():
        cell = tuple(map(int, np.argwhere(wrong)[0]))
        place = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "step"), cell, strict=False))
        past = f", and {PADDING} past an end" if least == PADDING else ""
        raise DataError(f"Column {column!r}: {values[cell]:g} in {place}, is no code: they are 0 to {most}{past}.")
    return values.astype(np.int64)


def _numbers(values: Num[np.ndarray, "n T"]) -> list[Num[np.ndarray, " steps"]]:
    """Each row up to the last step that is there."""
    ends = [np.flatnonzero(~np.isnan(row)) for row in values]
    return [row[: place[-1] + 1 if len(place) else 0] for row, place in zip(values, ends, strict=True)]


def _texts(column: str, kind: SequenceOf, symbols: Sequence[Any], values: Num[np.ndarray, "n T"]) -> list[Any]:
    """The symbols of each row, up to its end."""
    end = len(symbols)
    codes = _codes(column, values, PADDING, end - 1 + kind.end)
    is_cut = ~(codes == end).any(1)
    if kind.end and is_cut.any():
        raise DataError(
            f"Column {column!r}: row {int(np.argmax(is_cut))} has no end, {end}: the beginning of a sequence, cut "
            "where it was too long, and would be read as a whole one. Simulate with a larger max_length of the family, "
            f"or decode the rows that end alone, codes[(codes == {end}).any(1)]."
        )
    is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols)
    steps = [[symbols[code] for code in row if PADDING < code < end] for row in codes.tolist()]
    return ["".join(row) for row in steps] if is_text else steps
