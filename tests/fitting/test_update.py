"""Fits that learn more rows: the same as of all rows at the same prior, and refusals that say what to do."""

import dataclasses
import pickle

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws

from .programs import chained

close = np.testing.assert_allclose
METHODS = [bg.MLE(), bg.MAP(), bg.Exact()]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)


def frame(size, seed=0):
    """A mixed frame and labels of three classes, each in its first rows."""
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % 3
    X = pd.DataFrame(
        {
            "height": rng.normal(1e3 + codes, 0.3),
            "weight": rng.normal(-2.0 * codes, 1.1),
            "tame": rng.random(size) < 0.3 + 0.2 * codes,
            "food": np.asarray(["leaves", "meat"])[rng.permutation(np.arange(size)) % 2],
        }
    )
    return X, np.asarray(["a", "b", "c"])[codes]


def assert_same_fit(one, two):
    assert one.parameters.keys() == two.parameters.keys()
    for name, value in one.parameters.items():
        close(value, two.parameters[name], rtol=1e-12, atol=1e-12, err_msg=name)
    assert one.schema == two.schema and one.prior == two.prior
    if one.log_evidence is not None:
        close(one.log_evidence, two.log_evidence, rtol=1e-12)


@every_method
def test_rows_with_weights_and_in_chunks_are_learned_as_all_rows_at_once(method):
    X, y = frame(61)
    weights = np.random.default_rng(1).integers(0, 4, 61)
    weights[:3] = 1
    fit = bg.fit(bg.NaiveBayes(), X[:20], y[:20], method=method, sample_weight=weights[:20])
    whole = bg.fit(bg.NaiveBayes(), X, y, method=method, sample_weight=weights, schema=fit.schema)
    assert_same_fit(fit.update(X[20:], y[20:], sample_weight=weights[20:]), whole)
    chunks = ((X[part], y[part], weights[part]) for part in (slice(20, 21), slice(21, 50), slice(50, 61)))
    in_chunks = fit.update(chunks)
    assert_same_fit(in_chunks, whole)
    assert (
        in_chunks.attributes["total_weight"] == weights.sum() and fit.attributes["total_weight"] == weights[:20].sum()
    )


def test_a_declared_class_may_come_later():
    X, y = frame(40)
    schema = bg.Schema(classes=["c", "a", "b"])
    of_a = y == "a"
    fit = bg.fit(bg.NaiveBayes(), X[of_a], y[of_a], method=bg.Exact(), schema=schema)
    grown = fit.update(X[~of_a], y[~of_a])
    assert grown.classes.tolist() == ["c", "a", "b"]
    assert_same_fit(grown, bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=fit.schema))


def test_averages_over_structures_learn_further():
    X, y = frame(50)
    model = bg.NaiveBayes(structure="average", dependence_prior=0.3)
    fit = bg.fit(model, X[:25], y[:25], method=bg.Exact())
    grown = fit.update(X[25:], y[25:])
    assert_same_fit(grown, bg.fit(model, X, y, method=bg.Exact(), schema=fit.schema))
    assert (grown.parameters["binary_dependence"] != fit.parameters["binary_dependence"]).all()


def test_the_scale_of_the_first_fit_stays_and_is_not_warned_of_again():
    X, y = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0], [8.0, 7.0]]), np.array([0, 1, 0, 1])
    with pytest.warns(bg.ConstantColumnWarning, match="'x1'"):
        fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    grown = fit.update([[3.0, 9.0], [5.0, 6.0]], [0, 1])  # warnings are errors
    assert grown.prior == fit.prior
    close(grown.schema.mean, [3.75, 7.0])
    close(grown.schema.variance, [X[:, 0].var(), 0.0])


def test_arrays_for_named_columns_are_taken_by_position():
    X, y = frame(31)
    reals = X[["height", "weight"]]
    fit = bg.fit(bg.GaussianDiscriminant(), reals[:20], y[:20], method=bg.Exact())
    assert_same_fit(fit.update(reals[20:].to_numpy(), y[20:]), fit.update(reals[20:], y[20:]))


