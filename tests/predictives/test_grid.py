"""Quadrature of a response's log joint, against SciPy: heavy tails, several peaks, every support, rows far out."""

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats
from numpyro.distributions import constraints

from bayesgen.prediction.responses import as_normal, as_student, parabolas
from bayesgen.predictives import GridPredictive, Line, NormalPredictive
from bayesgen.predictives.supports import GAUSS, KRONROD, NODES, antiderivatives, interpolants

close = np.testing.assert_allclose
REAL = Line(dist.biject_to(constraints.real), 0.3, 1.7)
LOC, SCALE = np.array([0.0, 1e-3, -37.0, 5.0, 1e3]), np.array([1.0, 1e-5, 1e-3, 1e3, 2.0])
CASES = {
    "normal": (constraints.real, scipy.stats.norm(LOC, SCALE)),
    "Student t": (constraints.real, scipy.stats.t(np.array([4.0, 3.5, 5.0, 4.5, 30.0]), LOC, SCALE)),
    "Gumbel": (constraints.real, scipy.stats.gumbel_r(LOC, SCALE)),
    "gamma": (constraints.positive, scipy.stats.gamma(np.array([0.5, 1.0, 2.0, 30.0, 900.0]), scale=3.0)),
    "beta": (constraints.unit_interval, scipy.stats.beta(np.array([0.5, 1.0, 2.0, 4e3, 3.0]), 2.5)),
    "bounded": (constraints.interval(-2.0, 5.0), scipy.stats.beta([2.0] * 5, 3.0, loc=-2, scale=7)),
    "above": (constraints.greater_than(4.0), scipy.stats.gamma([2.0] * 5, loc=4.0)),
}
every = pytest.mark.parametrize("name", CASES)


def line_of(support, oracle):
    """About values of the first and the third distribution, which tell little of the others."""
    values = oracle.rvs((200, 5), random_state=np.random.default_rng(0))
    return Line.of(support, values[:, [0, 2]].ravel())


def on_grid(name):
    support, oracle = CASES[name]
    parameters = [np.broadcast_to(p, (5,)) for p in oracle.args]
    keywords = {key: np.broadcast_to(p, (5,)) for key, p in oracle.kwds.items()}
    shift = np.array([0.0, 700.0, -1e4, 3.0, 0.5])  # of the log joint: log p(x)

    def log_joint(places, values):
        with np.errstate(divide="ignore", over="ignore"):
            of_rows = {key: p[places] for key, p in keywords.items()}
            return oracle.dist.logpdf(values, *(p[places] for p in parameters), **of_rows) + shift[places]

    predictive = GridPredictive.of(log_joint, 5, line_of(support, oracle))
    return predictive, oracle, predictive.log_normalizer - shift


def test_the_rules_are_exact_for_polynomials():
    for power in range(23):
        exact = (1 - (-1) ** (power + 1)) / (power + 1)
        close(KRONROD @ NODES**power, exact, atol=1e-15)
        if power < 14:
            close(GAUSS @ NODES**power, exact, atol=1e-15)
    x = np.linspace(-1, 1, 7)
    for power in (0, 3, 14):
        close(interpolants(x) @ NODES**power, x**power, atol=1e-13)
        close(antiderivatives(x) @ NODES**power, (x ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1), atol=1e-14)


@every
def test_densities_moments_and_quantiles_are_scipys(name):
    predictive, oracle, log_normalizer = on_grid(name)
    close(log_normalizer, 0.0, atol=1e-8)
    close(predictive.mean, oracle.mean(), rtol=1e-6, atol=1e-8)
    close(predictive.std, oracle.std(), rtol=1e-4 if name == "Student t" else 1e-6)
    for q in (0.003, 0.2, 0.5, 0.99):
        close(oracle.cdf(predictive.quantile(q)), q, rtol=1e-6)
        close(predictive.cdf(oracle.ppf(q)), q, rtol=1e-6)
        close(predictive.log_density(oracle.ppf(q)), oracle.logpdf(oracle.ppf(q)), rtol=1e-7, atol=1e-6)


def test_the_score_on_a_grid_is_that_of_the_distribution():
    predictive, *_ = on_grid("normal")
    y = np.array([0.3, 1.0, -37.001, -1e4, 1e3])
    close(predictive.crps(y), NormalPredictive(LOC, SCALE).crps(y), rtol=1e-6)


def test_values_beyond_the_support():
    predictive, *_ = on_grid("bounded")
    assert np.isneginf(predictive.log_density(np.asarray(5.5))).all()
    close(predictive.cdf(np.asarray(5.5)), 1.0)
    close(predictive.cdf(np.asarray(-3.0)), 0.0)
    assert np.isnan(predictive.cdf(np.full(5, np.nan))).all()


def test_draws_are_of_the_distribution():
    predictive, oracle, _ = on_grid("gamma")
    draws = predictive.draws(np.random.default_rng(1), 500)
    assert draws.shape == (500, 5)
    for row in range(5):
        assert scipy.stats.kstest(oracle.cdf(draws)[:, row], "uniform").pvalue > 1e-3


