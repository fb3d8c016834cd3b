"""Climbs by themselves: known maxima, the same by NumPy, by JAX and in batches, and how searches end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.records import record, static
from bayesgen.solvers import Status, maximize
from bayesgen.solvers.maximize import LAST_DECREMENT, search
from bayesgen.solvers.quasi_newton import advance_climb, begin_climb, climbed, unit_axes
from tests.solvers.climbs_by_numpy import evaluator_by_numpy

WIDE = 10_000


@record
class Dirichlet(LogDensity):
    """Counts of categories with log-linear probabilities, whose mode is in closed form."""

    counts: np.ndarray
    shape: str = static(default="bounded")

    @property
    def dimension(self):
        return len(self.counts)

    def constrain(self, vector):
        return {"probabilities": jax.nn.softmax(vector)}

    def name_of(self, index):
        return f"score {index}"

    def __call__(self, vector):
        scores = vector[:-1] if self.shape == "flat" else vector
        value = self.counts[: len(scores)] @ jax.nn.log_softmax(scores)
        if self.shape == "nowhere":
            return value * jnp.nan
        if self.shape == "unbounded":
            return value + 3.0 * vector.sum()
        return value - 0.5 * scores.sum() ** 2


def by_numpy(evaluate, start):
    climb = begin_climb(np.asarray(start, float))
    for _ in range(1000):
        climb = advance_climb(climb, *evaluate(climb.trial), LAST_DECREMENT)
        if climb.is_over:
            break
    return climb


def test_the_banana_of_rosenbrock_is_climbed_to_its_end():
    def evaluate(point):
        a, b = point
        slope = np.array([2 * (1 - a) + 400 * a * (b - a * a), -200 * (b - a * a)])
        return np.asarray(-((1 - a) ** 2 + 100 * (b - a * a) ** 2)), slope

    climb = by_numpy(evaluate, [-1.2, 1.0])
    assert climb.is_converged
    np.testing.assert_allclose(climb.point, 1.0, atol=1e-9)


def test_a_correlated_normal_of_ten_thousand_dimensions_has_its_mode_at_the_mean():
    rng = np.random.default_rng(0)
    mean, scales = rng.normal(size=WIDE), np.exp(0.3 * rng.normal(size=WIDE))

    def evaluate(points):
        scaled = (points - mean) * scales
        innovations = np.concatenate([scaled[:, :1], scaled[:, 1:] - 0.7 * scaled[:, :-1]], axis=1)
        pulls = innovations - 0.7 * np.concatenate([innovations[:, 1:], np.zeros((len(points), 1))], axis=1)
        return -0.5 * (innovations**2).sum(1), -pulls * scales

    optimum = search(evaluator_by_numpy(evaluate), [np.zeros(WIDE)])
    np.testing.assert_allclose((optimum.vector - mean) * scales, 0.0, atol=1e-7)


def test_climbs_of_several_densities_at_once_are_those_of_each_alone():
    counts = np.random.default_rng(1).gamma(1.0, size=(5, 6)) * 40 + 1

    def modes(counts):
        size = counts.shape[-1]
        climb = climbed(
            Dirichlet(counts), jnp.zeros(size), unit_axes(size), begin_climb(np.zeros(size)), 500, LAST_DECREMENT
        )
        return jax.nn.softmax(climb.point), climb.is_converged

    with jax.enable_x64(True):
        together, converged = jax.jit(jax.vmap(modes))(counts)
        alone = np.stack([jax.jit(modes)(each)[0] for each in counts])
    assert np.asarray(converged).all()
    np.testing.assert_allclose(together, alone, atol=1e-12)
    np.testing.assert_allclose(together, counts / counts.sum(1, keepdims=True), atol=1e-10)


def test_trials_that_are_not_finite_are_refused_and_climbs_that_have_nowhere_to_go_end():
    rng = np.random.default_rng(2)
    centers, scales = rng.normal(size=(5, 4)), np.exp(rng.normal(size=(5, 4)))
    axes = rng.normal(size=(5, 4, 4))
    centers[3] = -20.0

    def evaluate(points):
        with np.errstate(all="ignore"):
            values, gradients = -np.cosh(points).sum(1) + np.log(points.sum(1) + 12), -np.sinh(points)
            return values, gradients + 1 / (points.sum(1, keepdims=True) + 12)

    climb = evaluator_by_numpy(evaluate).climb
    for all_axes in (axes, scales):
        climbs = [
            climb(center, its_axes, begin_climb(np.zeros(4)), 12, LAST_DECREMENT)
            for center, its_axes in zip(centers, all_axes, strict=True)
        ]
        assert climbs[3].is_over and not climbs[3].is_converged
        assert max(climb.value for climb in climbs) > -4 + np.log(12)


def test_a_density_that_is_finite_nowhere_is_refused():
    density = Dirichlet(np.array([3.0, 8.0, 5.0, 2.0]), "nowhere")
    with jax.enable_x64(True), pytest.raises(FitError, match="not finite at any starting point"):
        maximize(density, np.zeros((1, 4)), 1)

    def evaluate(points):
        return np.full(len(points), np.nan), np.full(points.shape, np.nan)

    with pytest.raises(FitError, match="not finite at any starting point"):
        search(evaluator_by_numpy(evaluate), [np.zeros(4), np.ones(4)])


@pytest.mark.parametrize(
    ("shape", "status", "message"),
    [
        ("bounded", Status.CONVERGED, None),
        ("flat", Status.FLAT, r"density is flat along site 'score 3'"),
        ("unbounded", Status.RISING, r"density has no maximum that could be reached"),
    ],
)
def test_a_search_says_how_it_ended(shape, status, message):
    density = Dirichlet(np.array([3.0, 8.0, 5.0, 2.0]), shape)
    with jax.enable_x64(True):
        optimum = maximize(density, np.zeros((1, 4)), 1)
    assert optimum.status is status
    if message is not None:
        with pytest.raises(ValueError, match=message):
            optimum.check(density, "density")
