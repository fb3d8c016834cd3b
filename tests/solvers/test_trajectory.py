"""The NUTS kernel by itself: its integrator, its transitions beside NumPyro's, and what they leave unchanged.

Seeds are fixed. Tests of distributions compare independent draws, and allow p-values from P_VALUE on (or as many
standard errors), so that a kernel without fault passes with another seed too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.infer
import pytest
import scipy.stats

from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.solvers.curvature import AffineMap, Whitened
from bayesgen.solvers.sampler import _rewhitened, advance, advance_of, sample_chains
from bayesgen.solvers.trajectory import GRADIENT, MOMENTUM, POSITION, TREE, begin, extend, is_turning

DIMENSION = 3
P_VALUE = 1e-4
STANDARD_ERRORS = 4.0
NUM_DRAWS = 8_000
MOST_STEPS = 64  # of one transition, at the step sizes that are used here
SHEAR = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.7, 0.9]])
RIGHT = jnp.asarray(2**31 - 1, jnp.int32)  # every doubling to the right
LEFT = jnp.zeros((), jnp.int32)


@record
class ShearedDensity(LogDensity):
    """Vectors L z of independent entries of z, normal, or two of them logarithms of gamma variables.

    One class for both, so that each function is compiled once.

    Attributes:
        inverse: of L.
        is_skewed: whether there are logarithms of gamma variables.
    """

    inverse: np.ndarray
    is_skewed: np.ndarray
    shapes = np.array([0.8, 4.0])

    @property
    def dimension(self):
        return DIMENSION

    def __call__(self, vector):
        z = self.inverse @ vector
        skewed = self.shapes @ z[:2] - jnp.exp(z[:2]).sum()
        return jnp.where(self.is_skewed, skewed, -0.5 * (z[:2] ** 2).sum()) - 0.5 * z[2] ** 2

    def constrain(self, vector):
        return {"z": self.inverse @ vector}

    def draws(self, rng, size):
        """Independent draws."""
        if not self.is_skewed:
            return rng.normal(size=(size, DIMENSION)) @ SHEAR.T
        z = np.concatenate([np.log(rng.gamma(self.shapes, size=(size, 2))), rng.normal(size=(size, 1))], axis=1)
        return z @ SHEAR.T

    def ranks(self, vectors):
        """Uniform numbers, independent too, if vectors are of this density."""
        z = vectors @ self.inverse.T
        if not self.is_skewed:
            return scipy.stats.norm.cdf(z)
        return np.column_stack([scipy.stats.gamma(self.shapes).cdf(np.exp(z[:, :2])), scipy.stats.norm.cdf(z[:, 2])])


DENSITIES = {
    name: ShearedDensity(np.linalg.inv(SHEAR), np.asarray(is_skewed))
    for name, is_skewed in (("correlated normal", False), ("skewed", True))
}


# what a normal density obeys, one of heavier tails is the harder trial of
skewed = pytest.mark.parametrize(
    "density", [pytest.param("correlated normal", marks=pytest.mark.slow), "skewed"], indirect=True
)


@pytest.fixture(params=DENSITIES)
def density(request):
    with jax.enable_x64(True):
        yield DENSITIES[request.param]


def potential_of(density):
    return jax.value_and_grad(lambda vector: -density(vector))


@functools.partial(jax.jit, static_argnames="num_steps")
def path(density, position, momentum, step_size, num_steps):
    """Positions, momenta and energies along so many leapfrog steps, each the first of a trajectory of its own."""
    potential = potential_of(density)

    def step(state, _):
        position, momentum, gradient, value = state
        first = begin(position, value, gradient, momentum, RIGHT)
        last, _ = extend(potential, first, step_size, jnp.zeros(2))
        position, momentum, gradient = last.ends[1]
        value = potential(position)[0]
        return (position, momentum, gradient, value), (position, momentum, value + 0.5 * (momentum**2).sum())

    value, gradient = potential(position)
    return jax.lax.scan(step, (position, momentum, gradient, value), None, num_steps)[1]


@jax.jit
def transition(density, position, momentum, directions, log_uniforms, step_size):
    """One draw: the position, and the number of leapfrog steps."""
    potential = potential_of(density)

    def body(state):
        trajectory, _ = state
        trajectory, step = extend(potential, trajectory, step_size, log_uniforms[trajectory.num_steps])
        return trajectory, step.done

    value, gradient = potential(position)
    first = begin(position, value, gradient, momentum, directions)
    last, _ = jax.lax.while_loop(lambda state: ~state[1], body, (first, False))
    return last.proposals[TREE, POSITION], last.num_steps, last.accept_sum / last.num_steps


VECTORISED = jax.jit(jax.vmap(transition, (None, 0, 0, 0, 0, None)))


def transitions(density, positions, step_size, rng):
    """One draw from each of the positions."""
    size = len(positions)
    return VECTORISED(
        density,
        positions,
        rng.normal(size=positions.shape),
        rng.integers(0, 2**31, size, np.int32),
        np.log(rng.random((size, MOST_STEPS, 2))),
        step_size,
    )


def start(density):
    rng = np.random.default_rng(3)
    return density.draws(rng, 1)[0], rng.normal(size=DIMENSION)


def test_leapfrog_steps_are_reversible(density):
    position, momentum = start(density)
    positions, momenta, _ = map(np.asarray, path(density, position, momentum, 0.3, 20))
    back, momenta_back, _ = path(density, positions[-1], -momenta[-1], 0.3, 20)
    assert np.abs(positions[-1] - position).max() > 0.1
    np.testing.assert_allclose(np.asarray(back)[-1], position, atol=1e-12)
    np.testing.assert_allclose(np.asarray(momenta_back)[-1], -momentum, atol=1e-12)


def end(density, state):
    """Where a path ends, of position and momentum."""
    positions, momenta, _ = path(density, *jnp.split(state, 2), 0.3, 20)
    return jnp.concatenate([positions[-1], momenta[-1]])


def test_leapfrog_steps_keep_volume(density):
    position, momentum = start(density)

    jacobian = jax.jit(jax.jacfwd(end, argnums=1))(density, np.concatenate([position, momentum]))
    assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-9)


@jax.jit
def potential(density, position):
    """Minus the log density."""
    return -density(position)


def test_errors_of_energy_are_of_order_two(density):
    position, momentum = start(density)
    energy = potential(density, position) + 0.5 * (momentum**2).sum()
    errors = []
    for num_steps in (64, 128, 256, 512):  # over a time of 4
        energies = np.asarray(path(density, position, momentum, 4 / num_steps, 512)[2])[:num_steps]
        errors.append(np.abs(energies - energy).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.05)


def one_step(density, position, momentum, directions):
    """A trajectory of one leapfrog step."""
    potential = potential_of(density)
    value, gradient = potential(position)
    return extend(potential, begin(position, value, gradient, momentum, directions), 0.3, jnp.zeros(2))[0]


def test_the_two_sides_mirror_each_other(density):
    position, momentum = start(density)
    right, left = (jax.jit(one_step)(density, position, *side) for side in ((momentum, RIGHT), (-momentum, LEFT)))
    np.testing.assert_allclose(left.ends[0, POSITION], right.ends[1, POSITION], atol=1e-14)
    np.testing.assert_allclose(left.ends[0, MOMENTUM], -right.ends[1, MOMENTUM], atol=1e-14)
    np.testing.assert_allclose(left.ends[0, GRADIENT], right.ends[1, GRADIENT], atol=1e-14)
    np.testing.assert_array_equal(left.ends[1, POSITION], position)


@pytest.mark.parametrize("angle", [0.1, 0.4, 0.6, 0.9])
def test_a_stretch_turns_after_half_a_circle(angle):
    """Momenta on a circle, seen from so far along it (in circles) on."""
    angles = 2 * np.pi * np.linspace(0, angle, 101)
    momenta = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert bool(is_turning(*map(jnp.asarray, (momenta[0], momenta[-1], momenta.sum(0))))) == (angle > 0.5)


@pytest.mark.parametrize("between", [-0.9, -1.1])
def test_the_ends_of_a_stretch_count_half(between):
    """Two equal momenta and what lies between them: half of each end is what is left of the sum."""
    end = np.array([1.0, 0.0])
    assert bool(is_turning(*map(jnp.asarray, (end, end, (2 + between) * end)))) == (between < -1)


@jax.jit
def transitions_of_numpyro(density, position, step_size, keys):
    """NumPyro's states after one draw from a position, with each of the keys."""
    kernel = numpyro.infer.NUTS(
        potential_fn=lambda vector: -density(vector),
        step_size=step_size,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    state = kernel.init(keys[0], 0, position, (), {})
    return jax.vmap(lambda key: kernel.sample(state._replace(rng_key=key), (), {}))(keys)


@pytest.mark.parametrize(
    "density", ["correlated normal", pytest.param("skewed", marks=pytest.mark.slow)], indirect=True
)
def test_a_transition_is_distributed_as_one_of_numpyro(density):
    position, step_size = SHEAR.sum(1), 0.4  # neither near the mode nor on an axis
    ours = transitions(density, np.tile(position, (NUM_DRAWS, 1)), step_size, np.random.default_rng(0))
    keys = jax.vmap(jax.random.key)(np.arange(NUM_DRAWS))
    states = transitions_of_numpyro(density, position, step_size, keys)
    theirs = states.z, states.num_steps, states.accept_prob
    for name, one, other in zip(("draw", "steps", "acceptance"), ours, theirs, strict=True):
        one, other = (np.asarray(values, float).reshape(NUM_DRAWS, -1) for values in (one, other))
        for column, (sample, reference) in enumerate(zip(one.T, other.T, strict=True)):
            assert scipy.stats.ks_2samp(sample, reference).pvalue > P_VALUE, (name, column)
    assert len(np.unique(ours[1])) > 2  # trees of several depths, some of them cut short


@skewed
@pytest.mark.parametrize("step_size", [pytest.param(0.15, marks=pytest.mark.slow), 0.4])
def test_transitions_leave_the_density_as_it_is_and_are_reversible(density, step_size):
    rng = np.random.default_rng(1)
    before = density.draws(rng, NUM_DRAWS)
    after = np.asarray(transitions(density, before, step_size, rng)[0])
    assert (np.abs(after - before).max(1) > 0).mean() > 0.5
    for ranks in density.ranks(after).T:
        assert scipy.stats.kstest(ranks, "uniform").pvalue > P_VALUE
    one, other = density.ranks(before), density.ranks(after)
    differences = np.stack(  # of means that are equal where before and after may be exchanged
        [f(one[:, i]) * g(other[:, j]) - f(other[:, i]) * g(one[:, j]) for f, g, i, j in _pairs_of_functions()]
    )
    errors = differences.std(1) / np.sqrt(NUM_DRAWS)
    assert (np.abs(differences.mean(1)) < STANDARD_ERRORS * errors).all()


def _pairs_of_functions():
    centred, extreme = (lambda u: u - 0.5), (lambda u: np.abs(u - 0.5) - 0.25)
    for i in range(DIMENSION):
        for j in range(DIMENSION):
            yield centred, extreme, i, j
            if i < j:
                yield centred, centred, i, j


@skewed
def test_chains_are_of_the_density(density):
    """Means and squares of normal scores, which are 0 and 1 but for a Monte Carlo error of 4,000 draws or more."""
    _, (draws, statistics) = sample_chains(
        density,
        jax.random.key(0),
        num_warmup=300,
        num_samples=1_000,
        num_chains=8,
        target=0.8,
        advanced=lambda amount: None,
    )
    assert not statistics["diverging"].any()
    scores = scipy.stats.norm.ppf(density.ranks(draws.reshape(-1, DIMENSION)))
    bound = STANDARD_ERRORS / np.sqrt(4_000)
    assert np.abs(scores.mean(0)).max() < bound
    assert np.abs((scores**2).mean(0) - 1).max() < np.sqrt(2) * bound
    assert 0.7 < statistics["accept_prob"].mean() < 0.9


@pytest.mark.parametrize("is_dense", [True, False])
def test_draws_are_white_in_the_coordinates_that_they_give(density, is_dense):
    rng = np.random.default_rng(2)
    mixing = rng.normal(size=(DIMENSION, DIMENSION)) if is_dense else np.diag([1e-3, 1.0, 30.0])
    factor = (
        np.array([[2.0, 0, 0], [1.0, 3.0, 0], [0, -1.0, 0.1]])[None]
        if is_dense
        else np.array([[[2.0]], [[3.0]], [[0.1]]])
    )
    before = Whitened(density, AffineMap(np.array([1.0, -2.0, 0.5]), (factor,)))
    draws = rng.normal(size=(4, 500, DIMENSION)) @ mixing.T + 5.0
    after, last = _rewhitened(before, draws)
    for one, other in zip(last, draws[:, -1], strict=True):
        np.testing.assert_allclose(after.whitening(one), before.whitening(other), rtol=1e-9)
    blocks = (map_.whitening.factors[0] for map_ in (before, after))
    old, new = (block[0] if is_dense else np.diag(block[:, 0, 0]) for block in blocks)
    white = np.linalg.solve(new, old @ (draws.reshape(-1, DIMENSION) - draws.mean((0, 1))).T)
    np.testing.assert_allclose(np.cov(white), np.eye(DIMENSION), atol=0.1)


@pytest.mark.parametrize(("rows", "is_light"), [(0, True), (1_000, True), (10_000, False)])
def test_steps_over_many_rows_alone_are_worth_full_optimisation(density, rows, is_light, monkeypatch):
    monkeypatch.setattr(ShearedDensity, "cost", float(rows))
    monkeypatch.setattr(ShearedDensity, "loops_over_rows", rows > 0)
    assert (advance_of(Whitened(density, AffineMap.shift(np.zeros(DIMENSION)))) is advance) is is_light
