"""NumPyro models as they are written: smallest bulk effective sample size a second, against NumPyro's own NUTS.

The models are those of `tests/generative/written.py`; four chains. One has an effect of each of 300 rows: rates are of
the other latents. NumPyro's run is jitted once, as a call of `MCMC.run` compiles anew; its chains are vectorised, its
warm-up and masses are its defaults, and it runs in double precision, as ours does.
"""

import functools
import math
import time

import jax
import numpy as np
import numpyro.infer

import bayesgen as bg
from bayesgen.statistics import bulk_sizes
from tests.generative.written import TABLE, Written, overdispersed, overdispersed_counts

from .measure import REPEATS, Higher, Row, rounds, seconds

NUM_CHAINS, NUM_DRAWS, NUM_WARMUP = 4, 1000, 1000
QUICK = ("linear", "logistic")
FAST = ("items", "scaled", "joint")  # in a tenth of a second, by any sampler
CASES = {name: case for name, case in TABLE.items() if name not in FAST}
CASES["overdispersed"] = Written(overdispersed, overdispersed_counts(300), None, ("count",), ("x",))


def measures(quick):
    """A line for each model: rates of draws, and first calls."""
    for name in QUICK if quick else CASES:
        yield functools.partial(rates, name, 2 if quick else 3)
    for name in QUICK:
        yield functools.partial(first_calls, name)
    yield functools.partial(many_rows, 2 if quick else REPEATS)


def rates(name, repeats):
    """Effective draws a second, ours and NumPyro's, in turn."""
    ours, peer = fitted(name), sampled(name)
    ours(99), peer(99)
    pairs = rounds(lambda seed: (rate(ours, seed), rate(peer, seed)), repeats)
    work = f"{name} as it is written, smallest bulk ESS/s, {NUM_CHAINS} x {NUM_DRAWS:,} draws, warm"
    return Row(work, Higher(0.8), *zip(*pairs, strict=True), "ESS/s", "NumPyro's NUTS, jitted once")


def first_calls(name):
    """The seconds from the model to the first draws, compiling."""
    jax.clear_caches()
    ours = seconds(lambda: fitted(name)(0))
    jax.clear_caches()
    peer = seconds(lambda: sampled(name)(0))
    return Row(f"{name} as it is written, first call", Higher(0.5), [1 / ours], [1 / peer], "1/s", "NumPyro's NUTS")


def many_rows(repeats):
    """Draws a second of a regression on 10^6 rows, passes over the rows aside, and on 10^3 rows."""
    sizes = 10**6, 10**3
    fits = [regression(size) for size in sizes]
    for fit in fits:
        fit(99, NUM_DRAWS), fit(99, 4 * NUM_DRAWS)

    def draws_a_second(fit, seed):
        took = [seconds(lambda num_draws=num_draws: fit(seed, num_draws)) for num_draws in (NUM_DRAWS, 4 * NUM_DRAWS)]
        return 3 * NUM_DRAWS * NUM_CHAINS / (took[1] - took[0])

    pairs = rounds(lambda seed: tuple(draws_a_second(fit, seed) for fit in fits), repeats)
    whole = ", ".join(f"{seconds(lambda fit=fit: fit(0, NUM_DRAWS)):.2f}" for fit in fits)
    work = "linear regression as it is written, 10 slopes, 10^6 rows, further draws"
    peer, note = "the same on 10^3 rows", f"fits of {NUM_DRAWS:,} draws, passes over the rows included: {whole} s"
    return Row(work, Higher(0.8), *zip(*pairs, strict=True), "draws/s", peer, note)


def regression(size):
    """Seed and number of draws -> the draws of a regression on so many rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(size, 10))
    y = 1.0 + X @ np.linspace(-1, 1, 10) + 0.4 * random.normal(size=size)
    program = bg.GenerativeProgram.from_model(TABLE["linear"].model, X, y, label="y")
    rows, labels = program.read(X, y)

    def fit(seed, num_draws):
        method = bg.NUTS(num_chains=NUM_CHAINS, num_samples=num_draws)
        return bg.fit(program, rows, labels, method=method, seed=seed, progress=False).posterior.latents

    return fit


def fitted(name):
    """Seed -> the draws of latents by a fit."""
    case = CASES[name]
    program = bg.GenerativeProgram.from_model(case.model, *case.args, label=case.label)
    rows, labels = program.read(*case.args)
    method = bg.NUTS(num_chains=NUM_CHAINS, num_samples=NUM_DRAWS)
    return lambda seed: bg.fit(program, rows, labels, method=method, seed=seed, progress=False).posterior.latents


def sampled(name):
    """Seed -> the draws of latents by NumPyro."""
    case = CASES[name]
    latents = bg.GenerativeProgram.from_model(case.model, *case.args, label=case.label).latents

    @jax.jit
    def chains(key):
        kernel = numpyro.infer.NUTS(case.model)
        mcmc = numpyro.infer.MCMC(
            kernel,
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS,
            num_chains=NUM_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, *case.args)
        return {name: values for name, values in mcmc.get_samples(group_by_chain=True).items() if name in latents}

    def draws(seed):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, chains(jax.random.key(seed)))

    return draws


def rate(sample, seed):
    """The smallest bulk effective sample size of any number, a second."""
    start = time.perf_counter()
    values = sample(seed)
    took = time.perf_counter() - start
    flat = np.concatenate([v.reshape(*v.shape[:2], math.prod(v.shape[2:])) for v in values.values()], axis=2)
    entries = np.moveaxis(flat, 2, 0)
    return float(bulk_sizes(entries[np.ptp(entries, axis=(1, 2)) > 0]).min()) / took
