"""Predictions of no rows: what the answer for some rows is, less the rows."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from models.cases import CASES, take

import bayesgen as bg
from bayesgen.posteriors import Draws
from prediction.draws import drawn

COUNTS, Y = np.arange(24.0).reshape(8, 3) % 5, np.arange(8) % 2
RULES = [bg.PlugIn(), bg.BMA(), bg.BMA(entropy_draws=20), bg.BMA(entropy_draws=0), bg.ConditionalAverage(num_draws=20)]
FIELDS = (
    *("log_probabilities", "log_marginal", "standard_error", "expected_entropy", "pareto_k"),
    *("mutual_information", "mutual_information_error", "entropy", "labels", "probabilities"),
)


def assert_empty(answer, of_one_row):
    """Fields with the same shapes and dtypes, but for the number of rows."""
    for name in FIELDS:
        none, one = getattr(answer, name), getattr(of_one_row, name)
        assert (none is None) == (one is None), name
        if one is not None:
            assert none.shape == (0, *one.shape[1:]) and none.dtype == one.dtype, name
    assert answer.to_frame().columns.tolist() == of_one_row.to_frame().columns.tolist()
    assert len(answer.to_frame()) == 0 and answer.classes.tolist() == of_one_row.classes.tolist()


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # twenty draws are few
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame, scipy.sparse.csr_array])
def test_of_tables_of_all_kinds(make, rule):
    X = make(COUNTS)
    exact = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), X, Y, method=bg.Exact())
    for fit in (exact, drawn(exact, 2, 10)):
        assert_empty(bg.predict(fit, X[:0], rule=rule), bg.predict(fit, X[:1], rule=rule))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place else []) for place, name in enumerate(CASES)]
)
def test_of_all_models(name):
    case = CASES[name]
    none, one = (take(case.new, slice(size)) for size in (0, 1))
    point = bg.fit(case.model, *case.data, method=bg.MAP())
    for fit, rule in ((case.exact, bg.BMA()), (case.exact, RULES[-1]), (point, bg.PlugIn())):
        assert_empty(bg.predict(fit, none, rule=rule), bg.predict(fit, one, rule=rule))


def test_of_averages_of_structures():
    models = bg.average([bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag")])
    for model in (models, bg.NaiveBayes(structure="average")):
        fit = bg.fit(model, COUNTS, Y, method=bg.Exact())
        assert_empty(*(bg.predict(fit, COUNTS[:size], rule=bg.BMA()) for size in (0, 1)))


@pytest.fixture(scope="module")
def of_a_program():
    """A point fit and draws of a program with a covariate, a site of which is evaluated row by row; and rows."""

    def program(n, *, length):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([2]).to_event(1))
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("count", dist.Poisson(rate[y]))
            numpyro.sample("size", dist.Gamma(2.0, jnp.exp(slope * length)))

    X = {"count": COUNTS[:, 0], "length": COUNTS[:, 1], "size": 1.0 + COUNTS[:, 2]}
    point = bg.fit(bg.GenerativeProgram(program, classes=2), X, Y, method=bg.MAP())
    rng = np.random.default_rng(0)
    latents = {"rate": rng.gamma(2.0, size=(2, 10, 2)), "slope": rng.normal(size=(2, 10))}
    sampled = dataclasses.replace(point, posterior=Draws(point.program, latents, latents, {}))
    return point, sampled, X


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
@pytest.mark.parametrize(
    "rule",
    [RULES[-1], *(pytest.param(rule, marks=pytest.mark.slow) for rule in RULES[:-1])],
    ids=repr,
)
def test_of_draws_of_programs_with_covariates(of_a_program, rule):
    _, sampled, X = of_a_program
    assert_empty(*(bg.predict(sampled, take(X, slice(size)), rule=rule) for size in (0, 1)))


def test_of_points_of_programs_with_covariates(of_a_program):
    point, _, X = of_a_program
    assert_empty(*(bg.predict(point, take(X, slice(size)), rule=bg.PlugIn()) for size in (0, 1)))


def test_names_and_numbers_of_columns_are_still_checked():
    fit = bg.fit(bg.NaiveBayes(), pd.DataFrame(COUNTS, columns=list("abc")), Y, method=bg.Exact())
    assert_empty(*(bg.predict(fit, pd.DataFrame(COUNTS[:n], columns=list("cab")), rule=bg.BMA()) for n in (0, 1)))
    for wrong in (np.empty((0, 2)), pd.DataFrame(COUNTS[:0], columns=list("abd")), np.empty((0, 0))):
        with pytest.raises(bg.DataError):
            bg.predict(fit, wrong, rule=bg.BMA())
    with pytest.raises(bg.DataError, match="X is empty: 0 rows"):
        bg.fit(bg.NaiveBayes(), COUNTS[:0], Y[:0], method=bg.Exact())
