"""The table of built-in models, each with small data whose dimensions are distinct primes."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import bayesgen as bg

ROWS, NEW = 53, 7
OPEN_MAP = bg.MAP(num_starts=2)  # what holds of one mode found by EM holds of another


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and data for it.

    Attributes:
        model: the recipe.
        rows: (rng, codes) -> X for rows of these classes.
        labels: the classes, as users write them.
        shares: how often each class occurs.
    """

    model: Any
    rows: Callable
    labels: tuple = ("ape", "bear")
    shares: tuple = (0.35, 0.65)

    @functools.cached_property
    def data(self):
        """(X, y), every class in it."""
        rng = np.random.default_rng(3)
        codes = rng.choice(len(self.labels), ROWS, p=self.shares)
        codes[: len(self.labels)] = range(len(self.labels))
        return self.rows(rng, codes), np.asarray(self.labels)[codes]

    @functools.cached_property
    def new(self):
        """Rows to predict."""
        rng = np.random.default_rng(4)
        return self.rows(rng, rng.integers(0, len(self.labels), NEW))

    @functools.cached_property
    def exact(self):
        """The exact fit, which many tests look at."""
        return bg.fit(self.model, *self.data, method=bg.Exact())

    @functools.cached_property
    def point(self):
        """The joint mode, of models that have no exact fit."""
        return bg.fit(self.model, *self.data, method=OPEN_MAP)


def take(X, rows):
    """Some rows of X, in this order."""
    return {name: values[rows] for name, values in X.items()} if isinstance(X, dict) else X[rows]


def stack(X, more):
    """The rows of X, then more."""
    if isinstance(X, dict):
        return {name: _concatenate([X[name], more[name]]) for name in X}
    join = scipy.sparse.vstack if scipy.sparse.issparse(X) else np.concatenate
    return join([X, more])


def _concatenate(parts):
    """Arrays one after another; masks stay."""
    return (np.ma if isinstance(parts[0], np.ma.MaskedArray) else np).concatenate(parts)


def stated(fit, X):
    """Rows by site, as a program of one's own takes them."""
    sites = {name: v.toarray() if hasattr(v, "toarray") else v for name, v in fit.read(X).values.items()}
    totals = {f"{name}_total": sites[name].sum(-1) for name in sites if f"{name}_total" in fit.program.covariates}
    lengths = {
        f"{name}_length": (sites[name] >= 0).sum(-1) for name in sites if f"{name}_length" in fit.program.covariates
    }
    return sites | totals | lengths


def reals(names):
    """Correlated real columns of unlike scales, with class means apart by about their spread."""

    def rows(rng, codes):
        factor = np.tril(np.random.default_rng(6).normal(0, 0.7, (len(names), len(names))))
        factor[np.diag_indices(len(names))] = 1.0
        table = rng.normal(0, 1, (len(codes), len(names))) @ factor.T + np.outer(codes, [1.1, -0.8, 0.5][: len(names)])
        return {name: 10.0 ** (2 * j - 2) * table[:, j] + j for j, name in enumerate(names)}

    return rows


def mixed(rng, codes):
    """Every kind of column, and categorical ones of two and of three values."""
    draw = rng.random((len(codes), 4)) + 0.2 * codes[:, None]
    return reals(("height", "weight"))(rng, codes) | {
        "wild": draw[:, 0] > 0.6,
        "fur": np.asarray(["dark", "light"])[(draw[:, 1] > 0.7).astype(int)],
        "food": np.asarray(["leaves", "meat", "roots"])[np.digitize(draw[:, 2], [0.4, 0.8])],
        "visits": rng.poisson(1.5 + 2 * codes),
        "tame": draw[:, 3] > 0.5,
        "calls": rng.poisson(4.0 - codes),
    }


def documents(rng, codes):
    """Word counts of five words, of documents of unlike lengths."""
    topics = np.asarray([[5, 1, 1, 2, 3], [1, 4, 2, 2, 1], [2, 1, 5, 1, 1]])[codes]
    lengths = rng.integers(3, 12, len(codes))
    return np.stack([rng.multinomial(n, topic / topic.sum()) for n, topic in zip(lengths, topics, strict=True)])


