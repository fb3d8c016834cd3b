"""Stan through pystan: rows of a class at once, the inverse Wishart on the Cholesky factor."""

import contextlib
import dataclasses
import functools
import os
import time
from typing import ClassVar

import numpy as np

from benchmarks.gda import NUM_CHAINS, NUM_DRAWS, Draws, Run

from .peer import Peer, Ready

NUM_WARMUP = 300
PROGRAM = """
data {
  int K; int D; int N;
  array[K] int counts;        // the rows come class by class
  array[N] vector[D] x;
  real df; real kappa; vector[D] location; matrix[D, D] scale_root;
}
parameters {
  simplex[K] class_probs;
  array[K] vector[D] mean;
  array[K] cholesky_factor_cov[D] scale_tril;
}
model {
  int first = 1;
  counts ~ multinomial(class_probs);
  for (k in 1:K) {
    scale_tril[k] ~ inv_wishart_cholesky(df, scale_root);
    mean[k] ~ multi_normal_cholesky(location, scale_tril[k] / sqrt(kappa));
    x[first:(first + counts[k] - 1)] ~ multi_normal_cholesky(mean[k], scale_tril[k]);
    first += counts[k];
  }
}
"""


@dataclasses.dataclass(frozen=True)
class Stan(Peer):
    """Stan's NUTS; chains run in processes, a core each. Its time holds the transfer of draws through httpstan."""

    name: str = "Stan (pystan), multi_normal_cholesky a class"
    packages: ClassVar = ("stan",)

    def prepare(self, problem):
        import stan

        start = time.perf_counter()
        with _quiet():
            stan.build(PROGRAM, data=_data(problem), random_seed=1)
        took = time.perf_counter() - start
        return Ready(functools.partial(self._run, problem), took)

    def _run(self, problem, seed):
        import stan

        with _quiet():
            model = stan.build(PROGRAM, data=_data(problem), random_seed=seed + 1)  # found compiled
            start = time.perf_counter()
            fit = model.sample(num_chains=NUM_CHAINS, num_samples=NUM_DRAWS, num_warmup=NUM_WARMUP)
            took = time.perf_counter() - start
        return Run(Draws(*(_chains(fit[name]) for name in ("class_probs", "mean", "scale_tril"))), took)


def _chains(values):
    """(..., draws of all chains in turn) to (chain, draw, ...)."""
    last = np.moveaxis(values, -1, 0)
    return last.reshape(-1, NUM_CHAINS, *last.shape[1:]).swapaxes(0, 1)


def _data(problem):
    return {
        "K": problem.num_classes,
        "D": problem.X.shape[1],
        "N": len(problem.y),
        "counts": problem.statistics[0].tolist(),
        "x": np.concatenate(problem.by_class).tolist(),
        "df": problem.df,
        "kappa": problem.kappa,
        "location": problem.location.tolist(),
        "scale_root": np.linalg.cholesky(problem.scale).tolist(),
    }


@contextlib.contextmanager
def _quiet():
    """Silence the compiler, which writes to the process's own standard error."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
