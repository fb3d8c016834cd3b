"""Training data in parts: tables cut into blocks of rows, and data that come as an iterable of chunks."""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from bayesgen.errors import BayesgenError, DataError
from bayesgen.runtime import table_chunks

from .categories import as_labels, dtype_levels
from .columns import as_array, check_index
from .schema import as_weights
from .tables import read_table
from .views import Table


@dataclasses.dataclass(frozen=True)
class Part:
    """Some rows with their labels and weights, as they were given.

    Attributes:
        table: the rows.
        labels: (n,) labels of any type, or None.
        weights: (n,) frequency weights, or None.
        classes: the labels that the dtype of `labels` declared, in order, or None.
        num_dropped: how many other rows had weight 0. They are absent: nothing of them is looked at.
    """

    table: Table
    labels: Any = None
    weights: Any = None
    classes: Any = None
    num_dropped: int = 0

    def blocks(self):
        """Slices of a few rows each, so that nothing which is made for them is ever whole in memory."""
        copies = 4 if self.table.sparse else 1  # a cell's value, its column, its class and where it is counted
        return table_chunks(self.table.num_rows, copies * self.table.cells_per_row)

    def rows(self, part):
        """Some of the rows: a slice, or their positions."""
        if isinstance(part, slice) and part == slice(0, self.table.num_rows):
            return self
        labels, weights = (None if a is None else a[part] for a in (self.labels, self.weights))
        return dataclasses.replace(self, table=self.table.rows(part), labels=labels, weights=weights)


def read_part(X, y=None, sample_weight=None) -> Part:
    """Rows, labels and weights, without a look at the cells. Rows of weight 0 are left out: there may be no others."""
    table = read_table(X)
    labels = None if y is None else as_labels(y)
    weights = None if sample_weight is None else as_array(sample_weight, "sample_weight")
    for name, what, values in (("y", "labels", labels), ("sample_weight", "weights", weights)):
        if values is not None and values.shape != (table.num_rows,):
            one = what[:-1]
            if values.ndim != 1:
                raise DataError(f"{name} has shape {values.shape}, and has to be 1-D: one {one} for each row of X.")
            raise DataError(f"X has {table.num_rows} rows and {name} has {len(values)} {what}. Give one {one} a row.")
    check_index(X, y, "y")
    check_index(X, sample_weight, "sample_weight")
    weights = as_weights(weights, table.num_rows)
    data = Part(table, labels, weights, None if y is None else dtype_levels(y))
    if weights is None or weights.all():
        return data
    kept = np.flatnonzero(weights)
    return dataclasses.replace(data.rows(kept), num_dropped=len(weights) - len(kept))


def is_chunked(X) -> bool:
    """Whether X is an iterable of chunks, not a table.

    It is if it can be iterated over but not indexed (a generator, `zip`, an object with `__iter__` alone), or if it
    is a list or tuple whose first item is a tuple that begins with an array, frame or mapping: the rows of a table
    hold cells there. So [(1.0, 2.0), (3.0, 4.0)] is a table of two rows, and [(X1, y1), (X2, y2)] two chunks.
    """
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], tuple) and bool(X[0]) and _holds_cells(X[0][0])
    is_array = issparse(X) or hasattr(X, "__array__") or hasattr(X, "__getitem__")
    return isinstance(X, Iterable) and not is_array


def _holds_cells(value):
    return isinstance(value, list | tuple | Mapping) or issparse(value) or len(getattr(value, "shape", ())) > 0


def read_chunk(chunk) -> Part:
    """Read (X,), (X, y) or (X, y, sample_weight)."""
    if not isinstance(chunk, tuple) or not 1 <= len(chunk) <= 3:
        found = f"one of length {len(chunk)}" if isinstance(chunk, tuple) else f"of type {type(chunk).__name__}"
        raise DataError(f"A chunk is a tuple (X, y) or (X, y, sample_weight), and this is {found}.")
    return read_part(*chunk)


@contextlib.contextmanager
def telling_dropped(data):
    """Say that the rows of a refusal are counted without those of weight 0, where there are any."""
    try:
        yield
    except DataError as error:
        if not data.num_dropped:
            raise
        raise DataError(f"{error} (Rows are counted without the {data.num_dropped} of weight 0.)") from error


@contextlib.contextmanager
def naming_chunk(number):
    """Say in which chunk data were refused, and that what is not declared was inferred from the first one."""
    try:
        yield
    except BayesgenError as error:
        origin = " (What the schema does not declare comes from chunk 1.)" if number > 1 else ""
        raise type(error)(f"Chunk {number}: {error}{origin}") from error
