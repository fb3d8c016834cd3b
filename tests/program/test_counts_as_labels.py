"""Programs of one's own whose label is a count, against closed forms, SciPy, and sums over whole numbers."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from prediction.draws import at_point

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws

close = np.testing.assert_allclose
ROWS = 40


def regression(n, *, X):
    slopes = numpyro.sample("slopes", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Poisson(jnp.exp(X @ slopes)))


def visits(n, *, days):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Poisson(rate * days))


def hits(n, *, trials):
    share = numpyro.sample("share", dist.Beta(1, 1))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Binomial(trials, share))


def catch(n):
    """A measurement is made of a count that is often zero."""
    gate, rate = numpyro.sample("gate", dist.Beta(1, 1)), numpyro.sample("rate", dist.Gamma(2.0, 0.5))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.ZeroInflatedPoisson(gate, rate))
        numpyro.sample("weight", dist.Normal(2.0 * y, 3.0))


VISITS = bg.GenerativeProgram(visits)
RNG = np.random.default_rng(4)
X = RNG.normal([1.0, 0.0], 1.0, (ROWS, 2))
DAYS, TRIALS = RNG.uniform(1, 9, ROWS), RNG.integers(1, 30, ROWS)
OF_VISITS = RNG.poisson(3.0 * DAYS)
NEW_DAYS = np.array([1.0, 4.5, 60.0])


@pytest.fixture(scope="module")
def fit():
    """Independent draws from the posterior of four rows, which is a gamma distribution."""
    rate = np.random.default_rng(5).gamma(2.0 + OF_VISITS[:4].sum(), 1 / (0.5 + DAYS[:4].sum()), (4, 200))
    problem = prepare(VISITS, {"days": DAYS[:4]}, OF_VISITS[:4])
    return problem.result(bg.NUTS(), Draws(problem.program, {"rate": rate}, {"rate": rate}, {}))


@pytest.fixture(scope="module")
def point():
    return bg.fit(VISITS, {"days": DAYS}, OF_VISITS, method=bg.MLE())


def test_regression_of_counts():
    y = RNG.poisson(np.exp(X @ [0.7, -0.4]))
    fit = bg.fit(bg.GenerativeProgram(regression), {"X": X}, y, method=bg.MAP())

    def loss(slopes):
        return -scipy.stats.poisson.logpmf(y, np.exp(X @ slopes)).sum() + (slopes**2).sum() / 8

    slopes = scipy.optimize.minimize(loss, np.zeros(2), options={"gtol": 1e-8}).x
    close(fit.parameters["slopes"], slopes, rtol=1e-4)
    answer = bg.predict(fit, {"X": X}, rule=bg.PlugIn())
    oracle = scipy.stats.poisson(np.exp(X @ fit.parameters["slopes"]))
    close(answer.mean, oracle.mean(), rtol=1e-9)
    close(answer.log_density(y), oracle.logpmf(y), rtol=1e-9)
    np.testing.assert_array_equal(answer.quantile([0.05, 0.5, 0.99]).T, oracle.ppf([[0.05], [0.5], [0.99]]))
    assert answer.log_marginal is None


def test_plug_in_of_counts(point):
    close(point.parameters["rate"], OF_VISITS.sum() / DAYS.sum(), rtol=1e-6)
    answer = bg.predict(point, {"days": NEW_DAYS}, rule=bg.PlugIn())
    oracle, y = scipy.stats.poisson(point.parameters["rate"] * NEW_DAYS), np.array([2.0, 20.0, 170.0])
    close(answer.std, oracle.std(), rtol=1e-9)
    close(answer.cdf(y), oracle.cdf(y), rtol=1e-9, atol=1e-10)
    k = np.arange(600)[:, None]
    close(answer.crps(y), ((oracle.cdf(k) - (k >= y)) ** 2).sum(0), rtol=1e-8)
    pit = answer.pit(y)
    assert ((oracle.cdf(y - 1) < pit) & (pit < oracle.cdf(y))).all()
    assert np.array_equal(pit, answer.pit(y)) and not np.array_equal(pit, answer.pit(y, seed=1))
    draws = answer.draws(500, seed=1)
    assert (draws == np.floor(draws)).all()
    close(draws.mean(0), oracle.mean(), atol=5 * oracle.std().max() / 500**0.5)


def test_average_over_draws_is_the_negative_binomial(fit):
    answer = bg.predict(fit, {"days": NEW_DAYS}, rule=bg.BMA())
    shape, rate = 2.0 + OF_VISITS[:4].sum(), 0.5 + DAYS[:4].sum()
    oracle, y = scipy.stats.nbinom(shape, rate / (rate + NEW_DAYS)), np.array([3.0, 15.0, 190.0])
    assert (np.abs(answer.mean - oracle.mean()) < 4 * answer.standard_error).all()
    close(answer.std, oracle.std(), rtol=0.05)
    close(answer.log_density(y), oracle.logpmf(y), atol=0.1)
    alike = bg.predict(fit, {"days": NEW_DAYS}, rule=bg.ConditionalAverage())  # as days are given
    close(alike.log_density(y), answer.log_density(y), rtol=1e-7)
    rates = fit.parameters["rate"].ravel()
    k = np.arange(400)
    for i, days in enumerate(NEW_DAYS):
        mixed = scipy.stats.poisson.cdf(k[:, None], rates * days).mean(1)
        close(answer.cdf(y)[i], mixed[int(y[i])], rtol=1e-7)
        close(answer.crps(y)[i], ((mixed - (k >= y[i])) ** 2).sum(), rtol=1e-7)
        assert answer.quantile(0.9)[i] == (mixed < 0.9).sum()


@pytest.mark.slow
def test_models_as_they_are_written_have_counts_as_labels():
    def model(trials, y=None):
        share = numpyro.sample("share", dist.Beta(2, 3))
        numpyro.sample("y", dist.Binomial(trials, share), obs=y)

    y = RNG.binomial(TRIALS, 0.3)
    program = bg.GenerativeProgram.from_model(model, TRIALS, y, label="y")
    fit = bg.fit(program, *program.read(TRIALS, y), method=bg.MAP())
    close(fit.parameters["share"], (y.sum() + 1) / (TRIALS.sum() + 3), rtol=1e-4)
    answer = bg.predict(fit, program.read(np.array([2, 9]))[0], rule=bg.PlugIn())
    oracle = scipy.stats.binom([2, 9], fit.parameters["share"])
    np.testing.assert_array_equal(answer.quantile([0.2, 0.8]).T, oracle.ppf([[0.2], [0.8]]))


def test_trials_bound_a_binomial_in_each_row():
    y = RNG.binomial(TRIALS, 0.3)
    program = bg.GenerativeProgram(hits)
    fit = bg.fit(program, {"trials": TRIALS}, y, method=bg.MLE())
    close(fit.parameters["share"], y.sum() / TRIALS.sum(), rtol=1e-6)
    new = np.array([1, 7, 400])
    answer = bg.predict(fit, {"trials": new}, rule=bg.PlugIn())
    oracle = scipy.stats.binom(new, fit.parameters["share"])
    np.testing.assert_array_equal(answer.quantile([0.2, 0.8]).T, oracle.ppf([[0.2], [0.8]]))
    close(answer.log_density(new - 1), oracle.logpmf(new - 1), rtol=1e-8)
    close(answer.cdf(new), 1.0, rtol=1e-10)
    assert np.isneginf(answer.log_density(new + 1)).all()
    with pytest.raises(bg.DataError, match=r"'y': 1 values are outside.*the first is 31\.0 in row 2"):
        bg.fit(program, {"trials": TRIALS}, np.where(np.arange(ROWS) == 2, 31, y), method=bg.MLE())
    assert len(bg.predict(fit, {"trials": new[:0]}, rule=bg.PlugIn())) == 0


def test_counts_that_make_other_attributes():
    y = np.where(RNG.random(ROWS) < 0.3, 0, RNG.poisson(4.0, ROWS))
    gate, rate = 0.3, 4.2
    fit = at_point(bg.GenerativeProgram(catch), {"gate": gate, "rate": rate}, {"weight": RNG.normal(2.0 * y, 3.0)}, y)
    new, k = np.array([-1.0, 6.0, 30.0]), np.arange(200)
    answer = bg.predict(fit, {"weight": new}, rule=bg.PlugIn())
    logs = np.logaddexp(np.where(k == 0, np.log(gate), -np.inf), np.log1p(-gate) + scipy.stats.poisson.logpmf(k, rate))
    logs = logs + scipy.stats.norm.logpdf(new[:, None], 2.0 * k, 3.0)
    log_marginal = scipy.special.logsumexp(logs, axis=1)
    close(answer.log_marginal, log_marginal, rtol=1e-9)
    close(answer.mean, np.exp(logs - log_marginal[:, None]) @ k, rtol=1e-9)
    close(answer.log_density(3), logs[:, 3] - log_marginal, rtol=1e-9)


def test_counts_are_compared(point):
    y_test = scipy.stats.poisson(3.0 * DAYS).rvs(random_state=np.random.default_rng(1))
    train, test = {"days": DAYS}, {"days": DAYS}
    found = bg.compare(VISITS, train, OF_VISITS, test, y_test, methods=[(bg.MLE(), bg.PlugIn())])
    row, answer = found.table.iloc[0], bg.predict(point, test, rule=bg.PlugIn())
    oracle = scipy.stats.poisson(point.parameters["rate"] * DAYS)
    close(row.log_score, oracle.logpmf(y_test).mean(), rtol=1e-9)
    close(row.crps, answer.crps(y_test).mean())
    assert row.coverage_80 == np.mean((oracle.ppf(0.1) <= y_test) & (y_test <= oracle.ppf(0.9)))
    pit = found.predictions["pit"].to_numpy()
    assert ((oracle.cdf(y_test - 1) <= pit) & (pit <= oracle.cdf(y_test))).all()
    assert scipy.stats.kstest(pit.astype(float), "uniform").pvalue > 1e-3
    with pytest.raises(
        bg.DataError, match=r"y_test has 1 values that are no whole numbers \(the first is 2\.5 at row 3"
    ):
        bg.compare(
            VISITS,
            train,
            OF_VISITS,
            test,
            np.where(np.arange(ROWS) == 3, 2.5, y_test),
            methods=[(bg.MLE(), bg.PlugIn())],
        )


def test_labels_that_are_no_counts_and_those_that_are_missing(point):
    rows = {"days": DAYS}
    with pytest.raises(bg.DataError, match=r"'y': 1 values are outside its support \(whole numbers\).* 2\.5 in row 1"):
        bg.fit(VISITS, rows, np.where(np.arange(ROWS) == 1, 2.5, OF_VISITS), method=bg.MLE())
    with pytest.raises(bg.DataError, match=r"'y': 1 values are outside its support.* -1\.0 in row 6"):
        bg.fit(VISITS, rows, np.where(np.arange(ROWS) == 6, -1, OF_VISITS), method=bg.MLE())
    gone = np.arange(ROWS) == 5
    some = bg.fit(VISITS, rows, np.where(gone, np.nan, OF_VISITS), method=bg.MLE())
    close(some.parameters["rate"], OF_VISITS[~gone].sum() / DAYS[~gone].sum(), rtol=1e-6)


def test_classes_are_stated_and_counts_need_none():
    assert VISITS.response.site == "y" and VISITS.classes == ()

    def counted(n):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Binomial(2, 0.3))
            numpyro.sample("x", dist.Normal(rate * y, 1))

    assert bg.GenerativeProgram(counted).response.is_parent
    assert bg.GenerativeProgram(counted, classes=3).label == "y"
    with pytest.raises(bg.ModelError, match="needs classes="):
        bg.GenerativeProgram(counted, continuous=False)
    with pytest.raises(bg.ModelError, match="samples it from BinomialProbs, of whole numbers"):
        bg.GenerativeProgram(counted, continuous=True)
