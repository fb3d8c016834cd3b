"""Where components are looked for: every kind of column, missing cells, sparse rows, many rows."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.spatial.distance

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.fitting import starts

SIZE = 31


def some_groupings(rows, conjugate, num_groups=3, count=4, seed=0):
    return list(itertools.islice(starts.groupings(rows, conjugate, num_groups, np.random.default_rng(seed)), count))


def test_categories_that_the_sample_lacks_differ_from_each_other(monkeypatch):
    """Centres are chosen among some of the rows, and features are of all."""
    monkeypatch.setattr(starts, "MOST_CANDIDATES", 8)
    words = np.array(list("ab" * 200 + "cd"), object)[:, None]
    rows, conjugate = fitted(bg.NaiveBayes(), words)
    features = starts._features_of(rows, rows.take(np.arange(8)), conjugate)(rows)
    distances = scipy.spatial.distance.pdist(features[[0, 1, -2, -1]])
    np.testing.assert_allclose(distances, 1.0, rtol=1e-12)
    assert len(some_groupings(rows, conjugate)[0]) == 402


def fitted(model, X):
    """The rows of X and the blocks of a model of them, by a fit with labels that do not matter."""
    num_rows = X.shape[0] if hasattr(X, "shape") else len(next(iter(X.values())))
    fit = bg.fit(model, X, np.arange(num_rows) % 2, method=bg.Exact())
    return fit.read(X), fit.concrete.conjugate(fit.schema)


def assert_same_groups(groups, truth):
    """The same grouping, whatever the groups are called."""
    pairs = set(zip(groups.tolist(), truth.tolist(), strict=True))
    assert len(pairs) == len(set(truth.tolist())) == len(set(groups.tolist()))


@pytest.fixture(scope="module")
def mixed():
    """Columns of all kinds, in which three groups are far apart."""
    rng = np.random.default_rng(0)
    truth = np.arange(SIZE) % 3
    X = {
        "height": 1000.0 + 300.0 * truth + rng.normal(0, 1, SIZE),
        "fur": np.asarray(["dark", "light", "spotted"])[truth],
        "wild": truth == 1,
        "visits": rng.poisson(np.asarray([1, 30, 100])[truth]),
    }
    return X, truth


def test_groups_that_are_far_apart_are_found_in_columns_of_all_kinds(mixed):
    X, truth = mixed
    rows, conjugate = fitted(bg.NaiveBayes({"visits": bg.GammaPoisson()}), X)
    by_kmeans = some_groupings(rows, conjugate)[::2]
    for groups in by_kmeans:
        assert_same_groups(groups, truth)


def test_k_means_and_random_groupings_take_turns_and_the_seed_decides(mixed):
    rows, conjugate = fitted(bg.NaiveBayes({"visits": bg.GammaPoisson()}), mixed[0])
    one, again, other = (some_groupings(rows, conjugate, seed=seed, count=6) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert any((a != b).any() for a, b in zip(one, other, strict=True))
    at_random = one[1::2]  # three rows at random are rarely of three groups
    assert any(len({(g, t) for g, t in zip(groups, mixed[1], strict=True)}) > 3 for groups in at_random)


def test_units_do_not_matter_and_constant_columns_count_nothing():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(SIZE, 3))
    model = bg.GaussianDiscriminant("diag")
    scaled = X * [1e-6, 1.0, 1e5] + [0.0, 1e3, -7.0]
    constant = np.column_stack([X, np.full(SIZE, 5.0)])
    expected = some_groupings(*fitted(model, X))
    np.testing.assert_array_equal(some_groupings(*fitted(model, scaled)), expected)
    with pytest.warns(bg.ConstantColumnWarning):
        rows = fitted(model, constant)
    np.testing.assert_array_equal(some_groupings(*rows), expected)


@pytest.mark.parametrize("family", [bg.DirichletMultinomial(), bg.BetaBernoulli()], ids=repr)
def test_sparse_rows_are_grouped_as_dense_ones(family):
    rng = np.random.default_rng(4)
    counts = rng.poisson(rng.gamma(0.7, 1.5, (3, 7))[np.arange(SIZE) % 3])
    counts = counts if family == bg.DirichletMultinomial() else (counts > 0) * 1
    counts[5] = 0  # a row of zeros has no shares
    schema = bg.Schema(kinds={f"x{j}": family.kind for j in range(7)})
    groupings = []
    for X in (counts, scipy.sparse.csr_array(counts)):
        rows = bg.NaiveBayes(family).concrete(bg.Schema.infer(X, np.arange(SIZE) % 2, declared=schema))
        fit = bg.fit(bg.NaiveBayes(family), X, np.arange(SIZE) % 2, method=bg.Exact(), schema=schema)
        rows, conjugate = fit.read(X), fit.concrete.conjugate(fit.schema)
        assert scipy.sparse.issparse(next(iter(rows.values.values()))) == scipy.sparse.issparse(X)
        groupings.append(_places_of_centers(rows, conjugate))
    np.testing.assert_allclose(*groupings, atol=1e-12)


def _places_of_centers(rows, conjugate):
    """Distances of all rows from each other by their features."""
    features = starts._features_of(rows, rows, conjugate)(rows)
    dense = features.toarray() if scipy.sparse.issparse(features) else features
    return scipy.spatial.distance.pdist(dense)


def test_a_missing_cell_is_no_distance_from_the_middle():
    values = np.asarray([[0.0, 9.0], [2.0, 3.0], [4.0, 0.0]])
    observed = np.asarray([[True, False], [True, True], [True, True]])
    rows = Rows({"real": np.where(observed, values, np.nan)}, {"real": observed})
    features = starts._features_of(rows, rows, None)(rows)
    np.testing.assert_allclose(features[0, 1], 0.0)
    np.testing.assert_allclose(features[:, 0], [-(1.5**0.5), 0.0, 1.5**0.5])
    assert np.isfinite(features).all()


def test_many_rows_are_grouped_about_some_of_them(monkeypatch):
    monkeypatch.setattr(starts, "MOST_CANDIDATES", 50)
    monkeypatch.setattr(starts, "THREAD_CELLS", 100)
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 997)
    rows = Rows({"x": truth[:, None] * 10.0 + rng.normal(size=(997, 2))}, weights=rng.uniform(0.1, 2.0, 997))
    assert_same_groups(some_groupings(rows, None)[0], truth)


def test_fewer_rows_than_groups_leave_groups_empty():
    rows = Rows({"x": np.asarray([1.0, 2.0])})
    for groups in some_groupings(rows, None, num_groups=3):
        assert groups.shape == (2,) and set(groups.tolist()) <= {0, 1, 2}
