"""How the columns of a table were read. The commands show it before they compute anything."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich import box
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from bayesgen.data import COUNT, REAL, Dataset, Kind, Schema
from bayesgen.describe import quote_some

COLUMNS_SHOWN = 20
STEPS = (
    "Two-step: learn one process, the most plausible way in which the data came about, then predict by it (plug-in). "
    "One-step: average the predictions of all processes, each as probable as the data leave it (BMA)."
)


@dataclass(frozen=True)
class ColumnAsRead:
    """A column as read.

    Attributes:
        name, kind: of the column in the schema.
        values: number of different values.
        missing: number of missing cells.
        holds: the range of its numbers, or its first values.
        hardly_repeats: whether a text occurs in fewer than four rows on average, or whole numbers all differ, as
            identifiers do. False for sequences and other numbers, which seldom repeat.
    """

    name: str
    kind: str
    values: int
    missing: int
    holds: str
    hardly_repeats: bool


def columns_as_read(dataset: Dataset, schema: Schema) -> list[ColumnAsRead]:
    """Each column of a frame; a matrix of counts counts as one column."""
    if not isinstance(dataset.X, pd.DataFrame):
        cells = pd.Series(np.append(dataset.X.data, 0))  # zeros, which the matrix does not store
        name = f"{dataset.X.shape[1]} columns"
        return [ColumnAsRead(name, COUNT.name, cells.nunique(), 0, _range(cells), False)]
    inferred = Schema.infer(dataset.X, declared=schema)
    names = map(str, dataset.X.columns)
    return [_as_read(name, inferred.kind_of(name), dataset.X[name].dropna(), len(dataset.X)) for name in names]


def _as_read(name: str, kind: Kind, observed: pd.Series, num_rows: int) -> ColumnAsRead:
    is_real, num_values = kind.events == REAL, observed.nunique()
    are_distinct = is_real and 1 < num_values == len(observed)
    hardly_repeats = (are_distinct and bool((observed == observed.round()).all())) or (
        not is_real and not kind.has_steps and 4 * num_values > num_rows
    )
    holds = _range(observed) if is_real else quote_some(sorted(observed.unique().tolist(), key=str), 3)
    return ColumnAsRead(name, kind.name, num_values, num_rows - len(observed), holds, hardly_repeats)


def _range(cells: pd.Series) -> str:
    return f"{cells.min():.6g} to {cells.max():.6g}" if len(cells) else ""


def heading(title: str, columns: Sequence[ColumnAsRead]) -> list[RenderableType]:
    """What stands above a result: its title, the two answers in words, and a line for each of the first columns."""
    table = Table(
        Column("column", overflow="fold"),
        Column("read as", no_wrap=True),
        Column("values", justify="right", no_wrap=True),
        Column("missing", justify="right", no_wrap=True),
        Column("from, or first values", overflow="fold"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in columns[:COLUMNS_SHOWN]:
        table.add_row(Text(column.name), column.kind, f"{column.values:,}", f"{column.missing:,}", Text(column.holds))
    more = len(columns) - COLUMNS_SHOWN
    cut = f"and {more} more columns, all of which are in --json and --out\n" if more > 0 else ""
    return [Text(title, style="bold"), Text(), Text(STEPS, style="dim"), Text(), table, Text(cut, style="dim")]
