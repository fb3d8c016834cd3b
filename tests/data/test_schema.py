"""A schema infers, checks and remembers what the columns and labels are, and codes the labels."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from bayesgen.data import BINARY, CATEGORICAL, COUNT, REAL
from bayesgen.data.columns import as_weights
from bayesgen.data.schema import Schema
from bayesgen.data.tables import read_table
from bayesgen.errors import DataError

FRAME = pd.DataFrame({"size": [1.5, 2.5, 3.5], "alive": [True, False, True], "colour": ["red", "blue", "red"]})
LABELS = ["dog", "cat", "dog"]


def refused(function, *words):
    with pytest.raises(DataError) as caught:
        function()
    for word in words:
        assert word in str(caught.value)


# --- resolving


def test_everything_is_inferred():
    schema = Schema.infer(FRAME, LABELS)
    assert schema.columns == ("size", "alive", "colour")
    assert schema.named
    assert schema.kinds == {"size": REAL, "alive": BINARY, "colour": CATEGORICAL}
    assert schema.categories == {"colour": ("blue", "red")}
    assert schema.classes == ("cat", "dog")
    assert schema.num_categories("colour") == 2
    assert schema.columns_of("real") == ("size",)
    assert schema.columns_of("count") == ()


def test_declared_kinds_go_before_implied_before_inferred():
    X = {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    schema = Schema(kinds={"a": "count"}).resolve(read_table(X), implied_kinds={"a": "binary", "b": "categorical"})
    assert schema.kinds == {"a": COUNT, "b": CATEGORICAL, "c": REAL}
    assert schema.categories == {"b": (1, 2)}


def test_declared_kinds_of_an_array_leave_the_other_columns_alone():
    schema = Schema.infer(np.array([[0, 5], [1, 7]]), declared=Schema(kinds={"x1": "categorical"}))
    assert schema.kinds == {"x0": REAL, "x1": CATEGORICAL}
    assert schema.categories == {"x1": (5, 7)}
    assert schema.columns_of("categorical") == ("x1",)


def test_declared_categories_and_classes_keep_their_order_and_their_values_without_rows():
    declared = Schema(categories={"colour": ["red", "green", "blue"]}, classes=["dog", "cow", "cat"])
    schema = Schema.infer(FRAME, LABELS, declared=declared)
    assert schema.categories == {"colour": ("red", "green", "blue")}
    assert schema.classes == ("dog", "cow", "cat")
    assert schema.encode_labels(LABELS).tolist() == [0, 2, 0]


CUPS = pd.Categorical(["small", "tall", "small"], categories=["small", "grand", "tall"], ordered=True)
ENUM = pl.Series(CUPS.tolist(), dtype=pl.Enum(["small", "grand", "tall"]))


@pytest.mark.parametrize(
    "X",
    [pd.DataFrame({"cup": CUPS}), pl.DataFrame({"cup": ENUM}), {"cup": CUPS}, {"cup": pd.Series(CUPS)}, {"cup": ENUM}],
)
def test_the_categories_of_a_dtype_are_declared(X):
    schema = Schema.infer(X)
    assert schema.categories == {"cup": ("small", "grand", "tall")}
    assert schema.encode_cells(read_table(X), ["cup"])[0].tolist() == [[0], [2], [0]]
    assert schema.encode_cells(read_table({"cup": ["grand"]}), ["cup"])[0].tolist() == [[1]]
    stated = Schema.infer(X, declared=Schema(categories={"cup": ["tall", "small"]}))
    assert stated.categories == {"cup": ("tall", "small")}


def test_the_categories_of_numbers_and_booleans_are_declared():
    numbers, answers = (
        pd.Categorical([3, 1, 3], categories=[3, 2, 1]),
        pd.Categorical([True, True, True], [False, True]),
    )
    for X in ({"n": numbers, "b": answers}, pd.DataFrame({"n": numbers, "b": answers})):
        schema = Schema.infer(X)
        assert schema.kinds == {"n": CATEGORICAL, "b": CATEGORICAL}
        assert schema.categories == {"n": (3, 2, 1), "b": (False, True)}
        assert schema.encode_cells(read_table(X), ["n", "b"])[0].tolist() == [[0, 1], [2, 1], [0, 1]]


@pytest.mark.parametrize("y", [CUPS, pd.Series(CUPS), ENUM])
def test_the_classes_of_a_dtype_are_declared(y):
    assert Schema.infer(FRAME, y).classes == ("small", "grand", "tall")
    assert Schema.infer(FRAME, y, declared=Schema(classes=["tall", "small"])).classes == ("tall", "small")
    refused(lambda: Schema.infer(FRAME, pd.Categorical(["a"] * 3)), "only one class, 'a'")


def test_classes_may_be_declared_without_labels_and_may_be_absent():
    assert Schema.infer(FRAME).classes is None
    assert Schema(classes=["b", "a"]).resolve(read_table(FRAME)).classes == ("b", "a")


@pytest.mark.parametrize(
    "X", [FRAME, pl.DataFrame(FRAME), FRAME.to_dict("list"), np.eye(3), scipy.sparse.csr_array(np.eye(3))]
)
def test_resolving_again_and_pickling_change_nothing(X):
    schema = replace(Schema.infer(X, LABELS), mean=np.zeros(3))
    again = schema.resolve(read_table(X), ["cat", "cat", "cat"])
    assert again == schema
    assert again.mean is schema.mean
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_moments_take_no_part_in_comparisons_and_all_else_does():
    schema = Schema.infer(FRAME, LABELS)
    assert replace(schema, mean=np.ones(3), variance=np.ones(3)) == schema
    assert replace(schema, classes=("cat", "dog", "cow")) != schema
    assert Schema.infer(FRAME[["alive", "size", "colour"]], LABELS) != schema


def test_a_schema_reads_well():
    assert repr(Schema(kinds={"a": "count"})) == "Schema(kinds={'a': 'count'})"
    assert repr(Schema()) == "Schema()"
    columns = "['size', 'alive', 'colour'] (1 real, 1 binary, 1 categorical)"
    assert repr(Schema.infer(FRAME, LABELS)) == f"Schema(columns={columns}, classes=['cat', 'dog'])"
    assert len(repr(Schema.infer(np.zeros((2, 500))))) < 100


def test_fifty_thousand_columns_make_no_fifty_thousand_objects():
    X = scipy.sparse.csr_array((2, 50_000))
    schema = Schema.infer(X, [0, 1])
    assert len(pickle.dumps(schema)) < 1000
    assert schema.columns_of("count") is schema.columns
    assert schema.encode_cells(read_table(X), schema.columns)[0].shape == (2, 50_000)


def test_all_columns_of_one_kind_are_the_columns_themselves():
    for X in (np.eye(2), pd.DataFrame(np.eye(2))):
        schema = Schema.infer(X)
        assert schema.columns_of("real") is schema.columns


def test_a_schema_of_names_alone_leaves_sparse_data_sparse():
    X = scipy.sparse.csr_array(np.eye(2))
    schema = Schema.infer(X, declared=Schema(columns=["a", "b"]))
    assert schema.sparse and schema.kinds == {"a": COUNT, "b": COUNT}
    assert schema.resolve(read_table(X)) == schema
    dense = Schema.infer(np.eye(2), kinds={"x0": "count", "x1": "count"})
    assert not dense.resolve(read_table(X)).sparse  # what is resolved stays as it is


def test_resolving_does_not_look_at_the_cells_of_real_columns():
    assert Schema.infer(np.full((3, 2), np.nan), LABELS).kinds == {"x0": REAL, "x1": REAL}


# --- what a schema refuses to say


def test_bad_declarations_are_refused():
    refused(lambda: Schema(kinds={"a": "reel"}), "'a'", "'reel'", "'real', 'binary', 'categorical', 'count'")
    refused(lambda: Schema(classes=[]), "classes are empty")
    refused(lambda: Schema(classes=["a"]), "only one class, 'a'")
    refused(lambda: Schema(classes=["a", "b", "a"]), "classes name 'a' more than once")
    refused(lambda: Schema(classes="ab"), "the text 'ab'")
    refused(lambda: Schema(classes=[["a"], ["b"]]), "classes", "unhashable")
    refused(lambda: Schema(categories={"c": []}), "'c' are empty")
    refused(lambda: Schema(categories={"c": np.array([1, 2, 2])}), "'c' name 2 more than once")
    refused(lambda: Schema(columns=["a", "b", "a"]), "'a', 'a'")
    for missing in (None, float("nan"), np.float32("nan"), pd.NA, pd.NaT):
        refused(lambda missing=missing: Schema(categories={"c": ["a", missing]}), "'c'", "missing value")
    for scale in (np.ones(3), np.ones((3, 5, 2)), np.ones(2, complex), [1.0, 2.0], np.float64(1.0)):
        refused(lambda scale=scale: Schema(columns=["a", "b"], mean=scale), "mean is made by fits")
        refused(lambda scale=scale: Schema(variance=scale), "variance is made by fits")


def test_a_schema_that_does_not_fit_the_table_is_refused():
    def infer(X=FRAME, y=None, implied=None, **declared):
        return lambda: Schema.infer(X, y, declared=Schema(**declared), kinds=implied)

    refused(infer(kinds={"sise": "real"}), "'sise'", "'size', 'alive', 'colour'", "'size' looks like 'sise'")
    refused(infer(implied={"weight": "real"}), "'weight'")
    refused(infer(implied={"size": "reel"}), "'reel'")
    refused(infer(categories={"hue": [1, 2]}), "'hue'")
    refused(infer(np.eye(2), kinds={"size": "real"}), "'size'", "'x0', 'x1'", "by position")
    refused(infer(categories={"size": [1.5]}), "'size' has categories, and is real", "kinds={'size'")
    refused(infer(columns=["size", "alive"]), "Not in the schema: 'colour'")
    refused(infer({"a": [None, None]}, kinds={"a": "categorical"}), "'a'", "every cell is missing")
    refused(infer({"a": np.array([1, "x"], object)}), "'a'", "1 (int)", "'x' (str)")
    refused(infer({"a": np.array([2, True, 3], object)}), "'a'", "True (bool)")
    refused(infer({"a": np.array([[1], [2, 3], None], object)}), "'a' holds lists", "'sequence'")
    refused(lambda: Schema().num_categories("a"), "'a' is not a categorical column")
    refused(lambda: Schema().columns_of("real"), "no columns yet")
    refused(lambda: Schema().check_table(read_table(FRAME)), "no columns yet")


# --- matching a table at prediction


def test_named_columns_may_come_in_any_order():
    schema = Schema.infer(FRAME, LABELS)
    shuffled = FRAME[["colour", "size", "alive"]]
    for X in (shuffled, pl.DataFrame(shuffled), shuffled.to_dict("list")):
        assert schema.encode_cells(read_table(X), ["size"])[0].tolist() == [[1.5], [2.5], [3.5]]


def test_other_columns_are_refused_with_both_sides_and_a_hint():
    schema = Schema.infer(FRAME, LABELS)

    def check(X):
        return lambda: schema.check_table(read_table(X))

    both = ("Missing: 'colour'", "Not in the schema: 'color'", "'color' looks like 'colour'.")
    refused(check(FRAME.rename(columns={"colour": "color"})), *both)
    refused(check(FRAME.drop(columns="alive")), "Missing: 'alive'", "Not in the schema: none")
    refused(check(FRAME.assign(age=1)), "Missing: none", "Not in the schema: 'age'")
    refused(lambda: schema.encode_cells(read_table(FRAME.assign(age=1)), ["size"])[0], "'age'")


def test_an_array_is_taken_by_position():
    schema = Schema.infer(pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}))
    table = read_table(np.array([[5.0, 6.0]]))
    assert schema.encode_cells(table, ["a"])[0].tolist() == [[6.0]]
    assert schema.encode_cells(table, ["a", "b"])[0].tolist() == [[6.0, 5.0]]
    assert schema.encode_cells(table, schema.columns)[0].tolist() == [[5.0, 6.0]]
    refused(lambda: schema.check_table(read_table(np.zeros((1, 3)))), "has 3 columns", "has 2: 'b', 'a'")


def test_a_frame_for_the_schema_of_an_array_needs_its_names():
    schema = Schema.infer(np.zeros((2, 2)))
    frame = pd.DataFrame({"x1": [1.0], "x0": [2.0]})
    assert schema.encode_cells(read_table(frame), schema.columns)[0].tolist() == [[2.0, 1.0]]
    other = read_table(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    refused(lambda: schema.check_table(other), "'x0', 'x1'", "'a', 'b'", "comes from an array")


# --- labels


@pytest.mark.parametrize(
    "y, classes",
    [
        (np.array([3, 1, 3]), (1, 3)),
        (np.array([3, 1, 3], np.int32), (1, 3)),
        (np.array([2.0, -1.0, 2.0], np.float32), (-1.0, 2.0)),
        (np.array([True, False, True]), (False, True)),
        (np.array(["dog", "cat", "dog"]), ("cat", "dog")),
        (np.array([b"dog", b"cat", b"dog"]), (b"cat", b"dog")),
        (np.array(["2021-01-01", "2020-01-01", "2021-01-01"], "M8[D]"), ("2020-01-01", "2021-01-01")),
        (np.array(["dog", "", "cat", "", "dog"])[::2], ("cat", "dog")),  # every second text in memory
    ],
)
def test_classes_are_sorted_and_of_the_labels_own_type(y, classes):
    schema = Schema.infer(np.zeros((3, 1)), y)
    assert np.asarray(schema.classes).dtype == y.dtype
    assert np.asarray(schema.classes).tolist() == np.asarray(classes, dtype=y.dtype).tolist()
    assert schema.encode_labels(y).tolist() == [1, 0, 1]
    assert schema.encode_labels(y).dtype == np.int64


@pytest.mark.parametrize(
    "y",
    [
        LABELS,
        tuple(LABELS),
        np.array(LABELS, object),
        np.array(LABELS, np.dtypes.StringDType()),
        pd.Series(LABELS),
        pd.Series(LABELS, dtype="category"),
        pd.Series(LABELS, dtype=object),
        pl.Series(LABELS),
        pl.Series(LABELS, dtype=pl.Categorical),
    ],
)
def test_labels_of_every_container_have_plain_classes(y):
    schema = Schema.infer(FRAME, y)
    assert schema.classes == ("cat", "dog")
    assert [type(label) for label in schema.classes] == [str, str]
    assert schema.encode_labels(y).tolist() == [1, 0, 1]


def test_labels_have_the_index_of_their_rows():
    refused(lambda: Schema.infer(FRAME, pd.Series(LABELS, index=[7, 8, 9])), "y has another index than X")


def test_many_texts_are_told_apart():
    y = np.array([f"label {j % 997} {'x' * (j % 7)}" for j in range(20_000)])
    schema = Schema.infer(np.zeros((20_000, 1)), y)
    assert list(schema.classes) == sorted(set(y.tolist()))
    assert (np.asarray(schema.classes)[schema.encode_labels(y)] == y).all()


def test_texts_of_one_hash_are_still_told_apart(monkeypatch):
    monkeypatch.setattr("bayesgen.data.categories._hash_text", lambda values: np.zeros(len(values), np.uint64))
    assert Schema.infer(FRAME, np.array(LABELS)).encode_labels(np.array(LABELS)).tolist() == [1, 0, 1]


def test_unfit_labels_are_refused():
    def infer(y):
        return lambda: Schema.infer(FRAME, y)

    refused(infer([]), "y is empty")
    refused(infer(["a", "b"]), "X has 3 rows", "2 labels")
    refused(infer(["a", "b", "a", "b"]), "X has 3 rows", "4 labels")
    refused(infer(["a", "a", "a"]), "only one class, 'a'", "Schema(classes=")
    refused(infer(np.array([[1], [2], [1]])), "(3, 1)", "y.ravel()")
    refused(infer(FRAME[["size"]]), "(3, 1)", "y.ravel()")
    refused(infer(pl.DataFrame({"y": [1, 2, 3]})), "(3, 1)", "y.ravel()")
    refused(infer([1, "a", 1]), "1 (int)", "'a' (str)")
    for missing in (None, np.nan, pd.NA):
        refused(infer(np.array([missing, "a", missing], object)), "only one class, 'a'", "Schema(classes=")
        refused(infer(np.array([missing] * 3, object)), "y has no labels", "Schema(classes=", "Mixture")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array(["b", None, "a"], object), ("a", "b")),
        (["b", np.nan, "a"], ("a", "b")),
        (["b", pd.NA, "a"], ("a", "b")),
        (pd.Series(["b", None, "a"]), ("a", "b")),
        (pd.Series(["b", None, "a"], dtype="string"), ("a", "b")),
        (pd.Series(["b", None, "a"], dtype="category"), ("a", "b")),
        (pl.Series(["b", None, "a"]), ("a", "b")),
        (pl.Series(["b", None, "a"], dtype=pl.Categorical), ("a", "b")),
        (pl.Series(["b", None, "a"], dtype=pl.Enum(["c", "a", "b"])), ("c", "a", "b")),
        (np.ma.masked_array(["b", "zzz", "a"], [False, True, False]), ("a", "b")),
        (np.ma.masked_array([7, 5, 3], [False, True, False]), (3, 7)),
        (np.ma.masked_array([7, 5, 3], False), (3, 5, 7)),
        ([7, None, 3], (3, 7)),
        ([7, float("nan"), 3], (3, 7)),
        ([True, None, False], (False, True)),
        (pd.Series([7, None, 3], dtype="Int64"), (3, 7)),
        (pl.Series([7, None, 3]), (3, 7)),
        (pl.Series([True, None, False]), (False, True)),
        (np.array([7.0, np.nan, 3.0]), (3.0, 7.0)),
        ([2**60, None, 2**60 + 1], (2**60, 2**60 + 1)),
    ],
)
def test_labels_may_be_missing_and_the_others_keep_their_type(y, classes):
    table = read_table(FRAME, y)
    schema = Schema().resolve(table, table.labels)
    assert schema.classes == classes
    assert [type(label) for label in schema.classes] == [type(label) for label in classes]
    codes = schema.label_codes(table.labels).tolist()
    if -1 in codes:
        assert codes == [
            classes.index(value) if known else -1 for value, known in zip(plain(y), (1, 0, 1), strict=True)
        ]
        refused(lambda: schema.encode_labels(y), "y has 1 missing")


def plain(y):
    """Labels as a list; what stands for a missing one does not matter."""
    return y.data.tolist() if isinstance(y, np.ma.MaskedArray) else list(y)


def test_labels_of_no_class_are_refused_with_five_of_them_and_the_classes():
    schema = Schema.infer(FRAME, LABELS)
    refused(lambda: schema.encode_labels(["cat", "cow"]), "'cow'", "row 1", "'cat', 'dog'", "Schema(classes=")
    refused(lambda: schema.encode_labels(list("abcdefg")), "'a', 'b', 'c', 'd', 'e' and 2 more")
    refused(lambda: schema.encode_labels(["cat", None]), "1 missing")
    refused(lambda: schema.encode_labels([None, "cat", "cow"]), "'cow'", "row 2")
    refused(lambda: Schema.infer(FRAME).encode_labels(LABELS), "no classes")
    refused(lambda: Schema.infer(FRAME, [1, 2, 1]).encode_labels(["1"]), "'1'", "classes are 1, 2")


# --- weights


def test_weights_become_floats():
    assert as_weights(None, 3) is None
    assert as_weights([0, 2, 1], 3).dtype == np.float64
    assert as_weights(pd.Series([0, 2, 1], index=[5, 6, 7]), 3).tolist() == [0, 2, 1]
    weights = np.array([0.5, 1.0])
    assert as_weights(weights, 2) is weights


def test_unfit_weights_are_refused():
    refused(lambda: as_weights([1, 2], 3), "(2,)", "3 rows")
    refused(lambda: as_weights([[1], [2]], 2), "(2, 1)")
    refused(lambda: as_weights([1, -2, -3], 3), "2 entries", "-2.0 at row 1")
    refused(lambda: as_weights([1, np.nan], 2), "1 entries", "nan at row 1")
    refused(lambda: as_weights([np.inf, 1], 2), "inf at row 0")
    refused(lambda: as_weights(["1", "2"], 2), "<U1")
