"""`SufficientStatistics`: made of rows in one place, added up like the rows, padded without a trace."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.statistics import (
    BERNOULLI,
    CategoricalLikelihood,
    MultivariateNormalLikelihood,
    NormalLikelihood,
    merged,
    sufficient_statistics,
)
from bayesgen.statistics.sufficient import _dense

STATISTICS = {
    "switches": BERNOULLI,
    "codes": CategoricalLikelihood(4),
    "lengths": NormalLikelihood(),
    "points": MultivariateNormalLikelihood(),
}
SIZE, CLASSES = 41, 3


def example(weighted=True):
    rng = np.random.default_rng(5)
    values = {
        "switches": (rng.random((SIZE, 2)) < 0.3).astype(float),
        "codes": rng.integers(0, 4, (SIZE, 3)),
        "lengths": rng.normal(1e6, 1.0, (SIZE, 2)),
        "points": rng.normal(size=(SIZE, 2)),
    }
    weights = rng.integers(1, 4, SIZE).astype(float) if weighted else None
    covariates = {"dose": rng.normal(size=(SIZE, 2))}
    return Rows(values, covariates=covariates, labels=np.arange(SIZE) % CLASSES, weights=weights)


def close(some, others):
    assert jax.tree.structure(some) == jax.tree.structure(others)
    for one, other in zip(jax.tree.leaves(some), jax.tree.leaves(others), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "plain"])
@pytest.mark.parametrize("keeps_rows", [True, False], ids=["rows", "no rows"])
def test_statistics_of_parts_add_up_to_those_of_all_rows(weighted, keeps_rows):
    rows = example(weighted)
    whole = sufficient_statistics(rows, STATISTICS, CLASSES, keeps_rows=keeps_rows)
    parts = [
        sufficient_statistics(rows.take(places), STATISTICS, CLASSES, keeps_rows=keeps_rows)
        for places in (slice(0, 7), slice(7, 8), slice(8, SIZE))  # the second one has no row of two classes
    ]
    close(merged(parts), whole)
    close(parts[0] + parts[1] + parts[2], whole)
    close(parts[0] + (parts[1] + parts[2]), whole)


@pytest.mark.parametrize("keeps_rows", [True, False], ids=["rows", "no rows"])
def test_rows_without_labels_are_kept_apart(keeps_rows):
    rows = example()
    hidden = np.array([0, 2, 7, 8, 40])
    labels = rows.labels.copy()
    labels[hidden] = -1
    some = dataclasses.replace(rows, labels=labels)
    known = np.setdiff1d(np.arange(SIZE), hidden)
    labelled = sufficient_statistics(rows.take(known), STATISTICS, CLASSES, keeps_rows=keeps_rows)
    places = (slice(0, 9), slice(9, 11), slice(11, SIZE))  # the second one lacks no label
    parts = [sufficient_statistics(some.take(part), STATISTICS, CLASSES, keeps_rows=keeps_rows) for part in places]
    assert parts[1].unlabelled is None
    for whole in (
        sufficient_statistics(some, STATISTICS, CLASSES, keeps_rows=keeps_rows),
        merged(parts),
        parts[0] + (parts[1] + parts[2]),
    ):
        close(dataclasses.replace(whole, unlabelled=None, covariates={}), dataclasses.replace(labelled, covariates={}))
        close(whole.unlabelled, dataclasses.replace(rows.take(hidden), labels=None))
        assert whole.total_weight == pytest.approx(rows.weights.sum())
        padded = whole.padded()
        assert padded.unlabelled.num_rows == 6 and padded.unlabelled.weights[5] == 0
        close(padded.unlabelled.take(slice(0, 5)), whole.unlabelled)
        assert padded.total_weight == whole.total_weight


def test_rows_none_of_which_has_a_label_are_kept_as_they_are():
    rows = example(weighted=False)
    none = dataclasses.replace(rows, labels=np.full(SIZE, -1))
    found = sufficient_statistics(none, STATISTICS, CLASSES, keeps_rows=True)
    assert found.rows is None and found.total_weight == SIZE and not found.class_weights.any()
    assert found.unlabelled.values["lengths"] is rows.values["lengths"]
    empty = sufficient_statistics(rows.take(slice(0, 0)), STATISTICS, CLASSES)
    close(found.summaries, empty.summaries)
    close((found + sufficient_statistics(rows, STATISTICS, CLASSES)).summaries, rows_alone(rows).summaries)


def rows_alone(rows):
    return sufficient_statistics(rows, STATISTICS, CLASSES)


def test_one_statistic_a_site_and_weights_by_class():
    rows = example()
    found = sufficient_statistics(rows, STATISTICS, CLASSES)
    assert set(found.summaries) == set(STATISTICS) and found.rows is None
    of_class = rows.labels[:, None] == np.arange(CLASSES)
    np.testing.assert_allclose(found.class_weights, (of_class * rows.weights[:, None]).sum(0))
    in_class = np.repeat(rows.values["lengths"], rows.weights.astype(int), 0)[
        np.repeat(rows.labels, rows.weights.astype(int)) == 1
    ]
    np.testing.assert_allclose(found.summaries["lengths"].mean[1], in_class.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.summaries["lengths"].scatter[1], in_class.var(0) * len(in_class), rtol=1e-6)
    assert found.labels.count == rows.weights.sum() and found.labels.totals[0] is found.class_weights


def test_cells_that_are_not_there_count_for_nothing():
    rows = example()
    seen = np.random.default_rng(6).random((SIZE, 2)) < 0.7
    holes = {**rows.values, "lengths": np.where(seen, rows.values["lengths"], np.nan)}
    found = sufficient_statistics(
        Rows(holes, {"lengths": seen}, labels=rows.labels, weights=rows.weights), STATISTICS, CLASSES
    )
    other = sufficient_statistics(rows, STATISTICS, CLASSES)
    close(found.summaries["points"], other.summaries["points"])
    for column in range(2):
        there = rows.take(np.flatnonzero(seen[:, column]))
        alone = sufficient_statistics(there, {"lengths": NormalLikelihood()}, CLASSES).summaries["lengths"]
        np.testing.assert_allclose(found.summaries["lengths"].count[:, column], alone.count)
        np.testing.assert_allclose(found.summaries["lengths"].mean[:, column], alone.mean[:, column])
        np.testing.assert_allclose(found.summaries["lengths"].scatter[:, column], alone.scatter[:, column], rtol=1e-6)


def test_padding_adds_rows_of_no_weight():
    found = sufficient_statistics(example(), STATISTICS, CLASSES, keeps_rows=True)
    padded = found.padded()
    assert padded.rows.num_rows == 48 and (padded.rows.weights[SIZE:] == 0).all()
    assert padded.rows.take(slice(0, SIZE)) == found.rows
    assert padded.summaries == found.summaries
    without = sufficient_statistics(example(), STATISTICS, CLASSES)
    assert without.padded() is without


def test_rows_without_labels_are_of_the_only_class():
    rows = Rows({"lengths": np.arange(4.0)})
    assert sufficient_statistics(rows, {"lengths": NormalLikelihood()}, 1).class_weights.tolist() == [4.0]


def test_sparse_rows_are_made_dense_up_to_a_gigabyte():
    few = scipy.sparse.csr_array(np.eye(3, 5))
    np.testing.assert_array_equal(_dense(few), np.eye(3, 5))
    with pytest.raises(bg.DataError, match="would take 2 GB"):
        _dense(scipy.sparse.csr_array((2**14, 2**14)))
