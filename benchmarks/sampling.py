"""NUTS: what rows cost after the statistics pass, and effective draws a second against plain NumPyro."""

import statistics

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from arviz_stats.base import array_stats
from numpyro import infer

import bayesgen as bg

from .measure import Result, duel, seconds


def iris_like(num_rows):
    """Rows with the shape of iris: 4 correlated columns, 3 classes."""
    rng = np.random.default_rng(0)
    y = np.arange(num_rows) % 3
    mix = rng.normal(size=(3, 4, 4)) / 2 + np.eye(4)
    X = 2.0 * rng.normal(size=(3, 4))[y] + np.einsum("nij,nj->ni", mix[y], rng.normal(size=(num_rows, 4)))
    return X, y


def run(quick: bool) -> list[Result]:
    """All comparisons."""
    return [_rows(quick), *_effective_draws(quick)]


def _rows(quick):
    model = bg.GaussianDiscriminant()
    few, many = (bg.summarize(model, *iris_like(size)) for size in (1_000, 100_000 if quick else 1_000_000))
    return duel(
        "NUTS after the statistics pass: peer has 1,000 rows, ours " + ("100,000" if quick else "1,000,000"),
        lambda: bg.fit(model, many, method=bg.NUTS(), progress=False),
        lambda: bg.fit(model, few, method=bg.NUTS(), progress=False),
        "1,000 rows, bayesgen",
        ">= 0.77x (issue: time ratio <= 1.3)",
    )


def _effective_draws(quick):
    X, y = iris_like(150)
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.NUTS(), progress=False)
    ours = [_rate(lambda seed=seed: _our_draws(X, y, seed)) for seed in range(3 if quick else 5)]
    plain = [_rate(lambda seed=seed: _plain_draws(fit, X, y, seed)) for seed in range(1 if quick else 3)]
    rates = [statistics.median(values) for values in (ours, plain)]
    steps = float(fit.sample_stats["num_steps"].mean())
    work = f"seconds per effective draw (smallest bulk ESS), full GDA, N=150, {steps:.1f} leapfrog steps a draw"
    peer = "plain NumPyro, same program, obs per row; compiles in each run"
    return [Result(work, 1 / rates[0], 1 / rates[1], peer, "-")]


def _rate(sample):
    """Smallest bulk effective sample size of a run, by the second."""
    draws = {}
    time = seconds(lambda: draws.update(sample()))
    sizes = []
    for value in draws.values():
        flat = np.asarray(value).reshape(*value.shape[:2], -1)
        moving = flat[:, :, np.ptp(flat, axis=(0, 1)) > 0]
        sizes.append(np.nanmin(array_stats.ess(moving, chain_axis=0, draw_axis=1, method="bulk")))
    return min(sizes) / time


def _our_draws(X, y, seed):
    return bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.NUTS(), seed=seed, progress=False).parameters


def _plain_draws(fit, X, y, seed):
    with jax.enable_x64(True):
        model = numpyro.handlers.condition(fit.program, data={"real": jnp.asarray(X), "y": jnp.asarray(y)})
        mcmc = infer.MCMC(
            infer.NUTS(model),
            num_warmup=1000,
            num_samples=1000,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.key(seed), len(y))
        return jax.tree.map(np.asarray, mcmc.get_samples(group_by_chain=True))
