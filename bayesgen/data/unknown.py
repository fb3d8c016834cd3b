"""Values that their columns never showed in training, where a schema takes such cells as missing."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from bayesgen.errors import UnknownValuesWarning, warn

from .categories import UNKNOWN
from .chunks import row_chunks
from .encoding import category_codes, encode_numbers
from .schema import Schema
from .sequence_cells import num_unknown_symbols
from .sequences import SEQUENCE, Cells, SequenceOf
from .views import Table

UnknownCells: TypeAlias = Mapping[str, int]
"""Column -> how many of its cells hold such a value, for columns that have any."""


def unknown_cells(schema: Schema, table: Table) -> UnknownCells:
    """The cells of a table with values that the schema does not know; none where it refuses them.

    It is a pass of its own over categorical and binary columns and sequences, so that a warning can count what all
    threads read.
    """
    if schema.unknown == "error" or table.sparse or not schema.kinds:
        return {}
    chunks, counts = [table.rows(rows) for rows in row_chunks(schema, table)], {}
    for kind in ("categorical", "binary", SEQUENCE):
        columns = schema.columns_of(kind)
        for column, name in zip(columns, schema.names_in(table, columns), strict=True):
            counts[column] = sum(_num_unknown(schema, column, chunk, name) for chunk in chunks)
    return {column: count for column, count in counts.items() if count}


def _num_unknown(schema: Schema, column: str, table: Table, name: str) -> int:
    kind = schema.kinds[column]
    if isinstance(kind, SequenceOf):
        return _num_unknown_steps(schema, column, kind, table.sequences(name))
    if column in schema.categories:
        codes = category_codes(column, table.flat_column(name), schema.categories[column], takes_unknown=True)
        return int(np.count_nonzero(codes == UNKNOWN))
    cells = table.matrix([name])
    _, known = encode_numbers(cells, [column], "binary", takes_unknown=True)
    if known is None:
        return 0
    import pandas as pd

    return int(np.count_nonzero(~known & ~pd.isna(cells)))


def _num_unknown_steps(schema: Schema, column: str, kind: SequenceOf, cells: Cells) -> int:
    """Steps that are none of the symbols; those of numbers are refused where they are encoded."""
    return num_unknown_symbols(column, cells, kind, schema.categories[column]) if kind.of_symbols else 0


def warn_of_unknown(cells: UnknownCells) -> None:
    """One warning that counts the cells of each column, if there are any."""
    if cells:
        counted = ", ".join(f"{column!r} ({count})" for column, count in list(cells.items())[:10])
        more = f" and {len(cells) - 10} more" if len(cells) > 10 else ""
        warn(
            f"Cells with values that their columns never showed in training, and do not declare, are taken as missing: "
            f"{counted}{more}.",
            UnknownValuesWarning,
        )
