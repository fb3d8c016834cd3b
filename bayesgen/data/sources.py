"""Sources: rows that stay where they lie, in files, in a database or on a cluster.

    X of a verb ── as_source ──▶ Source ─┬─ query      what the engine sums by class: as many rows as classes and values
                   (the one door)        ├─ chunks     successive Arrow tables, on this machine
                                         └─ summarized a text a partition, made where it lies and merged in a tree

All three become the same `SufficientStatistics` (`bayesgen.fitting`): an engine's sums are moments, or rows with
weights; a chunk is a `Table`; a partition is read in chunks where it lies. A `Source` knows its columns and their
dtypes without reading a row. One class an engine; a verb that needs another way to ask an engine adds a method here, so
that no other file knows one.
"""

import abc
import contextlib
import dataclasses
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, cast

import narwhals as nw
import numpy as np
import pandas as pd

from bayesgen.errors import BayesgenError, DataError
from bayesgen.runtime import TABLE_CELLS

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 1000  # rows that are looked at first
MERGED_AT_ONCE = 16  # statistics of partitions, in one task of Dask
NUM_MERGED = 8  # statistics of many partitions that Spark sends back
Summarize: TypeAlias = "Callable[[Iterable[pa.Table]], bytes]"
"""The statistics of the chunks of one partition, as bytes; empty for a partition without rows."""
Merge: TypeAlias = Callable[[Sequence[bytes]], bytes]
Answer: TypeAlias = "Callable[[pa.Table], pa.Table]"
"""The answers to the rows of a chunk."""


@dataclasses.dataclass(frozen=True, eq=False)
class Source(abc.ABC):
    """Rows that lie elsewhere: columns by name, and ways to ask for them.

    Attributes:
        native: the user's own object.
        dtypes: column -> its dtype, as narwhals has it; no row is read for it.
        frame: the rows as a lazy frame of narwhals, for queries; None where the engine has no query language.
    """

    native: Any
    dtypes: Mapping[str, nw.dtypes.DType]
    frame: nw.LazyFrame | None = None
    engine: ClassVar[str]
    """What messages call it."""
    is_read_once: ClassVar[bool] = False
    """Whether its rows can be read only once."""

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(self.dtypes)

    @property
    def query_engine(self) -> str:
        """What messages call the engine of queries."""
        return self.engine if self.frame is None else _LAZY[self.frame.implementation].engine

    def chunks(self, columns: Sequence[str]) -> "Iterator[pa.Table]":
        """Some columns of successive rows, in tables that fit memory. A DataError is the engine's own error."""
        with self.telling_errors():
            yield from regrouped(self._batches(columns, num_rows := rows_at_once(columns)), num_rows)

    def selected(self, columns: Sequence[str]) -> Any:
        """The engine's own frame of some columns."""
        assert self.frame is not None
        return self.frame.select(list(columns)).to_native()

    @abc.abstractmethod
    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.Table | pa.RecordBatch]":
        """Some columns of successive rows, about `num_rows` at once where the engine can be told."""

    def query(self, frame: nw.LazyFrame) -> nw.DataFrame:
        """The answer of the engine to a query, which has few rows."""
        in_parts = {"engine": "streaming"} if frame.implementation is nw.Implementation.POLARS else {}
        with self.telling_errors(self.query_engine):
            return frame.collect("pyarrow", **in_parts)

    def summarized(self, columns: Sequence[str], summarize: Summarize, merge: Merge) -> bytes | None:
        """What `merge` makes of `summarize` of each partition, both done on workers; None where there are none."""
        return None

    def head(self, columns: Sequence[str]) -> "pa.Table | None":
        """Some columns of the first rows; None where there are no workers, and the first chunk has them."""
        return None

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        """The answers to rows of some columns, of these types, beside the columns of `keep`: a table that is lazy.

        No row is read. It is one of the engine, or a RecordBatchReader of Arrow.
        """
        import pyarrow as pa

        schema = pa.schema([*(self.native.schema.field(name) for name in keep), *types])
        chunks = (_beside(chunk, columns, keep, answer) for chunk in self.chunks(_joined(columns, keep)))
        batches = (batch for chunk in chunks for batch in chunk.cast(schema).to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def num_rows(self) -> int | None:
        """How many rows there are: a query, or a pass that reads one column. None where rows are read once."""
        if self.frame is not None:
            return int(self.query(self.frame.select(nw.len())).item())
        return None if self.is_read_once else sum(len(chunk) for chunk in self.chunks(self.names[:1]))

    def refuse_rows(self, reason: str, columns: Sequence[str]) -> NoReturn:
        """DataError: rows of these columns are needed one by one, with their number, their size and the remedy."""
        number, size = self.num_rows(), ""
        if number is not None:
            size = f": {number:,} rows of {len(columns)} columns, {number * len(columns) / 2**27:,.2f} GB in memory"
        raise DataError(
            f"{reason}, and X lies in {self.engine}{size}. Collect the columns that the model reads, or a sample of "
            "the rows, and give these; or fit by a method and families that need statistics alone, such as Exact(), "
            "MLE() or MAP() of naive Bayes and discriminants."
        )

    @contextlib.contextmanager
    def telling_errors(self, engine: str | None = None) -> Iterator[None]:
        """Errors of an engine, by default that of the source, as a DataError of one line."""
        try:
            yield
        except BayesgenError:
            raise
        except Exception as error:  # whatever the engine raises
            line = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise DataError(f"{engine or self.engine} could not read X: {line}") from error


class PolarsSource(Source):
    """A polars LazyFrame."""

    engine = "polars"

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.Table]":
        for batch in self.selected(columns).collect_batches(chunk_size=num_rows, maintain_order=True):
            yield batch.to_arrow()

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        import polars as pl

        def answered_batch(batch: "pl.DataFrame") -> "pl.DataFrame":
            answers = nw.from_native(answer(batch.select(columns).to_arrow()), eager_only=True)
            return pl.concat([batch.select(keep), pl.DataFrame(answers.to_arrow())], how="horizontal")

        frame = self.selected(_joined(columns, keep))
        schema = {**frame.select(keep).collect_schema(), **pl.DataFrame(types.empty_table()).schema}
        pushed = dict.fromkeys(("predicate_pushdown", "projection_pushdown"), False)
        return frame.map_batches(answered_batch, schema=schema, streamable=True, **pushed)


