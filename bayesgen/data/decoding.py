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
        DataError: codes of no symbol, and of sequences that have an end, a row without it; naming the row.
    """
    if isinstance(kind, SequenceOf):
        return _texts(column, kind, levels, values.astype(int)) if kind.of_symbols else _numbers(values)
    if kind == "categorical":
        return levels_array(levels)[values.astype(int)]
    return values > 0.5 if kind == "binary" else values


def _numbers(values: Num[np.ndarray, "n T"]) -> list[Num[np.ndarray, " steps"]]:
    """Each row up to the last step that is there."""
    ends = [np.flatnonzero(~np.isnan(row)) for row in values]
    return [row[: place[-1] + 1 if len(place) else 0] for row, place in zip(values, ends, strict=True)]


def _texts(column: str, kind: SequenceOf, symbols: Sequence[Any], codes: Int[np.ndarray, "n T"]) -> list[Any]:
    """The symbols of each row, up to its end."""
    end = len(symbols)
    wrong = (codes < PADDING) | (codes >= end + kind.end)
    if wrong.any():
        row, step = (int(place) for place in np.argwhere(wrong)[0])
        raise DataError(
            f"Column {column!r}: {codes[row, step]} in row {row}, step {step}, is no code: they are 0 to "
            f"{end - 1 + kind.end}, and {PADDING} past an end."
        )
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
