"""What NUTS costs: leapfrog steps a draw, and what rows cost after the statistics pass."""

import functools

import numpy as np

import bayesgen as bg

from . import gda
from .measure import REPEATS, Below, Price, Row, duel


def measures(quick):
    """All of them."""
    repeats = 1 if quick else REPEATS
    yield functools.partial(_steps, "GDA, iris", bg.GaussianDiscriminant(), gda.iris(), 8, repeats)
    if not quick:
        large = gda.iris(10_000)
        yield functools.partial(_steps, "GDA, iris shape, N=10,000", bg.GaussianDiscriminant(), large, 8, repeats)
    yield functools.partial(_steps, "naive Bayes, 640 latents", bg.NaiveBayes(), _wide(), 15, 1 if quick else 3)
    yield functools.partial(_rows, quick)


def _wide():
    """64 normal columns in 5 classes: 320 means and 320 variances."""
    rng = np.random.default_rng(0)
    labels = np.arange(1_000) % 5
    return gda.Problem(rng.normal(size=(5, 64))[labels] + rng.normal(size=(1_000, 64)), labels)


def _steps(name, model, problem, bound, repeats):
    fits = [bg.fit(model, problem.X, problem.y, method=bg.NUTS(), seed=seed, progress=False) for seed in range(repeats)]
    steps = [float(fit.sample_stats["num_steps"].mean()) for fit in fits]
    return Row(f"leapfrog steps a draw: {name}", Below(bound), steps, unit="steps", note=fits[0].attributes["path"])


def _rows(quick):
    model, many = bg.GaussianDiscriminant(), 100_000 if quick else 1_000_000
    small, large = (bg.summarize(model, problem.X, problem.y) for problem in (gda.iris(1_000), gda.iris(many)))
    return duel(
        f"NUTS after the statistics pass, N={many:,} over N=1,000",
        Price(1.1),
        lambda: bg.fit(model, large, method=bg.NUTS(), progress=False),
        lambda: bg.fit(model, small, method=bg.NUTS(), progress=False),
        "bayesgen, N=1,000",
        repeats=REPEATS if quick else 2 * REPEATS + 1,
    )
