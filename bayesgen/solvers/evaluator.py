"""Log densities and their gradients at many points, by one compiled function."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit
from bayesgen.typing import Array, Float, Int

POINTS = 16  # at which a density is evaluated by one call, at most
# LLVM's optimising takes half of the time of compiling; small kernels run no slower with less of it, loops over rows do
QUICKLY = {"xla_backend_optimization_level": 1}

Vector: TypeAlias = Float[np.ndarray, " D"]
Points: TypeAlias = Float[np.ndarray, "points D"]
Values: TypeAlias = Float[np.ndarray, " points"]


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """A log density at points, with its gradients.

    Attributes:
        evaluate: points -> values and gradients.
        blocks: a guess at the coordinates that curve together, as `LogDensity.blocks` gives it.
    """

    evaluate: Callable[[Points], tuple[Values, Points]]
    blocks: tuple[Int[np.ndarray, "_ _"], ...] = ()

    def at(self, vector: Vector) -> tuple[float, Vector]:
        """Value and gradient at one point."""
        values, gradients = self.evaluate(np.asarray(vector)[None])
        return float(values[0]), gradients[0]

    def gradients(self, points: Points) -> Points:
        """Gradients at points."""
        return self.evaluate(points)[1]


def evaluator_of(density: LogDensity) -> Evaluator:
    """The evaluator of a density, by a function compiled for its form."""
    compiled = _at_points_of_rows if density.loops_over_rows else _at_points
    evaluate = in_batches(lambda points, count: compiled(density, points, count), POINTS)
    return Evaluator(evaluate, density.blocks)


def in_batches(
    function: Callable[[Points, int], tuple[Any, Any]], size: int
) -> Callable[[Points], tuple[Values, Points]]:
    """A function of `size` points, of which so many count, as one of any number of points."""

    def evaluate(points: Points) -> tuple[Values, Points]:
        values, gradients = [], []
        for start in range(0, len(points), size):
            batch = points[start : start + size]
            padded = np.concatenate([batch, np.repeat(batch[:1], size - len(batch), axis=0)])
            batch_values, batch_gradients = function(padded, len(batch))
            values.append(np.asarray(batch_values)[: len(batch)])
            gradients.append(np.asarray(batch_gradients)[: len(batch)])
        return np.concatenate(values), np.concatenate(gradients)

    return evaluate


def _traced_at_points(
    density: LogDensity, points: Float[Array, "points D"], count: Int[Array, ""]
) -> tuple[Float[Array, " points"], Float[Array, "points D"]]:
    """Values and gradients at the first `count` of a fixed number of points: one compilation for any of them."""

    def at_next(index: Any, found: tuple[Any, Any]) -> tuple[Any, Any]:
        value, gradient = jax.value_and_grad(lambda vector: density(vector))(points[index])
        return found[0].at[index].set(value), found[1].at[index].set(gradient)

    return jax.lax.fori_loop(0, count, at_next, (jnp.zeros(len(points)), jnp.zeros_like(points)))


_at_points = OwnedJit(_traced_at_points, compiler_options=QUICKLY)
_at_points_of_rows = OwnedJit(_traced_at_points)
