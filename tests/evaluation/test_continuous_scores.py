"""Scores of distributions of a number, and comparisons of them, of forecasts made by SciPy."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesgen as bg
from bayesgen.evaluation import Answer, Comparison
from bayesgen.prediction import ContinuousScorer
from bayesgen.predictives import NormalPredictive

RNG = np.random.default_rng(3)
MEAN, STD = RNG.normal(50, 20, 211), RNG.gamma(3, 2, 211)
Y = RNG.normal(MEAN, STD)


@dataclass
class Forecast:
    """Normal forecasts, as predictions say them; `gone` are rows that were called impossible."""

    mean: np.ndarray
    std: np.ndarray

    def __post_init__(self):
        self.dist = stats.norm(self.mean, self.std)

    def log_density(self, y):
        return self.dist.logpdf(y)

    def pit(self, y):
        return self.dist.cdf(y)

    def interval(self, prob):
        return np.stack(self.dist.interval(prob), axis=1)

    def crps(self, y):
        return NormalPredictive(self.mean, self.std).crps(y)


def without(forecast, rows):
    gone = np.isin(np.arange(len(forecast.mean)), rows)
    return Forecast(np.where(gone, np.nan, forecast.mean), np.where(gone, np.nan, forecast.std))


RIGHT, NARROW = Forecast(MEAN, STD), Forecast(MEAN + 3, STD / 3)


def summary(forecast):
    scorer = ContinuousScorer(Y)
    return scorer.scores(scorer.row_frame(forecast))


def test_scores_are_means_over_rows_of_what_they_are_called():
    scores = summary(RIGHT)
    densities = np.exp(-0.5 * ((Y - MEAN) / STD) ** 2) / np.sqrt(2 * np.pi) / STD
    assert scores["log_score"] == pytest.approx(np.log(densities).mean())
    assert scores["rmse"] == pytest.approx(np.linalg.norm(Y - MEAN) / np.sqrt(211))
    assert scores["crps"] == pytest.approx(NormalPredictive(MEAN, STD).crps(Y).mean())
    for name, reach in {"50": 0.6744898, "80": 1.2815516, "95": 1.9599640}.items():
        assert scores[f"coverage_{name}"] == np.mean(np.abs(Y - MEAN) <= reach * STD)
        assert scores[f"width_{name}"] == pytest.approx(2 * reach * STD.mean())


def test_calibrated_forecasts_cover_as_often_as_they_say_and_better_scores_go_with_them():
    right, narrow = map(summary, (RIGHT, NARROW))
    for name, level in {"50": 0.5, "80": 0.8, "95": 0.95}.items():
        assert abs(right[f"coverage_{name}"] - level) < 3 * np.sqrt(level * (1 - level) / 211)
        assert narrow[f"coverage_{name}"] < level - 0.1
    assert right["log_score"] > narrow["log_score"] and right["crps"] < narrow["crps"]


def test_impossible_rows_are_scored_as_the_worst_there_is():
    rows = ContinuousScorer(Y).row_frame(without(RIGHT, [5, 7]))
    scores = {name: values.to_numpy() for name, values in rows.items()}
    for name, worst in {"log_score": -np.inf, "squared_error": np.inf, "crps": np.inf}.items():
        assert (scores[name][[5, 7]] == worst).all() and np.isfinite(np.delete(scores[name], [5, 7])).all()
    whole, rest = summary(without(RIGHT, [5, 7])), ContinuousScorer(Y).row_frame(RIGHT)
    covered = ((rest["lower_95"] <= Y) & (rest["upper_95"] >= Y)).to_numpy()
    assert whole["coverage_95"] == np.delete(covered, [5, 7]).sum() / 211
    assert whole["width_95"] == whole["rmse"] == whole["crps"] == np.inf and whole["log_score"] == -np.inf


@pytest.fixture
def compared():
    answers = (
        Answer("line", "MAP", "PlugIn", NARROW, two_step=True, is_map=True, fit_seconds=2.0, predict_seconds=0.25),
        Answer("line", "Exact", "BMA", RIGHT, fit_seconds=1.0, predict_seconds=0.5),
        Answer("line", "NUTS", "BMA", refused="the chains ran away"),
        Answer("curve", "MAP", "PlugIn", without(RIGHT, [5]), two_step=True, is_map=True),
    )
    return Comparison(answers, ContinuousScorer(Y), np.arange(1000, 1211), {"seed": 0})


def test_the_table_has_scores_and_paired_differences(compared):
    table = compared.table.set_index(["model", "method"])
    assert table.columns[:9].tolist() == [
        "rule", "log_score", "rmse", "crps", "coverage_50", "coverage_80", "coverage_95", "width_50", "width_80",
    ]  # fmt: skip
    apart = stats.norm.logpdf(Y, MEAN, STD) - stats.norm.logpdf(Y, MEAN + 3, STD / 3)
    row = table.loc[("line", "Exact")]
    assert row.difference == pytest.approx(apart.mean())
    assert row.standard_error == pytest.approx(apart.std(ddof=1) / np.sqrt(211))
    assert (row.impossible, row.ruled_out) == (0, 0)
    assert table.loc[("curve", "MAP")].impossible == 1
    refused = table.loc[("line", "NUTS")]
    assert refused.refused == "the chains ran away" and np.isnan(refused.crps) and refused.impossible is pd.NA


def test_disagreements_are_the_rows_in_which_log_scores_differ_most(compared):
    table = compared.disagreements
    mine = table[(table.model == "line") & (table.other_model == "line")]
    apart = np.abs(stats.norm.logpdf(Y, MEAN, STD) - stats.norm.logpdf(Y, MEAN + 3, STD / 3))
    assert mine.row.tolist() == sorted(1000 + np.argsort(-apart)[:10])
    np.testing.assert_allclose(np.abs(mine.log_score - mine.other_log_score), apart[mine.row - 1000])
    np.testing.assert_allclose(mine.other_mean, MEAN[mine.row - 1000])
    other = table[(table.model == "line") & (table.method == "Exact") & (table.other_model == "curve")]
    assert other.row.tolist() == [1005]  # elsewhere they say the same


def test_json_is_strict(compared):
    content = json.loads(compared.to_json(), parse_constant=pytest.fail)
    assert content["pairs"][3]["crps"] is None and content["pairs"][3]["impossible"] == 1
    assert {"rmse", "coverage_80", "width_95"} < set(content["pairs"][0]) and "accuracy" not in content["pairs"][0]
    assert content["config"]["classes"] == [] and len(content["disagreements"]) == 21
    assert "coverage_95" in repr(compared)


def test_predictions_have_a_row_for_each_answer_and_test_row(compared):
    table = compared.predictions
    assert len(table) == 3 * 211
    row = table[(table.method == "Exact") & (table.row == 1007)].iloc[0]
    np.testing.assert_allclose(
        row[["truth", "mean", "std", "pit", "lower_50", "upper_80"]].astype(float),
        [
            Y[7],
            MEAN[7],
            STD[7],
            *stats.norm(MEAN[7], STD[7]).cdf([Y[7]]),
            *stats.norm(MEAN[7], STD[7]).ppf([0.25, 0.9]),
        ],
    )


PAIRS = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
X_TRAIN = RNG.normal(size=(23, 2)) @ [[1.0, 0.5], [0.0, 2.0]]
Y_TRAIN = X_TRAIN @ [2.0, -1.0] + RNG.normal(size=23)


def test_models_of_numbers_are_compared():
    X_test, y_test = X_TRAIN[:7] + 0.3, Y_TRAIN[:7] + 0.5
    frame = pd.DataFrame(X_test, columns=["x0", "x1"], index=list("abcdefg"))
    result = bg.compare(bg.JointGaussianRegression(), X_TRAIN, Y_TRAIN, frame, y_test.tolist(), methods=PAIRS)
    answer = bg.predict(
        bg.fit(bg.JointGaussianRegression(), X_TRAIN, Y_TRAIN, method=bg.Exact()), X_test, rule=bg.BMA()
    )
    row = result.table.iloc[1]
    assert row.log_score == pytest.approx(answer.log_density(y_test).mean())
    assert row.rmse == pytest.approx(np.sqrt(np.mean((answer.mean - y_test) ** 2)))
    low, high = answer.interval(0.95).T
    assert row.width_95 == pytest.approx((high - low).mean())
    assert result.rows.tolist() == list("abcdefg") and result.truth.tolist() == y_test.tolist()


def test_models_of_numbers_and_of_classes_are_not_compared():
    models = {"line": bg.JointGaussianRegression(), "bayes": bg.NaiveBayes()}
    labels = (Y_TRAIN > 0).astype(int)
    with pytest.raises(bg.ModelError, match="'line' predict a number, and 'bayes' a class"):
        bg.compare(models, X_TRAIN, labels, X_TRAIN, labels, methods=PAIRS)


@pytest.mark.parametrize(
    ("y_test", "message"),
    [
        (["1", *Y_TRAIN[1:]], "y_test holds '1', and a regression wants numbers"),
        ([*Y_TRAIN[:-1], np.nan], r"y_test has 1 missing values \(first at row 22\)\. Drop these rows"),
        ([*Y_TRAIN[:-1], np.inf], "y_test has 1 infinite"),
        (Y_TRAIN[:-1], r"X_test has 23 rows, and y_test the shape \(22,\)"),
        (Y_TRAIN[:, None], r"y_test the shape \(23, 1\)"),
        (Y_TRAIN > 0, "y_test has dtype bool"),
    ],
)
def test_what_cannot_be_held_against_is_refused_by_the_name_of_test_labels(y_test, message):
    with pytest.raises(bg.DataError, match=message):
        bg.compare(bg.JointGaussianRegression(), X_TRAIN, Y_TRAIN, X_TRAIN, y_test, methods=PAIRS[1:])
