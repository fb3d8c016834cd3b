"""The price of the one-step answer: `Exact` + `BMA` over `MLE` + `PlugIn`, fit and predict, every built-in model."""

import functools

import numpy as np

import bayesgen as bg

from .closed_form import NUM_COLUMNS, answer, reals
from .measure import Price, duel

REALS, COUNTS = 1.3, 2.0


def measures(quick):
    """One line a model."""
    num_rows = 100_000 if quick else 1_000_000
    X, y = reals(num_rows)
    rng = np.random.default_rng(1)
    counts, values = rng.poisson(3.0, X.shape), rng.integers(0, 10, X.shape)
    categories = bg.Schema(categories={f"x{i}": range(10) for i in range(NUM_COLUMNS)})
    cases = [
        ("Gaussian naive Bayes", bg.NaiveBayes(), X, None, REALS),
        *[
            (f"GDA, {name}", bg.GaussianDiscriminant(name), X, None, REALS)
            for name in ("full", "tied", "diag", "spherical")
        ],
        ("Bernoulli naive Bayes", bg.NaiveBayes(), counts > 2, None, REALS),
        ("categorical naive Bayes", bg.NaiveBayes(bg.DirichletCategorical()), values, categories, REALS),
        ("Poisson naive Bayes", bg.NaiveBayes(bg.GammaPoisson()), counts, None, COUNTS),
        ("multinomial naive Bayes", bg.NaiveBayes(bg.DirichletMultinomial()), counts, None, COUNTS),
    ]
    for name, model, data, schema, bound in cases:
        both = functools.partial(answer, model, data, y, schema)
        yield functools.partial(
            duel,
            f"one-step over two-step answer, {num_rows:,} x {NUM_COLUMNS}: {name}",
            Price(bound),
            functools.partial(both, bg.Exact(), bg.BMA()),
            functools.partial(both, bg.MLE(), bg.PlugIn()),
            "two-step, bayesgen",
        )
