"""Averages over draws: the one-step answer of 4,000 draws, against NumPyro's `log_likelihood`, each in a process."""

import functools
import pathlib
import re
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import log_likelihood

import bayesgen as bg

from . import gda
from .fresh import call
from .measure import REPEATS, Below, Faster, Row, rounds, seconds
from .peers.plain_numpyro import latents

CHUNK = 1_000  # rows at once of the peer; draws one after another: batched over draws, XLA's triangular solves hung
SHARE = 10  # the peer gets a tenth of the rows, and its time counts tenfold: it goes by chunks of rows
GIGABYTE = 1e9


def measures(quick):
    """Time, and the peak memory of ours and of the peer."""
    num_rows, repeats = (10_000, 1) if quick else (50_000, REPEATS)
    size = f"draw-averaged BMA, 4,000 draws x {num_rows:,} rows, D=4, K=3"
    measured = functools.cache(functools.partial(_measured, num_rows, repeats))
    yield lambda: _time(size, Faster(8), _pairs(measured(), "ours"))
    yield lambda: _memory(size, _pairs(measured(), "ours"))
    yield lambda: _time(f"{size}, with mutual information", Faster(None), _pairs(measured(), "ours_split"))


def _measured(num_rows, repeats):
    who = ("ours", "ours_split", "peer")
    found = rounds(lambda _: [call(f"averaging.{one}", num_rows) for one in who], repeats)
    return dict(zip(who, zip(*found, strict=True), strict=True))


def _pairs(measured, who):
    return measured[who], measured["peer"]


def _time(size, bound, pairs):
    times = [[one["seconds"] for one in pair] for pair in pairs]
    answers = [[one["probabilities"] for one in pair] for pair in zip(*pairs, strict=True)]
    doubt = max(np.abs(np.subtract(*answer)).max() for answer in answers)
    note = f"WARNING: probabilities differ by {doubt:.1e}" if doubt > 1e-3 else ""
    name = f"numpyro log_likelihood a class, jitted, {CHUNK} rows at once (a tenth of them, x 10)"
    return Row(size, bound, *times, peer_name=name, note=note)


def _memory(size, pairs):
    peaks = [[one["peak"] / GIGABYTE for one in pair] for pair in pairs]
    work = f"{size}: peak memory of the whole process"
    return Row(work, Below(1.0), *peaks, unit="GB", peer_name="numpyro, as above")


def ours(num_rows):
    """Predict by `BMA` from NUTS draws, warm: probabilities, as the peer, and their errors and Pareto k besides."""
    return _predict(num_rows, bg.BMA(entropy_draws=0))


def ours_split(num_rows):
    """The same with the entropy split into its two parts, in double precision: the default."""
    return _predict(num_rows, bg.BMA())


def _predict(num_rows, rule):
    fit, X = _problem(int(num_rows))
    bg.predict(fit, X, rule=rule)
    return _report(lambda: bg.predict(fit, X, rule=rule).probabilities)


def peer(num_rows):
    """The same from the same draws, by plain NumPyro in single precision."""
    fit, X = _problem(int(num_rows))
    found = fit.parameters
    draws = {
        "class_probs": found["class_probs"],
        "mean": found["real_mean"],
        "scale_tril": np.linalg.cholesky(found["real_covariance"]),
    }
    draws = {name: jnp.asarray(value.reshape(-1, *value.shape[2:]), jnp.float32) for name, value in draws.items()}
    table = jnp.asarray(X[: len(X) // SHARE], jnp.float32)
    _averaged(draws, table[:CHUNK])
    _averaged(draws, table[-(len(table) % CHUNK or CHUNK) :])  # the rest of the rows is compiled too
    return _report(lambda: _averaged(draws, table), SHARE)


def _problem(num_rows):
    problem = gda.iris()
    fit = bg.fit(bg.GaussianDiscriminant(), problem.X, problem.y, method=bg.NUTS(), progress=False)
    return fit, gda.iris(num_rows).X


def _report(work, times=1):
    """Median seconds of three calls, the peak memory of the process, and the first few probabilities."""
    answers: list[np.ndarray] = []
    took = times * statistics.median(seconds(lambda: answers.append(work())) for _ in range(3))
    return {"seconds": took, "peak": _peak_memory(), "probabilities": np.asarray(answers[0])[:100].tolist()}


def _peak_memory():
    """Bytes, of this process alone: `getrusage` would tell the parent's too, which counts what it was forked with."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))


def _averaged(draws, X):
    parts = [np.asarray(_log_mean_joint(draws, X[start : start + CHUNK])) for start in range(0, len(X), CHUNK)]
    joint = np.concatenate(parts)
    return np.asarray(jax.nn.softmax(joint, axis=1))


@jax.jit
def _log_mean_joint(draws, X):
    """(n, K) log of the mean over draws of p(x, y = k | draw)."""
    tables = [_log_joint(draws, X, k) for k in range(draws["mean"].shape[1])]
    return jnp.stack([jax.nn.logsumexp(table, axis=0) for table in tables], axis=1)


def _log_joint(draws, X, k):
    found = log_likelihood(_program, draws, X, k, parallel=False)
    return found["x"] + found["y"]


def _program(X, k):
    """The program with its latents known; every row is of class k, so one Cholesky factor serves all rows."""
    probs, mean, factor = latents(gda.iris())
    with numpyro.plate("rows", len(X)):
        numpyro.sample("y", dist.Categorical(probs), obs=jnp.full(len(X), k))
        numpyro.sample("x", dist.MultivariateNormal(mean[k], scale_tril=factor[k]), obs=X)
