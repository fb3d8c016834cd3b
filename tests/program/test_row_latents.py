"""Continuous latents of each row: exact marginals, the posterior of training rows, and what is refused by name."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from generative.written import ESTIMATES, SIGMA, schools
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

import bayesgen as bg
from bayesgen.errors import ConvergenceWarning, FitError, ModelError
from bayesgen.program import WithRowLatents
from bayesgen.runtime import placed
from bayesgen.solvers import Chains

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


SAMPLED = "adapted: with the latents of rows"
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
    return bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS(num_samples=400), seed=0)


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
        density, vector = WithRowLatents.of(SHIFTED.for_covariates({}), statistics), RNG.normal(size=3 + ROWS)
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
    program = EFFECTS.for_covariates({})
    weighted = WithRowLatents.of(program, bg.summarize(EFFECTS, DATA, LABELS, sample_weight=weights).statistics)
    repeated = WithRowLatents.of(program, bg.summarize(EFFECTS, twice, LABELS[places]).statistics)
    jax.tree.map(np.testing.assert_array_equal, weighted, repeated)
    with pytest.raises(FitError, match=r"weight 0\.5, and the program has continuous latents of each row"):
        bg.fit(EFFECTS, DATA, LABELS, sample_weight=np.full(ROWS, 0.5), method=bg.NUTS())
    with pytest.raises(FitError, match="Some rows have a label and some have none"):
        bg.fit(EFFECTS, DATA, np.where(np.arange(ROWS) < 3, None, LABELS), method=bg.NUTS())


@pytest.mark.parametrize(
    "path", ["whitened; latents of rows integrated out", pytest.param(SAMPLED, marks=pytest.mark.slow)]
)
def test_draws_of_latents_of_rows_and_of_the_others_are_exact(fitted, path):
    """Their posterior is the closed form given the other draws; that of the others is exact on a grid."""
    if path == SAMPLED:
        fitted = bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS(num_samples=400, precondition=False), seed=0)
    found = fitted.parameters
    assert found["effect"].shape == (4, 400, ROWS)
    assert fitted.attributes["path"] == path
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
    assert scipy.stats.kstest(scores_of_effects(found, found["effect"]).ravel(), "norm").pvalue > 0.001


def scores_of_effects(latents, effects):
    """Independent and standard normal, if effects are of the posterior given the other latents."""
    mean, spread = latents["mean"].reshape(-1, 2)[:, LABELS], latents["spread"].reshape(-1, 1)
    conditional = spread / (spread**2 + ERROR**2) * (DATA["x"] - mean)
    return (effects.reshape(-1, ROWS) - conditional) * np.sqrt(1 + (spread / ERROR) ** 2)


def test_normal_effects_are_integrated_out_in_closed_form(fitted):
    with_rows = WithRowLatents.of(fitted.program, bg.summarize(EFFECTS, DATA, LABELS).statistics)
    vector = RNG.normal(size=3)
    mean, spread = vector[:2], np.exp(vector[2])
    prior = scipy.stats.norm(0, 3).logpdf(mean).sum() + scipy.stats.halfnorm(0, 2).logpdf(spread) + vector[2]
    with jax.enable_x64(True):
        density = with_rows.with_normal_rows(vector[None]).marginal.by_numpy(vector)
    close(density, prior + marginals(mean, spread, DATA)[np.arange(ROWS), LABELS].sum(), rtol=1e-10)


LOOKALIKES = {
    "heavy tails": lambda effect, error: dist.StudentT(5.0, effect, error),
    "in part of the range": lambda effect, error: dist.Normal(jnp.clip(effect, -4.0, 4.0), error),
    "with the scale": lambda effect, error: dist.Normal(effect, error * (1 + 0.01 * effect**2)),
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_effects_that_only_look_normal_are_not_taken_for_it(name):
    def lookalike(n, *, error):
        spread = numpyro.sample("spread", dist.HalfNormal(2))
        with numpyro.plate("rows", n):
            effect = numpyro.sample("effect", dist.Normal(0.0, spread))
            numpyro.sample("x", LOOKALIKES[name](effect, error))

    summarized = bg.summarize(bg.GenerativeProgram(lookalike, label=None, local="effect"), DATA)
    with jax.enable_x64(True):
        assert WithRowLatents.of(summarized.model, summarized.statistics).with_normal_rows(np.zeros((1, 1))) is None


LATE = np.arange(150) >= 130  # rows of which the effects are not normal
LATE_FORMS = {"exp": jnp.exp, "cos": jnp.cos, "square": jnp.square, "nearly": lambda effect: effect + 1e-3 * effect**2}


def with_late(form):
    """Effects that are measured as they are, but for those of some rows: a program and rows of it."""

    def function(n, *, is_late):
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        with numpyro.plate("rows", n):
            effect = numpyro.sample("effect", dist.Normal(0.0, spread))
            numpyro.sample("x", dist.Normal(jnp.where(is_late > 0, form(effect), effect), 0.5))

    rows = {"x": np.random.default_rng(2).normal(size=len(LATE)) + 2 * LATE, "is_late": 1.0 * LATE}
    return bg.GenerativeProgram(function, label=None, local="effect"), rows


@pytest.mark.parametrize("name", LATE_FORMS)
def test_effects_of_all_rows_are_to_prove_normal(monkeypatch, name):
    program, rows = with_late(LATE_FORMS[name])
    in_orders = rows, {site: values[::-1] for site, values in rows.items()}, {**rows, "is_late": 0.0 * LATE}
    for cells in (1 << 18, 1):  # all rows at once, and chunk by chunk
        monkeypatch.setattr("bayesgen.program.row_latents.CACHED_CELLS", cells)
        for data, are_normal in zip(in_orders, (False, False, True), strict=True):
            summarized = bg.summarize(program, data)
            with jax.enable_x64(True):
                found = WithRowLatents.of(summarized.model, summarized.statistics).with_normal_rows(np.zeros((1, 1)))
            assert (found is not None) == are_normal


@pytest.mark.slow
def test_late_rows_whose_effects_are_not_normal_are_sampled_with_the_rest():
    program, rows = with_late(jnp.exp)
    for data in (rows, {site: values[::-1] for site, values in rows.items()}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few draws tell the path
            fit = bg.fit(program, data, method=bg.NUTS(num_samples=100, num_warmup=200), seed=0)
        assert fit.attributes["path"] == SAMPLED


def far_off(n, *, error):
    """Effects that are measured as they are, but where their mean is far from its prior."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    with numpyro.plate("rows", n):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
        numpyro.sample("x", dist.Normal(jnp.where(mean > 3, effect + 0.05 * effect**2, effect), error))


