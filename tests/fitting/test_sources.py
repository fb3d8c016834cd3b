"""Fits of rows that lie in files and in databases equal those of the rows in memory, and bad data are refused alike."""

import dataclasses
import datetime
import decimal
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from scipy.sparse import csr_array

import bayesgen as bg
from bayesgen.data import as_source, sources
from bayesgen.fitting import queried as queried_module
from bayesgen.fitting import requests

from .travelling import program_of_a_column

duckdb = pytest.importorskip("duckdb", reason="duckdb is of the extra 'test'")
ibis = pytest.importorskip("ibis", reason="ibis-framework is of the extra 'test'")

N = 600
CODES = np.random.default_rng(1).integers(0, 3, N)


def random():
    return np.random.default_rng(7)


def rows(**columns):
    """A table of Arrow with labels and weights."""
    return pa.table({**columns, "species": np.array(["ape", "bear", "cat"])[CODES], "w": random().integers(0, 3, N)})


def some_missing(values, share=0.1):
    """The values, some of them null, and of numbers some NaN."""
    mask = random().random(N) < share
    return pa.array([None if gone else value for value, gone in zip(values, mask, strict=True)])


NUMBERS = {"a": random().normal(size=N) + CODES, "b": 1e6 + random().normal(size=N), "i": random().integers(-4, 9, N)}
MIXED = rows(
    **NUMBERS | {"a": some_missing(np.where(random().random(N) < 0.1, np.nan, NUMBERS["a"]))},
    sky=some_missing(random().choice(["blue", "grey", "red"], N)),
    wet=random().random(N) < 0.3,
    legs=random().poisson(3, N),
)
COMPLETE = rows(**NUMBERS)


