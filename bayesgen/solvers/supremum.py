"""The supremum above one start of a density that may have flat directions, or directions of recession.

Along a direction of recession a density does not fall however far one goes, as the likelihood of separable data does
not; its supremum is then not attained. L-BFGS-B climbs, and Newton-CG steps on differences of gradients converge to the
last digits, without moving along flat directions. At a maximum the last Newton step vanishes, and beyond it the slope
changes its sign. Along a direction of recession gradient and curvature vanish together, so that Newton steps do not get
shorter, and the slope does not change its sign.

Far from the start the curvature may differ much from one: later rounds climb in coordinates scaled by the curvature
where the last round ended.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.typing import Float

from .curvature import ALWAYS_DENSE, Evaluator, Vector, curvature_at, evaluator_of
from .maximize import lbfgs

RIDGE_ROUNDS, RIDGE_STEPS, RIDGE_NEWTON_STEPS, PRODUCTS = (
    20,
    1000,
    30,
    200,
)  # at most; products with the Hessian, of one Newton step
STEEPNESS = 1e-7  # of the gradient where L-BFGS-B ends and Newton steps begin
DIFFERENCE = 1e-4  # step of finite differences of gradients
RESIDUAL = 1e-2  # of a Newton step's equations
LAST_LENGTH, NEGLIGIBLE_LENGTH = 1e-6, 1e-3  # of the last Newton step, and of one that may be rounding alone
NO_GAIN = 1e-7  # by a Newton step, that counts as none
LINE_HALVINGS = 20
LINE_DOUBLINGS = 12  # of a Newton step, within which the slope turns beyond a maximum
GRADIENT_ROUNDING = 1e-12  # of the density: length of a gradient that counts as zero
LEAST_CURVATURE = 1e-12  # as a part of the largest one met, below which a direction counts as flat


@dataclasses.dataclass(frozen=True)
class Supremum:
    """The supremum of a log density above a start.

    Attributes:
        vector: the highest point that was reached.
        value: log density there.
        recession: a direction of recession, along which the supremum is approached; None at a maximum.
    """

    vector: Vector
    value: float
    recession: Vector | None = None


def find_supremum(density: LogDensity, start: Vector) -> Supremum:
    """The supremum above a start. Inside float64.

    Args:
        density: log density, in coordinates of about unit curvature where it has any.
        start: the start; along flat directions the climb moves no further than slopes lead.

    Raises:
        FitError: a density that is not finite at the start, or a search that does not converge.
    """
    evaluator = evaluator_of(density)
    vector, (value, gradient) = start, evaluator.at(start)
    if not np.isfinite(value) or not np.isfinite(gradient).all():
        raise FitError("The density is not finite at the fit where its climb starts: check the data's scale.")
    direction: Vector | None = None  # of the last step beyond which the slope did not turn
    for number in range(RIDGE_ROUNDS):
        vector = _climbed(evaluator, vector, _axes(evaluator, vector) if number else None)
        vector, step = _polished(evaluator, vector)
        if (
            np.linalg.norm(step) <= NEGLIGIBLE_LENGTH
            and direction is not None
            and not _turns(evaluator, vector, direction)
        ):
            return Supremum(vector, evaluator.at(vector)[0], direction)
        if np.linalg.norm(step) <= NEGLIGIBLE_LENGTH:
            return Supremum(vector, evaluator.at(vector)[0])
        value, gradient = evaluator.at(vector)
        turns, (higher, gain) = _turns(evaluator, vector, step), _highest(evaluator, vector, step)
        if not turns and gain < -NO_GAIN:
            raise FitError(
                "No maximum was reached: the climb has come where rounding hides whether the objective rises. Columns "
                "of very unlike scales that share one variance lead there: standardise them, or use objective='joint'."
            )
        if not turns and gain <= NO_GAIN:
            return Supremum(vector, value, step / np.linalg.norm(step))
        if gain <= 0 or (turns and gradient @ step <= NO_GAIN):
            return Supremum(vector, value)
        vector, direction = higher, None if turns else step / np.linalg.norm(step)
    raise FitError(
        "No maximum was reached: the objective still rises, along a ridge that is too long. Use objective='joint'."
    )


def _axes(evaluator: Evaluator, vector: Vector) -> Float[np.ndarray, "D D"] | None:
    """Axes of coordinates of curvature one or less at a point; None in high dimensions, or without finite curvature."""
    if len(vector) > ALWAYS_DENSE:
        return None
    matrix = curvature_at(evaluator, vector).dense()
    if not np.isfinite(matrix).all():
        return None
    curvatures, axes = np.linalg.eigh(matrix)
    return axes / np.sqrt(np.maximum(np.abs(curvatures), 1.0))


def _climbed(evaluator: Evaluator, vector: Vector, axes: Float[np.ndarray, "D D"] | None) -> Vector:
    """The end of L-BFGS-B in the coordinates of these axes, or in those of the density."""

    def point_at(place: Vector) -> Vector:
        return place if axes is None else vector + axes @ place

    def objective(place: Vector) -> tuple[float, Vector]:
        value, gradient = evaluator.negative(point_at(place))
        return value, gradient if axes is None else gradient @ axes

    start = vector if axes is None else np.zeros_like(vector)
    return point_at(lbfgs(objective, start, RIDGE_STEPS, ftol=1e-13, gtol=STEEPNESS).x)


def _polished(evaluator: Evaluator, vector: Vector) -> tuple[Vector, Vector]:
    """The point after Newton steps that help, and the next Newton step there."""
    value, gradient = evaluator.at(vector)
    step = _newton_step(evaluator, vector, value, gradient)
    for _ in range(RIDGE_NEWTON_STEPS):
        if np.linalg.norm(step) <= LAST_LENGTH:
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
            break  # gradients vanish and steps do not: a direction of recession, perhaps
    return vector, step


def _newton_step(evaluator: Evaluator, vector: Vector, value: float, gradient: Vector) -> Vector:
    """The Newton-CG step, zero along flat directions."""

    def curvature_along(direction: Vector) -> Vector:
        ahead, behind = evaluator.gradients(
            np.stack([vector + sign * DIFFERENCE * direction / np.linalg.norm(direction) for sign in (1.0, -1.0)])
        )
        return (behind - ahead) * (np.linalg.norm(direction) / (2 * DIFFERENCE))

    steepness = float(np.linalg.norm(gradient))
    if steepness <= GRADIENT_ROUNDING * abs(value):
        return np.zeros_like(gradient)
    step = _conjugate_gradients(curvature_along, gradient)
    # without curvature, a step of length one
    return step if step.any() else gradient / steepness


def _conjugate_gradients(product: Callable[[Vector], Vector], target: Vector) -> Vector:
    """The solution of product(x) = target in the directions with curvature."""
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
    """Whether the slope along a step becomes negative at some doubling of it."""
    values, gradients = evaluator.evaluate(vector + np.exp2(np.arange(LINE_DOUBLINGS))[:, None] * step)
    slopes = gradients @ step
    return bool((np.isfinite(values) & (slopes < 0)).any() or np.isneginf(values).any())


def _highest(evaluator: Evaluator, vector: Vector, step: Vector) -> tuple[Vector, float]:
    """The highest point at halvings and doublings of a step, and its gain over this point."""
    points = vector + np.exp2(np.arange(-LINE_HALVINGS, LINE_DOUBLINGS))[:, None] * step
    values = evaluator.evaluate(points)[0]
    values = np.where(np.isfinite(values), values, -np.inf)
    best = int(np.argmax(values))
    return points[best], float(values[best] - evaluator.at(vector)[0])
