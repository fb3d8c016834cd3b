"""Monotone fixed-point iterations such as EM, with Anderson acceleration."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from bayesgen.typing import Float

Iterate = TypeVar("Iterate")


@runtime_checkable
class FreeCoordinates(Protocol[Iterate]):
    """What takes points for vectors, for leaps."""

    def free_parameters(self, point: Iterate, /) -> Float[np.ndarray, " F"]:
        """The free parameters of a point."""

    def at_free_parameters(self, vector: Float[np.ndarray, " F"], near: Iterate, /) -> Iterate | None:
        """The point with these, other values taken from the point `near`; None where no point has them."""


@dataclass(frozen=True)
class Ascent(Generic[Iterate]):
    """The result of an iteration.

    Attributes:
        point: the last point whose objective is known.
        objectives: of the start and of every point after it; the last one is that of `point`.
        converged: whether the gain of further steps is estimated to be at most `least_gain`.
    """

    point: Iterate
    objectives: tuple[float, ...]
    converged: bool

    @property
    def objective(self) -> float:
        """The objective at the point."""
        return self.objectives[-1]

    @property
    def num_steps(self) -> int:
        """Number of steps from the start."""
        return len(self.objectives) - 1


def ascend(
    step: Callable[[Iterate], tuple[float, Iterate]],
    start: Iterate,
    least_gain: float,
    most_steps: int = 1000,
    coordinates: FreeCoordinates[Iterate] | None = None,
) -> Ascent[Iterate]:
    """Iterate steps until all further ones together are estimated to gain at most `least_gain`.

    Near a maximum the gains of steps fall by a constant rate r, so that a step that gains g and all after it gain
    g / (1 - r) together (Aitken's acceleration). A small gain of one step is no criterion: where EM is slow, thousands
    may follow.

    Args:
        step: point -> (its objective, the next point, whose objective is not lower). One pass over the data gives both.
        start: the first point.
        least_gain: estimated further gain at or below which the iteration ends; twice in succession with leaps.
        most_steps: largest number of steps.
        coordinates: of Anderson acceleration; None without it. A leap that lowers the objective is replaced by the
            plain step, so that objectives never fall.

    Source: Boehning, Dietz, Schaub, Schlattmann and Lindsay (1994), The distribution of the likelihood ratio for
    mixtures of densities from the one-parameter exponential family, section 4.
    """
    leaps = None if coordinates is None else _Leaps(coordinates)
    point, last, num_small = start, start, 0
    objectives: list[float] = []
    instead: Iterate | None = None  # the plain step, where a leap is tried
    for _ in range(most_steps + 1):
        objective, following = step(point)
        if instead is not None and not objective >= objectives[-1]:
            assert leaps is not None
            leaps.forget()
            point, instead = instead, None
            continue
        objectives.append(objective)
        num_small = num_small + 1 if _gain_left(objectives[-3:]) <= least_gain else 0
        if num_small > (leaps is not None):
            return Ascent(point, tuple(objectives), True)
        last = point
        leap = None if leaps is None else leaps.after(point, following)
        point, instead = (following, None) if leap is None else (leap, following)
    return Ascent(last, tuple(objectives), False)


def _gain_left(objectives: list[float]) -> float:
    """Estimated gain of the last step and all after it, if gains fall at the rate of the last two."""
    before, last = ([math.inf] * 2 + np.diff(objectives).tolist())[-2:]
    if math.isinf(before) or last <= 0:
        return last
    return math.inf if last >= before else last / (1 - last / before)


@dataclass
class _Leaps(Generic[Iterate]):
    """Anderson acceleration: the combination of the last steps with the smallest change, if steps were linear.

    Near a maximum EM is a linear map that contracts slowly along directions with much missing information; there a leap
    replaces many steps (`missing` in benchmarks).

    Source: Anderson (1965); Walker and Ni (2011), Anderson acceleration for fixed-point iterations, section 2;
    Henderson and Varadhan (2019), Damped Anderson acceleration with restarts and monotonicity control for EM.
    """

    coordinates: FreeCoordinates[Iterate]
    starts: list[Float[np.ndarray, " F"]] = field(default_factory=list)
    ends: list[Float[np.ndarray, " F"]] = field(default_factory=list)

    def after(self, point: Iterate, following: Iterate) -> Iterate | None:
        """The extrapolation from the last steps, this one included; None with too few of them."""
        vectors = map(self.coordinates.free_parameters, (point, following))
        for memory, vector in zip((self.starts, self.ends), vectors, strict=True):
            memory.append(vector)
            del memory[:-11]  # a leap combines the last ten steps
        if len(self.ends) < 2:
            return None
        ends = np.stack(self.ends, -1)
        moves = ends - np.stack(self.starts, -1)
        weights = np.linalg.lstsq(np.diff(moves), moves[:, -1], rcond=1e-10)[0]  # smaller singular values are noise
        return self.coordinates.at_free_parameters(ends[:, -1] - np.diff(ends) @ weights, following)

    def forget(self) -> None:
        """Forget all steps so far."""
        self.starts.clear()
        self.ends.clear()
