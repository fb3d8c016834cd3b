"""What a fit asks of a source, and the distinct values of columns, which are what a schema needs of rows."""

import dataclasses
import functools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import pandas as pd

from bayesgen.data import Source, distinct_values, read_table
from bayesgen.describe import quote_some
from bayesgen.saving import packed, unpacked
from bayesgen.typing import Category

if TYPE_CHECKING:
    import pyarrow as pa

ALL_ZERO = "X has no rows, or none with a positive weight."
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

    def distinct(self, names: Sequence[str]) -> "DistinctValues | None":
        """The distinct values of columns, by a query each, by workers or in a pass; None without rows."""
        if (frame := self.source.frame) is not None:
            frame = weighed(frame, self.weight)
            return DistinctValues.among((name, self.answer(counts_by_value(frame, name))) for name in names)
        read = [*names, *([] if self.weight is None else [self.weight])]
        summarize = functools.partial(distinct_in_chunks, names, self.weight)
        content = self.source.summarized(read, summarize, merge_distinct)
        self.tally.update(passes=int(content is not None), bytes=len(content or b""))
        return unpacked(summarize(self.chunks(read)) if content is None else content)

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


@dataclasses.dataclass(frozen=True)
class DistinctValues:
    """The distinct values of columns, in order of appearance: what a schema needs of rows. It can be added.

    Attributes:
        values: column -> its values.
        num_rows, num_observed: column -> the number of rows, and of those that have a value.
    """

    values: dict[str, list[Category]]
    num_rows: dict[str, int]
    num_observed: dict[str, int]

    @classmethod
    def among(cls, counted: Iterable[tuple[str, nw.DataFrame]]) -> "DistinctValues":
        """Those of frames as `counts_by_value` makes them, each with the name of its column."""
        values, num_rows, num_observed = dict[str, dict[Category, None]](), Counter[str](), Counter[str]()
        for name, frame in counted:
            cells = read_table(frame.to_native(), least_rows=0).column("value")
            counts = frame["rows"].to_numpy()
            is_observed = ~pd.isna(cells)
            distinct = distinct_values(cells[is_observed], f"Column {name!r}")
            values[name] = values.get(name, {}) | dict.fromkeys(distinct)
            num_rows[name] += int(counts.sum())
            num_observed[name] += int(counts[is_observed].sum())
        return cls({name: list(distinct) for name, distinct in values.items()}, dict(num_rows), dict(num_observed))

    def __add__(self, other: "DistinctValues") -> "DistinctValues":
        values = {name: list(dict.fromkeys([*v, *other.values[name]])) for name, v in self.values.items()}
        sums = (
            {name: count + more[name] for name, count in counts.items()}
            for counts, more in ((self.num_rows, other.num_rows), (self.num_observed, other.num_observed))
        )
        return DistinctValues(values, *sums)

    def others_in(self, chunk: "pa.Table", weight: str | None) -> str | None:
        """What values of a chunk are not among these, in words; None where all are."""
        for name, values in _in_chunks([*self.values], weight, [chunk]).values.items():
            if others := [value for value in values if value not in self.values[name]]:
                return (
                    f"the first read {self.num_rows[name]:,} rows and {len(self.values[name])} values of {name!r}, the "
                    f"second {len(others)} others, such as {quote_some(others[:1])}"
                )
        return None


def _in_chunks(names: Sequence[str], weight: str | None, chunks: "Iterable[pa.Table]") -> DistinctValues:
    frames = (weighed(nw.from_native(chunk, eager_only=True), weight) for chunk in chunks)
    return DistinctValues.among((name, counts_by_value(frame, name)) for frame in frames for name in names)


def distinct_in_chunks(names: Sequence[str], weight: str | None, chunks: "Iterable[pa.Table]") -> bytes:
    """The distinct values of columns of chunks of rows, packed; None without rows."""
    distinct = _in_chunks(names, weight, chunks)
    return packed(distinct if distinct.values else None)


def merge_distinct(contents: Sequence[bytes]) -> bytes:
    """The distinct values of several partitions together, packed."""
    parts = [part for part in map(unpacked, contents) if part is not None]
    return packed(functools.reduce(operator.add, parts) if parts else None)
