"""Simplified functions: results and derivatives of all orders are JAX's own, and fewer operations are left."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions.transforms import CorrCholeskyTransform, LowerCholeskyTransform

from bayesgen.runtime import simplified

from .test_interpretation import FAR, FUNCTIONS, NEAR, A, B, P

CODES, ROWS = np.arange(3), np.array([2, 0, 2, 1])
LOOKUPS = {
    "each class": lambda x: jnp.sin(x)[jnp.arange(3)],
    "each class, in FORTRAN's order": lambda x: x.T[:, jnp.arange(3)],
    "by class, twice": lambda x: x[jnp.asarray(ROWS)] ** 2,
    "the diagonals": lambda x: jnp.diagonal((x[:, :, None] * x[:, None, :]), axis1=1, axis2=2),
    "every other cell": lambda x: x[:, jnp.array([0, 2])] + x[:, jnp.array([3, 1])],
    "outside": lambda x: x.at[jnp.array([1, 7])].get(mode="fill", fill_value=0.5),
    "none": lambda x: x[jnp.zeros(0, int)],
    "along an axis": lambda x: jnp.take_along_axis(x, jnp.asarray(ROWS[:3, None]), axis=1),
    "sums": lambda x: jnp.zeros((4, 3)).at[jnp.array([0, 3])].add(x[:2, :3] ** 2),
    "sums at one place": lambda x: jnp.zeros(4).at[jnp.asarray(ROWS)].add(x[0]),
    "sums to values": lambda x: (x**2).at[:, jnp.array([1, 2])].add(x[:, 2:]),
    "sums outside": lambda x: jnp.ones(4).at[jnp.array([1, 9])].add(x[0, :2]),
    "triangles": lambda x: LowerCholeskyTransform()(jnp.concatenate([x, x[:, :2]], 1)),
    "correlations": lambda x: CorrCholeskyTransform()(x.ravel()[:10]),
    "a density": lambda x: dist.MultivariateNormal(x[:, :2], jnp.eye(2)).log_prob(jnp.zeros(2)),
}


def operations(function, x):
    """Names of the operations of a function, those of the functions that it calls in place of the calls."""

    def names(jaxpr):
        for equation in jaxpr.eqns:
            inner = [value for value in equation.params.values() if hasattr(value, "jaxpr")]
            yield from (name for part in inner for name in names(part.jaxpr))
            yield from [] if inner else [equation.primitive.name]

    return list(names(jax.make_jaxpr(function)(x).jaxpr))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("algebra", "loops")])
def test_results_are_those_of_jax(name):
    with jax.enable_x64(True):
        arguments = [jnp.asarray(value) for value in (A, B, P, NEAR, FAR)]
        expected, simple = (
            jax.jit(function)(*arguments) for function in (FUNCTIONS[name], simplified(FUNCTIONS[name]))
        )
    assert jax.tree.structure(simple) == jax.tree.structure(expected)
    for actual, desired in zip(jax.tree.leaves(simple), jax.tree.leaves(expected), strict=True):
        assert actual.dtype == desired.dtype
        np.testing.assert_allclose(actual, desired, rtol=1e-12, atol=1e-12)


ALIKE = (  # those above them in the table, in other orders and in functions of NumPyro
    "by class, twice",
    "each class, in FORTRAN's order",
    "sums to values",
    "correlations",
    "a density",
)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in LOOKUPS])
def test_derivatives_forwards_and_backwards_are_those_of_jax(name):
    function = LOOKUPS[name]

    def slopes(function):
        return jax.jit(jax.vmap(jax.jacfwd(jax.grad(lambda x: (function(x) ** 3).sum()))))

    with jax.enable_x64(True):
        x = np.random.default_rng(0).uniform(0.2, 0.9, (2, 3, 4))
        np.testing.assert_allclose(jax.jit(simplified(function))(x[0]), jax.jit(function)(x[0]), rtol=1e-13)
        np.testing.assert_allclose(slopes(simplified(function))(x), slopes(function)(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "name", ["each class", "the diagonals", "every other cell", "triangles", "sums", "along an axis"]
)
def test_lookups_at_known_positions_are_slices(name):
    if name == "triangles" and jax.__version_info__ >= (0, 12):
        pytest.skip("JAX 0.12 traces NumPyro's scan of a triangle in another way")
    with jax.enable_x64(True):
        found = operations(jax.grad(lambda x: simplified(LOOKUPS[name])(x).sum()), np.ones((3, 4)))
    assert not {"gather", "scatter-add", "while", "scan"} & set(found), found


def test_nothing_is_computed_twice_and_constants_beforehand():
    def function(x):
        twice = [jnp.exp(x) * jnp.log(jnp.full(3, 2.0)).sum() for _ in range(4)]
        return sum(twice) / 4.0

    assert operations(simplified(function), 1.0).count("exp") == 1
    assert "log" not in operations(simplified(function), 1.0)
    assert operations(function, 1.0).count("exp") == 4


def test_derivatives_of_its_own_stay_with_a_function():
    @jax.custom_jvp
    def doubled(x):
        return 2 * x

    doubled.defjvp(lambda primals, tangents: (2 * primals[0], 7 * tangents[0]))
    assert float(jax.jit(jax.grad(simplified(lambda x: doubled(x) + doubled(x))))(1.0)) == 14.0