class DuckDBSource(Source):
    """A relation of DuckDB."""

    engine = "DuckDB"

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.RecordBatch]":
        return self.selected(columns).to_arrow_reader(num_rows)

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        """By `relation.map`, which gives and takes frames of pandas: columns of `keep` pass it as texts."""
        import duckdb

        def answered_batch(batch: pd.DataFrame) -> pd.DataFrame:
            answers = answer(arrow_of_pandas(batch.iloc[:, len(keep) :].set_axis(list(columns), axis=1)))
            return pd.concat([batch.iloc[:, : len(keep)], pandas_of_arrow(answers).set_axis(codes, axis=1)], axis=1)

        codes = [f"a{j}" for j in range(len(types))]
        dtypes = dict(zip(self.native.columns, self.native.types, strict=True))
        texts = [f"CAST({quoted_name(column)} AS VARCHAR) AS k{j}" for j, column in enumerate(keep)]
        schema = dict.fromkeys([f"k{j}" for j in range(len(keep))], duckdb.sqltype("VARCHAR"))
        schema |= dict(zip(codes, duckdb.from_arrow(types.empty_table()).types, strict=True))
        mapped = self.native.project(", ".join([*texts, *map(quoted_name, columns)])).map(answered_batch, schema=schema)
        casts = [f"CAST(k{j} AS {dtypes[column]}) AS {quoted_name(column)}" for j, column in enumerate(keep)]
        named = [f"a{j} AS {quoted_name(field.name)}" for j, field in enumerate(types)]
        return mapped.project(", ".join([*casts, *named]))


