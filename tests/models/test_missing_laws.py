"""The laws of built-in models with a fifth of the cells missing. No formula of a model is written again here."""

import numpy as np
import pytest

import bayesgen as bg

from .cases import ALL, CASES, HOLED, JOINT, ROWS, stack, take
from .test_laws import assert_same_fit, assert_same_values, close

METHODS = {"MLE": bg.MLE(), "MAP": bg.MAP(), "Exact": bg.Exact()}

every_case = pytest.mark.parametrize("name", HOLED)
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@every_method
@every_case
def test_a_row_given_twice_is_weight_two(name, method):
    case = HOLED[name]
    X, y = case.data
    weights = np.random.default_rng(1).integers(0, 4, ROWS)
    twice = np.repeat(np.arange(ROWS), weights)
    schema = bg.summarize(case.model, X, y).schema
    weighted = bg.fit(case.model, X, y, method=method, sample_weight=weights, schema=schema)
    assert_same_fit(weighted, bg.fit(case.model, take(X, twice), y[twice], method=method, schema=schema))


@every_method
@every_case
def test_merged_summaries_and_chunks_are_the_rows(name, method):
    """One of the parts lacks no cell, so that masks of some parts meet none of others."""
    case = HOLED[name]
    X, y = case.data
    X = {
        column: np.ma.array(cells, mask=np.where(np.arange(ROWS) < 15, False, cells.mask))
        for column, cells in X.items()
    }
    schema, whole = bg.summarize(case.model, X, y).schema, bg.fit(case.model, X, y, method=method)
    parts = [slice(0, 14), slice(14, 30), slice(30, ROWS)]
    one, two, three = (bg.summarize(case.model, take(X, part), y[part], schema=schema) for part in parts)
    for merged in ((one + two) + three, three + (two + one)):
        assert_same_fit(bg.fit(case.model, merged, method=method), whole)
    chunks = ((take(X, part), y[part]) for part in parts)
    assert_same_fit(bg.fit(case.model, chunks, method=method, schema=schema), whole)


@every_method
@every_case
def test_a_row_of_which_nothing_is_there_gets_the_class_probabilities(name, method):
    case = HOLED[name]
    fit = bg.fit(case.model, *case.data, method=method)
    nothing = take(case.new, slice(2, 3))
    close(bg.predict(fit, nothing, rule=bg.PlugIn()).probabilities[0], fit.parameters["class_probs"], rtol=1e-12)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "naive Bayes" else pytest.mark.slow) for n in HOLED])
def test_programs_and_closed_forms_agree_on_what_is_there(name):
    """Draws of parameters, as sites of the program, and the point, which the closed form takes."""
    case = HOLED[name]
    table = case.exact.log_joint(case.new, at="predictive")
    draws = case.exact.log_joint(case.new, at="draws")
    averaged = np.logaddexp.reduce(draws, axis=0) - np.log(len(draws))
    assert np.abs(averaged - table).max() < 0.5
    close(averaged[2], np.log(case.exact.parameters["class_probs"]), atol=0.02)


# --- jointly normal columns, whose modes EM looks for -----------------------------------------------------------------

every_search = pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
every_joint_case = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "discriminant, tied" else pytest.mark.slow) for n in sorted(JOINT)]
)


def assert_near(one, two):
    """Fits whose parameters are alike, as far as a search that ends finds them."""
    assert_same_values(one.parameters, two.parameters, rtol=1e-4, atol=1e-5)


@every_search
@every_joint_case
def test_joint_columns_obey_the_laws_of_rows(name, method):
    """The order of rows, weight two for a row given twice, and rows in parts, one of which lacks no cell."""
    case = ALL[name]
    X, y = case.data
    X = {c: np.ma.array(cells, mask=np.where(np.arange(ROWS) < 15, False, cells.mask)) for c, cells in X.items()}
    rng = np.random.default_rng(1)
    schema, whole = bg.summarize(case.model, X, y).schema, bg.fit(case.model, X, y, method=method)
    order, weights = rng.permutation(ROWS), rng.integers(1, 3, ROWS)
    assert_near(bg.fit(case.model, take(X, order), y[order], method=method), whole)
    weighted = bg.fit(case.model, X, y, method=method, sample_weight=weights)
    twice = np.repeat(np.arange(ROWS), weights)
    assert_near(bg.fit(case.model, take(X, twice), y[twice], method=method), weighted)
    parts = [slice(0, 14), slice(14, 30), slice(30, ROWS)]
    one, two, three = (bg.summarize(case.model, take(X, part), y[part], schema=schema) for part in parts)
    assert_near(bg.fit(case.model, three + (two + one), method=method), whole)
    chunks = ((take(X, part), y[part]) for part in parts)
    assert_near(bg.fit(case.model, chunks, method=method, schema=schema), whole)


