"""Memory beyond the input while training, each in a process of its own: it must not grow with the number of rows."""

import functools
import re
from pathlib import Path

import numpy as np
import scipy.sparse

import bayesgen as bg

from .fresh import call
from .measure import Below, Row

COLUMNS, CLASSES, CHUNK = 20, 5, 100_000
LIMIT = 200.0  # MB
KINDS = ("chunks", "float32", "float64", "whole_numbers", "pandas", "polars", "sparse")


def measures(quick):
    """One line for each kind of input."""
    num_rows = 1_000_000 if quick else 5_000_000
    for kind in KINDS:
        yield functools.partial(_line, kind, num_rows)


def _line(kind, num_rows):
    name = kind.replace("_", " ")
    shape = f"{num_rows:,} x {10 * COLUMNS if kind == 'sparse' else COLUMNS}"
    work = f"fit naive Bayes, {name}, {shape}: memory beyond the input"
    if kind == "chunks":
        work += f" (made {CHUNK:,} rows at a time: a chunk is part of the figure)"
    return Row(work, Below(LIMIT), [call("memory.extra", kind, num_rows)], unit="MB")


def extra(kind, num_rows):
    """Megabytes by which the process grows at most while it fits, the data being there already."""
    make = MAKERS[kind]
    _fit(*make(1000))  # imports, threads
    X, y = make(int(num_rows))
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    _fit(X, y)
    return _status("VmHWM") - before


def _fit(X, y):
    return bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())


def _status(name):
    """A line of the kernel's account of this process, in MB (Linux only)."""
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024 / 1e6


def _dense(num_rows, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.standard_normal((num_rows, COLUMNS), dtype=dtype), rng.integers(0, CLASSES, num_rows)


def _chunks(num_rows):
    return (_dense(min(CHUNK, num_rows - start)) for start in range(0, num_rows, CHUNK)), None


def _whole_numbers(num_rows):
    rng = np.random.default_rng(0)
    return rng.integers(0, 100, (num_rows, COLUMNS), dtype=np.int32), rng.integers(0, CLASSES, num_rows)


def _pandas(num_rows):
    import pandas

    X, y = _dense(num_rows)
    return pandas.DataFrame(X).add_prefix("c"), y


def _polars(num_rows):
    import polars

    X, y = _dense(num_rows)
    return polars.DataFrame(X), y


def _sparse(num_rows):
    """Counts with a tenth of the cells stored."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 10 * COLUMNS, num_rows * COLUMNS, dtype=np.int32)
    bounds = np.arange(0, columns.size + 1, COLUMNS)
    X = scipy.sparse.csr_array((np.ones(columns.size), columns, bounds), shape=(num_rows, 10 * COLUMNS))
    X.sum_duplicates()
    return X, rng.integers(0, CLASSES, num_rows)


MAKERS = {
    "chunks": _chunks,
    "float32": _dense,
    "float64": functools.partial(_dense, dtype=np.float64),
    "whole_numbers": _whole_numbers,
    "pandas": _pandas,
    "polars": _polars,
    "sparse": _sparse,
}
