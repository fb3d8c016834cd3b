"""Rows that lie in Parquet files: our fits beside the same sums written in polars and DuckDB; memory; clusters.

The native queries are the sums of naive Bayes (means and variances by class) and of full covariances (all products of
columns by class). Files are made once, in a folder for temporary files.
"""

import functools
import importlib.util
import itertools
import shutil
import tempfile
from pathlib import Path

import numpy as np

import bayesgen as bg
from bayesgen.data import as_source
from bayesgen.fitting import queried

from .fresh import call
from .measure import REPEATS, Below, Missing, Price, Row, duel, seconds
from .memory import _status

COLUMNS, CLASSES, CHUNK = 10, ("setosa", "versicolor", "virginica"), 1_000_000
MODELS = {"naive Bayes": bg.NaiveBayes(), "full covariances": bg.GaussianDiscriminant()}
NEEDED = ("polars", "duckdb", "pyarrow")


def measures(quick):
    """Beside native queries, at widths around the rule, memory, and clusters."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        yield lambda: Missing("sources", f"{', '.join(missing)} is not installed")
        return
    num_rows = 1_000_000 if quick else 5_000_000
    repeats = 1 if quick else REPEATS
    for name, source in itertools.product(MODELS, SOURCES):
        yield functools.partial(_beside_native, name, source, num_rows, repeats)
    for width in (10, 24, 50):
        yield functools.partial(_queries_or_chunks, width, num_rows // 20, repeats)
    for source in SOURCES:
        for rows in (num_rows // 10, num_rows):
            yield functools.partial(_memory, source, rows)
    for cluster, rows in itertools.product(CLUSTERS, (100_000, num_rows // 2)):
        yield functools.partial(_cluster, cluster, rows)


def folder(num_rows, width=COLUMNS):
    """The folder of files with so many rows and columns, which are made if they are not there."""
    path = Path(tempfile.gettempdir()) / f"bayesgen-benchmarks-{num_rows}-{width}"
    if not path.exists():
        import pyarrow as pa
        from pyarrow import parquet

        rng, unfinished = np.random.default_rng(0), Path(tempfile.mkdtemp())
        for start in range(0, num_rows, CHUNK):
            size = min(CHUNK, num_rows - start)
            codes = rng.integers(0, len(CLASSES), size)
            cells = {f"x{index}": rng.normal(size=size) + index % 10 * codes for index in range(width)}
            table = pa.table({**cells, "species": pa.array(np.array(CLASSES)[codes])})
            parquet.write_table(table, unfinished / f"{start:012}.parquet")
        shutil.move(unfinished, path)
    return path


def _polars(path):
    import polars

    return polars.scan_parquet(path / "*.parquet")


def _duckdb(path):
    import duckdb

    return duckdb.sql(f"select * from '{path}/*.parquet'")


SOURCES = {"polars": _polars, "duckdb": _duckdb, "pattern": lambda path: str(path / "*.parquet")}


def _fit(name, source):
    return bg.fit(MODELS[name], source, "species", method=bg.Exact())


def native(name, engine, path):
    """The sums of a model as users of an engine write them."""
    columns = [f"x{index}" for index in range(COLUMNS)]
    pairs = list(itertools.combinations_with_replacement(columns, 2))
    if engine == "polars":
        import polars

        sums = [polars.col(x).mean().alias(f"{x} mean") for x in columns]
        if name == "naive Bayes":
            sums += [polars.col(x).var().alias(f"{x} var") for x in columns]
        else:
            sums += [(polars.col(x) * polars.col(z)).sum().alias(f"{x} {z}") for x, z in pairs]
        return _polars(path).group_by("species").agg(polars.len(), *sums).collect()
    sums = [f"avg({x})" for x in columns]
    sums += [f"var_pop({x})" for x in columns] if name == "naive Bayes" else [f"sum({x} * {z})" for x, z in pairs]
    return _duckdb(path).aggregate(f"species, count(*), {', '.join(sums)}", "species").fetchall()


def _beside_native(name, source, num_rows, repeats):
    path = folder(num_rows)
    times = {
        engine: min(seconds(lambda e=engine: native(name, e, path)) for _ in range(2))
        for engine in ("polars", "duckdb")
    }
    faster = min(times, key=times.get)
    return duel(
        f"{name}, {num_rows:,} x {COLUMNS} in Parquet, read by {source}",
        Price(1.5),
        lambda: _fit(name, SOURCES[source](path)),
        lambda: native(name, faster, path),
        f"the same sums in {faster}, the faster of polars and DuckDB",
        repeats=repeats,
    )


def _queries_or_chunks(width, num_rows, repeats):
    """Full covariances by all products of columns in one query, and in chunks: what `queried.MOST_SUMS` says."""
    source = SOURCES["polars"](folder(num_rows, width))

    def fit(most):
        queried.MOST_SUMS, before = most, queried.MOST_SUMS
        try:
            return _fit("full covariances", source)
        finally:
            queried.MOST_SUMS = before

    return duel(
        f"products of {width} columns, {num_rows:,} rows: a query over chunks",
        Price(),
        lambda: fit(10**9),
        lambda: fit(0),
        "the same in chunks",
        repeats=repeats,
    )


def _memory(source, num_rows):
    """Memory of a fit beyond that of the same sums in the same engine, each in a process of its own."""
    folder(num_rows)
    ours, engines = (call(f"sources.{function}", source, num_rows) for function in ("peak", "peak_of_engine"))
    return Row(
        f"naive Bayes, {num_rows:,} rows, read by {source}: memory beyond the engine's",
        Below(300.0),
        [ours - engines],
        unit="MB",
        note=f"{ours:.0f} MB and {engines:.0f} MB",
    )


def peak(source, num_rows):
    """The most memory of a process that fits, in MB, beyond what it has before."""
    return _growth(source, num_rows, lambda path: _fit("naive Bayes", SOURCES[source](path)))


def peak_of_engine(source, num_rows):
    """The same of a native query; of a pattern by the engine that scans it."""
    engine = as_source(SOURCES[source](folder(int(num_rows)))).query_engine.lower()
    return _growth(source, num_rows, functools.partial(native, "naive Bayes", engine))


def _growth(source, num_rows, work):
    _fit("naive Bayes", SOURCES[source](folder(100_000)))  # imports, threads
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    work(folder(int(num_rows)))
    return _status("VmHWM") - before


def _dask(path):
    import dask.dataframe

    return dask.dataframe.read_parquet(path)


def _spark(path):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate().read.parquet(str(path))


CLUSTERS = {"dask": _dask, "spark": _spark}


def _cluster(cluster, num_rows):
    """A fit by workers beside that of the rows in memory."""
    module = {"dask": "dask", "spark": "pyspark"}[cluster]
    work = f"naive Bayes, {num_rows:,} x {COLUMNS} by {cluster} on this machine"
    if importlib.util.find_spec(module) is None or (cluster == "spark" and shutil.which("java") is None):
        return Missing(work, f"{module} or Java is not installed")
    path = folder(num_rows)
    source, rows = CLUSTERS[cluster](path), _polars(path).collect()
    fits = [_fit("naive Bayes", source)]
    origin = fits[0].attributes["statistics"]
    return duel(
        work,
        Price(),
        lambda: _fit("naive Bayes", source),
        lambda: _fit("naive Bayes", rows),
        "in memory",
        repeats=1,
        note=f"{len(list(path.iterdir()))} partitions, {origin['bytes']:,} bytes came back",
    )