def heights(n):
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(p))
        numpyro.sample("x", dist.Normal(mean[y], scale))


@pytest.fixture(scope="module")
def own():
    rng = np.random.default_rng(2)
    y = np.arange(37) % 2
    return bg.GenerativeProgram(heights, classes=2), {"x": rng.normal(1.5 * y, 0.8)}, y


@pytest.mark.parametrize("method", [pytest.param(bg.MLE(), marks=pytest.mark.slow), bg.MAP()], ids=["MLE", "MAP"])
def test_programs_of_ones_own_learn_further_where_their_sites_have_statistics(own, method):
    program, X, y = own
    fit = bg.fit(program, {"x": X["x"][:11]}, y[:11], method=method)
    grown, whole = fit.update({"x": X["x"][11:]}, y[11:]), bg.fit(program, X, y, method=method)
    for name, value in whole.parameters.items():
        close(grown.parameters[name], value, rtol=1e-6)
        assert not np.allclose(fit.parameters[name], value, rtol=1e-3)
    with pytest.raises(bg.FitError, match="State a program with all classes"):
        fit.add_class(2, X)


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")
def test_draws_learn_no_further_and_summaries_do(own):
    program, X, y = own
    point = bg.fit(program, X, y, method=bg.MAP()).parameters
    draws = {name: np.broadcast_to(value, (1, 3, *np.shape(value))) for name, value in point.items()}
    problem = prepare(program, X, y)
    fit = problem.result(bg.NUTS(), Draws(problem.program, draws, draws, {}))
    assert fit.summaries is None
    for learn in (fit.update, fit.add_class):
        with pytest.raises(bg.FitError, match=r"NUTS\(\) holds draws.*summarize"):
            learn(X, y)
    parts = [slice(0, 11), slice(11, 37)]
    one, two = (bg.summarize(program, {"x": X["x"][part]}, y[part], schema=fit.schema) for part in parts)
    assert (one + two).total_weight == 37


def test_rows_without_a_statistic_are_not_kept():
    rng, y = np.random.default_rng(3), np.arange(30) % 2
    X = {"x": rng.normal(y, 1.0), "z": rng.normal(y, 1.0)}
    fit = bg.fit(bg.GenerativeProgram(chained, classes=2), X, y, method=bg.MAP(num_starts=1))
    assert fit.summaries is None
    with pytest.raises(
        bg.FitError, match=r"not in any sufficient statistic, and a fit keeps no rows. Fit again on all"
    ):
        fit.update(X, y)


def test_what_the_schema_does_not_have_is_refused_by_name():
    X, y = frame(30)
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"'d'.*which is unknown\. .*'a', 'b', 'c'.*declare every class.*add_class"):
        fit.update(X[:2], ["a", "d"])
    strange = X[:2].assign(food=["meat", "stones"])
    with pytest.raises(bg.DataError, match=r"Column 'food' has 'stones' \(first at row 1\).*declare every value"):
        fit.update(strange, ["a", "b"])
    with pytest.raises(bg.DataError, match="Missing: 'food'"):
        fit.update(X.drop(columns="food"), y)
    with pytest.raises(bg.DataError, match="y is missing"):
        fit.update(X)
    chunks = [(X[:3], y[:3]), (X[3:5], ["a", "d"])]
    with pytest.raises(bg.DataError, match=r"Chunk 2: y has 'd'"):
        fit.update(chunks)


@every_method
def test_a_fit_does_not_grow_with_its_rows(method):
    sizes = []
    for size in (60, 6000):
        fit = bg.fit(bg.NaiveBayes(), *frame(size), method=method)
        fit.update(*frame(size, seed=1))
        sizes.append(len(pickle.dumps(fit)))
    assert abs(sizes[1] - sizes[0]) < 100


