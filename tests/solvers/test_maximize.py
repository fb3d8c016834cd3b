"""Finding modes where the density is easy to state and hard to climb."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.errors import FitError
from bayesgen.solvers.maximize import climb, search
from tests.solvers.climbs_by_numpy import evaluator_by_numpy

SIZE = 41


def ridge(rng, condition):
    """A log-concave density with its mode at a known point, as steep along one direction as flat along another."""
    left, right = (np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0] for _ in range(2))
    slopes = left * np.geomspace(1, condition, SIZE) @ right
    mode = rng.normal(size=SIZE)

    def evaluate(points):
        inner = (points - mode) @ slopes.T
        return -np.sqrt(1 + inner**2).sum(1), -(inner / np.sqrt(1 + inner**2)) @ slopes

    return evaluator_by_numpy(evaluate), mode


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_a_mode_is_found_however_long_the_ridge(condition):
    rng = np.random.default_rng(5)
    evaluator, mode = ridge(rng, condition)
    optimum = search(evaluator, [np.zeros(SIZE), rng.normal(size=SIZE)])
    np.testing.assert_allclose(optimum.vector, mode, atol=1e-5)
    assert optimum.num_modes == 1
    assert optimum.value == pytest.approx(-SIZE, abs=1e-9)


def test_two_modes_are_counted_and_the_higher_one_is_kept():
    def evaluate(points):
        """A mixture of two normals with variance 1/4 about -2 and 2, the second twice as large."""
        parts = np.stack([-2 * (points + 2) ** 2, np.log(2) - 2 * (points - 2) ** 2]).sum(-1)
        value = np.logaddexp(*parts)
        pulls = np.stack([-4 * (points + 2), -4 * (points - 2)])
        return value, (np.exp(parts - value)[..., None] * pulls).sum(0)

    optimum = search(evaluator_by_numpy(evaluate), [np.array([-1.0]), np.array([1.5])])
    assert optimum.num_modes == 2
    np.testing.assert_allclose(optimum.vector, [2.0], atol=1e-6)


def test_a_density_that_is_finite_nowhere_is_refused():
    def evaluate(points):
        return np.full(len(points), np.nan), np.full(points.shape, np.nan)

    with pytest.raises(FitError, match="not finite at any starting point: check"):
        search(evaluator_by_numpy(evaluate), [np.zeros(3)])
    told = evaluator_by_numpy(evaluate, why_not_finite=lambda vector: f"'x' is 7 in row 2 at {vector[0]:g}")
    with pytest.raises(FitError, match=r"at any starting point \('x' is 7 in row 2 at 5\): check"):
        search(told, [np.full(3, 5.0), np.zeros(3)])


def test_a_plateau_without_end_is_no_mode():
    """exp(2 s) / 8 lower than at the far end: what is left of a normal distribution with one row, along its scale."""

    def evaluate(points):
        with np.errstate(over="ignore"):
            fall = np.exp(2 * points[:, :1]) / 8
        return -(fall + 0.5 * points[:, 1:] ** 2).sum(1), np.concatenate([-2 * fall, -points[:, 1:]], axis=1)

    optimum = search(evaluator_by_numpy(evaluate), [np.zeros(2), np.array([1.0, -1.0]), np.array([-9.0, 0.5])])
    assert not optimum.converged
    assert optimum.num_modes == 1


def test_a_search_ends_soon_where_every_climb_leads_into_a_funnel():
    """Three effects and the log of their scale: the density rises without end as the scale goes to zero."""
    counts = []

    def evaluate(points):
        counts.append(len(points))
        effects, log_scale = points[:, :3], points[:, 3:]
        with np.errstate(all="ignore"):
            precision = np.exp(-2 * log_scale)
            squares = (effects**2 * precision).sum(1, keepdims=True)
            value = (-0.5 * squares - 3 * log_scale - np.exp(log_scale))[:, 0]
            gradient = np.concatenate([-effects * precision, squares - 3 - np.exp(log_scale)], axis=1)
        return value, gradient

    optimum = search(evaluator_by_numpy(evaluate), np.random.default_rng(0).normal(size=(11, 4)))
    assert not optimum.converged
    assert sum(counts) < 3_000


def test_modes_without_a_share_of_the_probability_are_not_counted():
    """A narrow peak is higher, and a wide one holds the probability; a third one is a billion times less probable."""
    centers, logs, scales = np.array([0.0, 40.0, 90.0]), np.array([0.0, 2.0, -21.0]), np.array([1.0, 1e-3, 1.0])

    def evaluate(points):
        parts = logs - 0.5 * ((points - centers) / scales) ** 2
        value = np.logaddexp.reduce(parts, axis=1)
        return value, (np.exp(parts - value[:, None]) * (centers - points) / scales**2).sum(1, keepdims=True)

    evaluator, starts = evaluator_by_numpy(evaluate), [np.array([start]) for start in (0.3, 40.0005, 90.2)]
    optimum = search(evaluator, starts)
    np.testing.assert_allclose(optimum.vector, [0.0], atol=1e-6)
    assert optimum.num_modes == 2
    np.testing.assert_allclose(climb(evaluator, starts)[0].vector, [40.0], atol=1e-6)


# --- modes that are not unique ------------------------------------------------------------------------------------


def in_units(n):
    """A site in units that are ten thousand times those of another."""
    wide = numpyro.sample("wide", dist.Normal(3.0, 100.0))
    narrow = numpyro.sample("narrow", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(wide, 100.0))
        numpyro.sample("z", dist.Normal(narrow, 1e-3))


def test_the_units_of_a_site_do_not_make_it_flat():
    rng = np.random.default_rng(1)
    X = {"x": rng.normal(0, 100.0, 20), "z": rng.normal(0.5, 1e-3, 20)}
    program = bg.GenerativeProgram(in_units, label=None)
    likely = bg.fit(program, X, method=bg.MLE()).parameters
    assert likely["wide"] == pytest.approx(X["x"].mean(), rel=1e-6)
    assert likely["narrow"] == pytest.approx(X["z"].mean(), rel=1e-9)
    best = bg.fit(program, X, method=bg.MAP()).parameters
    assert best["wide"] == pytest.approx((3.0 + X["x"].sum()) / 21, rel=1e-6)
    assert best["narrow"] == pytest.approx(X["z"].sum() / (20 + 1e-6), rel=1e-9)


def flat(n):
    """The likelihood knows the sum of two sites, and nothing of a third."""
    one, two = (numpyro.sample(name, dist.Normal(0.0, 100.0)) for name in ("one", "two"))
    unused = numpyro.sample("unused", dist.Normal(7.0, 1e4))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(one + two + 0 * unused, 0.1))


def summed(n):
    one, two = (numpyro.sample(name, dist.Normal(0.0, 100.0)) for name in ("one", "two"))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(one + two, 0.1))


def test_flat_directions_are_refused_where_the_prior_is_not_taken():
    X = {"x": np.asarray([0.31, 0.30, 0.29])}
    with pytest.raises(FitError, match="flat along site 'unused'"):
        bg.fit(bg.GenerativeProgram(flat, label=None), X, method=bg.MLE())
    with pytest.raises(FitError, match=r"flat along site '(one|two)'"):
        bg.fit(bg.GenerativeProgram(summed, label=None), X, method=bg.MLE())
    best = bg.fit(bg.GenerativeProgram(flat, label=None), X, method=bg.MAP()).parameters
    assert best["unused"] == pytest.approx(7.0, rel=1e-6)
    assert [best["one"], best["two"]] == pytest.approx([0.15, 0.15], rel=1e-4)


@pytest.mark.parametrize("method", [bg.MAP(), bg.MLE(), bg.NUTS()])
def test_a_program_without_latents_has_nothing_to_learn(method):
    def known(n):
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(1.0 * y, 1.0))

    with pytest.raises(FitError, match="no continuous latent site"):
        bg.fit(bg.GenerativeProgram(known, classes=2), {"x": np.zeros(4)}, [0, 1, 0, 1], method=method)
