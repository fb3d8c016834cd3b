"""What does a GPU gain? Sampling a hierarchical program row by row, and averaging over draws, on GPU and processor.

    python examples/on_a_gpu.py [--rows 5000] [--chains 64] [--out on_a_gpu.png]

Laboratories measure a marker in the blood of patients, ill or healthy, each with a bias of its own, and with noise of
heavy tails. Such a program has no sufficient statistic: every step of every chain evaluates every row. Then the
probability of the illness of each patient is averaged over all draws. Both are large, and run on a GPU where JAX sees
one. The script prints the seconds on either device, their ratio, and how far the answers differ: chains with other
rounding errors are other draws of one posterior, and averages over the same draws are equal.
Without a GPU it does less of the same work on the processor, in under a minute.
"""

import argparse
import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen.plots import drawing, save_figure

NUM_LABORATORIES = 20
NUM_SAMPLES = 100  # of each chain
NEW_ROWS = 20  # for each row that is learned from


def patients(n: int, *, laboratory: Any) -> None:
    """Markers about a level of the class, moved by the bias of the laboratory, with Student t noise."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    level = numpyro.sample("level", dist.Normal(0, 2).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    bias = numpyro.sample("bias", dist.Normal(0, spread).expand([NUM_LABORATORIES]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("patients", n):
        y = numpyro.sample("y", dist.Categorical(share))
        numpyro.sample("marker", dist.StudentT(3, level[y] + bias[laboratory], noise[y]))


PROGRAM = bg.GenerativeProgram(patients, classes=["healthy", "ill"])


@dataclasses.dataclass(frozen=True)
class Timing:
    """The first and the second call of one piece of work on one device, in seconds, and its result."""

    first: float
    second: float
    result: Any


def simulate(num_rows: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(columns, labels) of patients, a third of them ill, with levels of 0 and 1 and biases of about 0.5."""
    rng = np.random.default_rng(seed)
    laboratory, is_ill = rng.integers(0, NUM_LABORATORIES, num_rows), rng.random(num_rows) < 1 / 3
    bias = 0.5 * np.random.default_rng(0).standard_normal(NUM_LABORATORIES)
    marker = 1.0 * is_ill + bias[laboratory] + 0.4 * rng.standard_t(3, num_rows)
    return {"laboratory": laboratory, "marker": marker}, np.where(is_ill, "ill", "healthy")


def timed(work: Callable[[], Any]) -> Timing:
    """The work done twice: the first call compiles, the second does not."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return Timing(seconds[0], seconds[1], result)


def sampled(X: dict[str, np.ndarray], y: np.ndarray, num_chains: int, device: str) -> Timing:
    """The posterior by NUTS on a device."""
    method = bg.NUTS(num_chains=num_chains, num_samples=NUM_SAMPLES)
    return timed(lambda: bg.fit(PROGRAM, X, y, method=method, device=device, progress=False))


def averaged(fit: bg.Fit, X: dict[str, np.ndarray], device: str) -> Timing:
    """Class probabilities of the rows on a device, averaged over the draws of a fit."""
    return timed(lambda: bg.predict(fit, X, rule=bg.BMA(), device=device))


def posterior_differences(fit: bg.Fit, other: bg.Fit) -> float:
    """The largest distance of two posterior means of a latent, in posterior standard deviations."""
    draws, others = fit.samples(), other.samples()
    distances = [np.abs(draws[name].mean(0) - others[name].mean(0)) / draws[name].std(0) for name in draws]
    return float(max(np.max(distance) for distance in distances))


def report(work: str, timings: dict[str, Timing]) -> None:
    """Print seconds by device, and the ratio of the second calls."""
    for device, timing in timings.items():
        print(f"{work} on the {device}: {timing.second:.2f} s (first call, with compilation: {timing.first:.1f} s)")
    if "gpu" in timings:
        print(f"{work}: the GPU is {timings['cpu'].second / timings['gpu'].second:.1f} times as fast")


def draw_figure(timings: dict[str, dict[str, Timing]], out: pathlib.Path) -> None:
    """Seconds of the first and the second call of each piece of work on each device."""
    by_label = {f"{work}, {device}": timing for work, by in timings.items() for device, timing in by.items()}
    with drawing(width=5.0, height=0.9 + 0.4 * len(by_label)) as (figure, ((axis,),)):
        places = np.arange(len(by_label))
        first, second = ([getattr(timing, call) for timing in by_label.values()] for call in ("first", "second"))
        axis.barh(places - 0.2, first, 0.35, color="0.85", edgecolor="0.3", label="first call, with compilation")
        axis.barh(places + 0.2, second, 0.35, color="0.4", edgecolor="0.3", label="second call")
        axis.set_yticks(places, by_label)
        axis.set(xlabel="seconds", ylim=(len(by_label) - 0.5, -0.5))
    save_figure(figure, out)


def main() -> None:
    """Time both pieces of work on all devices, compare the answers, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="patients; 5,000 with a GPU and 500 without")
    parser.add_argument("--chains", type=int, help="chains of NUTS; 64 with a GPU and 8 without")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("on_a_gpu.png"))
    options = parser.parse_args()
    has_gpu = any(device.platform == "gpu" for device in jax.devices())
    num_rows = options.rows or (5_000 if has_gpu else 500)
    num_chains = options.chains or (64 if has_gpu else 8)
    devices = ("gpu", "cpu") if has_gpu else ("cpu",)
    print(f"JAX {jax.__version__}, devices: {', '.join(map(str, jax.devices()))}")
    if not has_gpu:
        print("JAX sees no GPU: less of the same work runs on the processor alone. pip install -U 'jax[cuda12]'")
    (X, y), (X_new, y_new) = simulate(num_rows, 1), simulate(NEW_ROWS * num_rows, 2)
    print(
        f"{num_rows:,} patients, {num_chains} chains of {NUM_SAMPLES} draws; then {len(y_new):,} new patients. Wait ..."
    )

    sampling = {device: sampled(X, y, num_chains, device) for device in devices}
    report("sampling", sampling)
    averaging = {device: averaged(sampling[devices[0]].result, X_new, device) for device in devices}
    report(f"averaging {num_chains * NUM_SAMPLES:,} draws", averaging)

    if has_gpu:
        distance = posterior_differences(sampling["cpu"].result, sampling["gpu"].result)
        print(f"posterior means of the two devices differ by at most {distance:.3f} posterior standard deviations")
        gap = np.max(np.abs(averaging["gpu"].result.probabilities - averaging["cpu"].result.probabilities))
        print(f"probabilities averaged over the same draws differ by at most {gap:.1e}")
    level = sampling[devices[0]].result.samples()["level"]
    rise = level[:, 1] - level[:, 0]
    print(f"the marker of the ill is higher by {rise.mean():.3f} +- {rise.std():.3f} (the data were made with 1)")
    print(f"accuracy on new patients: {np.mean(averaging[devices[0]].result.labels == y_new):.3f}")
    draw_figure({"sampling": sampling, "averaging": averaging}, options.out)


if __name__ == "__main__":
    main()
