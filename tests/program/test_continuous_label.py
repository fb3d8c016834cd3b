"""Programs of one's own with a continuous label, against quadrature and closed forms of their densities."""

import pickle

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from prediction.draws import at_point

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws
from bayesgen.statistics import LinearNormal

close = np.testing.assert_allclose


def line(n):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    noise = numpyro.sample("noise", dist.LogNormal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Normal(mean, 1.5))
        numpyro.sample("x", dist.Normal(slope * y, noise))


def compressed_line(n):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    noise = numpyro.sample("noise", dist.LogNormal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Normal(mean, 1.5))
        numpyro.sample("x", LinearNormal(y[:, None], slope[None], 0.0, noise))


def robust(n):
    spread = numpyro.sample("spread", dist.LogNormal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.StudentT(3.0, 0.0, 2.0))
        numpyro.sample("x", dist.StudentT(2.0, y, spread))


def square(n):
    noise = numpyro.sample("noise", dist.LogNormal(-1, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(y**2, noise))


def waiting(n, *, hours):
    shape = numpyro.sample("shape", dist.LogNormal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Gamma(shape, 0.5))
        numpyro.sample("events", dist.Poisson(y * hours))


def given(n, *, x):
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(slope * x, 0.5))


RNG = np.random.default_rng(0)
Y = RNG.normal(2, 1.5, 60)
X = 0.7 * Y + 0.3 * RNG.normal(size=60)
PROGRAM = bg.GenerativeProgram(line)


@pytest.fixture(scope="module")
def fit():
    return bg.fit(PROGRAM, {"x": X}, Y, method=bg.MLE())


def normal(x, loc, scale):
    """The log density, in a thirtieth of the time that scipy.stats takes for a few numbers."""
    return -0.5 * ((x - loc) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)


def student(x, df, loc, scale):
    """The log density, as above."""
    constant = scipy.special.gammaln((df + 1) / 2) - scipy.special.gammaln(df / 2) - 0.5 * np.log(df * np.pi)
    return constant - np.log(scale) - (df + 1) / 2 * np.log1p(((x - loc) / scale) ** 2 / df)


def by_quadrature(log_joint, low, high, points=None):
    """Log integral, mean, deviation and density of exp(log_joint(y))."""
    grid = np.linspace(low, high, 4001)
    top = np.max([log_joint(y) for y in grid[::40]])

    def moment(power, center=0.0):
        def weighed(y):
            return (y - center) ** power * np.exp(log_joint(y) - top)

        return scipy.integrate.quad(weighed, low, high, limit=2000, epsabs=0, epsrel=1e-10, points=points)[0]

    total = moment(0)
    mean = moment(1) / total
    return np.log(total) + top, mean, np.sqrt(moment(2, mean) / total)


def test_a_continuous_label_is_seen_by_its_distribution():
    assert PROGRAM.response.site == "y" and PROGRAM.response.is_parent and PROGRAM.classes == ()
    assert PROGRAM == bg.GenerativeProgram(line, continuous=True) == pickle.loads(pickle.dumps(PROGRAM))
    assert bg.GenerativeProgram(line, label=None) != PROGRAM and "label='y'" in repr(PROGRAM)
    assert not bg.GenerativeProgram(given).response.is_parent
    assert [name for name, _ in PROGRAM.plan.compressed] == ["y"]
    assert [name for name, _ in bg.GenerativeProgram(compressed_line).plan.compressed] == ["y", "x"]


def test_what_is_no_continuous_label_is_refused():
    def classes(n):
        p = numpyro.sample("p", dist.Beta(1, 1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(p))
            numpyro.sample("x", dist.Normal(1.0 * y, 1))

    def vector(n):
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(m, 1).expand([n, 2]).to_event(1))

    with pytest.raises(bg.ModelError, match="needs classes=: the labels in order"):
        bg.GenerativeProgram(classes)
    with pytest.raises(bg.ModelError, match="samples it from BernoulliProbs, of whole numbers"):
        bg.GenerativeProgram(classes, continuous=True)
    with pytest.raises(bg.ModelError, match="samples it from Normal"):
        bg.GenerativeProgram(line, continuous=False)
    with pytest.raises(bg.ModelError, match="has no such site"):
        bg.GenerativeProgram(line, label="z", continuous=True)
    with pytest.raises(bg.ModelError, match="leave classes= out"):
        bg.GenerativeProgram(line, classes=2, continuous=True)
    with pytest.raises(bg.ModelError, match="must be the codes"):
        bg.GenerativeProgram(line, classes=2)
    with pytest.raises(bg.ModelError, match="one number for each row"):
        bg.GenerativeProgram(vector)
    with pytest.raises(bg.ModelError, match="one number for each row"):
        bg.GenerativeProgram(line, label="mean")


