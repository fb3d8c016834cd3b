"""Exact posteriors of programs with several latents or sites: evidences by SciPy, and predictives as their ratios."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats as stats

import bayesgen as bg

RNG = np.random.default_rng(39)
ROWS, NEW = 14, 2  # and those of them that are predicted; those before them are learned
GROUPS = np.r_[0, 0, 1, 2, RNG.integers(0, 3, ROWS - 4)]
TIMES = np.r_[0.0, 1.0, RNG.normal(size=ROWS - 2).round(2)]
REALS = (0.4 * TIMES + 0.8 * GROUPS + RNG.normal(size=ROWS)).round(2)
OTHERS = RNG.normal(1.0, 1.5, ROWS).round(2)
POSITIVE = RNG.gamma(2.0, 0.7, ROWS).round(3)
COUNTS, ONES = RNG.poisson(1.5, ROWS), RNG.integers(0, 2, ROWS)
VECTORS = RNG.normal(size=(ROWS, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]]) + np.array([0.5, -1.0])
FEATURES = np.column_stack([np.ones(ROWS), TIMES, RNG.normal(size=ROWS)])
PATHS = RNG.integers(0, 3, (ROWS, 5))
LOC3, COVARIANCE3 = np.array([0.5, -1.0, 0.2]), np.array([[1.5, 0.3, 0.2], [0.3, 0.8, -0.1], [0.2, -0.1, 1.1]])
COVARIANCE = COVARIANCE3[:2, :2]


class Case(NamedTuple):
    """A program, rows, and a function of rows: the log evidence, and posterior means of some latents."""

    function: Callable[..., None]
    rows: dict[str, np.ndarray]
    answer: Callable[[dict[str, np.ndarray]], tuple[float, dict[str, Any]]]

    @property
    def program(self) -> bg.GenerativeProgram:
        return bg.GenerativeProgram(self.function, label=None)

    def part(self, index: Any) -> dict[str, np.ndarray]:
        return {name: values[index] for name, values in self.rows.items()}


def normal_answer(design, values, noise, mean, covariance):
    """Log evidence and posterior mean of coefficients, which are jointly normal with the values."""
    noise = noise * np.eye(len(values)) if np.ndim(noise) == 0 else noise
    total = design @ covariance @ design.T + noise
    evidence = stats.multivariate_normal(design @ mean, total).logpdf(values)
    return evidence, mean + covariance @ design.T @ np.linalg.solve(total, values - design @ mean)


def student_answer(design, values, mean, covariance, shape, scale):
    """The same where the variance of the values, in whose units the prior is, is inverse gamma."""
    total = design @ covariance @ design.T + np.eye(len(values))
    evidence = stats.multivariate_t(design @ mean, total * scale / shape, 2 * shape).logpdf(values)
    return evidence, mean + covariance @ design.T @ np.linalg.solve(total, values - design @ mean)


def number_answer(prior, log_rows):
    """Log evidence and posterior mean of a number, by the trapezoid rule."""
    low, high = prior.support()
    grid = np.linspace(-25.0, 25.0, 4001)
    if high == 1.0:
        latent, slope = scipy.special.expit(grid), scipy.special.log_expit(grid) + scipy.special.log_expit(-grid)
    else:
        latent, slope = (np.exp(grid), grid) if low == 0.0 else (grid, 0.0)
    log_mass = slope + prior.logpdf(latent) + log_rows(latent).sum(0)
    total = scipy.special.logsumexp(log_mass)
    return total + np.log(grid[1] - grid[0]), np.exp(log_mass - total) @ latent


# --- jointly normal latents ------------------------------------------------------------------------------------------


def components(n):
    """Normals below components of a multivariate normal."""
    m = numpyro.sample("m", dist.MultivariateNormal(LOC3, COVARIANCE3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m[1], 1.5))
        numpyro.sample("u", dist.Normal(m[0] - 2 * m[2], 0.5))


def of_components(rows):
    count = len(rows["x"])
    design = np.r_[np.tile([0.0, 1.0, 0.0], (count, 1)), np.tile([1.0, 0.0, -2.0], (count, 1))]
    noise = np.diag(np.repeat([1.5**2, 0.25], count))
    evidence, mean = normal_answer(design, np.r_[rows["x"], rows["u"]], noise, LOC3, COVARIANCE3)
    return evidence, {"m": mean}


def stacked(n):
    """A multivariate normal below two normals."""
    a, b = numpyro.sample("a", dist.Normal(0.5, 2.0)), numpyro.sample("b", dist.Normal(-1.0, 1.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.MultivariateNormal(jnp.stack([a, b]), COVARIANCE))


def of_stacked(rows):
    count = len(rows["x"])
    noise, prior = np.kron(np.eye(count), COVARIANCE), np.diag([4.0, 2.25])
    evidence, mean = normal_answer(np.tile(np.eye(2), (count, 1)), rows["x"].ravel(), noise, [0.5, -1.0], prior)
    return evidence, {"a": mean[0], "b": mean[1]}


def effects(n, *, g):
    """A mean, and effects of groups, which a covariate tells."""
    mu = numpyro.sample("mu", dist.Normal(1.0, 3.0))
    effect = numpyro.sample("effect", dist.Normal(0.0, 1.5).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(mu + effect[g], 0.75))


def centered(n, *, g):
    """The same with effects around the mean."""
    mu = numpyro.sample("mu", dist.Normal(1.0, 3.0))
    with numpyro.plate("groups", 3):
        theta = numpyro.sample("theta", dist.Normal(mu, 1.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(theta[g], 0.75))


def noncentered(n, *, g):
    """The same with effects in units of their spread."""
    mu = numpyro.sample("mu", dist.Normal(1.0, 3.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    theta = numpyro.deterministic("theta", mu + 1.5 * offset)
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(theta[g], 0.75))


def of_effects(rows):
    design = np.column_stack([np.ones(len(rows["x"])), np.eye(3)[rows["g"]]])
    prior = np.diag([9.0, 2.25, 2.25, 2.25])
    evidence, mean = normal_answer(design, rows["x"], 0.75**2, np.r_[1.0, 0.0, 0.0, 0.0], prior)
    return evidence, {"mu": mean[0], "effect": mean[1:], "theta": mean[0] + mean[1:], "offset": mean[1:] / 1.5}


def line(n, *, t):
    """Two coefficients with sites of their own; noise is known."""
    alpha, beta = numpyro.sample("alpha", dist.Normal(1.0, 2.0)), numpyro.sample("beta", dist.Normal(0.0, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(alpha + beta * t, 0.75))


def of_line(rows):
    evidence, mean = normal_answer(
        np.column_stack([np.ones(len(rows["x"])), rows["t"]]), rows["x"], 0.75**2, [1.0, 0.0], np.diag([4.0, 0.25])
    )
    return evidence, {"alpha": mean[0], "beta": mean[1]}


def features(n, *, f):
    """A vector of coefficients, with a covariance; f is a matrix of features."""
    w = numpyro.sample("w", dist.MultivariateNormal(LOC3, COVARIANCE3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(f @ w, 0.75))


def of_features(rows):
    evidence, mean = normal_answer(rows["f"], rows["x"], 0.75**2, LOC3, COVARIANCE3)
    return evidence, {"w": mean}


def walk(n):
    """Normals below each other, each of which makes rows."""
    first = numpyro.sample("first", dist.Normal(0.5, 1.0))
    second = numpyro.sample("second", dist.Normal(0.8 * first - 0.25, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(first, 1.5))
        numpyro.sample("u", dist.Normal(2 * second, 0.75))


def of_walk(rows):
    count = len(rows["x"])
    design = np.kron(np.diag([1.0, 2.0]), np.ones((count, 1)))
    noise = np.diag(np.repeat([1.5**2, 0.75**2], count))
    covariance = np.array([[1.0, 0.8], [0.8, 0.64 + 0.25]])
    evidence, mean = normal_answer(design, np.r_[rows["x"], rows["u"]], noise, [0.5, 0.15], covariance)
    return evidence, {"first": mean[0], "second": mean[1]}


# --- normals whose scale is a latent, too ----------------------------------------------------------------------------


def scaled_line(n, *, f):
    """A regression whose noise is in the prior, too."""
    v = numpyro.sample("v", dist.InverseGamma(3.0, 1.5))
    w = numpyro.sample("w", dist.Normal(LOC3, jnp.array([2.0, 0.5, 1.0]) * jnp.sqrt(v)).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(f @ w, jnp.sqrt(v)))


def of_scaled_line(rows):
    prior = np.diag([4.0, 0.25, 1.0])
    evidence, mean = student_answer(rows["f"], rows["x"], LOC3, prior, 3.0, 1.5)
    return evidence, {"w": mean}


def normal_gamma(n):
    """The gamma prior of a precision."""
    r = numpyro.sample("r", dist.Gamma(3.0, 1.5))
    m = numpyro.sample("m", dist.Normal(0.5, 1 / jnp.sqrt(0.4 * r)))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, 1 / jnp.sqrt(r)))


def of_normal_gamma(rows):
    design = np.ones((len(rows["x"]), 1))
    evidence, mean = student_answer(design, rows["x"], np.array([0.5]), np.eye(1) / 0.4, 3.0, 1.5)
    return evidence, {"m": mean[0]}


def inverse_wishart(n):
    c = numpyro.sample("c", dist.InverseWishart(5.0, scale_matrix=COVARIANCE))
    m = numpyro.sample("m", dist.MultivariateNormal(LOC3[:2], covariance_matrix=c / 0.4))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.MultivariateNormal(m, covariance_matrix=c))


def inverse_wishart_cholesky(n):
    root = numpyro.sample("root", dist.InverseWishartCholesky(5.0, scale_matrix=COVARIANCE))
    m = numpyro.sample("m", dist.MultivariateNormal(LOC3[:2], scale_tril=root / jnp.sqrt(0.4)))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.MultivariateNormal(m, scale_tril=root))


def wishart(n):
    p = numpyro.sample("p", dist.Wishart(5.0, rate_matrix=COVARIANCE))
    m = numpyro.sample("m", dist.MultivariateNormal(LOC3[:2], precision_matrix=0.4 * p))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.MultivariateNormal(m, precision_matrix=p))


def of_wishart(rows):
    """By the chain rule: each row is Student t given those before it."""
    mean, kappa, df, scale, evidence = LOC3[:2], 0.4, 5.0, COVARIANCE, 0.0
    for row in rows["x"]:
        evidence += stats.multivariate_t(mean, scale * (kappa + 1) / (kappa * (df - 1)), df - 1).logpdf(row)
        scale = scale + kappa / (kappa + 1) * np.outer(row - mean, row - mean)
        mean, kappa, df = (kappa * mean + row) / (kappa + 1), kappa + 1, df + 1
    law = stats.invwishart(df, scale)
    return evidence, {"m": mean, "c": law.mean(), "p": df * np.linalg.inv(scale)}


# --- a latent of several sites ---------------------------------------------------------------------------------------


def rates(n):
    r = numpyro.sample("r", dist.Gamma(2.5, 1.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Poisson(0.5 * r))
        numpyro.sample("u", dist.Exponential(2 * r))


def of_rates(rows):
    def log_rows(r):
        return stats.poisson(0.5 * r).logpmf(rows["x"][:, None]) + stats.expon(scale=0.5 / r).logpdf(rows["u"][:, None])

    evidence, mean = number_answer(stats.gamma(2.5, scale=1 / 1.5), log_rows)
    return evidence, {"r": mean}


def chances(n):
    q = numpyro.sample("q", dist.Beta(2.0, 3.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))
        numpyro.sample("u", dist.Geometric(q))


def of_chances(rows):
    def log_rows(q):
        return stats.bernoulli(q).logpmf(rows["x"][:, None]) + stats.geom(q, loc=-1).logpmf(rows["u"][:, None])

    evidence, mean = number_answer(stats.beta(2.0, 3.0), log_rows)
    return evidence, {"q": mean}


def means(n):
    m = numpyro.sample("m", dist.Normal(0.5, 2.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, 1.5))
        numpyro.sample("u", dist.LogNormal(1 - m, 0.75))


def of_means(rows):
    def log_rows(m):
        given = stats.lognorm(0.75, scale=np.exp(1 - m))
        return stats.norm(m, 1.5).logpdf(rows["x"][:, None]) + given.logpdf(rows["u"][:, None])

    evidence, mean = number_answer(stats.norm(0.5, 2.0), log_rows)
    return evidence, {"m": mean}


# --- chains and sticks -----------------------------------------------------------------------------------------------


def paths(n):
    start = numpyro.sample("start", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])))
    step = numpyro.sample("step", dist.Dirichlet(jnp.full((3, 3), 0.5)).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", bg.MarkovChain(start, step, length=5))


def of_paths(rows):
    """Each state has the mean of its probability, given all before it: an urn for starts, and for each state."""
    urns, evidence = np.r_[np.full((3, 3), 0.5), [[1.0, 2.0, 0.5]]], 0.0
    for path in rows["x"]:
        for before, state in zip(np.r_[3, path[:-1]], path, strict=True):
            evidence += np.log(urns[before, state] / urns[before].sum())
            urns[before, state] += 1
    shares = urns / urns.sum(1, keepdims=True)
    return evidence, {"start": shares[3], "step": shares[:3]}


def stick(n):
    """Probabilities of pieces of a stick that is broken twice."""
    v = numpyro.sample("v", dist.Beta(2.0, 3.0).expand([2]).to_event(1))
    probs = jnp.append(v, 1.0) * jnp.append(1.0, jnp.cumprod(1 - v))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Categorical(probs))


def of_stick(rows):
    """Each break is a coin for those rows that come to it."""
    counts = np.bincount(rows["x"], minlength=3)
    here, beyond = counts[:2], np.array([counts[1:].sum(), counts[2]])
    evidence = (scipy.special.betaln(2 + here, 3 + beyond) - scipy.special.betaln(2.0, 3.0)).sum()
    return evidence, {"v": (2 + here) / (5 + here + beyond)}


CASES = {
    "components": Case(components, {"x": REALS, "u": OTHERS}, of_components),
    "stacked": Case(stacked, {"x": VECTORS}, of_stacked),
    "effects": Case(effects, {"x": REALS, "g": GROUPS}, of_effects),
    "centered": Case(centered, {"x": REALS, "g": GROUPS}, of_effects),
    "noncentered": Case(noncentered, {"x": REALS, "g": GROUPS}, of_effects),
    "line": Case(line, {"x": REALS, "t": TIMES}, of_line),
    "features": Case(features, {"x": REALS, "f": FEATURES}, of_features),
    "walk": Case(walk, {"x": REALS, "u": OTHERS}, of_walk),
    "scaled line": Case(scaled_line, {"x": REALS, "f": FEATURES}, of_scaled_line),
    "normal gamma": Case(normal_gamma, {"x": REALS}, of_normal_gamma),
    "inverse wishart": Case(inverse_wishart, {"x": VECTORS}, of_wishart),
    "inverse wishart cholesky": Case(inverse_wishart_cholesky, {"x": VECTORS}, of_wishart),
    "wishart": Case(wishart, {"x": VECTORS}, of_wishart),
    "rates": Case(rates, {"x": COUNTS, "u": POSITIVE}, of_rates),
    "chances": Case(chances, {"x": ONES, "u": COUNTS}, of_chances),
    "means": Case(means, {"x": REALS, "u": POSITIVE}, of_means),
    "paths": Case(paths, {"x": PATHS}, of_paths),
}


SCALED = ("scaled line", "normal gamma", "inverse wishart", "inverse wishart cholesky", "wishart")
SLOW = (*SCALED, "components", "stacked", "effects", "centered", "noncentered", "walk", "means", "chances", "paths")
QUICK = ("rates",)  # whose predictives are in the default tests


def assert_evidence_and_means(case):
    fit = bg.fit(case.program, case.part(slice(-NEW)), method=bg.Exact())
    assert set(fit.program.closed_form.reason) == {""}
    evidence, parameters = case.answer(case.part(slice(-NEW)))
    np.testing.assert_allclose(fit.log_evidence, evidence, rtol=1e-8)
    compared = parameters.keys() & fit.parameters.keys()
    assert compared
    for name in compared:
        np.testing.assert_allclose(fit.parameters[name], parameters[name], rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_evidence_and_means_are_exact(name):
    assert_evidence_and_means(CASES[name])


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_predictives_are_ratios_of_evidences(name):
    case = CASES[name]
    fit = bg.fit(case.program, case.part(slice(-NEW)), method=bg.Exact())
    predictive = bg.predict(fit, case.part(slice(-NEW, None)), rule=bg.BMA()).log_marginal
    with_row = [case.answer(case.part(np.r_[: ROWS - NEW, row]))[0] for row in range(ROWS - NEW, ROWS)]
    evidence = case.answer(case.part(slice(-NEW)))[0]
    np.testing.assert_allclose(predictive, np.array(with_row) - evidence, rtol=1e-7)


def test_a_stick_that_is_broken_is_exact_or_refused():
    case = Case(stick, {"x": GROUPS}, of_stick)
    if set(case.program.closed_form.reason) == {""}:
        assert_evidence_and_means(case)
    else:
        with pytest.raises(bg.FitError, match="'v' of attribute 'x'"):
            bg.fit(case.program, case.rows, method=bg.Exact())


@pytest.mark.parametrize("name", ["features", "effects"])
def test_what_is_closed_is_said_once_data_show_the_shapes_of_covariates(name):
    case = CASES[name]
    frame = case.program.closed_form
    assert frame.latent.tolist() == (["w"] if name == "features" else ["mu", "effect"])
    assert set(frame.family) == {""}
    assert frame.reason.str.contains(f"the shapes of the covariates '{case.program.covariates[0]}' are not known").all()
    fit = bg.fit(case.program, case.rows, method=bg.Exact())
    assert fit.program.closed_form.latent.tolist() == frame.latent.tolist()
    assert set(fit.program.closed_form.reason) == {""}


@pytest.mark.slow
def test_lines_of_classes_with_a_common_slope():
    labels = (np.arange(ROWS) % 3 == 0).astype(int)

    def lines(n, *, t):
        probs = numpyro.sample("probs", dist.Dirichlet(jnp.array([1.0, 2.0])))
        alpha = numpyro.sample("alpha", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
        beta = numpyro.sample("beta", dist.Normal(0.0, 0.5))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(probs))
            numpyro.sample("x", dist.Normal(alpha[y] + beta * t, 0.75))

    def evidence(count, *last):
        codes = np.r_[labels[:count], last].astype(int)
        design = np.column_stack([np.eye(2)[codes], TIMES[: len(codes)]])
        values = normal_answer(design, REALS[: len(codes)], 0.75**2, np.zeros(3), np.diag([4.0, 4.0, 0.25]))[0]
        counts = np.bincount(codes, minlength=2)
        orders = scipy.special.gammaln(counts.sum() + 1) - scipy.special.gammaln(counts + 1).sum()
        return values + stats.dirichlet_multinomial([1.0, 2.0], counts.sum()).logpmf(counts) - orders

    rows = {"x": REALS, "t": TIMES}
    learned = {name: values[:-1] for name, values in rows.items()}
    fit = bg.fit(bg.GenerativeProgram(lines, classes=2), learned, labels[:-1], method=bg.Exact())
    np.testing.assert_allclose(fit.log_evidence, evidence(ROWS - 1), rtol=1e-8)
    new = bg.predict(fit, {name: values[-1:] for name, values in rows.items()}, rule=bg.BMA())
    expected = scipy.special.softmax([evidence(ROWS - 1, code) for code in (0, 1)])
    np.testing.assert_allclose(new.probabilities[0], expected, rtol=1e-8)