def test_several_peaks_are_all_found():
    x, noise = np.array([4.0, 0.0, 100.0, -2.0]), 1e-3

    def log_joint(places, values):
        return scipy.stats.norm.logpdf(values) + scipy.stats.norm.logpdf(x[places], values**2, noise)

    predictive = GridPredictive.of(log_joint, 4, REAL)
    close(predictive.mean, 0.0, atol=1e-6)
    close(predictive.cdf(np.zeros(4)), 0.5, rtol=1e-7)
    close(predictive.quantile(0.75)[[0, 2]], np.sqrt(x[[0, 2]]), rtol=1e-3)
    for row, top in ((0, 2.0), (1, 0.0), (3, 0.0)):
        width = 0.3 if row == 1 else 0.01
        at_top = log_joint(np.array([row]), np.array([top]))
        integral, _ = scipy.integrate.quad(
            lambda y, row=row, at_top=at_top: float(np.exp(log_joint(np.array([row]), np.array([y])) - at_top)[0]),
            top - width, top + width, points=[top], epsabs=0, epsrel=1e-10, limit=200,
        )  # fmt: skip
        sides = 2 if row == 0 else 1
        close(predictive.log_normalizer[row], at_top[0] + np.log(sides * integral), atol=1e-7)


@pytest.mark.parametrize("noise", [1e-2, 1e-3])
def test_no_peak_is_lost_wherever_nodes_happen_to_lie(noise):
    """Two narrow peaks at plus and minus the root of x, each of which an integral about it finds."""
    x = np.linspace(0.5, 9, 199)

    def log_joint(places, values):
        return scipy.stats.norm.logpdf(values, 0.1) + scipy.stats.norm.logpdf(x[places], values**2, noise)

    log_normalizer = GridPredictive.of(log_joint, len(x), REAL).log_normalizer
    offsets = np.linspace(-1, 1, 2001) * 8 * noise / np.sqrt(x)[:, None]
    rows = np.broadcast_to(np.arange(len(x))[:, None], offsets.shape)
    densities = sum(np.exp(log_joint(rows, sign * np.sqrt(x)[:, None] + offsets)) for sign in (1, -1))
    integrals = densities.sum(1) * (offsets[:, 1] - offsets[:, 0])
    close(np.exp(log_normalizer), integrals, rtol=1e-6)


def test_rows_that_are_impossible():
    predictive = GridPredictive.of(lambda places, values: np.where(places == 0, -np.inf, -(values**2)), 2, REAL)
    assert np.isneginf(predictive.log_normalizer).tolist() == [True, False]
    for values in (
        predictive.mean,
        predictive.std,
        predictive.quantile(0.3),
        predictive.cdf(np.zeros(2)),
        predictive.crps(np.zeros(2)),
    ):
        assert np.isnan(values[0]) and np.isfinite(values[1])


def test_jumps_are_cut_down_to():
    predictive = GridPredictive.of(lambda places, y: np.where(y > 0.1, -y, -np.inf), 1, REAL)
    close(predictive.mean, 1.1, rtol=1e-9)
    close(predictive.log_normalizer, -0.1, rtol=1e-8)
    close(predictive.quantile(0.5), 0.1 + np.log(2), rtol=1e-9)


def test_parabolas_are_known_for_what_they_are():
    def log_joint(places, values):
        return scipy.stats.norm.logpdf(values, LOC[places], SCALE[places]) + 70 * places

    predictive, log_normalizer = as_normal(log_joint, 5, REAL)
    close(predictive.loc, LOC, rtol=1e-9, atol=1e-9)
    close(predictive.scale, SCALE, rtol=1e-8)
    close(log_normalizer, 70 * np.arange(5), atol=1e-8)
    assert as_normal(lambda places, values: scipy.stats.t.logpdf(values, 1e3), 1, REAL) is None
    assert as_normal(lambda places, values: -(values**2) - 1e-4 * values**4, 1, REAL) is None
    assert as_normal(lambda places, values: values**2, 1, REAL) is None
    positive = Line(dist.biject_to(constraints.positive), 0.0, 1.0)
    assert as_normal(log_joint, 5, positive) is None


def test_parabolas_far_from_zero_are_known_within_the_rounding_of_the_response():
    """At 10^9 standard deviations from zero the response has seven digits left beside them."""
    loc, scale = np.array([1e9, -2e4]), np.array([1.7, 1e-5])
    normal, log_integral = parabolas(
        lambda places, values: scipy.stats.norm.logpdf(values, loc[places], scale[places]), loc + 0.3 * scale, scale
    )
    close((normal.loc - loc) / scale, 0.0, atol=1e-5)
    close(normal.scale, scale, rtol=1e-5)
    close(log_integral, 0.0, atol=1e-5)
    for unit in (1e-2, 1.0, 1e2):  # in which a cubic is none
        assert parabolas(lambda places, y: -(y**2) - 1e-3 * y**3, np.zeros(1), np.full(1, unit)) is None


def test_student_ts_are_known_for_what_they_are():
    df = np.array([4.0, 1.5, 5.0, 4.5, 30.0])

    def log_joint(places, values):
        return scipy.stats.t.logpdf(values, df[places], LOC[places], SCALE[places]) + 70 * places

    student, log_normalizer = as_student(log_joint, LOC + 0.4 * SCALE, 1.3 * SCALE)
    close(student.df, df, rtol=1e-6)
    close(student.loc, LOC, rtol=1e-7, atol=1e-7)
    close(student.scale, SCALE, rtol=1e-6)
    close(log_normalizer, 70 * np.arange(5), atol=1e-6)
    normal = scipy.stats.norm(0.0, 1.0)
    assert as_student(lambda places, values: normal.logpdf(values), np.zeros(1), np.ones(1)) is None