def test_densities_are_those_of_the_distributions():
    latents = {"mean": 1.0, "slope": -0.5, "noise": 0.8}
    table = PROGRAM.log_joint(latents, {"x": X[:5]}, Y[:5])
    oracle = scipy.stats.norm.logpdf(Y[:5], 1.0, 1.5) + scipy.stats.norm.logpdf(X[:5], -0.5 * Y[:5], 0.8)
    close(table[:, 0], oracle, rtol=1e-12)
    prior = sum(scipy.stats.norm.logpdf(v, 0, 10) for v in (1.0, -0.5)) + scipy.stats.lognorm.logpdf(0.8, 1)
    for program in (PROGRAM, bg.GenerativeProgram(compressed_line)):
        close(program.log_density(latents, {"x": X[:5]}, Y[:5]), prior + oracle.sum(), rtol=1e-10)
    made = PROGRAM.simulate(4, seed=1)
    assert sorted(made) == ["x", "y"] and made["y"].shape == (4,)


def test_training_sees_the_label(fit):
    assert fit.schema.response.name == "y" and fit.schema.columns == ("x",)
    close(fit.parameters["mean"], Y.mean(), rtol=1e-6)
    close(fit.parameters["slope"], X @ Y / (Y @ Y), rtol=1e-5)
    assert "predict(fit, X, rule=PlugIn())" in repr(fit)
    other = bg.fit(bg.GenerativeProgram(compressed_line), {"x": X}, Y, method=bg.MLE())
    close(other.parameters["slope"], fit.parameters["slope"], rtol=1e-5)


def test_jointly_normal_pairs_are_answered_in_closed_form(fit):
    answer = bg.predict(fit, {"x": [1.0, -2.0, 300.0]}, rule=bg.PlugIn())
    mean, slope, noise = (float(fit.parameters[name]) for name in ("mean", "slope", "noise"))
    precision = 1 / 1.5**2 + slope**2 / noise**2
    x = np.array([1.0, -2.0, 300.0])
    close(answer.mean, (mean / 1.5**2 + slope * x / noise**2) / precision, rtol=1e-9)
    close(answer.std, precision**-0.5, rtol=1e-9)
    close(answer.log_marginal, scipy.stats.norm.logpdf(x, slope * mean, np.hypot(noise, 1.5 * slope)), rtol=1e-9)
    close(bg.predict(fit, fit.simulate(3), rule=bg.PlugIn()).std, answer.std)


@pytest.mark.slow
def test_heavy_tails_are_answered_by_quadrature():
    rng = np.random.default_rng(1)
    y = 2 * rng.standard_t(3, 80)
    x = y + rng.standard_t(2, 80)
    fit = bg.fit(bg.GenerativeProgram(robust), {"x": x}, y, method=bg.MLE())
    spread, new = float(fit.parameters["spread"]), np.array([0.5, 6.0, 40.0])
    answer = bg.predict(fit, {"x": new}, rule=bg.PlugIn())
    for i, value in enumerate(new):

        def log_joint(y, value=value):
            return student(y, 3, 0, 2) + student(value, 2, y, spread)

        log_total, mean, std = by_quadrature(log_joint, -3e3, 3e3, points=[0, value, value - 2, value + 2, -5, 5])
        close(answer.log_marginal[i], log_total, rtol=1e-7)
        close(answer.mean[i], mean, rtol=1e-5)
        close(answer.std[i], std, rtol=1e-3)
        close(answer.log_density(3.0)[i], log_joint(3.0) - log_total, rtol=1e-7)
    close(answer.cdf(answer.quantile(0.9)), 0.9, rtol=1e-8)


def test_two_answers_to_a_square():
    fit = at_point(bg.GenerativeProgram(square), {"noise": 0.05}, {"x": [4.0, 0.3]}, [-2.0, 0.6])
    answer = bg.predict(fit, {"x": [4.0, 0.25]}, rule=bg.PlugIn())
    close(answer.mean, 0.0, atol=1e-9)
    low, high = answer.quantile([0.25, 0.75]).T
    close(-low, high, rtol=1e-9)
    close(high, [2.0, 0.5], rtol=0.1)


