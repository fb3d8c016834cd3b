"""Laws of families of columns about lines: SciPy's densities, least squares and quadrature are the oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from batches import assert_vmap_is_one_by_one
from numpyro import handlers
from scipy import stats
from sklearn.linear_model import BayesianRidge, LinearRegression

import bayesgen.families
from bayesgen.errors import DataError, FitError, ModelError
from bayesgen.families import LinearNormalInverseGamma, Names, Scale, with_sampled_hyperparameters

FEATURES, COLUMNS, CLASSES, ROWS = 3, 2, 2, 23
FAMILIES = {LinearNormalInverseGamma}
MATRIX = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
close = np.testing.assert_allclose

PRIORS = {
    "proper": LinearNormalInverseGamma([0.3, -1.0, 2.0], MATRIX, 0.4, 0.7, 2.6, 1.3, [0.5, 0.0, -1.0]),
    "flat": LinearNormalInverseGamma([0.3, -1.0, 2.0], [0.6, 1.4, 0.2], 0.4, 0.0, 2.6, 1.3, [0.5, 0.0, -1.0]),
    "no intercept": LinearNormalInverseGamma(0.0, MATRIX, shape=2.6, scale=1.3, intercept=False),
}
every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def rows(rng):
    features = rng.normal(0, 1, (ROWS, FEATURES)) @ rng.normal(0, 1, (FEATURES, FEATURES)) + [1.0, -2.0, 4.0]
    return np.column_stack([features, features @ [1.0, -0.5, 0.2] + 3.0 + rng.normal(0, 0.7, ROWS)])


def parameters_near(rng, prior):
    drawn = {"coefficients": rng.normal(0, 1, FEATURES), "variance": np.asarray(rng.gamma(3.0, 0.4))}
    return {"intercept": np.asarray(rng.normal(0, 2)), **drawn} if prior.intercept else drawn


def log_prior(family, parameters):
    """By SciPy; a flat intercept has the density 1."""
    variance, coefficients = parameters["variance"], parameters["coefficients"]
    total = stats.invgamma.logpdf(variance, family.shape, scale=family.scale)
    covariance = variance * np.linalg.inv(family.precision)
    total += stats.multivariate_normal.logpdf(coefficients, family.coefficients, covariance)
    if family.intercept and family.kappa > 0:
        value = parameters["intercept"] + family.center @ coefficients
        total += stats.norm.logpdf(value, family.location, np.sqrt(variance / family.kappa))
    return total


def log_likelihood(parameters, rows, weights=1.0):
    mean = parameters.get("intercept", 0.0) + rows[:, :-1] @ parameters["coefficients"]
    return (weights * stats.norm.logpdf(rows[:, -1], mean, np.sqrt(parameters["variance"]))).sum()


def resolved(prior):
    return prior.resolve(Scale(feature_mean=np.zeros(FEATURES)))


def test_every_family_of_lines_is_here():
    public = {getattr(bayesgen.families, name) for name in bayesgen.families.__all__}
    traits = {family: getattr(family, "traits", None) for family in public}
    assert {family for family in public if getattr(traits[family], "features", False)} == FAMILIES


@every_prior
def test_evidence_and_posterior_satisfy_bayes_rule_at_any_parameters(prior, rows, rng):
    weights = rng.integers(0, 4, ROWS) + 0.0
    posterior = prior.update(rows, weights)
    for _ in range(3):
        parameters = parameters_near(rng, prior)
        expected = log_likelihood(parameters, rows, weights) + log_prior(resolved(prior), parameters)
        close(prior.log_evidence(rows, weights), expected - log_prior(posterior, parameters), rtol=1e-10)


@every_prior
def test_the_predictive_is_the_ratio_of_two_evidences(prior, rows):
    seen, new = rows[:-4], rows[-4:]
    posterior = prior.update(seen)
    with jax.enable_x64(True):
        found = posterior.predictive(new[:, :-1]).log_prob(new[:, -1])
    expected = [prior.log_evidence(np.vstack([seen, row])) - prior.log_evidence(seen) for row in new]
    close(found, expected, rtol=1e-9)


@every_prior
def test_updating_goes_in_any_order_and_weights_are_copies(prior, rows, rng):
    weights = rng.integers(0, 3, ROWS) + 0.0
    copies = np.repeat(rows, weights.astype(int), 0)
    whole = prior.update(rows, weights)
    for other in (prior.update(copies[7:]).update(copies[:7]), prior.update(copies[::-1])):
        for name, value in whole.hyperparameters.items():
            close(value, other.hyperparameters[name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert prior.update(rows[:0]).log_evidence(rows) == pytest.approx(prior.log_evidence(rows), rel=1e-12)


@pytest.mark.parametrize(
    "prior",
    [pytest.param(prior, id=name, marks=[pytest.mark.slow] * (name != "proper")) for name, prior in PRIORS.items()],
)
def test_the_closed_forms_of_many_data_sets_are_one_compiled_call(prior, rows, rng):
    table = resolved(prior)
    sets = [table.summarize(rows, rng.integers(1, 4, ROWS) + 0.0) for _ in range(4)]

    def closed_forms(summary):
        posterior = table.update(summary)
        points = posterior.mean(), posterior.mode(), table.maximum_likelihood(summary)
        return posterior, table.log_evidence(summary), points, posterior.predictive_parameters(rows[:3, :-1])

    assert_vmap_is_one_by_one(closed_forms, sets, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kappa", [0.0, 0.7])
def test_the_evidence_is_an_integral_over_the_parameters(kappa):
    """The trapezoid rule over intercept, slope and log variance, of SciPy's densities."""
    rows = np.array([[0.2, 1.0], [1.0, 1.4], [2.3, 3.1], [2.9, 2.6], [4.0, 4.4]])
    prior = LinearNormalInverseGamma(0.5, 1.5, 1.0, kappa, 3.0, 1.2, 0.4)
    value, slope, log_variance = np.meshgrid(
        np.linspace(-7, 12, 90), np.linspace(-4, 6, 90), np.linspace(-4, 5, 80), indexing="ij", sparse=True
    )
    scale = np.exp(0.5 * log_variance)
    log_density = stats.invgamma.logpdf(scale**2, 3.0, scale=1.2) + log_variance
    log_density = log_density + stats.norm.logpdf(slope, 0.5, scale / np.sqrt(1.5))
    if kappa:
        log_density = log_density + stats.norm.logpdf(value, 1.0, scale / np.sqrt(kappa))
    for x, y in rows:
        log_density = log_density + stats.norm.logpdf(y, value + slope * (x - 0.4), scale)
    cell = np.prod([np.diff(axis.ravel())[0] for axis in (value, slope, log_variance)])
    close(prior.log_evidence(rows), np.log(np.exp(log_density).sum() * cell), atol=1e-5)


