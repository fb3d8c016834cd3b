"""`NaiveBayesRegression`: a joint normal by SciPy, least squares of each column and quadrature are the oracles."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
from scipy import stats
from sklearn.linear_model import LinearRegression as LeastSquares

import bayesgen as bg
from bayesgen.errors import ConstantColumnWarning, DataError, FitError, ModelError

ROWS = 43
MODEL = bg.NaiveBayesRegression()
close = np.testing.assert_allclose


def data(size=ROWS, seed=6, holes=True):
    """Columns of unlike scales and offsets, some of whose cells are missing."""
    rng = np.random.default_rng(seed)
    y = rng.normal(3.0, 2.0, size)
    X = y[:, None] * [1.0, -2.0, 5e-4, 0.3] + [0.0, 1e3, 5.0, -2.0] + rng.normal(0, [1.0, 3.0, 1e-3, 0.4], (size, 4))
    return np.where(rng.random(X.shape) < 0.2 * holes, np.nan, X), y


X, Y = data()
NEW, NEW_Y = data(5, seed=7)


@pytest.fixture(scope="module")
def exact():
    return bg.fit(MODEL, X, Y, method=bg.Exact())


def joint_normal(parameters):
    """Mean and covariance of (y, columns) of a process, for SciPy."""
    slopes = parameters["real_coefficients"][:, 0]
    mean = np.append(parameters["y_mean"], parameters["real_intercept"] + slopes * parameters["y_mean"])
    loadings = np.append(1.0, slopes)
    noise = np.diag(np.append(0.0, parameters["real_variance"]))
    return mean, parameters["y_variance"] * np.outer(loadings, loadings) + noise


def with_response(fit, rows, y):
    return fit.concrete.response.put(fit.read(rows), y)


@pytest.mark.parametrize("at", ["mean", "mode"])
def test_the_plug_in_answer_is_that_of_a_joint_normal(at, exact):
    parameters = exact.parameters if at == "mean" else bg.fit(MODEL, X, Y, method=bg.MAP()).parameters
    mean, covariance = joint_normal(parameters)
    answer = bg.predict(exact, NEW, rule=bg.PlugIn(at))
    for row, cells in enumerate(NEW):
        there = np.flatnonzero(~np.isnan(cells)) + 1
        of_x = stats.multivariate_normal(mean[there], covariance[np.ix_(there, there)])
        close(answer.log_marginal[row], of_x.logpdf(cells[there - 1]), rtol=1e-8)
        slope = np.linalg.solve(covariance[np.ix_(there, there)], covariance[there, 0])
        close(answer.mean[row], mean[0] + slope @ (cells[there - 1] - mean[there]), rtol=1e-8)
        close(answer.std[row], np.sqrt(covariance[0, 0] - slope @ covariance[there, 0]), rtol=1e-8)
    joint = exact.posterior.log_joint(with_response(exact, NEW, NEW_Y), at)[:, 0]
    close(joint, answer.log_density(NEW_Y) + answer.log_marginal, rtol=1e-8)


def test_maximum_likelihood_is_least_squares_of_each_column():
    parameters = bg.fit(MODEL, X, Y, method=bg.MLE()).parameters
    close(parameters["y_mean"], Y.mean(), rtol=1e-12)
    close(parameters["y_variance"], Y.var(), rtol=1e-12)
    for column in range(X.shape[1]):
        there = ~np.isnan(X[:, column])
        line = LeastSquares().fit(Y[there, None], X[there, column])
        close(parameters["real_coefficients"][column], line.coef_, rtol=1e-9)
        close(parameters["real_intercept"][column], line.intercept_, rtol=1e-9)
        residuals = X[there, column] - line.predict(Y[there, None])
        close(parameters["real_variance"][column], np.mean(residuals**2), rtol=1e-9)


def test_the_joint_predictive_is_a_ratio_of_evidences(exact):
    found = exact.posterior.log_joint(with_response(exact, NEW, NEW_Y), "predictive")[:, 0]
    for row in range(len(NEW)):
        more = exact.update(NEW[row : row + 1], NEW_Y[row : row + 1])
        close(found[row], more.log_evidence - exact.log_evidence, rtol=1e-9)


def test_the_one_step_answer_is_the_joint_normalised(exact):
    answer = bg.predict(exact, NEW, rule=bg.BMA())

    def joint(y, row, power=0):
        rows = with_response(exact, NEW[row : row + 1], np.array([y]))
        return y**power * np.exp(exact.posterior.log_joint(rows, "predictive")[0, 0] - answer.log_marginal[row])

    for row in (0, 3):
        ends = answer.quantile(1e-9)[row], answer.quantile(1 - 1e-9)[row]
        total, first = (
            scipy.integrate.quad(joint, *ends, args=(row, power), limit=200, epsabs=1e-11)[0] for power in (0, 1)
        )
        close(total, 1.0, atol=1e-7)
        close(answer.mean[row], first, rtol=1e-6)
        close(answer.log_density(NEW_Y)[row], np.log(joint(NEW_Y[row], row)), rtol=1e-8)
    average = bg.predict(exact, NEW, rule=bg.ConditionalAverage(num_draws=2000))
    close(answer.mean, average.mean, atol=0.15 * answer.std.max())
    assert answer.standard_error is None


def test_the_density_of_the_program_is_that_of_scipy(exact):
    whole, y = data(holes=False)
    latents = {name: np.asarray(value) for name, value in exact.parameters.items()}
    mean, covariance = joint_normal(latents)
    expected = stats.multivariate_normal(mean, covariance).logpdf(np.column_stack([y, whole])).sum()
    found = exact.program.log_density(latents, {"y": y, "real": whole})
    conjugate = exact.concrete.conjugate(exact.schema)
    close(found, expected + conjugate.log_prior(latents), rtol=1e-9)


def assert_same(one, other):
    for name, value in one.parameters.items():
        close(value, other.parameters[name], rtol=1e-8, err_msg=name)
    close(one.log_evidence, other.log_evidence, rtol=1e-9)


def test_order_weights_chunks_names_and_merging(exact):
    order = np.random.default_rng(0).permutation(ROWS)
    assert_same(bg.fit(MODEL, X[order], Y[order], method=bg.Exact()), exact)
    parts = [slice(0, 17), slice(17, 30), slice(30, ROWS)]
    assert_same(bg.fit(MODEL, ((X[part], Y[part]) for part in parts), method=bg.Exact()), exact)
    one, two, three = (bg.summarize(MODEL, X[part], Y[part], schema=exact.schema) for part in parts)
    assert_same(bg.fit(MODEL, two + one + three, method=bg.Exact()), exact)
    weights = np.random.default_rng(1).integers(0, 3, ROWS)
    copies = np.repeat(np.arange(ROWS), weights)
    weighted = bg.fit(MODEL, X, Y, method=bg.Exact(), sample_weight=weights)
    assert_same(weighted, bg.fit(MODEL, X[copies], Y[copies], method=bg.Exact()))
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = bg.fit(MODEL, frame, Y, method=bg.Exact())
    assert_same(named, exact)
    columns = pd.DataFrame(NEW, columns=list("abcd"))[["c", "a", "d", "b"]]
    rule = bg.PlugIn()
    close(bg.predict(named, columns, rule=rule).mean, bg.predict(exact, NEW, rule=rule).mean, rtol=1e-10)


def test_a_missing_cell_is_dropped_from_its_column():
    """Columns are learned apart: one of them alone, from the rows in which it is there."""
    whole = bg.fit(MODEL, X, Y, method=bg.MLE()).parameters
    there = ~np.isnan(X[:, 1])
    alone = bg.fit(MODEL, X[there, 1:2], Y[there], method=bg.MLE()).parameters
    for name in ("real_intercept", "real_coefficients", "real_variance"):
        close(whole[name][1], alone[name][0], rtol=1e-9)


@pytest.mark.slow
def test_chains_find_the_exact_posterior(exact):
    chains = bg.fit(MODEL, X, Y, method=bg.NUTS(num_samples=400, num_chains=4), seed=1)
    draws = exact.to_datatree(num_draws=1000)["posterior"]
    for name, values in chains.parameters.items():
        values = values.reshape(1600, -1)
        error = np.ravel(draws[name].std(("chain", "draw"))) / np.sqrt(400)
        assert (np.abs(values.mean(0) - np.ravel(exact.parameters[name])) < 4 * error).all(), name
    one, other = (bg.predict(fit, NEW, rule=bg.PlugIn()) for fit in (exact, chains))
    close(one.mean, other.mean, atol=0.1)


@pytest.mark.slow
def test_rows_are_simulated_and_predicted(exact):
    rows = exact.simulate_sites(200, seed=2)
    assert rows["y"].shape == (200,) and rows["real"].shape == (200, 4)
    answer = bg.predict(exact, rows, rule=bg.PlugIn())
    assert np.corrcoef(answer.mean, rows["y"])[0, 1] > 0.9
    close(answer.mean, bg.predict(exact, rows["real"], rule=bg.PlugIn()).mean, rtol=1e-10)


def test_priors_of_ones_own():
    lines = bg.LinearNormalInverseGamma(0.0, 2.0, 1.0, 0.5, 3.0, 2.0, 0.0)
    model = bg.NaiveBayesRegression(lines, bg.NormalInverseGamma(0.0, 1.0, 3.0, 2.0))
    fit = bg.fit(model, X, Y, method=bg.Exact())
    expected = bg.NormalInverseGamma(0.0, 1.0, 3.0, 2.0).log_evidence(Y)
    for column in range(4):
        there = ~np.isnan(X[:, column])
        expected += lines.log_evidence(np.column_stack([Y, X[:, column]])[there])
    close(fit.log_evidence, expected, rtol=1e-9)


@pytest.mark.parametrize("method", [bg.MAP(), bg.Exact()], ids=repr)
def test_lines_through_zero(method):
    """The plug-in answer is that of a joint normal whose columns have means that are proportional to that of y."""
    fit = bg.fit(bg.NaiveBayesRegression(bg.LinearNormalInverseGamma(intercept=False)), X, Y, method=method)
    mean, covariance = joint_normal({**fit.parameters, "real_intercept": 0.0})
    new = NEW[~np.isnan(NEW).any(1)]
    slope = np.linalg.solve(covariance[1:, 1:], covariance[1:, 0])
    answer = bg.predict(fit, new, rule=bg.PlugIn())
    close(answer.mean, mean[0] + (new - mean[1:]) @ slope, rtol=1e-8)
    close(answer.std, np.sqrt(covariance[0, 0] - slope @ covariance[1:, 0]), rtol=1e-8)


@pytest.mark.parametrize("method", [bg.MAP(), bg.Exact()], ids=repr)
def test_a_column_of_which_nothing_is_known_is_refused(method):
    holes = X.copy()
    holes[:, 2] = np.nan
    with pytest.raises(DataError, match=r"'x2' is missing.*flat \(kappa=0\)"):
        bg.fit(bg.NaiveBayesRegression(bg.LinearNormalInverseGamma()), holes, Y, method=method)
    fit = bg.fit(bg.NaiveBayesRegression(bg.LinearNormalInverseGamma(kappa=[0, 0, 1, 0])), holes, Y, method=method)
    assert np.isfinite(bg.predict(fit, holes[:3], rule=bg.PlugIn()).mean).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, np.where(np.arange(ROWS) == 4, np.nan, y)), r"missing in 1 rows, the first at row 4.*Joint"),
        (lambda x, y: (x, np.where(y > 3, "a", "b")), "wants numbers"),
        (lambda x, y: (x.astype(str), y), "takes real columns"),
        (lambda x, y: (np.where(np.isnan(x), 1e200, x), y), "squares overflow"),
    ],
)
def test_bad_data_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        bg.fit(MODEL, *change(X, Y), method=bg.MLE())


def test_what_has_no_estimate_is_refused_by_name():
    constant = np.column_stack([X[:, 0], np.full(ROWS, 3.0)])
    with pytest.raises(FitError, match="'x1'"):
        bg.fit(MODEL, constant, Y, method=bg.MLE())
    with pytest.warns(ConstantColumnWarning, match="x1"):
        fit = bg.fit(MODEL, constant, Y, method=bg.Exact())
    assert np.isfinite(bg.predict(fit, constant[:3], rule=bg.PlugIn()).mean).all()
    with pytest.raises(FitError, match="variance is zero"):
        bg.fit(MODEL, X, np.full(ROWS, 2.0), method=bg.MLE())
    with pytest.raises(ModelError, match="LinearNormalInverseGamma as prior"):
        bg.NaiveBayesRegression(prior=bg.NormalInverseGamma())
    with pytest.raises(ModelError, match="Mixture needs classes"):
        bg.Mixture(MODEL, 2)
    assert dataclasses.replace(MODEL) == MODEL
