"""The table of models with a continuous label, each with small data of unlike scales and offsets."""

import dataclasses
import functools
from typing import Any

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

import bayesgen as bg

ROWS, NEW = 37, 5
COLUMNS = ("height", "weight", "age")
TRUTH = np.array([2.0, 0.03, -0.4])


def rows_of(size, seed):
    """Correlated columns by name, and a response."""
    rng = np.random.default_rng(seed)
    factor = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.3, 0.5, 0.9]])
    table = rng.normal(size=(size, 3)) @ factor.T * [0.1, 12.0, 9.0] + [1.7, 70.0, 40.0]
    y = 300 + table @ TRUTH + rng.normal(0, 0.7, size)
    return dict(zip(COLUMNS, table.T, strict=True)), y


@dataclasses.dataclass(frozen=True)
class ResponseCase:
    """A model, and whether it says how likely the columns are."""

    model: Any
    models_columns: bool = True

    @functools.cached_property
    def data(self):
        """(X, y)."""
        return rows_of(ROWS, 3)

    @functools.cached_property
    def new(self):
        """(X, y) of rows to predict."""
        return rows_of(NEW, 4)

    @functools.cached_property
    def exact(self):
        """The exact fit, which many tests look at."""
        return bg.fit(self.model, *self.data, method=bg.Exact())


STATED = bg.NormalInverseWishart(
    [1.6, 60.0, 50.0, 310.0], 0.7, 7.5, np.diag([0.02, 90.0, 80.0, 9.0]) + np.outer(*[[0.05, 2, 1, 0.5]] * 2)
)

CASES = {
    "joint": ResponseCase(bg.JointGaussianRegression()),
    "joint, informative": ResponseCase(bg.JointGaussianRegression(STATED)),
    "line": ResponseCase(bg.LinearRegression(), models_columns=False),
    "line without intercept": ResponseCase(bg.LinearRegression(intercept=False), models_columns=False),
    "naive Bayes": ResponseCase(bg.NaiveBayesRegression()),
    "surface": ResponseCase(bg.LinearRegression(PolynomialFeatures(2)), models_columns=False),
}