def written(table, folder, num_files=3):
    """A folder with the rows in several files."""
    size = -(-len(table) // num_files)
    for index in range(num_files):
        parquet.write_table(table.slice(index * size, size), folder / f"{index}.parquet", row_group_size=97)
    return folder


ENGINES = {
    "polars": lambda table, folder: pl.scan_parquet(written(table, folder) / "*.parquet"),
    "duckdb": lambda table, folder: duckdb.sql(f"select * from '{written(table, folder)}/*.parquet'"),
    "ibis": lambda table, folder: ibis.memtable(table),
    "pyarrow": lambda table, folder: dataset.dataset(written(table, folder)),
}


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """A function of a table of Arrow: the same rows in an engine."""
    return lambda table: ENGINES[request.param](table, tmp_path)


@pytest.fixture(params=["polars", "duckdb"])
def queried(request, tmp_path):
    """The same of two engines with a query language."""
    return lambda table: ENGINES[request.param](table, tmp_path)


def assert_equal_fits(model, table, source, y="species", weight=None, schema=None):
    """The fit of a source, after a comparison with that of its rows in memory."""
    expected = bg.fit(model, table, y, sample_weight=weight, method=bg.Exact(), schema=schema)
    fit = bg.fit(model, source, y, sample_weight=weight, method=bg.Exact(), schema=schema)
    assert fit.schema == expected.schema and fit.schema.label == expected.schema.label
    np.testing.assert_allclose(fit.log_evidence, expected.log_evidence, rtol=1e-12)
    assert fit.attributes["total_weight"] == expected.attributes["total_weight"]
    for name, values in expected.parameters.items():
        np.testing.assert_allclose(fit.parameters[name], values, rtol=1e-10, atol=1e-12)
    return fit


MODELS = {
    "kinds by dtype": (bg.NaiveBayes(), MIXED),
    "counts": (bg.NaiveBayes({"legs": bg.GammaPoisson()}), MIXED),
    "categories": (bg.NaiveBayes(bg.DirichletCategorical()), MIXED.select(["sky", "legs", "wet", "species", "w"])),
    "words": (bg.NaiveBayes(bg.DirichletMultinomial()), rows(u=random().poisson(2, N), v=random().poisson(1, N))),
    "full": (bg.GaussianDiscriminant(), COMPLETE),
    "tied": (bg.GaussianDiscriminant("tied"), COMPLETE),
    "spherical": (bg.GaussianDiscriminant("spherical"), COMPLETE),
}


ALSO_UNWEIGHTED = ("kinds by dtype", "full")
OF_SOURCES = [
    pytest.param(name, weight, marks=[pytest.mark.slow] * (weight is None and name not in ALSO_UNWEIGHTED))
    for name in MODELS
    for weight in (None, "w")
]


@pytest.mark.parametrize(("name", "weight"), OF_SOURCES)
def test_a_fit_of_a_source_is_that_of_its_rows(engine, name, weight):
    model, table = MODELS[name]
    table = table if weight else table.drop_columns("w")
    fit = assert_equal_fits(model, table, engine(table), weight=weight)
    assert fit.attributes["statistics"]["by"] in ("engine", "chunks")


def test_frames_tables_datasets_and_folders_are_sources_too(tmp_path):
    folder = written(MIXED, tmp_path)
    for source in (pl.from_arrow(MIXED).lazy(), duckdb.from_arrow(MIXED), dataset.dataset(folder), folder, str(folder)):
        assert_equal_fits(bg.NaiveBayes(), MIXED, source, weight="w")


REGRESSIONS = [bg.LinearRegression(), bg.LinearRegression(intercept=False), bg.JointGaussianRegression()]


@pytest.mark.parametrize("model", [*REGRESSIONS, bg.NaiveBayesRegression()])
@pytest.mark.parametrize("weight", [pytest.param(None, marks=pytest.mark.slow), "w"])
def test_a_regression_reads_its_response_by_name(engine, model, weight):
    table = COMPLETE.select(["a", "i", "b", *([weight] if weight else [])])
    assert_equal_fits(model, table, engine(table), y="b", weight=weight)


@pytest.mark.parametrize("response", [some_missing(NUMBERS["b"]), pa.array(NUMBERS["i"].astype(str))])
def test_responses_that_are_missing_or_no_numbers_are_read_in_chunks(queried, response):
    table = pa.table({"a": NUMBERS["a"], "b": response})
    if pa.types.is_string(response.type):
        with pytest.raises(bg.DataError, match="a regression wants numbers"):
            bg.fit(bg.LinearRegression(), queried(table), "b", method=bg.Exact())
    else:
        fit = assert_equal_fits(bg.LinearRegression(), table, queried(table), y="b")
        assert fit.attributes["statistics"]["by"] == "chunks"


def test_models_without_labels_need_no_name(engine):
    table = MIXED.select(["a", "sky", "wet"])
    assert_equal_fits(bg.NaiveBayes(class_prior=None), table, engine(table), y=None)


def test_other_methods_fit_the_same_statistics(engine):
    for method in (bg.MLE(), bg.MAP()):
        expected = bg.fit(bg.NaiveBayes(), MIXED, "species", sample_weight="w", method=method).parameters
        found = bg.fit(bg.NaiveBayes(), engine(MIXED), "species", sample_weight="w", method=method).parameters
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-10)


def test_missing_cells_of_joint_families_are_read_in_chunks(engine):
    table = MIXED.select(["a", "b", "species"])
    expected = bg.fit(bg.GaussianDiscriminant(), table, "species", method=bg.MAP())
    fit = bg.fit(bg.GaussianDiscriminant(), engine(table), "species", method=bg.MAP())
    assert fit.attributes["statistics"]["by"] == "chunks"
    np.testing.assert_allclose(fit.parameters["real_mean"], expected.parameters["real_mean"], rtol=1e-8)


def test_a_program_reads_its_sites_and_no_other_column(engine):
    model = program_of_a_column()
    expected = bg.fit(model, COMPLETE.select(["a", "species"]), "species", method=bg.MAP())
    fit = bg.fit(model, engine(COMPLETE), "species", method=bg.MAP())
    np.testing.assert_allclose(fit.parameters["loc"], expected.parameters["loc"], rtol=1e-8)


