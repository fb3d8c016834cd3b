"""Continuous latents of each row: exact marginals, the posterior of training rows, and what is refused by name."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

import bayesgen as bg
from bayesgen.errors import ConvergenceWarning, FitError, ModelError
from bayesgen.program import WithRowLatents
from bayesgen.runtime import placed

from .written import ESTIMATES, SIGMA, schools

close = np.testing.assert_allclose

ROWS = 23
RNG = np.random.default_rng(0)
SHARE, SHIFT = 0.3, 4.0


def effects(n, *, error):
    """Normal effects of rows about the mean of their class, not centred, and measured with errors."""
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.4))
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mean[y] + spread * effect, error))


def shifted(n, *, error):
    """Centred effects, some of them shifted by a discrete latent."""
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.4))
        z = numpyro.sample("z", dist.Bernoulli(SHARE))
        effect = numpyro.sample("effect", dist.Normal(mean[y] + SHIFT * z, spread))
        numpyro.sample("x", dist.Normal(effect, error))


EFFECTS = bg.GenerativeProgram(effects, classes=2, local="effect")
SHIFTED = bg.GenerativeProgram(shifted, classes=2, local=("z", "effect"))
LABELS = np.arange(ROWS) % 2
ERROR = RNG.uniform(0.3, 0.8, ROWS)
DATA = {"x": RNG.normal(np.where(LABELS, 2.0, -1.0) + 1.2 * RNG.normal(size=ROWS), ERROR), "error": ERROR}
LATENTS = {"mean": np.array([-1.0, 2.0]), "spread": np.array(1.2)}
OF_CLASSES, OF_SHIFTS = np.log([0.6, 0.4]), np.log([1 - SHARE, SHARE])


def marginals(mean, spread, rows, shift=0.0):
    """log p(x, y = k) in closed form, classes last; means have the class last."""
    scale = np.sqrt(np.asarray(spread)[..., None] ** 2 + rows["error"] ** 2)[..., None]
    of_x = scipy.stats.norm(np.asarray(mean)[..., None, :] + shift, scale).logpdf(rows["x"][:, None])
    return OF_CLASSES + np.nan_to_num(of_x)


@pytest.fixture(scope="module")
def fitted():
    return bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS(num_warmup=200, num_samples=200), seed=0)


def test_effects_are_integrated_out():
    rows = {**DATA, "x": np.where(np.arange(ROWS) < 3, np.nan, DATA["x"])}
    parts = [log + marginals(*LATENTS.values(), rows, shift) for log, shift in zip(OF_SHIFTS, (0, SHIFT), strict=True)]
    close(SHIFTED.log_joint(LATENTS, rows), scipy.special.logsumexp(parts, axis=0), atol=1e-6)
    assert SHIFTED.plan.rowwise == ("x", "z", "effect") and not SHIFTED.plan.compressed
    assert dict(SHIFTED.plan.reasons)["x"] == "it depends on the row's latent effect"
    assert SHIFTED.class_axes == {"mean": 0} and SHIFTED.latents == ("mean", "spread")


def test_the_sampled_density_is_that_of_latents_of_rows_and_data():
    with jax.enable_x64(True):
        statistics = bg.summarize(SHIFTED, DATA, LABELS).statistics
        density, vector = WithRowLatents.of(SHIFTED.of_covariates({}), statistics), RNG.normal(size=3 + ROWS)
        mean, spread, effect = vector[:2], np.exp(vector[2]), vector[3:]
        prior = scipy.stats.norm(0, 3).logpdf(mean).sum() + scipy.stats.halfnorm(0, 2).logpdf(spread) + vector[2]
        center = mean[LABELS][:, None] + SHIFT * np.arange(2)
        of_rows = OF_SHIFTS + scipy.stats.norm(center, spread).logpdf(effect[:, None])
        of_rows = scipy.special.logsumexp(of_rows, axis=1) + scipy.stats.norm(effect, ERROR).logpdf(DATA["x"])
        close(density(vector), prior + of_rows.sum() + OF_CLASSES[LABELS].sum(), rtol=1e-10)
        assert [density.name_of(index) for index in (0, 2, 3, 2 + ROWS)] == ["mean", "spread", "effect", "effect"]


def test_a_row_of_weight_two_is_two_rows():
    weights = np.where(np.arange(ROWS) < 2, 2.0, np.where(np.arange(ROWS) < 4, 0.0, 1.0))
    places = np.repeat(np.arange(ROWS), weights.astype(int))
    twice = {name: values[places] for name, values in DATA.items()}
    program = EFFECTS.of_covariates({})
    weighted = WithRowLatents.of(program, bg.summarize(EFFECTS, DATA, LABELS, sample_weight=weights).statistics)
    repeated = WithRowLatents.of(program, bg.summarize(EFFECTS, twice, LABELS[places]).statistics)
    jax.tree.map(np.testing.assert_array_equal, weighted, repeated)
    with pytest.raises(FitError, match=r"weight 0\.5, and the program has continuous latents of each row"):
        bg.fit(EFFECTS, DATA, LABELS, sample_weight=np.full(ROWS, 0.5), method=bg.NUTS())
    with pytest.raises(FitError, match="Some rows have a label and some have none"):
        bg.fit(EFFECTS, DATA, np.where(np.arange(ROWS) < 3, None, LABELS), method=bg.NUTS())


def test_latents_of_rows_are_sampled_with_the_rest(fitted):
    """Their posterior is the closed form given the other draws; that of the others is exact on a grid."""
    found = fitted.parameters
    assert found["effect"].shape == (4, 200, ROWS)
    assert fitted.attributes["path"] == "whitened; latents of rows integrated out"
    assert fitted.to_datatree()["posterior"]["effect"].dims == ("chain", "draw", "row")
    first, second, spread = np.meshgrid(
        np.linspace(-3, 1, 33), np.linspace(0, 4, 33), np.linspace(0.3, 3, 40), indexing="ij"
    )
    mean = np.stack([first, second], axis=-1).reshape(-1, 2)
    logs = marginals(mean, spread.ravel(), DATA)[:, np.arange(ROWS), LABELS].sum(1)
    logs += scipy.stats.norm(0, 3).logpdf(mean).sum(1) + scipy.stats.halfnorm(0, 2).logpdf(spread.ravel())
    weights = scipy.special.softmax(logs)
    close(found["mean"].mean((0, 1)), weights @ mean, atol=0.1)
    close(found["spread"].mean(), weights @ spread.ravel(), atol=0.05)
    mean, spread = found["mean"].reshape(-1, 2)[:, LABELS], found["spread"].reshape(-1, 1)
    conditional = spread / (spread**2 + ERROR**2) * (DATA["x"] - mean)
    close(found["effect"].mean((0, 1)), conditional.mean(0), atol=0.1)
    precision = 1 + (spread / ERROR) ** 2
    scores = (found["effect"].reshape(-1, ROWS) - conditional) * np.sqrt(precision)  # independent and standard normal
    assert scipy.stats.kstest(scores.ravel(), "norm").pvalue > 0.001


def test_averages_integrate_out_the_latents_of_new_rows(fitted):
    rows = {name: values[:7] for name, values in DATA.items()}
    answer = bg.predict(fitted, rows, rule=bg.BMA())
    tables = marginals(fitted.parameters["mean"].reshape(-1, 2), fitted.parameters["spread"].ravel(), rows)
    table = scipy.special.logsumexp(tables, axis=0) - np.log(len(tables))
    close(answer.probabilities, scipy.special.softmax(table, axis=1), atol=1e-5)
    close(answer.log_marginal, scipy.special.logsumexp(table, axis=1), atol=1e-5)
    with pytest.raises(ModelError, match="GenerativeProgram has no discrete latents of its rows"):
        fitted.local(rows, rule=bg.PlugIn())


# --- several coordinates ------------------------------------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.7], [0.7, 0.5]])


def lines(n, *, dose):
    """An intercept and a slope of each row, which has three measurements, and a positive latent of its own."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        line = numpyro.sample("line", dist.MultivariateNormal(mean * jnp.ones(2), COVARIANCE))
        numpyro.sample("x", dist.Normal(line[:, :1] + line[:, 1:] * dose, 0.7).to_event(1))


