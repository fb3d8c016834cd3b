"""The steps of a column of sequences, one sequence after another, whatever the form of its cells."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Bool, Int, Shaped

from .categories import UNKNOWN, factorize
from .columns import as_array
from .levels import own_type
from .sequences import PADDING, Cells, CodedSequences, Padded, as_one_sequence

MISSING = -1  # among codes of steps


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of n sequences, one sequence after another.

    Attributes:
        values: (N,), as the user writes them; of texts the code points of their characters.
        lengths: how many steps each sequence has; 0 where it is missing.
        missing: which sequences are missing altogether.
        of_text: whether the values are code points.
        of_array: whether they are of an array with the rows of all, and not of lists.
        are_codes: whether that array says that it holds codes.
        padding: row and step of the first PADDING that the array has past an end, if it has any.
    """

    values: Shaped[np.ndarray, " N"]
    lengths: Int[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]
    of_text: bool = False
    of_array: bool = False
    are_codes: bool = False
    padding: tuple[int, int] | None = None

    @property
    def are_numbers(self) -> bool:
        """Whether all steps that are there are numbers."""
        if self.of_text or self.values.dtype.kind != "O":
            return not len(self.values) or (not self.of_text and self.values.dtype.kind in "iufb")
        import pandas as pd

        return all(isinstance(value, Real) for value in self.values[~pd.isna(self.values)].tolist())

    def place(self, index: int) -> str:
        """Where a step is, in words."""
        row, step = self.row_and_step(index)
        return f"row {row}, step {step}"

    def row_and_step(self, index: int) -> tuple[int, int]:
        """The sequence that a step is of, and its number there."""
        ends = np.cumsum(self.lengths)
        row = int(np.searchsorted(ends, index, side="right"))
        return row, index - int(ends[row] - self.lengths[row])

    def distinct(self, what: str) -> list[Any]:
        """The distinct values that are there, of their own type, in no order."""
        if self.of_text:
            return [chr(point) for point in np.flatnonzero(np.bincount(self.values)).tolist()]
        return factorize(self.values, what)[1] if len(self.values) else []

    def codes(self, levels: Sequence[Any], what: str) -> Int[np.ndarray, " N"]:
        """The place of each value among levels; MISSING where a step is missing, UNKNOWN where it is none of them."""
        if self.of_text:
            lookup = np.full(int(self.values.max(initial=0)) + 1, UNKNOWN, np.int64)
            for code, level in enumerate(levels):
                if isinstance(level, str) and len(level) == 1 and ord(level) < len(lookup):
                    lookup[ord(level)] = code
            return lookup[self.values]
        if not len(self.values):
            return np.empty(0, np.int64)
        codes, distinct = factorize(self.values, what)
        place = {level: code for code, level in enumerate(levels)}
        # the last entry answers for code -1
        return np.array([*(place.get(value, UNKNOWN) for value in distinct), MISSING], np.int64)[codes]


def steps_of(cells: Cells, column: str, of_symbols: bool = True) -> Steps:
    """The steps of the sequences of a column.

    Args:
        cells: (n,) texts, or objects that are texts, lists, tuples, arrays or missing; or a padded array (n, T), with
            lengths or without.
        column: its name, for messages.
        of_symbols: whether PADDING ends the rows of a padded array, as it does where it is no number.

    Raises:
        DataError: cells that are no sequences, and PADDING between steps, naming column and row.
    """
    if isinstance(cells, Padded):
        return _of_padded(cells, column)
    if cells.ndim == 3 and cells.shape[2] == 1:  # as simulated steps of a block of one column are
        cells = cells[:, :, 0]
    if cells.ndim == 2:
        return _of_rectangle(cells, column, of_symbols)
    if cells.ndim > 2:
        raise DataError(
            f"Column {column!r} has the shape {cells.shape}: its steps are arrays. A column of sequences has one value "
            "a step: make each part of the steps a column of its own, and put these columns into one block."
        )
    if cells.dtype.kind == "U":
        return _of_texts(cells.tolist(), np.zeros(len(cells), bool))
    if cells.dtype.kind not in "OT" and len(cells):
        _refuse_cell(column, cells[0].item(), 0)
    return _of_objects(cells.astype(object), column)


def _of_padded(cells: Padded, column: str) -> Steps:
    """The steps of an array up to the lengths of its rows, whatever they are."""
    whole = steps_of(cells.values, column, of_symbols=False)
    within = np.arange(cells.values.shape[1]) < cells.lengths[:, None]
    return replace(whole, values=whole.values[within.ravel()], lengths=cells.lengths)


