"""Prior densities of parameters, against SciPy's distributions, and against the programs of models."""

import jax
import numpy as np
import pytest
from scipy import stats

import bayesgen as bg
from bayesgen.families import FixedCategorical, Scale
from bayesgen.program import LogPriorKind, ProgramDensity, StatisticsTerm, free_vector

close = np.testing.assert_allclose
CLASSES, COLUMNS, VALUES = 2, 3, 5
SCALE = Scale(CLASSES, COLUMNS, VALUES, mean=np.array([0.3, 1.0, -2.0]), variance=np.array([0.5, 4.0, 1.3]))


def parameters_of(family):
    return family.sample(np.random.default_rng(1))


def test_probabilities_and_rates():
    beta = bg.BetaBernoulli([1.5, 2.0, 0.7], 2.6).resolve(SCALE)
    probs = parameters_of(beta)["probs"]
    close(beta.log_prior({"probs": probs}), stats.beta.logpdf(probs, beta.a, beta.b).sum())
    dirichlet = bg.DirichletCategorical([1.0, 2.0, 0.4, 1.3, 3.0]).resolve(SCALE)
    probs = parameters_of(dirichlet)["probs"]
    expected = [stats.dirichlet.logpdf(row / row.sum(), [1.0, 2.0, 0.4, 1.3, 3.0]) for row in probs.reshape(-1, VALUES)]
    close(dirichlet.log_prior({"probs": probs}), sum(expected))
    gamma = bg.GammaPoisson(2.2, 0.6).resolve(SCALE)
    rate = parameters_of(gamma)["rate"]
    close(gamma.log_prior({"rate": rate}), stats.gamma.logpdf(rate, 2.2, scale=1 / 0.6).sum())
    assert FixedCategorical([0.3, 0.7]).log_prior({"probs": np.array([0.3, 0.7])}) == 0.0


def test_a_flat_prior_is_flat_to_the_edge():
    beta, dirichlet = bg.BetaBernoulli().resolve(SCALE), bg.DirichletCategorical([1.0, 1.0, 1.0])
    assert beta.log_prior({"probs": np.array([[0.0, 1.0, 0.5]] * 2)}) == 0.0
    close(dirichlet.log_prior({"probs": np.array([0.0, 0.0, 1.0])}), np.log(2))
    assert bg.BetaBernoulli(2, 1).log_prior({"probs": np.array(0.0)}) == -np.inf


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("spherical", [False, True])
def test_means_and_variances(tied, spherical):
    family = bg.NormalInverseGamma(kappa=0.7, shape=2.5, tied=tied, spherical=spherical).resolve(SCALE)
    parameters = parameters_of(family)
    table = np.broadcast_to(family.pooling.expand(parameters["variance"]), (CLASSES, COLUMNS))
    places = [0 if axis else slice(None) for axis in (tied, spherical)]
    shared = table[tuple(places)]
    scale = np.broadcast_to(family.scale, (CLASSES, COLUMNS))[tuple(places)]
    expected = stats.invgamma.logpdf(shared, 2.5, scale=scale).sum()
    expected += stats.norm.logpdf(parameters["mean"], family.location, np.sqrt(table / 0.7)).sum()
    close(family.log_prior(parameters), expected)


@pytest.mark.parametrize("tied", [False, True])
def test_means_and_covariances(tied):
    scale = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 3.0]])
    family = bg.NormalInverseWishart(kappa=0.7, df=6.5, scale=scale, tied=tied).resolve(SCALE)
    parameters = parameters_of(family)
    covariances = np.broadcast_to(parameters["covariance"], (CLASSES, COLUMNS, COLUMNS))
    expected = sum(stats.invwishart.logpdf(each, 6.5, scale) for each in covariances[: 1 if tied else CLASSES])
    for mean, covariance in zip(parameters["mean"], covariances, strict=True):
        expected += stats.multivariate_normal.logpdf(mean, SCALE.mean, covariance / 0.7)
    close(family.log_prior(parameters), expected)


def test_families_used_alone():
    one = bg.NormalInverseGamma(0.0, 0.5, 2.0, 1.5)
    expected = stats.invgamma.logpdf(1.3, 2.0, scale=1.5) + stats.norm.logpdf(0.4, 0.0, np.sqrt(1.3 / 0.5))
    close(one.log_prior({"mean": np.array(0.4), "variance": np.array(1.3)}), expected)
    with pytest.raises(bg.ModelError, match="log_prior"):
        bg.GammaPoisson().log_prior({"rate": np.array(1.0)})


@pytest.mark.parametrize(
    "name",
    [
        "naive Bayes, informative",
        pytest.param("discriminant, informative", marks=pytest.mark.slow),
        pytest.param("own blocks", marks=pytest.mark.slow),
    ],
)
def test_it_is_the_density_that_maximisers_see(name):
    """Without data, the log density over the parameters of a program is its prior: they agree to a constant, zero."""
    from models.cases import CASES
    from program.programs import QUICKLY

    fit = CASES[name].exact
    conjugate, program = fit.concrete.conjugate(fit.schema), fit.program
    density_of = jax.jit(
        lambda vector: ProgramDensity(program, (StatisticsTerm(_no_rows(fit)),), LogPriorKind.PARAMETERS)(vector),
        compiler_options=QUICKLY,
    )
    for seed in (1, 2):
        parameters = conjugate.sample((), np.random.default_rng(seed))
        latents = program.latents_of(parameters)
        with jax.enable_x64(True):
            vector = free_vector(program, {site: latents[site] for site in program.latents})
            density = float(density_of(vector))
        close(density, conjugate.log_prior(parameters), rtol=1e-9)


def _no_rows(fit):
    rows = fit.posterior.statistics
    return jax.tree.map(np.zeros_like, rows)
