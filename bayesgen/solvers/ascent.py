"""Steps that never lower an objective, such as those of EM, repeated until they raise it no more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Point = TypeVar("Point")
MOST_STEPS = 1000


@dataclass(frozen=True)
class Ascent(Generic[Point]):
    """Where steps have led.

    Attributes:
        point: the last point whose objective is known.
        objectives: those of the start and of every point after it, the last one that of `point`.
        converged: whether the last step gained no more than was asked for.
    """

    point: Point
    objectives: tuple[float, ...]
    converged: bool

    @property
    def objective(self) -> float:
        """The objective at the point."""
        return self.objectives[-1]

    @property
    def num_steps(self) -> int:
        """How many steps were taken from the start."""
        return len(self.objectives) - 1


def ascend(
    step: Callable[[Point], tuple[float, Point]], start: Point, least_gain: float, most_steps: int = MOST_STEPS
) -> Ascent[Point]:
    """Follow steps from a start until one gains no more than `least_gain`.

    Args:
        step: point -> (the objective there, the point after it, where the objective is not lower). One pass over the
            data gives both, so the objective of a point is known when the next one is.
        start: where to begin.
        least_gain: gain of the objective by a step, at or below which there is no other.
        most_steps: steps to take at most.
    """
    point, objectives = start, []
    for _ in range(most_steps + 1):
        objective, following = step(point)
        objectives.append(objective)
        if len(objectives) > 1 and objective - objectives[-2] <= least_gain:
            return Ascent(point, tuple(objectives), True)
        last, point = point, following
    return Ascent(last, tuple(objectives), False)
