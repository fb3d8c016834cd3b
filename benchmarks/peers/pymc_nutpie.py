"""PyMC with nutpie: the rows as they are, or compressed by hand; compiled once for all numbers of rows.

The prior is everyone's, stated by Bartlett's decomposition (the precision is B B', B = inv(chol(scale))' A), because
the likelihood is then |B'(x - mean)|^2 and needs no triangular solves.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bayesgen.runtime import num_cores
from benchmarks.gda import NUM_CHAINS, NUM_DRAWS, Draws, Problem, Run

from .peer import Peer, Ready

NUM_TUNE = 300


def _latents(data, df, pm, pt):
    """class_probs, mean, B and log|B|, (K, ...)."""
    num_classes, dimension = data["counts"].get_value().shape[0], len(data["location"].get_value())
    probs = pm.Dirichlet("class_probs", np.ones(num_classes))
    squares = pm.Gamma("squares", alpha=(df - np.arange(dimension)) / 2, beta=0.5, shape=(num_classes, dimension))
    below = pm.Normal("below", shape=(num_classes, dimension * (dimension - 1) // 2))
    rows, columns = np.tril_indices(dimension, -1)
    bartlett = pt.zeros((num_classes, dimension, dimension))
    bartlett = bartlett[:, np.arange(dimension), np.arange(dimension)].set(pt.sqrt(squares))
    bartlett = bartlett[:, rows, columns].set(below)
    factor = pm.Deterministic("factor", pt.matmul(data["root"][None], bartlett))
    log_det = 0.5 * pt.log(squares).sum(1) + pt.log(pt.diagonal(data["root"])).sum()
    mean = pm.Flat("mean", shape=(num_classes, dimension))
    shift = ((mean - data["location"])[:, :, None] * factor).sum(1)
    pm.Potential("mean_prior", log_det.sum() - 0.5 * Problem.kappa * (shift**2).sum())
    pm.Potential("labels_and_scales", (data["counts"] * (pt.log(probs) + log_det)).sum())
    return mean, factor


def _row_density(data, mean, factor, pm, pt):
    for k in range(data["counts"].get_value().shape[0]):
        pm.Potential(f"density{k}", -0.5 * (((data[f"rows{k}"] - mean[k]) @ factor[k]) ** 2).sum())


def _compressed_density(data, mean, factor, pm, pt):
    shift = data["averages"] - mean
    squares = data["scatters"] + data["counts"][:, None, None] * shift[:, :, None] * shift[:, None, :]
    pm.Potential("density", -0.5 * (pt.matmul(squares, factor) * factor).sum())


def _prior_data(problem):
    root = np.linalg.inv(np.linalg.cholesky(problem.scale)).T
    return {"location": problem.location, "root": root, "counts": problem.statistics[0].astype(float)}


def _row_data(problem):
    return {f"rows{k}": rows for k, rows in enumerate(problem.by_class)}


def _compressed_data(problem):
    return dict(zip(("averages", "scatters"), problem.statistics[1:], strict=True))


@dataclasses.dataclass(frozen=True)
class Form:
    """A likelihood, and the data that it takes."""

    density: Callable[..., None]
    data: Callable[[Problem], dict[str, np.ndarray]]

    def values(self, problem):
        """All data of a problem, by name."""
        return {**_prior_data(problem), **self.data(problem)}


ROWS, COMPRESSED = Form(_row_density, _row_data), Form(_compressed_density, _compressed_data)
_compiled: dict[Form, tuple[Any, float]] = {}


def compiled(form, problem):
    """The compiled model with the problem's data, and the seconds that compilation took when it was done."""
    import nutpie

    if form not in _compiled:
        start = time.perf_counter()
        _compiled[form] = nutpie.compile_pymc_model(_model(form, problem)), time.perf_counter() - start
    model, took = _compiled[form]
    return model.with_data(**form.values(problem)), took


def _model(form, problem):
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        data = {name: pm.Data(name, value) for name, value in form.values(problem).items()}
        mean, factor = _latents(data, problem.df, pm, pt)
        form.density(data, mean, factor, pm, pt)
    return model


@dataclasses.dataclass(frozen=True)
class Nutpie(Peer):
    """nutpie on a PyMC model.

    Args:
        form: of the likelihood.
        num_draws: draws a chain; where fewer than `NUM_DRAWS`, the time of a full run is reckoned from the
            leapfrog steps that it would take.
    """

    name: str
    form: Form
    num_draws: int = NUM_DRAWS
    packages: ClassVar = ("pymc", "nutpie")

    def prepare(self, problem):
        model, took = compiled(self.form, problem)
        return Ready(functools.partial(self._run, model), took)

    def _run(self, model, seed):
        import nutpie

        start = time.perf_counter()
        cores = min(NUM_CHAINS, num_cores())
        lengths = {"draws": self.num_draws, "tune": NUM_TUNE, "chains": NUM_CHAINS, "cores": cores}
        trace = nutpie.sample(model, **lengths, seed=seed, progress_bar=False, save_warmup=True)
        took = time.perf_counter() - start
        tuning, drawing = (float(trace[group]["n_steps"].sum()) for group in ("warmup_sample_stats", "sample_stats"))
        full = took * (tuning + drawing * NUM_DRAWS / self.num_draws) / (tuning + drawing)
        return Run(_draws(trace.posterior), full)


def _draws(posterior):
    factor = posterior["factor"].values
    covariance = np.linalg.inv(factor @ factor.swapaxes(-2, -1))
    return Draws(posterior["class_probs"].values, posterior["mean"].values, np.linalg.cholesky(covariance))
