"""Maxima of log densities: quasi-Newton climbs in coordinates scaled by the curvature where the last climb ended.

In such coordinates the first step of a climb is Newton's, so that climbs converge along ridges on which L-BFGS alone is
slow. A search says how it ended, and the host words the refusal.
"""

import dataclasses
import enum
import functools
from collections.abc import Iterable

import numpy as np

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.typing import Float

from .curvature import Curvature, curvature_at
from .quasi_newton import (
    MOST_DENSE_AXES,
    Climb,
    CoordinateAxes,
    Evaluator,
    Points,
    Vector,
    along,
    begin_climb,
    evaluator_of,
    unit_axes,
)

MOST_DECOMPOSED = 1200  # dimensions up to which flat directions are found by eigenvalues or singular values
ROUNDS, CLIMB_STEPS = 20, 400  # climbs from one start, and evaluations of each
PEAK_STEPS, MOST_SPIKES = 100, 3  # evaluations of each where peaks are looked for in few dimensions, and lost starts
STEPS_A_LOOK = 25  # evaluations of a climb before it is compared with known optima
LAST_DECREMENT = 1e-20  # product of gradient and next step where a climb ends: 1e-10 of a standard deviation
AGREEMENT = 1e-3  # difference of the values of equal optima
CONVERGED_DECREMENT = 1e-4  # squared Newton decrement at an optimum, at most
FAR_OUT = 12.0  # from the origin of the unconstrained space: a probability of 1e-5
NO_GAIN = 1e-7  # by a step, that counts as none
LINE_DOUBLINGS = 12  # of a step, within which the slope turns beyond a maximum


