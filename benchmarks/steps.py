"""What NUTS costs: leapfrog steps a draw, what rows cost after the statistics pass, and the kernel beside NumPyro's."""

import dataclasses
import functools

import jax
import numpy as np
import numpyro.infer

import bayesgen as bg
from bayesgen.program import LogPriorKind, ProgramDensity, StatisticsTerm
from bayesgen.solvers.sampler import sample_chains

from . import gda
from .measure import REPEATS, Below, Faster, Price, Row, duel


def measures(quick):
    """All of them."""
    repeats = 1 if quick else REPEATS
    yield functools.partial(_steps, "GDA, iris", bg.GaussianDiscriminant(), gda.iris(), 8, repeats)
    if not quick:
        large = gda.iris(10_000)
        yield functools.partial(_steps, "GDA, iris shape, N=10,000", bg.GaussianDiscriminant(), large, 8, repeats)
    yield functools.partial(_steps, "naive Bayes, 640 latents", bg.NaiveBayes(), _wide(), 15, 1 if quick else 3)
    yield functools.partial(_rows, quick)
    for num_chains, num_samples, bound in ((4, 1_000, None), (64, 250, 1.5)):
        yield functools.partial(_kernels, num_chains, num_samples, bound, repeats)


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


def _kernels(num_chains, num_samples, bound, repeats):
    """Our kernel and NumPyro's on one density, both compiled; NumPyro's also adapts (diagonal) masses."""
    problem = gda.iris()
    summaries = bg.summarize(bg.GaussianDiscriminant(), problem.X, problem.y)
    density = ProgramDensity(
        summaries.model.bind(summaries.scaled_schema), (StatisticsTerm(summaries.statistics),), LogPriorKind.SITES
    )
    method = bg.NUTS(num_samples=100)
    whitened = method.chains(density, lambda: np.zeros((1, density.dimension)), 0, False).density
    shared = {"num_warmup": 150, "num_samples": num_samples, "num_chains": num_chains}
    steps = {}

    def ours():
        _, (_, stats) = sample_chains(whitened, jax.random.key(0), target=0.8, advanced=lambda amount: None, **shared)
        steps["ours"] = stats["num_steps"]

    @jax.jit
    def run(key, points):
        kernel = numpyro.infer.NUTS(potential_fn=lambda z: -whitened(z))
        mcmc = numpyro.infer.MCMC(kernel, chain_method="vectorized", progress_bar=False, **shared)
        mcmc.run(key, init_params=points, extra_fields=("num_steps",))
        return mcmc.get_samples(), mcmc.get_extra_fields()["num_steps"]

    def numpyros():
        points = 0.5 * np.random.default_rng(0).normal(size=(num_chains, density.dimension))
        steps["NumPyro's"] = jax.block_until_ready(run(jax.random.key(0), points))[1]

    with jax.enable_x64(True):
        row = duel(
            f"NUTS kernels, GDA of iris ({density.dimension} axes), {num_chains} chains x 150 + {num_samples:,}",
            Faster(bound),
            ours,
            numpyros,
            "NumPyro's kernel",
            repeats=repeats,
        )
    means = ", ".join(f"{name} {counts.mean():.1f}" for name, counts in steps.items())
    return dataclasses.replace(row, note=f"leapfrog steps a draw: {means}")
