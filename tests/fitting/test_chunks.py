"""Training data in chunks: the same fit as of all rows at once, and refusals that name the chunk."""

import itertools

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.data import is_chunked
from bayesgen.errors import DataError
from bayesgen.runtime import chunking

from .programs import chained

SIZE = 103
CUTS = (0, 13, 14, 71, SIZE)  # one chunk is a single row


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def data(rng):
    """A mixed frame, labels and weights, some of them zero. Every level occurs in the first chunk."""
    codes = np.arange(SIZE) % 3
    mean = 1e3 + codes  # far from zero: sums of squares would cancel
    frame = pd.DataFrame(
        {
            "height": rng.normal(mean, 0.1),
            "weight": rng.normal(-mean, 3.0).astype(np.float32),
            "tame": rng.random(SIZE) < 0.3 + 0.2 * codes,
            "food": np.asarray(["leaves", "meat", "roots"])[rng.permutation(np.arange(SIZE)) % 3],
        }
    )
    frame.loc[:2, "food"] = ["leaves", "meat", "roots"]
    return frame, np.asarray(["a", "b", "c"])[codes], rng.integers(0, 4, SIZE)


def parts(*arrays):
    """The rows in unequal chunks, as tuples."""
    for start, stop in itertools.pairwise(CUTS):
        yield tuple(array[start:stop] for array in arrays)


def same(one, two):
    """Two fits with the same parameters, priors and evidence, to rounding."""
    assert one.schema == two.schema
    assert one.parameters.keys() == two.parameters.keys()
    for name, value in one.parameters.items():
        np.testing.assert_allclose(two.parameters[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
    if one.log_evidence is not None:
        np.testing.assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-11)
    if one.schema.mean is not None:
        np.testing.assert_allclose(two.schema.mean, one.schema.mean, rtol=1e-14)
        np.testing.assert_allclose(two.schema.variance, one.schema.variance, rtol=1e-9)


MODELS = {
    "naive Bayes": bg.NaiveBayes(),
    "full": bg.GaussianDiscriminant(),
    "tied": bg.GaussianDiscriminant("tied"),
}


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_chunks_give_the_fit_of_all_rows_default_priors_included(model, method, data):
    X, y, weights = data
    same(bg.fit(model, X, y, method=method), bg.fit(model, parts(X, y), method=method))
    weighted = bg.fit(model, X, y, method=method, sample_weight=weights)
    same(weighted, bg.fit(model, parts(X, y, weights), method=method))


def as_mapping(X):
    return {name: X[name].to_numpy() for name in X}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, as_mapping], ids=["pandas", "polars", "mapping"])
def test_every_kind_of_table_may_be_a_chunk(make, data):
    X, y, _ = data
    whole = bg.fit(bg.NaiveBayes(), make(X), y, method=bg.Exact())
    same(whole, bg.fit(bg.NaiveBayes(), ((make(part), labels) for part, labels in parts(X, y)), method=bg.Exact()))


