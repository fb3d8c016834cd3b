"""Fitting and predicting in closed form, against scikit-learn."""

import numpy as np
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB

import bayesgen as bg

from .measure import Result, duel

NUM_COLUMNS, NUM_CLASSES = 20, 5


def _real(num_rows):
    rng = np.random.default_rng(0)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    centers = rng.normal(size=(NUM_CLASSES, NUM_COLUMNS))
    X = centers[y] + rng.normal(size=(num_rows, NUM_COLUMNS)) @ rng.normal(size=(NUM_COLUMNS, NUM_COLUMNS))
    return X.astype(np.float32), y


def run(quick: bool) -> list[Result]:
    """All comparisons; `quick` takes a tenth of the rows."""
    num_rows = 100_000 if quick else 1_000_000
    return [*_on_reals(num_rows), *_one_step_price(num_rows), _categorical(num_rows), _sparse(quick), _iris()]


def _on_reals(num_rows):
    X, y = _real(num_rows)
    naive, full = bg.NaiveBayes(), bg.GaussianDiscriminant()
    exact = bg.fit(full, X, y, method=bg.Exact())
    qda = QuadraticDiscriminantAnalysis(solver="eigen").fit(X, y)
    size = f"{num_rows:,} x {NUM_COLUMNS}, {NUM_CLASSES} classes, float32"
    return [
        duel(
            f"fit Gaussian naive Bayes, {size}",
            lambda: bg.fit(naive, X, y, method=bg.MLE()),
            lambda: GaussianNB().fit(X, y),
            "GaussianNB",
            ">= 4x",
        ),
        duel(
            f"fit full covariance, {size}",
            lambda: bg.fit(full, X, y, method=bg.MLE()),
            lambda: QuadraticDiscriminantAnalysis(solver="eigen").fit(X, y),
            "QDA (eigen)",
            ">= 2.5x",
        ),
        duel(
            f"exact BMA probabilities, full covariance, {size}",
            lambda: bg.predict(exact, X, rule=bg.BMA()).probabilities,
            lambda: qda.predict_proba(X),
            "QDA.predict_proba (plug-in)",
            ">= 1.5x",
        ),
    ]


def _one_step_price(num_rows):
    X, y = _real(num_rows)
    counts = np.random.default_rng(1).poisson(3.0, X.shape)
    binary = counts > 2
    cases = {
        "Gaussian naive Bayes": (bg.NaiveBayes(), X, ">= 0.77x"),
        "full GDA": (bg.GaussianDiscriminant(), X, ">= 0.77x"),
        "tied GDA": (bg.GaussianDiscriminant("tied"), X, ">= 0.77x"),
        "spherical GDA": (bg.GaussianDiscriminant("spherical"), X, ">= 0.77x"),
        "Bernoulli naive Bayes": (bg.NaiveBayes(), binary, ">= 0.77x"),
        "Poisson naive Bayes": (bg.NaiveBayes(bg.GammaPoisson()), counts, ">= 0.5x"),
        "multinomial naive Bayes": (bg.NaiveBayes(bg.DirichletMultinomial()), counts, ">= 0.5x"),
    }
    return [
        duel(
            f"one-step (Exact + BMA) against two-step (MLE + PlugIn): {name}, {num_rows:,} x {NUM_COLUMNS}",
            lambda model=model, data=data: _answer(model, data, y, bg.Exact(), bg.BMA()),
            lambda model=model, data=data: _answer(model, data, y, bg.MLE(), bg.PlugIn()),
            "two-step, bayesgen",
            goal,
            repeats=5,
        )
        for name, (model, data, goal) in cases.items()
    ]


def _answer(model, X, y, method, rule):
    return bg.predict(bg.fit(model, X, y, method=method), X, rule=rule).probabilities


def _categorical(num_rows):
    rng = np.random.default_rng(2)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    X = rng.integers(0, 10, (num_rows, NUM_COLUMNS))
    schema = bg.Schema(categories={f"x{i}": range(10) for i in range(NUM_COLUMNS)})
    model = bg.NaiveBayes(bg.DirichletCategorical())
    return duel(
        f"fit categorical naive Bayes, {num_rows:,} x {NUM_COLUMNS}, 10 values",
        lambda: bg.fit(model, X, y, method=bg.Exact(), schema=schema),
        lambda: CategoricalNB().fit(X, y),
        "CategoricalNB",
        ">= 10x",
    )


def _sparse(quick):
    rng = np.random.default_rng(3)
    num_rows, num_words, length = (2_000 if quick else 20_000), 50_000, 100
    words = rng.zipf(1.3, (num_rows, length)) % num_words
    rows = np.repeat(np.arange(num_rows), length)
    cells = (np.ones(rows.size), (rows, words.ravel()))
    X = scipy.sparse.csr_matrix(cells, shape=(num_rows, num_words))
    y = rng.integers(0, NUM_CLASSES, num_rows)
    return duel(
        f"fit multinomial naive Bayes, sparse {num_rows:,} x {num_words:,}",
        lambda: bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()),
        lambda: MultinomialNB().fit(X, y),
        "MultinomialNB",
        ">= 1x",
    )


def _iris():
    X, y = load_iris(return_X_y=True)

    def ours():
        for _ in range(20):
            _answer(bg.NaiveBayes(), X, y, bg.MLE(), bg.PlugIn())

    def peer():
        for _ in range(20):
            GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X)

    return duel("20 x (MLE fit + predict) on iris", ours, peer, "GaussianNB", ">= 0.33x")
