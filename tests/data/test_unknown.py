"""Values that a column never showed in training: refused by name, or missing cells, counted in one warning."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesgen as bg
from bayesgen.runtime import chunking

close = np.testing.assert_allclose
MISSING = bg.Schema(unknown="missing")


def frame(size, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % 2
    X = pd.DataFrame(
        {
            "height": rng.normal(codes, 1.0),
            "food": np.asarray(["leaves", "meat", "roots"])[(codes + rng.permutation(np.arange(size)) // 2) % 3],
            "fur": np.asarray(["long", "short"])[rng.permutation(np.arange(size)) % 2],
            "tame": rng.random(size) < 0.3 + 0.4 * codes,
        }
    )
    return X, np.asarray(["a", "b"])[codes]


@pytest.fixture(scope="module")
def fit():
    return bg.fit(bg.NaiveBayes(), *frame(40), method=bg.Exact(), schema=MISSING)


def strange(size=9):
    """Rows of which three cells of food and one of fur show something new, and the same with these missing."""
    X, y = frame(size, seed=1)
    X.loc[4, "food"] = None  # which is no new value
    new = X.copy()
    new.loc[[1, 2, 7], "food"] = ["stones", "stones", "wood"]
    new.loc[7, "fur"] = "none"
    missing = X.copy()
    missing.loc[[1, 2, 7], "food"] = None
    missing.loc[7, "fur"] = None
    return new, missing, y


@pytest.mark.parametrize("make", [lambda X: X, pl.from_pandas, lambda X: {name: X[name] for name in X}])
@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn()])
def test_they_are_missing_cells_in_new_rows(fit, make, rule):
    new, missing, _ = strange()
    with pytest.warns(
        bg.UnknownValuesWarning, match=r"neither had in training.*: 'food' \(3\), 'fur' \(1\)\."
    ) as record:
        answer = bg.predict(fit, make(new), rule=rule)
    assert len(record) == 1 and record[0].filename == __file__
    close(answer.log_probabilities, bg.predict(fit, make(missing), rule=rule).log_probabilities)  # warns of nothing
    assert not np.allclose(answer.log_probabilities[1], bg.predict(fit, frame(9, 1)[0], rule=rule).log_probabilities[1])


def test_they_are_refused_by_name_where_nothing_else_is_said():
    fit = bg.fit(bg.NaiveBayes(), *frame(40), method=bg.Exact())
    words = r"Column 'food' has 'stones', 'wood' \(first at row 1\).*declare every value.*unknown='missing'"
    with pytest.raises(bg.DataError, match=words):
        bg.predict(fit, strange()[0], rule=bg.BMA())
    with pytest.raises(bg.DataError, match="unknown must be 'error' or 'missing', got 'ignore'"):
        bg.Schema(unknown="ignore")
    assert repr(MISSING) == "Schema(unknown='missing')" and repr(bg.Schema()) == "Schema()"
    assert bg.Schema() != MISSING and bg.Schema() == bg.Schema(unknown="error")


@pytest.mark.parametrize("method", [bg.MLE(), bg.Exact()], ids=["MLE", "Exact"])
def test_later_chunks_and_updates_learn_from_the_other_cells(method):
    (X, y), (new, missing, labels) = frame(40), strange()
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(6\), 'fur' \(2\)") as record:
        chunks = [(X, y), (new, labels), (new, labels)]
        in_chunks = bg.fit(bg.NaiveBayes(), chunks, method=method, schema=MISSING)
    assert len(record) == 1 and record[0].filename == __file__
    expected = bg.fit(bg.NaiveBayes(), [(X, y), (missing, labels), (missing, labels)], method=method)
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(3\), 'fur' \(1\)"):
        first = bg.fit(bg.NaiveBayes(), [(X, y), (new, labels)], method=method, schema=MISSING)
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(3\), 'fur' \(1\)") as record:
        updated = first.update(new, labels)
    assert len(record) == 1 and record[0].filename == __file__
    for name, value in expected.parameters.items():
        close(in_chunks.parameters[name], value, rtol=1e-12)
        if method == bg.MLE() or not name.startswith("real"):  # whose prior is that of the first rows
            close(updated.parameters[name], value, rtol=1e-12)


def test_declared_categories_keep_their_prior_mass():
    X, y = frame(40)
    schema = dataclasses.replace(MISSING, categories={"food": ["leaves", "meat", "roots", "wood"]})
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=schema)
    probs = fit.parameters_of("food")["probs"]
    close(probs[:, 3], 1 / (20 + 4))
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(2\)"):
        bg.predict(fit, strange()[0].assign(fur="long"), rule=bg.BMA())  # wood is known, stones are not


def test_cells_are_counted_whatever_the_threads(fit, monkeypatch):
    monkeypatch.setattr(chunking, "TABLE_CELLS", 1 << 6)
    new, _, labels = strange()
    many = pd.concat([new] * 30, ignore_index=True)
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(90\), 'fur' \(30\)") as record:
        bg.predict(fit, many, rule=bg.BMA())
    with pytest.warns(bg.UnknownValuesWarning, match=r"'food' \(90\), 'fur' \(30\)"):
        fit.update(many, np.tile(labels, 30))
    assert len(record) == 1


def test_numbers_as_categories_and_binary_columns():
    rng = np.random.default_rng(2)
    X, y = rng.integers(1, 4, (30, 2)), np.arange(30) % 2
    X[:3, 0], X[:3, 1] = [1, 2, 3], [1, 2, 3]
    schema = bg.Schema(kinds={"x0": "categorical", "x1": "categorical"}, unknown="missing")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=schema)
    with pytest.warns(bg.UnknownValuesWarning, match=r"'x0' \(1\), 'x1' \(2\)"):
        answer = bg.predict(fit, np.array([[9, 1], [2, 0], [3, -4]]), rule=bg.BMA())
    there = np.array([[np.nan, 1], [2, np.nan], [3, np.nan]])
    close(answer.probabilities, bg.predict(fit, there, rule=bg.BMA()).probabilities)
    binary = bg.Schema(kinds={"x0": "binary", "x1": "binary"}, unknown="missing")
    fit = bg.fit(bg.NaiveBayes(), X % 2, y, method=bg.Exact(), schema=binary)
    with pytest.warns(bg.UnknownValuesWarning, match=r"'x0' \(1\), 'x1' \(1\)"):
        answer = bg.predict(fit, np.array([[2.0, 1.0], [1.0, 0.5], [np.nan, 1.0]]), rule=bg.BMA())
    there = np.array([[np.nan, 1.0], [1.0, np.nan], [np.nan, 1.0]])
    close(answer.probabilities, bg.predict(fit, there, rule=bg.BMA()).probabilities)
    with pytest.raises(bg.DataError, match="1 infinite"):
        bg.predict(fit, np.array([[np.inf, 1.0]]), rule=bg.BMA())


def test_averages_warn_once(fit):
    average = bg.average(
        [fit, bg.fit(bg.NaiveBayes(structure="average"), *frame(40), method=bg.Exact(), schema=MISSING)]
    )
    new, missing, _ = strange()
    with pytest.warns(bg.UnknownValuesWarning) as record:
        answer = bg.predict(average, new, rule=bg.BMA())
    assert len(record) == 1
    close(answer.probabilities, bg.predict(average, missing, rule=bg.BMA()).probabilities)


def test_labels_that_no_class_has_are_refused_all_the_same(fit):
    X, _ = frame(3)
    with pytest.raises(bg.DataError, match="y has 'c'"):
        fit.update(X, ["a", "b", "c"])


def test_complete_data_are_read_as_ever():
    X, y = frame(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taken = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=MISSING)
    plain = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    assert all((taken.parameters[name] == value).all() for name, value in plain.parameters.items())


@pytest.mark.parametrize(
    "cells", [[["x", "y"], ["y", "x"], ["x", "x"]], [[True, False]] * 3], ids=["texts", "booleans"]
)
@pytest.mark.parametrize("unknown", ["missing", "error"])
def test_columns_whose_rows_are_arrays_are_refused_by_name_whatever_becomes_of_unknown_values(cells, unknown):
    schema = bg.Schema(unknown=unknown)
    X, flat = {"a": np.array(cells)}, {"a": np.array(cells)[:, 0]}
    with pytest.raises(bg.DataError, match=r"Column 'a' has shape \(3, 2\), and one value a row is wanted"):
        bg.fit(bg.NaiveBayes(), X, [0, 1, 0], method=bg.Exact(), schema=schema)
    fit = bg.fit(bg.NaiveBayes(), flat, [0, 1, 0], method=bg.Exact(), schema=schema)
    with pytest.raises(bg.DataError, match=r"Column 'a' has shape \(3, 2\), and one value a row is wanted"):
        bg.predict(fit, X, rule=bg.BMA())
