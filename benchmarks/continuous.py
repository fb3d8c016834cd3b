"""Regressions and discriminative training, against scikit-learn."""

import dataclasses
import functools
import warnings

import numpy as np
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression

import bayesgen as bg

from .closed_form import NUM_CLASSES, NUM_COLUMNS
from .measure import Faster, duel


def measures(quick):
    """All comparisons; `quick` takes a tenth of the rows."""
    num_rows = 100_000 if quick else 1_000_000
    lines = functools.cache(functools.partial(line, num_rows))
    yield functools.partial(_least_squares, lines)
    for model in (bg.LinearRegression(), bg.JointGaussianRegression()):
        yield functools.partial(_exact_fit, lines, model)
        yield functools.partial(_exact_answers, lines, model)
    yield functools.partial(_discriminative, num_rows // 10)


def line(num_rows):
    """Correlated columns, and a response that is linear in them but for noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, NUM_COLUMNS)) @ rng.normal(size=(NUM_COLUMNS, NUM_COLUMNS)) + 3.0
    return X, X @ rng.normal(size=NUM_COLUMNS) + rng.normal(0, 2.0, num_rows)


def classes(num_rows):
    """Correlated columns in classes that overlap, so that the boundary between them has a maximum of its likelihood."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    centers = rng.normal(0, 0.3, (NUM_CLASSES, NUM_COLUMNS))
    factor = np.eye(NUM_COLUMNS) + rng.normal(0, 0.1, (NUM_COLUMNS, NUM_COLUMNS))
    return (centers[y] + rng.normal(size=(num_rows, NUM_COLUMNS))) @ factor, y


def _size(X):
    return f"{X.shape[0]:,} x {X.shape[1]}"


def _least_squares(lines):
    X, y = lines()
    return duel(
        f"fit LinearRegression, MLE, {_size(X)}",
        Faster(1),
        lambda: bg.fit(bg.LinearRegression(), X, y, method=bg.MLE()),
        lambda: LinearRegression().fit(X, y),
        "LinearRegression",
    )


def _exact_fit(lines, model):
    X, y = lines()
    return duel(
        f"fit {type(model).__name__}, Exact with its evidence, {_size(X)}",
        Faster(1),
        lambda: bg.fit(model, X, y, method=bg.Exact()).log_evidence,
        lambda: BayesianRidge(compute_score=True).fit(X, y),
        "BayesianRidge, which has a point for both variances",
    )


def _exact_answers(lines, model):
    X, y = lines()
    fit, peer = bg.fit(model, X, y, method=bg.Exact()), BayesianRidge().fit(X, y)

    def ours():
        answer = bg.predict(fit, X, rule=bg.BMA())
        return answer.mean, answer.std

    return duel(
        f"means and deviations, {type(model).__name__}, Exact and BMA, {_size(X)}",
        Faster(1),
        ours,
        lambda: peer.predict(X, return_std=True),
        "BayesianRidge.predict(return_std=True)",
    )


def _discriminative(num_rows):
    X, y = classes(num_rows)
    rows = len(X)
    scores = {}

    def ours():
        fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE(objective="conditional"))
        scores["ours"] = bg.predict(fit, X, rule=bg.PlugIn()).log_probabilities[np.arange(rows), y].mean()

    def peer():
        regression = LogisticRegression(C=np.inf, tol=1e-6, max_iter=1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            regression.fit(X, y)
        scores["peer"] = regression.predict_log_proba(X)[np.arange(rows), y].mean()

    found = duel(
        f"fit and predict tied discriminant, MLE(objective='conditional'), {_size(X)}, {NUM_CLASSES} classes",
        Faster(),
        ours,
        peer,
        "LogisticRegression without penalty",
        repeats=3,
    )
    gain = scores["ours"] - scores["peer"]
    return dataclasses.replace(found, note=f"mean log probability less the peer's: {gain:.1e}")
