"""What marginalising missing cells assumes: that their being missing tells nothing of them beyond what is there."""

import numpy as np
import pytest

import bayesgen as bg

SIZE, CORRELATION = 20_000, 0.8


@pytest.fixture(scope="module")
def rows():
    """Two correlated columns of mean 0, and labels that say nothing of them."""
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, SIZE))
    return {"a": one, "b": CORRELATION * one + (1 - CORRELATION**2) ** 0.5 * other}, rng.integers(0, 2, SIZE)


def mean_of_b(rows, missing, covariance="full"):
    X, y = rows
    holed = X | {"b": np.where(missing, np.nan, X["b"])}
    fit = bg.fit(bg.GaussianDiscriminant(covariance), holed, y, method=bg.MLE())
    return fit.parameters_of("b")["mean"].mean()


def test_cells_that_are_missing_by_what_is_there_bias_nothing(rows):
    """Where b is missing by the value of a, or of the class, the model knows what those cells were likely to be."""
    X, y = rows
    assert abs(mean_of_b(rows, X["a"] > 0.3)) < 0.04
    assert abs(mean_of_b(rows, (y == 1) & (np.random.default_rng(2).random(SIZE) < 0.7))) < 0.04


def test_cells_that_are_missing_by_their_own_value_bias_the_mean(rows):
    """Censoring: large values of b are never seen, and no model of whole rows knows that they are large."""
    X, _ = rows
    assert mean_of_b(rows, X["b"] > 0.3) < -0.3
    assert mean_of_b(rows, X["b"] > 0.3, "diag") < -0.5


def test_a_model_without_the_correlation_does_not_make_up_for_it(rows):
    """Missing at random is said of a model: one in which columns are independent given the class ignores a."""
    X, _ = rows
    assert mean_of_b(rows, X["a"] > 0.3, "diag") < -0.4