def test_averages_by_evidence_learn_further_and_others_say_how():
    X, y = frame(45)
    reals = X[["height", "weight"]]
    models = [bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag"), bg.GaussianDiscriminant("tied")]
    fits = [bg.fit(model, reals[:20], y[:20], method=bg.Exact()) for model in models]
    grown = bg.average(fits, prior=[1, 2, 3]).update(reals[20:], y[20:])
    whole = [bg.fit(fit.model, reals, y, method=bg.Exact(), schema=fit.schema) for fit in fits]
    expected = bg.average(whole, prior=[1, 2, 3])
    close(grown.weights, expected.weights, rtol=1e-10)
    close(grown.log_evidence, expected.log_evidence, rtol=1e-12)
    assert isinstance(grown, bg.AverageFit) and [fit.model for fit in grown.members] == models
    with pytest.raises(bg.DataError, match="once for each of its members"):
        grown.update(pair for pair in [(reals[20:], y[20:])])
    stacked = bg.average(fits, weights="stacking", X=reals[:20], y=y[:20], folds=2)
    with pytest.raises(bg.FitError, match=r"fit.members\[0\].update"):
        stacked.update(reals[20:], y[20:])


def test_summaries_with_the_schema_of_a_fit_keep_its_scale_in_any_order():
    X, y = frame(40)
    fit = bg.fit(bg.NaiveBayes(), X[:20], y[:20], method=bg.Exact())
    known = bg.summarize(bg.NaiveBayes(), X[:20], y[:20], schema=fit.schema)
    plain = bg.summarize(
        bg.NaiveBayes(), X[20:], y[20:], schema=dataclasses.replace(fit.schema, mean=None, variance=None)
    )
    expected = fit.update(X[20:], y[20:])
    for both in (known + plain, plain + known):
        assert_same_fit(bg.fit(bg.NaiveBayes(), both, method=bg.Exact()), expected)
    assert_same_fit(fit.update(plain), expected)
    with pytest.raises(bg.DataError, match="Summaries hold their labels"):
        fit.update(plain, y)
    with pytest.raises(bg.DataError, match="the model to fit is"):
        fit.update(bg.summarize(bg.NaiveBayes({"real": bg.NormalInverseGamma(kappa=3)}), X, y))
    other = bg.fit(bg.NaiveBayes(), X[20:], y[20:], method=bg.Exact())
    with pytest.raises(bg.DataError, match="different default priors"):
        known + bg.summarize(bg.NaiveBayes(), X[20:], y[20:], schema=other.schema)


def test_rows_without_labels_may_follow_and_are_not_kept():
    X, y = frame(60)
    some = pd.Series(y, dtype=object)
    some[40:] = None
    fit = bg.fit(bg.NaiveBayes(), X[:30], y[:30], method=bg.MAP())
    grown = fit.update(X[30:], some[30:])
    whole = bg.fit(bg.NaiveBayes(), X, some, method=bg.MAP(), schema=fit.schema)
    for name, value in whole.parameters.items():
        close(grown.parameters[name], value, rtol=1e-6)
    assert grown.attributes["total_weight_unlabelled"] == 20 and grown.summaries is None
    with pytest.raises(bg.FitError, match=r"not in any sufficient statistic"):
        grown.update(X, y)
    exact = bg.fit(bg.NaiveBayes(), X[:30], y[:30], method=bg.Exact())
    with pytest.raises(bg.FitError, match=r"Exact\(\)"):
        exact.update(X[30:], some[30:])


def holed(size, seed):
    """Correlated columns with a fifth of the cells missing, and labels of two classes."""
    rng, codes = np.random.default_rng(seed), np.arange(size) % 2
    X = rng.normal(size=(size, 3)) @ [[1.0, 0.5, 0], [0, 1.0, -0.4], [0, 0, 1.0]] + codes[:, None]
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), codes


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_joint_normals_with_missing_cells_learn_further(covariance, method):
    model, (X, y) = bg.GaussianDiscriminant(covariance), holed(60, 4)
    fit = bg.fit(model, X[:40], y[:40], method=method)
    grown = fit.update(X[40:50], y[40:50]).update(X[50:], y[50:])
    whole = bg.fit(model, X, y, method=method, schema=fit.schema)
    for name, value in whole.parameters.items():
        close(grown.parameters[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
        assert not np.allclose(fit.parameters[name], value, rtol=1e-3) or name == "class_probs"
