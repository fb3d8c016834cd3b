"""Integrals over unbounded coordinates: closed forms, and fine grids."""

import jax
import numpy as np
import pytest
import scipy.special
from jax import numpy as jnp
from jax.scipy import stats

from bayesgen.program.integration import log_integrals
from bayesgen.runtime import Traced

close = np.testing.assert_allclose

CASES = {
    "a prior far from the origin": lambda x: stats.norm.logpdf(x, 170.0, 20.0) + stats.norm.logpdf(165.0, x, 0.3),
    "a heavy tail, in conflict": lambda x: stats.t.logpdf(x, 3.0, 0.0, 0.2) + stats.norm.logpdf(8.0, x, 1.0),
    "a heavier tail": lambda x: stats.cauchy.logpdf(x) + stats.norm.logpdf(30.0, x, 3.0),
    "a large count": lambda x: stats.norm.logpdf(x, 0.0, 3.0) + 1000 * x - jnp.exp(x),
    "no count": lambda x: stats.norm.logpdf(x, 0.0, 3.0) - jnp.exp(x),
    "a binary response": lambda x: stats.norm.logpdf(x, 1.0, 5.0) + jax.nn.log_sigmoid(3 * x),
    "an exact measurement": lambda x: stats.norm.logpdf(x, 0.0, 50.0) + stats.norm.logpdf(37.0, x, 1e-4),
    "an impossible row": lambda x: jnp.where(x < 0, -jnp.inf, -jnp.inf),
}
ENDS = [(100, 200), (-60, 60), (-300, 300), (0, 10), (-40, 10), (-60, 70), (36.99, 37.01), (0, 1)]
SCALES = np.array([1e-3, 1.0, 50.0])  # of three priors, whose cases are evaluated together
OF_SCALES = {
    "a count": lambda x: stats.norm.logpdf(x, 0.5, SCALES) + 7 * x - jnp.exp(x),
    "no count": lambda x: stats.norm.logpdf(x, 0.5, SCALES) - jnp.exp(x),
    "successes": lambda x: stats.norm.logpdf(x, 0.5, SCALES) - 9 * jnp.logaddexp(0, x) + 3 * x,
    "heavy tails": lambda x: stats.t.logpdf(x, 5, 0, SCALES) + stats.norm.logpdf(3, x, 1),
}


def mixture(x, means, scales, weights):
    parts = [jnp.log(w) + stats.norm.logpdf(x, m, s) for m, s, w in zip(means, scales, weights, strict=True)]
    return jax.scipy.special.logsumexp(jnp.stack(parts), axis=0)


SEVERAL = {
    "a square": lambda x: stats.norm.logpdf(x, 0.0, 3.0) + stats.norm.logpdf(4.0, x**2, 0.1),
    "a square, at its vertex": lambda x: stats.norm.logpdf(x, 0.0, 3.0) + stats.norm.logpdf(0.02, x**2, 0.1),
    "a distance": lambda x: stats.norm.logpdf(x, 0.5, 3.0) + stats.norm.logpdf(4.0, jnp.abs(x), 0.1),
    "a latent of two humps": lambda x: (
        mixture(x, [-20.0, 20.0], [1.0, 1.0], [0.5, 0.5]) + stats.norm.logpdf(3.0, x, 5.0)
    ),
    "two humps that touch": lambda x: mixture(x, [0.3, 3.3], [1.0, 1.0], [0.5, 0.5]),
    "two humps of two widths": lambda x: mixture(x, [0.3, 4.3], [1.0, 0.2], [0.8, 0.2]),
    "two humps, far apart": lambda x: mixture(x, [0.3, 30.3], [1.0, 2.0], [0.8, 0.2]),
    "three humps": lambda x: mixture(x, [-10.0, 0.3, 14.0], [1.0, 0.5, 2.0], [0.3, 0.3, 0.4]),
}
CASES |= SEVERAL
NAMES = [*CASES, *np.repeat([*OF_SCALES], len(SCALES))]
ENDS += len(SEVERAL) * [(-60.0, 60.0)]
ENDS += 3 * [(0.49, 0.51), (-9, 14), (-600, 60)] + [(-1, 8), (-30, 30), (-12, 18)]


def of_cases(_, points):
    by_case = jnp.stack([case(points[index, 0]) for index, case in enumerate(CASES.values())])
    of_scales = zip(OF_SCALES.values(), points[len(CASES) :, 0].reshape(-1, len(SCALES)), strict=True)
    return jnp.concatenate([by_case, *(case(x) for case, x in of_scales)])


