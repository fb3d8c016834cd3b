"""Finite spaces of processes: the number game, and averages over naive-Bayes structures."""

import functools

import jax
import numpy as np
import pandas as pd
from sklearn.naive_bayes import BernoulliNB

import bayesgen as bg
from bayesgen.concepts.hypothesis_classes import log_probability

from .closed_form import words
from .measure import Below, Faster, Price, Row, duel, seconds


def measures(quick):
    """All comparisons."""
    yield _number_game
    yield _rectangles
    yield _sets
    yield _mushrooms
    yield functools.partial(_sparse, *words(2_000 if quick else 20_000))


def _number_game():
    learner = bg.ConceptLearner(bg.number_game("tenenbaum"))

    def answer():
        fit = bg.fit(learner, [16, 8, 2, 64], method=bg.Exact())
        return bg.predict(fit, range(1, 101), rule=bg.BMA())

    answer()
    times = [1e3 * seconds(answer) for _ in range(21)]
    return Row('number_game("tenenbaum"): fit and predict all 100 numbers, warm', Below(50), times, unit="ms")


def _rectangles():
    """Each hypothesis has a bit for each member. The peer is what matrices of booleans would take for the weighing."""
    space = bg.rectangles(20, 20)
    matrix = np.asarray(space.extensions)
    weights = np.ones(len(matrix))
    return duel(
        f"rectangles of 20 x 20 places, {len(matrix):,} hypotheses: weigh all of them for each place",
        Faster(1.5),
        lambda: space.extensions.weigh(weights),
        lambda: weights @ matrix.astype(float),
        "a matrix of booleans",
        repeats=11,
    )


def _sets(num_sets=200, num_kinds=512):
    """The probability of sets of examples and its gradient: many sets on one scale, and each on its own."""
    rng = np.random.default_rng(0)
    logs, masses = -20 * rng.random((1, num_kinds)), rng.random((1, num_sets, num_kinds))

    def on_their_own(logs, masses):
        return jax.scipy.special.logsumexp(logs[:, None], b=masses, axis=-1).sum()

    with jax.enable_x64(True):
        ours, plain = (jax.jit(jax.value_and_grad(function)) for function in (log_probability, on_their_own))

        def repeated(function):
            return lambda: [jax.block_until_ready(function(logs, masses)) for _ in range(200)]

        work = f"probability of {num_sets} sets of examples and its gradient, 200 times"
        return duel(work, Faster(1.5), repeated(ours), repeated(plain), "logsumexp of each set", repeats=11)


def _mushrooms():
    """Categorical columns of 2 to 12 values, as many and as long as those of the mushroom data."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 8_124)
    values = {f"x{d}": np.char.add("v", rng.integers(0, 2 + d % 11, len(y)).astype(str)) for d in range(22)}
    X = pd.DataFrame(values).astype("category")
    return duel(
        "structure average, fit, 8,124 x 22 categorical",
        Price(2),
        lambda: bg.fit(bg.NaiveBayes(structure="average"), X, y, method=bg.Exact()),
        lambda: bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()),
        "plain naive Bayes, bayesgen",
        repeats=11,
    )


def _sparse(X, y):
    """Whether each word occurs; scikit-learn gets its own type of numbers, made beforehand."""
    occurs, numbers = X > 0, (X > 0).astype(np.float64)
    model = bg.NaiveBayes(structure="average")
    return duel(
        f"structure average, fit, sparse Bernoulli {X.shape[0]:,} x {X.shape[1]:,}",
        Price(3),
        lambda: bg.fit(model, occurs, y, method=bg.Exact()),
        lambda: BernoulliNB(binarize=None).fit(numbers, y),
        "BernoulliNB",
    )
