"""What a fit asks of a source, and the distinct values of columns, which are what a schema needs of rows."""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np

from bayesgen.data import Source, factorize, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import bar
from bayesgen.saving import packed, unpacked
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Category

if TYPE_CHECKING:
    import pyarrow as pa

NO_ROWS = "X has no rows, or none with a positive weight."
TALLIES = ("queries", "passes", "bytes")
AnyFrame = TypeVar("AnyFrame", nw.LazyFrame, nw.DataFrame)
Reduce: TypeAlias = "Callable[[Iterable[pa.Table]], Any]"
ValueCounts: TypeAlias = dict[str, dict[Category, int]]
"""Column -> value -> the number of rows that have it; None stands for missing cells."""


@dataclasses.dataclass(frozen=True)
class ReducedRows:
    """What some rows of a source are reduced to. It travels, and is added.

    Attributes:
        error: the message of a DataError; then there are no statistics.
        needs_rows: whether that is because these rows have none of a fixed size.
        start: the first row that it may be about.
        statistics, num_rows: of the rows, and how many they are.
        ranges, unknown: what `Schema.ranges` is of these rows, and column -> the number of cells with unknown values.
    """

    error: str = ""
    needs_rows: bool = False
    start: int = 0
    statistics: SufficientStatistics | None = None
    num_rows: int = 0
    ranges: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    unknown: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Request:
    """What a fit asks of a source.

    Attributes:
        source: the source.
        columns: those that the model reads, in order.
        label, weight: the columns of labels and weights; None where there are none.
        tally: what was asked so far: "queries", "passes", and the "bytes" that came back; "rows" of the last pass.
        opened: a pass that has begun.
    """

    source: Source
    columns: tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    tally: Counter[str] = dataclasses.field(default_factory=Counter)
    opened: "list[Iterator[pa.Table]]" = dataclasses.field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.columns, *(name for name in (self.label, self.weight) if name is not None)]

    def answer(self, query: nw.LazyFrame) -> nw.DataFrame:
        """The answer of the engine to a query."""
        frame = self.source.query(query)
        self.tally.update(queries=1, bytes=frame.to_native().nbytes)
        return frame

    def _chunks(self, names: Sequence[str], advance: Callable[[float], None]) -> "Iterator[pa.Table]":
        """Some columns of successive rows, which are counted as progress."""
        self.tally.update(passes=1)
        for chunk in self.opened.pop() if self.opened else self.source.chunks(names):
            self.tally.update(bytes=chunk.nbytes)
            advance(len(chunk))
            yield chunk

    def first_rows(self) -> "pa.Table":
        """The first rows; those of a source without workers come again in the next pass, which goes on after them.

        Raises:
            DataError: no rows.
        """
        first = self.source.head(self.names)
        if first is None:
            chunks = self.source.chunks(self.names)
            first = next(chunks, None)
            self.opened.append(itertools.chain([first], chunks))
        if first is None:
            raise DataError(NO_ROWS)
        return first

    def reduced(self, names: Sequence[str], reduce: Reduce, merge: Callable[[Sequence[Any]], Any]) -> tuple[Any, str]:
        """What `reduce` makes of chunks of rows, and who did it: "workers", whose results are merged, or "chunks" here.

        None stands for no rows.
        """
        functions = functools.partial(_packed_result, reduce), functools.partial(_packed_merger, merge)
        content = self.source.summarized(names, *functions)
        if content is None:
            with bar("Rows read", None) as advance:
                return reduce(self._chunks(names, advance)), "chunks"
        self.tally.update(passes=1, bytes=len(content))
        return unpacked(content), "workers"

    def value_counts(self, names: Sequence[str]) -> ValueCounts | None:
        """How often each value of columns comes, by a query each, by workers or in a pass; None without rows."""
        if (frame := self.source.frame) is not None:
            frame = weighed(frame, self.weight)
            return {name: counted_values(self.answer(counts_by_value(frame, name)), name) for name in names}
        read = [*names, *([] if self.weight is None else [self.weight])]
        return self.reduced(read, functools.partial(counted_in_chunks, names, self.weight), merged_counts)[0]

    def origin(self, by: str) -> dict[str, Any]:
        """Who computed statistics, for the attributes of a fit."""
        engine = self.source.query_engine if by == "engine" else self.source.engine
        return {"by": by, "engine": engine, **{name: self.tally[name] for name in TALLIES}}


def weighed(frame: AnyFrame, weight: str | None) -> AnyFrame:
    """The rows of a frame that have a weight; missing weights stay, to be refused."""
    return frame if weight is None else frame.filter((nw.col(weight) != 0) | nw.col(weight).is_null())


def counts_by_value(frame: Any, name: str) -> Any:
    """The distinct values of a column of a frame, "value", and how many "rows" have each."""
    return frame.select(nw.col(name).alias("value")).group_by("value").agg(nw.len().alias("rows"))


def counted_values(answer: nw.DataFrame, name: str) -> dict[Category, int]:
    """The values of a column, in order of appearance, with the number of rows of each, from `counts_by_value`."""
    codes, values = factorize(read_table(answer.to_native(), least_rows=0).column("value"), f"Column {name!r}")
    numbers = np.bincount(codes + 1, answer["rows"].to_numpy(), len(values) + 1).astype(int)
    return dict(zip([None, *values], numbers.tolist(), strict=True))


def counted_in_chunks(names: Sequence[str], weight: str | None, chunks: "Iterable[pa.Table]") -> ValueCounts | None:
    """How often each value of columns of chunks of rows comes; None without rows."""
    frames = (weighed(nw.from_native(chunk, eager_only=True), weight) for chunk in chunks)
    return merged_counts([{name: counted_values(counts_by_value(f, name), name) for name in names} for f in frames])


def merged_counts(parts: Sequence[ValueCounts]) -> ValueCounts | None:
    """How often each value comes in several parts together."""
    merged: ValueCounts = {name: {} for name in parts[0]} if parts else {}
    for part in parts:
        for name, counts in part.items():
            merged[name] |= {value: merged[name].get(value, 0) + number for value, number in counts.items()}
    return merged or None


def changed_values(first: ValueCounts, chunk: "pa.Table", weight: str | None) -> str | None:
    """Which values of a chunk did not come in a first pass, in words; None where all did."""
    for name, counts in (counted_in_chunks([*first], weight, [chunk]) or {}).items():
        if new_values := [value for value in counts if value not in first[name]]:
            return (
                f"the first read {sum(first[name].values()):,} rows and {len(observed(first[name]))} values of "
                f"{name!r}, the second {len(new_values)} others, such as {quote_some(new_values[:1])}"
            )
    return None


def observed(counts: Mapping[Category, int]) -> list[Category]:
    """The values without the missing one."""
    return [value for value in counts if value is not None]


def _packed_result(reduce: Reduce, chunks: "Iterable[pa.Table]") -> bytes:
    return packed(reduce(chunks))


def _packed_merger(merge: Callable[[Sequence[Any]], Any], contents: Sequence[bytes]) -> bytes:
    """The results of several partitions merged, of those that have rows."""
    parts = [part for part in map(unpacked, contents) if part is not None]
    return packed(merge(parts) if parts else None)
