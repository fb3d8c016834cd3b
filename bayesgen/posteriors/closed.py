"""Tables of log-joints in closed form, for models with conjugate blocks: NumPy only, chunked over rows."""

import dataclasses
import math
from typing import Any

import numpy as np

from bayesgen.data import Rows
from bayesgen.models import Densities
from bayesgen.runtime import all_in_threads, even_chunks
from bayesgen.typing import Float

CHUNK_CELLS = 1 << 20  # of rows x classes x columns: what threads do not wait for each other with


def closed_table(densities: Densities, rows: Rows) -> Float[np.ndarray, "n K"]:
    """log p(x_i, y = k): log class probabilities, and the log densities of the blocks given the class."""
    log_class_probs, _ = densities
    out = np.empty((rows.num_rows, len(log_class_probs)))

    def fill(part: slice) -> None:
        out[part] = chunk_table(densities, rows, part)

    all_in_threads(fill, even_chunks(rows.num_rows, CHUNK_CELLS / numbers_per_row(rows, len(log_class_probs))))
    return out


def numbers_per_row(rows: Rows, num_classes: int) -> float:
    """How many numbers are made of a row at once, of the site where they are most."""
    return float(max(_numbers_per_row(values, num_classes) for values in rows.values.values()))


def chunk_table(densities: Densities, rows: Rows, part: slice) -> Float[np.ndarray, "n K"]:
    """The table of some successive rows, made in this thread."""
    table, blocks = densities
    chunk = rows.take(part)
    precise = dataclasses.replace(chunk, values={name: _precise(values) for name, values in chunk.values.items()})
    with np.errstate(divide="ignore", over="ignore"):
        for name, density in blocks:
            table = table + density.log_prob_of(chunk if density.takes_codes else precise, name)
    return table


def _numbers_per_row(values: Any, num_classes: int) -> int | float:
    if hasattr(values, "tocsr"):  # no table of rows, classes and columns is made of them
        return num_classes + values.nnz / max(values.shape[0], 1)
    return num_classes * max(math.prod(values.shape[1:]), 1)


def _precise(values: Any) -> Any:
    """Values in double precision where they are dense."""
    return values if hasattr(values, "tocsr") else values.astype(np.float64, copy=False)