@every_prior
def test_moments_of_draws(prior, rows):
    posterior = prior.update(rows)
    draws = posterior.sample(np.random.default_rng(1), (40_000,))
    mean, variance = posterior.mean(), posterior.variance()
    assert set(draws) == set(mean) == set(variance) == set(posterior.parameter_axes())
    for name, values in draws.items():
        assert values.shape == (40_000, *np.shape(mean[name]))
        close(values.mean(0), mean[name], atol=5 * np.sqrt(np.max(variance[name]) / 40_000), err_msg=name)
        close(values.var(0), variance[name], rtol=0.1, err_msg=name)
    close(np.cov(draws["coefficients"].T), posterior.covariance(), rtol=0.1, atol=0.02 * posterior.covariance().max())


@every_prior
def test_the_mode_is_where_the_density_of_the_parameters_is_highest(prior, rows, rng):
    mode = prior.update(rows).mode()

    def density(parameters):
        return log_likelihood(parameters, rows) + log_prior(resolved(prior), parameters)

    for name, value in mode.items():
        for step in np.eye(np.size(value)).reshape(-1, *np.shape(value)):
            size = 1e-4
            up, down = (density({**mode, name: value + sign * size * step}) for sign in (1, -1))
            assert density(mode) > max(up, down) and abs(up - down) < 1e-2 * (2 * density(mode) - up - down)


