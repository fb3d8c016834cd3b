"""Many fits at once, rows predicted before they are learned, and rows left out, against loops over single fits."""

import functools
import statistics

import numpy as np
from sklearn.datasets import load_iris

import bayesgen as bg

from . import gda
from .measure import REPEATS, Below, Faster, Missing, Row, duel, seconds
from .peers.plain_numpyro import BY_CLASS
from .peers.pymc_nutpie import ROWS, Nutpie

DISCRIMINANT = bg.GaussianDiscriminant()
NUM_DRAWS = 500  # of each of four chains
CHAINS = bg.NUTS(num_samples=NUM_DRAWS)


def measures(quick):
    """Exact posteriors and chains of bootstrap samples of iris; the scores of single rows."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    num_sets, num_sampled = (100, 8) if quick else (1000, 256)
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
    yield functools.partial(_chains, X, y, weights[:num_sampled])
    peers = [Nutpie("nutpie, the rows of a class at once", ROWS), BY_CLASS]
    for peer in [] if quick else peers:
        yield functools.partial(_against, peer, X, y, weights[:64])
    yield functools.partial(_one_by_one, quick)


def _chains(X, y, weights):
    """Seconds for each posterior by NUTS; one run, after one that compiles."""
    sample = functools.partial(bg.fit_many, DISCRIMINANT, X, y, method=CHAINS, keep="summary", progress=False)
    sample(weights=weights[:64])
    took = seconds(functools.partial(sample, weights=weights))
    work = f"a posterior of iris by NUTS, of {len(weights):,} side by side, 4 x {NUM_DRAWS} draws of 44 latents"
    return Row(work, Below(0.15), [took / len(weights)], unit="s")


def _against(peer, X, y, weights):
    """Seconds for each posterior by NUTS, and by a sampler that makes ten of them, one after another."""
    method = bg.NUTS(num_samples=gda.NUM_DRAWS)
    work = f"a posterior of iris by NUTS, of {len(weights)} side by side, 4 x {gda.NUM_DRAWS:,} draws of 44 latents"
    if peer.missing:
        return Missing(f"{work}: {peer.name}", f"needs {', '.join(peer.missing)}: pip install -e '.[bench]'")
    ready = peer.prepare(gda.iris(len(y)))
    sample = functools.partial(bg.fit_many, DISCRIMINANT, X, y, weights=weights, method=method, progress=False)
    sample()
    ours = seconds(sample) / len(weights)
    each = [ready.sample(seed).seconds for seed in range(10)]
    note = f"set-up {ready.set_up_seconds:.0f} s not counted; peer: the posterior of all rows, ten times"
    return Row(work, Faster(), [ours], [statistics.median(each)], "s", peer.name, note)


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
