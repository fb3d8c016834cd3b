"""Answers score themselves as `compare` scores them, pair labels by index, and count confusions."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.prediction.scorers import ClassScorer

INDEX = pd.Index(list("pqrstu"), name="animal")
X = pd.DataFrame({"height": [1.0, 2.0, 3.0, 7.0, 8.0, 9.0], "fur": list("aaabbc")}, INDEX)
Y = pd.Series(["low", "low", "high", "high", "high", "low"], INDEX)
NUMBERS = X.height * 2 + [0.1, -0.3, 0.2, 0.0, 0.4, -0.1]
METHODS = [(bg.Exact(), bg.BMA())]


def scores_of(comparison):
    (row,) = comparison.table.to_dict("records")
    return row


def test_classes_are_scored_as_by_compare():
    fit = bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact())
    found = bg.predict(fit, X, rule=bg.BMA()).score(Y)
    expected = scores_of(bg.compare(bg.NaiveBayes(), X, Y, X, Y, methods=METHODS))
    assert set(found) == {"accuracy", "log_score", "brier", "ece", "impossible", "ruled_out"}
    assert found == {name: expected[name] for name in found}


def test_numbers_are_scored_as_by_compare():
    model, rows = bg.LinearRegression(), X[["height"]]
    found = bg.predict(bg.fit(model, rows, NUMBERS, method=bg.Exact()), rows, rule=bg.BMA()).score(NUMBERS)
    expected = scores_of(bg.compare(model, rows, NUMBERS, rows, NUMBERS, methods=METHODS))
    assert {"log_score", "rmse", "crps", "coverage_95", "width_50", "impossible"} <= set(found)
    assert found == {name: expected[name] for name in found}


def test_confusions_are_counted_with_impossible_rows_in_a_column_of_their_own():
    answer = bg.predict(bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact()), X, rule=bg.BMA())
    pd.testing.assert_frame_equal(
        answer.confusion(Y), pd.crosstab(Y.rename("truth"), pd.Series(answer.labels, INDEX, name="label"))
        .reindex(index=answer.classes, columns=answer.classes, fill_value=0)
        .rename_axis(index="truth", columns="label"),
        check_index_type=False, check_column_type=False,
    )  # fmt: skip
    fit = bg.fit(bg.NaiveBayes(), {"fur": list("aabb"), "tail": list("ccdd")}, list("xxyy"), method=bg.MLE())
    with pytest.warns(bg.ImpossibleRowsWarning):
        broken = bg.predict(fit, {"fur": list("aab"), "tail": list("cdd")}, rule=bg.PlugIn())
    counts = broken.confusion(["x", "x", "x"])
    assert counts.columns.tolist() == ["x", "y", None] and counts.to_numpy().tolist() == [[1, 1, 1], [0, 0, 0]]
    assert broken.score(["x", "x", "x"])["impossible"] == 1


def test_rows_whose_probabilities_are_furthest_apart_come_first():
    scorer = ClassScorer.of(np.array(["no", "yes"]), ["no", "yes"], ["no"] * 4, 4)
    tables = [np.log([[1 - p, p] for p in answer]) for answer in ([0.6, 0.9, 0.9, 0.8], [0.4, 0.1, 0.45, 0.7])]
    heading, order = scorer.disagreement(
        "model", [scorer.row_frame(SimpleNamespace(log_probabilities=t)) for t in tables]
    )
    assert order.tolist() == [1, 2, 0] and heading == "model: rows where the answers differ, 3 of 4"


def test_labels_are_paired_by_index():
    answer = bg.predict(bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact()), X, rule=bg.BMA())
    numbers = bg.predict(
        bg.fit(bg.LinearRegression(), X[["height"]], NUMBERS, method=bg.Exact()), X[["height"]], rule=bg.BMA()
    )
    for ask, y in ((answer.score, Y), (answer.confusion, Y), (numbers.score, NUMBERS)):
        with pytest.raises(bg.DataError, match=r"y has another index than X.*Pair them by index, y\.loc\[X\.index\]"):
            ask(y[::-1])
        with pytest.raises(bg.DataError, match=r"^X has 6 rows(,)? and y "):
            ask(y[:2].to_numpy())
    for ask in (numbers.log_density, numbers.cdf, numbers.crps, numbers.pit):
        with pytest.raises(bg.DataError, match="y has another index than X"):
            ask(NUMBERS[::-1])
        np.testing.assert_array_equal(ask(NUMBERS), ask(NUMBERS.to_numpy()))
    assert answer.score(Y.to_numpy()) == answer.score(Y) == answer.score(Y[::-1].loc[INDEX])


def test_what_has_no_scores_is_refused():
    answer = bg.predict(bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact()), X, rule=bg.BMA())
    with pytest.raises(bg.DataError, match=r"^y "):
        answer.score(Y.where(Y == "low"))
    with pytest.raises(bg.DataError, match=r"'none'.*classes are 'high', 'low'"):
        answer.score(["none"] * 6)
    batch = bg.fit_many(bg.NaiveBayes(), [(X, Y), (X, Y)], method=bg.Exact())
    with pytest.raises(bg.PredictionError, match=r"batch\[0\]"):
        bg.predict(batch, X, rule=bg.BMA()).score(Y)
    numbers = bg.fit_many(bg.LinearRegression(), [(X[["height"]], NUMBERS)] * 2, method=bg.Exact())
    with pytest.raises(bg.PredictionError, match=r"batch\[0\]"):
        bg.predict(numbers, X[["height"]], rule=bg.BMA()).score(NUMBERS)
    assert np.isnan(bg.predict(batch[0], X[:0], rule=bg.BMA()).log_marginal).sum() == 0
