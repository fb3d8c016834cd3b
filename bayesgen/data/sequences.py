"""`SequenceOf`: the kind of a column of sequences; arrays of padded and coded sequences."""

from dataclasses import dataclass
from numbers import Real
from typing import Self, TypeAlias, final

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Int, Shaped

SEQUENCE = "sequence"
KINDS_OF_STEPS = ("categorical", "real", "count", "binary")
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


@final
@dataclass(frozen=True)
class SequenceOf:
    """The kind of a column whose cells are sequences: of symbols, such as words are of letters, or of numbers.

    A cell is a string, whose symbols are its characters; a list, tuple or array of time steps; or a row of a padded
    array, see `Padded`. None or NaN is a missing time step or, as a cell, a missing sequence. A padded array of symbols
    has -1 past the ends of its rows, and nowhere else; its integers are codes where the alphabet has no numbers.
    Simulated sequences, `CodedSequences`, are always codes, and lists are always symbols.

    Args:
        steps: the kind of the time steps: "categorical" (symbols, any hashable values), "real", "count" or "binary".
        end: whether the end of a sequence is modelled as one more symbol, so that its length is random. Only for
            sequences of symbols.

    `Schema(kinds={"word": "sequence"})` declares a column of sequences of symbols, whose alphabet is inferred, the
    sorted symbols of the data; `Schema(categories={"word": list("abc")})` declares it. With words as symbols, a cell is
    a list of words.

    Raises:
        DataError: an unknown kind of time steps; an end for numbers.

    >>> SequenceOf()
    SequenceOf(steps='categorical', end=False)
    """

    steps: str = "categorical"
    end: bool = False

    def __post_init__(self) -> None:
        if self.steps not in KINDS_OF_STEPS:
            raise DataError(f"SequenceOf: steps must be one of {quote_some(KINDS_OF_STEPS)}, got {self.steps!r}.")
        if not isinstance(self.end, bool):
            raise DataError(f"SequenceOf: end must be True or False, got {self.end!r}.")
        if self.end and not self.of_symbols:
            raise DataError(
                f"SequenceOf: end=True is one more symbol, and the steps are {self.steps}. Leave it out: sequences of "
                "numbers are modelled given their lengths."
            )

    @property
    def of_symbols(self) -> bool:
        """Whether the time steps are symbols, and not numbers."""
        return self.steps == "categorical"


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
        values: (n, T), or (n, T, ...) for programs with such time steps; values past the ends are ignored.
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
        array, ends = np.asanyarray(values), np.asarray(lengths)
        if array.ndim < 2:
            raise DataError(f"Padded: values are rows of steps, (n, T), got the shape {array.shape}.")
        if ends.shape != array.shape[:1]:
            raise DataError(f"Padded: {len(array)} rows need {len(array)} lengths, got the shape {ends.shape}.")
        whole = ends.astype(np.int64) if ends.dtype.kind in "iuf" and np.isfinite(ends).all() else None
        if whole is None or (whole != ends).any() or ((whole < 0) | (whole > array.shape[1])).any():
            raise DataError(
                f"Padded: lengths are whole numbers from 0 to {array.shape[1]}, got {quote_some(ends.tolist())}."
            )
        object.__setattr__(self, "values", array)
        object.__setattr__(self, "lengths", whole)

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