def sparse_documents(rng, codes):
    return scipy.sparse.csr_array(documents(rng, codes))


def sparse_words(rng, codes):
    """Which of the five words a document has."""
    return scipy.sparse.csr_array((documents(rng, codes) > 1) * 1.0)


def cries(rng, codes):
    """Words of three letters, which follow each other in another way in each class, beside a number."""
    follows = np.random.default_rng(7).dirichlet(np.full(3, 0.6), (3, 4))  # the last row is that of the start
    words = []
    for code in codes:
        letters = [3]
        for _ in range(rng.integers(0, 6)):
            letters.append(rng.choice(3, p=follows[code, letters[-1]]))
        words.append("".join("grw"[letter] for letter in letters[1:]))
    return {"cry": np.asarray(words), "height": rng.normal(codes, 1.0)}


THREE = {"labels": ("ape", "bear", "cow"), "shares": (0.25, 0.25, 0.5)}
REALS = reals(("height", "weight", "age"))
COUNTS = bg.GammaPoisson()
INFORMATIVE = {
    "real": bg.NormalInverseGamma([0.3, 1.1], [0.6, 2.0], 2.7, [0.4, 1.9]),
    "binary": bg.BetaBernoulli(1.7, [2.6, 1.4]),
    "categorical": bg.DirichletCategorical(1.4),
    "visits": bg.GammaPoisson(2.2, 0.6),
    "calls": bg.GammaPoisson(3.1, 0.8),
}

CASES = {
    "naive Bayes": Case(bg.NaiveBayes({"visits": COUNTS, "calls": COUNTS}), mixed),
    "naive Bayes, informative": Case(
        bg.NaiveBayes(INFORMATIVE, class_prior=bg.DirichletCategorical([1.5, 2.5, 3.5])), mixed, **THREE
    ),
    "naive Bayes, integer labels": Case(bg.NaiveBayes(), REALS, labels=(7, 3), shares=(0.2, 0.8)),
    "discriminant, full": Case(bg.GaussianDiscriminant("full"), REALS),
    "discriminant, tied": Case(bg.GaussianDiscriminant("tied"), REALS, **THREE),
    "discriminant, diag": Case(bg.GaussianDiscriminant("diag"), REALS, **THREE),
    "discriminant, spherical": Case(bg.GaussianDiscriminant("spherical"), REALS, **THREE),
    "discriminant, tied-diag": Case(bg.GaussianDiscriminant("tied-diag"), REALS, **THREE),
    "discriminant, tied-spherical": Case(bg.GaussianDiscriminant("tied-spherical"), REALS, **THREE),
    "discriminant, informative": Case(
        bg.GaussianDiscriminant(
            "full",
            bg.NormalInverseWishart([0.5, 0.2, 1.0], 0.7, 6.5, [[2, 0.3, 0], [0.3, 1, 0.1], [0, 0.1, 3]]),
        ),
        REALS,
    ),
    "discriminant, other kinds": Case(bg.GaussianDiscriminant("tied", class_prior=[0.5, 0.5]), mixed),
    "multinomial, dense": Case(bg.NaiveBayes(bg.DirichletMultinomial([1.0, 1.5, 2.0, 1.2, 1.3])), documents, **THREE),
    "multinomial, sparse": Case(bg.NaiveBayes(class_prior=[0.2, 0.3, 0.5]), sparse_documents, **THREE),
    "Bernoulli, sparse": Case(bg.NaiveBayes(bg.BetaBernoulli(1.7, 2.6)), sparse_words, **THREE),
    "naive Bayes, binned": Case(
        bg.NaiveBayes({"real": bg.DirichletHistogram(5), "visits": COUNTS, "calls": COUNTS}), mixed, **THREE
    ),
    "naive Bayes, bins stated": Case(
        bg.NaiveBayes(
            {
                "height": bg.DirichletHistogram(concentration=[1.4, 2.0], edges=[-0.5, 0.1, 0.6], tails=[0.3, 0.2]),
                "weight": bg.DirichletHistogram(4, 1.7),
                "age": bg.NormalInverseGamma(),
            }
        ),
        REALS,
    ),
    "naive Bayes, words": Case(bg.NaiveBayes({"cry": bg.DirichletMarkov(2, 1.7)}), cries, **THREE),
    "naive Bayes, words that end": Case(bg.NaiveBayes({"cry": bg.DirichletMarkov(concentration=1.2, end=True)}), cries),
    "own blocks": Case(
        bg.GenerativeClassifier(
            [
                ("shape", bg.NormalInverseWishart(), ["weight", "height"]),
                ("yes", bg.BetaBernoulli(2, 3), ["tame", "wild"]),
                ("diet", bg.DirichletCategorical(), ["food"]),
                ("coat", bg.DirichletCategorical([1.5, 2.5]), ["fur"]),
                ("number", bg.GammaPoisson(), ["calls", "visits"]),
            ]
        ),
        mixed,
    ),
}


