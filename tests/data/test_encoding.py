"""Cells become the numbers of their kind, or an error that names column, value and row."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from bayesgen.data.number_kinds import refuse_missing_cells
from bayesgen.data.schema import Schema
from bayesgen.data.tables import read_table
from bayesgen.errors import DataError


def encoded(schema, table, columns):
    """The numbers of columns; missing cells are refused, as by a model that needs every cell."""
    cells, observed = schema.encode_cells(table, columns)
    if observed is not None:
        refuse_missing_cells(observed, columns, "Drop or impute them.")
    return cells


def encode(X, kind=None, columns=None):
    """X encoded under its own schema, with every column of one kind."""
    table = read_table(X)
    kinds = {} if kind is None else dict.fromkeys(table.names, kind)
    schema = Schema(kinds=kinds).resolve(table)
    return encoded(schema, table, schema.columns if columns is None else columns)


def refused(function, *words):
    with pytest.raises(DataError) as caught:
        function()
    for word in words:
        assert word in str(caught.value)


# --- real


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_pass_without_a_copy(dtype, order):
    X = np.asarray(np.random.default_rng(0).normal(size=(500, 3)), dtype=dtype, order=order)
    encoded = encode(X)
    assert encoded.dtype == dtype
    assert np.shares_memory(encoded, X)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0, 2], [1, 3]]),
        np.array([[0, 2], [1, 3]], np.uint8),
        [[0, 2], [1, 3]],
        np.array([[0, 2.0], [True, Decimal(3)]], object),
        pd.DataFrame({"a": [0, 1], "b": [2.0, 3.0]}),
        pd.DataFrame({"a": pd.array([0, 1], "Int64"), "b": pd.array([2, 3], "Float32")}),
        pd.DataFrame({"a": [False, True], "b": [2.0, 3.0]}),
        pl.DataFrame({"a": [0, 1], "b": [Decimal(2), Decimal(3)]}),
        {"a": [0, 1], "b": np.array([2, 3], np.float32)},
    ],
)
def test_other_numbers_become_float64(X):
    encoded = encode(X, "real")
    assert encoded.dtype == np.float64
    assert encoded.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_floats_of_more_than_64_bits_become_float64():
    cells = np.array([[1.5, -2.0], [0.1, 3.0]], np.longdouble)
    encoded = encode(cells)
    assert encoded.dtype == np.float64 and (encoded == cells.astype(float)).all()
    if np.finfo(np.longdouble).max > np.finfo(float).max:
        cells[1, 0] = np.finfo(np.longdouble).max
        with pytest.raises(DataError, match=r"'x0' \(1 infinite\)"):
            encode(cells)


def test_huge_values_whose_sums_overflow_pass():
    X = np.full((10_000, 2), 1e305)
    assert np.shares_memory(encode(X), X)
    X = np.full((100_000, 2), 3e38, np.float32)
    assert np.shares_memory(encode(X), X)
    assert encode([[1e150], [-1e150]]).tolist() == [[1e150], [-1e150]]


def test_cells_that_are_no_finite_number_are_counted_by_column():
    X = np.zeros((300_000, 3))  # more than one block of rows
    X[[5, 299_999], 0] = np.nan
    X[7, 2], X[250_000, 2], X[8, 2] = np.inf, -np.inf, np.nan
    refused(lambda: encode(X), "number: 'x2' (2 infinite), the first at row 7. Correct", "NaN where")
    X[[7, 250_000], 2] = 0.0
    refused(lambda: encode(X), "missing in 'x0' (2 missing), 'x2' (1 missing), the first at row 5", "Drop or impute")
    wide = np.full((1, 13), np.nan)
    refused(lambda: encode(wide), "'x9' (1 missing) and 3 more")


@pytest.mark.parametrize(
    "X",
    [
        {"a": [1.0, 2.0], "b": np.array([None, 1.0], object)},
        pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, 1.0]}),
        pd.DataFrame({"a": [1, 2], "b": pd.array([None, 1], "Int64")}),
        pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([pd.NA, 1.0], dtype=object)}),
        pl.DataFrame({"a": [1, 2], "b": [None, 1]}),
    ],
)
def test_missing_cells_of_every_container_are_named(X):
    refused(lambda: encode(X, "real"), "missing in 'b' (1 missing), the first at row")


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [1.0, 2.0], "b": ["3", "abc"]}),
        pl.DataFrame({"a": [1.0, 2.0], "b": ["3", "abc"]}),
        {"a": [1.0, 2.0], "b": ["3", "abc"]},
    ],
)
def test_text_is_no_number_even_where_it_looks_like_one(X):
    refused(lambda: encode(X, "real"), "'b' is real", "'3' at row 0", "Schema(kinds={'b': 'categorical'})")


def test_other_things_are_no_numbers():
    refused(lambda: encode({"a": np.array([1.0, "abc"], object)}, "real"), "'a'", "'abc' at row 1")
    refused(lambda: encode({"a": np.array([1.0, 1j], object)}, "real"), "'a'", "1j at row 1")
    dates = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])})
    refused(lambda: encode(dates, "real"), "'when'", "datetime64")


def test_integers_beyond_64_bits_are_numbers_and_those_beyond_floats_are_refused():
    assert encode({"a": np.array([2**70, 1], object)}, "real").tolist() == [[2.0**70], [1.0]]
    assert encode({"a": np.array([2**70, 1], object)}).tolist() == [[2.0**70], [1.0]]
    assert encode({"a": np.array([2**70, 1], object)}, "categorical").tolist() == [[1], [0]]
    refused(
        lambda: encode({"a": np.array([1, None, -(10**400)], object)}, "real"), "'a'", "at row 2", "larger than any"
    )


def test_numbers_at_learning_and_text_at_prediction_is_refused():
    schema = Schema.infer(pd.DataFrame({"a": [1.0, 2.0]}))
    refused(lambda: encoded(schema, read_table(pd.DataFrame({"a": ["x"]})), ["a"]), "'a'", "'x' at row 0")


# --- binary and count


@pytest.mark.parametrize(
    "X",
    [
        {"a": [True, False]},
        {"a": np.array([1, 0], np.int8)},
        {"a": [1.0, 0.0]},
        {"a": np.array([True, 0], object)},
        pd.DataFrame({"a": pd.array([True, False], "boolean")}),
        pl.DataFrame({"a": [True, False]}),
    ],
)
def test_binary_columns_become_zeros_and_ones(X):
    encoded = encode(X, "binary")
    assert encoded.dtype == np.float64
    assert encoded.tolist() == [[1.0], [0.0]]


def test_other_values_in_a_binary_column_are_refused():
    refused(lambda: encode({"a": [0, 1], "b": [1, 2]}, "binary"), "'b' is binary", "2.0 at row 1", "1 or 0")
    refused(lambda: encode({"a": [0.5]}, "binary"), "'a'", "0.5 at row 0")
    refused(lambda: encode({"a": ["yes"]}, "binary"), "'a' is binary", "'yes' at row 0")
    refused(lambda: encode({"a": [1.0, np.nan]}, "binary"), "'a' (1 missing)", "row 1")
    refused(lambda: encode({"a": [1.0, np.nan, np.inf]}, "binary"), "binary columns", "'a' (1 infinite)")
    refused(lambda: encode({"a": [1.0, np.nan, 2.0]}, "binary"), "'a' is binary", "2.0 at row 2")
    missing = pd.DataFrame({"a": pd.array([True, None], "boolean")})
    refused(lambda: encode(missing), "'a' (1 missing)")
    refused(lambda: encode(pl.DataFrame({"a": [True, None]})), "'a' (1 missing)")


def test_the_kind_that_is_advised_takes_the_cell():
    for cell, kind in ((3, "count"), (-3, "real"), (0.5, "real"), ("yes", "categorical")):
        X = {"a": np.array([1, cell], object)}
        refused(
            lambda X=X: encode(X, "binary"), "at row 1", "True or False, or 1 or 0", f"Schema(kinds={{'a': '{kind}'}})"
        )
        assert encode(X if kind != "categorical" else {"a": ["no", cell]}, kind).shape == (2, 1)


def test_counts_become_floats_and_others_are_refused():
    encoded = encode({"a": np.array([0, 3], np.int16), "b": np.array([1.0, 2.0], np.float32)}, "count")
    assert encoded.dtype == np.float64
    assert encoded.tolist() == [[0.0, 1.0], [3.0, 2.0]]
    late = np.zeros((300_000, 2))
    late[299_999, 1] = -1
    refused(lambda: encode(late, "count"), "'x1' is count", "-1.0 at row 299999", "'real'")
    refused(lambda: encode({"a": [0, 2.5]}, "count"), "'a'", "2.5 at row 1")
    refused(lambda: encode({"a": [np.inf]}, "count"), "'a' (1 infinite)")


def test_counts_whose_factorials_overflow_are_refused():
    most = np.array([[0.0, 1e100]])
    assert encode(most, "count").tolist() == most.tolist()
    for cells in (1e208 * most, scipy.sparse.csr_array(1e208 * most)):
        refused(lambda cells=cells: encode(cells, "count"), "'x1'", "1e+308", "from 0 to 1e+100")


# --- sparse


@pytest.mark.parametrize("kind", ["count", "binary", "real"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64, bool])
def test_sparse_stays_sparse(kind, dtype):
    dense = np.array([[0, 1, 0], [1, 0, 1]])
    encoded = encode(scipy.sparse.csr_matrix(dense.astype(dtype)), kind)
    assert isinstance(encoded, scipy.sparse.csr_array)
    assert encoded.dtype == (dtype if kind == "real" and dtype != np.int32 and dtype is not bool else np.float64)
    assert encoded.toarray().tolist() == dense.tolist()


def test_repeated_entries_of_a_sparse_matrix_are_added_and_the_matrix_stays_as_it_was():
    X = scipy.sparse.csr_array((np.array([1.5, 0.5, 1.0]), [1, 1, 0], [0, 2, 3]), shape=(2, 3))
    assert encode(X).toarray().tolist() == [[0, 2, 0], [1, 0, 0]]
    assert X.data.tolist() == [1.5, 0.5, 1.0]


def test_bad_cells_of_a_sparse_matrix_are_named():
    dense = np.array([[0, 1.0, 0], [0, 0, 0], [2, 0, -3]])
    refused(lambda: encode(scipy.sparse.csr_array(dense)), "'x2' is count", "-3.0 at row 2")
    refused(lambda: encode(scipy.sparse.csc_array(abs(dense)), "binary"), "'x0' is binary", "2.0 at row 2")
    dense[2] = [np.nan, 1.5, np.inf]
    refused(
        lambda: encode(scipy.sparse.csr_array(dense)), "'x0' (1 missing), 'x2' (1 infinite)", "is zero", "X.toarray()"
    )
    dense[2] = [0, 1.5, 0]
    refused(lambda: encode(scipy.sparse.coo_array(dense)), "'x1'", "1.5 at row 2")


# --- categorical


@pytest.mark.parametrize(
    "X",
    [
        {"c": ["red", "blue", "red"]},
        {"c": np.array([3, 1, 3])},
        {"c": np.array([0.5, -0.5, 0.5], np.float32)},
        {"c": [True, False, True]},
        np.array([["b"], ["a"], ["b"]]),
        scipy.sparse.csr_array([[2], [0], [2]]),
        pd.DataFrame({"c": ["red", "blue", "red"]}),
        pd.DataFrame({"c": pd.Categorical([2, 1, 2])}),
        pd.DataFrame({"c": pd.Series(["red", "blue", "red"], dtype=object)}),
        pl.DataFrame({"c": ["red", "blue", "red"]}),
        pl.DataFrame({"c": pl.Series(["red", "blue", "red"], dtype=pl.Categorical)}),
    ],
)
def test_categories_become_codes(X):
    codes = encode(X, "categorical")
    assert codes.dtype == np.int64
    assert codes.tolist() == [[1], [0], [1]]


def test_codes_follow_each_column_s_own_categories():
    frame = pd.DataFrame({"a": ["x", "y", "x"], "n": [1.0, 2.0, 3.0], "b": [7, 5, 6]})
    schema = Schema.infer(frame, declared=Schema(kinds={"b": "categorical"}, categories={"b": [7, 6, 5, 4]}))
    assert encoded(schema, read_table(frame), ["b", "a"]).tolist() == [[0, 0], [2, 1], [1, 0]]
    assert schema.num_values("b") == 4


def test_unknown_and_missing_categories_are_refused():
    schema = Schema.infer(pd.DataFrame({"c": ["red", "blue"], "n": [1.0, 2.0]}))

    def encode_new(values):
        return lambda: encoded(schema, read_table({"c": values, "n": [1.0] * len(values)}), ["c"])

    remedy = "Schema(categories={'c': [...]})"
    refused(encode_new(["red", "green", "pink"]), "'c'", "'green', 'pink'", "row 1", "'blue', 'red'", remedy)
    refused(encode_new(["red", None, None]), "'c' (2 missing)", "row 1")
    refused(encode_new([1, 2]), "1, 2", "'blue', 'red'")
    many = Schema.infer({"c": [f"c{j:02}" for j in range(15)]})
    refused(lambda: encoded(many, read_table({"c": ["new"]}), ["c"]), "'c09' and 5 more")
    refused(lambda: encode({"c": ["red", None]}), "'c' (1 missing)")
    refused(encode_new(["red", None, "green"]), "'c'", "'green'", "row 2")


# --- which columns


def test_columns_of_two_kinds_or_none_or_unknown_are_refused():
    X = {"a": [1.0], "b": [True]}
    refused(lambda: encode(X, columns=["a", "b"]), "one kind", "real", "binary")
    refused(lambda: encode(X, columns=[]), "one kind", "none")
    refused(lambda: encode(X, columns=["c"]), "'c'", "'a', 'b'")
    refused(lambda: encode(np.eye(2), columns=["x2"]), "'x2'")


def test_a_column_of_a_mapping_has_one_cell_a_row():
    X = {"image": np.ones((2, 3, 4), np.float32), "word": [["a", "b"], ["b", "b"]]}
    table = read_table(X)
    schema = Schema().resolve(table)
    refused(lambda: encoded(schema, table, ["image"]), "'image' has shape (2, 3, 4)")
    refused(lambda: encoded(schema, table, ["word"]), "'word' has shape (2, 2)")


def test_inputs_stay_as_they_were():
    X = np.array([[1, 0], [0, 1]])
    kept = X.copy()
    for kind in ("real", "binary", "count", "categorical"):
        encoded = encode(X, kind)
        encoded[:] = 9
        assert np.array_equal(X, kept)
