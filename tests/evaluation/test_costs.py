"""The rows that cost most, and the column that did it."""

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg

RNG = np.random.default_rng(5)
KINDS = np.array(["low", "high"])[np.arange(40) % 2]
X = pd.DataFrame(
    {
        "size": RNG.normal(1.0 * (KINDS == "high"), 1.0),
        "count": RNG.poisson(3, 40),
        "open": RNG.random(40) < np.where(KINDS == "high", 0.6, 0.4),
        "colour": np.where((RNG.random(40) < 0.35) ^ (KINDS == "high"), "red", "green"),
    },
    index=np.arange(100, 140),
)
PAIRS = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]


def compared(X, pairs=PAIRS, num_train=25, schema=None):
    train, tests = slice(0, num_train), slice(num_train, None)
    found = bg.compare(
        bg.NaiveBayes(), X[train], KINDS[train], X[tests], KINDS[tests], methods=pairs, schema=schema or bg.Schema()
    )
    return found.with_costs(X[tests])


def test_the_column_that_did_it_is_the_one_that_a_model_would_do_best_without():
    found = compared(X)
    shares = {kind: np.mean(KINDS[:25] == kind) for kind in KINDS}
    scores = np.stack([one.log_scores for one in found.scored])
    below = (scores < np.log([shares[kind] for kind in KINDS[25:]])).any(axis=0)
    rows = [cost.row for cost in found.costs[::2]]
    assert 0 < len(rows) <= 5 and len(found.costs) == 2 * len(rows)
    order = np.argsort(scores.sum(axis=0))
    assert rows == [100 + 25 + place for place in order if below[place]][: len(rows)]
    without = {name: compared(X.drop(columns=name)).scored for name in X}  # columns of naive Bayes are learned apart
    for number, cost in enumerate(found.costs):
        place, answer = cost.row - 125, number % 2
        assert cost.log_score == scores[answer, place] and cost.truth == KINDS[cost.row - 100]
        others = {name: one[answer].log_scores[place] for name, one in without.items()}
        best = max(others, key=others.get)
        assert cost.columns == ((best,) if others[best] > cost.log_score else ())


def test_columns_that_rule_a_row_out_each_by_itself_are_all_named():
    named = X.assign(name=[f"row {row}" for row in X.index], day=[f"day {row}" for row in X.index])
    schema = bg.Schema.infer(named, KINDS)
    declared = bg.Schema(categories=schema.categories, classes=schema.classes)
    with pytest.warns(bg.ImpossibleRowsWarning):
        found = compared(named, PAIRS[:1], schema=declared)
    assert len(found.costs) == 5
    assert {cost.columns for cost in found.costs} == {("name", "day")}
    assert {cost.log_score for cost in found.costs} == {-np.inf}
    assert {cost["log_score"] for cost in found.to_dict()["costs"]} == {None}
    with pytest.warns(bg.ImpossibleRowsWarning):
        one = compared(named.drop(columns="day"), PAIRS[:1], schema=bg.Schema(categories={"name": named.name.tolist()}))
    assert {cost.columns for cost in one.costs} == {("name",)}


def test_arrays_have_costly_rows_without_columns_and_numbers_have_none():
    numbers = X[["size", "count"]].to_numpy(float)
    assert {cost.columns for cost in compared(numbers).costs} == {()}
    answer = bg.compare(
        bg.JointGaussianRegression(), numbers[:25, :1], numbers[:25, 1], numbers[25:, :1], numbers[25:, 1],
        methods=[(bg.Exact(), bg.BMA())],
    )  # fmt: skip
    assert answer.with_costs(numbers[25:, :1]).costs == ()
