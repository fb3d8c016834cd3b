"""Sequences that a family used alone is given, without a schema that knows their alphabet."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from bayesgen.data import Schema, SequenceOf, read_table
from bayesgen.distributions import sequences
from bayesgen.errors import DataError, ModelError
from bayesgen.typing import Bool, Int

COLUMN = "data"


def symbols_of(data: Any, size: int | None, end: bool) -> tuple[Hashable, ...]:
    """The alphabet of data: the symbols seen, sorted; where their number is known, codes from 0 on, if they are such.

    Args:
        data: sequences.
        size: how many symbols a table has, without the end, where that is known.
        end: whether sequences have an end, which padded arrays hold as one more code.

    Raises:
        ModelError: another number of symbols than that of the table.
    """
    if size is not None and _is_padded(data):
        return tuple(range(size))
    seen = tuple(_schema(data, None).categories[COLUMN])
    if size is None or len(seen) == size:
        return seen
    if set(seen) <= set(range(size)):
        return tuple(range(size))
    raise ModelError(
        f"The sequences have the symbols {seen!r}, and the table is one of {size}. State symbols=... in its order."
    )


def codes_of(
    data: Any, symbols: Sequence[Hashable], end: bool
) -> tuple[Int[np.ndarray, "n T"], Bool[np.ndarray, "n T"] | None]:
    """The padded codes of sequences, and which steps are there; None where all are.

    Raises:
        DataError: rows of a padded array that are no sequences of these codes.
    """
    if not _is_padded(data) or tuple(symbols) != tuple(range(len(symbols))):
        return _schema(data, symbols, end).encode_cells(read_table({COLUMN: data}), [COLUMN])
    observed = ~np.isnan(data)
    codes = np.where(observed, data, 0)
    num_symbols = len(symbols) + end
    wrong = ~np.asarray(sequences(num_symbols, num_symbols - 1 if end else None)(codes))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Row {row} of the padded array, {data[row].tolist()}, is no sequence of the codes 0 to {num_symbols - 1}, "
            "with -1 past its end" + (f" and nothing but that after {num_symbols - 1}." if end else ".")
        )
    return codes.astype(np.int64), None if observed.all() else observed


def _is_padded(data: Any) -> bool:
    """Whether data are an array whose rows are sequences of numbers."""
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "iuf"


def _schema(data: Any, symbols: Sequence[Hashable] | None, end: bool = False) -> Schema:
    categories = {} if symbols is None else {COLUMN: tuple(symbols)}
    declared = Schema(kinds={COLUMN: SequenceOf(end=end)}, categories=categories)
    return declared.resolve(read_table({COLUMN: data}), None)
