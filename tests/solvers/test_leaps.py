"""Leaps of ascents: fewer steps where steps contract slowly, never a lower objective, and the same end."""

import dataclasses

import numpy as np
import pytest

from bayesgen.solvers import ascend

DIMENSION = 7


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Points that are vectors; none is one beyond a bound."""

    bound: float = np.inf

    def free_parameters(self, point):
        return point

    def at_free_parameters(self, vector, near):
        return vector if np.abs(vector).max() < self.bound else None


def contracting(rates, bend=0.0):
    """Steps towards 0, along each axis of a rotated frame at a rate of its own; their objective is never lower."""
    frame, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(DIMENSION, DIMENSION)))
    curvature = np.linspace(1.0, 3.0, DIMENSION)

    def step(point):
        along = frame.T @ point
        value = -float(curvature @ along**2)
        return value, frame @ (rates * along / (1.0 + bend * np.abs(along)))

    return step


RATES = np.linspace(0.5, 0.99, DIMENSION)


def test_leaps_reach_the_end_of_slow_steps():
    start = np.ones(DIMENSION)
    plain = ascend(contracting(RATES), start, 1e-13, 5000)
    leaping = ascend(contracting(RATES), start, 1e-13, 5000, Vectors())
    assert plain.converged and leaping.converged
    assert leaping.num_steps < 20 < 500 < plain.num_steps  # linear steps: one more than there are rates
    assert leaping.objective >= plain.objective
    np.testing.assert_allclose(leaping.point, 0.0, atol=1e-5)


@pytest.mark.parametrize("bound", [np.inf, 2.0])
def test_objectives_never_fall_where_steps_are_not_linear(bound):
    start = 1.5 * np.cos(np.arange(DIMENSION))
    found = ascend(contracting(RATES, bend=3.0), start, 1e-13, 5000, Vectors(bound))
    assert found.converged and (np.diff(found.objectives) >= 0).all()
    np.testing.assert_allclose(found.point, 0.0, atol=1e-5)


def test_a_leap_too_far_is_taken_back():
    """Steps that shrink ever more slowly mislead leaps: the objective there is lower, and the step itself is taken."""
    asked = []

    def step(point):
        asked.append(float(point[0]))
        value = -np.abs(point[0] - 1.0) if point[0] <= 1.0 else -1e3
        return float(value), np.minimum(point + 0.3 * (1.1 - point) ** 2, 1.0)

    found = ascend(step, np.array([0.0]), 1e-12, 200, Vectors())
    assert max(asked) > 1.0 >= found.point[0]
    assert found.converged and (np.diff(found.objectives) >= 0).all()
    np.testing.assert_allclose(found.point, 1.0)


def test_steps_without_coordinates_are_taken_one_by_one():
    visited = []

    def step(point):
        visited.append(point)
        return -(point**2), 0.5 * point

    found = ascend(step, 1.0, 1e-6)
    assert visited == [0.5**index for index in range(len(visited))]
    assert found.converged and found.point == visited[-1]


@pytest.mark.parametrize("coordinates", [None, Vectors()], ids=["steps", "leaps"])
@pytest.mark.parametrize("rate", [0.3, 0.9, 0.999])
def test_steps_end_where_no_more_is_left_than_was_asked_for(rate, coordinates):
    """However little the last of slow steps gains."""
    found = ascend(contracting(rate * RATES / RATES.max()), np.ones(DIMENSION), 1e-6, 20_000, coordinates)
    assert found.converged and found.objective >= -1e-6
