"""`Fit.to_sql`: engines that run the query give the prediction of `predict`."""

import contextlib
import sqlite3

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from tests.models.cases import ALL
from tests.prediction.draws import drawn

TABLE = 'a table, "quoted".x'
NAMES = ["re al", "a.b", 'q"t', "c{0}", "d'e"]
NOT_IN_SQL = {
    "discriminant, full": "'real': the density of NormalInverseWishart",
    "discriminant, tied": "'real': the density of NormalInverseWishart",
    "discriminant, informative": "'real': the density of NormalInverseWishart",
    "discriminant, other kinds": "'real': the density of NormalInverseWishart",
    "naive Bayes, binned": "'binned_5': the density of DirichletHistogram",
    "naive Bayes, bins stated": "'binned_2': the density of DirichletHistogram",
    "naive Bayes, words": "'cry': the density of DirichletMarkov",
    "naive Bayes, words that end": "'cry': the density of DirichletMarkov",
    "own blocks": "'shape': the density of NormalInverseWishart",
}


def in_sqlite(query, frame):
    """The rows of the query, from a table whose truth values are numbers: SQLite has no others."""
    numbers = {name: cells.map(int, na_action="ignore") for name, cells in frame.items() if cells.dtype == "boolean"}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        frame.assign(**numbers).to_sql(TABLE, connection, index=False)
        return pd.read_sql(query, connection)


def in_duckdb(query, frame):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with duckdb.connect() as connection:
        connection.register(TABLE, frame)
        return connection.execute(query).df()


ENGINES = {"sqlite": in_sqlite, "duckdb": in_duckdb}


@pytest.fixture(params=ENGINES)
def dialect(request):
    return request.param


def asked(fit, frame, dialect, **options):
    """The answer of an engine, in the order of the rows."""
    query = fit.to_sql(TABLE, dialect=dialect, keep=["i.d"], **options)
    rows = ENGINES[dialect](query, frame.assign(**{"i.d": range(len(frame))})).sort_values("i.d", ignore_index=True)
    return rows.drop(columns="i.d")


def frame_of(X):
    """Columns with NULL for masked cells, which has a type of its own in the engines."""
    types = {"b": "boolean", "i": "Int64", "f": "Float64", "U": "string"}
    return pd.DataFrame(
        {name: pd.Series(v.astype(object).filled(pd.NA), dtype=types[v.dtype.kind]) for name, v in X.items()}
    )


def assert_equal(rows, answer):
    """The columns of `answer.to_frame()`, and the logs of the probabilities."""
    frame = answer.to_frame()
    names = list(map(str, frame.columns))
    assert rows.columns[: len(names)].tolist() == names
    assert rows["label"].astype(object).where(rows["label"].notna(), None).tolist() == answer.labels.tolist()
    logs = [f"log p[{label}]" for label in answer.classes]
    np.testing.assert_allclose(rows[names[1:]].astype(float), answer.probabilities, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows[logs].astype(float), answer.log_probabilities, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(ALL.keys() - NOT_IN_SQL.keys()))
def test_an_engine_gives_the_prediction_at_the_mean(name, dialect):
    case = ALL[name]
    rows = asked(case.exact, frame_of(case.new), dialect)
    assert_equal(rows, bg.predict(case.exact, case.new, rule=bg.PlugIn()))
    assert not rows["unknown cells"].any()


@pytest.fixture(scope="module")
def data():
    """Columns of unlike names and kinds, and labels with quotes, of 60 rows; every fifth cell is missing."""
    rng = np.random.default_rng(2)
    y = np.repeat(["it's", 'a "b"', "label"], 20)
    codes = np.repeat([0, 1, 2], 20)
    cells = [
        pd.Series(1e6 + rng.normal(codes)),
        pd.Series(rng.choice(["x'y", "z", "nan"], 60)),
        pd.Series(rng.random(60) < 0.2 + 0.3 * codes, dtype="boolean"),
        pd.Series(rng.choice([-1.0, 2.0, 0.1], 60)),
        pd.Series(rng.poisson(1 + codes).astype(float)),
    ]
    frame = pd.DataFrame(dict(zip(NAMES, cells, strict=True)))
    return frame.mask(rng.random(frame.shape) < 0.2), y


@pytest.fixture(scope="module")
def declared():
    return {"kinds": {"c{0}": "categorical", "d'e": "count"}}


@pytest.mark.parametrize(("method", "at"), [(bg.Exact(), "mode"), (bg.MLE(), "mean")], ids=["mode", "point"])
def test_names_labels_and_missing_cells_of_any_form(data, declared, dialect, method, at):
    frame, y = data
    fit = bg.fit(bg.NaiveBayes(), frame, y, method=method, schema=bg.Schema(**declared))
    assert_equal(asked(fit, frame, dialect, at=at), bg.predict(fit, frame, rule=bg.PlugIn(at)))


def test_means_of_draws_are_plugged_in(data):
    frame, y = data
    fit = drawn(bg.fit(bg.NaiveBayes(), frame[NAMES[:3]], y, method=bg.Exact()))
    assert_equal(asked(fit, frame, "sqlite"), bg.predict(fit, frame[NAMES[:3]], rule=bg.PlugIn()))
    with pytest.raises(bg.PredictionError, match="Draws do not tell the posterior mode"):
        fit.to_sql("rows", at="mode")


