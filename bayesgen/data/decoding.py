"""Numbers of columns as users write them: what `Schema.encode_cells` turns into these numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgen.typing import Num

from .kinds import Kind
from .levels import levels_array
from .sequences import PADDING, SequenceOf


def decoded(kind: Kind, levels: Sequence[Any], values: Num[np.ndarray, "n ..."]) -> Any:
    """Values of a column of this kind, an array; sequences as a list of texts, of lists of symbols, or of arrays.

    Args:
        kind: of the column.
        levels: its categories or symbols, if it has any.
        values: codes or numbers (n,), of sequences (n, T).
    """
    if isinstance(kind, SequenceOf):
        return _sequences(kind, levels, values)
    if kind == "categorical":
        return levels_array(levels)[values.astype(int)]
    return values > 0.5 if kind == "binary" else values


def _sequences(kind: SequenceOf, symbols: Sequence[Any], values: Num[np.ndarray, "n T"]) -> list[Any]:
    """Each up to its end, whose code is no symbol."""
    if not kind.of_symbols:
        ends = [np.flatnonzero(~np.isnan(row)) for row in values]
        return [row[: place[-1] + 1 if len(place) else 0] for row, place in zip(values, ends, strict=True)]
    is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols)
    steps = [[symbols[code] for code in row if PADDING < code < len(symbols)] for row in values.astype(int).tolist()]
    return ["".join(row) for row in steps] if is_text else steps
