"""Steps that never lower an objective, such as those of EM, repeated until there is no more to gain."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from bayesgen.typing import Float

Point = TypeVar("Point")
MOST_STEPS = 1000
MEMORY = 10  # of steps that a leap looks back on
INDEPENDENT = 1e-10  # of the largest singular value: changes of steps that tell less than that of another are noise


class Coordinates(abc.ABC, Generic[Point]):
    """Points as vectors, for leaps."""

    @abc.abstractmethod
    def vector_of(self, point: Point) -> Float[np.ndarray, " F"]:
        """The vector of a point."""

    @abc.abstractmethod
    def point_at(self, vector: Float[np.ndarray, " F"], near: Point) -> Point | None:
        """The point of a vector, with all that vectors do not tell taken from another point; None where it is none."""


@dataclass(frozen=True)
class Ascent(Generic[Point]):
    """Where steps have led.

    Attributes:
        point: the last point whose objective is known.
        objectives: those of the start and of every point after it, the last one that of `point`.
        converged: whether no more seems to be left to gain than was asked for.
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
    step: Callable[[Point], tuple[float, Point]],
    start: Point,
    least_gain: float,
    most_steps: int = MOST_STEPS,
    coordinates: Coordinates[Point] | None = None,
) -> Ascent[Point]:
    """Follow steps from a start until all that are left seem to gain no more than `least_gain`.

    Near a maximum the gains of steps fall by a constant rate r, so that a step that gains g and all after it gain
    g / (1 - r) together (Aitken's acceleration). A small gain alone tells nothing: where EM is slow, thousands of them
    may follow.

    Args:
        step: point -> (the objective there, the point after it, where the objective is not lower). One pass over the
            data gives both, so the objective of a point is known when the next one is.
        start: where to begin.
        least_gain: gain by a step and all after it, at or below which there is no other step; by two successive ones,
            where there are leaps.
        most_steps: steps to take at most.
        coordinates: in which to leap to where the last steps seem to lead. Where the objective turns out to be lower
            there, the step is taken that the leap stood in for: objectives never fall.

    Source: Boehning, Dietz, Schaub, Schlattmann and Lindsay (1994), The distribution of the likelihood ratio for
    mixtures of densities from the one-parameter exponential family, section 4.
    """
    leaps = None if coordinates is None else _Leaps(coordinates)
    point, last, num_small = start, start, 0
    objectives: list[float] = []
    instead: Point | None = None  # where the step leads that a leap stands in for
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
    """What the last step and all after it gain, if every gain is to the one before as the last to the last but one."""
    before, last = ([math.inf] * 2 + np.diff(objectives).tolist())[-2:]
    if math.isinf(before) or last <= 0:
        return last
    return math.inf if last >= before else last / (1 - last / before)


@dataclass
class _Leaps(Generic[Point]):
    """Anderson's mixing of the last steps: the combination of them that would have moved least, were steps linear.

    Near a maximum EM is a linear map that contracts slowly along directions of which the data tell little; a leap does
    there what many steps would (`missing` in benchmarks).

    Source: Anderson (1965); Walker and Ni (2011), Anderson acceleration for fixed-point iterations, section 2;
    Henderson and Varadhan (2019), Damped Anderson acceleration with restarts and monotonicity control for EM.
    """

    coordinates: Coordinates[Point]
    starts: list[Float[np.ndarray, " F"]] = field(default_factory=list)
    ends: list[Float[np.ndarray, " F"]] = field(default_factory=list)

    def after(self, point: Point, following: Point) -> Point | None:
        """Where the steps seem to lead, this one among them; None where that cannot be told."""
        vectors = self.coordinates.vector_of(point), self.coordinates.vector_of(following)
        for kept, vector in zip((self.starts, self.ends), vectors, strict=True):
            kept.append(vector)
            del kept[: -MEMORY - 1]
        if len(self.ends) < 2:
            return None
        ends = np.stack(self.ends, -1)
        moves = ends - np.stack(self.starts, -1)
        weights = np.linalg.lstsq(np.diff(moves), moves[:, -1], rcond=INDEPENDENT)[0]
        return self.coordinates.point_at(ends[:, -1] - np.diff(ends) @ weights, following)

    def forget(self) -> None:
        """Look back no further than this."""
        self.starts.clear()
        self.ends.clear()