def test_a_row_with_an_unknown_cell_has_no_answer_and_is_counted(data, declared, dialect):
    frame, y = data
    fit = bg.fit(bg.NaiveBayes(), frame, y, method=bg.Exact(), schema=bg.Schema(**declared))
    new = frame.head(5).reset_index(drop=True)
    new.loc[0, "re al"] = np.inf
    new.loc[1, ["a.b", "c{0}"]] = ["new", 7.0]
    new.loc[2, "d'e"] = 1.5
    new.loc[3, "d'e"] = -1.0
    rows = asked(fit, new, dialect)
    assert rows["unknown cells"].tolist() == [1, 2, 1, 1, 0]
    assert rows.drop(columns="unknown cells").isna().all(axis=1).tolist() == [True] * 4 + [False]


def test_unknown_categories_are_missing_where_the_schema_says_so(data, declared, dialect):
    frame, y = data
    schema = bg.Schema(**declared, unknown="missing")
    fit = bg.fit(bg.NaiveBayes(), frame, y, method=bg.Exact(), schema=schema)
    new = frame.head(3).reset_index(drop=True)
    new.loc[1, ["a.b", "c{0}"]] = ["new", 7.0]
    rows = asked(fit, new, dialect)
    with pytest.warns(bg.UnknownValuesWarning):
        assert_equal(rows, bg.predict(fit, new, rule=bg.PlugIn()))
    assert rows["unknown cells"].tolist() == [0, 2, 0]
    new.loc[2, "d'e"] = 0.5  # no count, which predict refuses
    assert asked(fit, new, dialect)["label"].isna().tolist() == [False, False, True]


def test_rows_impossible_under_every_class_or_under_one(dialect):
    X = pd.DataFrame({"c": ["u", "u", "v", "v"], "d": ["s", "t", "s", "s"]})
    fit = bg.fit(bg.NaiveBayes(), X, list("aabb"), method=bg.MLE())
    new = pd.DataFrame({"c": ["u", "v"], "d": ["t", "t"]})
    rows = asked(fit, new, dialect)
    with pytest.warns(bg.ImpossibleRowsWarning):
        answer = bg.predict(fit, new, rule=bg.PlugIn())
    assert_equal(rows, answer)
    assert answer.probabilities[0].tolist() == [1, 0]
    assert np.isnan(answer.probabilities[1]).all()


def test_texts_among_numbers_of_sqlite_are_unknown():
    fit = bg.fit(bg.NaiveBayes(), {"x": [1.0, 2.0, 5.0, 6.0]}, list("aabb"), method=bg.Exact())
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE rows (x); INSERT INTO rows VALUES (1.0), ('2.0'), (3);")
    *_, counts = zip(*connection.execute(fit.to_sql("rows", dialect="sqlite")), strict=True)
    connection.close()
    assert counts == (0, 1, 0)


def test_a_column_that_is_not_there_is_an_error_of_the_engine():
    """SQLite takes a name in quotes that no column has for a text, unless its table stands before it."""
    fit = bg.fit(bg.NaiveBayes(), {"c": ["u", "u", "v", "v"]}, list("aabb"), method=bg.Exact())
    with pytest.raises(pd.errors.DatabaseError, match="no such column"):
        asked(fit, pd.DataFrame({"e": ["u"]}), "sqlite")


def test_expressions_do_not_grow_deep_with_the_columns():
    """Engines refuse those of a thousand levels."""
    columns = {f"c{j}": [0.0, 1.0, 3.0, 5.0] for j in range(1100)}
    query = bg.fit(bg.NaiveBayes(), columns, [3, 3, 11, 11], method=bg.Exact()).to_sql(["main", "rows"])
    assert 'FROM "main"."rows" AS t' in query
    assert max(np.cumsum([{"(": 1, ")": -1}.get(sign, 0) for sign in query])) < 50


@pytest.mark.parametrize("keep", ["Label", ["id", "ID"], "A", "unknown cells"])
def test_names_that_differ_by_case_alone_are_refused(keep):
    fit = bg.fit(bg.NaiveBayes(), {"x": [1.0, 2.0, 5.0, 6.0]}, list("aabb"), method=bg.Exact())
    with pytest.raises(bg.DataError, match="and engines tell no names apart by case"):
        fit.to_sql("rows", keep=keep)


@pytest.mark.parametrize("name", NOT_IN_SQL)
def test_families_without_a_form_in_sql_are_refused_by_name(name):
    case = ALL[name]
    fit = case.exact if case.model.exact_takes_missing else case.point
    with pytest.raises(bg.PredictionError, match=f"Block {NOT_IN_SQL[name]} has no form in SQL. Ask predict"):
        fit.to_sql("rows")


def test_other_fits_and_arguments_are_refused():
    X, y = {"x": [1.0, 2.0, 5.0, 6.0]}, list("aabb")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    regression = bg.fit(bg.JointGaussianRegression(), X, [1.0, 2.0, 2.5, 4.0], method=bg.Exact())
    average = bg.fit(bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant("tied-diag")]), X, y, method=bg.Exact())
    for other in (regression, average, bg.fit(bg.NaiveBayes(class_prior=None), X, method=bg.Exact())):
        with pytest.raises(bg.PredictionError, match="for classifiers of columns"):
            other.to_sql("rows")
    with pytest.raises(bg.PredictionError, match="out of 'duckdb', 'postgres', 'sqlite', got 'oracle'"):
        fit.to_sql("rows", dialect="oracle")
    with pytest.raises(bg.PredictionError, match="got 'predictive'"):
        fit.to_sql("rows", at="predictive")
    dated = bg.Schema(kinds={"d": "categorical"})
    days = {"d": np.array([(1, 2), (3, 4)], dtype="i,i").astype(object)}
    with pytest.raises(bg.DataError, match="is a tuple; SQL has texts"):
        bg.fit(bg.NaiveBayes(), days, ["a", "b"], method=bg.Exact(), schema=dated).to_sql("rows")