def test_positive_labels_and_covariates():
    rng = np.random.default_rng(3)
    y, hours = rng.gamma(2, 2, 50), rng.uniform(1, 5, 50)
    data = {"events": rng.poisson(y * hours), "hours": hours}
    fit = at_point(bg.GenerativeProgram(waiting), {"shape": 1.8}, data, y)
    new = {"events": [0, 7, 4000], "hours": [1.0, 2.0, 5.0]}
    answer = bg.predict(fit, new, rule=bg.PlugIn())
    shape, rate = float(fit.parameters["shape"]) + np.array(new["events"]), 0.5 + np.array(new["hours"])
    oracle = scipy.stats.gamma(shape, scale=1 / rate)
    close(answer.mean, oracle.mean(), rtol=1e-7)
    close(answer.std, oracle.std(), rtol=1e-7)
    close(answer.quantile(0.05), oracle.ppf(0.05), rtol=1e-7)
    close(answer.log_density(2.0), oracle.logpdf(2.0), rtol=1e-7)
    assert np.isneginf(answer.log_density(-1.0)).all() and answer.cdf(-1.0).tolist() == [0, 0, 0]
    with pytest.raises(bg.DataError, match=r"'y'.*outside its support"):
        bg.fit(bg.GenerativeProgram(waiting), data, -y, method=bg.MAP())


def test_covariates_alone_are_given_and_have_no_density():
    x = np.linspace(-1, 1, 9)
    fit = bg.fit(bg.GenerativeProgram(given), {"x": x}, 3 * x, method=bg.MLE())
    answer = bg.predict(fit, {"x": [2.0, 5.0]}, rule=bg.PlugIn())
    close(answer.mean, [6.0, 15.0], rtol=1e-6)
    close(answer.std, 0.5, rtol=1e-7)
    assert answer.log_marginal is None


def test_labels_that_are_missing(fit):
    y = Y.copy()
    y[3] = np.nan
    with pytest.raises(bg.DataError, match="'y' is missing in 1 rows, the first is row 3"):
        bg.fit(PROGRAM, {"x": X}, y, method=bg.MLE())
    x = np.linspace(-1, 1, 9)
    some = np.where(x > 0.6, np.nan, 3 * x)
    kept = bg.fit(bg.GenerativeProgram(given), {"x": x}, some, method=bg.MLE())
    close(kept.parameters["slope"], 3.0, rtol=1e-6)
    with pytest.raises(bg.DataError, match="y is missing: a regression"):
        bg.fit(PROGRAM, {"x": X}, method=bg.MLE())
    with pytest.raises(bg.PredictionError, match="is an integral over"):
        fit.log_joint({"x": X})
    with pytest.raises(bg.DataError, match="'y' is missing"):
        PROGRAM.log_joint({"mean": 0.0, "slope": 1.0, "noise": 1.0}, {"x": X})
    with pytest.raises(bg.DataError, match="y has dtype"):
        bg.fit(PROGRAM, {"x": X}, ["a"] * 60, method=bg.MLE())


def log_mean(logs):
    return scipy.special.logsumexp(logs) - np.log(len(logs))


@pytest.mark.slow  # those of models are in every run: models/test_response_laws.py, prediction/test_continuous.py
@pytest.mark.parametrize("name", ["line", "robust"])
def test_averages_over_draws_are_their_definition(name):
    function, columns = {"line": (line, ("mean", "slope", "noise")), "robust": (robust, ("spread",))}[name]
    x, y = X[:12], Y[:12]
    rng, shape = np.random.default_rng(3), (2, 60)  # few draws, of which a sum is quickly made
    latents = {"mean": rng.normal(2.0, 0.4, shape), "slope": rng.normal(0.7, 0.1, shape)}
    latents |= {"noise": rng.gamma(20, 1 / 50, shape), "spread": rng.gamma(20, 1 / 20, shape)}
    latents = {column: latents[column] for column in columns}
    problem = prepare(bg.GenerativeProgram(function), {"x": x}, y)
    fit = problem.result(bg.NUTS(), Draws(problem.program, latents, latents, {}))
    draws = [fit.parameters[column].ravel() for column in columns]

    def log_joints(x, y):
        if name == "line":
            return normal(y, draws[0], 1.5) + normal(x, draws[1] * y, draws[2])
        return student(y, 3, 0, 2) + student(x, 2, y, draws[0])

    new = np.array([0.8, 4.0])
    answer = bg.predict(fit, {"x": new}, rule=bg.BMA())
    for i, value in enumerate(new):
        log_total, mean, std = by_quadrature(lambda y, value=value: log_mean(log_joints(value, y)), -60, 60, [0, value])
        close(answer.log_marginal[i], log_total, rtol=1e-5)
        close(answer.mean[i], mean, rtol=1e-5)
        close(answer.std[i], std, rtol=1e-3)
        close(answer.log_density(1.0)[i], log_mean(log_joints(value, 1.0)) - log_total, rtol=1e-5)
    alike = bg.predict(fit, {"x": new}, rule=bg.ConditionalAverage())
    grid = np.linspace(-30, 30, 20001)
    for i, value in enumerate(new):
        logs = log_joints(value, grid[:, None])
        conditional = np.exp(logs - scipy.special.logsumexp(logs, axis=0))
        close(alike.mean[i], grid @ conditional.mean(1), rtol=2e-3)
    assert (alike.standard_error > 0).all() or name == "robust"
