"""The mode of hyperparameters, which is often on the boundary of their range: searched in the range itself."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from bayesgen.errors import FitError
from bayesgen.program import log_density
from bayesgen.runtime import as_key

from .hyperparameters import bounds

MARGIN = 1e-9  # how near to a bound the search goes; there densities and their gradients are finite
NEAR = 1e-6  # a mode nearer to a bound than this is compared with the bound itself
STARTS = 4

_value_and_gradient = jax.jit(jax.value_and_grad(log_density, argnums=1))
_value = jax.jit(log_density)


def find_mode(problem, priors, num_starts=STARTS):
    """The mode of the density of hyperparameters in their own range.

    Args:
        problem: as `marginal.problem_of` makes it.
        priors: their distributions by name.
        num_starts: number of starting points, drawn from the priors.

    Returns:
        (values by name, those of them that are on the boundary: name -> bound).

    Raises:
        FitError: where the density is unbounded at a bound; names the hyperparameter.
    """
    box = np.asarray([bounds(prior) for prior in priors.values()])
    with jax.enable_x64(True):
        starts = _starts(priors, box, as_key(problem.seed), num_starts)
        ends = [_climb(problem, list(priors), box, start) for start in starts]
        _, best = max(ends, key=lambda end: end[0])
        return _settle(problem, list(priors), box, best)


def _starts(priors, box, key, num_starts):
    draws = [
        prior.sample(each, (num_starts,))
        for prior, each in zip(priors.values(), jax.random.split(key, len(priors)), strict=True)
    ]
    return np.clip(np.asarray(draws, np.float64).T, *_inner(box).T)


def _inner(box):
    width = np.where(np.isfinite(box).all(1), box[:, 1] - box[:, 0], 1.0)
    return box + MARGIN * width[:, None] * np.array([1, -1])


def _climb(problem, names, box, start):
    def objective(vector):
        value, gradient = _value_and_gradient(problem.program, _named(names, vector), problem.evidence)
        gradient = np.asarray([gradient[name] for name in names])
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -float(value), -gradient

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=_inner(box), options=options)
    return -found.fun, found.x


def _settle(problem, names, box, vector):
    """Put onto the boundary what is as good there."""
    vector, boundary = vector.copy(), {}
    for index, bound in enumerate(box[np.arange(len(box)), np.abs(box - vector[:, None]).argmin(1)]):
        if abs(vector[index] - bound) > NEAR:
            continue
        there = np.where(np.arange(len(names)) == index, bound, vector)
        here, density = (float(_value(problem.program, _named(names, at), problem.evidence)) for at in (vector, there))
        if density == np.inf:
            raise FitError(
                f"The posterior density is unbounded where {names[index]} is {bound:g}: it has no mode. Use NUTS()."
            )
        if np.isnan(density):  # what has only a limit there is put next to it, if the search ended there
            there, density = vector, here if vector[index] in _inner(box)[index] else -np.inf
        if not density < here - 1e-6 * abs(here):
            boundary[names[index]], vector = float(bound), there
    return dict(zip(names, vector.tolist(), strict=True)), boundary


def _named(names, vector):
    return {name: jnp.asarray(value) for name, value in zip(names, vector, strict=True)}
