"""Jointly normal columns with missing cells: fits, memory, predictions, and fast paths beside their plain forms."""

import functools
import re
from pathlib import Path

import jax
import numpy as np

import bayesgen as bg
from bayesgen.fitting.em import LEAST_GAIN, CompleteDataObjective, ExpectationMaximization
from bayesgen.fitting.training import prepare
from bayesgen.solvers import ascend
from bayesgen.statistics.conditioning import Ellipsoids, block_factors, marginal_log_probs
from bayesgen.statistics.multivariate_normal import MultivariateNormalDensity, _expectation, traced_log_likelihood

from .fresh import call
from .measure import Below, Faster, Price, Row, duel, rounds, seconds

NUM_COLUMNS, NUM_CLASSES = 20, 5
SHARES = (0.05, 0.3)
LIMIT = 200.0  # MB


def measures(quick):
    """Lines for 5 % of cells missing, and for 30 %, where there are nearly as many patterns as rows."""
    num_rows = 10_000 if quick else 100_000
    for share in SHARES:
        for method in (bg.MLE(), bg.MAP()):
            yield functools.partial(_fit, num_rows, share, method)
        yield functools.partial(_memory, num_rows, share)
        yield functools.partial(_predict, num_rows, share)
    yield functools.partial(_step, num_rows)
    yield functools.partial(_leaps, num_rows // 10)
    yield _blocks
    yield _slopes
    yield _many


def rows(num_rows, share, seed=0):
    """Strongly correlated columns in classes, some of the cells missing at random."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, NUM_CLASSES, num_rows)
    X = rng.normal(size=(NUM_CLASSES, NUM_COLUMNS))[y]
    X = X + rng.normal(size=(num_rows, NUM_COLUMNS)) @ rng.normal(size=(NUM_COLUMNS, NUM_COLUMNS))
    return np.where(rng.random(X.shape) < share, np.nan, X), y


def _size(num_rows, share):
    return f"{num_rows:,} x {NUM_COLUMNS}, {NUM_CLASSES} classes, {share:.0%} of cells missing"


def _fit(num_rows, share, method):
    X, y = rows(num_rows, share)
    fits = []
    times = rounds(lambda _: seconds(lambda: fits.append(bg.fit(bg.GaussianDiscriminant(), X, y, method=method))), 3)
    return Row(
        f"fit full covariance, {method!r} by EM, {_size(num_rows, share)}",
        Below(),
        times,
        note=f"{fits[0].attributes['num_iterations']} iterations, converged: {fits[0].attributes['converged']}",
    )


def _memory(num_rows, share):
    work = f"fit full covariance, MAP by EM, {_size(num_rows, share)}: memory beyond the input"
    return Row(work, Below(LIMIT), [call("missing.extra", num_rows, share)], unit="MB")


def extra(num_rows, share):
    """Megabytes by which the process grows at most while it fits, the data being there already."""
    _fit_once(*rows(1000, 0.05))  # imports, threads
    X, y = rows(int(num_rows), float(share))
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    _fit_once(X, y)
    return _status("VmHWM") - before


def _fit_once(X, y):
    return bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.MAP())


def _status(name):
    """A line of the kernel's account of this process, in MB (Linux only)."""
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024 / 1e6


def _predict(num_rows, share):
    whole, y = rows(num_rows, 0.0)
    holes, _ = rows(num_rows, share)
    exact = bg.fit(bg.GaussianDiscriminant(), whole, y, method=bg.Exact())
    return duel(
        f"exact BMA probabilities, full covariance, {_size(num_rows, share)}",
        Price(),
        lambda: bg.predict(exact, holes, rule=bg.BMA()).probabilities,
        lambda: bg.predict(exact, whole, rule=bg.BMA()).probabilities,
        "no cell missing",
    )


def _steps(num_rows, share=0.3):
    """EM, and where it starts."""
    problem = prepare(bg.GaussianDiscriminant(), *rows(num_rows, share))
    conjugate, statistics = problem.conjugate, problem.data.statistics
    steps = ExpectationMaximization(conjugate, CompleteDataObjective.of(conjugate, has_prior=True), statistics, None)
    return steps, conjugate.update(conjugate.initial_statistics(statistics)).mode(), statistics


def _step(num_rows):
    steps, start, _ = _steps(num_rows)
    times = rounds(lambda _: seconds(lambda: steps.step(start)), 7)
    return Row(f"one step of EM, full covariance, {_size(num_rows, 0.3)}", Below(), times)


def _leaps(num_rows):
    steps, start, _ = _steps(num_rows)
    return duel(
        f"MAP by EM with leaps, full covariance, {_size(num_rows, 0.3)}",
        Faster(1.5),
        lambda: ascend(steps.step, start, LEAST_GAIN, coordinates=steps.coordinates),
        lambda: ascend(steps.step, start, LEAST_GAIN),
        "the same steps, none left out",
        repeats=3,
        warm_up=False,
    )


def _blocks(size=6, number=3600):
    """As many blocks as are factorised at once, of the size that is most frequent where 30 % of cells are missing."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(NUM_COLUMNS, NUM_COLUMNS))
    precision = np.linalg.inv(factor @ factor.T)[None]
    missing = np.sort(np.argsort(rng.random((number, NUM_COLUMNS)), axis=1)[:, :size], axis=1).T.copy()
    return duel(
        f"{number} blocks of precisions, {size} x {size}: Cholesky factors",
        Faster(1.5),
        lambda: [block_factors(precision, missing) for _ in range(100)],
        lambda: [np.linalg.cholesky(precision[0][missing.T[:, :, None], missing.T[:, None]]) for _ in range(100)],
        "numpy.linalg, one matrix after another",
    )


def _slopes(num_rows=1000):
    """What NUTS evaluates."""
    with jax.enable_x64(True):
        steps, start, statistics = _steps(num_rows)
        summary = statistics.summaries["real"].padded()
        parameters = steps.conjugate.blocks[0].family.likelihood_parameters(
            {"mean": start["real_mean"], "covariance": start["real_covariance"]}
        )
        at = tuple(jax.numpy.asarray(parameters[name]) for name in ("loc", "scale_tril"))
        fast = jax.jit(jax.value_and_grad(lambda at: traced_log_likelihood(*at, summary).sum()))
        plain = jax.jit(jax.value_and_grad(lambda at: _expectation(*at, summary)[0].sum()))
        return duel(
            f"log-likelihood and slope, {statistics.summaries['real'].num_groups} groups of 20 columns",
            Faster(1.5),
            lambda: jax.block_until_ready(fast(at)),
            lambda: jax.block_until_ready(plain(at)),
            "the same function, differentiated by JAX",
            repeats=21,
        )


def _many(num_rows=200, num_columns=8, num_draws=120):
    """What averages over draws take of rows with missing cells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, num_columns))
    observed = rng.random(X.shape) > 0.1
    factor = np.linalg.cholesky(np.cov(rng.normal(size=(num_draws, num_columns, 4 * num_columns))[0]))
    loc, scale_tril = rng.normal(size=(num_draws, num_columns)), np.tile(factor, (num_draws, 1, 1))
    with jax.enable_x64(True):
        fast = jax.jit(marginal_log_probs)
        plain = jax.jit(lambda *at: MultivariateNormalDensity(Ellipsoids.of(*at[:2])).log_prob(*at[2:]))
        return duel(
            f"{num_rows} rows of {num_columns} columns, 10% of cells missing, under {num_draws} processes",
            Faster(1.5),
            lambda: jax.block_until_ready(fast(loc, scale_tril, X, observed)),
            lambda: jax.block_until_ready(plain(*map(jax.numpy.asarray, (loc, scale_tril, X, observed)))),
            "a Cholesky factor for each row and process",
            repeats=21,
        )