def test_summaries_add_up_and_fits_grow_and_predict(engine):
    source, model = engine(MIXED), bg.NaiveBayes()
    one = bg.summarize(model, source, "species", sample_weight="w")
    both = bg.fit(model, one + one, method=bg.Exact())
    grown = bg.fit(model, one, method=bg.Exact()).update(source, "species", sample_weight="w")
    twice = bg.fit(model, pa.concat_tables([MIXED, MIXED]), "species", sample_weight="w", method=bg.Exact())
    np.testing.assert_allclose(both.log_evidence, twice.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(grown.attributes["total_weight"], twice.attributes["total_weight"])
    new = MIXED.drop_columns("w").slice(0, 5)
    assert np.array_equal(
        bg.predict(both, new, rule=bg.BMA()).labels, bg.predict(both, new.drop_columns("species"), rule=bg.BMA()).labels
    )


# What is asked of engines.


@pytest.fixture
def answers(monkeypatch):
    """The answers that engines gave."""
    given = []
    answer = requests.Request.answer

    def noted(self, query):
        given.append(answer(self, query))
        return given[-1]

    monkeypatch.setattr(requests.Request, "answer", noted)
    return given


IN_QUERIES = {name: (*MODELS[name], "species") for name in MODELS} | {
    type(model).__name__: (model, COMPLETE.select(["a", "i", "b", "w"]), "b") for model in REGRESSIONS
}


@pytest.mark.parametrize("name", IN_QUERIES)
def test_only_sums_and_counts_leave_an_engine(queried, answers, name):
    model, table, y = IN_QUERIES[name]
    sizes = []
    for copies in (1, 3):
        answers.clear()
        fit = bg.fit(model, queried(pa.concat_tables([table] * copies)), y, sample_weight="w", method=bg.Exact())
        assert fit.attributes["statistics"] | {"bytes": 0} == {
            "by": "engine",
            "engine": fit.attributes["statistics"]["engine"],
            "queries": len(answers),
            "passes": 0,
            "bytes": 0,
        }
        sizes.append([len(answer) for answer in answers])
    columns = [table[name].to_pylist() for name in ("sky", "wet", "legs", "u", "v") if name in table.column_names]
    distinct = [len(set(cells)) for cells in [*columns, *([map(sum, zip(*columns, strict=True))] * (name == "words"))]]
    most = 3 * max(distinct, default=1)
    assert sizes[0] == sizes[1] and max(sizes[0]) <= most


def test_only_the_columns_of_the_model_are_read(queried, monkeypatch):
    table = MIXED.append_column("day", pa.array([datetime.date(2020, 1, 1)] * N)).append_column(
        "id", pa.array(range(N))
    )
    model = bg.GenerativeClassifier([("a", bg.NormalInverseGamma(), ["a"]), ("wet", bg.BetaBernoulli(), ["wet"])])
    fit = bg.fit(model, queried(table), "species", method=bg.Exact())
    expected = bg.fit(model, table.select(["a", "wet", "species"]), "species", method=bg.Exact())
    np.testing.assert_allclose(fit.log_evidence, expected.log_evidence, rtol=1e-12)


def test_files_are_read_once_where_the_schema_is_given(tmp_path):
    source = dataset.dataset(written(MIXED, tmp_path))
    schema = bg.Schema(classes=["ape", "bear", "cat"], categories={"sky": ["blue", "grey", "red"]})
    fits = [bg.fit(bg.NaiveBayes(), source, "species", method=bg.Exact(), schema=s) for s in (None, schema)]
    assert [fit.attributes["statistics"]["passes"] for fit in fits] == [2, 1]
    assert fits[0].log_evidence == fits[1].log_evidence


def test_a_stream_is_read_once(tmp_path):
    def stream():
        return pa.RecordBatchReader.from_batches(MIXED.schema, MIXED.to_batches(max_chunksize=50))

    schema = bg.Schema(classes=["ape", "bear", "cat"], categories={"sky": ["blue", "grey", "red"]})
    assert_equal_fits(bg.NaiveBayes(), MIXED, stream(), weight="w", schema=schema)
    with pytest.raises(bg.DataError, match="read once, and the values of 'sky', 'species' are not declared"):
        bg.fit(bg.NaiveBayes(), stream(), "species", method=bg.Exact())


# Numbers that are hard on sums.


HARD_MODELS = [
    (bg.NaiveBayes(), "species"),
    (bg.GaussianDiscriminant(), "species"),
    (bg.LinearRegression(), "b"),
    (bg.JointGaussianRegression(), "b"),
]


@pytest.mark.parametrize(("model", "y"), HARD_MODELS)
@pytest.mark.parametrize("weight", [pytest.param(None, marks=pytest.mark.slow), "w"])
@pytest.mark.parametrize(
    "columns",
    [
        {"a": np.float32(1e4) + random().normal(size=N).astype(np.float32), "b": random().normal(size=N) - 1e6},
        {"a": 1e6 + random().normal(size=N), "b": 1e-3 * random().normal(size=N) - 1e3},
        {"a": np.sort(1e9 + 1e3 * random().normal(size=N)), "b": 1e6 * CODES + random().normal(size=N)},
        {"a": np.where(np.arange(N) < 200, -1e12, 1.0) + random().normal(size=N), "b": random().normal(size=N)},
        {"a": 0.1 * CODES, "b": random().normal(size=N)},
        {"a": random().integers(0, 255, N).astype(np.uint8), "b": 2**60 + 3 * np.arange(N)},
    ],
    ids=[
        "float32",
        "a million deviations from zero",
        "sorted",
        "first rows far away",
        "constant in a class",
        "integers",
    ],
)
def test_sums_keep_their_digits(queried, model, y, weight, columns):
    table = rows(**columns).select([*columns, *(["species"] * (y == "species")), *([weight] if weight else [])])
    assert_equal_fits(model, table, queried(table), y=y, weight=weight)


def test_a_column_that_is_constant_has_no_variance_at_all(queried):
    table = rows(a=np.full(N, 0.1), b=random().normal(size=N)).drop_columns("w")
    with pytest.warns(bg.ConstantColumnWarning, match=r"\['a'\]"):
        fit = bg.fit(bg.NaiveBayes(), queried(table), "species", method=bg.Exact())
    assert fit.schema.variance[0] == 0
    with pytest.raises(bg.FitError, match="'a'"):
        bg.fit(bg.NaiveBayes(), queried(table), "species", method=bg.MLE())


# Traps: chunks that differ.


def test_classes_and_categories_may_come_in_later_files_alone(engine):
    order = np.argsort(CODES, kind="stable")
    table = pa.table(
        {"a": NUMBERS["a"][order], "sky": np.sort(random().choice(["u", "v", "x"], N)), "species": CODES[order]}
    )
    assert_equal_fits(bg.NaiveBayes(), table, engine(table))


def test_files_may_be_empty(engine, tmp_path):
    parquet.write_table(MIXED.slice(0, 0), tmp_path / "10.parquet")
    assert_equal_fits(bg.NaiveBayes(), MIXED, engine(MIXED), weight="w")


def test_more_classes_than_have_a_shift_of_their_own(queried):
    codes = random().integers(0, queried_module.MOST_SHIFTED + 10, N)
    table = pa.table({"a": 1e6 * codes + random().normal(size=N), "species": codes.astype(str)})
    assert_equal_fits(bg.NaiveBayes(), table, queried(table))


def test_symbols_are_counted_in_chunks(queried):
    words = ["".join(random().choice(list("abc"), length)) for length in random().integers(0, 6, N)]
    table, schema = rows(word=some_missing(words)).drop_columns("w"), bg.Schema(categories={"word": list("abc")})
    fit = assert_equal_fits(bg.NaiveBayes(bg.DirichletMarkov(0)), table, queried(table), schema=schema)
    assert fit.attributes["statistics"]["by"] == "chunks"


def test_chunks_may_have_their_categories_in_different_orders(engine):
    halves = [pa.array(values * (N // 6)).dictionary_encode() for values in (["x", "y", "z"], ["z", "x", "x"])]
    table = pa.table({"sky": pa.chunked_array(halves), "species": pa.array(["p", "q"] * (N // 2)).dictionary_encode()})
    assert_equal_fits(bg.NaiveBayes(), table, engine(table))


def test_chunks_of_sparse_text_add_up():
    counts = csr_array(random().poisson(0.2, (N, 30)))
    chunks = [(counts[start : start + 150], CODES[start : start + 150]) for start in range(0, N, 150)]
    fit = bg.fit(bg.NaiveBayes(), iter(chunks), method=bg.Exact())
    np.testing.assert_allclose(
        fit.log_evidence, bg.fit(bg.NaiveBayes(), counts, CODES, method=bg.Exact()).log_evidence, rtol=1e-12
    )


def test_any_names_are_taken(engine):
    names = {"a": 'the "a"', "sky": "sky.blue", "wet": "it's wet; --", "species": "Label", "w": "a b"}
    table = MIXED.select(list(names)).rename_columns(list(names.values()))
    assert_equal_fits(bg.NaiveBayes(), table, engine(table), y="Label", weight="a b")


def test_columns_without_a_single_cell_are_their_prior(engine):
    table = rows(a=pa.array([None] * N, pa.float64()), b=NUMBERS["a"]).drop_columns("w")
    assert_equal_fits(bg.NaiveBayes(), table, engine(table))


def test_decimals_are_numbers(engine):
    table = rows(a=pa.array([decimal.Decimal(f"{value}.25") for value in NUMBERS["i"]]))
    assert_equal_fits(bg.NaiveBayes(), table, engine(table), weight="w")


# What is refused.


BAD = {
    "dates": ({"a": pa.array([datetime.date(2020, 1, 1)] * N)}, "Column 'a' has dtype Date"),
    "times": (
        {"a": pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * N)},
        "Column 'a' has dtype Datetime",
    ),
    "lists": ({"a": pa.array([[1, 2]] * N)}, "Column 'a' holds lists"),
    "structs": ({"a": pa.array([{"u": 1}] * N)}, "Column 'a' has dtype Struct"),
    "nothing": ({"a": pa.array([None] * N, pa.string())}, "every cell is missing"),
    "infinite": ({"a": np.where(np.arange(N) == 500, np.inf, NUMBERS["a"])}, "'a' .1 infinite., the first at row 500"),
    "huge": ({"a": NUMBERS["a"] * 1e200}, r"Column 'a' has values of about \de\+200"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_columns_are_refused_as_in_memory(engine, name):
    columns, words = BAD[name]
    table = rows(**columns).drop_columns("w")
    for X in (table, engine(table)):
        with pytest.raises(bg.DataError, match=words):
            bg.fit(bg.NaiveBayes(), X, "species", method=bg.Exact())


def test_bad_weights_and_no_rows_are_refused(engine):
    for weights, words in (
        (np.where(np.arange(N) == 30, -1, 1), "the first is -1.0 at row 30"),
        (pa.array([None] + [1.0] * (N - 1)), "missing"),
        (np.zeros(N), "none with a positive weight"),
    ):
        table = pa.table({"a": NUMBERS["a"], "species": CODES, "v": weights})
        with pytest.raises(bg.DataError, match=words):
            bg.fit(bg.NaiveBayes(), engine(table), "species", sample_weight="v", method=bg.Exact())


def test_a_category_that_is_not_declared_is_refused_by_its_row(engine):
    schema = bg.Schema(categories={"sky": ["blue", "grey"]})
    with pytest.raises(bg.DataError, match="Column 'sky' has 'red'"):
        bg.fit(bg.NaiveBayes(), engine(MIXED), "species", method=bg.Exact(), schema=schema)
    schema = bg.Schema(categories={"sky": ["blue", "grey"]}, unknown="missing")
    with pytest.warns(bg.UnknownValuesWarning, match="'sky'"):
        bg.fit(bg.NaiveBayes(), engine(MIXED), "species", method=bg.Exact(), schema=schema)


def test_what_needs_rows_is_refused_with_their_number_and_size(engine):
    unlabelled = MIXED.set_column(4, "wet", pa.array([None if row == 400 else "xy"[row % 2] for row in range(N)]))
    calls = [
        lambda: bg.fit(bg.NaiveBayes(), engine(MIXED), "species", method=bg.MAP(objective="conditional")),
        lambda: bg.fit(bg.Mixture(bg.NaiveBayes(), 2), engine(MIXED), method=bg.MAP()),
        lambda: bg.fit(bg.NaiveBayes(), engine(unlabelled), "wet", method=bg.MAP()),
        lambda: bg.compare(bg.NaiveBayes(), engine(MIXED), "species", MIXED, "species"),
    ]
    for call in calls:
        with pytest.raises(bg.DataError, match=r"lies in .*: 600 rows of \d columns, .* GB in memory. Collect"):
            call()


def test_bins_and_alphabets_have_to_be_declared(engine):
    source = engine(MIXED)
    with pytest.raises(bg.DataError, match=r"Column 'a' lies in .*Binned"):
        bg.fit(bg.NaiveBayes({"a": bg.DirichletHistogram(3)}), source, "species", method=bg.Exact())
    schema = bg.fit(bg.NaiveBayes({"a": bg.DirichletHistogram(3)}), MIXED, "species", method=bg.Exact()).schema
    assert_equal_fits(bg.NaiveBayes({"a": bg.DirichletHistogram(3)}), MIXED, source, schema=schema)


def test_labels_in_memory_do_not_go_with_a_source(engine):
    with pytest.raises(bg.DataError, match="y has to be the name of one of its columns"):
        bg.fit(bg.NaiveBayes(), engine(MIXED), CODES, method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"y is 'specie', .*'species' looks like"):
        bg.fit(bg.NaiveBayes(), engine(MIXED), "specie", method=bg.Exact())


def test_files_of_different_types_are_refused(tmp_path):
    written(rows(a=NUMBERS["i"]), tmp_path, 1)
    for index, other in enumerate([rows(a=NUMBERS["a"]), rows(b=NUMBERS["a"])]):
        parquet.write_table(other, tmp_path / "1.parquet")
        words = ("Column 'a' is int64 in .*0.parquet, and double in", "Column 'a' is int64 in .*, and not there in")
        with pytest.raises(bg.DataError, match=words[index]):
            bg.fit(bg.NaiveBayes(), tmp_path, "species", sample_weight="w", method=bg.Exact())


def test_paths_without_files_are_refused(tmp_path):
    with pytest.raises(bg.DataError, match="no such files"):
        bg.fit(bg.NaiveBayes(), str(tmp_path / "*.parquet"), "species", method=bg.Exact())


OF_FILES = {"polars": pl.scan_parquet, "pyarrow": dataset.dataset, "DuckDB": duckdb.read_parquet}


@pytest.mark.parametrize("name", OF_FILES)
def test_an_error_of_the_engine_is_told_in_one_line(name, tmp_path):
    source = OF_FILES[name](sorted(map(str, written(MIXED, tmp_path).iterdir())))
    (tmp_path / "2.parquet").unlink()
    with pytest.raises(bg.DataError, match=rf"{name} could not read X: .*2.parquet") as refusal:
        bg.fit(bg.NaiveBayes(), source, "species", method=bg.Exact())
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("installed", [["duckdb", "polars"], ["polars"], []])
def test_files_with_the_same_columns_are_scanned_by_an_engine_where_one_is_installed(tmp_path, monkeypatch, installed):
    def origin(table=COMPLETE):
        statistics = assert_equal_fits(bg.NaiveBayes(), table, str(tmp_path)).attributes["statistics"]
        return statistics["by"], statistics["engine"]

    monkeypatch.setattr(sources, "find_spec", lambda name: name if name in ["pyarrow", *installed] else None)
    written(COMPLETE, tmp_path)
    assert origin() == {2: ("engine", "DuckDB"), 1: ("engine", "polars"), 0: ("chunks", "pyarrow")}[len(installed)]
    last = parquet.read_table(tmp_path / "2.parquet")
    parquet.write_table(last.select(last.column_names[::-1]), tmp_path / "2.parquet")
    assert origin() == ("chunks", "pyarrow")
    upper = COMPLETE.rename_columns([*COMPLETE.column_names[:1], "A", *COMPLETE.column_names[2:]])
    written(upper, tmp_path)  # DuckDB has one name for "a" and "A"
    assert origin(upper) == (("engine", "polars") if installed else ("chunks", "pyarrow"))


def test_files_may_have_any_names(tmp_path):
    names = ["it's.parquet", 'the "a".parquet', "a[0].parquet", "a0*.parquet", "50% {x}?.parquet", "a0.parquet"]
    for index, name in enumerate(names):
        parquet.write_table(COMPLETE.slice(100 * index, 100), tmp_path / name)
    for path in (str(tmp_path), str(tmp_path / "*.parquet")):
        fit = assert_equal_fits(bg.NaiveBayes(), COMPLETE, path)
        assert fit.attributes["statistics"]["engine"] == "DuckDB"


@pytest.mark.parametrize("name", ["DuckDB", "polars"])
def test_a_file_that_disappears_is_told_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sources, "find_spec", lambda module: module if module in ["pyarrow", name.lower()] else None)
    source = as_source(str(written(MIXED, tmp_path)))
    (tmp_path / "2.parquet").unlink()
    with pytest.raises(bg.DataError, match=rf"{name} could not read X: .*2.parquet") as refusal:
        bg.fit(bg.NaiveBayes(), source, "species", method=bg.Exact())
    assert "\n" not in str(refusal.value)


@dataclasses.dataclass(frozen=True, eq=False)
class Changing:
    """What offers the parts of a dataset that are read, with other rows each time."""

    tables: list
    schema: pa.Schema

    def scanner(self, columns, **options):
        return dataset.dataset(self.tables.pop(0)).scanner(columns=columns)


def test_data_that_change_between_two_passes_are_refused():
    more = pa.concat_tables([MIXED, MIXED.slice(0, 10)])
    with pytest.raises(bg.DataError, match="the first read 600 rows, the second 610"):
        bg.fit(bg.NaiveBayes(), Changing([MIXED, more], MIXED.schema), "species", method=bg.Exact())
    other = MIXED.set_column(3, "sky", pa.array(["black"] * N))
    with pytest.raises(
        bg.DataError, match=r"first read 600 rows and 3 values of 'sky', the second 1 others, such as 'black'"
    ):
        bg.fit(bg.NaiveBayes(), Changing([MIXED, other], MIXED.schema), "species", method=bg.Exact())


def test_progress_shows_how_many_rows_are_read(tmp_path, monkeypatch, capsys):
    source = dataset.dataset(written(MIXED, tmp_path))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich shows its bars where there is no terminal
    for progress in (True, False):
        bg.fit(bg.NaiveBayes(), source, "species", method=bg.Exact(), progress=progress)
        shown = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", capsys.readouterr().err)
        assert ("Rows read" in shown and f"{N}/?" in shown) == progress


def test_ctrl_c_ends_the_reading(tmp_path, monkeypatch):
    source = as_source(dataset.dataset(written(MIXED, tmp_path)))
    ended = []

    def interrupted(self, columns, num_rows):
        try:
            yield MIXED.select(columns)
            raise KeyboardInterrupt
        finally:
            ended.append(True)

    monkeypatch.setattr(type(source), "_batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bg.fit(bg.NaiveBayes(), source, "species", method=bg.Exact())
    assert ended == [True]


@pytest.mark.parametrize("size", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_very_many_columns_are_read(size):
    frame = pl.DataFrame(random().normal(size=(8, size)), schema=[f"c{index}" for index in range(size)])
    frame = frame.with_columns(pl.Series("species", [0, 1] * 4)).lazy()
    fit = bg.fit(bg.NaiveBayes(), frame, "species", method=bg.Exact())
    assert len(fit.schema.columns) == size and fit.attributes["statistics"]["by"] == "chunks"