@every_prior
def test_sites_of_the_program_have_the_density_of_the_prior(prior, rng):
    family = resolved(prior)
    parameters = parameters_near(rng, prior)

    def density(family, sites):
        trace = handlers.trace(handlers.seed(handlers.substitute(family.sample_sites, sites), 0)).get_trace("line")
        return sum(site["fn"].log_prob(site["value"]).sum() for site in trace.values())

    with jax.enable_x64(True):
        total = jax.jit(density)(family, {f"line_{name}": np.asarray(value) for name, value in parameters.items()})
    close(total, log_prior(family, parameters), rtol=1e-10)
    close(family.log_prior(parameters), log_prior(family, parameters), rtol=1e-10)


def test_a_hyperparameter_may_be_a_distribution(rows):
    prior = LinearNormalInverseGamma(precision=dist.Gamma(2.0, jnp.ones(FEATURES)).to_event(1))
    family = prior.resolve(prior.scale_of(prior.summarize(rows)))
    trace = handlers.trace(handlers.seed(lambda: with_sampled_hyperparameters(family, "line").sample_sites("line"), 0))
    with pytest.raises(ModelError, match="flat"):
        jax.eval_shape(lambda: [site["value"] for site in trace.get_trace().values()])
    with pytest.raises(ModelError, match="precision is itself a distribution"):
        prior.update(rows)


def test_tables_of_classes_and_columns_are_their_entries(rows, rng):
    """Shared features, several columns, classes: each entry is a family alone."""
    features, columns = rows[:, :-1], rng.normal(0, 1, (ROWS, COLUMNS)) + rows[:, -1:]
    codes, observed = rng.integers(0, CLASSES, ROWS), rng.random((ROWS, COLUMNS)) < 0.8
    prior = PRIORS["proper"].resolve(Scale(CLASSES, COLUMNS, feature_mean=np.zeros(FEATURES)))
    summary = prior.likelihood.summarize(columns, codes, CLASSES, None, observed, {"features": features})
    posterior, evidence = prior.update(summary), prior.log_evidence_terms(summary)
    df, loc, scale = posterior.predictive_parameters(features)
    found = prior.maximum_likelihood(summary)
    assert evidence.shape == (CLASSES, COLUMNS) and loc.shape == scale.shape == (ROWS, CLASSES, COLUMNS)
    for k in range(CLASSES):
        for column in range(COLUMNS):
            there = observed[:, column] & (codes == k)
            alone = np.column_stack([features, columns[:, column]])[there]
            close(evidence[k, column], PRIORS["proper"].log_evidence(alone), rtol=1e-9)
            of_entry = PRIORS["proper"].update(alone)
            for name, value in of_entry.mean().items():
                close(posterior.mean()[name][k, column], value, rtol=1e-9)
            expected = of_entry.predictive_parameters(features)
            for one, other in zip((df[k, column], loc[:, k, column], scale[:, k, column]), expected, strict=True):
                close(one, other, rtol=1e-9)
            line = LinearRegression().fit(alone[:, :-1], alone[:, -1])
            close(found["coefficients"][k, column], line.coef_, rtol=1e-9)
            close(found["intercept"][k, column], line.intercept_, rtol=1e-9)


# --- least squares ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_maximum_likelihood_is_least_squares(intercept, rows):
    family = LinearNormalInverseGamma(intercept=intercept)
    found = family.maximum_likelihood(family.summarize(rows))
    line = LinearRegression(fit_intercept=intercept).fit(rows[:, :-1], rows[:, -1])
    close(found["coefficients"], line.coef_, rtol=1e-10)
    assert ("intercept" in found) == intercept
    if intercept:
        close(found["intercept"], line.intercept_, rtol=1e-10)
    close(found["variance"], np.mean((rows[:, -1] - line.predict(rows[:, :-1])) ** 2), rtol=1e-10)


def test_posteriors_of_default_priors_follow_the_units_of_the_data(rows):
    """Offsets of a million units and units far apart change nothing but units: evidence of a flat intercept too."""
    units, offsets = np.array([1e-6, 1e3, 7.0, 1e-2]), np.array([1.0, -3e8, 0.0, 1e4])
    moved = rows * units + offsets
    plain, other = (LinearNormalInverseGamma().update(data) for data in (rows, moved))
    close(other.coefficients, plain.coefficients * units[-1] / units[:-1], rtol=1e-6)
    close(other.mean()["variance"], plain.mean()["variance"] * units[-1] ** 2, rtol=1e-6)
    one, two = (LinearNormalInverseGamma().log_evidence(data) for data in (rows, moved))
    close(two, one - (ROWS - 1) * np.log(units[-1]), rtol=1e-6)


