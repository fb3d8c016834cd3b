"""Cases drawn from the product of models, methods and what data may be like. All have one of a few shapes."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies

import bayesgen as bg
from tests.models import cases, response_cases

ROWS, NEW = 23, 5
COUNTS = bg.GammaPoisson()


def columns_of_counts(rng, codes):
    return dict(zip("pqrst", cases.documents(rng, codes).T, strict=True))


REAL_COLUMNS = ["height", "weight", "age"]
JOINT = bg.GenerativeClassifier([("size", bg.NormalInverseWishart(), REAL_COLUMNS)], class_prior=None)
MODELS: dict[str, tuple[Any, Callable | None]] = {
    "normal": (bg.NaiveBayes(), cases.REALS),
    "normal, classes fixed": (bg.NaiveBayes(class_prior=[0.3, 0.7]), cases.REALS),
    **{
        f"discriminant, {covariance}": (bg.GaussianDiscriminant(covariance), cases.REALS)
        for covariance in ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
    },
    "discriminant, columns of every kind": (bg.GaussianDiscriminant("tied", class_prior=[0.3, 0.7]), cases.mixed),
    "columns of every kind": (bg.NaiveBayes({"visits": COUNTS, "calls": COUNTS}), cases.mixed),
    "informative": (bg.NaiveBayes(cases.INFORMATIVE, class_prior=bg.DirichletCategorical(0.5)), cases.mixed),
    "own blocks": (cases.CASES["own blocks"].model, cases.mixed),
    "histograms": (bg.NaiveBayes(bg.DirichletHistogram(3)), cases.REALS),
    "Poisson": (bg.NaiveBayes(COUNTS), columns_of_counts),
    "multinomial": (bg.NaiveBayes(bg.DirichletMultinomial()), cases.documents),
    "multinomial, sparse": (bg.NaiveBayes(), cases.sparse_documents),
    "Bernoulli, sparse": (bg.NaiveBayes(bg.BetaBernoulli()), cases.sparse_words),
    "words": (bg.NaiveBayes({"cry": bg.DirichletMarkov(2)}), cases.cries),
    "words that end": (bg.NaiveBayes({"cry": bg.DirichletMarkov(end=True)}), cases.cries),
    "dependence averaged": (bg.NaiveBayes(structure="average"), cases.mixed),
    "no classes": (bg.NaiveBayes({"visits": COUNTS, "calls": COUNTS}, class_prior=None), cases.mixed),
    "no classes, joint": (JOINT, cases.REALS),
    "response, joint": (bg.JointGaussianRegression(), None),
    "response, line": (bg.LinearRegression(), None),
    "response, line without intercept": (bg.LinearRegression(intercept=False), None),
    "response, naive Bayes": (bg.NaiveBayesRegression(), None),
}
METHODS = {"MLE": bg.MLE(num_starts=2), "MAP": bg.MAP(num_starts=2), "Exact": bg.Exact()}

SIZES = ["many", "many", "many", "one row", "one row a class", "one class"]
COLUMNS = ["plain", "plain", "constant", "constant in a class", "single precision", "rows twice", "a row far away"]
WEIGHTS = ["none", "none", "whole", "some 0", "real", "tiny", "none in a class"]
CELLS = ["all", "all", "all", "some missing", "a row missing", "a column nearly missing"]
LABELS = ["all", "all", "all", "some missing"]
CLASSES = ["inferred", "inferred", "declared", "one without rows"]
FAR = 1e9  # deviations


@dataclasses.dataclass
class Case:
    """A model, a method and data.

    Attributes:
        traits: what the data are like, in words.
        seed: of what else is drawn.
    """

    name: str
    method_name: str
    X: Any = dataclasses.field(repr=False)
    y: Any = dataclasses.field(repr=False)
    weights: Any = dataclasses.field(repr=False)
    schema: Any = dataclasses.field(repr=False)
    new: Any = dataclasses.field(repr=False)
    traits: tuple[str, ...]
    seed: int

    @property
    def model(self):
        return MODELS[self.name][0]

    @property
    def method(self):
        return METHODS[self.method_name]

    @property
    def rng(self):
        return np.random.default_rng(self.seed + 1)

    @property
    def num_rows(self):
        return len(next(iter(self.X.values()))) if isinstance(self.X, dict) else self.X.shape[0]

    @property
    def is_exact(self):
        return self.method_name == "Exact"

    @property
    def is_incomplete(self):
        """Whether cells or labels are missing, so that points are looked for by EM."""
        return not {"some missing", "a row missing", "a column nearly missing"}.isdisjoint(self.traits)

    @property
    def depends_on_starts(self):
        """Whether a search, for points where labels are missing, may end at another mode by its random starts."""
        return not self.is_exact and "labels: some missing" in self.traits

    @property
    def has_classes(self):
        return not self.name.startswith(("no classes", "response"))

    @property
    def frequencies(self):
        return np.ones(self.num_rows) if self.weights is None else np.asarray(self.weights, float)

    @property
    def rules(self):
        """The rules that a fit of the case can answer."""
        return [bg.PlugIn(), bg.PlugIn("mode"), bg.BMA()] if self.is_exact else [bg.PlugIn()]

    def fit(self, **changes):
        """The fit, with some of the arguments changed."""
        arguments = {"X": self.X, "y": self.y, "sample_weight": self.weights, "schema": self.schema} | changes
        chosen = {"model": self.model, "method": self.method} | arguments
        return bg.fit(chosen.pop("model"), chosen.pop("X"), chosen.pop("y"), **chosen)

    def rows(self, indices):
        """The arguments of `fit` that some of the rows are."""
        return {
            "X": cases.take(self.X, indices),
            "y": None if self.y is None else self.y[indices],
            "sample_weight": None if self.weights is None else self.weights[indices],
        }


def _weights(trait, rng, num_rows, y):
    in_first_class = np.zeros(num_rows, bool) if y is None or y.dtype.kind == "f" else y == "ape"
    return {
        "none": None,
        "whole": rng.integers(1, 4, num_rows),
        "some 0": rng.integers(0, 3, num_rows),
        "real": 3 * rng.random(num_rows),
        "tiny": np.full(num_rows, 1e-3),
        "none in a class": 1.0 - in_first_class,
    }[trait]


def _changed_columns(trait, X, y):
    first = next(iter(X))
    values, num_rows = X[first], len(X[first])
    if trait == "constant":
        return X | {first: np.repeat(values[:1], num_rows)}
    if trait == "constant in a class" and y is not None and y.dtype.kind != "f":
        return X | {first: np.where(y == "ape", values[0], values)}
    if trait == "single precision":
        return {name: v.astype(np.float32) if v.dtype.kind == "f" else v for name, v in X.items()}
    if trait == "a row far away" and values.dtype.kind == "f":
        return X | {first: np.where(np.arange(num_rows) == num_rows - 1, FAR * 0.01, values)}
    return X


def _masked(trait, X, rng):
    """The columns with some cells masked."""
    if trait == "all":
        return X
    masked, shares = (
        {},
        {"some missing": (0.2, 0.2), "a row missing": (0.0, 0.0), "a column nearly missing": (0.9, 0.0)},
    )
    for index, (name, values) in enumerate(X.items()):
        mask = rng.random(len(values)) < shares[trait][index > 0]
        if trait == "a row missing":
            mask[len(values) // 2] = True
        masked[name] = np.ma.array(values, mask=mask)
    return masked


@strategies.composite
def drawn(draw, names=tuple(MODELS), methods=tuple(METHODS), **traits):
    """A case; `traits` are the choices of sizes, columns, weights, cells, labels and classes, where not all."""

    def choose(options):
        return draw(strategies.sampled_from(list(options)))

    choices = {"sizes": SIZES, "columns": COLUMNS, "weights": WEIGHTS, "cells": CELLS, "labels": LABELS}
    choices = choices | {"classes": CLASSES} | traits
    name, method_name, seed = choose(names), choose(methods), draw(strategies.integers(0, 999))
    size, columns, weights, cells, labels, classes = map(choose, choices.values())
    rng, rows_of = np.random.default_rng(seed), MODELS[name][1]
    num_rows = {"one row": 1, "one row a class": 2}.get(size, ROWS)
    if rows_of is None:
        (X, y), (new, _) = response_cases.rows_of(num_rows, seed), response_cases.rows_of(NEW, seed + 1)
        classes = "inferred"
    else:
        codes = np.concatenate([[0, 1], rng.choice(2, ROWS - 2, p=[0.35, 0.65])])[:num_rows]
        X, y = rows_of(rng, codes), np.asarray(["ape", "bear"])[codes]
        new = rows_of(rng, np.arange(NEW) % 2)
        y = np.repeat("ape", num_rows) if size == "one class" else y
        y = None if name.startswith("no classes") else y
    if columns == "rows twice":
        halves = np.arange(num_rows) // 2
        X, y = cases.take(X, halves), None if y is None else y[halves]
    if isinstance(X, dict):
        X = _masked(cells, _changed_columns(columns, X, y), rng)
    else:
        columns, cells = "plain", "all"
    row_weights = _weights(weights, rng, num_rows, y)
    if y is None:
        labels, classes = "all", "inferred"
    elif labels == "some missing":
        y = y.astype(object)
        y[rng.random(num_rows) < 0.3] = None
        y = y.astype(float) if rows_of is None else y
    declared = {"inferred": None, "declared": ["bear", "ape"], "one without rows": ["ape", "bear", "cow"]}[classes]
    schema = None if declared is None else bg.Schema(classes=declared)
    chosen = (size, columns, weights, f"cells: {cells}", f"labels: {labels}", f"classes: {classes}")
    traits_in_words = (*chosen, *{cells, labels})
    return Case(name, method_name, X, y, row_weights, schema, new, traits_in_words, seed)