class IbisSource(Source):
    """A table of Ibis, in whatever backend."""

    engine = "Ibis"

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.RecordBatch]":
        table = self.selected(columns)
        backend = table.get_backend()
        if backend.name == "duckdb":  # Ibis 12 asks DuckDB 2 for batches by a name that it no longer has
            table.limit(0).to_pyarrow()  # makes tables in memory known to the connection
            return backend.con.sql(backend.compile(table)).to_arrow_reader(num_rows)
        return table.to_pyarrow_batches(chunk_size=num_rows)

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        """By a function of Arrow, which takes the columns as a struct: a NULL among arguments would be the answer."""
        import ibis
        import pyarrow as pa

        backend, rows = self.native.get_backend().name, self.native.select(*columns)
        if backend != "duckdb":
            raise DataError(f"Ibis runs no functions of Arrow in {backend}. Ask fit.to_sql(table), or collect X.")

        def answered_rows(rows: Any) -> Any:  # DuckDB evaluates these annotations
            return answer(pa.Table.from_struct_array(rows)).to_struct_array()

        signature = (rows.schema().as_struct(),), ibis.Schema.from_pyarrow(types).as_struct()
        function = ibis.udf.scalar.pyarrow(answered_rows, signature=signature)
        struct = function(ibis.struct({name: self.native[name] for name in columns}))
        return self.native.select(*keep, struct.name("answers of rows")).unpack("answers of rows")