class Status(enum.Enum):
    """How a search ended, with what a message says of it."""

    CONVERGED = ""
    NOT_FINITE = "The {what} is not finite where the search starts: check the priors and the data's scale."
    RISING = (
        "The {what} has no maximum that could be reached: it still rises along site {site!r}. It may be unbounded "
        "there (a variance going to zero, a concentration below 1), or climbs may have begun too far from it: give a "
        "prior that keeps it away from the boundary, more starts (num_starts=...), or use NUTS()."
    )
    FLAT = (
        "The {what} is flat along site {site!r}, so its mode is not unique. Data or prior must say something about it "
        "(is a class without rows?); or use NUTS()."
    )
    CURVED = "The {what} has no finite curvature at its maximum: check the priors and the data's scale."
    EDGE = (
        "The {what} has no maximum but at the edge of the values of site {site!r} (a scale of zero, or a probability "
        "of 0 or 1), where the search ended and where it may be unbounded. Give the site a prior that rules the edge "
        "out, such as LogNormal for a scale, or concentrations above 1; fix its value; or use NUTS(), which averages "
        "over values near the edge."
    )
    SEPARABLE = (
        "The {what} has no maximum: it rises without end along site {site!r}, as it does where classes are separable, "
        "wholly or in part, so that some labels follow from the covariates with certainty. MAP() has one, by its prior."
    )
    UNBOUNDED = "The {what} has no maximum: it rises without end along site {site!r}."
    HIDDEN = (
        "No maximum was reached: the climb has come where rounding hides whether the objective rises. Columns of very "
        "unlike scales that share one variance lead there: standardise them, or use objective='joint'."
    )
    UNFINISHED = (
        "No maximum was reached: the objective still rises, along a ridge that is too long. Use objective='joint'."
    )


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The end of a search for a maximum.

    Attributes:
        vector: the highest point that was reached.
        value: log density there.
        gradient: its gradient.
        status: how the search ended.
        direction: a direction along which it rises (of recession, if it is unbounded) or is flat; None at a maximum.
        curvature: minus the Hessian there, where it was measured.
        num_modes: number of distinct peaks of non-negligible mass that climbs ended in.
    """

    vector: Vector
    value: float
    gradient: Vector
    status: Status = Status.RISING
    direction: Vector | None = None
    curvature: Curvature | None = None
    num_modes: int = 1

    @property
    def converged(self) -> bool:
        """Whether it is at a maximum."""
        return self.status is Status.CONVERGED

    @property
    def log_mass(self) -> float:
        """Log of the integral of the Laplace approximation, up to a constant; minus infinity without curvature."""
        return -np.inf if self.curvature is None else self.value + self.curvature.log_volume

    def is_at(self, vector: Vector, value: float) -> bool:
        """Whether a point is this optimum, by value and place (mirrored modes have equal values)."""
        near = np.abs(vector - self.vector) <= 0.05 * (1.0 + np.abs(self.vector))
        return abs(value - self.value) <= AGREEMENT and bool(near.all())

    def check(self, density: LogDensity, what: str) -> None:
        """Refuse all but a maximum; a `FitError` names the site, where there is one."""
        if not self.converged:
            widest = None if self.direction is None else int(np.argmax(np.abs(self.direction)))
            site = None if widest is None else density.name_of(widest)
            raise FitError(self.status.value.format(what=what, site=site))


def search(evaluator: Evaluator, starts: Iterable[Vector], has_symmetries: bool = False) -> Optimum:
    """The peak of the largest Laplace mass, or the highest optimum where none is a peak. Inside float64.

    Args:
        evaluator: of the density.
        starts: starts of climbs.
        has_symmetries: whether peaks of equal mass count as one peak and its mirror images.

    Raises:
        FitError: where the density is finite nowhere.
    """
    optima = climb(evaluator, starts, for_peaks=True)  # there may be no peak, and samplers can do without
    peaks = [peak for peak in (_as_peak(evaluator, optimum) for optimum in optima) if peak is not None]
    if not peaks:
        return optima[0]
    main = max(peaks, key=lambda peak: peak.log_mass)
    # a mode with less than a millionth of the mass is negligible
    masses = np.sort([peak.log_mass for peak in peaks if peak.log_mass > main.log_mass - 14.0])
    if has_symmetries:
        masses = masses[np.diff(masses, prepend=-np.inf) > AGREEMENT]
    return dataclasses.replace(main, num_modes=len(masses))


def climb(evaluator: Evaluator, starts: Iterable[Vector], for_peaks: bool = False) -> list[Optimum]:
    """The distinct optima above starting points, the highest first.

    Args:
        evaluator: of the density.
        starts: the starting points.
        for_peaks: whether a route may end where it leads to no peak: where its last climb has gained next to nothing,
            or less than the log volume has fallen, as on the way into a funnel. Several such routes end the search.

    Raises:
        FitError: where the density is finite at none of them.
    """
    waiting = [
        _Route.begin(Optimum(start, -np.inf, np.zeros_like(start)), unit_axes(len(start)), 1) for start in starts
    ][::-1]
    first = waiting[-1].vector
    most_steps = PEAK_STEPS if for_peaks and waiting[0].axes.ndim == 2 else CLIMB_STEPS
    routes: list[_Route] = []
    optima: list[Optimum] = []
    while routes or waiting:
        is_known = any(optimum.converged for optimum in optima)
        if for_peaks and not is_known and len(optima) >= MOST_SPIKES:
            break
        at_once = MOST_SPIKES - 1 if optima and for_peaks and not is_known else 1
        while waiting and len(routes) < at_once:  # most lead to the same one
            routes.append(waiting.pop())
        following = []
        for route in (route.continued(evaluator) for route in routes):
            if any(reached.converged and reached.is_at(route.vector, float(route.climb.value)) for reached in optima):
                continue  # there is no need for its last digits again
            if not route.climb.is_over and route.num_steps < most_steps:
                following.append(route)
                continue
            optimum = _end(evaluator, route, for_peaks)
            if optimum.status is Status.UNFINISHED and route.num_rounds < ROUNDS:
                assert optimum.curvature is not None
                following.append(_Route.begin(optimum, optimum.curvature.axes(), route.num_rounds + 1))
            elif np.isfinite(optimum.value) and not any(at.is_at(optimum.vector, optimum.value) for at in optima):
                optima.append(optimum)
        routes = following
    if not optima:
        reason = evaluator.why_not_finite(first)
        raise FitError(
            f"The density is not finite at any starting point{f' ({reason})' if reason else ''}: check the priors and "
            "the data's scale, and that each observed value is possible."
        )
    return sorted(optima, key=lambda optimum: -optimum.value)


def maximize(density: LogDensity, starts: Points, num_starts: int) -> Optimum:
    """The highest maximum above some starts, and whether it is unique. Inside float64.

    Args:
        density: log density.
        starts: candidates for starts: the first is taken, and of the others those with the highest densities.
        num_starts: number of climbs.

    Raises:
        FitError: where the density is finite at none of them.
    """
    evaluator = evaluator_of(density)
    candidates = starts[1:]
    if len(candidates):
        values = np.nan_to_num(evaluator.evaluate(candidates)[0], nan=-np.inf)
        candidates = candidates[np.argsort(-values)[: num_starts - 1]]
    return _judged(climb(evaluator, [starts[0], *candidates])[0])


def _as_peak(evaluator: Evaluator, optimum: Optimum) -> Optimum | None:
    """An optimum as a maximum, or None where it is a saddle, a ridge or a plateau.

    On a plateau rounding may show as curvature: so one standard deviation away from a peak, in random directions, the
    density must be lower, and finite.
    """
    if _decrement(optimum) > CONVERGED_DECREMENT:
        return None
    assert optimum.curvature is not None
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (4, len(optimum.vector)))  # four directions, both sides
    deviations = optimum.curvature.deviations(signs)
    values, _ = evaluator.evaluate(optimum.vector + np.concatenate([deviations, -deviations]))
    falls = np.isfinite(values) & (values < optimum.value)
    return dataclasses.replace(optimum, status=Status.CONVERGED) if falls.all() else None


@dataclasses.dataclass(frozen=True)
class _Route:
    """A climb under way, in coordinates scaled by the curvature where the last one ended.

    Attributes:
        origin: where the last one ended.
        axes: of the coordinates about it.
        num_rounds: number of climbs from the start.
        climb: the climb so far.
        num_steps: number of its evaluations, about.
    """

    origin: Optimum
    axes: CoordinateAxes
    num_rounds: int
    climb: Climb
    num_steps: int = 0

    @classmethod
    def begin(cls, origin: Optimum, axes: CoordinateAxes, num_rounds: int) -> "_Route":
        """The first point of a route."""
        return cls(origin, axes, num_rounds, begin_climb(np.zeros_like(origin.vector)))

    @property
    def vector(self) -> Vector:
        """The highest point so far."""
        return self.origin.vector + along(self.axes, self.climb.point)

    def continued(self, evaluator: Evaluator) -> "_Route":
        """The route after some evaluations."""
        climb = evaluator.climb(self.origin.vector, self.axes, self.climb, STEPS_A_LOOK, LAST_DECREMENT)
        return dataclasses.replace(self, climb=climb, num_steps=self.num_steps + STEPS_A_LOOK)


def _end(evaluator: Evaluator, route: _Route, for_peaks: bool) -> Optimum:
    """The end of a climb; `Status.UNFINISHED` where another one may come higher."""
    before, vector = route.origin.value, route.vector
    value, gradient = evaluator.at(vector)
    if not np.isfinite(value):
        return Optimum(vector, value, gradient, Status.NOT_FINITE)
    optimum = Optimum(vector, value, gradient, curvature=curvature_at(evaluator, vector))
    decrement = _decrement(optimum)
    if decrement <= (1e-10 if value <= before else 1e-17):  # rounding ends the search where it gains nothing
        return dataclasses.replace(optimum, status=Status.CONVERGED)
    rises_in_vain = value - before <= AGREEMENT or optimum.log_mass < route.origin.log_mass
    is_peakless = np.isinf(decrement) and (bool(route.climb.is_converged) or (for_peaks and rises_in_vain))
    is_last = is_peakless or value <= before
    return optimum if is_last else dataclasses.replace(optimum, status=Status.UNFINISHED)


def _decrement(optimum: Optimum) -> float:
    """The squared Newton decrement; infinite where the curvature is not positive definite."""
    step = None if optimum.curvature is None else optimum.curvature.solve(optimum.gradient)
    return np.inf if step is None else float(optimum.gradient @ step)


def _judged(optimum: Optimum) -> Optimum:
    """The optimum with its status: whether the density still rises there (it may be unbounded), or is flat."""
    # where it rises without end, the value is large and the gradient is not, and points are far out
    steepest = float((np.abs(optimum.gradient) * np.maximum(1.0, np.abs(optimum.vector))).max())
    if _decrement(optimum) > CONVERGED_DECREMENT and steepest > 1e-5 * max(1.0, abs(optimum.value)):
        return dataclasses.replace(optimum, status=Status.RISING, direction=_single_steps(optimum))
    if len(optimum.vector) > MOST_DECOMPOSED:
        return dataclasses.replace(optimum, status=Status.CONVERGED)
    assert optimum.curvature is not None
    matrix = optimum.curvature.dense()
    if not np.isfinite(matrix).all():
        edge = np.where(np.abs(optimum.vector) > FAR_OUT, optimum.vector, 0.0)
        if not edge.any():
            return dataclasses.replace(optimum, status=Status.CURVED)
        return dataclasses.replace(optimum, status=Status.EDGE, direction=edge)
    flat = _flat_direction(optimum, matrix)
    return dataclasses.replace(optimum, status=Status.CONVERGED if flat is None else Status.FLAT, direction=flat)


def _single_steps(optimum: Optimum) -> Vector:
    """Newton's steps of single coordinates, the gradient in many dimensions.

    Where a scale goes to zero, slopes by the values that it scales are steeper, but their steps are short.
    """
    assert optimum.curvature is not None
    if len(optimum.vector) > MOST_DECOMPOSED:
        return optimum.gradient
    bent = np.abs(np.diagonal(optimum.curvature.dense()))
    return optimum.gradient / np.where(np.isfinite(bent), np.maximum(bent, NO_GAIN), np.inf)


def _flat_direction(optimum: Optimum, curvature: Float[np.ndarray, "D D"]) -> Vector | None:
    """A flat direction inside the space, in units of each coordinate; None where the mode is unique.

    Far out in the unconstrained space curvature vanishes where the mode lies on the boundary (a zero count under a flat
    prior), which is allowed. Coordinates are scaled by their own curvature, so that units do not matter.
    """
    diagonal, distance = np.diagonal(curvature), np.abs(optimum.vector)
    # a standard deviation of a billion times the coordinate counts as flat
    flat = (diagonal <= 1e-18 * (1 + distance) ** -2.0) & (distance < FAR_OUT)
    if flat.any():
        return flat.astype(np.float64)
    # far out, curvature counts only where it exceeds the remaining gradient
    looked_at = np.flatnonzero((distance < FAR_OUT) | (diagonal > 1e-5 * max(1.0, abs(optimum.value))))
    if len(looked_at) == 0:
        return None
    scale = 1 / np.sqrt(diagonal[looked_at])
    values, vectors = np.linalg.eigh(curvature[np.ix_(looked_at, looked_at)] * scale[:, None] * scale)
    direction = np.zeros_like(optimum.vector)
    direction[looked_at] = vectors[:, 0]
    return direction if values[0] < 1e-7 else None


# Densities that may have flat directions, or directions of recession.
#
# Along a direction of recession a density does not fall however far one goes, as the likelihood of separable data does
# not; its supremum is then not attained. At a maximum the last step vanishes, and beyond it the slope changes its sign.
# Along a direction of recession gradient and curvature vanish together, so that steps do not get shorter, and the slope
# does not change its sign.


def find_supremum(density: LogDensity, start: Vector) -> Optimum:
    """The supremum above one start of a density that may be flat in part. Inside float64.

    Args:
        density: log density, in coordinates of about unit curvature where it has any.
        start: the start; along flat directions the climb moves no further than slopes lead.
    """
    evaluator, vector, axes = evaluator_of(density), start, unit_axes(len(start))
    value, gradient = evaluator.at(start)
    if not np.isfinite(value) or not np.isfinite(gradient).all():
        return Optimum(start, value, gradient, Status.NOT_FINITE)
    recession: Vector | None = None  # the last step beyond which the slope did not turn
    for _ in range(ROUNDS):
        # a direction of recession can still be seen where a climb ends by this decrement, or by its evaluations
        climb = evaluator.climb(vector, axes, begin_climb(np.zeros_like(start)), 1000, 1e-16)
        vector, step = vector + along(axes, climb.point), np.asarray(along(axes, climb.direction))
        value, gradient = evaluator.at(vector)
        ended = functools.partial(Optimum, vector, value, gradient)
        length = np.linalg.norm(step)
        if length <= 1e-3 or np.linalg.norm(gradient) <= 1e-12 * abs(value):  # they may be rounding alone
            if recession is not None and not _turns(evaluator, vector, recession):
                return ended(Status.UNBOUNDED, recession)
            return ended(Status.CONVERGED)
        turns, (higher, gain) = _turns(evaluator, vector, step), _highest(evaluator, vector, step)
        if not turns and gain < -NO_GAIN:
            return ended(Status.HIDDEN)
        if not turns and gain <= NO_GAIN:
            return ended(Status.UNBOUNDED, step / length)
        if gain <= 0 or (turns and gradient @ step <= NO_GAIN):
            return ended(Status.CONVERGED)
        vector, recession = higher, None if turns else step / length
        axes = _unit_curvature(evaluator, vector)
    return ended(Status.UNFINISHED)


def _unit_curvature(evaluator: Evaluator, vector: Vector) -> CoordinateAxes:
    """Axes of coordinates of curvature one or less at a point; in high dimensions, or without curvature, unit axes."""
    plain = unit_axes(len(vector))
    if len(vector) > MOST_DENSE_AXES:
        return plain
    matrix = curvature_at(evaluator, vector).dense()
    if not np.isfinite(matrix).all():
        return plain
    curvatures, axes = np.linalg.eigh(matrix)
    return axes / np.sqrt(np.maximum(np.abs(curvatures), 1.0))


def _turns(evaluator: Evaluator, vector: Vector, step: Vector) -> bool:
    """Whether the slope along a step becomes negative at some doubling of it."""
    values, gradients = evaluator.evaluate(vector + np.exp2(np.arange(LINE_DOUBLINGS))[:, None] * step)
    return bool((np.isfinite(values) & (gradients @ step < 0)).any() or np.isneginf(values).any())


def _highest(evaluator: Evaluator, vector: Vector, step: Vector) -> tuple[Vector, float]:
    """The highest point at halvings and doublings of a step, and its gain over this point."""
    points = vector + np.exp2(np.arange(-20, LINE_DOUBLINGS))[:, None] * step
    values = np.nan_to_num(evaluator.evaluate(points)[0], nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    best = int(np.argmax(values))
    return points[best], float(values[best] - evaluator.at(vector)[0])
