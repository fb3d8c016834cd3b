"""Tables of log-joints in closed form, for models with conjugate blocks: NumPy only, chunked over rows."""

import math

import numpy as np

from bayesgen.runtime import all_in_threads
from bayesgen.statistics import chunks

CHUNK_CELLS = 1 << 20  # of rows x classes x columns: what threads do not wait for each other with
MIN_ROWS = 64


def closed_table(densities, attributes):
    """log p(x_i, y = k), (n, K)."""
    log_class_probs, blocks = densities
    blocks = [(name, density, density.prepare(parameters)) for name, density, parameters in blocks]
    out = np.empty((next(iter(attributes.values())).shape[0], len(log_class_probs)))

    def fill(rows):
        with np.errstate(divide="ignore", over="ignore"):
            table = log_class_probs
            for name, density, parameters in blocks:
                table = table + density.row_log_prob(parameters, _chunk(attributes[name], rows))
        out[rows] = table

    all_in_threads(fill, chunks(len(out), _chunk_rows(attributes, len(log_class_probs))))
    return out


def _chunk_rows(attributes, num_classes):
    cells = max(_cells_per_row(values) for values in attributes.values())
    return int(max(CHUNK_CELLS / (num_classes * max(cells, 1)), MIN_ROWS))


def _cells_per_row(values):
    return values.nnz / max(values.shape[0], 1) if hasattr(values, "tocsr") else math.prod(values.shape[1:])


def _chunk(values, rows):
    part = values[rows]
    return part if hasattr(part, "tocsr") else part.astype(np.float64, copy=False)
