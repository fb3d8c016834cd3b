"""Kinds of columns: their names, and the kinds of dtypes."""

from typing import Any, NoReturn, TypeAlias

from bayesgen.errors import DataError

from .binned import BINNED, Binned
from .sequences import SEQUENCE, SequenceOf

KINDS = ("real", "binary", "categorical", "count", BINNED, SEQUENCE)
OBJECTS = (Binned, SequenceOf)  # kinds with parameters

Kind: TypeAlias = str | Binned | SequenceOf
"""The kind of a column: a name, bins, or sequences."""


def name_of_kind(kind: Kind) -> str:
    """The name of a kind: "binned" for bins, "sequence" for sequences."""
    if isinstance(kind, Binned):
        return BINNED
    return SEQUENCE if isinstance(kind, SequenceOf) else kind


def stated_kind(kind: Kind) -> Kind:
    """The kind; "binned" becomes the default bins."""
    return Binned() if kind == BINNED else kind


def resolved_kind(stated: Kind | None, implied: Kind | None) -> Kind:
    """The stated kind, else that which a family implies; "sequence" leaves its parameters to the family."""
    kind = stated or implied
    assert kind is not None
    if kind == SEQUENCE:
        return implied if isinstance(implied, SequenceOf) else SequenceOf()
    return kind


def has_categories(kind: Kind) -> bool:
    """Whether a schema lists the values or symbols of columns of this kind."""
    return kind.of_symbols if isinstance(kind, SequenceOf) else kind == "categorical"


DECLARED = "where a row is a sequence of steps, declare Schema(kinds={{{!r}: 'sequence'}})."


def refuse_lists(name: str) -> NoReturn:
    """DataError for an undeclared column of lists."""
    raise DataError(
        f"Column {name!r} holds lists, which are not of one length or are of no kind by themselves. Give arrays of one "
        f"length; {DECLARED.format(name)}"
    )


def holds_lists(dtype: Any) -> bool:
    """Whether the cells of a narwhals series are lists, by its dtype."""
    import narwhals as nw

    return bool(dtype == nw.List or dtype == nw.Array)


def kind_of_dtype(dtype: Any, name: str) -> str:
    """The kind of a frame's column of this dtype. DataError where it has none."""
    import narwhals as nw

    if dtype == nw.Boolean:
        return "binary"
    if dtype.is_numeric():
        return "real"
    if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object):
        return "categorical"
    if holds_lists(dtype):
        refuse_lists(name)
    raise DataError(
        f"Column {name!r} has dtype {dtype}, which has no kind. Turn it into numbers, booleans or strings, or drop it."
    )
