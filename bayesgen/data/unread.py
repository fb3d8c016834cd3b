"""The columns of a source, of which a schema is made before a row is read."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, final

from bayesgen.errors import DataError
from bayesgen.typing import Category

from .columns import kind_of_dtype
from .sources import Source
from .views import Table

UNREAD = ("a value", "another value")  # in place of categories that a pass over the rows has to find


@final
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DtypesTable(Table):
    """The columns of a source without its rows: a table of which kinds are known, and no cells.

    Attributes:
        source: the source.
        values: column -> its distinct values, where they are known.
        asked: gets the columns whose distinct values were wanted and are not known; their place takes `UNREAD`.
    """

    source: Source
    named: bool = True
    values: Mapping[str, tuple[Category, ...]] = dataclasses.field(default_factory=dict)
    asked: set[str] = dataclasses.field(default_factory=set)
    form: ClassVar[str] = "a source"

    def inferred_kind(self, name: str) -> str:
        return kind_of_dtype(self.source.dtypes[name], name)

    def declared_categories(self, name: str) -> tuple[Category, ...] | None:
        declared = tuple(getattr(self.source.dtypes[name], "categories", ())) or self.values.get(name)
        if declared is None:
            self.asked.add(name)
        return declared or UNREAD

    def column(self, name: Any) -> NoReturn:
        raise DataError(
            f"Column {name!r} lies in {self.source.engine}, and bins, alphabets and transformed features are not "
            "learned from there. Declare them, Schema(kinds={column: Binned(edges=..., tails=...)}, "
            "categories={column: [...]}), or give the schema of a fit of some of the rows, schema=fit.schema."
        )

    def matrix(self, names: Sequence[str]) -> NoReturn:
        self.column(names[0])

    _take = with_rows_of = with_cells = column  # type: ignore[assignment]
