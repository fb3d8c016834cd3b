"""NUTS against the exact posterior, and what it does where there is none."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from models.cases import CASES, take
from numpyro import handlers
from numpyro.infer.util import log_density

import bayesgen as bg
from bayesgen.solvers import sampler

close = np.testing.assert_allclose
# together these have every family, and every way to share a variance
SAMPLED = ["discriminant, full"]  # naive Bayes classes are sampled in every run where cells are missing
SLOW = [name for name in CASES if name not in SAMPLED]
every_sampled = pytest.mark.parametrize(
    "case", [*SAMPLED, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)], indirect=True
)


METHOD = bg.NUTS(num_samples=500)


@pytest.fixture(scope="module")
def sampled():
    """Fits by name, each made once."""
    return {}


@pytest.fixture
def case(request, sampled):
    """(case, its exact fit, its NUTS fit)."""
    one = CASES[request.param]
    if request.param not in sampled:
        sampled[request.param] = bg.fit(one.model, *one.data, method=METHOD, seed=22)
    return one, one.exact, sampled[request.param]


def assert_draws_agree(draws, mean, variance, name):
    """Means within four Monte Carlo errors, standard deviations within 15 %, where they are finite.

    Those of variances, whose tails are heavy, have errors of 4 % by 2,000 draws.
    """
    size = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean")
    random = np.isfinite(variance) & (variance > 0)
    assert random.any(), name
    z = (draws.mean((0, 1)) - mean)[random] / size[random]
    assert np.abs(z).max() < 4, (name, z)
    close(draws.std((0, 1))[random], np.sqrt(variance[random]), rtol=0.15, err_msg=name)


@every_sampled
def test_draws_have_the_exact_means_and_deviations(case):
    _, exact, fit = case
    variances = exact.posterior.conjugate.collect(lambda family, *_: family.variance())
    assert fit.attributes["path"] == "whitened"
    assert fit.log_evidence is None
    expected = {name: mean for name, mean in exact.parameters.items() if name in fit.parameters}
    assert set(exact.parameters) - set(expected) <= {"class_probs"}  # where it is fixed
    for name, mean in expected.items():
        draws = fit.parameters[name]
        assert draws.shape == (4, 500, *mean.shape)
        upper = np.triu_indices(mean.shape[-1]) if name.endswith("covariance") else None
        cut = (lambda a: a) if upper is None else (lambda a, at=upper: a[..., at[0], at[1]])  # symmetric
        assert_draws_agree(cut(draws), cut(mean), cut(variances[name]), name)


def test_chains_move_as_well_where_a_class_has_one_row():
    """Its mean and covariance are no funnel in the coordinates that are sampled."""
    one = CASES["discriminant, full"]
    X, y = one.data
    kept = np.append(np.flatnonzero(y == "ape")[:1], np.flatnonzero(y == "bear"))
    fit = bg.fit(one.model, take(X, kept), y[kept], method=METHOD)
    assert fit.attributes["path"] == "whitened"
    assert fit.posterior.sample_stats["num_steps"].mean() < 7.5


# by 500 draws Pareto's k of row 19 of the tied discriminant is about 0.6 with a standard error of 0.1: some seeds warn
MORE = bg.NUTS(num_samples=3000)


@pytest.mark.parametrize(
    ("names", "method"),
    [
        (("discriminant, full",), METHOD),
        pytest.param(("naive Bayes", "discriminant, full"), METHOD, marks=pytest.mark.slow),
        pytest.param(("discriminant, tied",), MORE, marks=pytest.mark.slow),
    ],
)
def test_averages_over_draws_are_within_their_errors(sampled, names, method):
    inside = []
    for name in names:
        one, key = CASES[name], name if method is METHOD else (name, method)
        if key not in sampled:
            sampled[key] = bg.fit(one.model, *one.data, method=method, seed=22)
        found = bg.predict(sampled[key], one.data[0], rule=bg.BMA())
        expected = bg.predict(one.exact, one.data[0], rule=bg.BMA())
        close(found.probabilities.sum(1), 1.0, rtol=1e-12)
        inside.append(np.abs(found.probabilities - expected.probabilities) <= 4 * found.standard_error)
        assert found.standard_error.max() < 0.05
    assert np.concatenate([part.ravel() for part in inside]).mean() >= 0.95


def test_the_plug_in_of_draws_is_near_the_exact_posterior_mean(sampled):
    one = CASES["discriminant, full"]
    if "discriminant, full" not in sampled:
        sampled["discriminant, full"] = bg.fit(one.model, *one.data, method=METHOD, seed=22)
    found = bg.predict(sampled["discriminant, full"], one.data[0], rule=bg.PlugIn()).probabilities
    expected = bg.predict(one.exact, one.data[0], rule=bg.PlugIn()).probabilities
    other = bg.predict(one.exact, one.data[0], rule=bg.PlugIn(at="mode")).probabilities
    assert np.abs(found - expected).max() < 0.02 < np.abs(other - expected).max()


SMALL = bg.NaiveBayes({"real": bg.NormalInverseGamma([1.0, -2.0], 0.5, 3.0, [1.0, 4.0])})


@pytest.fixture(scope="module")
def small():
    """Rows of two real columns, and their labels."""
    rng = np.random.default_rng(9)
    y = rng.choice(2, 31, p=[0.4, 0.6])
    return np.stack([rng.normal(y, 1.0), rng.normal(-2.0 * y, 2.0)], axis=1), y


@pytest.mark.slow  # a program's stands for it in every run
def test_without_preconditioning_the_posterior_is_the_same(small):
    exact = bg.fit(SMALL, *small, method=bg.Exact())
    fit = bg.fit(SMALL, *small, method=bg.NUTS(precondition=False), seed=3)
    variances = exact.posterior.conjugate.collect(lambda family, *_: family.variance())
    assert fit.attributes["path"].startswith("adapted")
    for name, mean in exact.parameters.items():
        assert_draws_agree(fit.parameters[name], mean, variances[name], name)


# --- row by row ---------------------------------------------------------------------------------------------------


class Unregistered(dist.Normal):
    """A normal distribution of which bayesgen does not know the sufficient statistic."""


def twin(n):
    """The program of `SMALL`, written by hand, with attributes that cannot be compressed."""
    probs = numpyro.sample("class_probs", dist.Dirichlet(np.ones(2)))
    inverse_gamma = dist.InverseGamma(3.0, np.asarray([1.0, 4.0])).expand([2, 2]).to_event(2)
    variance = numpyro.sample("real_variance", inverse_gamma)
    mean = numpyro.sample("real_mean", dist.Normal(np.asarray([1.0, -2.0]), (variance / 0.5) ** 0.5).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs=probs))
        numpyro.sample("real", Unregistered(mean[y], variance[y] ** 0.5).to_event(1))


@pytest.mark.slow
def test_a_row_wise_program_has_the_posterior_of_its_compressed_twin(small):
    X, y = small
    exact = bg.fit(SMALL, X, y, method=bg.Exact())
    program = bg.GenerativeProgram(twin, classes=2)
    assert program.plan.rowwise == ("real",)
    fit = bg.fit(program, {"real": X}, y, method=bg.NUTS(), seed=4)
    variances = exact.posterior.conjugate.collect(lambda family, *_: family.variance())
    for name, mean in exact.parameters.items():
        assert_draws_agree(fit.parameters[name], mean, variances[name], name)
    found, expected = bg.predict(fit, {"real": X}, rule=bg.BMA()), bg.predict(exact, X, rule=bg.BMA())
    assert (np.abs(found.probabilities - expected.probabilities) < 4 * found.standard_error + 1e-6).mean() > 0.95
    point = bg.fit(program, {"real": X}, y, method=bg.MAP())
    for name, value in bg.fit(SMALL, X, y, method=bg.MAP()).parameters.items():
        close(point.parameters[name], value, rtol=1e-5, err_msg=name)


def student(n):
    """A heavy-tailed attribute."""
    spread = numpyro.sample("spread", dist.Gamma(2.0, 1.0))
    center = numpyro.sample("center", dist.Normal(0, 3).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs=np.asarray([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.StudentT(4.0, center[y], spread))


def chained(n):
    """An attribute that depends on another."""
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    probs = numpyro.sample("probs", dist.Dirichlet(np.asarray([2.0, 3.0])))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs=probs))
        x = numpyro.sample("x", dist.Normal(1.0 * y, 1.5))
        numpyro.sample("z", dist.Normal(slope[y] * x, 0.5))


LATENTS = {
    student: {"spread": np.array(1.3), "center": np.array([0.4, -2.1, 3.3])},
    chained: {"slope": np.array([0.7, -1.2]), "probs": np.array([0.35, 0.65])},
}


def rows_of(function, y, rng):
    """Rows of these classes that the program might have made."""
    latents, noise = LATENTS[function], rng.standard_t(4.0, (2, len(y)))
    if function is student:
        return {"x": latents["center"][y] + latents["spread"] * noise[0]}
    x = y + 1.5 * noise[0]
    return {"x": x, "z": latents["slope"][y] * x + 0.5 * noise[1]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "function, classes, rowwise", [pytest.param(student, 3, ("x",), marks=pytest.mark.slow), (chained, 2, ("z",))]
)
def test_row_wise_densities_are_numpyros(function, classes, rowwise):
    program = bg.GenerativeProgram(function, classes=classes)
    assert program.plan.rowwise == rowwise
    rng, latents = np.random.default_rng(1), LATENTS[function]
    y = rng.integers(0, classes, 23)
    X = rows_of(function, y, rng)
    with jax.enable_x64(True):
        known = handlers.condition(function, {**X, "y": y})
        expected = jax.jit(lambda latents: log_density(known, (23,), {}, latents)[0])(latents)
    assert program.log_density(latents, X, y) == pytest.approx(float(expected), rel=1e-10)
    other = np.random.default_rng(2).permutation(y)
    assert program.log_density(latents, X, other) != pytest.approx(float(expected), rel=1e-6)
    fit = bg.fit(program, X, y, method=bg.MAP())
    best = program.log_density({name: fit.parameters[name] for name in program.latents}, X, y)
    for name in program.latents:
        moved = {key: fit.parameters[key] for key in program.latents}
        moved[name] = moved[name] * 1.02
        moved[name] = moved[name] / moved[name].sum() if name == "probs" else moved[name]
        assert program.log_density(moved, X, y) <= best + 1e-9
    table = program.log_joint(latents, X)
    whole = program.log_density(latents, X, y) - table[np.arange(23), y].sum()
    assert program.log_density(latents, X, other) - table[np.arange(23), other].sum() == pytest.approx(whole, rel=1e-9)


# --- hyperparameters that are distributions -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers():
    """A survey: five categorical columns of three values, of unequal shares."""
    rng = np.random.default_rng(12)
    y = rng.integers(0, 2, 47)
    return {f"q{j}": np.asarray(["a", "b", "c"])[rng.choice(3, 47, p=[0.6, 0.3, 0.1])] for j in range(5)}, y


@pytest.mark.slow
def test_a_concentration_with_a_prior_has_the_posterior_that_evidence_gives_it(answers):
    model = bg.NaiveBayes({"categorical": bg.DirichletCategorical(dist.Gamma(2.0, 1.0))})
    fit = bg.fit(model, *answers, method=bg.NUTS(), seed=6)
    draws = fit.parameters["categorical_3_concentration"]
    grid = np.linspace(0.02, 15.0, 150)
    prior = np.log(grid) - grid
    evidence = [
        bg.fit(bg.NaiveBayes({"categorical": bg.DirichletCategorical(c)}), *answers, method=bg.Exact()).log_evidence
        for c in grid
    ]
    weights = np.exp(prior + evidence - np.max(prior + evidence))
    weights /= weights.sum()
    mean = weights @ grid
    assert_draws_agree(draws, mean, np.asarray(weights @ (grid - mean) ** 2), "concentration")


def test_kappa_with_a_prior_under_map(small):
    numbers = {"mean": [1.0, -2.0], "shape": 3.0, "scale": [1.0, 4.0]}

    def model(kappa):
        return bg.NaiveBayes({"real": bg.NormalInverseGamma(kappa=kappa, **numbers)})

    fit = bg.fit(model(dist.Gamma(2.0, 1.0)), *small, method=bg.MAP())
    best = float(fit.parameters["real_kappa"])
    given = bg.fit(model(best), *small, method=bg.MAP())
    for name, value in given.parameters.items():
        close(fit.parameters[name], value, rtol=1e-5, err_msg=name)
    X = {"real": small[0]}

    def density(kappa):
        point = {**fit.program.latents_of(fit.parameters), "real_kappa": np.asarray(kappa)}
        return fit.program.log_density({name: point[name] for name in fit.program.latents}, X, small[1])

    assert density(best) > max(density(best * 1.05), density(best * 0.95))


def test_closed_forms_refuse_a_distribution_by_name(small):
    model = bg.NaiveBayes({"real": bg.NormalInverseGamma(kappa=dist.Gamma(2.0, 1.0))})
    with pytest.raises(bg.BayesgenError, match=r"'real'.*kappa.*NUTS\(\)"):
        bg.fit(model, *small, method=bg.Exact())


# --- the sampler --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SAMPLED, indirect=True)
def test_the_same_seed_gives_the_same_numbers(case):
    one, _, first = case
    again, other = (bg.fit(one.model, *one.data, method=METHOD, seed=seed) for seed in (22, jax.random.key(6)))
    for name, value in first.parameters.items():
        np.testing.assert_array_equal(value, again.parameters[name])
        assert not np.array_equal(value, other.parameters[name])


def test_thousands_of_chains_need_few_threads_and_two_compilations():
    assert sampler.groups(4) == [2, 2]
    for num_chains in (1, 3, 67, 4096):
        groups = sampler.groups(num_chains)
        assert sum(groups) == num_chains and len(groups) <= 32 and len(set(groups)) <= 2


@pytest.mark.slow
def test_many_chains_have_the_posterior_too(small):
    fit = bg.fit(SMALL, *small, method=bg.NUTS(num_chains=67, num_samples=400), seed=2)
    exact = bg.fit(SMALL, *small, method=bg.Exact())
    draws = fit.parameters["real_mean"]
    assert draws.shape == (67, 400, 2, 2)
    error = draws.mean(1).std(0, ddof=1) / np.sqrt(67)
    assert (np.abs(draws.mean((0, 1)) - exact.parameters["real_mean"]) < 4 * error).all()


SETTINGS = [("num_samples", 0), ("num_chains", 0), ("target_accept_prob", 1.0)]
SETTINGS += [("num_samples", 1000.0), ("num_samples", "5"), ("num_chains", True), ("num_warmup", 2.5)]
SETTINGS += [("target_accept_prob", "high"), ("target_accept_prob", float("nan"))]


@pytest.mark.parametrize("name, value", SETTINGS)
def test_settings_outside_their_range_are_refused(name, value):
    with pytest.raises(bg.ModelError, match=f"NUTS.*{name}"):
        bg.NUTS(**{name: value})


@pytest.mark.parametrize("method", [bg.MAP, bg.MLE])
@pytest.mark.parametrize("value", [0, "x", 2.0, True])
def test_numbers_of_starts_that_are_none_are_refused(method, value):
    with pytest.raises(bg.ModelError, match=f"{method.__name__}: num_starts must be a whole number"):
        method(num_starts=value)
