"""Whatever marks a cell as missing does so at every door: values, labels, covariates and weights of programs."""

import decimal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpyro.infer.util import log_density

from bayesgen import GenerativeProgram
from bayesgen.data import read_table
from bayesgen.errors import DataError

X = np.array([0.1, 0.2, 0.3, 0.4])
CODES, NUMBERS = [1, None, 0, 1], [1.5, None, -2.0, 0.5]
MISSING = np.array([False, True, False, False])


def normal(n, y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def logistic(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)


PROGRAMS = {
    "values": GenerativeProgram.from_model(normal, 4, np.zeros(4)),
    "labels": GenerativeProgram.from_model(logistic, X, np.array([0, 1, 0, 1]), label="y"),
    "named labels": GenerativeProgram.from_model(
        logistic, X, np.array([0, 1, 0, 1]), label="y", classes=["lost", "won"]
    ),
}


def masked(cells, dtype):
    return np.ma.masked_array(np.array([0 if cell is None else cell for cell in cells], dtype), MISSING)


MARKS = {
    "NaN": lambda cells: np.array(cells, float),
    "objects": lambda cells: np.array(cells, object),
    "a list": list,
    "a list of NumPy's numbers": lambda cells: [None if cell is None else np.float64(cell) for cell in cells],
    "a list with NA": lambda cells: [pd.NA if cell is None else cell for cell in cells],
    "decimals": lambda cells: np.array([None if cell is None else decimal.Decimal(str(cell)) for cell in cells]),
    "masked": lambda cells: masked(cells, float),
    "a list of masked cells": lambda cells: list(masked(cells, float)),
    "nullable": lambda cells: pd.array(cells, dtype="Float64"),
    "a series of nullable": lambda cells: pd.Series(cells, dtype="Float64"),
    "a series of objects": lambda cells: pd.Series(cells, dtype=object),
    "a series of Arrow": lambda cells: pd.Series(cells, dtype="double[pyarrow]"),
    "polars": lambda cells: pl.Series("cells", cells),
    "Arrow": pa.array,
    "chunks of Arrow": lambda cells: pa.chunked_array([cells]),
}
OF_CODES = {
    "masked integers": lambda cells: masked(cells, np.int64),
    "masked truth values": lambda cells: masked(cells, bool),
    "nullable integers": lambda cells: pd.array(cells, dtype="Int64"),
    "nullable truth values": lambda cells: pd.array(cells, dtype="boolean"),
    "truth values of Arrow": lambda cells: pa.array([None if cell is None else bool(cell) for cell in cells]),
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_missing_value_is_one_at_every_door(mark):
    cells, program = MARKS[mark](NUMBERS), PROGRAMS["values"]
    expected = np.array(NUMBERS, float)
    np.testing.assert_array_equal(program.read(4, cells)[0]["y"], expected)
    np.testing.assert_array_equal(
        GenerativeProgram.from_model(normal, 4, cells).read(4, cells)[0]["y"],
        expected,
    )
    rows = program.read_rows(None, {"y": cells})
    np.testing.assert_array_equal(rows.observed["y"], ~MISSING)
    np.testing.assert_array_equal(np.where(MISSING, np.nan, rows.values["y"]), expected)


@pytest.mark.parametrize("mark", MARKS | OF_CODES)
def test_a_missing_label_is_one_at_every_door(mark):
    cells, expected = (MARKS | OF_CODES)[mark](CODES), np.where(MISSING, np.nan, np.array(CODES, float))
    np.testing.assert_array_equal(PROGRAMS["labels"].read(X, cells)[1], expected)
    assert PROGRAMS["named labels"].read(X, cells)[1].tolist() == ["won", None, "lost", "won"]
    made = GenerativeProgram.from_model(logistic, X, cells, label="y")
    np.testing.assert_array_equal(made.read(X, cells)[1], expected)
    assert made.classes == (0, 1)


@pytest.mark.parametrize("mark", MARKS | OF_CODES)
def test_covariates_and_weights_that_are_missing_are_refused_by_row(mark):
    cells = (MARKS | OF_CODES)[mark](CODES)
    with pytest.raises(DataError, match="Covariate 'x' has 1 missing cells, the first in row 1"):
        PROGRAMS["labels"].read(cells, np.zeros(4))
    with pytest.raises(DataError, match="Covariate 'x' has 1 missing cells, the first in row 1"):
        PROGRAMS["labels"].read_rows(None, {"x": cells})
    with pytest.raises(DataError, match="negative, missing or infinite; the first is nan at row 1"):
        read_table({"x": X}, None, cells)


def test_text_that_is_missing_is_no_category():
    def chosen(n, what=None):
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("rows", n):
            numpyro.sample("what", dist.Categorical(shares), obs=what)

    for cells in (["a", None, "b"], np.ma.masked_array(["a", "b", "b"], [False, True, False])):
        program = GenerativeProgram.from_model(chosen, 3, cells)
        np.testing.assert_array_equal(program.read(3, cells)[0]["what"], [0, np.nan, 1])
    with pytest.raises(DataError, match="'what' has 'z' in row 0, and those of training are 'a', 'b'"):
        program.read(2, ["z", None])


@pytest.mark.parametrize("codes", [[1.0, np.nan], [1, 1, 0, 0, 2, np.nan, np.nan], [1.0, 3, 3]])
def test_codes_may_be_real_numbers(codes):
    """NumPyro takes whole numbers alone, so that the density is that of the rows that are not missing."""

    def drawn(n, code=None):
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(5)))
        with numpyro.plate("rows", n):
            numpyro.sample("code", dist.Categorical(shares), obs=code)

    codes, latents = np.array(codes), {"shares": np.array([0.1, 0.2, 0.3, 0.15, 0.25])}
    program = GenerativeProgram.from_model(drawn, len(codes), codes)
    observed = codes[~np.isnan(codes)].astype(int)
    with jax.enable_x64(True):
        expected = log_density(drawn, (len(observed), observed), {}, latents)[0]
    rows = program.read(len(codes), codes)[0]
    np.testing.assert_allclose(program.log_density(latents, rows), expected, rtol=1e-10)


@pytest.mark.parametrize("value", [2, -1, -2, 0.9, np.inf])
def test_a_label_that_is_no_class_is_refused_by_row(value):
    labels = np.where(np.arange(4) == 2, value, np.array([0, np.nan, 1, 1]))
    with pytest.raises(DataError, match=rf"'y' has {float(value)} in row 2, and its values are 0 to 1, of the classes"):
        PROGRAMS["named labels"].read(X, labels)
