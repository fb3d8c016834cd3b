"""Answers to rows that lie elsewhere: lazy tables of the same engine, equal to the answers to the rows in memory."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import bayesgen as bg
from bayesgen.prediction import predicting

N, BIG = 60, 2**53 + 1  # beyond which doubles are no integers
RNG = np.random.default_rng(4)
LABELS = np.asarray(["it's", "label", "z"])[RNG.integers(0, 3, N)]
COLUMNS = {
    "re al": RNG.normal(size=N),
    'c"a.t': RNG.choice(["u", "v'w", "x"], N),
    "yes": RNG.random(N) < 0.4,
    "few": RNG.choice([3, 5, 9], N),
}
SCHEMA = bg.Schema(kinds={"few": "categorical"})
FIT = bg.fit(bg.NaiveBayes(), COLUMNS, LABELS, method=bg.Exact(), schema=SCHEMA)
ROWS = pa.table(
    {
        "i.d": pa.array([None if row == 7 else BIG + row for row in range(N)]),
        **{name: pa.array(v.tolist(), mask=RNG.random(N) < 0.15) for name, v in COLUMNS.items()},
        "y": LABELS,
        "when": pa.array([1_000_000 * row for row in range(N)], pa.timestamp("us")),
    }
)
KEEP = ["i.d", "when"]


def in_duckdb(table, folder):
    return pytest.importorskip("duckdb", reason="duckdb is of the extra 'test'").from_arrow(table)


def in_ibis(table, folder):
    return pytest.importorskip("ibis", reason="ibis-framework is of the extra 'test'").memtable(table)


def in_dask(table, folder):
    dataframe = pytest.importorskip("dask.dataframe", reason="dask is of the extra 'dask'")
    return dataframe.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=3)


def pattern(table, folder):
    """Two files."""
    for index, rows in enumerate((table.slice(0, 23), table.slice(23))):
        parquet.write_table(rows, folder / f"{index}.parquet")
    return str(folder / "*.parquet")


# name -> (the rows in an engine, the answers as a table of Arrow)
ENGINES = {
    "polars": (lambda table, _: pl.from_arrow(table).lazy(), lambda lazy: lazy.collect().to_arrow()),
    "streamed": (
        lambda table, _: pl.from_arrow(table).lazy(),
        lambda lazy: lazy.collect(engine="streaming").to_arrow(),
    ),
    "reader": (lambda table, _: table.to_reader(max_chunksize=11), lambda reader: reader.read_all()),
    "dataset": (lambda table, _: dataset.dataset(table), lambda reader: reader.read_all()),
    "pattern": (pattern, lambda reader: reader.read_all()),
    "duckdb": (in_duckdb, lambda relation: relation.to_arrow_table()),
    "ibis": (in_ibis, lambda lazy: lazy.to_pyarrow()),
    "dask": (in_dask, lambda lazy: pa.Table.from_pandas(lazy.compute(), preserve_index=False)),
}


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """A function of a table of Arrow: the same rows in an engine; and one that collects an answer."""
    place, collected = ENGINES[request.param]
    return lambda table: place(table, tmp_path), collected


def assert_equal(table, answer, keep=()):
    frame, names = answer.to_frame(), [*keep, *map(str, answer.to_frame().columns)]
    assert table.column_names == names
    for name in keep:
        assert table[name].to_pylist() == ROWS[name].to_pylist()
    for place, column in enumerate(frame, len(keep)):
        if column == "label":
            assert table.column(place).to_pylist() == [None if pd.isna(v) else v for v in frame[column]]
        else:
            np.testing.assert_allclose(table.column(place).to_pandas(), frame[column], rtol=1e-12)


def in_memory(fit, rule, table=ROWS):
    return bg.predict(fit, table.select([name for name in table.column_names if name in fit.schema.columns]), rule=rule)


@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn("mode")], ids=["BMA", "PlugIn"])
def test_answers_are_those_of_rows_in_memory_and_nothing_is_read_before(engine, rule, monkeypatch):
    place, collected = engine
    calls = []

    def counted(*arguments, original=predicting._arrow_answer):
        calls.append(len(arguments[-1]))
        return original(*arguments)

    monkeypatch.setattr(predicting, "_arrow_answer", counted)
    lazy = bg.predict(FIT, place(ROWS), rule=rule, keep=KEEP)
    assert not calls
    table = collected(lazy)
    assert sum(calls) == N
    assert_equal(table, in_memory(FIT, rule), KEEP)


def test_a_lazy_frame_of_polars_goes_on():
    """Filters and selections of the answers ask for all columns that the fit reads."""
    lazy = bg.predict(FIT, pl.from_arrow(ROWS).lazy(), rule=bg.BMA(), keep=["i.d"])
    expected = in_memory(FIT, bg.BMA()).to_frame()
    chosen = lazy.filter(pl.col("z") > 0.3).select("z").collect()
    np.testing.assert_allclose(chosen["z"], expected["z"][expected["z"] > 0.3], rtol=1e-12)
    assert lazy.filter(pl.col("i.d") < BIG + 5).collect().height == 5
    assert lazy.head(4).collect().height == 4
    assert lazy.collect_schema() == {"i.d": pl.Int64, "label": pl.String} | dict.fromkeys(
        ["it's", "p[label]", "z"], pl.Float64
    )


def test_rows_without_an_answer_have_no_label_and_no_warning_is_shown(engine):
    place, collected = engine
    cells = {"c": ["u", "u", "v", "v"], "d": ["s", "t", "s", "s"]}
    fit = bg.fit(bg.NaiveBayes(), cells, [2, 2, 7, 7], method=bg.MLE(), schema=bg.Schema(unknown="missing"))
    table = collected(
        bg.predict(fit, place(pa.table({"c": ["v", "u", "new"], "d": ["t", "t", "s"]})), rule=bg.PlugIn())
    )
    assert table["label"].to_pylist() == [None, 2, 7]
    assert table["2"].to_pandas().isna().tolist() == [True, False, False]


def test_numbers_and_sites_of_programs_are_answered(engine):
    place, collected = engine

    def program(n):
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 3.0).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(jnp.array([0.4, 0.6])))
            numpyro.sample("x", dist.Normal(mean[y], 1.0))

    x = COLUMNS["re al"]
    by_program = bg.fit(
        bg.GenerativeProgram(program, classes=["a", "b"]), {"x": x}, np.where(x > 0, "a", "b"), method=bg.MAP()
    )
    regression = bg.fit(bg.LinearRegression(), {"x": x}, 2 * x, method=bg.Exact())
    rows = pa.table({"x": x, "other": LABELS})
    for fit, rule in ((by_program, bg.PlugIn()), (regression, bg.BMA())):
        table = collected(bg.predict(fit, place(rows), rule=rule))
        assert_equal(table, bg.predict(fit, {"x": x}, rule=rule))


def test_an_unknown_value_is_told_by_the_engine_when_the_answer_is_collected(engine):
    place, collected = engine
    cells = [value if index != 40 else "new" for index, value in enumerate(COLUMNS['c"a.t'])]
    rows = pa.table({**COLUMNS, 'c"a.t': cells})
    lazy = bg.predict(FIT, place(rows), rule=bg.BMA())
    with pytest.raises(Exception, match=r"has 'new' .* which is unknown"):
        collected(lazy)


def test_what_cannot_be_answered_is_refused_before_rows_are_read(engine):
    place, _ = engine
    rule = bg.BMA()
    for keep, message in (
        (["id"], "keep is 'id', and X has no such column"),
        (["Z"], "columns 'Z' and 'z'"),
        (["y", "y"], "columns 'y' and 'y'"),
    ):
        table = ROWS.append_column("Z", ROWS["y"]).append_column("Label", ROWS["y"])
        with pytest.raises(bg.DataError, match=message):
            bg.predict(FIT, place(table), rule=rule, keep=keep)
    with pytest.raises(bg.DataError, match="Missing: 'few'"):
        bg.predict(FIT, place(ROWS.drop_columns("few")), rule=rule)
    point = bg.fit(bg.NaiveBayes(), COLUMNS, LABELS, method=bg.MLE())
    with pytest.raises(bg.PredictionError, match="This is a point estimate"):
        bg.predict(point, place(ROWS), rule=rule)


def test_other_fits_and_rows_in_memory_take_no_keep():
    lazy = pl.from_arrow(ROWS).lazy()
    numbers = {"re al": COLUMNS["re al"]}
    without = bg.fit(bg.NaiveBayes(class_prior=None), numbers, method=bg.Exact())
    with pytest.raises(bg.PredictionError, match=r"no classes .* Give X in memory"):
        bg.predict(without, lazy, rule=bg.BMA())
    batch = bg.fit_many(bg.NaiveBayes(), numbers, LABELS, weights=np.ones((2, N)), method=bg.Exact())
    with pytest.raises(bg.DataError, match="Rows are wanted one by one"):
        bg.predict(batch, lazy, rule=bg.BMA())
    with pytest.raises(bg.PredictionError, match="keep= is for rows that lie elsewhere"):
        bg.predict(FIT, COLUMNS, rule=bg.BMA(), keep=["re al"])


def test_ibis_without_functions_of_arrow_is_refused():
    ibis = pytest.importorskip("ibis", reason="ibis-framework is of the extra 'test'")
    table = ibis.polars.connect({"rows": pl.from_arrow(ROWS)}).table("rows")
    with pytest.raises(bg.DataError, match=r"Ibis runs no functions of Arrow in polars. Ask fit.to_sql\(table\)"):
        bg.predict(FIT, table, rule=bg.BMA())
