"""The maximum above one start of a density that may be flat along some directions, or rise without end.

L-BFGS-B climbs; Newton steps, solved by conjugate gradients on differences of gradients, settle the last digits and
leave directions without curvature alone. They also tell a maximum from a density that levels off without one (the
likelihood of separable data): at a maximum the next Newton step is no step at all, and beyond it the slope turns. Where
a density levels off, its gradient and its curvature vanish together, so that steps stay as long as they were, and along
them the slope does not turn however far one goes.

A climb that comes far from its start, as from rows to a prior, meets curvatures that are nothing like one: further
rounds climb in coordinates that are scaled by the curvature where the last one ended.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.optimize

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import ONE_THREAD_A_PRODUCT
from bayesgen.typing import Float

from .curvature import ALWAYS_DENSE, Evaluator, Vector, curvature_at, evaluator_of

ROUNDS, CLIMB_STEPS, NEWTON_STEPS, PRODUCTS = 20, 1000, 30, 200  # at most; products of one Newton step with the Hessian
STEEPNESS = 1e-7  # of the gradient where a climb ends and Newton steps begin
DIFFERENCE = 1e-4  # the length of a step between gradients whose difference tells of curvature
RESIDUAL = 1e-2  # of a Newton step's equations
SETTLED, NO_STEP = 1e-6, 1e-3  # lengths of a Newton step that is the last, and that may be no more than rounding
NO_GAIN = 1e-7  # of a Newton step beyond which the slope turns
HALVINGS = 20
DOUBLINGS = 12  # of a Newton step, over which the slope has to turn where there is a maximum
ROUNDING = 1e-12  # of the density: length of a gradient that is none
LEAST_CURVATURE = 1e-12  # of the largest one met, below which a direction counts as flat


@dataclasses.dataclass(frozen=True)
class Rise:
    """Where a climb has led.

    Attributes:
        vector: the highest point that was reached.
        value: the density there.
        endless: direction along which the density does not fall however far one goes; None at a maximum.
    """

    vector: Vector
    value: float
    endless: Vector | None = None


def rise(density: LogDensity, start: Vector) -> Rise:
    """Climb from a start. Inside float64.

    Args:
        density: log density, in coordinates of about unit curvature where it has any.
        start: where the climb begins; the point that is reached is moved along flat directions no further than slopes
            lead.

    Raises:
        FitError: where the density is not finite at the start, or neither a maximum nor an endless rise is found.
    """
    evaluator = evaluator_of(density)
    vector, (value, gradient) = start, evaluator.at(start)
    if not np.isfinite(value) or not np.isfinite(gradient).all():
        raise FitError("The density is not finite at the fit where its climb starts: check the data's scale.")
    leap: Vector | None = None  # the last one to where a slope has not turned
    for number in range(ROUNDS):
        vector = _climbed(evaluator, vector, _axes(evaluator, vector) if number else None)
        vector, step = _settled(evaluator, vector)
        if np.linalg.norm(step) <= NO_STEP and leap is not None and not _turns(evaluator, vector, leap):
            return Rise(vector, evaluator.at(vector)[0], leap)
        if np.linalg.norm(step) <= NO_STEP:
            return Rise(vector, evaluator.at(vector)[0])
        value, gradient = evaluator.at(vector)
        turns, (higher, gain) = _turns(evaluator, vector, step), _highest(evaluator, vector, step)
        if not turns and gain < -NO_GAIN:
            raise FitError(
                "No maximum was reached: the climb has come where rounding hides whether the objective rises. Columns "
                "of very unlike scales that share one variance lead there: standardise them, or use objective='joint'."
            )
        if not turns and gain <= NO_GAIN:
            return Rise(vector, value, step / np.linalg.norm(step))
        if gain <= 0 or (turns and gradient @ step <= NO_GAIN):
            return Rise(vector, value)
        vector, leap = higher, None if turns else step / np.linalg.norm(step)
    raise FitError(
        "No maximum was reached: the objective still rises, along a ridge that is too long. Use objective='joint'."
    )


def _axes(evaluator: Evaluator, vector: Vector) -> Float[np.ndarray, "D D"] | None:
    """Coordinates without a curvature above one at a point, where that can be told; flatter directions stay as wide."""
    if len(vector) > ALWAYS_DENSE:
        return None
    matrix = curvature_at(evaluator, vector).dense()
    if not np.isfinite(matrix).all():
        return None
    curvatures, axes = np.linalg.eigh(matrix)
    return axes / np.sqrt(np.maximum(np.abs(curvatures), 1.0))


def _climbed(evaluator: Evaluator, vector: Vector, axes: Float[np.ndarray, "D D"] | None) -> Vector:
    """Where L-BFGS-B leads, in the coordinates of these axes; None for those of the density."""

    def point_at(place: Vector) -> Vector:
        return place if axes is None else vector + axes @ place

    def objective(place: Vector) -> tuple[float, Vector]:
        value, gradient = evaluator.at(point_at(place))
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(place)
        return -value, -(gradient if axes is None else gradient @ axes)

    options = {"maxiter": CLIMB_STEPS, "maxfun": 2 * CLIMB_STEPS, "maxcor": 30, "ftol": 1e-13, "gtol": STEEPNESS}
    start = vector if axes is None else np.zeros_like(vector)
    with ONE_THREAD_A_PRODUCT:
        return point_at(scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)


def _settled(evaluator: Evaluator, vector: Vector) -> tuple[Vector, Vector]:
    """The point after Newton steps that help, and the Newton step that is left there."""
    value, gradient = evaluator.at(vector)
    step = _newton_step(evaluator, vector, value, gradient)
    for _ in range(NEWTON_STEPS):
        if np.linalg.norm(step) <= SETTLED:
            break
        proposal = vector + step
        new_value, new_gradient = evaluator.at(proposal)
        helps = np.linalg.norm(new_gradient) < 0.5 * np.linalg.norm(gradient)
        if not helps or not new_value >= value - 1e-9 * max(1.0, abs(value)):
            break
        new_step = _newton_step(evaluator, proposal, new_value, new_gradient)
        is_shorter = np.linalg.norm(new_step) < 0.5 * np.linalg.norm(step)
        vector, value, gradient, step = proposal, new_value, new_gradient, new_step
        if not is_shorter:
            break  # gradients vanish and steps do not: see whether there is an end
    return vector, step


def _newton_step(evaluator: Evaluator, vector: Vector, value: float, gradient: Vector) -> Vector:
    """The step to the top of the parabola with this gradient and the curvature here; along flat directions none."""

    def curvature_along(direction: Vector) -> Vector:
        ahead, behind = evaluator.gradients(
            np.stack([vector + sign * DIFFERENCE * direction / np.linalg.norm(direction) for sign in (1.0, -1.0)])
        )
        return (behind - ahead) * (np.linalg.norm(direction) / (2 * DIFFERENCE))

    steepness = float(np.linalg.norm(gradient))
    if steepness <= ROUNDING * abs(value):
        return np.zeros_like(gradient)
    step = _conjugate_gradients(curvature_along, gradient)
    # without curvature nothing tells how far: as far as coordinates are wide
    return step if step.any() else gradient / steepness


def _conjugate_gradients(product: Callable[[Vector], Vector], target: Vector) -> Vector:
    """The solution of product(x) = target in the directions that have curvature."""
    solution, residual = np.zeros_like(target), target.copy()
    direction, square, largest = residual.copy(), float(residual @ residual), 0.0
    least = RESIDUAL**2 * square
    for _ in range(min(PRODUCTS, 2 * len(target))):
        if square <= least or square == 0:
            break
        image = product(direction)
        curvature = float(direction @ image) / float(direction @ direction)
        largest = max(largest, curvature)
        if not curvature > LEAST_CURVATURE * largest:
            break
        length = square / float(direction @ image)
        solution = solution + length * direction
        residual = residual - length * image
        last, square = square, float(residual @ residual)
        direction = residual + (square / last) * direction
    return solution


def _turns(evaluator: Evaluator, vector: Vector, step: Vector) -> bool:
    """Whether the slope along a step turns at some doubling of it."""
    values, gradients = evaluator.evaluate(vector + np.exp2(np.arange(DOUBLINGS))[:, None] * step)
    slopes = gradients @ step
    return bool((np.isfinite(values) & (slopes < 0)).any() or np.isneginf(values).any())


def _highest(evaluator: Evaluator, vector: Vector, step: Vector) -> tuple[Vector, float]:
    """The highest of some points at halvings and doublings of a step, and by how much it is higher than this one."""
    points = vector + np.exp2(np.arange(-HALVINGS, DOUBLINGS))[:, None] * step
    values = evaluator.evaluate(points)[0]
    values = np.where(np.isfinite(values), values, -np.inf)
    best = int(np.argmax(values))
    return points[best], float(values[best] - evaluator.at(vector)[0])
