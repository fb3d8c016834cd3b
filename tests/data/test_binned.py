"""Bins of columns: edges from quantiles, tails of highest likelihood, and what is refused."""

import copy
import pickle

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.preprocessing import KBinsDiscretizer

import bayesgen as bg
from bayesgen.data import REAL, Binned, PositionalNames, read_table
from bayesgen.errors import BayesgenWarning, DataError

INF = np.inf
close = np.testing.assert_allclose


def bins_of(values, num_bins=4, weights=None):
    return bg.Binned(num_bins).resolved(np.asarray(values, float), weights, "c")


def shares(bins, values):
    return np.bincount(bins.codes(np.asarray(values, float)), minlength=bins.num_bins)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_bins_hold_equal_numbers_of_different_values(rng):
    values = np.append(rng.lognormal(0, 2, 79), 1e9)
    for num_bins in (2, 5, 8, 16):
        bins = bins_of(values, num_bins)
        assert shares(bins, values).tolist() == [80 // num_bins] * num_bins
        assert not set(bins.edges) & set(values) and bins.edges[0] == -INF and bins.edges[-1] == INF
    assert {n for n in shares(bins_of(values[:77], 10), values[:77])} <= {7, 8}
    same = bins_of(values.astype(np.float32), 8)
    assert shares(same, values.astype(np.float32)).tolist() == [10] * 8


def test_bins_are_those_of_scikit_learn_where_its_edges_lie_between_values(rng):
    values = rng.normal(0, 1, 101)
    learner = KBinsDiscretizer(5, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf")
    codes = learner.fit_transform(values[:, None])[:, 0]
    found = bins_of(values, 5).codes(values)
    assert np.mean(found == codes) > 0.97  # an edge of its own is a value, which is in the bin to its right


def test_equal_values_are_in_one_bin():
    zeros = np.concatenate([np.zeros(60), np.arange(1.0, 41.0)])
    bins = bins_of(zeros, 10)
    assert bins.edges[1] == 0.5 and shares(bins, zeros).tolist() == [60, 10, 10, 10, 10]
    assert bins_of([0, 1, 0, 1, 1, 0, 1], 10).edges == (-INF, 0.5, INF)
    assert bins_of([1, 1, 1, 1, 1, 1, 2], 3).edges == bins_of([1, 2, 2, 2, 2, 2, 2], 3).edges == (-INF, 1.5, INF)
    next_to_it = np.nextafter(1.0, 2.0)
    assert shares(bins_of([1.0, next_to_it], 2), [1.0, next_to_it]).tolist() == [1, 1]


def test_weights_are_repeated_rows_whatever_their_order(rng):
    values, weights = rng.integers(0, 23, 61) + 0.0, rng.integers(1, 6, 61) + 0.0
    weighted = bins_of(values, 6, weights)
    assert weighted == bins_of(np.repeat(values, weights.astype(int)), 6)
    order = rng.permutation(61)
    assert weighted == bins_of(values[order], 6, weights[order])


@pytest.mark.parametrize("edges", [(-INF, 1.0, 2.0, INF), (-3.0, 1.0, 2.0, 5.0), (-INF, 1.0, 2.0, 4.0)])
def test_tails_are_those_of_highest_likelihood(edges, rng):
    values = rng.standard_t(3, 73) * 2 + 1.3

    def log_likelihood(tails):
        return float(np.sum(bg.PiecewiseUniform(edges, np.full(3, 1 / 3), tails).log_prob(values)))

    tails = np.asarray(bg.Binned(edges=edges).resolved(values, None, "c").tails)
    with jax.enable_x64(True):
        best = log_likelihood(tails)
        for factor in ([0.97, 1], [1.03, 1], [1, 0.97], [1, 1.03]):
            assert log_likelihood(tails * factor) < best


def test_an_end_that_nothing_passes_has_about_the_probability_of_one_row_more():
    values = np.arange(12.0)
    bins = bg.Binned(edges=[0, 6, 12]).resolved(values, None, "c")
    assert bins.tails == (pytest.approx(6 / 7, rel=1e-5),) * 2  # of 6 / 7 / (6 + 6 / 7) = 1 / 8
    assert bg.Binned(edges=[0, 6, 12], tails=0.5).resolved(values, None, "c").tails == (0.5, 0.5)


@pytest.mark.parametrize("unit", [1e-160, 1e160, 1e299])
def test_tails_are_in_the_units_of_the_column_whatever_these_are(unit):
    values = np.array([-9.0, -1.0, 0.5, 1.5, 3.0, 7.0])
    expected = np.asarray(bg.Binned(edges=[0, 1, 2]).resolved(values, None, "c").tails) * unit
    bins = bg.Binned(edges=np.array([0, 1, 2]) * unit).resolved(values * unit, None, "c")
    np.testing.assert_allclose(bins.tails, expected, rtol=1e-5)


def test_numbers_whose_sums_overflow_are_refused_by_column():
    x = np.array([-1.7e308, 1.7e308, 0.0, 1.0])
    for family in (bg.DirichletHistogram(2), bg.DirichletHistogram(edges=[0, 1, 2])):
        with pytest.raises(DataError, match=r"'age' is binned, and has values of about 1.7e\+308, whose sums overflow"):
            bg.fit(bg.NaiveBayes(family), {"age": x}, list("abab"), method=bg.Exact())


def test_where_no_value_is_in_an_end_bin_its_tail_is_as_its_neighbour_is_wide():
    bins = bg.Binned(edges=[-INF, 0, 1, 3, INF]).resolved(np.array([0.5, 2.0, 2.5]), None, "c")
    assert bins.tails == (1.0, 2.0)
    with pytest.raises(DataError, match=r"'c': no training value is inside the end bins.*State tails"):
        bg.Binned(edges=[-INF, 1, INF]).resolved(np.array([1.0, 1.0]), None, "c")


def test_bins_are_values(rng):
    resolved = bins_of(rng.normal(size=30))
    for bins in (bg.Binned(), bg.Binned(5), bg.Binned(edges=[0, 1, 2]), bg.Binned(7, tails=[1, 2]), resolved):
        for again in (copy.deepcopy(bins), pickle.loads(pickle.dumps(bins)), eval(repr(bins), vars(bg) | {"inf": INF})):
            assert again == bins and hash(again) == hash(bins) and repr(again) == repr(bins)
    assert bg.Binned().num_bins == 10 and bg.Binned(3) != bg.Binned(4) != resolved
    assert bg.Schema(kinds={"a": "binned"}).kind_of("a") == bg.Binned(10)
    assert bg.Binned(edges=[-INF, 0.25, 1e7, 2e7]).names == ("(-inf, 0.25)", "[0.25, 1e+07)", "[1e+07, 2e+07)")
    assert bg.Binned(edges=[1.0, 1.0000001, 2]).names == ("[1.0, 1.0000001)", "[1.0000001, 2.0)")
    with pytest.raises(DataError, match="no edges yet"):
        _ = bg.Binned(3).names


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"num_bins": 1}, "at least 2, got 1"),
        ({"num_bins": 2.5}, "whole number"),
        ({"num_bins": True}, "whole number"),
        ({"num_bins": 3, "edges": [0, 1, 2]}, "3 edges are those of 2 bins, not of 3"),
        ({"edges": [0, 1]}, "at least three numbers"),
        ({"edges": [0, 2, 1]}, "must increase"),
        ({"edges": [0, 1, 1]}, "must increase"),
        ({"edges": [0, np.nan, 1]}, "must increase"),
        ({"edges": ["young", "old", "older"]}, "an array of numbers"),
        ({"edges": [0, 1, 2], "tails": -1}, "not negative"),
        ({"edges": [0, 1, INF], "tails": [1, 0]}, "needs a tail above 0"),
        ({"tails": 0}, "needs a tail above 0"),
        ({"tails": [1, 2, 3]}, "a number or two"),
        ({"tails": 10**400}, "a number or two"),
    ],
)
def test_bins_that_are_none_are_refused(arguments, match):
    with pytest.raises(DataError, match=match):
        bg.Binned(**arguments)


