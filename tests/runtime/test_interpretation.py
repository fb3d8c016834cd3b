"""Traced functions evaluated by NumPy give what JAX gives, and say what their results depend on."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

from bayesgen.runtime import Traced, needed_equations

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 4, 3))
P = RNG.random((4, 3))
NEAR, FAR = np.array([2, 0, 1, 2]), np.array([3, -1, 0, 9])  # indexes, some from the end or outside of an array

FUNCTIONS = {
    "elementary": lambda a, b, p, i, j: (a + b * p - a / p, -a, abs(b), jnp.exp(a), jnp.log(p), jnp.sqrt(p), p**3),
    "special": lambda a, b, p, i, j: (
        jsp.special.gammaln(p),
        jsp.special.digamma(p),
        jsp.special.erf(a),
        jsp.special.erfc(a),
        jsp.special.erfinv(p),
        jnp.log1p(p),
        jnp.expm1(a),
        jax.nn.sigmoid(a),
        jnp.tanh(a),
        jnp.sin(a) + jnp.cos(a),
        jnp.sinh(a) + jnp.arcsinh(b),
        jsp.special.xlogy(p, p),
    ),
    "comparisons": lambda a, b, p, i, j: (
        a < b,
        a <= b,
        (a > b) & (p >= 0.5) | (i[:, None] == 2) & ~(j[:, None] != 9),
        jnp.where(a > 0, a, b),
        jnp.clip(a, -0.5, p),
        jnp.isfinite(a / 0),
        jnp.sign(a),
        jnp.floor(a),
        jnp.maximum(a, b),
    ),
    "whole numbers": lambda a, b, p, i, j: (j // 2, j % 2, jax.lax.div(j, i + 2), jax.lax.rem(j, i + 2), j * 1.5),
    "shapes": lambda a, b, p, i, j: (
        a.T,
        a[:, None, :] * b[None],
        a.reshape(3, 4),
        jnp.concatenate([a, b], 1),
        a[1:3, ::2],
        a[::-1],
        jnp.pad(a, ((1, 0), (0, 2)), constant_values=p[0, 0]),
        jnp.pad(a, 1)[1:-1],
        jax.lax.pad(a, 0.0, ((0, 0, 1), (-1, 0, 0))),
        jnp.arange(4.0)[:, None] + a,
        jnp.squeeze(a[:1]),
        jnp.split(a, [1, 3]),
        jax.lax.pad(a, 0.5, ((-1, 2, 0), (1, -2, 0))),
    ),
    "sums": lambda a, b, p, i, j: (
        a.sum(),
        a.sum(0),
        a.mean(1),
        a.max(0),
        a.min(),
        a.prod(1),
        (a > 0).any(0),
        (a > 0).all(),
        jnp.argmax(a, 1),
        jnp.argmin(a, 0),
        jnp.cumsum(a, 0),
        jnp.cumprod(a, 1),
        jax.lax.cummax(a, 0, reverse=True),
        jax.lax.cumlogsumexp(a, 1),
        jsp.special.logsumexp(a, axis=0),
        jax.nn.softmax(a),
        jnp.sort(a, 0),
        jnp.bincount(i, length=3),
    ),
    "products": lambda a, b, p, i, j: (
        a @ b.T,
        a[:, 0] @ b,
        jnp.einsum("nd,nd->n", a, b),
        jnp.einsum("nd,ne->nde", a, b),
        jnp.tensordot(a, b, 2),
        jax.vmap(jnp.matmul)(a[:, None], b[..., None]),
    ),
    "indexes": lambda a, b, p, i, j: (
        a[i],
        a[j],
        a[:, i],
        a[i, i[::-1]],
        a[i, 1:],
        a[i[:, None], i],
        jnp.take(a, j, 0),
        jnp.take(i, j),
        jnp.take(i > 0, j),
        a.at[j].get(mode="fill", fill_value=7.0),
        jnp.take_along_axis(a, i[:, None], 1),
        jax.vmap(lambda row, at: row[at])(a, i),
        jax.vmap(lambda at: jax.lax.dynamic_slice(a, (at, 0), (2, 2)))(j),
        a.at[i].add(b),
        a.at[j].add(b),
        a.at[j].add(b, mode="clip"),
        a.at[i, i].add(b[:, 0]),
        a.at[:, i[:2]].add(b[:, :2]),
        jax.vmap(lambda row, at: row.at[at].add(1.0))(a, i),
        jax.nn.one_hot(i, 3),
    ),
    "loops": lambda a, b, p, i, j: (
        jax.lax.scan(lambda c, x: (c + x, c * x), a[0], b),
        jax.lax.fori_loop(0, 3, lambda k, c: c * a, b),
        jax.lax.cond(a[0, 0] > 0, lambda: a, lambda: b),
        jax.lax.switch(i[0], [lambda: a, lambda: b, lambda: a + b]),
        jax.lax.map(lambda x: x[0], a),
    ),
    "triangles": lambda a, b, p, i, j: (
        jax.scipy.linalg.solve_triangular(a.T @ a, a.T, lower=True),
        jax.scipy.linalg.solve_triangular(a.T @ a, a.T, trans=1),
        *(
            jax.lax.linalg.triangular_solve(a.T @ a, a, left_side=False, lower=lower, transpose_a=transpose)
            for lower in (True, False)
            for transpose in (True, False)
        ),
    ),
    "algebra": lambda a, b, p, i, j: (jnp.linalg.cholesky(a.T @ a), jnp.linalg.inv(a.T @ a)),
    "random numbers": lambda a, b, p, i, j: jax.random.normal(jax.random.key(i[0]), (3,)),
    "derivatives": lambda a, b, p, i, j: jax.grad(lambda x: jax.nn.softplus(x @ b.T).sum())(a),
    "constants": lambda a, b, p, i, j: (jnp.asarray(A, a.dtype) + a, jnp.float32(1.5), jnp.asarray(np.arange(3))[i]),
}


@pytest.mark.parametrize("x64", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_jax(name, x64):
    with jax.enable_x64(x64):
        function, arguments = FUNCTIONS[name], [jnp.asarray(value) for value in (A, B, P, NEAR, FAR)]
        expected = jax.tree.map(np.asarray, jax.jit(function)(*arguments))
        found = Traced.of(function, *arguments)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-12 if x64 else 1e-4, atol=1e-12 if x64 else 1e-5)


def test_some_of_the_results_may_be_wanted_and_need_what_they_depend_on_alone():
    with jax.enable_x64(True):
        traced = Traced.of(lambda a, b: {"sum": a + b, "others": (a * 2, jnp.exp(b))}, A, B)
        some = traced.only(lambda results: results["others"][0])
        np.testing.assert_array_equal(some(A, B), 2 * A)
        np.testing.assert_array_equal(jax.jit(some.traceably)(A, B), 2 * A)
    few, every = (needed_equations(function.jaxpr.jaxpr, function.variables) for function in (some, traced))
    assert len(few) < len(every)


def test_results_know_the_arguments_that_they_depend_on():
    with jax.enable_x64(True):
        traced = Traced.of(
            lambda a, b: (a["x"] + a["y"], jnp.where(b > 0, a["x"], 0.0), jnp.zeros(3)), {"x": A, "y": B}, P
        )
    first, second, third = traced.sources({"x": "x", "y": "y"}, "b")
    assert (first, second, third) == ({"x", "y"}, {"x", "b"}, set())


def test_functions_that_are_traced_again_keep_derivatives_of_their_own():
    @jax.custom_jvp
    def halved(x):
        return jax.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)  # has no derivative backwards

    @halved.defjvp
    def _(primals, tangents):
        return halved(*primals), 7 * tangents[0]

    traced = Traced.of(lambda x: 3 * halved(x), 8.0)
    assert traced.inline(8.0) == 3 and jax.grad(traced.inline)(8.0) == 21

    @jax.custom_vjp
    def doubled(x):
        return 2 * x

    doubled.defvjp(lambda x: (2 * x, None), lambda _, slope: (7 * slope,))
    assert jax.grad(Traced.of(doubled, 8.0).inline)(8.0) == 7
