"""Quasi-Newton climbs of a log density, one evaluation at a time.

The state of a climb is a value of fixed shape and a step of it a pure function, as a trajectory of the sampler is: the
whole climb is one loop with one evaluation of the density in it, so that it compiles in about the time of that
evaluation, and vectorises over starts and over densities. A step takes arrays of NumPy or JAX.

Source: Nocedal and Wright (2006), Numerical optimization, algorithm 7.5 (L-BFGS) in the compact form of Byrd,
Nocedal and Schnabel (1994), Representations of quasi-Newton matrices and their use in limited memory methods, eq. 3.1,
with line searches that halve and double as in algorithm 3.1; Hager and Zhang (2005), A new conjugate gradient method
with guaranteed descent and an efficient line search, eq. 4.1, for steps whose gain is below rounding.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.runtime import FAST_TO_COMPILE, LIGHT_OPTIMISATION, ROUNDING, OwnedJit
from bayesgen.statistics import namespace
from bayesgen.typing import Array, Bool, Float, Int

MEMORY = 30  # changes of point and gradient that are kept, at most; in few dimensions older ones tell nothing
ENOUGH_GAIN, STEEP = 1e-4, 0.9  # of the slope: least gain of a step, and the slope after one that was too short

PointArray: TypeAlias = Float[Array, "*batch D"]
Scalar: TypeAlias = Float[Array, "*batch"]
Flag: TypeAlias = Bool[Array, "*batch"]


class Climb(NamedTuple):
    """A climb between two evaluations.

    Attributes:
        point: the highest point so far.
        value, gradient: log density and its gradient there; minus infinity before the first evaluation.
        direction: of the line search from it.
        length: of the next trial step, in directions.
        moves: the last changes of the point, an array (memory, D), the newest last; zeros where there were fewer.
        falls: the changes of the gradient, with the opposite sign; pairs are scaled to scalar products of one.
        inverse: of the upper triangle of moves @ falls.T, see `_quasi_newton`.
        halvings: of the trial step.
        is_over: whether the climb has ended.
        is_converged: whether it ended where the next step is negligible.
    """

    point: PointArray
    value: Scalar
    gradient: PointArray
    direction: PointArray
    length: Scalar
    moves: Float[Array, "*batch memory D"]
    falls: Float[Array, "*batch memory D"]
    inverse: Float[Array, "*batch memory memory"]
    halvings: Int[Array, "*batch"]
    is_over: Flag
    is_converged: Flag

    @property
    def trial(self) -> PointArray:
        """The point to be evaluated."""
        return self.point + self.length[..., None] * self.direction


def begin_climb(start: Float[np.ndarray, " D"]) -> Climb:
    """A climb that has not evaluated its start."""
    zeros, inverse, no = np.zeros(len(start)), np.eye(min(MEMORY, 3 * len(start) + 1)), np.asarray(False)
    memory, zero, none = np.zeros((len(inverse), len(start))), np.asarray(0.0), np.asarray(-np.inf)
    return Climb(start, none, zeros, zeros, zero, memory, memory, inverse, np.asarray(0), no, no)


def advance_climb(climb: Climb, value: Scalar, gradient: PointArray, decrement: Float[Array, ""] | Scalar) -> Climb:
    """The climb after an evaluation of its trial.

    Args:
        climb: the climb so far.
        value, gradient: of the trial.
        decrement: the product of gradient and next step below which the climb has converged.
    """
    xp = namespace(climb.point, value, gradient)
    slope, new_slope = (climb.gradient * climb.direction).sum(-1), (gradient * climb.direction).sum(-1)
    is_first = climb.value == -np.inf
    is_finite = xp.isfinite(value) & xp.isfinite(gradient).all(-1)
    gain = xp.where(is_first, 0.0, value - climb.value)
    rounding = ROUNDING * xp.abs(xp.where(is_first, 0.0, climb.value))
    is_higher = gain >= xp.maximum(ENOUGH_GAIN * climb.length * slope, rounding)
    is_flatter = (gain >= -rounding) & (xp.abs(new_slope) <= STEEP * slope)
    is_taken = is_finite & (is_first | is_higher | is_flatter)
    is_short = is_taken & ~is_first & (new_slope > STEEP * slope)
    turns = is_taken & ~is_first & ~is_short

    product = climb.length * (slope - new_slope)
    scale = xp.where(turns & (product > 0), 1 / xp.sqrt(xp.where(product > 0, product, 1.0)), 0.0)
    fall = xp.where(is_finite[..., None], climb.gradient - gradient, 0.0)
    memory = climb.moves, climb.falls, climb.inverse
    updated = _remembered(xp, *memory, (scale * climb.length)[..., None] * climb.direction, scale[..., None] * fall)
    is_kept = (scale > 0)[..., None, None]
    moves, falls, inverse = (xp.where(is_kept, new, old) for new, old in zip(updated, memory, strict=True))

    point = xp.where(is_taken[..., None], climb.trial, climb.point)
    new_gradient = xp.where(is_taken[..., None], gradient, climb.gradient)
    step = _quasi_newton(xp, moves, falls, inverse, new_gradient)
    promised = (new_gradient * step).sum(-1)
    is_new = is_first | turns
    is_converged = is_finite & is_new & (promised <= decrement)
    halvings = xp.where(is_taken, 0, climb.halvings + 1)
    return Climb(
        point=point,
        value=xp.where(is_taken, value, climb.value),
        gradient=new_gradient,
        direction=xp.where(is_new[..., None], step, climb.direction),
        length=xp.where(is_new, 1.0, xp.where(is_short, 2.0, 0.5) * climb.length),
        moves=moves,
        falls=falls,
        inverse=inverse,
        halvings=halvings,
        is_over=is_converged | (is_first & ~is_finite) | (halvings > 40) | ~(promised > 0),
        is_converged=is_converged,
    )


def _remembered(
    xp: Any, moves: Array, falls: Array, inverse: Array, move: PointArray, fall: PointArray
) -> tuple[Array, ...]:
    """The memory with one more pair in place of the oldest."""
    last = xp.broadcast_to(np.eye(inverse.shape[-1])[-1:], (*move.shape[:-1], 1, inverse.shape[-1]))
    moves, falls, inverse = moves[..., 1:, :], falls[..., 1:, :], inverse[..., 1:, 1:]
    column = -inverse @ (moves @ fall[..., None])
    inverse = xp.concatenate([xp.concatenate([inverse, column], axis=-1), last], axis=-2)
    moves, falls = (xp.concatenate([rows, new[..., None, :]], axis=-2) for rows, new in ((moves, move), (falls, fall)))
    return moves, falls, inverse


def _quasi_newton(xp: Any, moves: Array, falls: Array, inverse: Array, gradient: PointArray) -> PointArray:
    """The step to the maximum by the curvature that the memory shows; of length one at most without memory."""
    square, norm = (falls[..., -1, :] ** 2).sum(-1), xp.sqrt((gradient**2).sum(-1))
    width = xp.where(square > 0, 1 / xp.where(square > 0, square, 1.0), 1 / xp.maximum(1.0, norm))[..., None, None]
    column = gradient[..., None]
    inner = inverse @ (moves @ column)
    remainder = column - falls.mT @ inner
    step = width * remainder + moves.mT @ (inverse.mT @ (inner - width * (falls @ remainder)))
    return step[..., 0]


POINTS_A_CALL = 16  # evaluated by one call of a compiled function, at most
MOST_FEW_ROWS = 1e5  # multiplications of one evaluation that loops over rows, up to which climbs are short
MOST_DENSE_AXES = 64  # dimensions up to which axes of coordinates are a matrix

Vector: TypeAlias = Float[np.ndarray, " D"]
Points: TypeAlias = Float[np.ndarray, "points D"]
Values: TypeAlias = Float[np.ndarray, " points"]
CoordinateAxes: TypeAlias = Float[Array, "..."]  # of coordinates: a matrix whose columns they are, or a width for each


def along(axes: CoordinateAxes, place: PointArray) -> PointArray:
    """The move by a place in the coordinates of axes."""
    return (axes @ place[..., None])[..., 0] if axes.ndim > place.ndim else axes * place


def unit_axes(dimension: int) -> CoordinateAxes:
    """Axes of the coordinates of a density itself, of the structure that others of this dimension have."""
    return np.eye(dimension) if dimension <= MOST_DENSE_AXES else np.ones(dimension)


def climbed(
    density: LogDensity, center: Float[Array, " D"], axes: CoordinateAxes, climb: Climb, most_steps: Any, decrement: Any
) -> Climb:
    """A climb in coordinates about a centre, continued by evaluations up to a number of them. Traceable.

    Args:
        density: log density.
        center: the origin of the coordinates.
        axes: their axes.
        climb: the climb so far.
        most_steps: number of evaluations.
        decrement: see `advance_climb`.
    """
    points = jnp.zeros((1, len(center)))
    return _climbed(density, center, axes, climb, points, 0, most_steps, decrement)[0]


def _climbed(
    density: LogDensity,
    center: Float[Array, " D"],
    axes: CoordinateAxes,
    climb: Climb,
    points: Float[Array, "points D"],
    count: Any,
    most_steps: Any,
    decrement: Any,
) -> tuple[Climb, Float[Array, " points"], Float[Array, "points D"]]:
    """The climb continued, or values and gradients at the first `count` points: one compilation for both.

    Where points are evaluated the climb that is returned has no meaning.
    """
    evaluate = jax.value_and_grad(lambda place: density(center + along(axes, place)))

    def body(state: Any) -> Any:
        index, climb, values, gradients = state
        is_asked = index < count
        place = jnp.where(is_asked, points[jnp.minimum(index, len(points) - 1)], climb.trial)
        value, gradient = evaluate(place)
        climb = advance_climb(climb, value, gradient, decrement)
        row = jnp.where(is_asked, index, len(points))
        values = values.at[row].set(value, mode="drop")
        return index + 1, climb, values, gradients.at[row].set(gradient, mode="drop")

    def unfinished(state: Any) -> Any:
        index, climb, *_ = state
        return (index < count) | ((index < count + most_steps) & ~climb.is_over)

    state = (jnp.asarray(0), jax.tree.map(jnp.asarray, climb), jnp.zeros(len(points)), jnp.zeros(points.shape))
    return jax.lax.while_loop(unfinished, body, state)[1:]


_compiled = OwnedJit(_climbed, compiler_options=LIGHT_OPTIMISATION)
_compiled_for_few = OwnedJit(_climbed, compiler_options=FAST_TO_COMPILE)
_compiled_for_rows = OwnedJit(_climbed)


def _compiled_for(density: LogDensity) -> OwnedJit:
    """The compiled function for a density: of few coordinates and rows, compiling takes longer than climbing."""
    if density.loops_over_rows and density.cost > MOST_FEW_ROWS:
        return _compiled_for_rows
    return _compiled_for_few if density.dimension <= MOST_DENSE_AXES else _compiled


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Values and gradients of a log density at points, and climbs of it.

    Attributes:
        evaluate: points -> values and gradients.
        climb: as `climbed`, with the density given.
        blocks: a guess at blocks of the Hessian, see `LogDensity.blocks`.
        why_not_finite: see `LogDensity.why_not_finite`.
    """

    evaluate: Callable[[Points], tuple[Values, Points]]
    climb: Callable[[Vector, CoordinateAxes, Climb, int, float], Climb]
    blocks: tuple[Int[np.ndarray, "_ _"], ...] = ()
    why_not_finite: Callable[[Vector], str] = lambda vector: ""

    def at(self, vector: Vector) -> tuple[float, Vector]:
        """Value and gradient at one point."""
        values, gradients = self.evaluate(np.asarray(vector)[None])
        return float(values[0]), gradients[0]


