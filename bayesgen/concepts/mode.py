"""The mode of hyperparameters, which is often on the boundary of their range: searched in the range itself."""

from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from bayesgen.errors import FitError
from bayesgen.typing import Array, Float, PRNGKeyArray

from .hyperparameters import bounds
from .marginal import ConceptMarginal

MARGIN = 1e-9  # how near to a bound the search goes; there densities and their gradients are finite
NEAR = 1e-6  # a mode nearer to a bound than this is compared with the bound itself

Box: TypeAlias = Float[np.ndarray, "D 2"]
Vector: TypeAlias = Float[np.ndarray, " D"]

_value = jax.jit(ConceptMarginal.at)
_value_and_gradient = jax.jit(jax.value_and_grad(ConceptMarginal.at, argnums=1))


def find_mode(
    marginal: ConceptMarginal, key: PRNGKeyArray, num_starts: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The mode of the density of hyperparameters in their own range.

    Args:
        marginal: log density of the hyperparameters.
        key: JAX key of the starting points.
        num_starts: number of starting points, drawn from the priors.

    Returns:
        (values by name, those of them that are on the boundary: name -> bound).

    Raises:
        FitError: where the density is unbounded at a bound; names the hyperparameter.
    """
    box = np.asarray([bounds(prior) for prior in marginal.priors.values()])
    with jax.enable_x64(True):
        starts = np.clip(np.asarray(marginal.prior_draws(key, num_starts)), *_inner(box).T)
        ends = [_climb(marginal, box, start) for start in starts]
        _, best = max(ends, key=lambda end: end[0])
        return _settle(marginal, box, best)


def _inner(box: Box) -> Box:
    width = np.where(np.isfinite(box).all(1), box[:, 1] - box[:, 0], 1.0)
    return box + MARGIN * width[:, None] * np.array([1, -1])


def _climb(marginal: ConceptMarginal, box: Box, start: Vector) -> tuple[float, Vector]:
    def objective(vector: Vector) -> tuple[float, Vector]:
        value, by_name = _value_and_gradient(marginal, _named(marginal.names, vector))
        gradient = np.asarray([by_name[name] for name in marginal.names])
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -float(value), -gradient

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
    result = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=_inner(box), options=options)
    return -float(result.fun), result.x


def _settle(marginal: ConceptMarginal, box: Box, vector: Vector) -> tuple[dict[str, float], dict[str, float]]:
    """Move a hyperparameter to the bound that it is near, where the density is no lower there."""
    names, vector, boundary = marginal.names, vector.copy(), {}
    for index, bound in enumerate(box[np.arange(len(box)), np.abs(box - vector[:, None]).argmin(1)]):
        if abs(vector[index] - bound) > NEAR:
            continue
        there = np.where(np.arange(len(names)) == index, bound, vector)
        here, density = (float(_value(marginal, _named(names, point))) for point in (vector, there))
        if density == np.inf:
            raise FitError(
                f"The posterior density is unbounded where {names[index]} is {bound:g}: it has no mode. Use NUTS()."
            )
        if np.isnan(density):  # what has only a limit there is put next to it, if the search ended there
            there, density = vector, here if vector[index] in _inner(box)[index] else -np.inf
        if not density < here - 1e-6 * abs(here):
            boundary[names[index]], vector = float(bound), there
    return dict(zip(names, vector.tolist(), strict=True)), boundary


def _named(names: Sequence[str], vector: Vector) -> dict[str, Array]:
    return {name: jnp.asarray(value) for name, value in zip(names, vector, strict=True)}