@pytest.mark.parametrize("make", [np.float32, scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_arrays_and_sparse_matrices_may_be_chunks(make, rng):
    counts, y = rng.poisson(1.5, (SIZE, 5)).astype(float), np.arange(SIZE) % 2
    whole = bg.fit(bg.NaiveBayes(), make(counts), y, method=bg.Exact())
    same(whole, bg.fit(bg.NaiveBayes(), [(make(part), labels) for part, labels in parts(counts, y)], method=bg.Exact()))


@pytest.mark.parametrize("wrap", [list, tuple, iter], ids=lambda wrap: wrap.__name__)
def test_chunks_come_as_lists_tuples_iterators_and_zips(wrap, data):
    X, y, _ = data
    whole = bg.summarize(MODELS["full"], X, y).statistics.class_weights
    assert bg.summarize(MODELS["full"], wrap(list(parts(X, y)))).statistics.class_weights.tolist() == whole.tolist()
    Xs, ys = zip(*parts(X, y), strict=True)
    found = bg.summarize(MODELS["full"], zip(Xs, ys, strict=True))
    assert found.statistics.class_weights.tolist() == whole.tolist()


def test_what_counts_as_chunks():
    X, y = np.zeros((2, 2)), [0, 1]
    for table in (
        [(1.0, 2.0), (3.0, 4.0)],
        ((1.0, 2.0), (3.0, 4.0)),
        [[1.0, 2.0], [3.0, 4.0]],
        [("a", None), ("b", "c")],
        [(np.float64(1.0), 2.0)],
        [X[0], X[1]],
        [],
        (X, y),  # a chunk, not a list of them
        X,
        {"a": [1.0]},
        pd.DataFrame(X),
        pl.DataFrame(X),
        *(scipy.sparse.csr_array(X).asformat(name) for name in ("csr", "csc", "coo", "dok", "lil", "dia", "bsr")),
        "text",
        3,
    ):
        assert not is_chunked(table), table
    for many in (
        [(X, y), (X, y)],
        ((X, y),),
        [(X,)],
        [(X.tolist(), y)],
        [({"a": [1.0]}, y)],
        [(pd.DataFrame(X), y)],
        [(scipy.sparse.coo_array(X), y)],
        iter([(X, y)]),
        zip([X], [y], strict=True),
        {1: (X, y)}.values(),
    ):
        assert is_chunked(many), many


def test_a_list_of_two_pairs_is_a_table_and_a_list_of_two_chunks_is_not():
    table = [(1.0, 2.0), (3.0, 5.0), (4.0, 4.0), (0.0, 1.0)]
    fit = bg.fit(bg.NaiveBayes(), table, [0, 1, 0, 1], method=bg.MLE())
    same(fit, bg.fit(bg.NaiveBayes(), [(table[:2], [0, 1]), (table[2:], [0, 1])], method=bg.MLE()))


# --- programs of one's own ----------------------------------------------------------------------------------


def unlabelled(n):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", n):
        numpyro.sample("count", dist.Poisson(rate))


def test_a_program_keeps_the_rows_of_its_rowwise_sites_and_joins_them(rng):
    program = bg.GenerativeProgram(chained, classes=2)
    y = np.arange(SIZE) % 2
    x = rng.normal(2.0 * y, 1.3)
    X = pd.DataFrame({"x": x, "z": rng.normal(0.5 * x, 0.7)})
    weights = rng.integers(1, 3, SIZE)
    mixed = [(*part, w) if number % 2 else part for number, (*part, w) in enumerate(parts(X, y, weights))]
    used = np.concatenate([part[2] if len(part) == 3 else np.ones(len(part[1])) for part in map(tuple, mixed)])
    found = bg.summarize(program, [tuple(part) for part in mixed]).statistics.rows
    assert program.plan.rowwise == ("z",)
    assert found.weights.tolist() == used.tolist()
    assert found.labels.tolist() == y.tolist()
    assert found.values["z"].tolist() == X["z"].tolist()
    same(bg.fit(program, X, y, method=bg.MAP()), bg.fit(program, parts(X, y), method=bg.MAP()))


def test_programs_without_classes_take_chunks_without_labels(rng):
    program = bg.GenerativeProgram(unlabelled, label=None)
    X = pd.DataFrame({"count": rng.poisson(2.0, SIZE)})
    for given in (parts(X), ((*part, None) for part in parts(X))):
        same(bg.fit(program, X, method=bg.MAP()), bg.fit(program, given, method=bg.MAP()))
    with pytest.raises(DataError, match="no classes"):
        bg.fit(program, X, np.zeros(SIZE), method=bg.MAP())


# --- refusals -----------------------------------------------------------------------------------------------


def refused(X, *words, **more):
    with pytest.raises(DataError) as caught:
        bg.fit(bg.NaiveBayes(), X, **{"method": bg.MLE(), **more})
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_no_chunks_are_refused():
    refused(iter([]), "without chunks")
    refused((chunk for chunk in ()), "without chunks")


def test_a_class_or_category_that_the_first_chunk_lacks_has_to_be_declared(data):
    X, y, _ = data
    one, two = (X[:10], y[:10]), (X[10:12], ["a", "d"])
    refused([one, two], "Chunk 2: y has 'd'", "Schema(classes=[...])", "comes from chunk 1")
    schema = bg.Schema(classes=["a", "b", "c", "d"])
    assert bg.summarize(bg.NaiveBayes(), [one, two], schema=schema).statistics.class_weights.tolist() == [5, 3, 3, 1]

    other = X[10:12].assign(food=["leaves", "fish"])
    refused([one, (other, y[10:12])], "Chunk 2: Column 'food' has 'fish'", "Schema(categories={'food': [...]})")
    schema = bg.Schema(categories={"food": ["fish", "leaves", "meat", "roots"]})
    counts = bg.summarize(bg.NaiveBayes(), [one, (other, y[10:12])], schema=schema).statistics.summaries[
        "categorical_4"
    ]
    assert counts.totals[0].sum(0).tolist()[0][0] == 1

    refused([(X[:1], y[:1]), one], "Chunk 1: There is only one class", "Schema(classes=[...])")


def test_refusals_name_the_chunk(data):
    X, y, weights = data
    one = (X[:10], y[:10])
    refused([one, one, (X[["height", "weight", "tame"]], y)], "Chunk 3: ", "Missing: 'food'")
    refused([one, (X[10:20], y[10:15])], "Chunk 2: X has 10 rows and y has 5 labels")
    refused([one, (X[10:20], y[10:20], weights[:3])], "Chunk 2: sample_weight has shape (3,)", "10 rows")
    refused([one, (X[10:20], y[10:20], -weights[10:20] - 1)], "Chunk 2: sample_weight has 10 entries")
    refused([one, (X[:0], y[:0])], "Chunk 2: X is empty")
    refused([one, (X[10:20],)], "Chunk 2: y is missing")
    refused([one, X[10:20]], "Chunk 2: This has to be a tuple (X, y)", "DataFrame")
    refused([one, (X, y, weights, 1)], "Chunk 2: This has to be", "length 4")
    refused([one, (X.assign(height=np.inf), y)], "Chunk 2: ", "'height' (103 infinite)")
    refused([(X[:10], y[:10], np.zeros(10))] * 2, "zero for all rows")
    bg.fit(bg.NaiveBayes(), [(X[:10], y[:10], np.zeros(10)), (X, y, weights)], method=bg.MLE())


def test_labels_and_weights_do_not_go_beside_chunks(data):
    X, y, weights = data
    refused(parts(X, y), "Chunks hold their labels", y=y)
    refused(parts(X, y), "Chunks hold their labels", sample_weight=weights)


# --- blocks -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(chunking, "TABLE_CELLS", 1)
    monkeypatch.setattr(chunking, "LEAST_ROWS", 10)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, as_mapping], ids=["pandas", "polars", "mapping"])
