"""What a person reads of a comparison in a terminal."""

import dataclasses
import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from bayesgen.cli.display import comparison_shown
from bayesgen.evaluation import Answer, Comparison
from bayesgen.evaluation.answers import Cost
from bayesgen.prediction import ClassScorer

CLASSES, SHARES = np.array(["versicolor", "virginica"]), np.array([0.25, 0.75])


def answer(method, rule, second, **marks):
    probabilities = np.array([[1 - p, p] for p in second])
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    said = SimpleNamespace(log_probabilities=logs)
    return Answer("gda", method, rule, said, fit_seconds=12.0, predict_seconds=0.5, **marks)


def comparison(*answers, truth=(1, 0, 1)):
    rows = np.array([7, 8, 9])
    return Comparison(tuple(answers), ClassScorer(CLASSES, np.array(truth), SHARES), rows)


MLE = answer("MLE", "PlugIn", [np.nan, 0.2, 0.9], two_step=True)
MAP = answer("MAP", "PlugIn", [0.3, 0.2, 0.9], two_step=True, is_map=True)
BMA = answer("Exact", "BMA", [0.6, 0.3, 0.8])
REFUSED = Answer("gda", "NUTS", "BMA", refused="the chains ran away")


def text(result, width):
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(comparison_shown(result, console))
    return console.export_text()


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_the_terminal(width):
    lines = text(comparison(MLE, MAP, BMA, REFUSED), width).splitlines()
    assert max(map(len, lines)) <= width


def test_scores_stand_in_one_column_per_answer():
    lines = text(comparison(MLE, MAP, BMA), 120).splitlines()
    rows = {line.strip()[:9].strip(): line.split() for line in lines}
    assert rows["two-step"] == ["two-step", "two-step", "one-step"]
    assert rows["MLE"] == ["MLE", "MAP", "Exact"]
    assert rows["accuracy"] == ["accuracy", "0.667", "0.667", "1.000"]
    assert rows["log score"][2:] == ["−∞", "−0.5108", "−0.3635"]
    assert rows["impossibl"] == ["impossible", "rows", "1", "0", "0"]
    assert rows["seconds"] == ["seconds", "12.5", "12.5", "12.5"]
    difference = np.log([0.6, 0.7, 0.8]) - np.log([0.3, 0.8, 0.9])
    mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(3)
    assert rows["vs MAP"] == ["vs", "MAP", "−∞", f"{mean:+.4f}", f"±{error:.4f}"]


def test_refusals_stand_below_the_scores():
    shown = text(comparison(MAP, BMA, REFUSED), 80)
    assert "NUTS refused: the chains ran away" in shown
    assert shown.count("–") >= 4


def test_disagreements_name_the_row_the_truth_and_every_answer():
    shown = text(comparison(MLE, MAP, BMA), 120)
    assert "gda: rows where the answers differ, 1 of 3" in shown
    line = next(line for line in shown.splitlines() if line.strip().startswith("7 "))
    assert line.split() == ["7", "virginica", "impossible", "versicolor", "0.700", "virginica", "0.600"]
    narrow = text(comparison(MLE, MAP, BMA), 60)
    assert "versicolor" in narrow
    assert "0.700" in narrow


def test_agreement_is_said_in_a_sentence_which_counts_the_rows_without_an_answer():
    assert "all answers name the same class in each of the 3 test rows." in text(comparison(MAP, MAP), 120)
    shown = text(comparison(MLE, MAP), 120)
    assert "same class in 2 of the 3 test rows; in 1 at least one answer finds the row impossible" in shown
    assert "rows where the answers differ, 1 of 3; in 1 at least one" in text(comparison(MLE, MAP, BMA), 120)


def test_what_stands_below_labels_and_beside_them_is_said():
    assert "Beside each class: the probability" in text(comparison(MAP, BMA), 120)
    assert "Below each class: the probability" in text(comparison(MAP, BMA), 80)


def test_the_shares_of_the_classes_alone_are_what_scores_are_held_against():
    expected = np.log([0.75, 0.25, 0.75]).mean()
    shown = text(comparison(MAP, BMA), 120)
    assert f"no column read: log score {expected:.4f}" in shown and "worse than that" not in shown
    assert "Every answer of gda is worse than that." in " ".join(text(comparison(MLE), 120).split())


def test_rows_that_cost_most_stand_with_the_columns_that_did_it():
    of_row = {"model": "gda", "row": 9, "truth": "virginica"}
    costs = [
        Cost(method="MLE", rule="PlugIn", log_score=-np.inf, columns=("width", "height"), **of_row),
        Cost(method="Exact", rule="BMA", log_score=-1.25, columns=("width",), **of_row),
    ]
    shown = text(dataclasses.replace(comparison(MLE, BMA, REFUSED), costs=tuple(costs)), 80)
    assert ["9", "virginica", "−∞", "−1.250", "width,", "height"] in [line.split() for line in shown.splitlines()]
    assert "cost most" not in text(comparison(MLE, BMA), 80)


def test_a_tiny_difference_keeps_digits_of_its_error():
    nearly = answer("Exact", "PlugIn(mean)", [0.3 + 2e-5, 0.2, 0.9 - 1e-5], two_step=True, is_mean=True)
    line = next(line for line in text(comparison(MAP, nearly), 120).splitlines() if "vs MAP" in line)
    difference, error = line.split()[2:]
    assert float(difference.replace("−", "-")) == pytest.approx(1.85e-5, rel=0.1)
    assert error.startswith("±0.0000")
    assert float(error[1:]) > 0


def test_many_disagreements_are_cut_to_the_widest_apart():
    generator = np.random.default_rng(0)
    first, second = generator.uniform(0.5, 1, size=30), generator.uniform(0, 0.5, size=30)
    one = answer("MAP", "PlugIn", first, two_step=True)
    other = answer("Exact", "BMA", second)
    shown = text(Comparison((one, other), ClassScorer(CLASSES, np.ones(30, int), SHARES), np.arange(30)), 120)
    assert "30 of 30 (the 10 widest apart; all are in `disagreements`)" in shown
    rows = [line.split() for line in shown.splitlines() if line.split()[1:2] == ["virginica"]]
    assert [int(row[0]) for row in rows] == np.argsort(second - first)[:10].tolist()
