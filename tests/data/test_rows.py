"""`Rows`: taken and joined like a table, with everything that belongs to a row; read once for every verb."""

import jax
import jaxtyping
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import type_checker
from prediction.draws import drawn

import bayesgen as bg
from bayesgen.data import Rows, joined_rows

SIZE = 9


def example(rng):
    return Rows(
        {"height": rng.normal(size=SIZE), "words": scipy.sparse.csr_array(rng.poisson(0.5, (SIZE, 4)).astype(float))},
        observed={"height": rng.random(SIZE) < 0.5},
        covariates={"dose": rng.normal(size=(SIZE, 2))},
        labels=rng.integers(-1, 3, SIZE),
        weights=rng.random(SIZE),
    )


@pytest.mark.parametrize("places", [slice(2, 7), [8, 0, 3], np.array([4]), slice(0, 0)], ids=str)
def test_rows_are_taken_with_all_that_belongs_to_them(places):
    rows = example(np.random.default_rng(0))
    some, expected = rows.take(places), np.arange(SIZE)[places]
    assert some.num_rows == len(expected) and rows.num_rows == SIZE
    for taken, whole in zip(jax.tree.leaves(some), jax.tree.leaves(rows), strict=True):
        cells, all_cells = (a.toarray() if scipy.sparse.issparse(a) else a for a in (taken, whole))
        np.testing.assert_array_equal(cells, all_cells[expected])


def test_a_slice_of_rows_copies_nothing():
    values = np.zeros((SIZE, 3))
    assert np.shares_memory(Rows({"x": values}).take(slice(1, 4)).values["x"], values)


def test_joined_rows_are_those_of_all_parts_in_order():
    rng = np.random.default_rng(1)
    whole = Rows({"x": rng.normal(size=(SIZE, 2))}, covariates={"c": rng.normal(size=SIZE)}, labels=np.arange(SIZE) % 2)
    assert joined_rows([whole.take(slice(0, 4)), whole.take(slice(4, 4)), whole.take(slice(4, SIZE))]) == whole


def test_joined_rows_have_masks_of_all_sites_that_lack_cells_in_some_part():
    rng = np.random.default_rng(1)
    cells, other = rng.normal(size=(SIZE, 2)), rng.normal(size=SIZE)
    mask, some = rng.random((SIZE, 2)) < 0.5, np.arange(SIZE) != 7
    whole = Rows({"x": cells, "z": other}, {"x": mask, "z": some})
    one, two = whole.take(slice(0, 4)), whole.take(slice(4, SIZE))
    rows = joined_rows([Rows(one.values, {"x": one.observed["x"]}), Rows(two.values), Rows(two.values, two.observed)])
    np.testing.assert_array_equal(rows.observed["x"], np.concatenate([mask[:4], np.ones((5, 2), bool), mask[4:]]))
    np.testing.assert_array_equal(rows.observed["z"], np.concatenate([np.ones(9, bool), some[4:]]))


def test_joined_sequences_are_padded_to_the_longest():
    words = [np.array([[2, 0, 1], [1, -1, -1]]), np.array([[0], [1]]), np.array([[1, 1]])]
    steps = [np.ones((len(word), word.shape[1], 2)) for word in words]
    unseen = np.array([[[True, False]]] * 2)
    parts = [Rows({"word": word, "walk": walk}) for word, walk in zip(words, steps, strict=True)]
    parts[1] = Rows(parts[1].values, {"walk": unseen, "word": np.array([[True], [False]])})
    rows = joined_rows(parts)
    assert rows.values["word"].tolist() == [[2, 0, 1], [1, -1, -1], [0, -1, -1], [1, -1, -1], [1, 1, -1]]
    assert rows.observed["word"].tolist() == [[True] * 3] * 3 + [[False, True, True], [True] * 3]
    assert rows.values["walk"].sum((1, 2)).tolist() == [6, 6, 2, 2, 4]
    assert rows.observed["walk"].sum(1).tolist() == [[3, 3], [3, 3], [1, 0], [1, 0], [2, 2]]


@pytest.mark.skipif(not type_checker.REQUESTED, reason="types are checked where BAYESGEN_CHECK_TYPES=1 asks for it")
def test_types_and_shapes_are_checked():
    with pytest.raises(jaxtyping.TypeCheckError):
        Rows({"x": np.zeros(3)}, labels=np.zeros(3))
    with pytest.raises(jaxtyping.TypeCheckError):
        Rows({"x": np.zeros(3)}, labels=np.zeros(3, int), weights=np.ones(4))


@pytest.mark.parametrize("kind", ["exact", "draws"])
@pytest.mark.parametrize("rule", [bg.PlugIn(), bg.BMA(), bg.ConditionalAverage(num_draws=50)], ids=repr)
@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")
def test_a_prediction_reads_its_rows_once(kind, rule, monkeypatch):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    fit = drawn(fit, 4, 50) if kind == "draws" else fit
    times, encode = [], bg.Schema.encode_cells
    monkeypatch.setattr(bg.Schema, "encode_cells", lambda *args: times.append(args) or encode(*args))
    far = np.concatenate([X[:5], [[40.0, -40.0]]])  # a row of uneven weights, which is looked at once more
    answer = bg.predict(fit, far, rule=rule)
    assert len(times) == 1
    same = rule.apply(fit, pd.DataFrame(far, columns=["x0", "x1"]))  # rules take data that were not read, too
    np.testing.assert_array_equal(answer.log_probabilities, same.log_probabilities)


@pytest.mark.parametrize("at", ["mean", "mode", "predictive", "draws"])
def test_rows_that_were_read_give_the_table_that_their_data_give(at):
    X, y = {"a": [1.0, 2.0, 4.0, 5.0], "b": [True, False, True, True]}, list("uvuv")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    rows = fit.read(X)
    assert fit.read(rows) is rows
    np.testing.assert_array_equal(fit.log_joint(rows, at=at), fit.log_joint(X, at=at))
    table, some = fit.log_joint(X, at=at), fit.log_joint(X, at=at, rows=[3, 1])
    np.testing.assert_allclose(some, table[..., [3, 1], :], rtol=1e-12)


def test_an_average_has_the_table_of_its_members_who_read_the_data_each_in_its_own_way():
    X, y = np.random.default_rng(3).normal(size=(30, 2)), np.arange(30) % 3
    model = bg.average([bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag")])
    fit = bg.fit(model, X, y, method=bg.Exact())
    table = fit.log_joint(X, at="predictive")
    of_members = [member.log_joint(X, at="predictive") for member in fit.members]
    np.testing.assert_allclose(table, np.logaddexp(*(np.log(fit.weights)[:, None, None] + of_members)), rtol=1e-12)
    np.testing.assert_allclose(fit.log_joint(X, at="predictive", rows=[5, 2]), table[[5, 2]], rtol=1e-12)
    rows = fit.read(X)  # by the best member
    np.testing.assert_array_equal(fit.log_joint(rows, at="mean"), fit.best.log_joint(X, at="mean"))
