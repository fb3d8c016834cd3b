"""Arguments that are right: tables, models that take them, fits and answers."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse

import bayesgen as bg

Y = np.array(["calm", "wild", "calm", "wild", "wild", "calm", "wild"])
ROWS = len(Y)
REALS = {"height": np.array([1.5, 2.5, 0.3, 4.1, 3.9, 1.1, 3.3]), "weight": np.array([60, 71, 58, 83, 77, 64, 69.5])}
MIXED = {**REALS, "sky": np.array(["grey", "blue", "blue", "grey", "blue", "blue", "grey"])}
COUNTS = np.array([[1, 0, 2], [3, 1, 0], [0, 2, 1], [4, 4, 0], [2, 0, 1], [0, 1, 1], [3, 3, 0]])
NUMBERED = np.array([1.5, 2.5, 0.7, 3.1, 4.2, 0.9, 3.0])


def _tables() -> dict[str, Callable[[], Any]]:
    array = np.stack([*REALS.values()], 1)
    return {
        "dict": lambda: {name: values.copy() for name, values in MIXED.items()},
        "frame": lambda: pd.DataFrame(MIXED),
        "polars": lambda: pl.DataFrame(MIXED),
        "array": array.copy,
        "float32": lambda: array.astype(np.float32),
        "list": array.tolist,
        "reals": lambda: {name: values.copy() for name, values in REALS.items()},
        "counts": COUNTS.copy,
        "sparse": lambda: scipy.sparse.csr_array(COUNTS),
        "texts": lambda: {"word": np.array(["abab", "b", "", "aab", "bb", "a", "ba"])},
    }


TABLES = _tables()
MODELS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "naive Bayes": (bg.NaiveBayes, tuple(TABLES)),
    "histogram": (lambda: bg.NaiveBayes({"height": bg.DirichletHistogram(3)}), ("dict", "frame", "reals")),
    "multinomial": (lambda: bg.NaiveBayes(bg.DirichletMultinomial()), ("counts", "sparse")),
    "Poisson": (lambda: bg.NaiveBayes(bg.GammaPoisson()), ("counts",)),
    "full": (bg.GaussianDiscriminant, ("array", "reals", "float32", "list")),
    "tied": (lambda: bg.GaussianDiscriminant("tied"), ("array", "reals", "float32", "list")),
    "spherical": (lambda: bg.GaussianDiscriminant("spherical"), ("array", "reals")),
    "linear": (bg.LinearRegression, ("array", "reals")),
    "joint": (bg.JointGaussianRegression, ("array", "reals")),
    "numbers": (bg.NaiveBayesRegression, ("array", "reals")),
    "mixture": (lambda: bg.Mixture(bg.NaiveBayes(), 2), ("array", "reals", "counts")),
}
OF_NUMBERS, UNLABELLED = ("linear", "joint", "numbers"), ("mixture",)
METHODS = [bg.Exact, bg.MAP, bg.MLE, bg.Exact]
RULES = [
    bg.BMA,
    bg.PlugIn,
    lambda: bg.PlugIn("mode"),
    lambda: bg.BMA(entropy_draws=10),
    lambda: bg.ConditionalAverage(20),
]


def label(name: str) -> Any:
    return None if name in UNLABELLED else NUMBERED.copy() if name in OF_NUMBERS else Y.copy()


@functools.cache
def fitted(name: str, table: str, method: int = 0) -> Any:
    """A fit of a model to a table; a mixture by MAP."""
    method_of = bg.MAP if name in UNLABELLED else METHODS[method]
    return bg.fit(MODELS[name][0](), TABLES[table](), label(name), method=method_of(), seed=1)


@functools.cache
def answered(name: str, table: str) -> Any:
    """What a fit says of its own rows."""
    rule = bg.PlugIn("mode") if name in UNLABELLED else bg.BMA()
    return bg.predict(fitted(name, table), TABLES[table](), rule=rule)
