"""Finding modes where the density is easy to state and hard to climb."""

import numpy as np
import pytest

from bayesgen.errors import FitError
from bayesgen.fitting.curvature import Surface
from bayesgen.fitting.optimize import search

SIZE = 41


def ridge(rng, condition):
    """A log-concave density with its mode at a known point, as steep along one direction as flat along another."""
    left, right = (np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0] for _ in range(2))
    slopes = left * np.geomspace(1, condition, SIZE) @ right
    mode = rng.normal(size=SIZE)

    def evaluate(points):
        inner = (points - mode) @ slopes.T
        return -np.sqrt(1 + inner**2).sum(1), -(inner / np.sqrt(1 + inner**2)) @ slopes

    return Surface(evaluate, None, 1), mode


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_a_mode_is_found_however_long_the_ridge(condition):
    rng = np.random.default_rng(5)
    surface, mode = ridge(rng, condition)
    optimum = search(surface, [np.zeros(SIZE), rng.normal(size=SIZE)])
    np.testing.assert_allclose(optimum.free, mode, atol=1e-5)
    assert optimum.num_modes == 1
    assert optimum.value == pytest.approx(-SIZE, abs=1e-9)


def test_two_modes_are_counted_and_the_higher_one_is_kept():
    def evaluate(points):
        """A mixture of two normals with variance 1/4 about -2 and 2, the second twice as large."""
        parts = np.stack([-2 * (points + 2) ** 2, np.log(2) - 2 * (points - 2) ** 2]).sum(-1)
        value = np.logaddexp(*parts)
        pulls = np.stack([-4 * (points + 2), -4 * (points - 2)])
        return value, (np.exp(parts - value)[..., None] * pulls).sum(0)

    optimum = search(Surface(evaluate, None, 1), [np.array([-1.0]), np.array([1.5])])
    assert optimum.num_modes == 2
    np.testing.assert_allclose(optimum.free, [2.0], atol=1e-6)


def test_a_density_that_is_finite_nowhere_is_refused():
    def evaluate(points):
        return np.full(len(points), np.nan), np.full(points.shape, np.nan)

    with pytest.raises(FitError, match="not finite at any starting point"):
        search(Surface(evaluate, None, 1), [np.zeros(3)])