def test_one_dimension_agrees_with_a_fine_grid():
    with jax.enable_x64(True):
        found = jax.jit(lambda: log_integrals(of_cases, {}, len(NAMES), 1, 0.0))()
    grids = np.stack([np.linspace(*ends, 80_001) for ends in ENDS], axis=1)
    with jax.enable_x64(True):
        logs = Traced.of(jax.vmap(lambda points: of_cases({}, points)), grids[..., None])(grids[..., None])
    peaks = np.where(np.isfinite(logs.max(0)), logs.max(0), 0.0)
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(logs - peaks).sum(0) * (grids[1] - grids[0])) + peaks
    is_heavy = np.array(["heavier" in name for name in NAMES])
    is_hump = np.array(["humps" in name for name in NAMES])
    close(found[~is_heavy & ~is_hump], expected[~is_heavy & ~is_hump], atol=1e-8)
    close(found[is_hump], expected[is_hump], atol=1e-6)
    close(found[is_heavy], expected[is_heavy], atol=1e-6)


def test_more_modes_than_are_looked_for_are_no_number():
    def of_sine(_, points):
        return stats.norm.logpdf(points[:, 0], 0.0, 10.0) + stats.norm.logpdf(0.5, jnp.sin(points[:, 0]), 0.1)

    with jax.enable_x64(True):
        assert np.isnan(jax.jit(lambda: log_integrals(of_sine, {}, 1, 1, 0.0))()).all()


def test_points_in_more_dimensions_are_unbiased_and_independent_at_other_shifts():
    factor = np.random.default_rng(0).normal(size=(3, 3))
    precision, mean = factor @ factor.T + 0.2 * np.eye(3), np.array([3.0, -2.0, 40.0])

    def normal(_, points):
        return -0.5 * jnp.einsum("...i,ij,...j", points - mean, precision, points - mean)

    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(lambda shift: log_integrals(normal, {}, 1, 3, shift)[0]))(
            np.random.default_rng(1).normal(size=64)
        )
    ratios = np.exp(np.asarray(found) - 1.5 * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(precision)[1])
    assert 1e-4 < ratios.std() < 0.02
    close(ratios.mean(), 1.0, atol=4 * ratios.std() / 8)
    assert abs(np.corrcoef(ratios[1:], ratios[:-1])[0, 1]) < 0.5


# log densities of two coordinates, and how well their integrals are known at any shift of the lattice
IN_TWO = {
    "normal": (lambda a, u: stats.norm.logpdf(a) + stats.norm.logpdf(u) + stats.norm.logpdf(3.0, a + 2 * u, 0.5), 0.01),
    "logs of half-normal": (
        lambda a, u: (
            stats.norm.logpdf(jnp.exp(a))
            + a
            + stats.norm.logpdf(jnp.exp(u))
            + u
            + stats.norm.logpdf(1.0, jnp.exp(a) - jnp.exp(u), 0.5)
        ),
        0.02,
    ),
    "log of an exponential, logit of a uniform": (
        lambda a, u: (
            a
            - jnp.exp(a)
            - jnp.logaddexp(0, u)
            - jnp.logaddexp(0, -u)
            + stats.norm.logpdf(2.0, jnp.exp(a) + 3 / (1 + jnp.exp(-u)), 0.5)
        ),
        0.02,
    ),
    "heavy tails": (
        lambda a, u: stats.t.logpdf(a, 3) + stats.t.logpdf(u, 3) + stats.norm.logpdf(8.0, a + u, 0.5),
        0.02,
    ),
    "product": (lambda a, u: stats.norm.logpdf(a) + stats.norm.logpdf(u) + stats.norm.logpdf(2.0, a * u, 0.5), 0.06),
}


@pytest.mark.parametrize(
    "names", [("heavy tails",), pytest.param(tuple(IN_TWO), marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_integrals_over_two_coordinates_are_as_near_as_is_said(names):
    log_densities, most_errors = zip(*(IN_TWO[name] for name in names), strict=True)

    def of_all(_, points):
        return jnp.stack([log_density(*points[index]) for index, log_density in enumerate(log_densities)])

    line = np.linspace(-30, 30, 1201)
    with jax.enable_x64(True):
        on_grids = [np.asarray(jax.jit(log_density)(line[:, None], line)) for log_density in log_densities]
        integrals = jax.jit(jax.vmap(lambda shift: log_integrals(of_all, {}, len(names), 2, shift)))
        found = np.asarray(integrals(np.linspace(0.0, 1.0, 40)))
    expected = [scipy.special.logsumexp(on_grid) for on_grid in on_grids] + 2 * np.log(line[1] - line[0])
    errors = np.abs(np.exp(found - expected) - 1).max(0)
    assert (errors < most_errors).all(), dict(zip(names, errors, strict=True))


def test_the_integral_of_a_density_that_is_zero_at_all_points_is_zero():
    with jax.enable_x64(True):
        assert (
            np.asarray(jax.jit(lambda: log_integrals(lambda _, x: jnp.log(0.0 * x[:, 0]), {}, 1, 2, 0.0))()) == -np.inf
        )
