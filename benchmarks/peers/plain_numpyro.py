"""Plain NumPyro: the program with `obs=`, its usual adaptation, and one compilation for all runs.

`MCMC.run` compiles anew in each call, so the whole run is jitted: a second run compiles nothing. The warm-up is as
long as that of nutpie and of Stan here; the diagonal mass matrix and single precision are the defaults.
"""

import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from benchmarks.gda import NUM_CHAINS, NUM_DRAWS, Draws, Problem, Run

from .peer import Peer, Ready

NUM_WARMUP = 300


def latents(problem):
    """class_probs, mean and scale_tril."""
    probs = numpyro.sample("class_probs", dist.Dirichlet(jnp.ones(problem.num_classes)))
    with numpyro.plate("classes", problem.num_classes):
        prior = dist.InverseWishartCholesky(problem.df, scale_tril=np.linalg.cholesky(problem.scale))
        factor = numpyro.sample("scale_tril", prior)
        mean = dist.MultivariateNormal(problem.location, scale_tril=factor / np.sqrt(problem.kappa))
        return probs, numpyro.sample("mean", mean), factor


def gathered(problem):
    """The program as one writes it: each row looks up its class."""
    probs, mean, factor = latents(problem)
    with numpyro.plate("rows", len(problem.y)):
        y = numpyro.sample("y", dist.Categorical(probs), obs=problem.y)
        numpyro.sample("x", dist.MultivariateNormal(mean[y], scale_tril=factor[y]), obs=problem.X)


def by_class(problem):
    """By hand: one normal distribution a class, on that class's rows."""
    probs, mean, factor = latents(problem)
    counts = [len(rows) for rows in problem.by_class]
    numpyro.sample("y", dist.Multinomial(sum(counts), probs), obs=jnp.asarray(counts))
    for k, rows in enumerate(problem.by_class):
        with numpyro.plate(f"rows{k}", len(rows)):
            numpyro.sample(f"x{k}", dist.MultivariateNormal(mean[k], scale_tril=factor[k]), obs=rows)


@dataclasses.dataclass(frozen=True)
class PlainNumPyro(Peer):
    """NumPyro's NUTS on one of the programs above.

    Args:
        program: takes the problem.
        threads: whether the chains run in threads, one a core, rather than as one vectorised program.
    """

    name: str
    program: Callable[[Problem], None]
    threads: bool
    packages: ClassVar = ("numpyro",)

    def prepare(self, problem):
        start = time.perf_counter()
        run = self.runner(problem)
        run(99)
        return Ready(run, time.perf_counter() - start)

    def runner(self, problem):
        """Seed -> run; the first call compiles."""
        chains = jax.jit(lambda key: self._chains(problem, key))
        chains = _in_threads(chains) if self.threads else chains

        def run(seed):
            start = time.perf_counter()
            draws = jax.tree.map(np.asarray, chains(jax.random.key(seed)))
            return Run(Draws(**draws), time.perf_counter() - start)

        return run

    def _chains(self, problem, key):
        mcmc = MCMC(
            NUTS(lambda: self.program(problem)),
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS,
            num_chains=1 if self.threads else NUM_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key)
        samples = mcmc.get_samples(group_by_chain=True)
        return {name: samples[name] for name in ("class_probs", "mean", "scale_tril")}


def _in_threads(chain):
    def chains(key):
        keys = jax.random.split(key, NUM_CHAINS)
        with ThreadPoolExecutor() as pool:
            parts = list(pool.map(lambda one: jax.block_until_ready(chain(one)), keys))
        return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)

    return chains


GATHERED = PlainNumPyro("plain NumPyro, obs= with scale_tril=L[y]; jitted once", gathered, threads=False)
BY_CLASS = PlainNumPyro("plain NumPyro, one normal a class by hand; jitted once", by_class, threads=True)
