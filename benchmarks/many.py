"""Many fits at once, rows predicted before they are learned, and rows left out, against loops over single fits."""

import functools

import numpy as np
from sklearn.datasets import load_iris

import bayesgen as bg

from .measure import REPEATS, Below, Faster, Row, duel, seconds

DISCRIMINANT = bg.GaussianDiscriminant()
CHAINS = bg.NUTS(num_samples=500)


def measures(quick):
    """Exact posteriors and chains of bootstrap samples of iris; the scores of single rows."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    num_sets, few = (100, 4) if quick else (1000, 16)
    weights = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), size=num_sets)
    sets = [(X[places], y[places]) for places in rng.integers(0, len(y), (num_sets, len(y)))]
    together = functools.partial(bg.fit_many, DISCRIMINANT, X, y)

    def loop(method, count):
        for row in weights[:count]:
            bg.fit(DISCRIMINANT, X, y, sample_weight=row, method=method)

    yield functools.partial(
        duel,
        f"{num_sets:,} exact posteriors of iris, by weights",
        Faster(10),
        functools.partial(together, weights=weights, method=bg.Exact()),
        functools.partial(loop, bg.Exact(), num_sets),
        "a loop of fit",
    )
    yield functools.partial(
        duel,
        f"{num_sets:,} exact posteriors of iris, data sets as arrays",
        Faster(10),
        functools.partial(bg.fit_many, DISCRIMINANT, sets, method=bg.Exact()),
        functools.partial(loop, bg.Exact(), num_sets),
        "a loop of fit",
    )
    yield functools.partial(
        duel,
        f"{few} posteriors of iris by NUTS, 4 x 500 draws of 44 latents",
        Faster(2),
        functools.partial(together, weights=weights[:few], method=CHAINS),
        functools.partial(loop, CHAINS, few),
        "a loop of fit",
    )
    yield functools.partial(_one_by_one, quick)


def _one_by_one(quick):
    num_rows = 1_000 if quick else 10_000
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, num_rows)
    X = rng.normal(size=(num_rows, 20)) @ rng.normal(size=(20, 20)) + y[:, None]
    score = functools.partial(bg.prequential, DISCRIMINANT, X, y)
    score()
    return Row(
        f"every row before it is learned, {num_rows:,} x 20, full covariances",
        Below(5.0),
        [seconds(score) for _ in range(REPEATS)],
        unit="s",
    )