FORMS = {
    "mapping": lambda columns: columns,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "array": lambda columns: np.stack(list(columns.values()), 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_bins_are_found_in_every_form_of_table_among_the_cells_that_are_there(form, rng):
    columns = {"a": rng.normal(size=40), "b": rng.integers(0, 50, 40) + 0.0, "c": rng.normal(size=40)}
    columns["a"][[3, 17]] = np.nan
    names = ("a", "b", "c") if form != "array" else ("x0", "x1", "x2")
    kinds = {names[0]: bg.Binned(3), names[1]: bg.Binned(4)}
    schema = bg.Schema.infer(FORMS[form](columns), declared=bg.Schema(kinds=kinds))
    assert schema.kinds[names[0]] == bins_of(columns["a"][~np.isnan(columns["a"])], 3)
    assert schema.kinds[names[1]] == bins_of(columns["b"], 4) and schema.kinds[names[2]] == REAL
    assert schema.columns_of("binned") == names[:2] and schema.num_values(names[1]) == 4
    assert schema.num_values(names[2]) is None and schema.bins(names[0]).num_bins == 3
    assert "(1 real, 2 binned)" in repr(schema)
    again = schema.resolve(read_table(FORMS[form]({name: -cells for name, cells in columns.items()})))
    assert again == schema and hash(again) == hash(schema)
    values, observed = schema.encode_cells(read_table(FORMS[form](columns)), names[:2])
    close(values, np.stack([columns["a"], columns["b"]], 1))
    assert np.flatnonzero(~observed[:, 0]).tolist() == [3, 17]
    with pytest.raises(DataError, match="not a binned column"):
        schema.bins(names[2])


def test_columns_by_position_may_be_very_many():
    X = np.random.default_rng(0).normal(size=(7, 5000))
    kinds = bg.Schema.infer(X, declared=bg.Schema(kinds={"x4321": bg.Binned(2)})).kinds
    assert kinds["x4321"].num_bins == 2 and kinds["x17"] == REAL and isinstance(kinds.names, PositionalNames)


def test_columns_with_fewer_bins_are_named_once():
    X = {"a": [0, 0, 1, 1, 1, 2], "b": [1, 2, 3, 4, 5, 6], "c": [0, 0, 0, 0, 0, 1]}
    with pytest.warns(BayesgenWarning, match=r"equal values: 'a' \(3 of 5\), 'c' \(2 of 5\)") as caught:
        bg.Schema.infer(X, declared=bg.Schema(kinds=dict.fromkeys(X, bg.Binned(5))))
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ({"c": [2.0, 2.0, 2.0]}, "'c' is binned, and has one value only.*edges="),
        ({"c": 2**60 + np.arange(3)}, r"'c' is binned, and its integers are so large that .* Subtract a constant"),
        ({"c": [2.0, 2.0], "d": [1.0, 2.0], "e": [3, 3]}, "Columns 'c', 'e' are binned, and each .* one value only"),
        ({"c": [np.nan, np.nan]}, "'c' is binned, and every cell is missing.*edges="),
        ({"c": ["x", "y"]}, "'c' is binned, and has 'x' at row 0. Turn it into a number"),
        ({"c": [1.0, INF]}, "'c'.*1 infinite"),
    ],
)
def test_columns_that_cannot_be_binned_are_refused_by_name(X, match):
    with pytest.raises(DataError, match=match):
        bg.Schema.infer(X, declared=bg.Schema(kinds=dict.fromkeys(X, bg.Binned(2))))


