"""NUTS on posteriors that are nothing like a normal: the right answer, or a path and a warning that say so."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from counting import compilations
from oracles.moments import assert_mean

import bayesgen as bg


def unlabelled(latents, attribute):
    """A program without classes: `latents()` gives what `attribute(latents)`, a distribution, depends on."""

    def function(n):
        given = latents()
        with numpyro.plate("rows", n):
            numpyro.sample("x", attribute(given))

    return bg.GenerativeProgram(function, label=None)


def sampled(program, x, **options):
    method = bg.NUTS(**{"num_samples": 600} | options)
    return bg.fit(program, {"x": np.asarray(x, float)}, method=method, seed=11)


def sampled_in_doubt(program, x):
    """The same where some draws may diverge: the answer is what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)
        return sampled(program, x)


def by_quadrature(log_density, *functions):
    """Expectations of functions of one parameter."""
    grid = np.linspace(-400, 400, 800_001)
    logs = log_density(grid)
    weights = np.exp(logs - logs.max())
    return [float((weights * f(grid)).sum() / weights.sum()) for f in functions]


def test_a_mode_on_the_boundary_of_the_constrained_space_is_inside_the_unconstrained_one():
    """All rows are zero: the likelihood is highest at p = 0, the posterior is Beta(1, 20)."""
    program = unlabelled(lambda: numpyro.sample("p", dist.Beta(1, 1)), lambda p: dist.Bernoulli(p))
    fit = sampled(program, np.zeros(19))
    assert fit.attributes["path"] == "whitened"
    draws = fit.parameters["p"]
    exact = scipy.stats.beta(1, 20)
    for power in (1, 2):
        assert_mean(draws**power, exact.moment(power))


def test_a_curvature_that_is_wrong_by_orders_of_magnitude_costs_steps_and_not_the_answer():
    """exp(-t^4) has no curvature at its mode but that of the prior, a million times too little."""

    def quartic():
        t = numpyro.sample("t", dist.Normal(0, 1e3))
        numpyro.factor("quartic", -(t**4))
        return t

    program = unlabelled(quartic, lambda t: dist.Normal(0 * t, 1.0))
    draws = sampled_in_doubt(program, [0.3]).parameters["t"]
    assert_mean(draws**2, scipy.special.gamma(0.75) / scipy.special.gamma(0.25))
    assert_mean(draws, 0.0)


@pytest.mark.slow
def test_a_direction_that_the_data_say_nothing_about_leaves_the_prior_there():
    def pair():
        return numpyro.sample("a", dist.Normal(0, 3)) + numpyro.sample("b", dist.Normal(0, 5))

    program = unlabelled(pair, lambda total: dist.Normal(total, 1e-3))
    fit = sampled(program, [2.0, 2.001, 1.999])
    assert_mean(fit.parameters["a"], 2.0 * 9 / 34)
    assert_mean(fit.parameters["b"], 2.0 * 25 / 34)
    spread = (fit.parameters["a"] - 2.0 * 9 / 34) ** 2
    assert_mean(spread, 9 * 25 / 34)


@pytest.mark.slow
def test_heavy_tails_have_their_quantiles():
    """A Cauchy prior, and data of which each says little."""
    x = np.asarray([11.0, -3.0, 8.0])
    program = unlabelled(lambda: numpyro.sample("t", dist.Cauchy(0, 1)), lambda t: dist.Normal(t, 30.0))
    draws = sampled_in_doubt(program, x).parameters["t"]

    def log_density(t):
        return scipy.stats.cauchy.logpdf(t) + scipy.stats.norm.logpdf(x[:, None], t[None], 30.0).sum(0)

    functions = [lambda t, q=q: (t < q).astype(float) for q in (-3.0, -0.5, 0.5, 3.0)]
    for function, expected in zip(functions, by_quadrature(log_density, *functions), strict=True):
        assert_mean(function(draws), expected)


