"""Surfaces: probabilistic PCA beside scikit-learn's, and likelihoods by way of factors beside those by covariances."""

import functools

import jax
import numpy as np
import numpyro.distributions as dist
from sklearn.decomposition import PCA

import bayesgen as bg
from bayesgen.statistics import read_conditional
from bayesgen.statistics.table import MULTIVARIATE_NORMAL

from .measure import Faster, duel

COLUMNS, FACTORS, CLASSES, CHAINS = 50, 3, 3, 4


def measures(quick):
    """Lines for a million rows, and for steps of a sampler."""
    num_rows = 100_000 if quick else 1_000_000
    X = rows(num_rows)
    size = f"{num_rows:,} x {COLUMNS}"
    yield functools.partial(_fit, X, size)
    yield functools.partial(_densities, X[: num_rows // 10], f"{num_rows // 10:,} x {COLUMNS}")
    yield functools.partial(_transform, X[: num_rows // 10], f"{num_rows // 10:,} x {COLUMNS}")
    yield _factors


def rows(num_rows, seed=0):
    """Rows near a surface."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(COLUMNS, FACTORS))
    X = rng.normal(size=(num_rows, COLUMNS))
    X += rng.normal(size=(num_rows, FACTORS)) @ loadings.T
    return X


def _fit(X, size):
    return duel(
        f"fit probabilistic PCA, {FACTORS} factors, {size}",
        Faster(1),
        lambda: bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.MLE()),
        lambda: PCA(FACTORS).fit(X),
        "PCA.fit",
        repeats=3,
    )


def _densities(X, size):
    ours, peer = bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.MLE()), PCA(FACTORS).fit(X)
    return duel(
        f"densities of rows, probabilistic PCA, {size}",
        Faster(),
        lambda: bg.predict(ours, X, rule=bg.PlugIn()).log_marginal,
        lambda: peer.score_samples(X),
        "PCA.score_samples",
    )


def _transform(X, size):
    ours, peer = bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.MLE()), PCA(FACTORS).fit(X)
    return duel(
        f"coordinates of rows, probabilistic PCA, {size}",
        Faster(),
        lambda: ours.transform(X),
        lambda: peer.transform(X),
        "PCA.transform",
        note="ours looks for cells that are missing",
    )


def _factors():
    """Value and slope of a likelihood: what a leapfrog step of a sampler costs."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, CLASSES, 2000)
    shape = (CHAINS, CLASSES, COLUMNS)
    values = (rng.normal(size=shape), rng.normal(size=(*shape, FACTORS)), rng.gamma(3.0, 1.0, shape))
    with jax.enable_x64(True):
        summary = jax.device_put(MULTIVARIATE_NORMAL.summarize(rows(2000), codes, CLASSES))

        def by(likelihood):
            def log_likelihood(values):
                read = read_conditional(dist.LowRankMultivariateNormal(*values), -1)
                return (likelihood or read.likelihood).log_likelihood(read.parameters, summary).sum()

            return jax.jit(jax.vmap(jax.value_and_grad(log_likelihood)))

        def timed(function):
            def many():
                with jax.enable_x64(True):
                    for _ in range(50):
                        jax.block_until_ready(function(values))

            return many

        return duel(
            f"50 values and slopes of likelihoods, {COLUMNS} columns, {FACTORS} factors, {CHAINS} chains",
            Faster(1.5),
            timed(by(None)),
            timed(by(MULTIVARIATE_NORMAL)),
            "by way of the covariance",
        )
