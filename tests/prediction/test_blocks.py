"""Prediction in blocks of rows: the same answer, the same errors and one warning, whatever the blocks are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.errors import DataError, ImpossibleRowsWarning
from bayesgen.runtime import chunking

RULES = [bg.BMA(), bg.PlugIn(), bg.ConditionalAverage(num_draws=200), bg.BMA(entropy_draws=200)]
PARTS = ("log_probabilities", "log_marginal", "standard_error", "expected_entropy", "mutual_information_error")


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    y = np.arange(31) % 3
    return rng.poisson(2.0 + y[:, None], (31, 5)).astype(float), y


@pytest.fixture
def small_blocks(monkeypatch):
    def cut():
        monkeypatch.setattr(chunking, "TABLE_CELLS", 1)
        monkeypatch.setattr(chunking, "LEAST_ROWS", 8)

    return cut


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame, scipy.sparse.csc_array])
def test_blocks_give_the_answer_for_all_rows(make, rule, data, small_blocks):
    X, y = data
    table = make(X)
    fit = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), table, y, method=bg.Exact())
    whole = bg.predict(fit, table, rule=rule)
    small_blocks()
    found = bg.predict(fit, table, rule=rule)
    for name in PARTS:
        one, other = getattr(whole, name), getattr(found, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12, err_msg=name)
    assert found.labels.tolist() == whole.labels.tolist()


def test_rows_in_errors_and_warnings_are_counted_in_the_whole_table(data, small_blocks):
    X, y = data
    model = bg.NaiveBayes(bg.DirichletCategorical())
    fit = bg.fit(model, (X > 1).astype(int), y, method=bg.Exact(), schema=bg.Schema(kinds={"x0": "categorical"}))
    small_blocks()
    queries = (X > 1).astype(int)
    queries[29, 2] = 9
    with pytest.raises(DataError, match=r"'x2' has 9 \(first at row 29\)"):
        bg.predict(fit, queries, rule=bg.BMA())

    never = bg.fit(bg.NaiveBayes(), np.zeros((31, 1), bool), y, method=bg.MLE())
    some = np.isin(np.arange(31), [3, 17, 30])[:, None]
    with pytest.warns(ImpossibleRowsWarning, match="3 of 31 rows") as caught:
        bg.predict(never, some, rule=bg.PlugIn())
    assert len(caught) == 1
