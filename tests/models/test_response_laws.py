"""Laws that every model with a continuous label obeys. No formula of a model is written again here."""

import copy
import pickle

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.integrate
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import bayesgen as bg
from bayesgen.data import read_table
from bayesgen.program import program_table
from tests.prediction.draws import drawn

from .cases import take
from .response_cases import CASES, ROWS

every_case = pytest.mark.parametrize("name", CASES)
some_cases = pytest.mark.parametrize(
    "name", [name if name.startswith("line") else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
every_method = pytest.mark.parametrize(
    "method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=lambda method: type(method).__name__
)
close = np.testing.assert_allclose
RULES = {"MLE": [bg.PlugIn()], "MAP": [bg.PlugIn()], "Exact": [bg.PlugIn(), bg.PlugIn("mode"), bg.BMA()]}


def assert_same_fit(one, two, rtol=1e-8):
    assert one.schema == two.schema and set(one.parameters) == set(two.parameters)
    for key, value in one.parameters.items():
        size = np.abs(value).max(initial=0.0)
        close(value, two.parameters[key], rtol=rtol, atol=rtol * size, err_msg=key)
    close(one.schema.response.variance, two.schema.response.variance, rtol=1e-10)
    if one.log_evidence is not None:
        close(one.log_evidence, two.log_evidence, rtol=1e-9)


@every_case
def test_models_are_equal_by_content(name):
    model = CASES[name].model
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again == model and hash(again) == hash(model) and repr(again) == repr(model)
    assert sum(case.model == model for case in CASES.values()) == 1


@every_method
@every_case
def test_a_row_given_twice_is_weight_two(name, method):
    case = CASES[name]
    X, y = case.data
    weights = np.random.default_rng(1).integers(1, 4, ROWS)
    twice = np.repeat(np.arange(ROWS), weights)
    weighted = bg.fit(case.model, X, y, method=method, sample_weight=weights)
    assert_same_fit(weighted, bg.fit(case.model, take(X, twice), y[twice], method=method))


@every_method
@every_case
def test_the_order_of_rows_and_of_columns_does_not_matter(name, method):
    case = CASES[name]
    X, y = case.data
    order = np.random.default_rng(2).permutation(ROWS)
    fit = bg.fit(case.model, X, y, method=method)
    assert_same_fit(fit, bg.fit(case.model, take(X, order), y[order], method=method))
    new, _ = case.new
    for rule in RULES[type(method).__name__]:
        one, other = (bg.predict(fit, x, rule=rule) for x in (new, dict(reversed(new.items()))))
        close(one.mean, other.mean, rtol=1e-13)


@every_method
@every_case
def test_merged_summaries_and_chunks_are_the_rows(name, method):
    case = CASES[name]
    X, y = case.data
    whole = bg.fit(case.model, X, y, method=method)
    schema = bg.summarize(case.model, X, y).schema
    parts = [(take(X, part), y[part]) for part in (slice(0, 4), slice(4, 30), slice(30, ROWS))]
    one, two, three = (bg.summarize(case.model, *part, schema=schema) for part in parts)
    for data in ((one + two) + three, three + (two + one), iter(parts)):
        known = {"schema": schema} if not isinstance(data, bg.Summaries) else {}
        assert_same_fit(bg.fit(case.model, data, method=method, **known), whole)


@every_case
def test_updating_in_sequence_is_one_batch(name):
    case = CASES[name]
    X, y = case.data
    first = bg.fit(case.model, take(X, slice(0, 20)), y[:20], method=bg.Exact(), schema=case.exact.schema)
    assert_same_fit(first.update(take(X, slice(20, ROWS)), y[20:]), case.exact)


@every_case
def test_the_predictive_is_the_ratio_of_two_evidences(name):
    case = CASES[name]
    new, y = case.new
    answer = bg.predict(case.exact, new, rule=bg.BMA())
    assert (answer.log_marginal is not None) == case.models_columns
    log_joint = answer.log_density(y) + (0.0 if answer.log_marginal is None else answer.log_marginal)
    for i in range(len(y)):
        more = case.exact.update(take(new, slice(i, i + 1)), y[i : i + 1])
        close(log_joint[i], more.log_evidence - case.exact.log_evidence, rtol=1e-7)


@every_case
def test_answers_keep_the_index_of_a_frame(name):
    case = CASES[name]
    X, index = case.new[0], pd.MultiIndex.from_product([["a"], [7, 3, 5, 1, 2]])
    for fit in (case.exact, bg.average([case.exact])):
        named, plain = (
            bg.predict(fit, rows, rule=bg.BMA()).to_frame() for rows in (pd.DataFrame(X).set_index(index), X)
        )
        pd.testing.assert_frame_equal(named, plain.set_index(index))


@every_case
def test_densities_integrate_to_one_and_to_the_cdf(name):
    case = CASES[name]
    new, _ = case.new
    row = take(new, slice(0, 1))
    for rule in RULES["Exact"]:
        answer = bg.predict(case.exact, row, rule=rule)
        middle, spread = float(answer.quantile(0.5)[0]), float(answer.std[0])

        def density(value, answer=answer, middle=middle, spread=spread):
            return spread * float(np.exp(answer.log_density(middle + spread * value))[0])

        close(scipy.integrate.quad(density, -np.inf, np.inf, epsabs=1e-10)[0], 1.0, rtol=1e-7)
        below, _ = scipy.integrate.quad(density, -np.inf, 0.7, epsabs=1e-10)
        close(answer.cdf(middle + 0.7 * spread)[0], below, rtol=1e-6)
        close(answer.cdf(answer.quantile([0.01, 0.6]).T).T, [[0.01, 0.6]], rtol=1e-6)


@every_case
def test_averages_over_draws_of_an_exact_fit_come_near_its_predictive(name):
    case = CASES[name]
    new, y = case.new
    exact = bg.predict(case.exact, new, rule=bg.BMA())
    average = bg.predict(case.exact, new, rule=bg.ConditionalAverage(num_draws=3000, seed=2))
    close((average.mean - exact.mean) / exact.std, 0.0, atol=0.1)
    close(average.std / exact.std, 1.0, atol=0.08)
    close(average.log_density(y), exact.log_density(y), atol=0.12)
    assert (average.standard_error < 0.1 * exact.std).all() and (average.standard_error > 0).all()


def test_draws_weigh_by_what_they_say_of_the_columns():
    case, (new, y) = CASES["joint"], CASES["joint"].new
    fit = drawn(case.exact, 2, 50)
    means, covariances = (fit.parameters[f"joint_{name}"] for name in ("mean", "covariance"))
    processes = list(zip(means.reshape(100, 4), covariances.reshape(100, 4, 4), strict=True))
    answer, points = bg.predict(fit, new, rule=bg.BMA()), np.stack([*new.values(), y], axis=1)
    joints, marginals = (
        [multivariate_normal(m[:size], c[:size, :size]).logpdf(points[:, :size]) for m, c in processes]
        for size in (4, 3)
    )
    log_marginal = logsumexp(marginals, axis=0) - np.log(100)
    close(answer.log_marginal, log_marginal, rtol=1e-8)
    close(answer.log_density(y), logsumexp(joints, axis=0) - np.log(100) - log_marginal, rtol=1e-8)
    assert (answer.pareto_k >= 0).all() and bg.predict(fit, new, rule=bg.ConditionalAverage()).pareto_k is None


@every_case
def test_the_density_of_the_program_is_that_of_closed_forms(name):
    case = CASES[name]
    fit = case.exact
    program, prior, statistics = fit.program, fit.concrete.conjugate(fit.schema), fit.summaries.statistics
    draws = fit.posterior.conjugate.sample((2,), np.random.default_rng(2))
    rows = fit.concrete.read_rows(fit.schema, read_table(*case.data))
    for i in range(2):
        parameters = {key: np.asarray(value[i]) for key, value in draws.items()}
        values = program.latents_of(parameters)
        latents = {site: values[site] for site in program.latents}
        with jax.enable_x64(True):
            table = program_table(program, latents, rows)
        close(prior.log_likelihood(statistics, parameters), table.sum(), rtol=1e-8)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("line", "surface"))) for name in CASES]
)
def test_answers_to_many_rows_are_those_to_few(name):
    case = CASES[name]
    new, _ = case.new
    many = {column: np.resize(values, 600) for column, values in new.items()}
    for rule in (bg.PlugIn(), bg.BMA(), bg.ConditionalAverage(num_draws=500)):
        few, all_rows = (bg.predict(case.exact, rows, rule=rule) for rows in (new, many))
        none = bg.predict(case.exact, take(new, slice(0, 0)), rule=rule)
        assert len(none) == 0 and none.interval(0.5).shape == (0, 2) and none.cdf(np.zeros(0)).shape == (0,)
        for ask in (lambda a: a.mean, lambda a: a.std, lambda a: a.quantile(0.9), lambda a: a.log_density(300.0)):
            close(ask(all_rows), np.resize(ask(few), 600), rtol=1e-9)


@some_cases
def test_fits_and_answers_are_pickled(name):
    case = CASES[name]
    new, _ = case.new
    fit = pickle.loads(pickle.dumps(case.exact))
    for rule in (bg.BMA(), bg.ConditionalAverage(num_draws=50)):
        answer = bg.predict(case.exact, new, rule=rule)
        again = pickle.loads(pickle.dumps(bg.predict(fit, new, rule=rule)))
        close(again.quantile(0.3), answer.quantile(0.3), rtol=1e-12)
    made = fit.to_datatree(num_draws=4)["posterior"]
    assert set(made.data_vars) == set(fit.parameters) and "class" not in made.coords


@every_case
def test_a_response_that_is_missing_everywhere_is_refused(name):
    case = CASES[name]
    X, y = case.data
    with pytest.raises(bg.DataError, match="y is missing"):
        bg.fit(case.model, X, np.full(len(y), np.nan), method=bg.MAP())