def test_one_pass_goes_block_by_block_to_the_same_fit(make, data, small_blocks, monkeypatch):
    X, y, weights = data
    table = make(X)
    few = bg.fit(bg.NaiveBayes(), table, y, method=bg.Exact(), sample_weight=weights)
    monkeypatch.setattr(chunking, "LEAST_ROWS", 1000)
    same(bg.fit(bg.NaiveBayes(), table, y, method=bg.Exact(), sample_weight=weights), few)


def test_errors_of_blocks_count_in_the_whole_table(data, small_blocks):
    X, y, weights = data
    broken = X.assign(weight=np.where(np.arange(SIZE) % 40 == 37, np.inf, X["weight"]))
    refused(broken, "'weight' (2 infinite)", y=y)
    schema = bg.Schema(classes=["a", "b", "c"])
    refused(X, "'d' (first at row 57)", y=np.where(np.arange(SIZE) == 57, "d", y), schema=schema)
    refused(X, "-1.0 at row 99", y=y, sample_weight=np.where(np.arange(SIZE) == 99, -1, weights))


def test_what_dtypes_declare_keeps_its_prior_mass_and_can_be_predicted():
    cups = pd.Series(pd.Categorical(["tall", "small", "tall", "small", "small"], ["small", "grand", "tall"]))
    labels = pd.Series(pd.Categorical(["b", "c", "b", "c", "b"], ["c", "a", "b"]))
    chunked = [(pd.DataFrame({"cup": cups[rows]}), labels[rows]) for rows in (slice(0, 2), slice(2, 5))]
    for data in ((pd.DataFrame({"cup": cups}), labels), (chunked,)):
        fit = bg.fit(bg.NaiveBayes(), *data, method=bg.Exact())
        assert fit.classes.tolist() == ["c", "a", "b"]
        np.testing.assert_allclose(fit.parameters["class_probs"], np.array([2 + 1, 0 + 1, 3 + 1]) / (5 + 3))
        means = [[3 / 5, 1 / 5, 1 / 5], [1 / 3, 1 / 3, 1 / 3], [2 / 6, 1 / 6, 3 / 6]]
        np.testing.assert_allclose(fit.parameters["categorical_3_probs"][:, 0], means)
        unseen = bg.predict(fit, {"cup": ["grand"]}, rule=bg.BMA()).probabilities[0]
        joint = np.array([3 / 8 / 5, 1 / 8 / 3, 4 / 8 / 6])
        np.testing.assert_allclose(unseen, joint / joint.sum())


