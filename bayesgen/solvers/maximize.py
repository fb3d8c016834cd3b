"""Modes of log densities: L-BFGS-B from several starts, then Newton steps with block-diagonal curvature.

SciPy's trust region methods take a dense Hessian, which 10,000 coordinates do not allow. Newton steps converge along
ridges on which L-BFGS is slow.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import SINGLE_THREADED_BLAS
from bayesgen.typing import Float

from .curvature import Curvature, Evaluator, Points, Vector, curvature_at, evaluator_of

EIGEN_LIMIT = 1200  # dimensions up to which flat directions are searched by eigenvalues
ROUNDS, CLIMB_STEPS, NEWTON_STEPS, HALVINGS = 10, 200, 20, 7  # at most, of one climb
LAST_DECREMENT = 1e-10  # squared Newton decrement of a last step
AGREEMENT = 1e-3  # difference of the values of equal optima
CONVERGED_DECREMENT = 1e-4  # squared Newton decrement at an optimum, at most
FAR_OUT = 12.0  # from the origin of the unconstrained space: a probability of 1e-5
FLAT = 1e-18  # curvature that counts as none: the standard deviation is a billion times the value
PROBES = 4  # directions in which a peak is checked on both sides
NEGLIGIBLE = 14.0  # log ratio of the mass of the main mode to that of a negligible one: a million


@dataclasses.dataclass(frozen=True)
class Optimum:
    """A local maximum.

    Attributes:
        vector: the point.
        value: log density.
        gradient: its gradient.
        converged: whether Newton steps converged, which they do not at a saddle.
        curvature: the curvature, if the point is a peak: no saddle, ridge or plateau.
        num_modes: number of distinct peaks of non-negligible mass that climbs ended in.
    """

    vector: Vector
    value: float
    gradient: Vector
    converged: bool = False
    curvature: Curvature | None = None
    num_modes: int = 1

    @property
    def log_mass(self) -> float:
        """Log of the integral of the Laplace approximation, up to a constant. Only of peaks."""
        assert self.curvature is not None
        return self.value + self.curvature.log_volume

    def is_at(self, vector: Vector, value: float) -> bool:
        """Whether a point is this optimum, by value and place (mirrored modes have equal values)."""
        near = np.abs(vector - self.vector) <= 0.05 * (1.0 + np.abs(self.vector))
        return abs(value - self.value) <= AGREEMENT and bool(near.all())


def search(evaluator: Evaluator, starts: Iterable[Vector], has_symmetries: bool = False) -> Optimum:
    """The peak of the largest Laplace mass, or the highest optimum where none is a peak. Inside float64.

    Args:
        evaluator: of the density.
        starts: starts of climbs.
        has_symmetries: whether peaks of equal mass count as one peak and its mirror images.

    Raises:
        FitError: where the density is finite nowhere.
    """
    optima = climb(evaluator, starts)
    peaks = [peak for peak in (_as_peak(evaluator, optimum) for optimum in optima) if peak is not None]
    if not peaks:
        return optima[0]
    main = max(peaks, key=lambda peak: peak.log_mass)
    masses = np.sort([peak.log_mass for peak in peaks if peak.log_mass > main.log_mass - NEGLIGIBLE])
    if has_symmetries:
        masses = masses[np.diff(masses, prepend=-np.inf) > AGREEMENT]
    return dataclasses.replace(main, num_modes=len(masses))


def climb(evaluator: Evaluator, starts: Iterable[Vector]) -> list[Optimum]:
    """The distinct optima above starting points, the highest first.

    Raises:
        FitError: where the density is finite at none of them.
    """
    optima: list[Optimum] = []
    for start in starts:
        optimum = _climb(evaluator, start, optima)
        if np.isfinite(optimum.value) and not any(other.is_at(optimum.vector, optimum.value) for other in optima):
            optima.append(optimum)
    if not optima:
        raise FitError("The density is not finite at any starting point: check the priors and the data's scale.")
    return sorted(optima, key=lambda optimum: -optimum.value)


def maximize(density: LogDensity, starts: Points, num_starts: int, what: str) -> Optimum:
    """The unique maximum of a density. Inside float64.

    Args:
        density: log density.
        starts: candidates for starts: the first is taken, and of the others those with the highest densities.
        num_starts: number of climbs.
        what: name of the density in messages.

    Raises:
        FitError: where the density is unbounded or its mode not unique; names the site.
    """
    evaluator = evaluator_of(density)
    others = starts[1:]
    if len(others):
        values = np.nan_to_num(evaluator.evaluate(others)[0], nan=-np.inf)
        others = others[np.argsort(-values)[: num_starts - 1]]
    optimum = climb(evaluator, [starts[0], *others])[0]
    _check_unique(density, optimum, curvature_at(evaluator, optimum.vector), what)
    return optimum


def _as_peak(evaluator: Evaluator, optimum: Optimum) -> Optimum | None:
    """An optimum with its curvature, or None where it is a saddle, a ridge or a plateau.

    On a plateau rounding may show as curvature: so one standard deviation away from a peak, in random directions, the
    density must be lower, and finite.
    """
    curvature = curvature_at(evaluator, optimum.vector)
    step = curvature.solve(optimum.gradient)
    if step is None or optimum.gradient @ step > CONVERGED_DECREMENT:
        return None
    deviations = curvature.deviations(np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, len(step))))
    values, _ = evaluator.evaluate(optimum.vector + np.concatenate([deviations, -deviations]))
    falls = np.isfinite(values) & (values < optimum.value)
    return dataclasses.replace(optimum, curvature=curvature) if falls.all() else None


def _climb(evaluator: Evaluator, start: Vector, optima: Sequence[Optimum]) -> Optimum:
    """The optimum above a start; a known one where the climb leads to it."""

    def known_at(vector: Vector, value: float) -> Optimum | None:
        return next((known for known in optima if known.converged and known.is_at(vector, -value)), None)

    def stop_at_known(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        if known_at(intermediate_result.x, intermediate_result.fun) is not None:
            raise StopIteration

    vector, converged = start, False
    for _ in range(ROUNDS):
        result = lbfgs(evaluator.negative, vector, CLIMB_STEPS, ftol=1e-15, gtol=1e-9, callback=stop_at_known)
        if (known := known_at(result.x, result.fun)) is not None:
            return known  # there is no need for its last digits again
        vector, converged = _newton(evaluator, result.x)
        if converged or result.success:
            break
    value, gradient = evaluator.at(vector)
    return Optimum(vector, value, gradient, converged)


def lbfgs(
    negative: Callable[[Vector], tuple[float, Vector]], start: Vector, max_steps: int, **options: Any
) -> scipy.optimize.OptimizeResult:
    """L-BFGS-B on minus a log density, whose gradient comes with its value; options are those of SciPy."""
    callback = options.pop("callback", None)
    options |= {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 30}
    with SINGLE_THREADED_BLAS:  # products are tiny, and threads of BLAS would compete with those of XLA
        return scipy.optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options, callback=callback)


def _newton(evaluator: Evaluator, vector: Vector) -> tuple[Vector, bool]:
    """Newton steps while they help, with one curvature as long as it serves: (vector, whether they converged)."""
    value, gradient = evaluator.negative(vector)
    curvature = None
    for _ in range(NEWTON_STEPS):
        fresh = curvature is None
        curvature = curvature or curvature_at(evaluator, vector)
        step = curvature.solve(gradient)
        if step is None:
            return vector, False  # not a maximum with definite curvature: the caller looks at the Hessian itself
        shortened = _shortened(evaluator, vector, step, value, gradient)
        if shortened is None and fresh:
            return vector, False
        if shortened is None:
            curvature = None
            continue
        steepest, at_last = np.abs(gradient).max(), gradient @ step < LAST_DECREMENT
        vector, value, gradient = shortened
        if at_last:
            return vector, True
        if np.abs(gradient).max() > 0.1 * steepest:
            curvature = None
    return vector, False


def _shortened(
    evaluator: Evaluator, vector: Vector, step: Vector, value: float, gradient: Vector
) -> tuple[Vector, float, Vector] | None:
    """A step halved until it lowers minus the density: (vector, value, gradient) after it, or None."""
    for halvings in range(HALVINGS):
        proposal = vector - step / 2**halvings
        new_value, new_gradient = evaluator.negative(proposal)
        noise = 1e-9 * abs(value)
        smaller = np.abs(new_gradient).max() < np.abs(gradient).max()
        if new_value < value - noise or (new_value <= value + noise and smaller):
            return proposal, new_value, new_gradient
    return None


def _check_unique(density: LogDensity, optimum: Optimum, curvature: Curvature, what: str) -> None:
    """Refuse a point where the density still rises (unbounded) or is flat (no unique mode)."""
    if not _is_converged(optimum, curvature):
        steepest = int(np.argmax(np.abs(optimum.gradient)))
        raise FitError(
            f"The {what} has no maximum that could be reached: it still rises along site "
            f"{density.name_of(steepest)!r}. It may be unbounded there (a variance going to zero, a concentration "
            "below 1), or climbs may have begun too far from it: give a prior that keeps it away from the boundary, "
            "more starts (num_starts=...), or use NUTS()."
        )
    if len(optimum.vector) > EIGEN_LIMIT:
        return
    matrix = curvature.dense()
    if not np.isfinite(matrix).all():
        raise FitError(f"The {what} has no finite curvature at its maximum: check the priors and the data's scale.")
    flat = _flat_coordinate(optimum, matrix)
    if flat is not None:
        raise FitError(
            f"The {what} is flat along site {density.name_of(flat)!r}, so its mode is not unique. Data or "
            "prior must say something about it (is a class without rows?); or use NUTS()."
        )


def _is_converged(optimum: Optimum, curvature: Curvature) -> bool:
    """Whether the remaining Newton decrement is negligible, or without curvature the gradient."""
    step = curvature.solve(optimum.gradient)
    if step is not None and optimum.gradient @ step <= CONVERGED_DECREMENT:
        return True
    return bool(np.abs(optimum.gradient).max() <= 1e-5 * max(1.0, abs(optimum.value)))


def _flat_coordinate(optimum: Optimum, curvature: Float[np.ndarray, "D D"]) -> int | None:
    """A coordinate of a flat direction inside the space; None where the mode is unique.

    Far out in the unconstrained space curvature vanishes where the mode lies on the boundary (a zero count under a flat
    prior), which is allowed. Coordinates are scaled by their own curvature, so that units do not matter.
    """
    diagonal, distance = np.diagonal(curvature), np.abs(optimum.vector)
    flat = (diagonal <= FLAT * (1 + distance) ** -2.0) & (distance < FAR_OUT)
    if flat.any():
        return int(np.argmax(flat))
    # far out, curvature counts only where it exceeds the remaining gradient
    looked_at = np.flatnonzero((distance < FAR_OUT) | (diagonal > 1e-5 * max(1.0, abs(optimum.value))))
    if len(looked_at) == 0:
        return None
    scale = 1 / np.sqrt(diagonal[looked_at])
    values, vectors = np.linalg.eigh(curvature[np.ix_(looked_at, looked_at)] * scale[:, None] * scale)
    return int(looked_at[np.argmax(np.abs(vectors[:, 0]))]) if values[0] < 1e-7 else None
