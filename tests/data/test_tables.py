"""Every kind of X reads as one Table, and an X that is no table is refused with what was found."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from bayesgen.data import COUNT, REAL, Schema
from bayesgen.data.columns import PositionalNames
from bayesgen.data.kinds import ColumnKinds
from bayesgen.data.tables import read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError

NUMBERS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MIXED = {"size": [1.5, 2.5], "alive": [True, False], "colour": ["red", "blue"], "legs": [4, 2]}
MIXED_KINDS = {"size": "real", "alive": "binary", "colour": "categorical", "legs": "real"}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


def refused(X, *words):
    with pytest.raises(DataError) as caught:
        read_table(X)
    for word in words:
        assert word in str(caught.value)


# --- arrays


def test_an_array_is_named_by_position():
    table = read_table(NUMBERS)
    assert list(table.names) == ["x0", "x1", "x2"]
    assert not table.named
    assert table.num_rows == 2
    assert table.column("x1").tolist() == [2.0, 5.0]
    assert table.matrix(["x2", "x0"]).tolist() == [[3.0, 1.0], [6.0, 4.0]]
    assert table.matrix([]).shape == (2, 0)


@pytest.mark.parametrize("names", [["x0", "x1", "x2"], PositionalNames(3), ["x1", "x2"], ["x1"]])
def test_columns_of_an_array_in_their_order_are_not_copied(names):
    assert np.shares_memory(read_table(NUMBERS).matrix(names), NUMBERS)


@pytest.mark.parametrize(
    "dtype, kind",
    [
        (bool, "binary"),
        (np.int8, "real"),
        (np.uint64, "real"),
        (np.float32, "real"),
        ("U3", "categorical"),
        (np.dtypes.StringDType(), "categorical"),
    ],
)
def test_the_kind_of_an_array_comes_from_its_dtype(dtype, kind):
    # the values are 0 and 1 throughout: they play no part
    table = read_table(np.array([[0, 1], [1, 0]]).astype(dtype))
    assert table.inferred_kind("x1") == kind == table.uniform_kind
    of_objects = read_table(np.array([[0, 1], [1, 0]]).astype(dtype).astype(object))
    assert of_objects.inferred_kind("x1") == kind and of_objects.uniform_kind is None


def test_a_list_of_lists_reads_as_an_array():
    assert read_table([[1, 2], [3, 4], [5, 6]]).column("x1").tolist() == [2, 4, 6]


@pytest.mark.parametrize("rows", [[[1, "a"], [2, "b"]], [["a", np.nan], ["b", 1.5]]])
def test_numbers_in_a_list_among_texts_stay_numbers(rows):
    assert read_table(rows).matrix(["x0", "x1"]).tolist()[1] == rows[1]


@pytest.mark.parametrize("name", ["x3", "x-1", "x01", "x", "y0", "x²", "x+1", 0])
def test_a_name_that_is_no_position_is_unknown(name):
    table = read_table(NUMBERS)
    assert name not in table.names
    with pytest.raises(KeyError):
        table.inferred_kind(name)


def test_what_is_no_table_is_refused():
    for values in ([1, 2, 3], np.arange(3.0), ["ab", "b", "a"], [[1, 2], [3], [4]]):
        refused(values, "shape (3,)", "{'v': X} makes it one column", "{'v': [X]} one column with one sequence")
    for series in (pd.Series(["ab", "b"]), pl.Series([1.0, 2.0])):
        refused(series, "series of 2 values", "X.to_frame() makes it one column", "{'v': [X]} one column with one")
    refused(np.zeros((2, 3, 4)), "3 dimensions", "(2, 3, 4)")
    refused(5.0, "0 dimensions")
    refused(None, "0 dimensions")
    refused(np.zeros((0, 3)), "0 rows and 3 columns")
    refused(np.zeros((3, 0)), "3 rows and 0 columns")
    refused([[1, 2], [3]], "one length")
    refused(np.zeros((2, 2), complex), "complex128")
    refused(np.zeros((2, 2), "M8[D]"), "datetime64")


def test_a_masked_array_without_masked_cells_is_an_array():
    assert read_table(np.ma.masked_equal(NUMBERS, 7.0)).matrix(["x0", "x1", "x2"]).tolist() == NUMBERS.tolist()


# --- frames


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_keeps_its_names_and_infers_kinds_by_dtype(library):
    table = read_table(FRAMES[library](MIXED))
    assert table.names == ("size", "alive", "colour", "legs")
    assert table.named
    assert table.num_rows == 2
    assert {name: table.inferred_kind(name) for name in table.names} == MIXED_KINDS
    assert table.column("colour").tolist() == ["red", "blue"]
    assert table.matrix(["legs", "size"]).tolist() == [[4.0, 1.5], [2.0, 2.5]]
    assert table.matrix([]).shape == (2, 0)


@pytest.mark.parametrize(
    "column, kind",
    [
        (pd.Series([1, 2], dtype="category"), "categorical"),
        (pd.Series([1, 2], dtype=object), "real"),
        (pd.Series(["a", None]), "categorical"),
        (pd.Series([1, None], dtype="Int64"), "real"),
        (pd.Series([True, None], dtype="boolean"), "binary"),
        (pl.Series(["a", "b"], dtype=pl.Categorical), "categorical"),
        (pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), "categorical"),
    ],
)
def test_kinds_of_less_common_columns(column, kind):
    frame = pd.DataFrame({"c": column}) if isinstance(column, pd.Series) else pl.DataFrame({"c": column})
    assert read_table(frame).inferred_kind("c") == kind
    assert read_table({"c": column}).inferred_kind("c") == kind  # a series in a mapping keeps its dtype


def test_a_float32_frame_is_not_copied():
    frame = pd.DataFrame(np.ones((3, 2), np.float32), columns=["a", "b"])
    matrix = read_table(frame).matrix(["a", "b"])
    assert matrix.dtype == np.float32
    assert np.shares_memory(matrix, frame.to_numpy())


def test_names_of_a_frame_become_text_and_the_frame_stays_as_it_was():
    frame = pd.DataFrame({0: [1.0], ("a", 1): [2.0]})
    table = read_table(frame)
    assert table.names == ("0", "('a', 1)")
    assert table.column("('a', 1)").tolist() == [2.0]
    assert list(frame.columns) == [0, ("a", 1)]


def test_names_that_clash_are_refused():
    refused(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), "'a', 'a'")
    refused(pa.table([[1], [2]], names=["a", "a"]), "'a', 'a'")
    refused(pd.DataFrame([[1, 2]], columns=[1, "1"]), "1, '1'")
    refused({1: [1], "1": [2]}, "1, '1'")


def test_frames_that_are_no_table_are_refused():
    refused(pd.Series([1, 2]), "series of 2 values", "to_frame()", "df.iloc[[0]]")
    refused(pl.Series([1, 2]), "series of 2 values")
    refused(pl.LazyFrame({"a": [1]}), "one by one", "polars: 1 rows of 1 columns", "Collect")
    refused(pd.DataFrame({"a": []}), "0 rows and 1 columns")
    refused(pl.DataFrame(), "0 rows and 0 columns")


def test_a_dtype_without_a_kind_is_refused_by_name():
    table = read_table(pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(DataError, match=r"'when' has dtype Datetime.*drop it"):
        table.inferred_kind("when")


# --- sparse


@pytest.mark.parametrize("container", ["matrix", "array"])
@pytest.mark.parametrize("form", FORMATS)
def test_sparse_of_every_format_reads_as_counts(form, container):
    dense = np.array([[0, 2, 0], [1, 0, 3]])
    X = getattr(scipy.sparse, f"{form}_{container}")(dense)
    table = read_table(X)
    assert list(table.names) == ["x0", "x1", "x2"]
    assert not table.named
    assert table.inferred_kind("x2") == "count"
    assert table.matrix(table.names).format == "csr"
    assert table.matrix(table.names).toarray().tolist() == dense.tolist()
    assert table.matrix(["x2", "x0"]).toarray().tolist() == dense[:, [2, 0]].tolist()
    assert table.column("x2").tolist() == [0, 3]


def test_all_columns_of_a_csr_are_not_copied():
    X = scipy.sparse.csr_array(NUMBERS)
    assert np.shares_memory(read_table(X).matrix(["x0", "x1", "x2"]).data, X.data)


def test_sparse_without_rows_or_in_one_dimension_is_refused():
    refused(scipy.sparse.csr_array((0, 3)), "0 rows and 3 columns")
    refused(scipy.sparse.coo_array([1, 2, 3]), "shape (3,)")


# --- mappings


def test_a_mapping_reads_by_name_and_may_hold_arrays_of_any_rank():
    table = read_table({**MIXED, "image": np.zeros((2, 4, 4), np.float32), "flags": np.ones((2, 3), bool)})
    assert table.names == (*MIXED, "image", "flags")
    assert table.named
    assert table.num_rows == 2
    assert {name: table.inferred_kind(name) for name in MIXED} == MIXED_KINDS
    assert table.inferred_kind("image") == "real"
    assert table.inferred_kind("flags") == "binary"
    assert table.column("image").shape == (2, 4, 4)
    assert table.matrix(["legs", "size"]).tolist() == [[4.0, 1.5], [2.0, 2.5]]
    assert table.matrix(["legs", "colour"]).tolist() == [[4, "red"], [2, "blue"]]  # 4, not "4"
    assert table.matrix([]).shape == (2, 0)


def test_one_column_of_a_mapping_is_not_copied():
    values = np.ones(5, np.float32)
    assert np.shares_memory(read_table({"a": values}).matrix(["a"]), values)


def test_mappings_that_are_no_table_are_refused():
    refused({"a": [1, 2], "b": [1, 2, 3]}, "'a' has 2 rows", "'b' has 3")
    refused({"a": 3.0}, "'a'", "float")
    refused({"a": "text"}, "'a'", "str")
    refused({}, "0 rows and 0 columns")
    refused({"a": []}, "0 rows and 1 columns")
    with pytest.raises(DataError, match=r"'a' holds lists, which are not of one length.*'sequence'"):
        Schema.infer({"a": [[1], [1, 2]]})
    refused({"a": [1j]}, "'a'", "complex128")


def test_a_column_of_rank_two_is_no_part_of_a_matrix():
    with pytest.raises(DataError, match=r"'image' has shape \(2, 4\)"):
        read_table({"image": np.zeros((2, 4)), "a": [1, 2]}).matrix(["a", "image"])


# --- names and kinds at no cost


def test_positional_names_are_a_sequence():
    names = PositionalNames(12)
    assert names == PositionalNames(12) == [f"x{j}" for j in range(12)]
    assert names != PositionalNames(13)
    assert names != ["x0"]
    assert names[-1] == "x11"
    assert list(names[1:3]) == ["x1", "x2"]
    assert pickle.loads(pickle.dumps(names)) == names
    with pytest.raises(IndexError):
        names[12]


def test_column_kinds_are_a_mapping():
    kinds = ColumnKinds(PositionalNames(3), REAL, {"x1": COUNT, "x2": REAL})
    same = {"x0": REAL, "x1": COUNT, "x2": REAL}
    assert dict(kinds) == same
    assert kinds == same
    assert same == kinds
    assert kinds == ColumnKinds(PositionalNames(3), REAL, {"x1": COUNT})
    assert kinds == ColumnKinds(PositionalNames(3), COUNT, {"x0": REAL, "x2": REAL})
    assert kinds != ColumnKinds(PositionalNames(3), REAL, {"x0": COUNT})
    assert kinds != ColumnKinds(PositionalNames(4), REAL, {"x1": COUNT})
    with pytest.raises(KeyError):
        kinds["x3"]


def test_quoted_values_are_few_and_plain():
    assert quote_some(np.array([1, 2])) == "1, 2"
    assert quote_some(["a", np.str_("b")]) == "'a', 'b'"
    assert quote_some(range(12), 3) == "0, 1, 2 and 9 more"