EMPTY = 20_000  # many more than there are others, so that a step of EM that counts them hardly moves


@every_search
@every_joint_case
def test_rows_of_which_nothing_is_there_change_class_probabilities_alone(name, method):
    case = ALL[name]
    X, y = case.data
    more, labels = stack(X, take(case.new, np.full(EMPTY, 2))), np.concatenate([y, np.resize(y, EMPTY)])
    fit, longer = bg.fit(case.model, X, y, method=method), bg.fit(case.model, more, labels, method=method)
    assert longer.attributes["num_iterations"] == fit.attributes["num_iterations"]
    blocks = [{k: v for k, v in each.parameters.items() if k != "class_probs"} for each in (longer, fit)]
    assert_same_values(*blocks, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "covariates"),
    [
        (bg.ProbabilisticPCA(1), False),
        (bg.JointGaussianRegression(), True),
        (bg.Mixture(bg.GaussianDiscriminant("full"), 1), False),
        (bg.Mixture(bg.GaussianDiscriminant("tied"), 2), False),
        (bg.Mixture(bg.NaiveBayes(), 2), False),
    ],
    ids=["factors", "regression", "one component", "two components", "naive Bayes"],
)
def test_rows_without_cells_and_labels_change_nothing(model, covariates):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 3)) + 4.0 * (np.arange(ROWS) % 3 == 0)[:, None]
    X[[1, 5, 8], [0, 1, 2]] = np.nan
    more = np.concatenate([X, np.full((EMPTY, 3), np.nan)])
    data = [(each[:, 1:], each[:, 0]) if covariates else (each,) for each in (X, more)]
    fit, longer = (bg.fit(model, *each, method=bg.MLE(num_starts=1)) for each in data)
    assert longer.attributes["num_iterations"] == fit.attributes["num_iterations"]
    assert longer.attributes["total_weight"] == fit.attributes["total_weight"] + EMPTY
    assert_same_values(longer.parameters, fit.parameters, rtol=1e-9)


@pytest.mark.parametrize("name", ["discriminant, full", "own blocks"])
def test_whole_rows_and_rows_of_which_nothing_is_there_have_an_exact_posterior(name):
    whole, case = CASES[name], ALL[name]
    X, y = whole.data
    more, labels = stack(take(case.new, np.full(5, 2)), X), np.concatenate([np.resize(y, 5), y])
    fit = bg.fit(whole.model, more, labels, method=bg.Exact(), schema=whole.exact.schema)
    blocks = [{k: v for k, v in each.parameters.items() if k != "class_probs"} for each in (fit, whole.exact)]
    assert_same_values(*blocks, rtol=1e-12)


@every_search
@pytest.mark.parametrize("name", ["discriminant, full", "discriminant, tied", "own blocks"])
def test_columns_of_joint_blocks_may_come_in_any_order(name, method):
    case = ALL[name]
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=method)
    blocks = [(block, family, columns[::-1]) for block, family, columns in fit.concrete.blocks]
    turned = bg.fit(bg.GenerativeClassifier(blocks, case.model.class_prior), X, y, method=method)
    close(turned.log_joint(case.new), fit.log_joint(case.new), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(JOINT))
def test_exact_refuses_joint_columns_with_missing_cells_by_name(name):
    case = ALL[name]
    with pytest.raises(bg.FitError, match=r"NUTS\(\) or MAP\(\)"):
        bg.fit(case.model, *case.data, method=bg.Exact())
    whole = CASES[name].exact
    nothing = take(case.new, slice(2, 3))
    close(bg.predict(whole, nothing, rule=bg.BMA()).probabilities[0], whole.parameters["class_probs"], rtol=1e-12)
