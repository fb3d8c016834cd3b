"""The statistics of a source: its schema in a first pass, where that is not declared, and its sums in a second.

The schema needs the dtypes, which cost nothing, and the distinct values of categorical columns and of the label. Then
the engine says sums (`queried`), workers summarise their partitions, or chunks are read here, and whichever it is, the
`Summaries` are those of the rows in memory.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import pandas as pd

from bayesgen.data import (
    DtypesTable,
    Schema,
    Source,
    Table,
    categories_among,
    category_array,
    check_columns,
    distinct_values,
    inferred_classes,
    read_table,
    warn_of_unknown,
)
from bayesgen.describe import free_name, quote_some
from bayesgen.errors import DataError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Category, Values

from .summaries import Summaries, inferred_schema, summarize_tables

if TYPE_CHECKING:
    import pyarrow as pa

MOST_RETAINED = 1 << 28  # bytes of sequences with hidden states, or of patterns of missing cells
TALLIES = ("queries", "passes", "bytes")
AnyFrame = TypeVar("AnyFrame", nw.LazyFrame, nw.DataFrame)


@dataclasses.dataclass(frozen=True)
class Request:
    """What a fit asks of a source.

    Attributes:
        source: the source.
        columns: those that the model reads, in order.
        label, weight: the columns of labels and weights; None where there are none.
        tally: what was asked so far: "queries", "passes", and the "bytes" that came back; "rows" of the last pass.
    """

    source: Source
    columns: tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    tally: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.columns, *(name for name in (self.label, self.weight) if name is not None)]

    def weighed(self, frame: AnyFrame) -> AnyFrame:
        """The rows of a frame that have a weight; missing ones stay, to be refused."""
        weight = self.weight
        return frame if weight is None else frame.filter((nw.col(weight) != 0) | nw.col(weight).is_null())

    def answer(self, query: nw.LazyFrame) -> nw.DataFrame:
        """The answer of the engine to a query."""
        frame = self.source.query(query)
        self.tally.update(queries=1, bytes=frame.to_native().nbytes)
        return frame

    def chunks(self, names: Sequence[str]) -> "Iterator[pa.Table]":
        """Some columns of successive rows."""
        self.tally.update(passes=1)
        for chunk in self.source.chunks(names):
            self.tally.update(bytes=chunk.nbytes)
            yield chunk

    def counts(self, names: Sequence[str]) -> Iterator[tuple[str, nw.DataFrame]]:
        """Columns and how often each of their values comes, of all rows or of successive ones."""
        if self.source.frame is not None:
            for name in names:
                yield name, self.answer(_counts(self.weighed(self.source.frame), name))
            return
        for chunk in self.chunks([*names, *([] if self.weight is None else [self.weight])]):
            frame = self.weighed(nw.from_native(chunk, eager_only=True))
            yield from ((name, _counts(frame, name)) for name in names)

    def table(self, chunk: "pa.Table") -> Table:
        """A chunk as a table with labels and weights, without rows of weight zero."""
        return read_table(chunk, self.label, self.weight, least_rows=0)

    def origin(self, by: str) -> dict[str, Any]:
        """Who computed statistics, for the attributes of a fit."""
        return {"by": by, "engine": self.source.engine, **{name: self.tally[name] for name in TALLIES}}


def _counts(frame: AnyFrame, name: str) -> Any:
    """The distinct values of a column of a frame, and how many rows have each."""
    return frame.group_by(name).agg(nw.len().alias(free_name("rows", [name])))


def request_of(
    model: Recipe, source: Source, y: Values | None, sample_weight: Values | None, declared: Schema
) -> Request:
    """What a model asks of a source. DataError: labels or weights that are no columns of it, or columns it lacks."""
    named: dict[str, Any] = {"y": y, "sample_weight": sample_weight}
    named = {argument: name for argument, name in named.items() if name is not None}
    for argument, name in named.items():
        if not isinstance(name, str):
            raise DataError(f"X lies in {source.engine}, so {argument} has to be the name of one of its columns.")
    check_columns(named, source.names)
    others = [name for name in source.names if name not in named.values()]
    columns = model.columns_read(others) if declared.columns is None else declared.columns
    if absent := set(columns).difference(others):
        raise DataError(f"X lacks columns of the schema: {quote_some(sorted(absent))}. It has {quote_some(others)}.")
    return Request(source, tuple(columns), named.get("y"), named.get("sample_weight"))


def summarize_source(
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
    request = request_of(model, source, y, sample_weight, declared)
    if needs_rows:
        source.refuse_rows("The method needs rows one by one", request.columns)
    if isinstance(model, GenerativeProgram):  # whose sites are its schema
        return _of_chunks(request, model, schema)
    resolved, num_rows = _first_pass(model, request, declared)
    concrete = model.concrete(resolved)
    summaries = _of_chunks(request, concrete, resolved)
    if num_rows not in (None, read := request.tally["rows"]):
        raise DataError(
            f"X changed between two passes: the first read {num_rows:,} rows, the second {read:,}. Fit again when "
            "nothing writes to it."
        )
    return summaries


def _first_pass(model: Recipe, request: Request, declared: Schema) -> tuple[Schema, int | None]:
    """The schema of a source, and how many rows have a weight; None where all is declared, and no row was read."""
    source, label = request.source, request.label
    declared = declared if label is None else dataclasses.replace(declared, label=label)
    table = DtypesTable(names=request.columns, num_rows=1, source=source)
    schema = model.infer_schema(table, None, declared)
    has_classes = label is not None and schema.response is None and schema.classes is None
    names = [name for name in request.columns if name in table.asked] + [label] * has_classes
    if not names:
        return schema, None
    if source.is_read_once:
        raise DataError(
            f"{source.engine} is read once, and the values of {quote_some(names)} are not declared. Declare them, "
            "Schema(classes=[...], categories={column: [...]}), or give a dataset or a path, which are read twice."
        )
    values: dict[str, dict[Category, None]] = {name: {} for name in names}
    num_observed, num_rows = Counter[str](), Counter[str]()
    for name, frame in request.counts(names):
        cells, (counts,) = read_table(frame.to_native()).column(name), frame.drop(name).iter_columns()
        is_observed = ~pd.isna(cells)
        values[name] |= dict.fromkeys(distinct_values(cells[is_observed], f"Column {name!r}"))
        num_rows[name] += int(counts.sum())
        num_observed[name] += int(counts.to_numpy()[is_observed].sum())
    if has_classes:
        classes = getattr(source.dtypes[label], "categories", None) or inferred_classes(
            category_array(list(values.pop(label))), num_observed[label]
        )
        declared = dataclasses.replace(declared, classes=classes)
    table = dataclasses.replace(table, values={name: categories_among(list(v), name) for name, v in values.items()})
    return model.infer_schema(table, None, declared), num_rows[names[0]]


def _of_chunks(request: Request, model: ConcreteModel, schema: Schema | None) -> Summaries:
    """The summaries of successive chunks; of a program the first one completes the schema."""
    start, retained, unknown = 0, 0, Counter[str]()

    def tables() -> Iterator[Table]:
        nonlocal start
        for chunk in request.chunks(request.names):
            table = request.table(chunk)
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
            raise DataError("X has no row with a positive weight.")
        resolved = inferred_schema(model, first, schema) if schema is None or not model.has_columns else schema
        data = itertools.chain([first], remaining)
        summaries = summarize_tables(model.concrete(resolved), resolved, data, unknown=unknown, check=check)
    except DataError as error:
        if not start:
            raise
        raise DataError(f"Rows from {start:,} on: {error}") from error
    warn_of_unknown(unknown)
    return dataclasses.replace(summaries, origin=request.origin("chunks"))
