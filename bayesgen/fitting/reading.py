"""The verb `summarize`, and the way from training data, in memory or elsewhere, to `Summaries`.

The schema of a source needs the dtypes, which cost nothing, and the distinct values of categorical columns and of the
label, where they are not declared. Then the engine says sums (`queried`), workers summarise their partitions, or chunks
are read here, and whichever it is, the `Summaries` are those of the rows in memory.
"""

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bayesgen.data import (
    DtypesTable,
    Schema,
    Source,
    Table,
    as_source,
    categories_among,
    category_array,
    check_columns,
    inferred_classes,
    read_table,
    warn_of_unknown,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.runtime import public
from bayesgen.saving import packed, unpacked
from bayesgen.statistics import SufficientStatistics, merged
from bayesgen.typing import Data, Values

from .queried import statistics_by_query
from .requests import ALL_ZERO, DistinctValues, Request
from .summaries import Summaries, as_summaries, check_model, inferred_schema, summarize_tables

if TYPE_CHECKING:
    import pyarrow as pa

CHANGED = "X changed between two passes: {}. Fit again when nothing writes to it."
MOST_RETAINED = 1 << 28  # bytes of sequences with hidden states, or of patterns of missing cells


@public
def summarize(
    model: Recipe,
    X: Data | Iterable[tuple],
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
) -> Summaries:
    """Reduce training data to sufficient statistics in one pass over blocks of rows.

    Intermediate arrays are chunked in memory. Rows are kept for sites of a program without a sufficient statistic,
    and for sequences with hidden states, parse trees or missing time steps.

    Args:
        model: a model or a `GenerativeProgram`.
        X: 2-D array, data frame, sparse matrix or mapping name -> array; or rows that lie elsewhere, see `fit`. Or data
            in chunks, and then no y and no sample_weight: an iterable (a generator, `zip`, a list) of tuples (X, y) or
            (X, y, sample_weight), or (X,) for a program without classes. A list counts as chunks if its first item is a
            tuple that begins with an array, frame or mapping: [(1.0, 2.0), (3.0, 4.0)] is a table of two rows.
        y: (n,) labels, some of which may be missing: these rows are kept; None for a program without classes. Where X
            and y (or sample_weight) are both of pandas, they have one index. Or the name of a column of X.
        schema: declarations for the columns; declare classes and categories that a part of the data may lack. The rest
            is inferred, for chunked data from the first chunk alone. The schema of a fit brings its default prior.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice). A row of weight 0 is ignored, its
            label and its categories included.

    Raises:
        DataError: data that do not fit the schema or, naming the chunk, the schema of the first chunk.

    >>> import bayesgen as bg
    >>> schema = bg.Schema(classes=["a", "b"])
    >>> one = bg.summarize(bg.NaiveBayes(), [[1.0], [2.0]], ["a", "a"], schema=schema)
    >>> two = bg.summarize(bg.NaiveBayes(), [[5.0], [7.0]], ["b", "b"], schema=schema)
    >>> fit = bg.fit(bg.NaiveBayes(), one + two, method=bg.MLE())
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    >>> chunks = (chunk for chunk in [([[1.0], [2.0]], ["a", "a"]), ([[5.0], [7.0]], ["b", "b"])])
    >>> fit = bg.fit(bg.NaiveBayes(), chunks, method=bg.MLE(), schema=schema)
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    """
    return dataclasses.replace(training_summaries(model, X, y, schema=schema, sample_weight=sample_weight), rows=None)


def training_summaries(
    model: Any,
    X: Data | Iterable[tuple] | Summaries,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> Summaries:
    """The summaries of training data, in memory or elsewhere: see `as_summaries`."""
    source = None if isinstance(X, Summaries) else as_source(X)
    if source is None:
        return as_summaries(model, X, y, schema=schema, sample_weight=sample_weight, keeps_rows=keeps_rows)
    check_model(model)
    return _of_source(model, source, y, sample_weight, schema, needs_rows=keeps_rows)


def _request_of(
    model: Recipe, source: Source, y: Values | None, sample_weight: Values | None, declared: Schema
) -> Request:
    """What a model asks of a source. DataError: labels or weights that are no columns of it, or columns it lacks."""
    arguments = {"y": y, "sample_weight": sample_weight}
    named = {argument: name for argument, name in arguments.items() if isinstance(name, str)}
    for argument, values in arguments.items():
        if values is not None and argument not in named:
            raise DataError(f"X lies in {source.engine}, so {argument} has to be the name of one of its columns.")
    check_columns(named, source.names)
    others = [name for name in source.names if name not in named.values()]
    columns = model.columns_read(others) if declared.columns is None else declared.columns
    if absent := set(columns).difference(others):
        raise DataError(f"X lacks columns of the schema: {quote_some(sorted(absent))}. It has {quote_some(others)}.")
    return Request(source, tuple(columns), named.get("y"), named.get("sample_weight"))


def _of_source(
    model: Recipe,
    source: Source,
    y: Values | None,
    sample_weight: Values | None,
    schema: Schema | None,
    *,
    needs_rows: bool,
) -> Summaries:
    """The summaries of a source: see `as_summaries`."""
    declared = schema or Schema()
    request = _request_of(model, source, y, sample_weight, declared)
    if needs_rows:
        source.refuse_rows("The method needs rows one by one", request.columns)
    if isinstance(model, GenerativeProgram):  # whose sites are its schema
        first = source.head(request.names)
        if first is None:
            return _of_chunks(request, model, schema)
        resolved = inferred_schema(model, read_table(first, request.label, request.weight), schema)
        return _of_partitions(request, model.concrete(resolved), resolved) or _of_chunks(request, model, resolved)
    resolved, distinct = _first_pass(model, request, declared)
    concrete = model.concrete(resolved)
    summaries = (
        _of_queries(request, concrete, resolved)
        or _of_partitions(request, concrete, resolved)
        or _of_chunks(request, concrete, resolved, distinct)
    )
    counts = set() if distinct is None else {*distinct.num_rows.values()}
    if counts - {read := request.tally["rows"]}:
        raise DataError(CHANGED.format(f"the first read {counts.pop():,} rows, the second {read:,}"))
    return summaries


def _first_pass(model: Recipe, request: Request, declared: Schema) -> tuple[Schema, DistinctValues | None]:
    """The schema of a source, and the distinct values that it comes from; None where all is declared."""
    source, label = request.source, request.label
    declared = declared if label is None else dataclasses.replace(declared, label=label)
    table = DtypesTable(names=request.columns, num_rows=1, source=source)
    schema = model.infer_schema(table, None, declared)
    has_classes = schema.response is None and schema.classes is None
    names, labels = [name for name in request.columns if name in table.asked], [label] if label and has_classes else []
    if not [*names, *labels]:
        return schema, None
    if source.is_read_once:
        raise DataError(
            f"{source.engine} is read once, and the values of {quote_some([*names, *labels])} are not declared. "
            "Declare them, Schema(classes=[...], categories={column: [...]}), or give a dataset or a path, which are "
            "read twice."
        )
    distinct = request.distinct([*names, *labels])
    if distinct is None or not all(distinct.num_rows.values()):
        raise DataError(ALL_ZERO)
    categories = {name: categories_among(distinct.values[name], name) for name in names}
    for name in labels:
        stated = getattr(source.dtypes[name], "categories", None)
        classes = stated or inferred_classes(category_array(distinct.values[name]), distinct.num_observed[name])
        declared = dataclasses.replace(declared, classes=tuple(classes))
    resolved = model.infer_schema(dataclasses.replace(table, values=categories), None, declared)
    return resolved, distinct


def _of_queries(request: Request, model: ConcreteModel, schema: Schema) -> Summaries | None:
    """The summaries of what the engine sums; None where it does not: see `statistics_by_query`."""
    answer = statistics_by_query(request, model, schema)
    if answer is None:
        return None
    statistics, num_rows = answer
    if not num_rows:
        raise DataError(ALL_ZERO)
    request.tally.update(rows=num_rows)
    return Summaries(model, schema, statistics, num_rows, origin=request.origin("engine"))


def _of_partitions(request: Request, model: ConcreteModel, schema: Schema) -> Summaries | None:
    """The summaries of partitions that workers summarised; None where the source has no workers."""
    summarize = functools.partial(summarize_partition, model, schema, request.label, request.weight)
    content = request.source.summarized(request.names, summarize, merge_partitions)
    if content is None:
        return None
    part = unpacked(content)
    if isinstance(part, str):
        raise DataError(part)
    if part is None:
        raise DataError(ALL_ZERO)
    statistics, ranges, unknown, num_rows = part
    warn_of_unknown(unknown)
    request.tally.update(passes=1, bytes=len(content), rows=num_rows)
    return Summaries(model, schema.widened(ranges), statistics, num_rows, origin=request.origin("workers"))


ONE_AT_A_TIME = threading.Lock()  # of programs, whose handlers all threads of a process share


def summarize_partition(
    model: ConcreteModel, schema: Schema, label: str | None, weight: str | None, chunks: "Iterable[pa.Table]"
) -> bytes:
    """The statistics of the rows of a partition, packed: (statistics, ranges, unknown cells, number of rows).

    A text is the message of an error, and None stands for a partition without rows.
    """
    unknown = Counter[str]()

    def check(statistics: SufficientStatistics) -> None:
        if statistics.unlabelled is not None or statistics.rows is not None:
            raise DataError(
                "Rows without a label, and sites that are evaluated row by row, have no sufficient statistic that "
                "workers could send. Drop rows without a label, or collect a sample of the rows and fit these."
            )

    try:
        tables = [read_table(chunk, label, weight, least_rows=0) for chunk in chunks]
        if not (num_rows := sum(table.num_rows for table in tables)):
            return packed(None)
        with contextlib.nullcontext() if model.in_threads else ONE_AT_A_TIME:
            summaries = summarize_tables(model, schema, tables, unknown=unknown, check=check)
    except DataError as error:
        return packed(str(error))
    return packed((summaries.statistics, dict(summaries.schema.ranges), dict(unknown), num_rows))


def merge_partitions(contents: Sequence[bytes]) -> bytes:
    """The statistics of several partitions together, packed as those of one; the first error, where there is one."""
    parts = [part for part in map(unpacked, contents) if part is not None]
    if refused := [part for part in parts if isinstance(part, str)]:
        return packed(refused[0])
    if not parts:
        return packed(None)
    statistics, ranges, unknown, num_rows = zip(*parts, strict=True)
    widest = functools.reduce(Schema.widened, ranges, Schema()).ranges
    return packed((merged(statistics), dict(widest), dict(sum(map(Counter, unknown), Counter())), sum(num_rows)))


def _of_chunks(
    request: Request, model: ConcreteModel, schema: Schema | None, distinct: DistinctValues | None = None
) -> Summaries:
    """The summaries of successive chunks; of a program the first one completes the schema.

    A DataError says so where a chunk has values that are not among the distinct ones of a first pass.
    """
    start, retained, unknown = 0, 0, Counter[str]()
    chunk: pa.Table | None = None

    def tables() -> Iterator[Table]:
        nonlocal start, chunk
        for chunk in request.chunks(request.names):
            table = read_table(chunk, request.label, request.weight, least_rows=0)
            request.tally.update(rows=table.num_rows)
            if table.num_rows:
                yield table
            start += len(chunk)

    def check(statistics: SufficientStatistics) -> None:
        nonlocal retained
        retained += statistics.bytes_retained
        if statistics.unlabelled is not None:
            request.source.refuse_rows("Rows without a label have no sufficient statistic", request.columns)
        if statistics.rows is not None or retained > MOST_RETAINED:
            request.source.refuse_rows("Some sites have no sufficient statistic but their rows", request.columns)

    try:
        remaining = tables()
        first = next(remaining, None)
        if first is None:
            raise DataError(ALL_ZERO)
        resolved = inferred_schema(model, first, schema) if schema is None or not model.has_columns else schema
        data = itertools.chain([first], remaining)
        summaries = summarize_tables(model.concrete(resolved), resolved, data, unknown=unknown, check=check)
    except DataError as error:
        if distinct is not None and chunk is not None and (others := distinct.others_in(chunk, request.weight)):
            raise DataError(CHANGED.format(others)) from error
        if not start:
            raise
        raise DataError(f"Rows from {start:,} on: {error}") from error
    warn_of_unknown(unknown)
    return dataclasses.replace(summaries, origin=request.origin("chunks"))
