"""Programs of one's own with hidden Markov models: how their sites meet data, and both answers, by other means."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from prediction.draws import at_point
from scipy.special import expit, logsumexp

import bayesgen as bg
from bayesgen.posteriors import Draws
from bayesgen.sequences import HiddenMarkovLikelihood
from bayesgen.statistics import RetainedRows

MOVES = np.array([[0.8, 0.2], [0.3, 0.7]])
START = np.array([0.6, 0.4])
STEPS = 5


def signals(n):
    """The hidden chain of a class is that of the other one with its means shifted."""
    shift = numpyro.sample("shift", dist.Normal(0.0, 2.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(np.array([0.5, 0.5])))
        loc = jnp.array([-1.0, 2.0]) + (shift * y)[:, None]
        numpyro.sample("x", bg.HiddenMarkov(START, MOVES, dist.Normal(loc, 0.9), STEPS))


def heavy_tails(n):
    """Emissions that have no statistic, and beside them some that have."""
    loc = numpyro.sample("loc", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.ones(3)).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(np.array([0.3, 0.7])))
        loc = loc + y[:, None]
        numpyro.sample("x", bg.HiddenMarkov(START, MOVES, dist.StudentT(3.0, loc, 1.0), STEPS))
        numpyro.sample("word", bg.HiddenMarkov(START, MOVES, dist.Categorical(probs), STEPS, symbols="abc"))


def of_paths(of_steps, moves=MOVES):
    """Log density of a sequence, (T, 2) the log densities of its steps: the sum over all paths."""
    num_steps = len(of_steps)
    paths = np.array(list(itertools.product(range(2), repeat=num_steps)), int)
    terms = of_steps[np.arange(num_steps), paths].sum(1) + np.log(moves)[paths[:, :-1], paths[:, 1:]].sum(1)
    return logsumexp(terms + np.log(START)[paths[:, :1]].sum(1))


def of_signal(row, shift, label):
    """Log density of a row of `signals`; NaN are steps that are not seen."""
    of_steps = scipy.stats.norm.logpdf(row[:, None], np.array([-1.0, 2.0]) + shift * label, 0.9)
    return of_paths(np.where(np.isnan(row)[:, None], 0.0, of_steps))


ROWS = np.array(
    [
        [-1.2, -0.7, 1.9, 2.4, 0.3],
        [0.4, 2.9, 3.1, np.nan, 0.2],
        [0.9, 0.1, 0.2, 2.8, np.nan],
        [-0.8, np.nan, np.nan, 1.1, 2.0],
    ]
)
LABELS = np.array([0.0, 1.0, np.nan, 1.0])


@pytest.fixture(scope="module")
def program():
    return bg.GenerativeProgram(signals, classes=2)


@pytest.fixture(scope="module")
def posterior():
    """Grid of shifts, and the posterior density of each: labels that are not known are summed out."""
    grid = np.linspace(-6, 7, 261)
    tables = np.array([[[of_signal(row, shift, label) for label in (0, 1)] for row in ROWS] for shift in grid])
    of_rows = [logsumexp(tables[:, i], 1) if np.isnan(y) else tables[:, i, int(y)] for i, y in enumerate(LABELS)]
    logs = scipy.stats.norm.logpdf(grid, 0, 2) + sum(of_rows)
    return grid, np.exp(logs - logsumexp(logs)), tables


@pytest.fixture(scope="module", params=["quantiles", pytest.param("chains", marks=pytest.mark.slow)])
def fitted(program, posterior, request):
    """Draws of the posterior, by its quantiles in random order, or by NUTS."""
    if request.param == "chains":
        return bg.fit(program, {"x": ROWS}, LABELS, method=bg.NUTS(num_samples=600, num_chains=2), progress=False)
    grid, weights, _ = posterior
    shifts = np.interp((np.arange(400) + 0.5) / 400, weights.cumsum(), grid)
    latents = {"shift": np.random.default_rng(0).permutation(shifts).reshape(2, 200)}
    fit = at_point(program, {"shift": 0.0}, {"x": ROWS}, LABELS)
    return dataclasses.replace(fit, posterior=Draws(fit.program, latents, latents, {}))


@pytest.mark.slow
def test_rows_are_kept_modes_found_and_densities_sums_over_paths(program, posterior):
    assert isinstance(dict(program.plan.compressed)["x"], HiddenMarkovLikelihood)
    assert isinstance(bg.summarize(program, {"x": ROWS}, np.zeros(4)).statistics.summaries["x"], RetainedRows)
    fit = bg.fit(program, {"x": ROWS}, LABELS, method=bg.MAP(), progress=False)
    shift, (grid, weights, _) = float(fit.parameters["shift"]), posterior
    assert abs(shift - grid[weights.argmax()]) <= 0.5 * (grid[1] - grid[0])
    table = [[np.log(0.5) + of_signal(row, shift, label) for label in (0, 1)] for row in ROWS]
    np.testing.assert_allclose(fit.log_joint({"x": ROWS}), table, rtol=1e-10)


def test_draws_and_both_answers_are_those_of_quadrature(fitted, posterior):
    grid, weights, tables = posterior
    draws = np.asarray(fitted.parameters["shift"]).ravel()
    mean = grid @ weights
    spread = np.sqrt((grid - mean) ** 2 @ weights)
    assert abs(draws.mean() - mean) < 4 * spread / np.sqrt(len(draws) / 4)
    assert abs(draws.std() / spread - 1) < 0.15
    joint = weights @ np.exp(tables.reshape(len(grid), -1))
    expected = joint.reshape(4, 2) / joint.reshape(4, 2).sum(1, keepdims=True)
    answer = bg.predict(fitted, {"x": ROWS}, rule=bg.BMA())
    np.testing.assert_allclose(answer.probabilities, expected, atol=0.04)
    plugged = bg.predict(fitted, {"x": ROWS}, rule=bg.PlugIn()).probabilities
    of_mean = [[of_signal(row, draws.mean(), label) for label in (0, 1)] for row in ROWS]
    np.testing.assert_allclose(plugged[:, 1], expit(np.diff(of_mean)[:, 0]), rtol=1e-6)


@pytest.mark.slow
def test_emissions_without_a_statistic_are_evaluated_row_by_row_steps_missing_or_not():
    program = bg.GenerativeProgram(heavy_tails, classes=2)
    assert [name for name, _ in program.plan.compressed] == ["word"]
    assert program.plan.rowwise == ("x",)
    words = ["abcab", "", "cc", "bca"]
    fit = bg.fit(program, {"x": ROWS, "word": words}, LABELS, method=bg.MAP(), progress=False)
    loc, probs = (np.asarray(fit.parameters[name]) for name in ("loc", "probs"))
    expected = np.empty((4, 2))
    for row, label in np.ndindex(4, 2):
        of_steps = scipy.stats.t.logpdf(ROWS[row][:, None], 3.0, loc + label, 1.0)
        of_steps = np.where(np.isnan(ROWS[row])[:, None], 0.0, of_steps)
        codes = ["abc".index(symbol) for symbol in words[row]]
        expected[row, label] = np.log((0.3, 0.7)[label]) + of_paths(of_steps) + of_paths(np.log(probs.T[codes]))
    np.testing.assert_allclose(fit.log_joint({"x": ROWS, "word": words}), expected, rtol=1e-9)


def test_emissions_may_have_bounds_that_differ_by_state():
    def program(n):
        low = numpyro.sample("low", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(np.array([0.5, 0.5])))
            shifted = low + 0.5 * y[:, None]
            numpyro.sample("x", bg.HiddenMarkov(START, MOVES, dist.Uniform(shifted - 2, shifted + 2), 3))

    model, low = bg.GenerativeProgram(program, classes=2), np.array([0.0, 1.0])
    assert model.structure.attribute["x"].event_shape == (3,)
    drawn = model.simulate(5, seed=0, latents={"low": low})
    assert (drawn["x"] >= -2).all() and (drawn["x"] <= 3.5).all()
