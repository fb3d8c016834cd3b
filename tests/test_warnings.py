"""Warnings point at the line of the user's code, whatever lies between it and what warns."""

import os
from pathlib import Path

import pandas as pd
import pytest

import bayesgen as bg

CONSTANT = [[1.0, 5.0], [2.0, 5.0], [7.0, 5.0], [8.0, 5.0]]
LABELS = ["a", "a", "b", "b"]


@pytest.mark.parametrize("model", [bg.NaiveBayes(), bg.NaiveBayes(structure="average")])
def test_warnings_of_fits_point_at_the_users_line(model):
    with pytest.warns(bg.ConstantColumnWarning) as caught:
        bg.fit(model, CONSTANT, LABELS, method=bg.Exact())
    assert [warning.filename for warning in caught] == [__file__]


def test_a_folder_whose_name_begins_as_that_of_the_library_is_the_users():
    path = f"{Path(bg.__file__).parent}_project{os.sep}script.py"
    code = compile("bg.fit(bg.NaiveBayes(), CONSTANT, LABELS, method=bg.Exact())", path, "exec")
    with pytest.warns(bg.ConstantColumnWarning) as caught:
        exec(code, globals())
    assert [warning.filename for warning in caught] == [path]


def test_warnings_of_predictions_point_at_the_users_line():
    schema = bg.Schema(kinds={"x0": "binary"})
    fit = bg.fit(bg.NaiveBayes(), [[1], [1], [1], [1]], LABELS, method=bg.MLE(), schema=schema)
    with pytest.warns(bg.ImpossibleRowsWarning) as caught:
        bg.predict(fit, [[0]], rule=bg.PlugIn())
    assert [warning.filename for warning in caught] == [__file__]


def test_warnings_of_concepts_point_at_the_users_line():
    fit = bg.fit(bg.ConceptLearner(bg.number_game("murphy")), [60], method=bg.Exact())
    with pytest.warns(bg.BayesgenWarning, match="tie") as caught:
        bg.predict(fit, [10], rule=bg.PlugIn())
    assert [warning.filename for warning in caught] == [__file__]


def test_a_call_shows_each_warning_once():
    y = ["a", "a", "a", "b", "b", "b"] * 3
    X = pd.DataFrame({"a": [1.0, 2.5, 0.5, 7.0, 9.5, 8.0] * 3, "k": 1.0})
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    for verb in (
        lambda: bg.study([bg.NaiveBayes(), bg.GaussianDiscriminant()], X, y, sizes=[2, 3], repeats=2, pairs=pairs),
        lambda: bg.compare([bg.NaiveBayes(), bg.GaussianDiscriminant()], X, y, X, y, pairs=pairs),
    ):
        with pytest.warns(bg.ConstantColumnWarning, match="'k'") as caught:
            verb()
        assert len(caught) == 1 and caught[0].filename == __file__
        with pytest.warns(bg.ConstantColumnWarning):  # the next call warns again
            verb()