def test_several_latents_are_integrated_out_by_importance_sampling():
    program = bg.GenerativeProgram(lines, label=None, local="line")
    rows = {"x": RNG.normal(size=(6, 3)), "dose": RNG.normal(size=(6, 3))}
    design = np.stack([np.ones((6, 3)), rows["dose"]], axis=-1)
    covariance = design @ COVARIANCE @ np.swapaxes(design, 1, 2) + 0.49 * np.eye(3)
    parts = zip(0.4 * design.sum(2), covariance, rows["x"], strict=True)
    expected = [scipy.stats.multivariate_normal(mean, cov).logpdf(x) for mean, cov, x in parts]
    close(program.log_joint({"mean": 0.4}, rows)[:, 0], expected, atol=0.02)


def test_many_latents_of_a_row_are_refused_in_prediction():
    def function(n):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", n):
            many = numpyro.sample("many", dist.Normal(0, scale).expand([5]).to_event(1))
            numpyro.sample("x", dist.Normal(many.sum(-1), 1.0))

    program = bg.GenerativeProgram(function, label=None, local="many")
    with pytest.raises(ModelError, match="'many', have 5 coordinates, and up to 4 are integrated out"):
        program.log_joint({"scale": 1.0}, {"x": np.zeros(3)})


@pytest.mark.parametrize("method", [bg.MAP(), bg.MLE(), bg.Exact()])
def test_methods_without_draws_are_refused_naming_nuts(method):
    with pytest.raises(FitError, match=r"Use NUTS\(\)"):
        bg.fit(EFFECTS, DATA, LABELS, method=method)


