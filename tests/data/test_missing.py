"""Missing cells at the door: every mark of every container becomes a mask, and numbers that harm nothing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.data import REAL, Schema, read_table
from bayesgen.errors import DataError

THERE = [True, False, True, True, False, True]
NUMBERS = {"a": [1.5, None, 3.0, -2.0, None, 0.0], "b": [4.0, 5.0, 6.0, None, 7.0, 8.0]}
COLOURS = ["red", None, "blue", "red", None, "green"]
TRUTHS = [True, None, False, False, None, True]


def encoded(X, kind=None, **declared):
    table = read_table(X)
    kinds = {} if kind is None else dict.fromkeys(table.names, kind)
    schema = Schema(kinds=kinds, **declared).resolve(table)
    return schema, *schema.encode_cells(table, schema.columns)


def nan(values):
    return [np.nan if value is None else value for value in values]


def masked(values, dtype, filling):
    return np.ma.array([filling if v is None else v for v in values], dtype, mask=[v is None for v in values])


NUMERIC = {
    "list of columns": NUMBERS,
    "list of rows": [list(row) for row in zip(*NUMBERS.values(), strict=True)],
    "NaN": np.array([nan(NUMBERS["a"]), nan(NUMBERS["b"])]).T,
    "float32": np.array([nan(NUMBERS["a"]), nan(NUMBERS["b"])], np.float32).T,
    "masked": np.ma.masked_invalid(np.array([nan(NUMBERS["a"]), nan(NUMBERS["b"])]).T),
    "masked columns": {name: masked(values, np.float32, 9.0) for name, values in NUMBERS.items()},
    "pandas": pd.DataFrame(NUMBERS),
    "pandas nullable": pd.DataFrame(NUMBERS, dtype="Float64"),
    "pandas of two dtypes": pd.DataFrame({"a": pd.array(NUMBERS["a"], "Float32"), "b": nan(NUMBERS["b"])}),
    "polars": pl.DataFrame(NUMBERS),
    "polars, NaN and null": pl.DataFrame({"a": NUMBERS["a"], "b": nan(NUMBERS["b"])}),
    "pyarrow": pa.table(NUMBERS),
    "series": {"a": pl.Series(NUMBERS["a"]), "b": pd.Series(NUMBERS["b"], dtype="Float64")},
    "pandas.NA in a list": {name: [pd.NA if v is None else v for v in values] for name, values in NUMBERS.items()},
}


@pytest.mark.parametrize("name", NUMERIC)
def test_real_columns_of_every_container(name):
    schema, values, observed = encoded(NUMERIC[name])
    assert set(schema.kinds.values()) == {REAL}
    expected = np.array([nan(NUMBERS["a"]), nan(NUMBERS["b"])]).T
    np.testing.assert_array_equal(values, expected)  # NaN where NaN
    np.testing.assert_array_equal(observed, ~np.isnan(expected))
    assert observed.dtype == bool and values.dtype.kind == "f"


def test_floats_with_missing_cells_pass_without_a_copy():
    X = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    _, values, observed = encoded(X)
    assert np.shares_memory(values, X) and observed.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("kind", ["real", "binary", "count", "categorical"])
def test_columns_without_missing_cells_have_no_mask(kind):
    X = {"a": np.ma.array([1, 0, 1], mask=False), "b": [1.0, 1.0, 0.0]}
    assert encoded(X, kind)[2] is None
    assert encoded(scipy.sparse.csr_array([[1.0, 0.0], [0.0, 1.0]]), "count")[2] is None


BINARY = {
    "list": {"c": TRUTHS},
    "masked": {"c": masked(TRUTHS, bool, True)},
    "pandas": pd.DataFrame({"c": pd.array(TRUTHS, "boolean")}),
    "pandas array": {"c": pd.array(TRUTHS, "boolean")},
    "polars": pl.DataFrame({"c": TRUTHS}),
    "pyarrow": pa.table({"c": TRUTHS}),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_columns_of_every_container(name):
    schema, values, observed = encoded(BINARY[name])
    assert schema.kind_of("c").name == "binary"
    assert observed[:, 0].tolist() == THERE
    assert values[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0] and values.dtype == np.float64


def test_an_object_column_of_truth_values_is_binary_and_may_be_declared_categorical():
    frame = pd.DataFrame({"c": pd.Series(TRUTHS, dtype=object)})
    schema, values, observed = encoded(frame)
    assert schema.kind_of("c").name == "binary" and not schema.categories
    assert observed[:, 0].tolist() == THERE and values[observed].tolist() == [1, 0, 0, 1]
    schema, values, observed = encoded(frame, "categorical")
    assert schema.categories == {"c": (False, True)}
    assert observed[:, 0].tolist() == THERE and values[observed].tolist() == [1, 0, 0, 1]


CATEGORICAL = {
    "list": {"c": COLOURS},
    "masked": {"c": masked(COLOURS, "U5", "grey")},
    "objects": np.array(COLOURS, object)[:, None],
    "NaN among texts": {"c": nan(COLOURS)},
    "pandas": pd.DataFrame({"c": COLOURS}),
    "pandas texts": pd.DataFrame({"c": pd.array(COLOURS, "string")}),
    "pandas categories": pd.DataFrame({"c": pd.Categorical(COLOURS)}),
    "polars": pl.DataFrame({"c": COLOURS}),
    "polars categories": pl.DataFrame({"c": pl.Series(COLOURS, dtype=pl.Categorical)}),
    "polars enum": {"c": pl.Series(COLOURS, dtype=pl.Enum(["blue", "green", "red"]))},
    "pyarrow": pa.table({"c": COLOURS}),
    "pyarrow dictionary": pa.table({"c": pa.array(COLOURS).dictionary_encode()}),
    "pyarrow series": {"c": pa.chunked_array([pa.array(COLOURS).dictionary_encode()])},
}


@pytest.mark.parametrize("name", CATEGORICAL)
def test_categorical_columns_of_every_container(name):
    schema, values, observed = encoded(CATEGORICAL[name])
    column = schema.columns[0]
    assert schema.categories == {column: ("blue", "green", "red")}
    assert observed[:, 0].tolist() == THERE
    assert values[:, 0].tolist() == [2, 0, 0, 2, 0, 1] and values.dtype == np.int64


def test_masked_integers_stay_integers_as_categories_and_are_counts():
    X = {"n": masked([7, None, 3, 7, None, 2**60], np.int64, 9)}
    assert encoded(X)[0].kinds == {"n": REAL}
    schema, values, observed = encoded(X, "categorical")
    assert schema.categories == {"n": (3, 7, 2**60)}
    assert values[:, 0].tolist() == [1, 0, 0, 1, 0, 2] and observed[:, 0].tolist() == THERE
    _, values, observed = encoded({"n": masked([7, None, 3], np.int64, 9)}, "count")
    assert values[:, 0].tolist() == [7.0, 0.0, 3.0] and observed[:, 0].tolist() == [True, False, True]


@pytest.mark.parametrize(
    "cells, kind",
    [([1, None, 2], "real"), ([True, None], "binary"), (["a", None], "categorical"), ([None, None], "categorical")],
)
def test_the_kind_of_a_list_is_that_of_the_cells_that_are_there(cells, kind):
    assert read_table({"a": cells}).inferred_kind("a") == kind
    assert read_table([[cell] for cell in cells]).inferred_kind("x0") == kind


def test_a_categorical_column_without_any_cell_needs_its_categories():
    with pytest.raises(DataError, match=r"'c' is categorical, and every cell is missing.*declare its values"):
        encoded({"c": [None, None], "a": [1.0, 2.0]})
    _, values, observed = encoded({"c": [None, None]}, categories={"c": ["x", "y"]})
    assert not observed.any() and values.tolist() == [[0], [0]]


def test_cells_that_are_there_are_checked_among_missing_ones():
    for kind, cells, found in (
        ("count", [None, 2.5], "2.5 at row 1"),
        ("binary", [None, 2.0], "2.0 at row 1"),
        ("real", [None, np.inf], "1 infinite"),
        ("categorical", [None, "z"], "'z' (first at row 1)"),
    ):
        declared = {"categories": {"a": ["x", "y"]}} if kind == "categorical" else {}
        with pytest.raises(DataError, match="'a'") as caught:
            encoded({"a": cells}, kind, **declared)
        assert found in str(caught.value)


def test_rows_have_masks_of_the_blocks_that_lack_cells():
    X = pl.DataFrame({"a": NUMBERS["a"], "full": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "c": COLOURS, "t": TRUTHS})
    y = list("uvuvuv")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    rows = fit.read(X)
    assert set(rows.observed) == {"real", "categorical_3", "binary"}
    assert rows.observed["real"].tolist() == [[there, True] for there in THERE]
    whole = fit.read(X.filter(pl.Series(THERE)))
    assert whole.observed == {}


def test_counts_of_one_total_cannot_be_missing():
    X = np.array([[1.0, np.nan, 2.0], [3.0, 1.0, 0.0]])
    with pytest.raises(DataError) as caught:
        bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), X, ["a", "b"], method=bg.Exact())
    for word in ("'x1' (1 missing)", "row 0", "'count' (DirichletMultinomial)", "one total", "GammaPoisson()"):
        assert word in str(caught.value)
    fit = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), np.nan_to_num(X), ["a", "b"], method=bg.Exact())
    with pytest.raises(DataError, match="'x1'"):
        bg.predict(fit, X, rule=bg.BMA())


def test_new_rows_far_away_are_refused_beside_missing_cells():
    X, y = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 1.0], [5.0, 0.0]]), list("aabb")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    with pytest.raises(DataError, match=r"'x1' has 1e\+200 at row 1"):
        bg.predict(fit, [[np.nan, 1.0], [np.nan, 1e200]], rule=bg.BMA())
    near = bg.predict(fit, [[np.nan, 1.0], [np.nan, np.nan]], rule=bg.BMA())
    np.testing.assert_allclose(near.probabilities[1], [0.5, 0.5], rtol=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="Int64")}),
        lambda cells: pl.DataFrame({"a": cells}),
        lambda cells: {"a": pd.Series(pd.array(cells, dtype="Int64"))},
        lambda cells: {"a": pl.Series(cells)},
        lambda cells: {"a": cells},
    ],
)
@pytest.mark.parametrize("values", [(1, 2), (2**53, 2**53 + 1)], ids=["small", "beyond floats"])
def test_integers_beside_missing_cells_are_categories_of_their_own(make, values):
    """As floats, beside NaN, some of them would be equal."""
    cells = [values[0], values[1], None, values[0], values[1], values[0]]
    schema = bg.Schema(kinds={"a": "categorical"})
    found = bg.summarize(bg.NaiveBayes(), make(cells), [0, 1, 0, 1, 0, 1], schema=schema)
    assert found.schema.categories == {"a": values} and all(type(v) is int for v in found.schema.categories["a"])
    np.testing.assert_array_equal(found.statistics.summaries["categorical_2"].totals[0][:, 0], [[1, 1], [2, 1]])
    real = bg.summarize(bg.NaiveBayes(), make(cells), [0, 1, 0, 1, 0, 1]).statistics.summaries["real"]
    np.testing.assert_array_equal(real.count[:, 0], [2, 3])
    np.testing.assert_allclose(real.mean[1], np.mean([values[1], values[0], values[0]]))


def test_masks_inside_of_lists_are_kept():
    rows = [np.ma.array([1.0, 2.0], mask=[row % 2, 0]) for row in range(5)]
    found = bg.summarize(bg.NaiveBayes(), rows, [0, 1, 0, 1, 0]).statistics.summaries["real"]
    np.testing.assert_array_equal(found.count, [[3, 3], [0, 2]])
    lists = {"a": [1, np.ma.masked, 3, 4, 5], "b": ["u", "v", np.ma.masked, "v", "u"]}
    found = bg.summarize(bg.NaiveBayes(), lists, ["x", "y", "x", "y", np.ma.masked])
    assert [kind.name for kind in found.schema.kinds.values()] == ["real", "categorical"] and found.schema.classes == (
        "x",
        "y",
    )
    np.testing.assert_array_equal(found.statistics.summaries["real"].count, [[2], [1]])


def test_integers_of_a_pandas_array_stay_integers():
    array = pd.array([3, None, 5, 3], "Int64")
    schema, _, observed = encoded({"c": array}, "categorical")
    assert list(map(type, schema.categories["c"])) == [int, int] and observed[:, 0].tolist() == [
        True,
        False,
        True,
        True,
    ]
    fit = bg.fit(bg.NaiveBayes(), [[0.0], [2.0], [1.0], [3.0]], array, method=bg.MAP())
    assert fit.classes.dtype == np.int64
