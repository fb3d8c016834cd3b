"""Kinds of columns: their names, and the one place where a name becomes what it stands for."""

from typing import TypeAlias

from .binned import BINNED, Binned
from .sequences import SEQUENCE, SequenceOf

KINDS = ("real", "binary", "categorical", "count", BINNED, SEQUENCE)
OBJECTS = (Binned, SequenceOf)  # kinds that say more than a name

Kind: TypeAlias = str | Binned | SequenceOf
"""The kind of a column: its name, bins, or sequences of steps."""


def name_of_kind(kind: Kind) -> str:
    """The name of a kind: that of bins is "binned", and that of sequences "sequence"."""
    if isinstance(kind, Binned):
        return BINNED
    return SEQUENCE if isinstance(kind, SequenceOf) else kind


def stated_kind(kind: Kind) -> Kind:
    """The kind, "binned" as bins of the default number, and "sequence" as sequences of symbols."""
    if kind == BINNED:
        return Binned()
    return SequenceOf() if kind == SEQUENCE else kind
