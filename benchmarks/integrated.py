"""Latents integrated out by NUTS in closed form, against NUTS of all latents: effective draws a second, warm."""

import functools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg

from .measure import REPEATS, Higher, Price, Row, compilations, rounds, seconds

NUM_CLASSES, NUM_COLUMNS, NUM_VALUES = 3, 20, 10
TOO_FAR = 5.0  # standard errors between means of the concentration


def program(n):
    """Categorical columns, whose tables have a Dirichlet prior with a concentration that is learned."""
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 1.0))
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(NUM_CLASSES)))
    tables = dist.Dirichlet(concentration * jnp.ones(NUM_VALUES)).expand([NUM_CLASSES, NUM_COLUMNS]).to_event(1)
    probs = numpyro.sample("probs", tables)
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(shares))
        numpyro.sample("x", dist.Categorical(probs[y]).to_event(1))


def measures(quick):
    """Effective draws a second; seconds a draw by the number of rows."""
    repeats = 1 if quick else REPEATS
    few, many = (1_000, 10_000) if quick else (10_000, 1_000_000)
    yield functools.partial(_rates, few, repeats)
    yield functools.partial(_seconds_by_rows, few, many, repeats)


def _rates(num_rows, repeats):
    data = _summaries(num_rows)
    _fit(data, 98), _fit(data, 98, False)
    with compilations() as compiled:
        fits = rounds(lambda seed: (_fit(data, seed), _fit(data, seed, False)), repeats)
    rates = [[fit.posterior.entries.sizes.min() / took for fit, took in side] for side in zip(*fits, strict=True)]
    tables = f"{NUM_CLASSES} x {NUM_COLUMNS} x {NUM_VALUES}"
    work = f"smallest bulk ESS/s, concentration above tables of {tables}, N={num_rows:,}, 4 x 1,000 draws, warm"
    return Row(work, Higher(5.0), *rates, "ESS/s", "NUTS(integrate_out=False)", _doubts(fits, len(compiled)))


def _seconds_by_rows(few, many, repeats):
    sizes = _summaries(many), _summaries(few)
    for data in sizes:
        _fit(data, 98)
    times = rounds(lambda seed: [_fit(data, seed)[1] / 4000 for data in sizes], repeats)
    work = f"seconds a draw, tables integrated out, N={many:,} over N={few:,}, once they are summarised"
    return Row(work, Price(1.2), *zip(*times, strict=True), peer_name=f"{few:,} rows")


def _summaries(num_rows):
    rng = np.random.default_rng(5)
    probs = rng.dirichlet(np.full(NUM_VALUES, 0.6), (NUM_CLASSES, NUM_COLUMNS))
    y = rng.integers(0, NUM_CLASSES, num_rows)
    ends = np.cumsum(probs, axis=-1)[y]
    x = (rng.random((num_rows, NUM_COLUMNS, 1)) > ends[..., :-1]).sum(-1)
    return bg.summarize(bg.GenerativeProgram(program, classes=NUM_CLASSES), {"x": x}, y)


def _fit(data, seed, integrate_out=None):
    """A fit, and the seconds that it took."""
    fits, method = [], bg.NUTS(integrate_out=integrate_out)
    took = seconds(lambda: fits.append(bg.fit(data.model, data, method=method, seed=seed, progress=False)))
    return fits[0], took


def _doubts(fits, num_compiled):
    notes = [f"WARNING: {num_compiled} compilations in warm runs"] if num_compiled else []
    draws = [np.stack([fit.parameters["concentration"] for fit, _ in side]) for side in zip(*fits, strict=True)]
    difference = abs(np.subtract(*(side.mean() for side in draws)))
    error = max(side.mean((1, 2)).std() for side in draws) + draws[0].std() / np.sqrt(1000 * len(fits))
    notes += [f"WARNING: means differ by {difference / error:.1f} errors"] if difference > TOO_FAR * error else []
    return "; ".join(notes)
