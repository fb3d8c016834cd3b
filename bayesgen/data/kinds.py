"""`Kind`: what the cells of a column are. One class a kind; users write its name, and new kinds register theirs."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias, final

import numpy as np
from scipy.sparse import csr_array

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Bool, Category, Float, Num

from .views import Table

Decoded: TypeAlias = np.ndarray | Sequence[str] | Sequence[Sequence[Category]] | Sequence[np.ndarray]
"""Cells as users write them: an array; of sequences texts, lists of symbols, or arrays."""


class Encoded(NamedTuple):
    """Cells as numbers.

    Attributes:
        values: (n, D), or (n, T) and (n, T, D) of sequences; a csr_array where the table is sparse.
        observed: mask of the observed cells; None where all are.
        unknown: column -> the number of its cells or time steps with unknown values, which are taken as missing.
    """

    values: np.ndarray | csr_array
    observed: Bool[np.ndarray, "n ..."] | None
    unknown: Mapping[str, int] = {}


class CellCondition(NamedTuple):
    """A condition on every cell of a kind.

    Attributes:
        holds: cells -> which of them satisfy it.
        words: the same in words.
        hold_all: whether all cells do; False where that has to be checked cell by cell.
        takes_unknown: whether other numbers are unknown values, which a schema may take as missing.
    """

    holds: Callable[[np.ndarray], np.ndarray]
    words: str
    hold_all: Callable[[np.ndarray], bool] = lambda cells: False
    takes_unknown: bool = False


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of one kind, as a table has them.

    Attributes:
        table: the rows.
        names: of the columns in the schema.
        table_names: their names in the table.
        kinds: column -> its kind, with its parameters.
        categories: column -> its categories or symbols.
        takes_unknown: whether cells with other values are missing.
    """

    table: Table
    names: Sequence[str]
    table_names: Sequence[str]
    kinds: "Mapping[str, Kind]"
    categories: Mapping[str, Sequence[Category]]
    takes_unknown: bool = False


class Kind(abc.ABC):
    """The kind of a column: how its cells become numbers, and what follows for models.

    A kind is a frozen dataclass; its fields, such as the edges of bins, are part of a schema. A new kind is a subclass,
    which `register_kind` makes known by its name; see `modelled_as` for its families. One without fields, made with
    `repr=False` and `eq=False`, is shown as its name and equals it.
    """

    name: ClassVar[str]
    """The name in Schema(kinds={column: name})."""
    has_steps: ClassVar[bool] = False
    """Whether a cell is a sequence of time steps. Such columns are blocks of their own, named like them."""
    condition: ClassVar[CellCondition | None] = None
    """The condition on its cells, besides that they are numbers; None without one."""
    noun_for_values: ClassVar[tuple[str, str] | None] = None
    """The word for its values in messages, and how to state their number; None where they are not finitely many."""
    reason_for_fewer_bins: ClassVar[str] = ""
    """Why there may be fewer values than were asked for, for messages."""

    @property
    def has_categories(self) -> bool:
        """Whether a schema lists the values or symbols of its columns."""
        return False

    @property
    def modelled_as(self) -> "Kind":
        """The kind of the encoded cells, whose families model them."""
        return self

    @property
    def events(self) -> "Kind":
        """The kind of the events to which the densities of such columns refer."""
        return self.modelled_as

    @property
    def parameters(self) -> Mapping[str, Float[np.ndarray, "..."] | int]:
        """Numbers that families resolve with, by the name of the field of `Scale`."""
        return {}

    @property
    def is_resolved(self) -> bool:
        """Whether all its parameters are known."""
        return True

    def resolve(self, columns: Columns) -> Mapping[str, "Kind"]:
        """The kinds of columns of this class, with parameters from the data where they are not stated."""
        return {column: columns.kinds[column] for column in columns.names}

    def infer_categories(self, column: str, table: Table, table_name: str) -> Sequence[Category]:
        """The categories or symbols of a column, which the table calls `table_name`, where it has any."""
        raise NotImplementedError

    @abc.abstractmethod
    def encode(self, columns: Columns) -> Encoded:
        """The cells of columns of this class as numbers. DataError: cells that are not of the kind."""

    def decode(self, column: str, categories: Sequence[Category], values: Num[np.ndarray, "n ..."]) -> Decoded:
        """The inverse of `encode` for a column; the most probable value of a probability. DataError: invalid codes."""
        return values

    def check_decodable(self, column: str, values: Num[np.ndarray, "n ..."]) -> None:
        """DataError: numbers that are no values of the kind, where `decode` takes expected values too."""
        return None

    def num_values(self, num_categories: int) -> int | None:
        """The number of values, or bins, of a column with so many categories; None where it is not finite."""
        return num_categories if self.has_categories else None

    def is_modelled_by(self, kind: "Kind") -> bool:
        """Whether families of a kind model columns of this one."""
        return self.modelled_as.name == kind.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __eq__(self, other: object) -> bool:
        """A kind without parameters equals its name, as users write it; dataclasses compare those with parameters."""
        return other == self.name if isinstance(other, str) else type(other) is type(self)

    def __hash__(self) -> int:
        return hash(self.name)


StatedKind: TypeAlias = str | Kind
"""A kind as users write it: a name, or a kind with parameters."""

KINDS: dict[str, Kind] = {}
"""Name -> the kind, with its default parameters."""


def register_kind(kind: Kind) -> None:
    """Make a kind known by its name."""
    KINDS[kind.name] = kind


def as_kind(kind: StatedKind, column: str) -> Kind:
    """The kind of a column. DataError: a name that no kind has."""
    if isinstance(kind, Kind):
        return kind
    if kind not in KINDS:
        raise DataError(f"Column {column!r} is given the kind {kind!r}. The kinds are {quote_some(KINDS)}.")
    return KINDS[kind]


def resolved_kind(stated: StatedKind | None, implied: StatedKind | None, column: str) -> Kind:
    """The stated kind of a column, else the implied one. A name alone leaves its parameters to the implied kind."""
    if implied is not None and stated in (None, as_kind(implied, column).name):
        return as_kind(implied, column)
    assert stated is not None
    return as_kind(stated, column)


@final
class ColumnKinds(Mapping[str, Kind]):
    """The kinds of many columns: `default` for all but those in `overrides`, column -> kind."""

    __hash__ = None  # type: ignore[assignment]  # equal to dicts

    def __init__(self, names: Sequence[str], default: Kind, overrides: Mapping[str, Kind]) -> None:
        self.names = names
        self.default = default
        self.overrides = {name: kind for name, kind in overrides.items() if kind != default}

    def __getitem__(self, name: str) -> Kind:
        if name in self.overrides:
            return self.overrides[name]
        if name not in self.names:
            raise KeyError(name)
        return self.default

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ColumnKinds) and other.default == self.default:
            return bool(self.names == other.names) and self.overrides == other.overrides
        return Mapping.__eq__(self, other)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"ColumnKinds({self.names!r}, {self.default!r}, {self.overrides!r})"


def uniform_kind(kinds: Mapping[str, StatedKind]) -> Kind | None:
    """The kind of all columns; None where they may be of several."""
    return kinds.default if isinstance(kinds, ColumnKinds) and not kinds.overrides else None