class SparkSource(Source):
    """A DataFrame of Spark, classic or of Connect: each partition is summarised where it lies."""

    engine = "Spark"

    def selected(self, columns: Sequence[str]) -> Any:
        return self.native.select(["`" + name.replace("`", "``") + "`" for name in columns])

    def head(self, columns: Sequence[str]) -> "pa.Table | None":
        return self.selected(columns).limit(HEAD).toArrow()

    def _mapped(self, columns: Sequence[str], function: Any, schema: Any) -> Any:
        """A function of the batches of each partition; columns have names without dots in the frame that is mapped."""

        def renamed(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            return function(batch.rename_columns(list(columns)) for batch in batches)

        safe_names = [f"c{index}" for index in range(len(columns))]
        return self.selected(columns).toDF(*safe_names).mapInArrow(renamed, schema)

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.RecordBatch]":
        return self.selected(columns).toArrow().to_batches()

    def summarized(self, columns: Sequence[str], summarize: Summarize, merge: Merge) -> bytes | None:
        def summarized_partition(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            yield _packed([summarize(regrouped(batches, rows_at_once(columns)))])

        def merged_parts(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            yield _packed([merge([part for batch in batches for part in batch.column(0).to_pylist()])])

        with self.telling_errors():
            parts = self._mapped(columns, summarized_partition, "packed binary")
            joined = parts.repartition(NUM_MERGED).mapInArrow(merged_parts, "packed binary").collect()
        return merge([bytes(row[0]) for row in joined])

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        def answered_partition(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            for chunk in regrouped(batches, rows_at_once(columns)):
                yield from _beside(chunk, columns, keep, answer).to_batches()

        schema = StructType([*(self.native.schema[name] for name in keep), *from_arrow_schema(types)])
        return self._mapped(_joined(columns, keep), answered_partition, schema)


class DaskSource(Source):
    """A DataFrame of Dask: each partition is summarised where it lies."""

    engine = "Dask"

    def head(self, columns: Sequence[str]) -> "pa.Table | None":
        return arrow_of_pandas(self.native[list(columns)].head(HEAD, npartitions=-1))

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.Table]":
        for part in self.native[list(columns)].partitions:
            yield arrow_of_pandas(part.compute())

    def summarized(self, columns: Sequence[str], summarize: Summarize, merge: Merge) -> bytes | None:
        import dask

        def summarized_partition(frame: pd.DataFrame) -> bytes:
            return summarize(regrouped([arrow_of_pandas(frame)], rows_at_once(columns)))

        with self.telling_errors():
            parts = [dask.delayed(summarized_partition)(part) for part in self.native[list(columns)].to_delayed()]
            while len(parts) > 1:
                starts = range(0, len(parts), MERGED_AT_ONCE)
                parts = [dask.delayed(merge)(parts[start : start + MERGED_AT_ONCE]) for start in starts]
            return parts[0].compute() if parts else merge([])

    def answered(self, columns: Sequence[str], keep: Sequence[str], answer: Answer, types: "pa.Schema") -> Any:
        def answered_partition(frame: pd.DataFrame) -> pd.DataFrame:
            answers = pandas_of_arrow(answer(arrow_of_pandas(frame[list(columns)])))
            return pd.concat([frame[list(keep)], answers.set_axis(frame.index)], axis=1)

        meta = pd.concat([self.native._meta[list(keep)], pandas_of_arrow(types.empty_table())], axis=1)
        return self.native[_joined(columns, keep)].map_partitions(answered_partition, meta=meta)


@dataclasses.dataclass(frozen=True, eq=False)
class ArrowSource(Source):
    """A dataset of pyarrow, such as files of Parquet.

    Attributes:
        paths: the files, where the user gave a path or a pattern; their columns have to have the same types.
    """

    paths: tuple[str, ...] = ()
    engine = "pyarrow"

    def scanned(self) -> "ArrowSource":
        """The source with a lazy frame of its files, of the first engine that is there and finds the same columns."""
        with self.telling_errors():
            is_uniform = all(self.native.schema.equals(part.physical_schema) for part in self.native.get_fragments())
        for module, scan in _SCANS.items() if is_uniform else ():
            if find_spec(module) is not None:
                with contextlib.suppress(Exception):  # a type of Arrow that the engine lacks
                    frame = nw.from_native(scan(self.paths))
                    if frame.collect_schema() == self.dtypes:
                        return dataclasses.replace(self, frame=frame)
        return self

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.RecordBatch]":
        import pyarrow.compute as pc

        self._check_types(columns)
        fields = {name: pc.field(name) for name in columns}
        options = {"batch_readahead": 2, "fragment_readahead": 1}  # 16 and 4 else, which fill memory
        return self.native.scanner(columns=fields, batch_size=num_rows, **options).to_batches()

    def _check_types(self, columns: Sequence[str]) -> None:
        """DataError for a column that a file lacks, or has of another type than the first file."""
        for fragment in self.native.get_fragments() if len(self.paths) > 1 else ():
            for name in columns:
                first, position = self.native.schema.field(name).type, fragment.physical_schema.get_field_index(name)
                other = fragment.physical_schema.field(position).type if position >= 0 else "not there"
                if other != first:
                    raise DataError(
                        f"Column {name!r} is {first} in {self.paths[0]}, and {other} in {fragment.path}. Write all "
                        "files with the same columns, each of one type."
                    )


class StreamSource(Source):
    """What offers the Arrow stream interface, such as a RecordBatchReader: it is read once."""

    engine = "The Arrow stream"
    is_read_once = True

    def _batches(self, columns: Sequence[str], num_rows: int) -> "Iterable[pa.RecordBatch]":
        for batch in self.native:
            yield batch.select(list(columns))


def _scanned_by_duckdb(paths: Sequence[str]) -> Any:
    import duckdb

    connection = duckdb.default_connection().cursor()  # with the user's settings, and safe beside other threads
    return connection.read_parquet([glob.escape(path) for path in paths], hive_partitioning=False)


def _scanned_by_polars(paths: Sequence[str]) -> Any:
    import polars as pl

    return pl.scan_parquet([*paths], glob=False, hive_partitioning=False)


_SCANS: dict[str, Callable[[Sequence[str]], Any]] = {"duckdb": _scanned_by_duckdb, "polars": _scanned_by_polars}
"""Module of an engine -> a lazy frame of Parquet files by it; the quickest first: benchmarks/sources.py."""
_LAZY: dict[nw.Implementation, Any] = {
    nw.Implementation.POLARS: PolarsSource,
    nw.Implementation.DUCKDB: DuckDBSource,
    nw.Implementation.IBIS: IbisSource,
    nw.Implementation.PYSPARK: SparkSource,
    nw.Implementation.PYSPARK_CONNECT: SparkSource,
}


def as_source(X: object) -> Source | None:
    """The source of a lazy frame, a relation, a dataset, a stream of Arrow, or a path or pattern of Parquet files.

    None for data in memory: arrays, eager frames, mappings, chunks. Raises DataError for a path without files, and
    for lazy frames of engines that are not known here.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return _files(os.fspath(X))
    if isinstance(X, np.ndarray | list | tuple | pd.DataFrame | Mapping):
        return None
    if hasattr(type(X), "scanner"):  # of the class: a frame of Spark has every attribute, as columns
        return ArrowSource(X, _dtypes_of_arrow(cast(Any, X).schema))
    if nw.dependencies.is_dask_dataframe(X):
        return DaskSource(X, dict(nw.from_native(X._meta, eager_only=True).schema))
    view = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(view, nw.LazyFrame):
        if view.implementation not in _LAZY:
            raise DataError(f"X is a lazy frame of {view.implementation}. Collect it first.")
        return _LAZY[view.implementation](X, dict(view.collect_schema()), view)
    if isinstance(view, nw.DataFrame | nw.Series) or not hasattr(type(X), "__arrow_c_stream__"):
        return None
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(X)
    return StreamSource(reader, _dtypes_of_arrow(reader.schema))


def _files(path: str) -> Source:
    """The Parquet files of a path, a folder or a pattern. DataError: none; no pyarrow."""
    if find_spec("pyarrow") is None:
        raise DataError(f"{path} is to be read as Parquet, which pyarrow does. Install it: pip install pyarrow")
    from pyarrow import dataset

    try:
        pattern = os.path.join(path, "**", "*.parquet") if os.path.isdir(path) else path
        paths = sorted(glob.glob(pattern, recursive=True))
        native = dataset.dataset(paths, format="parquet")
    except (OSError, ValueError) as error:  # what no path can be, and what is no Parquet
        raise DataError(f"X is the text {path!r}, and cannot be read as Parquet: {error}") from error
    if not paths:
        raise DataError(f"X is the text {path!r}, and there are no such files. Give a path or a pattern of Parquet.")
    return ArrowSource(native, _dtypes_of_arrow(native.schema), paths=tuple(paths)).scanned()


def _dtypes_of_arrow(schema: "pa.Schema") -> dict[str, nw.dtypes.DType]:
    return dict(nw.from_native(schema.empty_table(), eager_only=True).schema)


def rows_at_once(columns: Sequence[str]) -> int:
    """How many rows of so many columns are in memory together."""
    return max(1, TABLE_CELLS // max(1, len(columns)))


def regrouped(batches: "Iterable[pa.Table | pa.RecordBatch]", num_rows: int) -> "Iterator[pa.Table]":
    """The rows of batches in tables of about so many rows: small ones together, large ones divided.

    Columns of categories get one dictionary a table, whatever the batches have.
    """
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        for start in range(0, len(table), num_rows):
            waiting.append(table.slice(start, num_rows))
            if sum(map(len, waiting)) >= num_rows:
                yield pa.concat_tables(waiting, promote_options="permissive").unify_dictionaries()
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting, promote_options="permissive").unify_dictionaries()


def arrow_of_pandas(frame: pd.DataFrame) -> "pa.Table":
    """A partition of pandas as a table of Arrow; NaN stay NaN, which are missing too."""
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


def _joined(columns: Sequence[str], keep: Sequence[str]) -> list[str]:
    """All these columns, each once."""
    return list(dict.fromkeys([*columns, *keep]))


def _beside(chunk: "pa.Table", columns: Sequence[str], keep: Sequence[str], answer: Answer) -> "pa.Table":
    """The answers to a chunk of rows of some columns, beside the columns of `keep`."""
    answers = answer(chunk.select(list(columns)))
    for place, name in enumerate(keep):
        answers = answers.add_column(place, chunk.schema.field(name), chunk[name])
    return answers


def pandas_of_arrow(table: "pa.Table") -> pd.DataFrame:
    """A table of Arrow as a frame of pandas; integers and truth values stay such beside missing ones."""
    import pyarrow as pa

    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)


def quoted_name(name: str) -> str:
    """A name of any characters, in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _packed(parts: list[bytes]) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"packed": pa.array(parts, pa.binary())})
