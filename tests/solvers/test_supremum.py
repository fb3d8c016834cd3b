"""Climbs of densities that are flat in part, or level off without a maximum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.records import record, static
from bayesgen.solvers import Status, find_supremum


@record
class Stated(LogDensity):
    """A density by its name and numbers."""

    numbers: np.ndarray
    size: int = static()
    kind: str = static(default="")

    @property
    def dimension(self):
        return self.size

    def constrain(self, vector):
        return {"vector": vector}

    def __call__(self, vector):
        return getattr(self, self.kind)(vector)

    def valley(self, vector):
        """Concave in one direction, of none of the others it says anything; curved coordinates lead along it."""
        along = self.numbers @ vector
        return -((along - 3.0) ** 2) + 0.0 * vector.sum()

    def rows(self, vector):
        """Logistic regression on rows whose labels are signs."""
        return -jax.nn.softplus(-self.numbers @ vector).sum()

    def nan(self, vector):
        return jnp.nan * vector.sum()


def climbed(density, start):
    with jax.enable_x64(True):
        return find_supremum(density, np.asarray(start, float))


def test_flat_directions_are_left_as_they_were():
    numbers = np.array([1.0, 2.0, -1.0])
    start = np.array([0.3, -0.2, 5.0])
    found = climbed(Stated(numbers, 3, "valley"), start)
    assert found.status is Status.CONVERGED and found.value == pytest.approx(0.0, abs=1e-12)
    moved = found.vector - start
    np.testing.assert_allclose(moved, numbers * (numbers @ moved) / (numbers @ numbers), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-2, 1.0])
def test_what_levels_off_is_told_from_a_maximum(scale):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3))
    separable = features * np.sign(features @ [1.0, -2.0, 0.5])[:, None] * scale
    found = climbed(Stated(separable, 3, "rows"), np.zeros(3))
    assert found.status is Status.UNBOUNDED
    assert (separable @ found.direction > 0).mean() > 0.9
    overlapping = np.concatenate([separable, -separable[:7]])
    found = climbed(Stated(overlapping, 3, "rows"), np.zeros(3))
    assert found.status is Status.CONVERGED
    with jax.enable_x64(True):
        slope = jax.grad(Stated(overlapping, 3, "rows"))(found.vector)
    assert np.abs(slope).max() < 1e-7 * max(scale, 1)


def test_a_start_that_is_no_point_is_refused():
    density = Stated(np.zeros(2), 2, "nan")
    with pytest.raises(FitError, match="not finite"):
        climbed(density, np.zeros(2)).check(density, "density")