def test_effects_that_are_not_normal_where_the_posterior_lies_are_sampled_with_the_rest():
    """No proof meets such values of the mean; the chains do, or start there."""
    model = bg.GenerativeProgram(far_off, label=None, local="effect")
    data = {"x": np.random.default_rng(0).normal(8.0, 1.0, ROWS), "error": np.full(ROWS, 0.5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few draws tell the path
        fit = bg.fit(model, data, method=bg.NUTS(num_samples=100, num_warmup=100, num_chains=2), seed=0)
    assert fit.attributes["path"] == SAMPLED
    assert (fit.parameters["mean"] > 3).any()  # which has, by quadrature, a probability of 1 - 3e-14
    summarized = bg.summarize(model, data)
    with jax.enable_x64(True):
        density = WithRowLatents.of(summarized.model, summarized.statistics)
        assert density.with_normal_rows(np.array([[4.0, 0.0]])) is None
        assert density.with_normal_rows(np.array([[4.0, 0.0], [0.0, 0.0]])) is not None


NEW_ROWS = {name: values[:3] for name, values in DATA.items()}


def tables_of_draws(fit):
    """log p(x, y = k) of the new rows under each draw."""
    return marginals(fit.parameters["mean"].reshape(-1, 2), fit.parameters["spread"].ravel(), NEW_ROWS)


def test_the_latents_of_new_rows_are_integrated_out_under_each_draw(fitted, latents):
    few = dataclasses.replace(fitted, posterior=dataclasses.replace(fitted.posterior, latents=latents, values=latents))
    close(few.log_joint(NEW_ROWS, at="draws"), tables_of_draws(few), atol=1e-5)
    with pytest.raises(ModelError, match="GenerativeProgram has no discrete latents of its rows"):
        fitted.local(NEW_ROWS, rule=bg.PlugIn())


@pytest.mark.slow
def test_averages_integrate_out_the_latents_of_new_rows(fitted):
    answer, tables = bg.predict(fitted, NEW_ROWS, rule=bg.BMA()), tables_of_draws(fitted)
    table = scipy.special.logsumexp(tables, axis=0) - np.log(len(tables))
    close(answer.probabilities, scipy.special.softmax(table, axis=1), atol=1e-5)
    close(answer.log_marginal, scipy.special.logsumexp(table, axis=1), atol=1e-5)


# --- several coordinates ------------------------------------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.7], [0.7, 0.5]])


def lines(n, *, dose):
    """An intercept and a slope of each row, which has three measurements, and a positive latent of its own."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        line = numpyro.sample("line", dist.MultivariateNormal(mean * jnp.ones(2), COVARIANCE))
        numpyro.sample("x", dist.Normal(line[:, :1] + line[:, 1:] * dose, 0.7).to_event(1))


@pytest.mark.slow  # integrals over several coordinates are in every run: test_integration.py
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
    assert program.local == ("theta",) and program.latents == ("mu",) and program.covariates == ("sigma",)


@pytest.mark.slow
def test_latents_of_rows_without_a_plate_are_integrated_out():
    program = bg.GenerativeProgram.from_model(without_plate, SIGMA, y=ESTIMATES)
    expected = scipy.stats.norm(3.0, np.sqrt(4 + SIGMA**2)).logpdf(ESTIMATES)
    close(program.log_joint({"mu": 3.0}, program.read(SIGMA, y=ESTIMATES)[0])[:, 0], expected, atol=1e-6)


# --- funnels ------------------------------------------------------------------------------------------------------


@pytest.fixture
def latents(fitted):
    return {name: fitted.parameters[name][:, ::40] for name in ("mean", "spread")}


@pytest.mark.slow  # such draws of a whole fit are exact in every run, above
def test_rows_are_drawn_exactly_given_the_rest_where_the_quadrature_is_accurate(monkeypatch, fitted, latents):
    with_rows = WithRowLatents.of(fitted.program, bg.summarize(EFFECTS, DATA, LABELS).statistics)
    with jax.enable_x64(True), placed(with_rows.cost):
        found = with_rows.draws_of_rows(latents, 0)["effect"]
        assert found.shape == (4, 10, ROWS)
        scores = scores_of_effects(latents, found)
        assert scipy.stats.kstest(scores.ravel(), "norm").pvalue > 0.001
        close(scores.mean(0), 0, atol=4 / np.sqrt(40))
        monkeypatch.setattr("bayesgen.program.row_latents.MOST_ERROR", 0.0)
        assert with_rows.draws_of_rows(latents, 0) is None


@pytest.mark.parametrize("is_accurate", [True, False])
def test_latents_of_rows_are_integrated_out_where_their_chains_diverge(monkeypatch, latents, is_accurate):
    """Chains and draws of rows are given here; the slow test below makes them."""
    shape, effect = (4, 10), RNG.normal(size=(4, 10, ROWS))

    def chains(self, density, find_starts, *others):
        with_rows = isinstance(density, WithRowLatents)
        stats = {"diverging": np.full(shape, with_rows), "potential_energy": np.zeros(shape)}
        values = latents | {"effect": effect + 1} if with_rows else latents
        return Chains(values, stats, density, "of rows" if with_rows else "whitened", 0.8, [])

    monkeypatch.setattr(bg.NUTS, "_first_chains", chains)
    monkeypatch.setattr(WithRowLatents, "draws_of_rows", lambda *_: {"effect": effect} if is_accurate else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = bg.fit(EFFECTS, DATA, LABELS, method=bg.NUTS(num_samples=10))
    close(fit.parameters["effect"], effect if is_accurate else effect + 1)
    paths = {True: "whitened; latents of rows integrated out", False: SAMPLED}
    assert fit.attributes["path"] == paths[is_accurate]


def exact_schools():
    """Means and standard deviations of mu, tau and theta, by quadrature over tau: given tau, all else is normal."""
    tau = np.tan(np.linspace(0.0, np.pi / 2, 20_002)[1:-1]) * 5  # of equal prior probability, as tau is half-Cauchy
    weights = 1 / (SIGMA**2 + tau[:, None] ** 2)
    precision = 1 / 25 + weights.sum(1)
    mu = weights @ ESTIMATES / precision
    logs = (
        (0.5 * np.log(weights) - 0.5 * weights * ESTIMATES**2).sum(1)
        - 0.5 * np.log(precision)
        + 0.5 * precision * mu**2
    )
    share = 1 - SIGMA**2 * weights  # of the estimate in the mean of theta, given mu
    theta = share * ESTIMATES + (1 - share) * mu[:, None]
    variance = share * SIGMA**2 + (1 - share) ** 2 / precision[:, None]
    given = {"mu": (mu, 1 / precision), "tau": (tau, 0.0 * tau), "theta": (theta, variance)}
    probs = scipy.special.softmax(logs)
    means = {name: probs @ mean for name, (mean, _) in given.items()}
    return {n: (means[n], np.sqrt(probs @ (spread + (mean - means[n]) ** 2))) for n, (mean, spread) in given.items()}


@pytest.mark.slow
def test_eight_schools_are_those_of_quadrature_centred_and_not():
    expected = exact_schools()
    for model in (NOT_CENTRED, schools):
        program, rows, labels = of_schools(model, label="obs")
        method = bg.NUTS(num_samples=2000)
        fit = bg.fit(program, rows, labels, method=method, seed=0)
        assert fit.attributes["path"] == "whitened; latents of rows integrated out"
        found = dict(fit.parameters)
        if "theta" not in found:
            found["theta"] = found["mu"][..., None] + found["tau"][..., None] * found["theta_decentered"]
        for name, (mean, deviation) in expected.items():
            close(found[name].mean((0, 1)), mean, atol=0.25)
            close(found[name].std((0, 1)), deviation, atol=0.25)
        answer = bg.predict(fit, {"sigma": SIGMA[:3]}, rule=bg.BMA())
        scale = np.sqrt(found["tau"].reshape(-1, 1) ** 2 + SIGMA[:3] ** 2)
        logs = scipy.stats.norm(found["mu"].reshape(-1, 1), scale).logpdf(ESTIMATES[:3])
        close(answer.log_density(ESTIMATES[:3]), scipy.special.logsumexp(logs, axis=0) - np.log(len(logs)), atol=1e-5)
