"""Normal sites whose means are sums of products of latents and covariates: compressed, with the density of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

import bayesgen as bg
from bayesgen.program import CrossProductsTerm, LogPriorKind, ProgramDensity, StatisticsTerm, likelihood_terms
from bayesgen.runtime import Traced

sample, normal = numpyro.sample, dist.Normal
N, GROUPS = 300, 4
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + RANDOM.normal(size=N)
GROUP = RANDOM.integers(0, GROUPS, N)
SOME = np.where(np.arange(N) % 7 == 0, np.nan, Y)  # whose first row is missing, too


def in_rows(n, site, mean, scale, **options):
    with numpyro.plate("rows", n):
        return sample(site, normal(mean, scale), **options)


def linear(n, *, X):
    intercept, scale = sample("intercept", normal(0, 3)), sample("scale", dist.HalfNormal(1))
    slopes = sample("slopes", normal(0, 1).expand([3]).to_event(1))
    in_rows(n, "y", intercept + X @ slopes, scale)


def grouped(n, *, X, group):
    """Intercepts and slopes by group, with correlations, not centred."""
    scales = sample("scales", dist.HalfNormal(1).expand([2]).to_event(1))
    cholesky = sample("cholesky", dist.LKJCholesky(2, 2.0))
    raw = sample("raw", normal(0, 1).expand([GROUPS, 2]).to_event(2))
    effects = raw @ (scales[:, None] * cholesky).T
    in_rows(n, "y", effects[group, 0] + effects[group, 1] * X[:, 0], jnp.exp(scales[0]))


def products(n, *, X):
    """Products of latents, a quotient, a choice, and a term that no draw of the prior shows."""
    a, b = sample("a", normal(0, 1)), sample("b", normal(0, 1))
    x = X[:, 0]
    mean = (a + b * x) * (1 + a * jnp.sin(x)) + jnp.where(x > 0, x / (1 + b**2), a) - jax.nn.relu(a - 50) * x**3
    with handlers.scale(scale=0.4):
        in_rows(n, "y", mean, jnp.exp(a))


def columns(n, *, X):
    """Two columns, with a scale each."""
    slopes = sample("slopes", normal(0, 1).expand([3, 2]).to_event(2))
    scales = sample("scales", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("rows", n, dim=-2):
        sample("y", normal(X @ slopes, scales))


def classes(n, *, X):
    """Classes with lines of their own, beside a site with no statistic and one that depends on another."""
    slopes = sample("slopes", normal(0, 1).expand([2, 3]).to_event(2))
    with numpyro.plate("rows", n):
        k = sample("k", dist.Bernoulli(0.4))
        y = sample("y", normal((slopes[k] * X).sum(-1), 0.8))
        sample("z", normal(slopes[0, 0] * y, 1.0))
        sample("t", dist.StudentT(4.0, slopes[0, 0] * y, 1.0))


def decaying(n, *, X):
    """A mean of low numerical rank that is no sum of products."""
    a, b = sample("a", normal(0, 1)), sample("b", dist.HalfNormal(1e-9))
    in_rows(n, "y", a * jnp.exp(-b * X[:, 0]), 1.0)


def switching(n, *, X):
    a, b = sample("a", normal(0, 1)), sample("b", normal(0, 1))
    in_rows(n, "y", jnp.where(a > 100, X[:, 0], b * X[:, 1]), 1.0)


def spreading(n, *, X):
    a = sample("a", normal(0, 1))
    in_rows(n, "y", a * X[:, 0], jnp.exp(X[:, 1]))


def heavy(n, *, X):
    a = sample("a", normal(0, 1))
    with numpyro.plate("rows", n):
        sample("y", dist.StudentT(3.0, a * X[:, 0], 1.0))


def offset(n, *, X, known, extra):
    """A term that no latent multiplies, in units far below those of the others."""
    slopes, shift = sample("slopes", normal(0, 1).expand([10]).to_event(1)), sample("shift", normal(0, 1))
    scale = sample("scale", dist.HalfNormal(1))
    in_rows(n, "y", known + shift * extra + X @ slopes / scale, 0.5)


MANY = RANDOM.normal(size=(N, 10))


def with_offset(units):
    """Columns in these units, of which half may be in units of their own, and what is known beside them."""
    return {"X": MANY * units, "known": 3 * X[:, 1], "extra": X[:, 0], "y": Y}


def repeated(first, size):
    """Columns of which the last is constant, or the same as the first one."""
    return np.column_stack([X[:, :2], np.ones(N) if size else first])


FAR = np.where(np.arange(N)[:, None] == N - 1, 1e6 * X, X)
# program, rows, weights, sites and how many rows stand for them
CASES = {
    "linear": (linear, {"X": X, "y": Y}, None, {"y": 4}),
    "far from zero": (linear, {"X": X, "y": Y + 1e6}, None, {"y": 4}),
    "weighted": (linear, {"X": X, "y": Y}, RANDOM.integers(0, 3, N) + 2.5 * (np.arange(N) < 270), {"y": 4}),
    "a constant column": (linear, {"X": repeated(X[:, 0], 1), "y": Y}, None, {"y": 3}),
    "the same column twice": (linear, {"X": repeated(X[:, 0], 0), "y": Y}, None, {"y": 3}),
    "units far apart": (linear, {"X": X * [1e12, 1.0, 1e-2], "y": Y}, None, {"y": 4}),
    "one row far away": (linear, {"X": FAR, "y": Y}, None, {"y": 4}),
    "an offset in small units": (offset, with_offset(1e6), None, {"y": 12}),
    "terms lost in the units of others": (offset, with_offset(np.repeat([1e16, 1.0], 5)), None, {}),
    "missing cells": (linear, {"X": X, "y": SOME}, None, {"y": 4}),
    "grouped": (grouped, {"X": X, "group": GROUP, "y": Y}, None, {"y": 2 * GROUPS}),
    "sorted groups": (grouped, {"X": X, "group": np.sort(GROUP), "y": Y}, None, {"y": 2 * GROUPS}),
    "products": (products, {"X": X, "y": Y}, None, {"y": 6}),
    "columns": (columns, {"X": X, "y": np.column_stack([Y, SOME])}, None, {"y": 3}),
    "classes": (classes, {"X": X, "y": Y, "z": Y + 1, "t": Y}, None, {"y": 6, "z": 1}),
    "decaying": (decaying, {"X": X, "y": Y}, None, {}),
    "switching": (switching, {"X": X, "y": Y}, None, {}),
    "spreading": (spreading, {"X": X, "y": Y}, None, {}),
    "heavy": (heavy, {"X": X, "y": Y}, None, {}),
    "few rows": (linear, {"X": X[:3], "y": Y[:3]}, None, {}),
    "few that count": (linear, {"X": X, "y": Y}, 1.0 * (np.arange(N) == 7), {}),
}
MADE = {}


def densities(name):
    """The density of all rows, and that of few, with the terms of the latter."""
    function, rows, weights, _ = CASES[name]
    if function not in MADE:
        own = {"label": "k", "classes": 2} if function is classes else {"label": None}
        MADE[function] = bg.GenerativeProgram(function, **own)
    labels = (X[:, 2] > 0.3).astype(int) if function is classes else None
    data = bg.summarize(MADE[function], rows, labels, sample_weight=weights)
    program = data.model.bind(data.schema)
    terms = likelihood_terms(program, data.statistics)
    of_rows = (StatisticsTerm(data.statistics.padded()),)
    return [ProgramDensity(program, each, LogPriorKind.SITES) for each in (of_rows, terms)], terms


ALIKE = ("far from zero", "the same column twice", "one row far away", "sorted groups", "products", "columns")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in CASES])
def test_the_log_density_and_its_gradient_are_those_of_all_rows(name):
    function, rows, _, expected = CASES[name]
    with jax.enable_x64(True):
        (of_rows, of_few), terms = densities(name)
        assert {t.site: t.rows.num_rows for t in terms if isinstance(t, CrossProductsTerm)} == expected
        if not expected:
            return
        rng, found = np.random.default_rng(2), []
        points = rng.normal(size=(3, of_rows.dimension))
        if function is offset:  # where terms of all units are of one size
            points[:, :10] /= np.abs(rows["X"]).mean(0)
        for density in (of_rows, of_few):
            traced = Traced.of(jax.value_and_grad(lambda vector, density=density: density(vector)), points[0])
            found.append([traced(point) for point in points])
    for (value, slopes), (whole, whole_slopes) in zip(*found[::-1], strict=True):
        np.testing.assert_allclose(value, whole, rtol=1e-9)
        np.testing.assert_allclose(slopes, whole_slopes, rtol=1e-9, atol=1e-9 * np.abs(whole_slopes).max())


def known(n, *, X):
    slopes = sample("slopes", normal(0, 1).expand([3]).to_event(1))
    in_rows(n, "y", X @ slopes, 0.7)


@pytest.mark.parametrize("size", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_many_rows_have_the_mode_and_the_posterior_of_the_closed_form(size):
    rng = np.random.default_rng(3)
    rows = {"X": rng.normal(size=(size, 3))}
    rows["y"] = rows["X"] @ [0.3, -1.0, 2.0] + 0.7 * rng.normal(size=size)
    program = bg.GenerativeProgram(known, label=None)
    covariance = np.linalg.inv(np.eye(3) + rows["X"].T @ rows["X"] / 0.7**2)
    mean = covariance @ (rows["X"].T @ rows["y"]) / 0.7**2
    at_mode = bg.fit(program, rows, method=bg.MAP())
    np.testing.assert_allclose(at_mode.parameters["slopes"], mean, rtol=1e-8)
    drawn = bg.fit(program, rows, method=bg.NUTS(num_chains=2, num_samples=500), progress=False)
    assert at_mode.attributes["cross_products"] == drawn.attributes["cross_products"] == ("y",)
    draws = drawn.posterior.latents["slopes"].reshape(-1, 3)
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(draws.std(0), np.sqrt(np.diag(covariance)), rtol=0.15)