def evaluator_of(density: LogDensity) -> Evaluator:
    """The evaluator of a density, by one function compiled for its form."""
    compiled, dimension = _compiled_for(density), density.dimension
    plain, none = unit_axes(dimension), np.zeros((POINTS_A_CALL, dimension))
    at_origin = begin_climb(np.zeros(dimension))

    def evaluate(points: Points) -> tuple[Values, Points]:
        results: list[tuple[Values, Points]] = []
        for start in range(0, len(points), POINTS_A_CALL):
            batch = points[start : start + POINTS_A_CALL]
            padded = np.concatenate([batch, np.repeat(batch[:1], POINTS_A_CALL - len(batch), axis=0)])
            _, values, gradients = compiled(density, at_origin.point, plain, at_origin, padded, len(batch), 0, 0.0)
            results.append((np.asarray(values)[: len(batch)], np.asarray(gradients)[: len(batch)]))
        values, gradients = map(np.concatenate, zip(*results, strict=True))
        return values, gradients

    def climb(center: Vector, axes: CoordinateAxes, climb: Climb, most_steps: int, decrement: float) -> Climb:
        return Climb(*map(np.asarray, compiled(density, center, axes, climb, none, 0, most_steps, decrement)[0]))

    return Evaluator(evaluate, climb, density.blocks, density.why_not_finite)
