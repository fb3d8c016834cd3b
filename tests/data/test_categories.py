"""Labels and categories become codes, or an error that names value and row."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesgen.data import categories as module
from bayesgen.data import read_table
from bayesgen.data.categories import as_labels, codes_among, distinct_values, factorize
from bayesgen.data.columns import category_array, dtype_categories
from bayesgen.data.schema import Schema
from bayesgen.errors import BayesgenWarning, DataError


@pytest.mark.parametrize(
    "labels",
    [
        np.array([5, 3, 5, 9, 3, 1]),
        np.array(["b", "a", "b", "ccc", "a", "dd"]),
        np.array(["b", "a", None, "ccc", "a", "dd"], dtype=object),
        np.array([2.5, 1.5, np.nan, 1.5, 0.5, 2.5]),
        np.array([True, True, True, False, True, True]),
    ],
)
def test_distinct_values_are_found_block_by_block(labels, monkeypatch):
    whole = distinct_values(labels, "y")
    monkeypatch.setattr(module, "THREAD_CELLS", 2)
    assert distinct_values(labels, "y") == whole
    assert whole == list(dict.fromkeys(v for v in labels.tolist() if not pd.isna(v)))


@pytest.mark.parametrize("column", [list, tuple, pd.Series, pl.Series, pd.Categorical], ids=lambda kind: kind.__name__)
def test_texts_keep_the_null_characters_at_their_ends(column):
    """NumPy drops them from arrays of texts of fixed width, and pandas before 3 takes them for the ends of texts."""
    texts = ["a\0", "a", "a\0b\0", "a"]
    if column is pd.Categorical and len(pd.Categorical(texts).categories) < 3:
        pytest.skip("this pandas merges them itself")
    schema = Schema.infer({"sky": column(texts)}, column(texts), kinds={"sky": "categorical"})
    assert set(schema.categories["sky"]) == set(schema.classes) == set(texts)
    codes = schema.encode_cells(read_table({"sky": column(texts)}), ["sky"])[0][:, 0]
    assert schema.decode("sky", codes).tolist() == texts
    assert category_array(schema.classes)[schema.encode_labels(column(texts))].tolist() == texts
    if column is not pd.Categorical:
        words = Schema.infer({"word": column(texts)}, kinds={"word": "sequence"})
        assert words.categories["word"] == ("\0", "a", "b")


@pytest.mark.parametrize("texts", [["a", "a\0", "b", "a\0"], ["a\0b", "a\0c", None], ["a", "b", "a"]])
def test_texts_that_differ_after_a_null_character_stay_apart_where_pandas_merges_them(texts, monkeypatch):
    """With any pandas, by the way in which those before 3 hash: texts alone as C strings, other objects as they are."""
    hashed = pd.factorize

    def merging(values):
        are_texts = all(isinstance(value, str) for value in values)
        codes, _ = hashed(np.array([value.split("\0")[0] for value in values] if are_texts else values, object))
        return codes, np.array([values[codes.tolist().index(code)] for code in range(codes.max() + 1)], object)

    monkeypatch.setattr(module, "_MERGES_TEXTS", True)
    monkeypatch.setattr(module.pd, "factorize", merging)
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    codes, values = factorize(np.array(texts, object), "y")
    assert values == distinct
    assert codes.tolist() == [distinct.index(text) if text is not None else -1 for text in texts]


def test_a_label_that_is_missing_in_a_later_block_is_counted_in_all_rows(monkeypatch):
    monkeypatch.setattr(module, "THREAD_CELLS", 2)
    labels = ["a", "b", "a", None, None]
    schema = Schema.infer(np.zeros((5, 1)), labels)
    assert schema.classes == ("a", "b")
    with pytest.raises(DataError, match=r"2 missing values \(first at row 3\)"):
        schema.encode_labels(labels)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("known", [(0, 1, 2), (3, 1, 7), (2, 100), (1, 5, 2**40)])
def test_integers_are_looked_up_as_they_are_hashed(dtype, known):
    known = [category for category in known if category <= np.iinfo(dtype).max]
    values = np.random.default_rng(0).choice(np.array(known, dtype), 97)
    codes = codes_among(values, known, "y", "The classes are", "")
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(np.array(known, dtype)[codes], values)
    np.testing.assert_array_equal(codes, codes_among(values.astype(object), known, "y", "The classes are", ""))


def test_an_integer_in_a_gap_between_the_categories_is_unknown():
    with pytest.raises(DataError, match=r"y has 4 \(first at row 2\), which is unknown"):
        codes_among(np.array([1, 7, 4, 1]), [1, 3, 7], "y", "The classes are", "")


def test_integers_beyond_those_of_the_categories_do_not_wrap():
    with pytest.raises(DataError, match="unknown"):
        codes_among(np.array([2**64 - 1, 0], np.uint64), [-1, 0], "y", "The classes are", "")


TEXTS = pd.Categorical(["b", "a"], categories=["c", "b", "a"])


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (TEXTS, ("c", "b", "a")),
        (pd.Series(TEXTS.as_ordered()), ("c", "b", "a")),
        (pd.CategoricalIndex(TEXTS), ("c", "b", "a")),
        (pd.Series([3, 1], dtype=pd.CategoricalDtype([3, 2, 1])), (3, 2, 1)),
        (pl.Series(["b", "a"], dtype=pl.Enum(["c", "b", "a"])), ("c", "b", "a")),
        (pl.Series(["b", "a"], dtype=pl.Categorical), None),
        (pd.Series([None, None], dtype="category"), None),
        (pd.Series(["b", "a"]), None),
        (np.array(["b", "a"]), None),
        (["b", "a"], None),
    ],
)
def test_a_dtype_declares_categories(values, categories):
    assert dtype_categories(values) == categories
    assert categories is None or [type(category) for category in dtype_categories(values)] == [
        type(category) for category in categories
    ]


@pytest.mark.parametrize(
    ("categories", "dtype"),
    [
        ((2**53, 2**53 + 1), np.int64),
        ((0.5, 2**53, 2**53 + 1), object),
        ((-1, 2**64), object),
        ((("a", 1), ("b", 2)), object),
        ((("a",), ("b", 2)), object),
        ((1, "a"), object),
        (("a", "bc"), "U2"),
        ((False, True), bool),
        ((np.float32(0.1), np.float32(0.2)), np.float32),
        (tuple(np.array(["2020-01-01", "2021-01-01"], "M8[ns]")), "M8[ns]"),
        ((), float),
    ],
)
def test_an_array_of_categories_holds_them_as_they_are(categories, dtype):
    array = category_array(categories)
    assert array.shape == (len(categories),) and array.dtype == dtype
    assert all(
        value == category
        for value, category in zip(array.tolist() if dtype is object else array, categories, strict=True)
    )


@pytest.mark.parametrize("y", [[2**53, 2**53 + 1, 0.0], [2**63, 2**63 + 1, -1], [2**70, 2**70 + 1, 0]])
def test_large_integers_are_not_made_equal(y):
    schema = Schema.infer(np.zeros((3, 1)), y)
    assert schema.classes == tuple(sorted(y))
    assert [schema.classes[code] for code in schema.encode_labels(y)] == y
    assert as_labels([0.5, 1, 2]).dtype == np.float64


QUANTITIES = {
    "not whole": np.array([0.5, 1.0, 1.0, 2.0]),
    "not whole, some missing": [0.5, None, 1.0, 1.0],
    "not whole, fractions": np.array([Fraction(1, 2), 1, 2], object),
    "whole, more than half of the rows": np.arange(22) // 2 * 100,
    "whole, more than half of the labels": [*np.arange(11).tolist(), None, None, *[0] * 9],
}
QUANTITIES["whole, more than half of the rows"][0] = -7
CLASSES = {
    "ten digits": np.arange(10),
    "half of the rows": np.arange(24) // 2,
    "whole floats": np.array([1.0, 2.0, np.nan]),
    "truth values": [True, False],
    "texts of numbers": ["0.5", "1.5", "2.5"],
    "a categorical": pd.Series([0.5, 1.5, 2.5], dtype="category"),
    "tuples": pd.Series([(0.5, 1), (1.5, 2)]),
}


@pytest.mark.parametrize("y", QUANTITIES.values(), ids=QUANTITIES)
def test_numbers_that_look_like_a_quantity_are_warned_of_with_what_to_fit(y):
    with pytest.warns(BayesgenWarning, match=r"different numbers in .*LinearRegression\(\).*Schema\(classes") as caught:
        schema = Schema.infer(np.zeros((len(y), 1)), y)
    assert len(caught) == 1 and caught[0].filename == __file__
    declared = Schema.infer(np.zeros((len(y), 1)), y, declared=Schema(classes=schema.classes))  # warns of nothing
    assert declared.classes == schema.classes


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES)
def test_other_labels_are_classes_without_a_word(y):
    assert len(Schema.infer(np.zeros((len(y), 1)), y).classes) >= 2


@pytest.mark.parametrize("start", [-(2**63), -3, 2**31 - 2, 2**63 - 5, 2**63 + 1, 2**64 - 9])
def test_codes_of_integers_at_the_ends_of_their_types(start):
    places = np.array([3, 0, 8, 3, 5])
    values = [start + place for place in places.tolist()]
    dtypes = [dtype for dtype in (np.int64, np.uint64) if np.iinfo(dtype).min <= min(values)]
    dtypes = [dtype for dtype in dtypes if max(values) <= np.iinfo(dtype).max]
    assert dtypes
    for dtype in dtypes:
        for categories in (range(start, start + 9), [start + place for place in (8, 5, 0, 3)]):
            expected = [list(categories).index(value) for value in values]
            assert codes_among(np.array(values, dtype), tuple(categories), "y", "", "").tolist() == expected
