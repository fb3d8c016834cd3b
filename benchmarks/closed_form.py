"""Fitting and predicting in closed form, against scikit-learn."""

import functools

import jax
import numpy as np
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.statistics import sufficient_statistics

from .measure import Faster, Price, duel

NUM_COLUMNS, NUM_CLASSES = 20, 5


def measures(quick):
    """All comparisons; `quick` takes a tenth of the rows."""
    num_rows = 100_000 if quick else 1_000_000
    X, y = reals(num_rows)
    size = f"{num_rows:,} x {NUM_COLUMNS}"
    for measure in (_naive, _full, _full_probabilities, _binned, _binned_price):
        yield functools.partial(measure, X, y, f"{size}, {NUM_CLASSES} classes, float32")
    yield functools.partial(_categorical, num_rows, size)
    yield functools.partial(_multinomial, *words(num_rows // 50))
    documents = functools.cache(functools.partial(texts, num_rows // 100 * 3))
    for rule, bound in ((bg.PlugIn(), 1.0), (bg.BMA(), 2.0)):
        yield functools.partial(_multinomial_probabilities, documents, rule, bound)
    yield _iris
    for covariance in ("full", "tied", "diag"):
        yield functools.partial(_many_posteriors, covariance, 100 if quick else 1_000)


def reals(num_rows):
    """Correlated real columns in classes with one covariance, float32."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    centers = rng.normal(size=(NUM_CLASSES, NUM_COLUMNS))
    X = centers[y] + rng.normal(size=(num_rows, NUM_COLUMNS)) @ rng.normal(size=(NUM_COLUMNS, NUM_COLUMNS))
    return X.astype(np.float32), y


def words(num_rows, num_words=50_000, length=100):
    """Sparse counts of Zipf-distributed words, 100 words a row, and labels."""
    rng = np.random.default_rng(3)
    columns = rng.zipf(1.3, (num_rows, length)) % num_words
    cells = (np.ones(columns.size), (np.repeat(np.arange(num_rows), length), columns.ravel()))
    X = scipy.sparse.csr_matrix(cells, shape=(num_rows, num_words))
    X.sum_duplicates()
    return X, rng.integers(0, NUM_CLASSES, num_rows)


def texts(num_rows, num_words=20_000, length=210, num_classes=11):
    """Sparse counts of Zipf-distributed words, of which some hundred differ in a row, and labels."""
    rng = np.random.default_rng(0)
    columns = rng.zipf(1.25, (num_rows, length)) % num_words
    cells = (np.ones(columns.size), (np.repeat(np.arange(num_rows), length), columns.ravel()))
    X = scipy.sparse.csr_matrix(cells, shape=(num_rows, num_words))
    X.sum_duplicates()
    return X, rng.integers(0, num_classes, num_rows)


def answer(model, X, y, schema, method, rule):
    """Fit, then predict the same rows."""
    return bg.predict(bg.fit(model, X, y, method=method, schema=schema), X, rule=rule).probabilities


def _naive(X, y, size):
    return duel(
        f"fit Gaussian naive Bayes, {size}",
        Faster(4),
        lambda: bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE()),
        lambda: GaussianNB().fit(X, y),
        "GaussianNB",
        note="then 6x",
    )


def _full(X, y, size):
    return duel(
        f"fit full covariance, {size}",
        Faster(2.5),
        lambda: bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.MLE()),
        lambda: QuadraticDiscriminantAnalysis(solver="eigen").fit(X, y),
        "QDA (eigen)",
    )


def _full_probabilities(X, y, size):
    exact = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    qda = QuadraticDiscriminantAnalysis(solver="eigen").fit(X, y)
    return duel(
        f"exact BMA probabilities, full covariance, {size}",
        Faster(1.5),
        lambda: bg.predict(exact, X, rule=bg.BMA()).probabilities,
        lambda: qda.predict_proba(X),
        "QDA.predict_proba (a plug-in)",
    )


def _categorical(num_rows, size):
    rng = np.random.default_rng(2)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    X = rng.integers(0, 10, (num_rows, NUM_COLUMNS))
    schema = bg.Schema(categories={f"x{i}": range(10) for i in range(NUM_COLUMNS)})
    model = bg.NaiveBayes(bg.DirichletCategorical())
    return duel(
        f"fit categorical naive Bayes, {size}, 10 values, int64",
        Faster(10),
        lambda: bg.fit(model, X, y, method=bg.Exact(), schema=schema),
        lambda: CategoricalNB().fit(X, y),
        "CategoricalNB",
        note="then 20x; the same pseudo-counts of 1",
    )


def _binned(X, y, size):
    """Discretise, then naive Bayes: bins at training quantiles, and the counts in them."""
    model = bg.NaiveBayes(bg.DirichletHistogram(10))
    cutter = KBinsDiscretizer(
        10, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf", subsample=None
    )
    return duel(
        f"fit naive Bayes in 10 bins, {size}",
        Faster(4),
        lambda: bg.fit(model, X, y, method=bg.Exact()),
        lambda: make_pipeline(cutter, CategoricalNB()).fit(X, y),
        "KBinsDiscretizer + CategoricalNB",
        note="all rows tell the quantiles",
    )


def _binned_price(X, y, size):
    """What bins that are known cost over normal columns."""
    binned = bg.NaiveBayes(bg.DirichletHistogram(10))
    schema = bg.fit(binned, X, y, method=bg.Exact()).schema
    return duel(
        f"fit naive Bayes in 10 known bins, {size}",
        Price(6),
        lambda: bg.fit(binned, X, y, method=bg.Exact(), schema=schema),
        lambda: bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()),
        "normal columns",
    )


def _multinomial(X, y):
    return duel(
        f"fit multinomial naive Bayes, sparse {X.shape[0]:,} x {X.shape[1]:,}, 100 words a row",
        Faster(1),
        lambda: bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()),
        lambda: MultinomialNB().fit(X, y),
        "MultinomialNB",
        repeats=11,
    )


def _multinomial_probabilities(documents, rule, bound):
    X, y = documents()
    fit, peer = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()), MultinomialNB().fit(X, y)
    return duel(
        f"multinomial probabilities, {rule!r}, sparse {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz / 1e6:.1f} million cells",
        Price(bound),
        lambda: bg.predict(fit, X, rule=rule).probabilities,
        lambda: peer.predict_proba(X),
        "MultinomialNB.predict_proba (a plug-in)",
        repeats=21,
    )


def _iris():
    X, y = load_iris(return_X_y=True)

    def ours():
        for _ in range(20):
            answer(bg.NaiveBayes(), X, y, None, bg.MLE(), bg.PlugIn())

    def peer():
        for _ in range(20):
            GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X)

    return duel("20 times MLE fit and predict, iris, naive Bayes, warm", Price(3), ours, peer, "GaussianNB")


def _many_posteriors(covariance, number):
    """Bootstrap resamples as weights of one data set: posteriors and evidences by `vmap`, and fit by fit."""
    X, y = load_iris(return_X_y=True)
    model = bg.GaussianDiscriminant(covariance)
    first = bg.summarize(model, X, y)
    prior, likelihoods = first.model.conjugate(first.scaled_schema), first.model.statistics(first.schema)
    weights = np.random.default_rng(0).multinomial(len(X), np.full(len(X), 1 / len(X)), number).astype(float)

    def posterior(of_rows):
        rows = Rows({block.name: X for block in prior.blocks}, labels=y, weights=of_rows)
        statistics = sufficient_statistics(rows, likelihoods, 3)
        return prior.update(statistics), prior.log_evidence(statistics)

    with jax.enable_x64(True):
        compiled = jax.jit(jax.vmap(posterior))
        return duel(
            f"{number:,} exact posteriors of iris, {covariance}, compiled",
            Faster(10),
            lambda: jax.block_until_ready(compiled(weights)),
            lambda: [bg.fit(model, X, y, method=bg.Exact(), sample_weight=w, schema=first.schema) for w in weights],
            "fit by fit",
        )
