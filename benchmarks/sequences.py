"""Markov chains of names: fit and predict beside bags of k-grams, and the paths of counting and looking up.

The nearest peer is scikit-learn's `CountVectorizer(analyzer="char")` with `MultinomialNB`. It counts each k-gram as a
word of a bag, as if they did not overlap: what it predicts from is no density of the names. Both read texts.
"""

import functools

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import bayesgen as bg

from .measure import Faster, Price, duel

LETTERS = np.asarray(list("abcdefghijklmnopqrstuvwxyz"))
MOST = 12  # letters of a name
CLASSES = 5


def measures(quick):
    """Orders 1 and 2: fit, the plug-in, and the average over parameters; what the paths are worth."""
    X, y = names(10_000 if quick else 100_000)
    for order in (1, 2):
        yield functools.partial(_fit, X, y, order)
        yield functools.partial(_predict, X, y, order)
    yield functools.partial(_average, X, y)
    yield functools.partial(_look_up, X, y)


def names(num_rows):
    """Names of 8 letters on average, of classes that each have their own chain."""
    rng = np.random.default_rng(0)
    y, lengths = rng.integers(0, CLASSES, num_rows), rng.integers(4, MOST + 1, num_rows)
    cumulative = rng.dirichlet(np.full(26, 0.3), (CLASSES, 26)).cumsum(-1)
    steps = [rng.integers(0, 26, num_rows)]
    for _ in range(MOST - 1):
        steps.append((rng.random((num_rows, 1)) > cumulative[y, steps[-1]]).sum(-1).clip(0, 25))
    letters = LETTERS[np.stack(steps, 1)]
    return ["".join(row[:length]) for row, length in zip(letters.tolist(), lengths, strict=True)], y


def _model(order):
    return bg.NaiveBayes({"name": bg.DirichletMarkov(order)})


def _peer(order):
    return make_pipeline(CountVectorizer(analyzer="char", ngram_range=(1, order + 1)), MultinomialNB())


def _fit(X, y, order):
    return duel(
        f"names, order {order}: fit {len(y):,} texts",
        Faster(1.0),
        lambda: bg.fit(_model(order), {"name": X}, y, method=bg.Exact()),
        lambda: _peer(order).fit(X, y),
        f"CountVectorizer of 1- to {order + 1}-grams, MultinomialNB",
    )


def _predict(X, y, order):
    fit, peer = bg.fit(_model(order), {"name": X}, y, method=bg.Exact()), _peer(order).fit(X, y)
    return duel(
        f"names, order {order}: plug-in, predict {len(y):,} texts",
        Faster(1.0),
        lambda: bg.predict(fit, {"name": X}, rule=bg.PlugIn()).probabilities,
        lambda: peer.predict_proba(X),
        f"CountVectorizer of 1- to {order + 1}-grams, MultinomialNB",
    )


def _average(X, y):
    fit = bg.fit(_model(2), {"name": X}, y, method=bg.Exact())
    return duel(
        f"names, order 2: exact average over parameters, predict {len(y):,} texts",
        Price(3),
        lambda: bg.predict(fit, {"name": X}, rule=bg.BMA()).probabilities,
        lambda: bg.predict(fit, {"name": X}, rule=bg.PlugIn()).probabilities,
        "plug-in, bayesgen",
    )


def _look_up(X, y):
    """Densities by one sparse product; plainly, by looking each step up and adding."""
    fit = bg.fit(_model(2), {"name": X}, y, method=bg.Exact())
    values = fit.read({"name": X}).values["name"]
    density = (
        fit.concrete.conjugate(fit.schema)
        .blocks[0]
        .family.row_density(
            {name.removeprefix("name_"): value for name, value in fit.parameters.items() if name.startswith("name_")}
        )
    )
    contexts, size = density.likelihood.contexts, density.log_probs[0].size
    table = np.concatenate([density.log_probs.reshape(CLASSES, -1).T, np.zeros((1, CLASSES))])

    def plainly():
        inside = values >= 0
        entries = np.where(inside, contexts.entries(np.where(inside, values, 0)), size)
        return sum(table[step] for step in entries.T)

    np.testing.assert_allclose(density.log_prob(values), plainly(), rtol=1e-9)
    work = f"names, order 2: log densities of {len(y):,} rows under {CLASSES} classes"
    return duel(work, Faster(1.5), lambda: density.log_prob(values), plainly, "look-up step by step", repeats=11)
