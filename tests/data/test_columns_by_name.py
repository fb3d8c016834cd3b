"""y and sample_weight as names of columns of X: the same as the columns given on their own."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesgen as bg

RNG = np.random.default_rng(3)
COLUMNS = {
    "height": RNG.normal(size=40),
    "sky": RNG.choice(["blue", "grey"], 40),
    "species": np.repeat(["ape", "bear"], 20),
    "w": RNG.integers(0, 3, 40),
}
X = {name: COLUMNS[name] for name in ("height", "sky")}
FORMS = {"mapping": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=FORMS)
def table(request):
    return FORMS[request.param](COLUMNS)


@pytest.fixture(scope="module")
def reference():
    return bg.fit(bg.NaiveBayes(), X, COLUMNS["species"], sample_weight=COLUMNS["w"], method=bg.Exact())


def test_named_columns_are_labels_and_weights_and_no_attributes(table, reference):
    fit = bg.fit(bg.NaiveBayes(), table, "species", sample_weight="w", method=bg.Exact())
    assert fit.schema == reference.schema and fit.schema.label == "species"
    assert fit.log_evidence == reference.log_evidence
    assert (
        bg.summarize(bg.NaiveBayes(), table, "species", sample_weight="w").statistics == reference.summaries.statistics
    )


def test_more_rows_and_left_out_rows_are_read_so_too(table, reference):
    more = reference.update(X, COLUMNS["species"], sample_weight=COLUMNS["w"]).log_evidence
    assert reference.update(table, "species", sample_weight="w").log_evidence == more
    plain = bg.leave_one_out(reference, X, COLUMNS["species"], sample_weight=COLUMNS["w"])
    named = bg.leave_one_out(reference, table, "species", sample_weight="w")
    assert np.array_equal(named.log_scores, plain.log_scores, equal_nan=True)


def test_sequences_and_batches_of_fits_take_names():
    frame = pd.DataFrame(COLUMNS).drop(columns="w")
    plain = bg.prequential(bg.NaiveBayes(), X, COLUMNS["species"])
    assert np.array_equal(
        bg.prequential(bg.NaiveBayes(), frame, "species").log_scores, plain.log_scores, equal_nan=True
    )
    batch = bg.fit_many(bg.NaiveBayes(), frame, "species", weights=np.ones((2, 40)), method=bg.Exact())
    assert batch.classes.tolist() == ["ape", "bear"] and "species" not in batch.schema.columns


def test_comparisons_take_names():
    frame, pairs = pd.DataFrame(COLUMNS).drop(columns="w"), [(bg.Exact(), bg.BMA())]
    named = bg.compare(bg.NaiveBayes(), frame, "species", frame, "species", pairs=pairs)
    plain = bg.compare(bg.NaiveBayes(), X, COLUMNS["species"], X, COLUMNS["species"], pairs=pairs)
    assert named.table.log_score.tolist() == plain.table.log_score.tolist()
    studied = bg.study(bg.NaiveBayes(), frame, "species", sizes=[5], repeats=2, pairs=pairs, progress=False)
    assert len(studied.table) == 2


def test_the_label_of_a_fit_is_ignored_in_new_rows_and_other_columns_are_not(table, reference):
    frame = pd.DataFrame(COLUMNS)
    fit = bg.fit(bg.NaiveBayes(), frame.drop(columns="w"), "species", method=bg.Exact())
    without = bg.predict(fit, frame[["height", "sky"]], rule=bg.BMA())
    assert np.array_equal(bg.predict(fit, frame.drop(columns="w"), rule=bg.BMA()).probabilities, without.probabilities)
    with pytest.raises(bg.DataError, match="Not in the schema: 'species', 'w'"):
        bg.predict(reference, table, rule=bg.BMA())
    with pytest.raises(bg.DataError, match="Not in the schema: 'w'"):
        bg.predict(fit, table, rule=bg.BMA())


def test_a_regression_takes_the_name_of_its_response(table):
    frame = pd.DataFrame(COLUMNS)[["height", "w"]]
    fit = bg.fit(bg.LinearRegression(), frame, "w", method=bg.Exact())
    plain = bg.fit(bg.LinearRegression(), frame[["height"]], frame["w"], method=bg.Exact())
    assert fit.log_evidence == plain.log_evidence
    answers = [bg.predict(fit, rows, rule=bg.BMA()).mean for rows in (frame, frame[["height"]])]
    assert np.array_equal(*answers)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("specie", None), ("y is 'specie'", "'height', 'sky', 'species', 'w'", "'species' looks like 'specie'")),
        (("species", "v"), ("sample_weight is 'v'", "no such column")),
        (("w", "w"), ("same column, 'w'",)),
    ],
)
def test_names_that_are_no_columns_are_refused_with_those_that_are(table, arguments, words):
    y, weight = arguments
    with pytest.raises(bg.DataError) as refusal:
        bg.fit(bg.NaiveBayes(), table, y, sample_weight=weight, method=bg.Exact())
    for word in words:
        assert word in str(refusal.value)


def test_an_array_has_no_names():
    with pytest.raises(bg.DataError, match="no named columns"):
        bg.fit(bg.NaiveBayes(), np.ones((3, 2)), "species", method=bg.Exact())
