"""Sequences that a family used alone is given, without a schema that knows their alphabet."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from bayesgen.data import CodedSequences, Schema, SequenceOf, read_table
from bayesgen.errors import ModelError
from bayesgen.typing import Bool, Int

COLUMN = "data"


def symbols_of(data: Any, size: int | None, end: bool) -> tuple[Hashable, ...] | None:
    """The alphabet of data: the symbols seen, sorted; None where data are codes 0, 1, ... of a known number of symbols.

    Args:
        data: sequences.
        size: how many symbols a table has, without the end, where that is known.
        end: whether sequences have an end, which arrays of codes hold as one more code.

    Raises:
        ModelError: another number of symbols than that of the table; an array which may hold an end, or not.
    """
    is_array = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "iuf"
    if is_array and size is not None:
        return None
    if is_array and end:
        raise ModelError(
            "An array of numbers does not tell which of them is the end, and whether all of its rows end. Give lists "
            "of symbols, all of which end; or state symbols=..., of which bayesgen.data.CodedSequences(array) has "
            "the codes, and then that of the end."
        )
    seen = tuple(_schema(data, None).categories[COLUMN])
    if size is None or len(seen) == size:
        return seen
    if set(seen) <= set(range(size)):
        return tuple(range(size))
    raise ModelError(
        f"The sequences have the symbols {seen!r}, and the table is one of {size}. State symbols=... in its order."
    )


def codes_of(
    data: Any, symbols: Sequence[Hashable] | None, size: int, end: bool
) -> tuple[Int[np.ndarray, "n T"], Bool[np.ndarray, "n T"] | None]:
    """The padded codes of sequences, and which steps are there; None where all are.

    Args:
        data: sequences.
        symbols: their alphabet; None where data are codes.
        size: how many symbols there are, without the end.
        end: whether sequences have an end.

    Raises:
        DataError: what is no sequence of these symbols.
    """
    cells = CodedSequences(data) if symbols is None else data
    schema = _schema(cells, range(size) if symbols is None else symbols, end)
    return schema.encode_cells(read_table({COLUMN: cells}), [COLUMN])


def _schema(data: Any, symbols: Sequence[Hashable] | None, end: bool = False) -> Schema:
    categories = {} if symbols is None else {COLUMN: tuple(symbols)}
    declared = Schema(kinds={COLUMN: SequenceOf(end=end)}, categories=categories)
    return declared.resolve(read_table({COLUMN: data}), None)