def test_a_kind_in_place_of_a_column_is_told_apart_from_a_wrong_name():
    with pytest.raises(DataError, match=r"names 'real'.*one by one; a model takes .* NaiveBayes\(\{'real'"):
        bg.Schema.infer({"c": [1.0, 2.0]}, declared=bg.Schema(kinds={"real": bg.Binned(2)}))


def test_sparse_columns_and_declared_categories_are_refused():
    X = scipy.sparse.csr_array(np.eye(3))
    with pytest.raises(DataError, match="X is sparse, and column 'x1' is binned"):
        bg.Schema.infer(X, declared=bg.Schema(kinds={"x1": bg.Binned(2)}))
    with pytest.raises(DataError, match="'c' has categories, and is binned"):
        schema = bg.Schema(kinds={"c": bg.Binned(2)}, categories={"c": [1, 2]})
        bg.Schema.infer({"c": [1.0, 2.0]}, declared=schema)
    with pytest.raises(DataError, match=r"kind 'binary '.*binned"):
        bg.Schema(kinds={"c": "binary "})


def test_numbers_beyond_ends_without_tails_are_refused_by_column_and_row():
    schema = bg.Schema(kinds={"age": bg.Binned(edges=[0, 18, 65, 120], tails=[0, 3])})
    X, y = {"age": [3, 20, 70, 200], "size": [1.0, 2.0, 3.0, 4.0]}, list("abab")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=schema)
    assert np.isfinite(bg.predict(fit, {"age": [500], "size": [1.0]}, rule=bg.BMA()).log_marginal).all()
    with pytest.raises(DataError, match=r"'age' has -1 at row 1, beyond the ends of its bins, 0 and 120"):
        bg.predict(fit, {"age": [5, -1], "size": [1.0, 2.0]}, rule=bg.BMA())
    assert np.isfinite(bg.predict(fit, {"age": [np.nan], "size": [1.0]}, rule=bg.BMA()).log_marginal).all()


@pytest.mark.parametrize("unit", [1.0, 1e30, 1e38])
def test_columns_of_single_precision_have_the_bins_of_their_numbers_in_double_precision(unit, rng):
    X, y = (rng.normal(size=(97, 2)).clip(-3, 3) * unit).astype(np.float32), np.arange(97) % 2
    model = bg.NaiveBayes({"real": bg.DirichletHistogram(5)})
    single, double = (bg.fit(model, cells, y, method=bg.Exact()) for cells in (X, X.astype(np.float64)))
    assert single.schema.kinds == double.schema.kinds
    np.testing.assert_allclose(single.log_evidence, double.log_evidence, rtol=1e-12)
    ends = bg.Schema(kinds={"x0": Binned(edges=[-1.0, 0.0, 0.1], tails=(1.0, 0.0))})
    for cells in (np.array([[0.1], [0.0]], np.float32), np.array([[np.float32(0.1)], [0.0]], np.float64)):
        with pytest.raises(DataError, match="beyond the ends"):  # the nearest number of single precision is above 0.1
            bg.fit(bg.NaiveBayes(), cells, [0, 1], method=bg.Exact(), schema=ends)
