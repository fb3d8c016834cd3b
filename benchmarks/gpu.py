"""What a CUDA device gives over the processor: many chains, averages over many draws, and statistics of many cells.

Skipped where JAX sees no such device.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import bayesgen as bg
from bayesgen.runtime import devices

from . import gda
from .measure import REPEATS, Faster, Higher, Missing, Row, duel, seconds

CHAINS = (64, 256, 1024, 4096)
NUM_SAMPLES = 250
CLASSES, COLUMNS = 5, 20


def measures(quick):
    """Samplers by number of chains, one average, one statistics pass; or one line that says why there is none."""
    if not devices.has("gpu"):
        yield lambda: Missing("gpu", "JAX sees no CUDA device: pip install -U 'jax[cuda12]' on a machine that has one")
        return
    for num_chains in CHAINS[:2] if quick else CHAINS:
        yield functools.partial(_sampling, num_chains, 2 if quick else REPEATS)
    yield functools.partial(_averaging, quick)
    yield functools.partial(_statistics, quick)


def _sampling(num_chains, repeats):
    """Smallest bulk effective sample size a second, warm, on either device."""
    rates = [[_rate(num_chains, device, seed) for device in ("gpu", "cpu")] for seed in range(-1, repeats)][1:]
    work = f"NUTS, full GDA, iris shape, {num_chains:,} chains x {NUM_SAMPLES} draws: effective draws a second"
    return Row(work, Higher(), *zip(*rates, strict=True), unit="1/s", peer_name="device='cpu'")


def _rate(num_chains, device, seed):
    problem, fits = gda.iris(), []
    method = bg.NUTS(num_chains=num_chains, num_samples=NUM_SAMPLES)

    def sample():
        model = bg.GaussianDiscriminant()
        fits.append(bg.fit(model, problem.X, problem.y, method=method, seed=seed + 1, progress=False, device=device))

    took = seconds(sample)
    found = fits[0].parameters
    covariance = np.linalg.cholesky(found["real_covariance"])
    return gda.Draws(found["class_probs"], found["real_mean"], covariance).smallest_size / took


def _averaging(quick):
    """Rows a second."""
    num_rows = 20_000 if quick else 1_000_000
    problem = gda.iris()
    fit = bg.fit(bg.GaussianDiscriminant(), problem.X, problem.y, method=bg.NUTS(), progress=False)
    X = gda.iris(num_rows).X
    few = X[: num_rows // 10]  # the processor is given fewer rows, so that it gets done

    def rate(rows, device):
        return len(rows) / seconds(lambda: bg.predict(fit, rows, rule=bg.BMA(), device=device))

    rates = [(rate(X, "gpu"), rate(few, "cpu")) for _ in range(1 + (2 if quick else REPEATS))][1:]
    work = f"draw-averaged BMA, 4,000 draws x {num_rows:,} rows, D=4, K=3: rows a second"
    return Row(work, Higher(), *zip(*rates, strict=True), unit="1/s", peer_name=f"device='cpu', {len(few):,} rows")


def _statistics(quick):
    """The pass stays on the processor: what a GPU would make of it, the way there included."""
    num_rows = 500_000 if quick else 5_000_000
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((num_rows, COLUMNS), dtype=np.float32), rng.integers(0, CLASSES, num_rows)
    return duel(
        f"class-wise means and scatters, {num_rows:,} x {COLUMNS}, {CLASSES} classes, float32",
        Faster(),
        lambda: bg.summarize(bg.GaussianDiscriminant(), X, y),
        lambda: _on_gpu(X, y),
        "matrix products by JAX on the GPU, rows sent there each time",
    )


def _on_gpu(X, y, chunk=250_000):
    with jax.enable_x64(True), jax.default_device(devices.find("gpu")):
        parts = [_sums(X[start : start + chunk], y[start : start + chunk], X[0]) for start in range(0, len(X), chunk)]
        return jax.tree.map(lambda *leaves: np.sum([np.asarray(leaf) for leaf in leaves], axis=0), *parts)


@jax.jit
def _sums(X, y, origin):
    """Counts (K,), sums (K, D) and cross products (K, D, D) about an origin."""
    rows = jnp.asarray(X, jnp.float64) - origin
    members = jax.nn.one_hot(y, CLASSES, dtype=rows.dtype)
    return members.sum(0), members.T @ rows, jnp.einsum("nk,ni,nj->kij", members, rows, rows, optimize="optimal")
