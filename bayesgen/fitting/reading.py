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
from bayesgen.statistics import SufficientStatistics, merged
from bayesgen.typing import Data, Values

from .queried import statistics_by_query
from .requests import NO_ROWS, ReducedRows, Request, ValueCounts, changed_values, observed
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
    return _source_summaries(model, source, y, sample_weight, schema, needs_rows=keeps_rows)


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
    other_columns = [name for name in source.names if name not in named.values()]
    columns = model.columns_read(other_columns) if declared.columns is None else declared.columns
    if absent := set(columns).difference(other_columns):
        raise DataError(
            f"X lacks columns of the schema: {quote_some(sorted(absent))}. It has {quote_some(other_columns)}."
        )
    return Request(source, tuple(columns), named.get("y"), named.get("sample_weight"))


def _source_summaries(
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
    if isinstance(model, GenerativeProgram):  # whose sites are its schema, which the first rows complete
        first = read_table(request.first_rows(), request.label, request.weight, least_rows=0)
        resolved = inferred_schema(model, first, schema)
        return _row_summaries(request, model.concrete(resolved), resolved)
    resolved, counts = _first_pass(model, request, declared)
    concrete = model.concrete(resolved)
    summaries = _row_summaries(request, concrete, resolved, counts)
    for number in {sum(numbers.values()) for numbers in (counts or {}).values()} - {read := request.tally["rows"]}:
        raise DataError(CHANGED.format(f"the first read {number:,} rows, the second {read:,}"))
    return summaries


def _first_pass(model: Recipe, request: Request, declared: Schema) -> tuple[Schema, ValueCounts | None]:
    """The schema of a source, and how often the values come that it is made of; None where all is declared."""
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
    counts = request.value_counts([*names, *labels])
    if counts is None or not all(sum(numbers.values()) for numbers in counts.values()):
        raise DataError(NO_ROWS)
    categories = {name: categories_among(observed(counts[name]), name) for name in names}
    for name in labels:
        stated, values = getattr(source.dtypes[name], "categories", None), observed(counts[name])
        classes = stated or inferred_classes(category_array(values), sum(counts[name][value] for value in values))
        declared = dataclasses.replace(declared, classes=tuple(classes))
    resolved = model.infer_schema(dataclasses.replace(table, values=categories), None, declared)
    return resolved, counts


ONE_AT_A_TIME = threading.Lock()  # of programs, whose handlers all threads of a process share


def reduced_rows(
    model: ConcreteModel,
    schema: Schema,
    label: str | None,
    weight: str | None,
    counts: ValueCounts | None,
    chunks: "Iterable[pa.Table]",
) -> ReducedRows | None:
    """What chunks of rows are reduced to; None without rows.

    Args:
        model, schema: the model of the data with this schema.
        label, weight: the columns of labels and of weights.
        counts: how often the values came in a first pass; an error says so where a chunk has others.
        chunks: the rows.
    """
    start, num_rows, retained, needs_rows, unknown = 0, 0, 0, False, Counter[str]()
    chunk: pa.Table | None = None

    def tables() -> Iterator[Table]:
        nonlocal start, num_rows, chunk
        for chunk in chunks:
            table = read_table(chunk, label, weight, least_rows=0)
            num_rows += table.num_rows
            if table.num_rows:
                yield table
            start += len(chunk)

    def check(statistics: SufficientStatistics) -> None:
        nonlocal retained, needs_rows
        retained += statistics.bytes_retained
        needs_rows = statistics.unlabelled is not None or statistics.rows is not None or retained > MOST_RETAINED
        if needs_rows:
            reason = "Some sites have no sufficient statistic but their rows"
            raise DataError(
                reason if statistics.unlabelled is None else "Rows without a label have no sufficient statistic"
            )

    try:
        remaining = tables()
        if (first := next(remaining, None)) is None:
            return None
        with contextlib.nullcontext() if model.in_threads else ONE_AT_A_TIME:
            data = itertools.chain([first], remaining)
            reduced = summarize_tables(model, schema, data, unknown=unknown, check=check)
    except DataError as error:
        changes = None if counts is None or chunk is None else changed_values(counts, chunk, weight)
        return ReducedRows(str(error), needs_rows, start) if changes is None else ReducedRows(CHANGED.format(changes))
    ranges = dict(reduced.schema.ranges)
    return ReducedRows(statistics=reduced.statistics, num_rows=num_rows, ranges=ranges, unknown=dict(unknown))


def merged_parts(parts: Sequence[ReducedRows]) -> ReducedRows:
    """The parts together; the first one that is refused, where there is one."""
    for part in parts:
        if part.statistics is None:
            return part
    ranges = functools.reduce(Schema.widened, (part.ranges for part in parts), Schema()).ranges
    unknown = sum((Counter(part.unknown) for part in parts), Counter())
    statistics = merged(part.statistics for part in parts if part.statistics is not None)
    return ReducedRows(
        statistics=statistics, num_rows=sum(p.num_rows for p in parts), ranges=dict(ranges), unknown=dict(unknown)
    )


def _row_summaries(
    request: Request, model: ConcreteModel, schema: Schema, counts: ValueCounts | None = None
) -> Summaries:
    """The summaries of rows that the engine sums, or workers reduce, or this process chunk by chunk."""
    part, by = statistics_by_query(request, model, schema), "engine"
    if part is None:
        reduce = functools.partial(reduced_rows, model, schema, request.label, request.weight, counts)
        part, by = request.reduced(request.names, reduce, merged_parts)
    if part is None or not (part.num_rows or part.error):
        raise DataError(NO_ROWS)
    if part.needs_rows:
        request.source.refuse_rows(part.error, request.columns)
    if part.statistics is None:
        raise DataError(f"Rows from {part.start:,} on: {part.error}" if part.start and by == "chunks" else part.error)
    warn_of_unknown(part.unknown)
    request.tally.update(rows=part.num_rows)
    origin = request.origin(by)
    return Summaries(model, schema.widened(part.ranges), part.statistics, part.num_rows, origin=origin)
