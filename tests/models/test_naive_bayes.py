"""Which blocks naive Bayes makes of the columns."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.data import ColumnKinds

CODES = np.array([[0, 2, 1], [1, 0, 0], [0, 1, 1], [1, 2, 0], [0, 0, 1]])
Y = ["b", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (bg.NaiveBayes(), np.array(["lo", "mid", "top"])[CODES]),
        (bg.NaiveBayes(), np.array(["lo", "mid", "top"], object)[CODES]),
        (bg.NaiveBayes(bg.DirichletCategorical()), CODES),
    ],
)
def test_categorical_columns_of_an_array_may_differ_in_number_of_values(model, X):
    fit = bg.fit(model, X, Y, method=bg.Exact())
    frame = pd.DataFrame({name: X[:, j] for j, name in enumerate(["x0", "x1", "x2"])})
    other = bg.fit(model, frame, Y, method=bg.Exact())
    assert fit.program.attributes == other.program.attributes == ("categorical_2", "categorical_3")
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-14)
    one, two = (bg.predict(f, X, rule=bg.BMA()).probabilities for f in (fit, other))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_categorical_columns_of_an_array_with_one_number_of_values_are_one_block():
    fit = bg.fit(bg.NaiveBayes(bg.DirichletCategorical()), CODES[:, [0, 2]], Y, method=bg.Exact())
    ((name, _, columns),) = fit.concrete.blocks
    assert name == "categorical_2" and columns is fit.schema.columns


MIXED = {"a": [1.0, 2.0, 4.0, 3.0, 7.0], "b": [0.5, 1.0, 0.2, 0.1, 0.3], "c": [5.0, 4.0, 1.0, 1.5, 2.0]}


def blocks(families):
    """Name and columns of the blocks of naive Bayes with these families."""
    return [
        (name, list(columns)) for name, _, columns in bg.NaiveBayes(families).concrete(bg.Schema.infer(MIXED)).blocks
    ]


def drawn():
    return bg.NormalInverseGamma(kappa=dist.Gamma(2.0, 1.0))


def test_columns_with_equal_families_are_one_block():
    assert blocks(None) == [("real", ["a", "b", "c"])]
    assert blocks({"a": bg.NormalInverseGamma()}) == [("real", ["a", "b", "c"])]
    equal = {"a": bg.NormalInverseGamma(kappa=1.0), "c": bg.NormalInverseGamma(kappa=np.ones(()))}
    assert blocks(equal) == [("real", ["a", "c"]), ("real_part2", ["b"])]
    tied = {"a": bg.NormalInverseGamma(tied=True), "b": bg.NormalInverseGamma(tied=True)}
    assert blocks(tied) == [("real", ["a", "b"]), ("real_part2", ["c"])]


@pytest.mark.parametrize(
    "family",
    [bg.NormalInverseWishart, lambda: bg.NormalInverseGamma(spherical=True), drawn],
    ids=["full", "one", "drawn"],
)
def test_families_whose_columns_depend_on_each_other_are_one_block_by_a_kind_alone(family):
    assert blocks(family()) == blocks({"real": family()}) == [("real", ["a", "b", "c"])]
    assert blocks({"a": family(), "b": family()}) == [("real", ["a"]), ("real_part2", ["b"]), ("real_part3", ["c"])]
    assert blocks({"real": family(), "b": family()}) == [("real", ["a", "c"]), ("real_part2", ["b"])]


def test_equal_families_of_two_columns_say_what_one_family_says_of_both():
    one = bg.NormalInverseGamma(kappa=0.5)
    models = bg.NaiveBayes(one), bg.NaiveBayes({name: bg.NormalInverseGamma(kappa=0.5) for name in MIXED})
    together, apart = (bg.fit(model, MIXED, Y, method=bg.Exact()) for model in models)
    assert together.log_evidence == apart.log_evidence
    assert together.parameters.keys() == apart.parameters.keys()


@pytest.mark.parametrize("structure", ["full", "average"])
@pytest.mark.parametrize("column", ["x0", "x1"])
@pytest.mark.parametrize(
    ("X", "family"),
    [
        (np.array(list(MIXED.values())).T, bg.NormalInverseGamma(mean=100.0, kappa=1e6)),
        (CODES > 0, bg.BetaBernoulli(3.0, 4.0)),
        (scipy.sparse.csr_matrix(CODES > 0), bg.BetaBernoulli(3.0, 4.0)),
    ],
    ids=["numbers", "booleans", "sparse"],
)
def test_a_family_by_the_name_of_a_column_is_that_columns_alone_in_an_array_as_in_a_frame(X, family, column, structure):
    schema = bg.Schema(kinds={f"x{j}": "binary" for j in range(3)}) if scipy.sparse.issparse(X) else None
    frame = pd.DataFrame(X.toarray() if scipy.sparse.issparse(X) else X, columns=["x0", "x1", "x2"])
    model = bg.NaiveBayes({column: family}, structure=structure)
    by_array, by_frame = (
        bg.fit(model, rows, Y, method=bg.Exact(), schema=schema_of_rows)
        for rows, schema_of_rows in ((X, schema), (frame, None))
    )
    owners = {name: block_family for _, block_family, columns in by_array.concrete.blocks for name in columns}
    assert [name for name, block_family in owners.items() if block_family == family] == [column]
    assert by_array.log_evidence == pytest.approx(by_frame.log_evidence, rel=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_family_for_the_kind_of_all_columns_is_read_without_looking_at_them_one_by_one(is_sparse):
    """There may be very many columns, so kinds are kept once for all of them."""
    X, y = np.random.default_rng(4).poisson(1.0, (11, 7)), np.arange(11) % 2
    X = scipy.sparse.csr_array(X) if is_sparse else X
    kind, family = ("count", bg.DirichletMultinomial()) if is_sparse else ("real", bg.NormalInverseGamma())
    fits = [bg.fit(bg.NaiveBayes(families), X, y, method=bg.Exact()) for families in (family, {kind: family})]
    assert all(isinstance(fit.schema.kinds, ColumnKinds) and not fit.schema.kinds.overrides for fit in fits)
    assert fits[0].schema == fits[1].schema and fits[0].log_evidence == fits[1].log_evidence