def _of_rectangle(cells: Shaped[np.ndarray, "n T"], column: str, of_symbols: bool) -> Steps:
    """The steps of an array whose rows are padded by PADDING, where they are of symbols; NaN is a missing step."""
    none_missing = np.zeros(len(cells), bool)
    past = _is_padding(cells) if of_symbols else np.zeros(cells.shape, bool)
    lengths = (~past).cumsum(1).argmax(1) + (~past).any(1) if cells.size else np.zeros(len(cells), np.int64)
    within = np.arange(cells.shape[1]) < lengths[:, None]
    between = past & within
    if between.any():
        row, step = (int(place) for place in np.argwhere(between)[0])
        raise DataError(
            f"Column {column!r} has {PADDING} at row {row}, step {step}, and steps after it: in a padded array it "
            f"stands past the ends of sequences alone. Where {PADDING} is a value, or lengths are known, give "
            "Padded(values, lengths); a missing step is NaN or None."
        )
    ends = np.argwhere(~within & past)
    padding = (int(ends[0, 0]), int(ends[0, 1])) if len(ends) else None
    values = np.asarray(cells)[within]
    are_codes = isinstance(cells, CodedSequences)
    return Steps(values, lengths.astype(np.int64), none_missing, of_array=True, are_codes=are_codes, padding=padding)


def _is_padding(cells: Shaped[np.ndarray, "n T"]) -> Bool[np.ndarray, "n T"]:
    if cells.dtype.kind == "O":
        flat = (type(cell) is int and cell == PADDING for cell in cells.flat)
        return np.fromiter(flat, bool, cells.size).reshape(cells.shape)
    return cells == PADDING if cells.dtype.kind in "if" else np.zeros(cells.shape, bool)


def _of_objects(cells: Shaped[np.ndarray, " n"], column: str) -> Steps:
    import pandas as pd

    missing = np.asarray(pd.isna(cells), bool)
    present = cells[~missing].tolist()
    if all(type(cell) is str for cell in present):
        return _of_texts(cells.tolist(), missing)
    rows = np.flatnonzero(~missing)
    sequences = [_as_sequence(cell, column, int(row)) for cell, row in zip(present, rows, strict=True)]
    lengths = np.zeros(len(cells), np.int64)
    lengths[rows] = [len(sequence) for sequence in sequences]
    return Steps(_chained(sequences, int(lengths.sum())), lengths, missing)


def _chained(sequences: list[Any], size: int) -> Shaped[np.ndarray, " N"]:
    """The steps of all sequences, of one dtype where they are of arrays that have it, else objects."""
    dtypes = {sequence.dtype if isinstance(sequence, np.ndarray) else None for sequence in sequences}
    if len(dtypes) == 1 and None not in dtypes:
        return np.concatenate(sequences)
    lists = (own_type(sequence) if isinstance(sequence, np.ndarray) else sequence for sequence in sequences)
    return np.fromiter(itertools.chain.from_iterable(lists), object, size)


def _of_texts(cells: list[Any], missing: Bool[np.ndarray, " n"]) -> Steps:
    texts = ["" if absent else cell for cell, absent in zip(cells, missing, strict=True)] if missing.any() else cells
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return Steps(points, np.fromiter(map(len, texts), np.int64, len(texts)), missing, of_text=True)


def _as_sequence(cell: Any, column: str, row: int) -> Sequence[Any] | np.ndarray:
    """A cell as what has steps. DataError where it is none, or has steps that are arrays."""
    if isinstance(cell, Sequence):
        return cell
    if not hasattr(cell, "__array__") or np.ndim(cell) == 0:
        _refuse_cell(column, cell, row)
    steps = as_array(cell, f"Column {column!r}, row {row}")
    if steps.ndim != 1:
        raise DataError(
            f"Column {column!r} has an array of shape {steps.shape} at row {row}. A sequence has one value a step: "
            "make each part of the steps a column of its own, and put these columns into one block."
        )
    return steps


def _refuse_cell(column: str, cell: Any, row: int) -> NoReturn:
    raise DataError(
        f"Column {column!r} is of sequences, and has {cell!r} at row {row}. A cell has to be a text, a list, a tuple "
        "or a 1-D array of steps, or None where the sequence is missing. Correct it, or the kind that the column "
        f"is declared to have.{as_one_sequence(column, cell)}"
    )
