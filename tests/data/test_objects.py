"""Cells that are Python objects: their kind is that of the observed ones, whatever container holds them."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesgen as bg
from bayesgen import DataError, Schema
from bayesgen.data import read_table
from bayesgen.sklearn import NaiveBayesClassifier

RNG = np.random.default_rng(0)
CLASSES = np.repeat([0, 1], 20)
TYPED = pd.DataFrame(
    {
        "height": np.where(RNG.random(40) < 0.2, np.nan, RNG.normal(CLASSES, 1.0)),
        "member": pd.array(np.where(RNG.random(40) < 0.2, None, RNG.random(40) < 0.3 + 0.4 * CLASSES), "boolean"),
        "colour": np.where(RNG.random(40) < 0.2, None, np.array(["red", "blue"])[RNG.integers(0, 2, 40)]),
        "legs": RNG.integers(0, 9, 40),
    }
)
OBJECTS = TYPED.astype(object).where(TYPED.notna(), None)
KINDS = {"height": "real", "member": "binary", "colour": "categorical", "legs": "real"}

DOORS = {
    "frame": lambda frame: frame,
    "array": lambda frame: frame.to_numpy(),
    "nested list": lambda frame: frame.to_numpy().tolist(),
    "mapping of arrays": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "mapping of lists": lambda frame: {name: frame[name].tolist() for name in frame},
    "mapping of series": lambda frame: {name: frame[name].reset_index(drop=True) for name in frame},
    "masked array": lambda frame: np.ma.masked_array(np.where(frame.isna(), 0, frame), frame.isna().to_numpy()),
    "polars objects": lambda frame: pl.DataFrame(
        {name: pl.Series(frame[name].tolist(), dtype=pl.Object) for name in frame}
    ),
    "polars": lambda frame: pl.DataFrame({name: frame[name].tolist() for name in frame}),
}


def probabilities(X, X_new):
    return bg.predict(bg.fit(bg.NaiveBayes(), X, CLASSES, method=bg.Exact()), X_new, rule=bg.BMA()).probabilities


@pytest.mark.parametrize("door", DOORS)
def test_objects_are_read_as_columns_of_their_own_types(door):
    X, X_new = DOORS[door](OBJECTS), DOORS[door](OBJECTS.iloc[::3])
    assert [kind.name for kind in Schema.infer(X).kinds.values()] == list(KINDS.values())
    np.testing.assert_allclose(probabilities(X, X_new), probabilities(TYPED, TYPED.iloc[::3]), rtol=1e-12)


@pytest.mark.parametrize("door", ["frame", "mapping of arrays"])
def test_new_rows_may_hold_numbers_that_training_rows_do_not(door):
    later = OBJECTS.assign(height=0.123, legs=77)
    expected = probabilities(TYPED, TYPED.assign(height=0.123, legs=77))
    np.testing.assert_allclose(probabilities(DOORS[door](OBJECTS), DOORS[door](later)), expected, rtol=1e-12)


def test_an_estimator_reads_a_frame_of_objects_likewise():
    answers = [NaiveBayesClassifier().fit(X, CLASSES).predict_proba(X) for X in (OBJECTS, TYPED)]
    np.testing.assert_allclose(*answers, rtol=1e-12)


@pytest.mark.parametrize(
    "cells, kind",
    [
        ([Decimal("0.5"), 1, 2.5, None], "real"),
        ([Fraction(1, 3), np.float32(2), np.int8(1)], "real"),
        ([True, np.bool_(False), pd.NA], "binary"),
        (["a", None, np.nan], "categorical"),
        ([datetime.date(2020, 1, 1), None], "categorical"),
        ([None] * 150 + [1.5, 2.5], "real"),
        ([1.5] * 150 + ["a"], "categorical"),
    ],
)
def test_the_kind_comes_from_the_types_of_all_observed_cells(cells, kind):
    series = pd.Series(cells, dtype=object)
    for X in (pd.DataFrame({"x0": series}), {"x0": series}, {"x0": series.to_numpy()}, series.to_numpy()[:, None]):
        assert read_table(X).inferred_kind("x0") == kind


def test_a_column_of_an_array_without_observed_cells_is_of_the_kind_of_the_others():
    assert read_table([[1, None], [2, None]]).inferred_kind("x1") == "real"
    assert read_table([["a", None], ["b", None]]).inferred_kind("x1") == "categorical"
    masked = np.ma.masked_array([3, 4], [True, True])
    assert read_table({"a": masked}).inferred_kind("a") == "real"  # as its dtype says


@pytest.mark.parametrize("cells", [[1.5, "n.a.", 2.5], [True, 2, False], ["a"] * 150 + [1]])
def test_a_mixture_of_types_is_refused_with_its_types(cells):
    with pytest.raises(DataError, match=r"'c' has values with no common order: .*\((float|bool|str)\).*one type.*None"):
        Schema.infer(pd.DataFrame({"c": pd.Series(cells, dtype=object)}))
