"""Stages that integrate latents out of a log density, against SciPy, quadrature and units of all sizes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from bayesgen.program import BetaForm, DirichletForm, Elimination, Normals, PowerForm, Tables, WishartForm
from bayesgen.program.tables import PowerTable
from bayesgen.program.wisharts import WishartTable
from bayesgen.runtime import Traced

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(9, 2)) @ np.array([[1.0, 0.3], [0.0, 0.7]]) + [0.5, -1.0]


def normal(x, mean, sd):
    return (-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd) - 0.5 * jnp.log(2 * jnp.pi)).sum()


def gamma(x, shape, rate):
    return (shape * jnp.log(rate) - jax.scipy.special.gammaln(shape) + (shape - 1) * jnp.log(x) - rate * x).sum()


def solved(elimination, log_density):
    """The solution, by NumPy."""
    with jax.enable_x64(True):
        numbers = {name: RNG.normal(size=shape) for name, shape in elimination.shapes.items()}
        solve = functools.partial(elimination.solution, log_density, {})
        return jax.tree.map(np.asarray, Traced.of(solve, numbers)(numbers))


def same(actual, expected, rtol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(
    ("unit", "place"),
    [
        pytest.param(unit, place, marks=[pytest.mark.slow] * (place == 0.0 or unit == 1.0))
        for unit in (1e-6, 1.0, 1e6)
        for place in (0.0, 1e3)
    ],
)
def test_means_and_variances_are_integrated_out_in_any_unit(unit, place):
    x = unit * (DATA[:, 0] + place)

    def log_density(values):
        variance, mean = values["variance"], values["mean"]
        of_prior = gamma(1 / variance, 2.0, 1.5 * unit**2) - 2 * jnp.log(variance)
        sd = jnp.sqrt(variance)
        return of_prior + normal(mean, unit * place, sd / jnp.sqrt(0.4)) + normal(x, mean, sd)

    stages = Normals((("mean", ()),)), Tables((("variance", (), PowerForm(-1)),))
    solution = solved(Elimination(stages), log_density)
    shape = np.eye(9) + np.ones((9, 9)) / 0.4
    expected = scipy.stats.multivariate_t(np.full(9, unit * place), 1.5 / 2 * unit**2 * shape, df=4).logpdf(x)
    same(solution.log_integral, expected)
    same(solution.mean["mean"], (x.sum() + 0.4 * unit * place) / 9.4)
    assert solution.misfit < 1e-12 and solution.shift < 1e-12


FORMS = {
    "gamma": (PowerForm(1), (), scipy.stats.gamma(3.5, scale=1 / 1.7)),
    "inverse gamma": (PowerForm(-1), (), scipy.stats.invgamma(3.5, scale=1.7)),
    "root of a gamma": (PowerForm(2), (), scipy.stats.gengamma(3.5, 2, scale=1.7**-0.5)),
    "root of an inverse gamma": (PowerForm(-2), (), scipy.stats.gengamma(3.5, -2, scale=1.7**0.5)),
    "beta": (BetaForm(), (), scipy.stats.beta(2.5, 0.7)),
}


@pytest.mark.parametrize("name", FORMS)
def test_tables_have_the_numbers_of_scipy(name):
    form, shape, expected = FORMS[name]
    a, b = (2.5 - 1, 0.7 - 1) if name == "beta" else (form.power * 3.5 - 1, 1.7) if form.power else (0, 0)

    def log_density(values):
        x = values["x"]
        return a * jnp.log(x) + (b * jnp.log1p(-x) if name == "beta" else -b * x**form.power)

    solution = solved(Elimination((Tables((("x", shape, form),)),)), log_density)
    assert form.family == name
    (table,) = solution.conditionals[0].tables.values()
    at = expected.ppf(0.3)
    with jax.enable_x64(True):
        same(table.log_prob(at), expected.logpdf(at))
        same(table.quantile(0.3), at)
        same(float(log_density({"x": jnp.asarray(at)})) - solution.log_integral, expected.logpdf(at))
    same(solution.mean["x"], expected.mean())
    same(solution.variance["x"], expected.var(), 1e-6)


def test_probabilities_and_matrices_have_the_numbers_of_scipy():
    alpha, df, scale = np.array([0.4, 2.0, 3.5]), 5.5, np.array([[2.0, 0.5], [0.5, 1.0]])
    stage = Tables((("p", (3,), DirichletForm()), ("S", (2, 2), WishartForm(True, False))))

    def log_density(values):
        precision = jnp.linalg.inv(values["S"])
        log_determinant = -jnp.linalg.slogdet(values["S"])[1]
        of_matrix = 0.5 * (df + 3) * log_determinant - 0.5 * jnp.trace(scale @ precision)
        return ((alpha - 1) * jnp.log(values["p"])).sum() + of_matrix

    solution = solved(Elimination((stage,)), log_density)
    p, S = np.array([0.2, 0.5, 0.3]), np.array([[0.7, 0.1], [0.1, 0.4]])
    expected = scipy.stats.dirichlet(alpha).logpdf(p) + scipy.stats.invwishart(df, scale).logpdf(S)
    with jax.enable_x64(True):
        same(float(log_density({"p": p, "S": S})) - solution.log_integral, expected)
    same(solution.mean["p"], alpha / alpha.sum())
    same(solution.mean["S"], scale / (df - 3))


@pytest.mark.parametrize("is_inverse", [True, False])
def test_entries_of_matrices_have_the_variances_of_scipy(is_inverse):
    scale = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]])
    law = scipy.stats.invwishart(9.5, scale) if is_inverse else scipy.stats.wishart(9.5, np.linalg.inv(scale))
    with jax.enable_x64(True):
        table = WishartTable(jnp.array([9.5, 6.0]), jnp.stack([scale, scale]), WishartForm(is_inverse, False))
        variance, few = np.asarray(table.variance())
    same(variance, law.var())
    same(variance, law.rvs(50_000, random_state=1).var(0), rtol=0.1)
    assert np.isinf(few).all() == is_inverse


def test_variances_are_infinite_where_no_second_moment_exists():
    with jax.enable_x64(True):
        table = PowerTable(jnp.array([0.5, 1.5, 2.5]), jnp.ones(3), -1)
        variance = np.asarray(table.variance())
    same(variance, [np.inf, np.inf, scipy.stats.invgamma(2.5).var()])


def test_improper_densities_have_no_integral():
    stage = Tables((("x", (), PowerForm(1)),))
    solution = solved(Elimination((stage,)), lambda values: -2 * jnp.log(values["x"]) - values["x"])
    assert np.isnan(solution.log_integral) and np.isnan(solution.misfit)
    flat = solved(Elimination((Normals((("m", ()),)),)), lambda values: 0.0 * values["m"])
    assert not np.isfinite(flat.log_integral) or np.isnan(flat.misfit)


def test_a_density_of_another_form_does_not_fit():
    stage = Tables((("x", (), PowerForm(1)),))
    solution = solved(Elimination((stage,)), lambda values: jnp.log(values["x"]) - values["x"] ** 1.5)
    assert not solution.misfit < 1e-6
    curve = solved(Elimination((Normals((("m", ()),)),)), lambda values: -(values["m"] ** 2) - values["m"] ** 4)
    assert not curve.misfit < 1e-6
