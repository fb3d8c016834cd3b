"""What a fit tells of its columns, and that it takes the rows that it makes."""

import dataclasses

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.data.tables import read_table
from bayesgen.fitting.fit import Fit
from bayesgen.posteriors import Draws, Point

close = np.testing.assert_allclose
rng = np.random.default_rng(8)
ROWS = 23
FRAME = pd.DataFrame(
    {
        "height": rng.normal(size=ROWS),
        "food": rng.choice(["leaves", "meat", "roots"], ROWS),
        "tame": rng.random(ROWS) < 0.4,
        "weight": rng.normal(3.0, 2.0, ROWS),
        "colour": rng.choice(["brown", "grey", "white"], ROWS),
    }
)
Y = rng.choice(["ape", "bear"], ROWS)


@pytest.fixture(scope="module")
def exact():
    return bg.fit(bg.NaiveBayes(), FRAME, Y, method=bg.Exact())


@pytest.fixture(scope="module")
def drawn(exact):
    """The same with draws in place of the posterior."""
    draws = {name: np.asarray(v) for name, v in exact.posterior.draws(7, jax.random.key(0)).items()}
    posterior = Draws(exact.program, draws, exact.program.parameters_of(draws), {})
    return dataclasses.replace(exact, posterior=posterior)


# --- parameters by column


@pytest.mark.parametrize("column", FRAME.columns)
def test_the_parameters_of_a_column_are_those_of_a_model_of_this_column_alone(exact, column):
    alone = bg.fit(bg.NaiveBayes(), FRAME[[column]], Y, method=bg.Exact())
    found = exact.parameters_of(column)
    assert {f"{alone.program.attributes[0]}_{name}" for name in found} == set(alone.parameters) - {"class_probs"}
    for name, value in found.items():
        close(value, alone.parameters[f"{alone.program.attributes[0]}_{name}"][:, 0], rtol=1e-12)


def test_draws_of_a_column_come_with_their_axes_first(drawn):
    assert {name: value.shape for name, value in drawn.parameters_of("colour").items()} == {"probs": (1, 7, 2, 3)}
    mean = drawn.parameters_of("weight")["mean"]
    np.testing.assert_array_equal(mean, drawn.parameters["real_mean"][..., 1])
    assert mean.shape == (1, 7, 2)


def test_a_covariance_keeps_the_row_of_the_column():
    fit = bg.fit(bg.GaussianDiscriminant("tied"), FRAME[["height", "weight"]], Y, method=bg.MAP())
    found = fit.parameters_of("weight")
    assert {name: value.shape for name, value in found.items()} == {"mean": (2,), "covariance": (2,)}
    np.testing.assert_array_equal(found["covariance"], fit.parameters["real_covariance"][1])


def test_columns_that_are_not_there_have_no_parameters(exact):
    with pytest.raises(bg.DataError, match=r"no column 'food_probs'\. The columns are 'height', 'food'"):
        exact.parameters_of("food_probs")


# --- rows that a fit makes


@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn()])
def test_simulated_rows_are_predicted_as_the_same_rows_in_columns(exact, rule):
    rows = exact.simulate_sites(11, seed=3)
    real, categorical = rows["real"], rows["categorical_3"].astype(int)
    columns = {
        "height": real[:, 0],
        "weight": real[:, 1],
        "tame": rows["binary"][:, 0] == 1,
        "food": np.array(["leaves", "meat", "roots"])[categorical[:, 0]],
        "colour": np.array(["brown", "grey", "white"])[categorical[:, 1]],
    }
    expected = bg.predict(exact, columns, rule=rule).probabilities
    np.testing.assert_array_equal(bg.predict(exact, rows, rule=rule).probabilities, expected)
    del rows["y"]
    np.testing.assert_array_equal(bg.predict(exact, rows, rule=rule).probabilities, expected)
    for name, values, match in (
        ("categorical_3", categorical + 1, "outside its support"),
        ("real", real[:, :1], "shape"),
    ):
        with pytest.raises(bg.DataError, match=match):
            bg.predict(exact, {**rows, name: values}, rule=rule)
    with pytest.raises(bg.DataError, match=r"Not in the schema: .*'extra'"):
        bg.predict(exact, {**rows, "extra": real}, rule=rule)


def test_simulated_rows_hold_their_covariates():
    counts = rng.poisson(2.0, (ROWS, 3))
    fit = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), counts, Y, method=bg.Exact())
    rows = fit.simulate_sites(5, seed=1, count_total=np.arange(1, 6))
    np.testing.assert_array_equal(rows["count_total"], rows["count"].sum(1))
    one, two = (bg.predict(fit, X, rule=bg.BMA()).probabilities for X in (rows, rows["count"]))
    np.testing.assert_array_equal(one, two)


def tosses(n, *, trials):
    p = numpyro.sample("p", dist.Beta(2, 2).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("heads", dist.Binomial(trials.astype(int), p[y]))


def test_a_program_of_ones_own_predicts_what_it_made():
    program = bg.GenerativeProgram(tosses, classes=["worn", "new"])
    rows = program.simulate(ROWS, seed=2, trials=np.arange(1.0, ROWS + 1))
    assert set(rows) == {"heads", "trials", "y"}
    X = {name: rows[name] for name in ("heads", "trials")}
    schema = program.infer_schema(read_table(X), rows["y"], bg.Schema())
    point = Point(program, {"p": np.array([0.3, 0.6])})
    fit = Fit(model=program, schema=schema, method=bg.MLE(), posterior=point, concrete=program)
    one, two = (bg.predict(fit, table, rule=bg.PlugIn()).probabilities for table in (rows, X))
    np.testing.assert_array_equal(one, two)
    with pytest.raises(bg.DataError, match=r"not in the program \['y'\]"):
        bg.fit(program, rows, rows["y"], method=bg.MAP())
    with pytest.raises(bg.ModelError, match=r"fit\.parameters"):
        fit.parameters_of("heads")


@pytest.mark.parametrize("at", [np.array(["a", "b"]), ["mean"], None, 3, "median"], ids=repr)
def test_a_table_that_there_is_not_is_refused(at):
    X = [[1.0], [2.0], [7.0], [9.0]]
    fit = bg.fit(bg.NaiveBayes(), X, ["a", "a", "b", "b"], method=bg.MLE())
    with pytest.raises(bg.PredictionError, match=r"at must be one of .*without labels"):
        fit.log_joint(X, at)
