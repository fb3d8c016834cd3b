"""Discriminative training of regressions: against least squares, and what has no p(y | x) at hand."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen.errors import FitError

CONDITIONAL = bg.MLE(objective="conditional")
close = np.testing.assert_allclose


@pytest.fixture(scope="module")
def rows():
    """Columns of unlike scales, none of them normal, and a response about a line in them; some have no response."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(61, 2)) ** 2 * [0.01, 100.0]
    y = X @ [50.0, -0.02] + rng.gamma(2.0, size=61)
    y[7:13] = np.nan
    return X, y


def least_squares(X, y):
    there = ~np.isnan(y)
    design = np.column_stack([np.ones(len(X)), X])
    coefficients = np.linalg.lstsq(design[there], y[there], rcond=None)[0]
    means = design @ coefficients
    return means, np.sqrt(np.mean((y - means)[there] ** 2))


def test_jointly_normal_columns_and_response_are_least_squares(rows):
    fit = bg.fit(bg.JointGaussianRegression(), *rows, method=CONDITIONAL)
    answer, (means, scale) = bg.predict(fit, rows[0], rule=bg.PlugIn()), least_squares(*rows)
    close(answer.mean, means, rtol=1e-6)
    close(answer.std, scale, rtol=1e-6)
    scores = scipy.stats.norm(means, scale).logpdf(rows[1])
    assert fit.attributes["objective"] == pytest.approx(np.nansum(scores), rel=1e-9)


def test_a_line_in_given_columns_is_discriminative_as_it_stands(rows):
    fits = [bg.fit(bg.LinearRegression(), *rows, method=method) for method in (CONDITIONAL, bg.MLE())]
    for name, value in fits[0].parameters.items():
        close(value, fits[1].parameters[name], rtol=1e-12)


def sharing(n):
    """The slope is also the mean of x, which is not so in the data."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    scale = numpyro.sample("scale", dist.HalfNormal(3.0))
    with numpyro.plate("rows", n):
        x = numpyro.sample("x", dist.Normal(slope, 2.0))
        numpyro.sample("y", dist.Normal(slope * x, scale))


@pytest.mark.slow
def test_what_columns_say_of_shared_parameters_does_not_count():
    rng = np.random.default_rng(1)
    x = rng.normal(0.5, 2.0, 50)
    y, weights = 2.5 * x + rng.normal(size=50), rng.integers(0, 3, 50)
    program = bg.GenerativeProgram(sharing, label="y")
    fit = bg.fit(program, {"x": x}, y, method=CONDITIONAL, sample_weight=weights)
    slope = (weights * x) @ y / ((weights * x) @ x)
    assert fit.parameters["slope"] == pytest.approx(slope, rel=1e-6)
    assert fit.parameters["scale"] == pytest.approx(
        np.sqrt(np.average((y - slope * x) ** 2, weights=weights)), rel=1e-6
    )
    assert fit.attributes["objective"] > fit.attributes["objective_of_joint_fit"] + 0.5


def test_what_has_no_density_of_the_columns_at_hand_is_refused_by_name(rows):
    with pytest.raises(FitError, match="made from the response 'y'"):
        bg.fit(bg.NaiveBayesRegression(), rows[0], rows[0][:, 0], method=CONDITIONAL)
    with pytest.raises(FitError, match="Hybrid"):
        bg.fit(bg.JointGaussianRegression(), *rows, method=bg.MAP(objective=bg.Hybrid(1.0)))
    model = bg.JointGaussianRegression()
    with pytest.raises(FitError, match="Summaries do not determine"):
        bg.fit(model, bg.summarize(model, *rows), method=CONDITIONAL)
    with pytest.raises(FitError, match="Fit again on all rows"):
        bg.fit(model, *rows, method=CONDITIONAL).update(*rows)
