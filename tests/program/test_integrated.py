"""Latents integrated out of the density of a program: against quadrature, and draws of them against their moments."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special

import bayesgen as bg
from bayesgen.program import (
    BetaForm,
    DirichletForm,
    Elimination,
    IntegratedDensity,
    LogPriorKind,
    Normals,
    PowerForm,
    ProgramDensity,
    StatisticsTerm,
    Tables,
)
from bayesgen.runtime import Traced


def coins(n):
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 1.0))
    shares = numpyro.sample("shares", dist.Dirichlet(concentration * jnp.ones(2)))
    with numpyro.plate("tosses", n):
        numpyro.sample("side", dist.Categorical(shares))


def lengths(n):
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    variance = numpyro.sample("variance", dist.InverseGamma(3.0, 2.0))
    center = numpyro.sample("center", dist.Normal(spread, jnp.sqrt(variance / 0.3)))
    with numpyro.plate("rows", n):
        numpyro.sample("length", dist.Normal(center, jnp.sqrt(variance)))


SIDES = {"side": np.array([0, 0, 1, 0, 0, 0, 1])}
LENGTHS = {"length": np.array([1.2, 3.4, 2.2, 0.7, 2.9])}
FORMS = {
    coins: Elimination((Tables((("shares", (2,), DirichletForm()),)),)),
    lengths: Elimination((Normals((("center", ()),)), Tables((("variance", (), PowerForm(-1)),)))),
}


def integrated(function, rows, prior=LogPriorKind.SITES, elimination=None):
    program = bg.GenerativeProgram(function, label=None)
    data = bg.summarize(program, rows)
    density = ProgramDensity(program, (StatisticsTerm(data.statistics),), prior)
    return IntegratedDensity(density, elimination or FORMS[function])


def by_quadrature(density, value):
    """The integral over the unconstrained coordinates of the others, at the unconstrained value of the first."""
    grid = np.linspace(-15.0, 15.0, 401)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[grid] * (density.density.dimension - 1))], axis=1)
    vectors = np.concatenate([np.full((len(points), 1), value), points], axis=1)
    at_points = Traced.of(jax.vmap(lambda point: density.density(point)), vectors)(vectors)
    return scipy.special.logsumexp(at_points) + points.shape[1] * np.log(grid[1] - grid[0])


def value_at(density, value):
    """The density at one unconstrained value; nothing is compiled."""
    vector = np.array([value])
    return float(Traced.of(lambda point: density(point), vector)(vector))


@pytest.mark.parametrize("function, rows", [(coins, SIDES), (lengths, LENGTHS)])
def test_the_density_of_the_others_is_an_integral(function, rows):
    with jax.enable_x64(True):
        density = integrated(function, rows)
        assert density.dimension == 1
        for value in (-0.7, 0.9):
            assert value_at(density, value) == pytest.approx(by_quadrature(density, value), abs=1e-7)
        assert density.name_of(0) == density.latents[0][0]


@pytest.mark.slow
def test_what_is_integrated_out_is_drawn_given_the_others():
    with jax.enable_x64(True):
        density = integrated(lengths, LENGTHS)
        spread = np.repeat([[0.5], [2.0]], 4000, axis=1)
        values, log_densities = density.draws({"spread": spread}, spread.shape, 3)
        one = {name: value[1, 7] for name, value in values.items()}
        expected = density.density.at_sites(one)
    assert {name: value.shape for name, value in values.items()} == dict.fromkeys(one, (2, 4000))
    np.testing.assert_array_equal(values["spread"], spread)
    log_jacobian = np.log(one["spread"]) + np.log(one["variance"])
    assert log_densities[1, 7] == pytest.approx(float(expected) + log_jacobian, rel=1e-12)
    n, x = 5, LENGTHS["length"]
    for index, place in enumerate([0.5, 2.0]):
        center = (0.3 * place + x.sum()) / (0.3 + n)
        rate = 2.0 + 0.5 * (x**2).sum() + 0.5 * 0.3 * place**2 - 0.5 * (0.3 + n) * center**2
        variance = rate / (3.0 + n / 2 - 1)
        drawn = values["center"][index], values["variance"][index]
        assert abs(drawn[0].mean() - center) < 4 * np.sqrt(variance / (n + 0.3) / 4000)
        assert abs(drawn[1].mean() - variance) < 4 * drawn[1].std() / np.sqrt(4000)


def test_the_misfit_is_that_of_the_forms():
    with jax.enable_x64(True):
        density = integrated(lengths, LENGTHS)
        values = {"spread": np.array(0.7), "variance": np.array(1.9), "center": np.array(-0.4)}
        assert density.misfit(values) < 1e-10
        wrong = Elimination((Tables((("spread", (), PowerForm(1)),)),))
        assert IntegratedDensity(density.density, wrong).misfit(values) > 1e-3


def test_the_density_of_parameters_is_that_of_the_values_themselves():
    """Without the Jacobian of unconstrained coordinates, and so without that of what is integrated out."""
    with jax.enable_x64(True):
        free, value = (integrated(coins, SIDES, kind) for kind in (LogPriorKind.SITES, LogPriorKind.PARAMETERS))
        difference = value_at(free, 0.4) - value_at(value, 0.4)
    assert difference == pytest.approx(0.4, rel=1e-9)  # of exp


# --- concentrations of any size --------------------------------------------------------------------------------------


def log_rising(start, count):
    return mpmath.loggamma(start + count) - mpmath.loggamma(start)


def sequence_evidence(shares, counts, concentration):
    """Log probability of a sequence with these counts (Polya's urn), times shares."""
    parts = [log_rising(share * concentration, count) for share, count in zip(shares, counts, strict=True)]
    return mpmath.fsum(parts) - log_rising(sum(shares) * concentration, sum(counts))


def gamma_evidence(shape, rate, added_shape, added_rate):
    powers = shape * mpmath.log(rate) - (shape + added_shape) * mpmath.log(rate + added_rate)
    return log_rising(shape, added_shape) + powers


LEVELS = np.array([0, 1, 1, 0, 0, 1, 0])
VISITS = np.array([3, 0, 5, 1])
ERRORS = np.array([0.5, -1.25, 2.0, 0.25, -0.75])
PRIORS = {  # the prior given its concentration, the distribution of rows, these, the form, and the log evidence
    "Dirichlet": (
        lambda c: dist.Dirichlet(c * jnp.ones(3)),
        dist.Categorical,
        LEVELS,
        ((3,), DirichletForm()),
        lambda c: sequence_evidence([1, 1, 1], [4, 3, 0], c),
    ),
    "beta": (
        lambda c: dist.Beta(c, 2 * c),
        dist.Bernoulli,
        LEVELS,
        ((), BetaForm()),
        lambda c: sequence_evidence([1, 2], [3, 4], c),
    ),
    "gamma": (
        lambda c: dist.Gamma(c, c / 2),
        dist.Poisson,
        VISITS,
        ((), PowerForm(1)),
        lambda c: gamma_evidence(c, c / 2, 9, 4) - mpmath.log(720),
    ),
    "inverse gamma": (
        lambda c: dist.InverseGamma(c, 2 * c),
        lambda variance: dist.Normal(0.0, jnp.sqrt(variance)),
        ERRORS,
        ((), PowerForm(-1)),
        lambda c: gamma_evidence(c, 2 * c, 2.5, mpmath.mpf(3.21875)) - 2.5 * mpmath.log(2 * mpmath.pi),
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_the_density_of_a_concentration_has_its_digits_at_any_size(name):
    prior, distribution, cells, (shape, form), evidence = PRIORS[name]

    def rows(n):
        concentration = numpyro.sample("concentration", dist.LogNormal(0.0, 100.0))
        latent = numpyro.sample("latent", prior(concentration))
        with numpyro.plate("rows", n):
            numpyro.sample("cell", distribution(latent))

    def log_density(log_concentration):
        log_prior = -((log_concentration / 100) ** 2) / 2 - mpmath.log(100 * mpmath.sqrt(2 * mpmath.pi))
        return log_prior + evidence(mpmath.exp(log_concentration))

    with jax.enable_x64(True), mpmath.workdps(80):
        density = integrated(rows, {"cell": cells}, elimination=Elimination((Tables((("latent", shape, form),)),)))
        value_and_slope = Traced.of(jax.value_and_grad(density), np.zeros(1))
        for size in (1e-20, 1e-8, 1.0, 1e8, 1e15, 1e20):
            at = mpmath.log(size)
            value, (slope,) = value_and_slope(np.array([float(at)]))
            np.testing.assert_allclose(float(value), float(log_density(at)), rtol=1e-12, err_msg=str(size))
            expected = float(mpmath.diff(log_density, at, h=mpmath.mpf(10) ** -20))
            np.testing.assert_allclose(float(slope), expected, rtol=1e-10, atol=1e-13, err_msg=str(size))


def two_counts(concentration):
    def program(n):
        rate = numpyro.sample("rate", dist.Gamma(concentration, concentration / 2))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Poisson(3 * rate))
            numpyro.sample("z", dist.Poisson(2 * rate))

    return program


def counts_evidence(x, z, c):
    rest = sum(x) * mpmath.log(3) + sum(z) * mpmath.log(2) - mpmath.fsum(map(mpmath.loggamma, [*(x + 1), *(z + 1)]))
    return gamma_evidence(c, c / 2, sum(x + z), 5 * len(x)) + rest


def heads_and_failures(concentration):
    def program(n):
        prob = numpyro.sample("prob", dist.Beta(concentration, 2 * concentration))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Bernoulli(prob))
            numpyro.sample("z", dist.Geometric(prob))

    return program


def heads_evidence(x, z, c):
    return sequence_evidence([1, 2], [sum(x) + len(x), len(x) - sum(x) + sum(z)], c)


@pytest.mark.parametrize(("program", "evidence"), [(two_counts, counts_evidence), (heads_and_failures, heads_evidence)])
def test_exact_fits_have_their_digits_at_any_concentration(program, evidence):
    """Evidence and predictives of programs that stages integrate out; priors far larger than the data are proven."""
    (x, z), new = np.array([[1, 0, 1, 0], [2, 1, 0, 4]]), np.array([[1, 0], [3, 0]])
    for size in (1e-8, 1.0, 1e8, 1e15):
        model, c = bg.GenerativeProgram(program(size), label=None), mpmath.mpf(size)
        fit = bg.fit(model, {"x": x, "z": z}, method=bg.Exact())
        predictive = fit.log_joint({"x": new[0], "z": new[1]}, at="predictive")[:, 0]
        with mpmath.workdps(80):
            expected = evidence(x, z, c)
            ratios = [evidence(np.append(x, one), np.append(z, other), c) - expected for one, other in new.T]
        np.testing.assert_allclose(fit.log_evidence, float(expected), rtol=1e-12, err_msg=str(size))
        np.testing.assert_allclose(predictive, np.array(ratios, float), rtol=1e-11, err_msg=str(size))
