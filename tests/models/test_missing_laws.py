"""The laws of built-in models with a fifth of the cells missing. No formula of a model is written again here."""

import dataclasses
import functools

import numpy as np
import pytest

import bayesgen as bg

from .cases import CASES, ROWS, Case, take
from .test_laws import assert_same_fit, assert_same_values, close, with_prior

# sparse matrices and counts of one total have no missing cells; jointly normal ones are exact in whole rows only
JOINT = {name for name in CASES if name.startswith(("discriminant, full", "discriminant, tied", "discriminant, inf"))}
JOINT = (JOINT - {"discriminant, tied-diag", "discriminant, tied-spherical"}) | {
    "discriminant, other kinds",
    "own blocks",
}
WHOLE = {"multinomial, dense", "multinomial, sparse", "Bernoulli, sparse"}
METHODS = {"MLE": bg.MLE(), "MAP": bg.MAP(), "Exact": bg.Exact()}


def with_holes(X, rng):
    """The columns with a fifth of their cells masked, and one row of which nothing is there."""
    masked = {}
    for name, values in X.items():
        missing = rng.random(len(values)) < 0.2
        missing[2] = True
        masked[name] = np.ma.array(values, mask=missing)
    return masked


def stack(X, more):
    return {name: np.ma.concatenate([X[name], more[name]]) for name in X}


@dataclasses.dataclass(frozen=True)
class Holed(Case):
    """A case with a fifth of its cells missing, in training rows and new ones."""

    @functools.cached_property
    def data(self):
        X, y = Case.data.func(self)
        return with_holes(X, np.random.default_rng(8)), y

    @functools.cached_property
    def new(self):
        return with_holes(Case.new.func(self), np.random.default_rng(9))


ALL = {
    name: Holed(case.model, case.rows, case.labels, case.shares) for name, case in CASES.items() if name not in WHOLE
}
HOLED = {name: case for name, case in ALL.items() if name not in JOINT}
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
def test_the_order_of_rows_does_not_matter(name, method):
    case = HOLED[name]
    X, y = case.data
    order = np.random.default_rng(2).permutation(ROWS)
    shuffled = bg.fit(case.model, take(X, order), y[order], method=method)
    assert_same_fit(bg.fit(case.model, X, y, method=method), shuffled)


@every_case
def test_named_columns_may_come_in_any_order(name):
    case = HOLED[name]
    X, y = case.data
    schema = bg.summarize(case.model, X, y).schema
    shuffled = bg.fit(case.model, dict(reversed(X.items())), y, method=bg.Exact(), schema=schema)
    expected = case.exact.log_joint(case.new, at="predictive")
    close(case.exact.log_joint(dict(reversed(case.new.items())), at="predictive"), expected, rtol=1e-13)
    close(shuffled.log_joint(case.new, at="predictive"), expected, rtol=1e-10)


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


@every_case
def test_updating_in_sequence_is_one_batch(name):
    case = HOLED[name]
    X, y = case.data
    schema, model = bg.summarize(case.model, X, y).schema, with_prior(case.exact)
    first = bg.fit(model, take(X, slice(0, 23)), y[:23], method=bg.Exact(), schema=schema)
    second = with_prior(first, first.posterior.conjugate)
    rest = bg.fit(second, take(X, slice(23, ROWS)), y[23:], method=bg.Exact(), schema=schema)
    close(first.log_evidence + rest.log_evidence, case.exact.log_evidence, rtol=1e-11)
    assert_same_values(rest.parameters, case.exact.parameters, rtol=1e-10)


@every_method
@every_case
def test_a_fit_updated_in_parts_is_that_of_all_rows(name, method):
    case = HOLED[name]
    (X, y), schema = case.data, bg.summarize(case.model, *case.data).schema
    first = bg.fit(case.model, take(X, slice(0, 23)), y[:23], method=method, schema=schema)
    grown = first.update(take(X, slice(23, 24)), y[23:24]).update(take(X, slice(24, ROWS)), y[24:])
    whole = bg.fit(with_prior(first), X, y, method=method, schema=schema)
    assert_same_values(grown.parameters, whole.parameters, rtol=1e-12, atol=1e-12)
    if grown.log_evidence is not None:
        close(grown.log_evidence, whole.log_evidence, rtol=1e-12)


@every_case
def test_the_predictive_of_each_class_is_the_ratio_of_two_evidences(name):
    case = HOLED[name]
    X, y = case.data
    schema, model = bg.summarize(case.model, X, y).schema, with_prior(case.exact)
    table = case.exact.log_joint(case.new, at="predictive")
    for row in range(3):  # nothing of the last one is there
        for column, label in enumerate(case.exact.classes):
            more = stack(X, take(case.new, slice(row, row + 1)))
            longer = bg.fit(model, more, np.append(y, label), method=bg.Exact(), schema=schema)
            assert table[row, column] == pytest.approx(longer.log_evidence - case.exact.log_evidence, abs=1e-9)


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
