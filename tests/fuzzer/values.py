"""Values that are out of place, and data with such a cell."""

import datetime
import decimal
import fractions
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse

import bayesgen as bg


def _circular() -> list:
    values: list = []
    values.append(values)
    return values


NUMBERS = [0, -1, 1, 2, 3, 1e308, -1e308, 5e-324, 1e-300, 1e150, 1e17, 10**400, -(2**63), 2**63, 0.5, -0.0]
NUMBERS += [np.nan, np.inf, -np.inf, True, np.float32(3.5), np.int8(-128), np.uint64(2**64 - 1), np.float16(6e4)]
TEXTS = [
    "",
    " ",
    "a",
    "calm",
    "x0",
    "\0",
    "=1+1",
    "../../etc/passwd",
    "é" * 3,
    "\ud800",
    "nan",
    "None",
    "mean",
    "x" * 5000,
]
OBJECTS = [
    None,
    b"bytes",
    1j,
    pd.NaT,
    pd.NA,
    datetime.date(2020, 2, 29),
    datetime.datetime.now(datetime.UTC),
]
OBJECTS += [
    decimal.Decimal("1.5"),
    decimal.Decimal("NaN"),
    fractions.Fraction(1, 3),
    pd.Timedelta(1),
    pd.Interval(0, 1),
]
OBJECTS += [object(), int, len, bg, bg.fit, bg.Exact, bg.Exact(), bg.BMA(), bg.NaiveBayes, bg.BetaBernoulli(), ...]
CONTAINERS: list[Callable[[], Any]] = [
    list,
    dict,
    tuple,
    set,
    _circular,
    lambda: iter([1, 2]),
    lambda: (value for value in "ab"),
    lambda: range(7),
    lambda: np.array(3.0),
    lambda: np.zeros(0),
    lambda: np.zeros((0, 2)),
    lambda: np.zeros((7, 0)),
    lambda: np.zeros((2, 3, 5)),
    lambda: np.full((7, 2), np.nan),
    lambda: np.zeros(7),
    lambda: np.arange(14.0).reshape(7, 2),
    lambda: np.full(7, "a"),
    lambda: np.array([1, "a", None, 2.5, (), [], {}], object),
    lambda: np.zeros(7, "datetime64[D]"),
    lambda: np.zeros(7, complex),
    lambda: np.zeros(7, [("a", float), ("b", int)]),
    lambda: [[1, 2], [3]],
    lambda: [1, [2]],
    lambda: [None] * 7,
    lambda: ["a"] * 7,
    lambda: [True] * 7,
    lambda: {"a": 1},
    lambda: {1: [1, 2]},
    lambda: {None: [1]},
    lambda: {"a": [1, 2], "b": [1]},
    lambda: {"a": {"b": 1}},
    lambda: pd.DataFrame(),
    lambda: pd.DataFrame({"a": [1, 2]}),
    lambda: pd.Series(range(7), index=[3] * 7),
    lambda: pd.DataFrame(np.zeros((7, 2)), columns=["a", "a"]),
    lambda: pd.DataFrame({("a", 1): [1.0]}),
    lambda: pd.Series([1, 2]),
    lambda: pd.Categorical(["a", None, "b", "a", "a", "b", "b"]),
    lambda: pd.DataFrame({"a": pd.date_range("2020", periods=7)}),
    lambda: pd.DataFrame(np.zeros((7, 2)), index=pd.MultiIndex.from_product([[1], range(7)])),
    lambda: pl.DataFrame({"a": [[1], [2]]}),
    lambda: pl.DataFrame(),
    lambda: pl.Series([1, None]),
    lambda: pl.LazyFrame({"a": [1.0]}),
    lambda: scipy.sparse.eye(7).tocoo(),
    lambda: scipy.sparse.csr_array((7, 2)),
    lambda: scipy.sparse.csr_array(np.full((7, 2), np.nan)),
    lambda: np.ma.masked_all((7, 2)),
    lambda: np.matrix([[1, 2]]),
    lambda: memoryview(b"abc"),
    lambda: io.StringIO("a,b\n1,2\n"),
    lambda: Path("none.csv"),
]


def hostile(rng: np.random.Generator) -> Any:
    """A value that may be out of place."""
    kind = rng.integers(4)
    if kind == 3:
        return CONTAINERS[rng.integers(len(CONTAINERS))]()
    values: list = (NUMBERS, TEXTS, OBJECTS)[kind]
    return values[rng.integers(len(values))]


def chosen(rng: np.random.Generator, values: Any) -> Any:
    values = list(values)
    return values[rng.integers(len(values))]


def spoiled_cell(value: Any, rng: np.random.Generator) -> Any:
    """The data with one cell of another kind."""
    cell = hostile(rng)
    if isinstance(value, dict) and value:
        name = chosen(rng, value)
        return {**value, name: spoiled_cell(value[name], rng)}
    if isinstance(value, pl.DataFrame) and value.columns:
        name = chosen(rng, value.columns)
        return value.with_columns(pl.Series(name, list(spoiled_cell(value[name].to_numpy(), rng)), dtype=pl.Object))
    if isinstance(value, pd.DataFrame) and value.size:
        changed = value.astype(object)
        changed.iat[rng.integers(len(value)), rng.integers(value.shape[1])] = cell
        return changed
    if not isinstance(value, np.ndarray) or not value.size:
        return cell
    changed = value.astype(object)
    place = tuple(int(rng.integers(size)) for size in value.shape)
    changed[place] = cell
    if rng.integers(2):
        try:
            return changed.astype(value.dtype)
        except (TypeError, ValueError, OverflowError, np.ma.MaskError):
            pass
    return changed