def test_the_posterior_is_that_of_bayesian_ridge_at_its_precisions(rows):
    """scikit-learn's `BayesianRidge`: noise 1 / alpha_, prior covariance I / lambda_, flat intercept."""
    features, y = rows[:, :-1], rows[:, -1]
    ridge = BayesianRidge(tol=1e-10, max_iter=2000).fit(features, y)
    known = LinearNormalInverseGamma(precision=ridge.lambda_ / ridge.alpha_, shape=1e12, scale=1e12 / ridge.alpha_)
    posterior = known.update(rows)
    close(posterior.mean()["coefficients"], ridge.coef_, rtol=1e-8)
    close(posterior.mean()["intercept"], ridge.intercept_, rtol=1e-8)
    close(posterior.covariance(), ridge.sigma_, rtol=1e-8)
    close(posterior.mean()["variance"], 1 / ridge.alpha_, rtol=1e-9)


def test_no_features_leave_a_normal_column(rows):
    lone = rows[:, -1:]
    flat, kappa = LinearNormalInverseGamma(), 0.3
    close(flat.maximum_likelihood(flat.summarize(lone))["intercept"], lone.mean(), rtol=1e-12)
    with_mean = LinearNormalInverseGamma(mean=1.0, kappa=kappa, shape=2.0, scale=1.5)
    plain = bayesgen.families.NormalInverseGamma(1.0, kappa, 2.0, 1.5)
    close(with_mean.log_evidence(lone), plain.log_evidence(lone[:, 0]), rtol=1e-12)
    close(with_mean.update(lone).mean()["intercept"], plain.update(lone[:, 0]).mean()["mean"], rtol=1e-12)


def doubled(rows):
    return np.column_stack([rows[:, 0], 2 * rows[:, 0] - 3.0, rows[:, 1], rows[:, -1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (doubled, r"'a', 'b' are linear in each other, so least squares .* MAP\(\) or Exact\(\)"),
        (lambda rows: rows * [1.0, 0.0, 1.0, 1.0] + [0, 7.0, 0, 0], "'b' is constant"),
        (lambda rows: rows[:3], r"linear in each other \(3 rows for 3 features\)"),
        (lambda rows: rows[:4], "residuals of least squares are zero"),
        (lambda rows: rows[:0], "no cell is observed"),
    ],
)
def test_what_least_squares_does_not_tell_is_refused_by_name(change, message, rows):
    family = LinearNormalInverseGamma()
    with pytest.raises(FitError, match=message):
        family.maximum_likelihood(family.summarize(change(rows)), Names("y", None, ["a", "b", "c"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kappa": -1.0}, "kappa must be finite and at least 0"),
        ({"precision": 0.0}, "precision must be positive"),
        ({"precision": [[1.0, 2.0], [2.0, 1.0]]}, "positive-definite"),
        ({"precision": [[1.0, 0.3], [0.0, 1.0]]}, "symmetric"),
        ({"scale": -1}, "scale must be positive"),
        ({"mean": 1.0, "intercept": False}, "leave mean and center out"),
        ({"center": dist.Normal(0, 1)}, "a point that is chosen"),
    ],
)
def test_hyperparameters_that_are_none_are_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        LinearNormalInverseGamma(**arguments)


def test_a_flat_intercept_has_no_moments_before_any_data(rows):
    prior = PRIORS["flat"]
    for verb in ("mean", "mode", "variance"):
        with pytest.raises(ModelError, match="intercept is flat"):
            getattr(prior, verb)()
    with pytest.raises(ModelError, match="intercept is flat"):
        prior.sample(np.random.default_rng(0))
    with pytest.raises(ModelError, match="of a flat prior there are no draws"):
        handlers.seed(resolved(prior).sample_sites, 0)("line")
    assert np.isfinite(prior.update(rows[:1]).mean()["intercept"])
    with pytest.raises(DataError, match="features and then y"):
        prior.update(rows[:, -1])
