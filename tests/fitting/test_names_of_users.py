"""Names that users choose collide with none of the library's: every table has a column for each thing."""

import numpy as np
import pytest

import bayesgen as bg
from bayesgen.fitting.fit import frame_of_numbers, frame_of_rows

RNG = np.random.default_rng(0)
X = {"x": RNG.normal(100.0, 1.0, 30), "y": RNG.normal(-100.0, 1.0, 30)}
LABELS = np.where(np.arange(30) % 2, "cat", "dog")


@pytest.mark.parametrize("names", [("x", "y"), ("y", "y_"), ("x", "z")])
def test_a_column_called_as_the_label_is_beside_the_label(names):
    fit = bg.fit(bg.NaiveBayes(), dict(zip(names, X.values(), strict=True)), LABELS, method=bg.Exact())
    generated = {"real": RNG.normal(size=(4, 2)), "y": np.array(["cat", "dog", "dog", "cat"], object)}
    frame = frame_of_rows(fit, generated)
    assert frame.columns.is_unique and list(frame.columns[:2]) == list(names)
    np.testing.assert_array_equal(frame[list(names)], generated["real"])
    assert frame.iloc[:, 2].tolist() == generated["y"].tolist() and frame.columns[2].startswith("y")


def test_a_column_called_as_the_number_that_is_predicted_is_beside_it():
    fit = bg.fit(bg.NaiveBayesRegression(), X, X["x"] + 900, method=bg.Exact())
    blocks = fit.concrete.conjugate(fit.schema).blocks
    generated = {block.name: RNG.normal(size=(4, len(block.columns))) for block in blocks}
    frame = frame_of_rows(fit, generated)
    assert list(frame.columns) == ["x", "y", "y_"]
    np.testing.assert_array_equal(frame[["x", "y"]], generated[blocks[1].name])
    np.testing.assert_array_equal(frame[["y_"]], generated[blocks[0].name])


@pytest.mark.parametrize("classes", [("label", "other"), ("label", "p[label]"), ("data_set", "row")])
def test_classes_called_as_columns_of_answers_have_columns_of_their_own(classes):
    fit = bg.fit(bg.NaiveBayes(), X, np.array(classes)[np.arange(30) % 2], method=bg.Exact())
    answer = bg.predict(fit, X, rule=bg.BMA())
    frame = answer.to_frame()
    assert frame.columns.is_unique and frame.shape == (30, 3)
    assert (frame["label"] == answer.labels).all()
    np.testing.assert_array_equal(frame.iloc[:, 1:], answer.probabilities)


def test_axes_called_as_columns_of_the_summary_have_columns_of_their_own():
    numbers = {"mean": {"level": np.arange(4.0).reshape(2, 2)}, "sd": {"level": np.ones((2, 2))}}
    coords = {"mean": ["low", "high"], "parameter": ["a", "b"]}
    frame = frame_of_numbers(numbers, coords, {"level": ["mean", "parameter"]}, {})
    assert list(frame.columns) == ["parameter", "mean_", "parameter_", "mean", "sd"]
    assert frame["mean"].tolist() == [0.0, 1.0, 2.0, 3.0] and frame["parameter_"].tolist() == list("abab")