def test_labels_and_weights_of_another_index_than_the_rows_are_refused():
    X = pd.DataFrame({"size": [1.0, 2.0, 7.0, 9.0]}, index=[5, 7, 9, 11])
    y = pd.Series(["a", "a", "b", "b"], index=X.index)
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE(), sample_weight=pd.Series(np.ones(4), index=X.index))
    shuffled = y.iloc[[0, 2, 1, 3]]
    with pytest.raises(
        DataError, match=r"y has another index than X: at row 1 X has 7 and y has 9\. .*y\.loc\[X\.index\]"
    ):
        bg.fit(bg.NaiveBayes(), X, shuffled, method=bg.MLE())
    same(fit, bg.fit(bg.NaiveBayes(), X, shuffled.loc[X.index], method=bg.MLE()))
    with pytest.raises(DataError, match=r"at row 0 X has 5 and y has 0\. .*y\.to_numpy\(\)"):
        bg.fit(bg.NaiveBayes(), X, y.reset_index(drop=True), method=bg.MLE())
    same(fit, bg.fit(bg.NaiveBayes(), X, y.to_numpy(), method=bg.MLE()))
    same(fit, bg.fit(bg.NaiveBayes(), X.reset_index(drop=True), y.reset_index(drop=True), method=bg.MLE()))
    with pytest.raises(
        DataError, match="sample_weight has another index than X: at row 0 X has 5 and sample_weight has 0"
    ):
        bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE(), sample_weight=pd.Series(np.ones(4)))
    with pytest.raises(DataError, match=r"y has another index than X\['size'\]: at row 0"):
        bg.fit(bg.NaiveBayes(), dict(X), y[::-1], method=bg.MLE())
    with pytest.raises(DataError, match=r"Chunk 2: y has another index"):
        bg.fit(bg.NaiveBayes(), [(X, y), (X, shuffled)], method=bg.MLE())
    with pytest.raises(DataError, match=r"y_test has another index than X_test: .*y_test\.loc\[X_test\.index\]"):
        bg.compare(bg.NaiveBayes(), X, y, X, shuffled, methods=[(bg.MLE(), bg.PlugIn())])


def test_a_row_of_weight_zero_is_absent():
    X = pd.DataFrame({"size": [1.0, 2.0, 7.0, 9.0], "food": ["meat", "roots", "meat", "meat"]})
    y = ["a", "a", "b", "b"]
    bad = pd.DataFrame({"size": [1e200, np.nan, -np.inf], "food": ["glue", None, "glue"]})
    both, labels = pd.concat([bad, X], ignore_index=True), np.array(["c", None, "a", *y], object)
    weights = [0, 0, 0, 1, 1, 1, 1]
    for method in (bg.MLE(), bg.Exact()):
        plain = bg.fit(bg.NaiveBayes(), X, y, method=method)
        same(plain, bg.fit(bg.NaiveBayes(), both, labels, method=method, sample_weight=weights))
        chunked = [(both[:3], labels[:3], weights[:3]), (both[3:], labels[3:], weights[3:])]
        same(plain, bg.fit(bg.NaiveBayes(), chunked, method=method))
    worse = both.assign(size=[*bad["size"], 1.0, 2.0, 7.0, np.inf])
    with pytest.raises(DataError, match=r"'size' \(1 infinite\).*\(Rows are counted without the 3 of"):
        bg.fit(bg.NaiveBayes(), worse, labels, method=bg.MLE(), sample_weight=weights)


def test_rows_of_a_program_have_weight_zero_as_well(rng):
    X = {"x": np.array([np.nan, 1.0, 3.0]), "z": np.array([np.inf, 0.5, 0.2])}
    ours = bg.GenerativeProgram(chained, classes=2)
    weighted = bg.summarize(ours, X, [1, 0, 1], sample_weight=[0, 2, 1]).statistics
    plain = bg.summarize(
        ours, {name: values[1:] for name, values in X.items()}, [0, 1], sample_weight=[2, 1]
    ).statistics
    for one, two in zip(jax.tree.leaves(weighted), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(one, two)


def test_sparse_rows_of_weight_zero_are_absent():
    X = scipy.sparse.csr_array(np.array([[1.0, 0, 2], [0, 0.5, 0], [0, 3, 1]]))
    fit = bg.fit(bg.NaiveBayes(), X, ["a", "a", "b"], method=bg.Exact(), sample_weight=[1, 0, 1])
    same(fit, bg.fit(bg.NaiveBayes(), X[[0, 2]], ["a", "b"], method=bg.Exact()))


def test_weights_that_are_all_zero_or_too_large_are_refused():
    X, y = [[1.0], [2.0], [3.0], [4.0]], ["a", "a", "b", "b"]
    for data in ((X, y), ([(X, y, np.zeros(4)), (X, y, np.zeros(4))],)):
        weights = {} if len(data) == 1 else {"sample_weight": np.zeros(4)}
        with pytest.raises(DataError, match="sample_weight is zero for all rows"):
            bg.summarize(bg.NaiveBayes(), *data, **weights)
    with pytest.raises(DataError, match=r"sample_weight has 1e\+308 at row 0.*cannot count more than"):
        bg.summarize(bg.NaiveBayes(), X, y, sample_weight=np.full(4, 1e308))