@pytest.mark.slow  # the centered schools are a funnel that is in every run
def test_a_funnel_is_not_whitened_and_says_so():
    """Neal's funnel (2003): no one scale serves it."""

    def funnel():
        v = numpyro.sample("v", dist.Normal(0, 3))
        numpyro.sample("w", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))
        return v

    program = unlabelled(funnel, lambda v: dist.Normal(0 * v, 1.0))
    with pytest.warns(bg.ConvergenceWarning):
        fit = sampled(program, [0.1], num_warmup=150, num_samples=150, integrate_out=False)
    assert fit.attributes["path"].startswith("adapted: ")


@pytest.mark.parametrize("shift", [0.0, pytest.param(0.3, marks=pytest.mark.slow)])
def test_several_modes_are_recorded_and_warned_of(shift):
    """The data know the square of t only. With shift=0 the modes are equally high; the origin is no mode."""
    program = unlabelled(lambda: numpyro.sample("t", dist.Normal(shift, 3)), lambda t: dist.Normal(t**2, 0.5))
    with pytest.warns(bg.ConvergenceWarning, match="2 modes were found") as caught:
        fit = sampled(program, [4.1, 3.8, 4.0], num_warmup=300)
    assert len(caught) == 1
    assert fit.attributes["path"].startswith("adapted: 2 modes were found")


def normal():
    return numpyro.sample("mean", dist.Normal(0, 10)), numpyro.sample("scale", dist.HalfNormal(2.0))


NORMAL = unlabelled(normal, lambda given: dist.Normal(*given))


@pytest.mark.slow
def test_without_preconditioning_a_posterior_is_the_same():
    x = np.random.default_rng(2).normal(1.0, 1.5, 17)
    fits = [sampled(NORMAL, x)]
    with compilations() as found:
        fits.append(sampled(NORMAL, x, precondition=False))
    assert not any("advance" in name for name in found)  # coordinates are data
    assert fits[0].attributes["path"] == "whitened"
    assert fits[1].attributes["path"] == "adapted: precondition=False"

    means, scales = np.meshgrid(np.linspace(-4, 6, 401), np.linspace(0.3, 8, 401))
    logs = scipy.stats.norm.logpdf(means, 0, 10) + scipy.stats.halfnorm.logpdf(scales, 0, 2)
    logs += scipy.stats.norm.logpdf(x[:, None, None], means, scales).sum(0)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    for fit in fits:
        assert_mean(fit.parameters["mean"], (weights * means).sum())
        assert_mean(fit.parameters["scale"], (weights * scales).sum())


def test_where_some_draws_diverge_smaller_steps_are_taken():
    """Of two rows, the scale may be as small as it likes: some draws diverge, with adapted masses too."""
    x = np.asarray([1.0, 2.0])
    fit = sampled_in_doubt(NORMAL, x)
    assert fit.attributes["path"] == "whitened"
    assert fit.attributes["target_accept_prob"] == 0.95
    assert fit.sample_stats["diverging"].mean() < 0.001
    log_scale = np.linspace(-7, 4, 2001)
    scale = np.exp(log_scale)
    covariance = 100.0 + np.eye(2) * scale[:, None, None] ** 2
    logs = scipy.stats.halfnorm.logpdf(scale, 0, 2) + log_scale
    logs += [scipy.stats.multivariate_normal.logpdf(x, np.zeros(2), one) for one in covariance]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = 100.0 * np.linalg.solve(covariance, np.broadcast_to(x[:, None], (len(scale), 2, 1))).sum((1, 2))
    for draws, expected in (
        (fit.parameters["mean"], mean),
        (fit.parameters["scale"], scale),
        (np.log(fit.parameters["scale"]), log_scale),
        (fit.parameters["scale"] < 0.3, scale < 0.3),
    ):
        assert_mean(draws.astype(float), weights @ expected)


def impossible():
    t = numpyro.sample("t", dist.Normal(0, 1))
    numpyro.factor("never", jnp.where(t > 1e9, 0.0, -jnp.inf))
    return t


IMPOSSIBLE = unlabelled(impossible, lambda t: dist.Normal(t, 1.0))


@pytest.mark.parametrize("precondition", [True, False])
def test_a_density_that_is_nowhere_finite_is_refused(precondition):
    with pytest.raises(bg.FitError, match="density is not finite"):
        sampled(IMPOSSIBLE, [0.3], precondition=precondition)