def alike(rng, codes):
    """Correlated real columns of like scales, as noise that is alike in all of them wants."""
    return {name: 10.0 ** (2 - 2 * j) * values for j, (name, values) in enumerate(REALS(rng, codes).items())}


# nearly palindromes or not: which rules made a string is hidden
MIRRORED = {"S": ["a S a", "b S b", "M"], "M": ["a M", "b M", "a", "b"]}


def mirrored(rng, codes):
    """Strings, those of the first class mostly palindromes."""
    words = ["".join(rng.choice(["a", "b"], rng.integers(1, 4))) for _ in codes]
    return {
        "word": np.array(
            [word + (word[::-1] if code == 0 else "") for word, code in zip(words, codes, strict=True)], object
        )
    }


# families without a closed posterior: what is said of points holds of these, too
OPEN = {
    "low rank": Case(
        bg.GenerativeClassifier([("size", bg.LowRankNormal(2), ["weight", "height", "age"])]), alike, **THREE
    ),
    "low rank beside others": Case(
        bg.GenerativeClassifier(
            [
                ("size", bg.LowRankNormal(1, kappa=0.6, shape=2.3), ["weight", "height"]),
                ("number", bg.GammaPoisson(), ["calls", "visits"]),
                ("rest", bg.BetaBernoulli(2, 3), ["tame", "wild"]),
                ("diet", bg.DirichletCategorical(), ["food"]),
                ("coat", bg.DirichletCategorical(), ["fur"]),
            ]
        ),
        mixed,
    ),
    "grammar": Case(bg.GenerativeClassifier([("size", bg.DirichletGrammar(MIRRORED, 1.6), ["word"])]), mirrored),
}


def with_holes(X, rng):
    """The columns with a fifth of their cells masked, and one row of which nothing is there."""
    masked = {}
    for name, values in X.items():
        missing = rng.random(len(values)) < 0.2
        missing[2] = True
        masked[name] = np.ma.array(values, mask=missing)
    return masked


@dataclasses.dataclass(frozen=True)
class Holed(Case):
    """A case with a fifth of its cells missing, in training rows and new ones."""

    @functools.cached_property
    def data(self):
        X, y = Case.data.func(self)
        return with_holes(X, np.random.default_rng(8)), y

    @functools.cached_property
    def new(self):
        return with_holes(Case.new.func(self), np.random.default_rng(9))


# sparse matrices and counts of one total have no missing cells; jointly normal ones are exact in whole rows only
JOINT = {name for name in CASES if name.startswith(("discriminant, full", "discriminant, tied", "discriminant, inf"))}
JOINT = (JOINT - {"discriminant, tied-diag", "discriminant, tied-spherical"}) | {
    "discriminant, other kinds",
    "own blocks",
}
WHOLE = {"multinomial, dense", "multinomial, sparse", "Bernoulli, sparse"}
ALL = {
    name: Holed(case.model, case.rows, case.labels, case.shares) for name, case in CASES.items() if name not in WHOLE
}
HOLED = {name: case for name, case in ALL.items() if name not in JOINT}
