"""The laws of models whose posterior has no closed form: those of points, and that there is no other by `Exact`."""

import functools

import numpy as np
import pytest

import bayesgen as bg

from .cases import OPEN, OPEN_MAP, ROWS, Holed, stack, stated, take
from .test_laws import assert_same_fit, assert_same_values, close, with_prior

METHODS = {"MLE": bg.MLE(num_starts=2), "MAP": OPEN_MAP}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
every_case = pytest.mark.parametrize("name", OPEN)
# grammars compile for long, and MAP is their representative in every run
every_method_and_case = pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, id=f"{name}-{key}", marks=[pytest.mark.slow] * (name == "grammar" and key == "MLE"))
        for name in OPEN
        for key, method in METHODS.items()
    ],
)
low_rank = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "grammar")) for name in OPEN]
)


def every_method_and_low_rank(test):
    """A mark for tests whose fits of grammars are of other data than those that stand already."""
    return every_method(low_rank(test))


@functools.cache
def fitted(name, method):
    """The fit of a case, which several tests look at."""
    case = OPEN[name]
    return case.point if method == OPEN_MAP else bg.fit(case.model, *case.data, method=method)


@every_method_and_low_rank
def test_a_row_given_twice_is_weight_two(name, method):
    case = OPEN[name]
    X, y = case.data
    weights = np.random.default_rng(1).choice(4, ROWS, p=[0.1, 0.6, 0.2, 0.1])  # about as many rows, one compilation
    twice = np.repeat(np.arange(ROWS), weights)
    weighted = bg.fit(case.model, X, y, method=method, sample_weight=weights)
    assert_same_fit(weighted, bg.fit(case.model, take(X, twice), y[twice], method=method))


@every_method_and_case
def test_the_order_of_rows_and_columns_does_not_matter(name, method):
    case = OPEN[name]
    X, y = case.data
    order = np.random.default_rng(2).permutation(ROWS)
    fit = fitted(name, method)
    assert_same_fit(fit, bg.fit(case.model, take(X, order), y[order], method=method))
    turned = bg.fit(case.model, dict(reversed(X.items())), y, method=method)
    assert_same_values(turned.parameters, fit.parameters, rtol=1e-9, atol=1e-12)


@every_method_and_low_rank
def test_merged_summaries_and_updates_are_the_rows(name, method):
    case = OPEN[name]
    (X, y), schema = case.data, bg.summarize(case.model, *case.data).schema
    parts = [slice(0, 35), slice(35, ROWS)]  # the first compiles nothing that all rows do not
    one, two = (bg.summarize(case.model, take(X, part), y[part], schema=schema) for part in parts)
    whole = fitted(name, method)
    assert_same_fit(whole, bg.fit(case.model, one + two, method=method))
    first = bg.fit(case.model, take(X, parts[0]), y[parts[0]], method=method, schema=schema)
    grown = first.update(take(X, parts[1]), y[parts[1]])
    again = bg.fit(with_prior(first), X, y, method=method, schema=schema)
    assert_same_values(grown.parameters, again.parameters, rtol=1e-9, atol=1e-12)
    assert grown.prior == first.prior and grown.attributes["total_weight"] == ROWS


@low_rank
def test_a_class_that_is_added_leaves_the_others_as_they_were(name):
    case = OPEN[name]
    more = case.point.add_class("yak", take(case.data[0], slice(0, 40)))
    for key, value in case.point.parameters.items():
        if key != "class_probs":
            assert np.array_equal(more.parameters[key][: len(value)], value), key


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "low rank")) for name in OPEN])
def test_the_program_has_the_closed_forms_densities(name):
    case = OPEN[name]
    fit = case.point
    latents = {key: fit.program.latents_of(fit.parameters)[key] for key in fit.program.latents}
    close(fit.program.log_joint(latents, stated(fit, case.new)), fit.log_joint(case.new), rtol=1e-9)
    assert fit.program.replace().plan.rowwise == ()


@pytest.mark.parametrize("method", [pytest.param(METHODS["MLE"], marks=pytest.mark.slow), OPEN_MAP], ids=METHODS)
def test_a_search_over_the_program_finds_the_same_point(method):
    """In coordinates of its own: triangular loadings, whose density is taken to that of loadings."""
    rng = np.random.default_rng(3)
    codes = np.arange(ROWS) % 2
    X = rng.normal(size=(ROWS, 1)) * [1.0, -2.0, 0.5] + rng.normal(0, 0.6, (ROWS, 3)) + codes[:, None]
    model = bg.GenerativeClassifier([("size", bg.LowRankNormal(1), ["x0", "x1", "x2"])])
    fit = bg.fit(model, X, codes, method=method)
    own = bg.fit(fit.program, {"size": X}, codes, method=method)
    for key, value in fit.parameters.items():
        close(own.parameters[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


@every_case
def test_there_is_no_exact_posterior(name):
    case = OPEN[name]
    with pytest.raises(
        bg.FitError, match=r"no closed form for block 'size': (its posterior is no LowRank|its parse trees)"
    ):
        bg.fit(case.model, *case.data, method=bg.Exact())
    with pytest.raises(bg.FitError, match="'size'"):
        list(bg.fit(bg.average([case.model, case.model]), *case.data, method=bg.Exact()).weights)


@every_method_and_low_rank
def test_cells_may_be_missing(name, method):
    """The objective is that of the cells that are there, and rows of which nothing is there change nothing."""
    case = Holed(OPEN[name].model, OPEN[name].rows, OPEN[name].labels, OPEN[name].shares)
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=method)
    assert fit.attributes["converged"]
    table = fit.log_joint(X)
    codes = np.searchsorted(fit.classes, y)
    likelihood = table[np.arange(ROWS), codes].sum()
    prior = fit.concrete.conjugate(fit.schema).log_prior(fit.parameters) if method == OPEN_MAP else 0.0
    close(fit.attributes["objective"], likelihood + prior, rtol=1e-9)
    empty = {key: np.ma.masked_all(4, values.dtype) for key, values in X.items()}
    schema = fit.schema
    longer = bg.fit(case.model, stack(X, empty), np.append(y, y[:4]), method=method, schema=schema)
    for key, value in fit.parameters.items():
        if key.startswith("size"):
            close(longer.parameters[key], value, rtol=1e-3, atol=1e-4 * np.abs(value).max(), err_msg=key)
