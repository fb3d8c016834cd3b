"""Leave-one-out: its price, and how far Pareto-smoothed weights of draws are from the exact answer."""

import functools

import jax
import numpy as np
from sklearn.datasets import load_iris, load_wine

import bayesgen as bg
from bayesgen.prediction.left_out import FEW_FOLDS

from .measure import Below, Price, Row, duel

ENDS = (-np.inf, 0.5, 0.7, np.inf)  # of the tail index
MODELS = {"GDA": bg.GaussianDiscriminant(), "naive Bayes": bg.NaiveBayes()}


def measures(quick):
    """All of them."""
    yield functools.partial(_price, quick)
    yield _few_folds
    for data, load in {"iris": load_iris, "wine": load_wine}.items():
        for model in ["naive Bayes"] if quick else MODELS:
            refits = model == "naive Bayes"  # of a few rows, in seconds; those of GDA on wine take minutes
            found = functools.cache(functools.partial(_errors, MODELS[model], *load(return_X_y=True), refits))
            for bucket in range(3):
                yield functools.partial(_smoothed, f"{model}, {data}", found, bucket)
            if refits:
                yield functools.partial(_refitted, f"{model}, {data}", found)


def _price(quick):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 10_000 if quick else 100_000)
    X = rng.normal(size=(len(y), 20)) + y[:, None] / 5
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    return duel(
        f"leave-one-out of {len(y):,} x 20, exact full GDA, over a prediction",
        Price(3),
        lambda: bg.leave_one_out(fit, X, y),
        lambda: bg.predict(fit, X, rule=bg.BMA()),
        "bayesgen, predict",
        repeats=1,
    )


def _few_folds():
    X, y = load_iris(return_X_y=True)
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())

    def compiled():
        jax.clear_caches()
        return bg.leave_one_out(fit, X, y, folds=np.arange(len(y)) % (FEW_FOLDS + 1))

    return duel(
        f"{FEW_FOLDS} folds of iris by fits without them, over one compiled call for one fold more",
        Price(1),
        lambda: bg.leave_one_out(fit, X, y, folds=np.arange(len(y)) % FEW_FOLDS),
        compiled,
        "bayesgen, with its compilation",
        repeats=1,
    )


def _errors(model, X, y, refits):
    """Tail indices, and errors of the log scores before and after fits without the rows of heavy weights, if asked."""
    exact = bg.leave_one_out(bg.fit(model, X, y, method=bg.Exact()), X, y)
    fit = bg.fit(model, X, y, method=bg.NUTS(), progress=False)
    smoothed, anew = (bg.leave_one_out(fit, X, y, refit=refit) for refit in (False, refits))
    return smoothed.pareto_k, *(np.abs(scores.log_scores - exact.log_scores) for scores in (smoothed, anew))


def _smoothed(name, errors, bucket):
    tails, found, _ = errors()
    low, high = ENDS[bucket : bucket + 2]
    return _row(f"smoothed weights, {name}, k from {low} to {high}", found[(tails > low) & (tails <= high)])


def _refitted(name, errors):
    tails, _, found = errors()
    return _row(f"fits without the row, {name}, where k was above 0.7", found[tails > ENDS[2]])


def _row(work, errors):
    """The mean absolute error of log p(y | x, all other rows); the largest one in the note."""
    most = f"; the largest error is {errors.max():.2g}" if len(errors) else ""
    mean = errors.mean() if len(errors) else 0.0
    return Row(work, Below(), [float(mean)], unit="nats", note=f"{len(errors)} rows{most}.")
