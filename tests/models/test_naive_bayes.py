"""Which blocks naive Bayes makes of the columns."""

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg

CODES = np.array([[0, 2, 1], [1, 0, 0], [0, 1, 1], [1, 2, 0], [0, 0, 1]])
Y = ["b", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (bg.NaiveBayes(), np.array(["lo", "mid", "top"])[CODES]),
        (bg.NaiveBayes(), CODES.astype(object)),
        (bg.NaiveBayes(bg.DirichletCategorical()), CODES),
    ],
)
def test_categorical_columns_of_an_array_may_differ_in_number_of_values(model, X):
    fit = bg.fit(model, X, Y, method=bg.Exact())
    frame = pd.DataFrame({name: X[:, j] for j, name in enumerate(["x0", "x1", "x2"])})
    other = bg.fit(model, frame, Y, method=bg.Exact())
    assert fit.program.attributes == other.program.attributes == ("categorical_2", "categorical_3")
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-14)
    one, two = (bg.predict(f, X, rule=bg.BMA()).probabilities for f in (fit, other))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_categorical_columns_of_an_array_with_one_number_of_values_are_one_block():
    fit = bg.fit(bg.NaiveBayes(bg.DirichletCategorical()), CODES[:, [0, 2]], Y, method=bg.Exact())
    ((name, _, columns),) = fit.concrete.blocks
    assert name == "categorical_2" and columns is fit.schema.columns