def test_draws_beyond_the_memory_of_the_machine_are_refused(monkeypatch):
    monkeypatch.setattr("bayesgen.runtime.devices.memory", lambda: 1e6)
    with pytest.raises(FitError, match=r"draws of the latents of 23 rows take .* Lower num_samples or num_chains"):
        bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS())


# --- models as they are written -----------------------------------------------------------------------------------

NOT_CENTRED = handlers.reparam(schools, config={"theta": LocScaleReparam(0)})


def without_plate(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    theta = numpyro.sample("theta", dist.Normal(mu, 2.0).expand([len(sigma)]))
    numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def of_schools(model, **options):
    program = bg.GenerativeProgram.from_model(model, 8, SIGMA, y=ESTIMATES, **options)
    return program, *program.read(8, SIGMA, y=ESTIMATES)


@pytest.mark.parametrize(("model", "latent"), [(schools, "theta"), (NOT_CENTRED, "theta_decentered")])
def test_models_as_they_are_written_have_latents_of_rows(model, latent):
    program, rows, labels = of_schools(model)
    assert program.local == (latent,) and program.latents == ("mu", "tau") and program.covariates == ("sigma",)
    assert labels is None and set(rows) == {"obs", "sigma"}


def test_models_without_a_plate_have_latents_of_rows():
    program = bg.GenerativeProgram.from_model(without_plate, SIGMA, y=ESTIMATES)
    expected = scipy.stats.norm(3.0, np.sqrt(4 + SIGMA**2)).logpdf(ESTIMATES)
    found = program.log_joint({"mu": 3.0}, program.read(SIGMA, y=ESTIMATES)[0])[:, 0]
    assert program.local == ("theta",)
    close(found, expected, atol=1e-6)


def test_rows_are_not_drawn_where_the_quadrature_is_not_accurate(monkeypatch, fitted):
    density = WithRowLatents.of(fitted.program, bg.summarize(EFFECTS, DATA, LABELS).statistics)
    monkeypatch.setattr("bayesgen.program.row_latents.MOST_ERROR", 0.0)
    with jax.enable_x64(True), placed(density.cost):  # as in the fit, which has compiled it
        assert density.draws_of_rows(fitted.posterior.latents, 0) is None


@pytest.mark.slow
def test_latents_are_sampled_with_the_others_where_the_quadrature_is_not_accurate(monkeypatch):
    monkeypatch.setattr("bayesgen.program.row_latents.MOST_ERROR", 0.0)
    fit = bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS(num_samples=500), seed=0)
    assert fit.attributes["path"] == "adapted: with the latents of rows"
    assert fit.parameters["effect"].shape == (4, 500, ROWS)


@pytest.mark.slow
def test_eight_schools_agree_with_numpyro_centred_and_not():
    sampler = MCMC(NUTS(NOT_CENTRED, target_accept_prob=0.9), num_warmup=1000, num_samples=8000, progress_bar=False)
    with jax.enable_x64(True):
        sampler.run(jax.random.key(0), 8, SIGMA, y=ESTIMATES)
    expected = {name: np.asarray(values) for name, values in sampler.get_samples().items()}
    for model, tolerance in [(NOT_CENTRED, 0.25), (schools, 0.5)]:
        program, rows, labels = of_schools(model, label="obs")
        method = bg.NUTS(num_samples=2000, num_warmup=2000, target_accept_prob=0.97)
        with warnings.catch_warnings():
            if model is schools:  # whose chains diverge in the funnel, NumPyro's too
                warnings.simplefilter("ignore", ConvergenceWarning)
            fit = bg.fit(program, rows, labels, method=method, seed=0)
        found = dict(fit.parameters)
        if "theta" not in found:
            found["theta"] = found["mu"][..., None] + found["tau"][..., None] * found["theta_decentered"]
        for name in ("mu", "tau", "theta"):
            close(found[name].mean((0, 1)), expected[name].mean(0), atol=tolerance)
            close(found[name].std((0, 1)), expected[name].std(0), atol=tolerance)
        answer = bg.predict(fit, {"sigma": SIGMA[:3]}, rule=bg.BMA())
        scale = np.sqrt(found["tau"].reshape(-1, 1) ** 2 + SIGMA[:3] ** 2)
        logs = scipy.stats.norm(found["mu"].reshape(-1, 1), scale).logpdf(ESTIMATES[:3])
        close(answer.log_density(ESTIMATES[:3]), scipy.special.logsumexp(logs, axis=0) - np.log(len(logs)), atol=1e-5)
