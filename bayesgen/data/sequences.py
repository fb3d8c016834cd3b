"""Arrays of padded and of coded sequences."""

from dataclasses import dataclass
from numbers import Real
from typing import Self, TypeAlias, final

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.records import fill
from bayesgen.typing import Int, Shaped

PADDING = -1
"""The code past the end of a sequence of symbols."""


def as_one_sequence(column: str, cell: object) -> str:
    """A remedy for a number in place of a sequence: how to write the whole column as one sequence.

    >>> as_one_sequence("v", 0.3)
    " If the whole column is one sequence, it is one row: {'v': [v]}."
    """
    values = column if column.isidentifier() else "values"
    return (
        f" If the whole column is one sequence, it is one row: {{{column!r}: [{values}]}}."
        if isinstance(cell, Real | np.bool_)
        else ""
    )


class CodedSequences(np.ndarray):
    """An array of codes 0, 1, ... of symbols, -1 past the ends of its rows: the form of simulated sequences.

    The type marks its numbers as indices of symbols in the alphabet, so that it can be fitted whatever the alphabet.
    Where the end is modelled, its code is the one after the last symbol, and a row without it is a prefix.

    Args:
        codes: (n, T).

    >>> codes = CodedSequences([[0, 1, -1], [1, 1, 0]])
    >>> codes[:1]
    CodedSequences([[ 0,  1, -1]])
    """

    __array_priority__ = 1.0  # codes below codes are codes

    def __new__(cls, codes: object) -> Self:
        """See the class."""
        return np.asarray(codes).view(cls)


@final
@dataclass(frozen=True, eq=False)
class Padded:
    """Sequences as the rows of an array, with their lengths.

    Args:
        values: (n, T), or (n, T, ...) where a time step is an array; values past the ends are ignored.
        lengths: (n,), the number of time steps of each row.

    Raises:
        DataError: lengths that are not one whole number a row, from 0 to T.

    >>> import numpy as np
    >>> [row.tolist() for row in Padded(np.array([[3, 1, 0], [2, 0, 0]]), [3, 1]).sequences()]
    [[3, 1, 0], [2]]
    """

    values: Shaped[np.ndarray, "n T ..."]
    lengths: Int[np.ndarray, " n"]

    def __init__(self, values: object, lengths: object) -> None:
        try:
            array, ends = np.asanyarray(values), np.asarray(lengths)
        except ValueError:  # lists of unequal lengths
            raise DataError(
                "Padded: values are rows of one length, filled up past their ends, and lengths are numbers; got "
                f"{values!r} and {lengths!r}. Rows of unequal lengths are taken as they are, in a list."
            ) from None
        if array.ndim < 2:
            raise DataError(f"Padded: values are rows of steps, (n, T), got the shape {array.shape}.")
        if ends.shape != array.shape[:1]:
            raise DataError(f"Padded: {len(array)} rows need {len(array)} lengths, got the shape {ends.shape}.")
        integers = ends.astype(np.int64) if ends.dtype.kind in "iuf" and np.isfinite(ends).all() else None
        if integers is None or (integers != ends).any() or ((integers < 0) | (integers > array.shape[1])).any():
            raise DataError(
                f"Padded: lengths are whole numbers from 0 to {array.shape[1]}, got {quote_some(ends.tolist())}."
            )
        fill(self, values=array, lengths=integers)

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, places: slice | Int[np.ndarray, " m"]) -> "Padded":
        """Some of the rows."""
        return Padded(self.values[places], self.lengths[places])

    def sequences(self) -> list[Shaped[np.ndarray, "steps ..."]]:
        """The time steps of each row, up to its end."""
        return [row[:length] for row, length in zip(self.values, self.lengths.tolist(), strict=True)]


SequenceCells: TypeAlias = Shaped[np.ndarray, "n ..."] | Padded
"""The cells of a column of sequences."""
