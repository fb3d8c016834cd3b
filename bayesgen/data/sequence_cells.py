"""The time steps of sequences, whatever the form of the cells, and their codes; errors name row and time step."""

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NoReturn, TypeAlias

import numpy as np
import pandas as pd

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Bool, Category, Float, Int, Shaped

from .categories import MISSING, UNKNOWN, codes_among, distinct_values
from .columns import WHOLE_FLOATS, as_array, as_objects, own_type
from .sequences import PADDING, CodedSequences, Padded, SequenceCells, as_one_sequence


@dataclass(frozen=True, eq=False)
class SequenceSteps:
    """The time steps of n sequences, one sequence after another, whatever the form of the cells.

    Attributes:
        values: (N,), as the user writes them; characters where sequences are texts.
        lengths: of the sequences; 0 where they are missing.
        missing: mask of the sequences that are missing altogether.
        are_array_rows: whether the sequences were rows of an array, and not lists.
        are_codes: whether this was an array of `CodedSequences`.
        padding: row and time step of the first PADDING past an end, if there is any.
    """

    values: Shaped[np.ndarray, " N"]
    lengths: Int[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]
    are_array_rows: bool = False
    are_codes: bool = False
    padding: tuple[int, int] | None = None

    @property
    def are_numbers(self) -> bool:
        """Whether all observed time steps are numbers."""
        if self.values.dtype.kind != "O":
            return not len(self.values) or self.values.dtype.kind in "iufb"
        return all(isinstance(value, Real) for value in self.values[~pd.isna(self.values)].tolist())

    def place(self, index: int) -> str:
        """Row and time step of a value, in words."""
        ends = np.cumsum(self.lengths)
        row = int(np.searchsorted(ends, index, side="right"))
        return f"row {row}, step {index - int(ends[row] - self.lengths[row])}"


def steps_of(cells: SequenceCells, column: str, of_symbols: bool = True) -> SequenceSteps:
    """The time steps of the sequences of a column.

    Args:
        cells: (n,) texts, or objects that are texts, lists, tuples, arrays or missing; or a padded array (n, T), with
            lengths or without.
        column: its name, for messages.
        of_symbols: whether time steps are symbols, so that PADDING ends the rows of a padded array.

    Raises:
        DataError: cells that are not sequences, and PADDING between time steps, naming column and row.
    """
    lengths = cells.lengths if isinstance(cells, Padded) else None
    cells = cells.values if isinstance(cells, Padded) else cells
    if cells.ndim == 3 and cells.shape[2] == 1:  # as simulated steps of a block of one column are
        cells = cells[:, :, 0]
    if cells.ndim == 2:
        return _steps_of_array(cells, column, lengths, of_symbols)
    if cells.ndim > 2:
        raise DataError(
            f"Column {column!r} has the shape {cells.shape}: its steps are arrays. A column of sequences has one value "
            "a step: make each part of the steps a column of its own, and put these columns into one block."
        )
    if cells.dtype.kind == "U":
        return _steps_of_texts(cells.tolist(), np.zeros(len(cells), bool))
    if cells.dtype.kind not in "OT" and len(cells):
        _refuse_cell(column, cells[0].item(), 0)
    return _steps_of_objects(cells.astype(object), column)


def _steps_of_array(
    cells: Shaped[np.ndarray, "n T"], column: str, lengths: Int[np.ndarray, " n"] | None, of_symbols: bool
) -> SequenceSteps:
    """The time steps of an array, whose rows have lengths or, of symbols, end at PADDING; NaN is a missing step."""
    past, padding = np.zeros(cells.shape, bool), None
    if lengths is None:
        past = _is_padding(cells) if of_symbols else past
        steps = np.arange(1, cells.shape[1] + 1)
        lengths = np.where(past, 0, steps).max(1, initial=0)
    within = np.arange(cells.shape[1]) < lengths[:, None]
    between, ends = np.argwhere(past & within), np.argwhere(past & ~within)
    if len(between):
        row, step = between[0].tolist()
        raise DataError(
            f"Column {column!r} has {PADDING} at row {row}, step {step}, and steps after it: in a padded array it "
            f"stands past the ends of sequences alone. Where {PADDING} is a value, or lengths are known, give "
            "Padded(values, lengths); a missing step is NaN or None."
        )
    if len(ends):
        padding = (int(ends[0, 0]), int(ends[0, 1]))
    are_codes = isinstance(cells, CodedSequences)
    values, none_missing = np.asarray(cells)[within], np.zeros(len(cells), bool)
    return SequenceSteps(values, lengths, none_missing, are_array_rows=True, are_codes=are_codes, padding=padding)


def _is_padding(cells: Shaped[np.ndarray, "n T"]) -> Bool[np.ndarray, "n T"]:
    if cells.dtype.kind == "O":
        flat = (type(cell) is int and cell == PADDING for cell in cells.flat)
        return np.fromiter(flat, bool, cells.size).reshape(cells.shape)
    return cells == PADDING if cells.dtype.kind in "if" else np.zeros(cells.shape, bool)


def _steps_of_objects(cells: Shaped[np.ndarray, " n"], column: str) -> SequenceSteps:
    missing = np.asarray(pd.isna(cells), bool)
    present = cells[~missing].tolist()
    if all(type(cell) is str for cell in present):
        return _steps_of_texts(cells.tolist(), missing)
    rows = np.flatnonzero(~missing)
    sequences = [_as_sequence(cell, column, int(row)) for cell, row in zip(present, rows, strict=True)]
    lengths = np.zeros(len(cells), np.int64)
    lengths[rows] = [len(sequence) for sequence in sequences]
    return SequenceSteps(_chained(sequences, int(lengths.sum())), lengths, missing)


def _chained(sequences: list[Sequence[Category] | np.ndarray], size: int) -> Shaped[np.ndarray, " N"]:
    """The time steps of all sequences, of the common dtype of arrays, else objects."""
    arrays = [sequence for sequence in sequences if isinstance(sequence, np.ndarray)]
    if len(arrays) == len(sequences) and len({array.dtype for array in arrays}) == 1:
        return np.concatenate(arrays)
    lists = (own_type(sequence) if isinstance(sequence, np.ndarray) else sequence for sequence in sequences)
    return np.fromiter(itertools.chain.from_iterable(lists), object, size)


def _steps_of_texts(cells: list[str], missing: Bool[np.ndarray, " n"]) -> SequenceSteps:
    texts = ["" if absent else cell for cell, absent in zip(cells, missing, strict=True)] if missing.any() else cells
    joined = "".join(texts)
    if "\0" in joined:  # which NumPy's texts drop
        values = as_objects(joined)
    else:
        values = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<U1")
    return SequenceSteps(values, np.fromiter(map(len, texts), np.int64, len(texts)), missing)


def _as_sequence(cell: object, column: str, row: int) -> Sequence[Category] | np.ndarray:
    """A cell as a sequence. DataError where it is not one, or has arrays as time steps."""
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


def _refuse_cell(column: str, cell: object, row: int) -> NoReturn:
    raise DataError(
        f"Column {column!r} is of sequences, and has {cell!r} at row {row}. A cell has to be a text, a list, a tuple "
        "or a 1-D array of steps, or None where the sequence is missing. Correct it, or the kind that the column "
        f"is declared to have.{as_one_sequence(column, cell)}"
    )


def holds_codes(steps: SequenceSteps, symbols: Sequence[Hashable] | None) -> bool:
    """Whether time steps are codes 0, 1, ... and not symbols.

    `CodedSequences` are codes, and so is everything where no symbols are known. Else only numbers of a padded array are
    codes, if no symbol is a number: lists always hold symbols.
    """
    if symbols is None or steps.are_codes:
        return True
    return steps.are_array_rows and steps.are_numbers and not any(isinstance(symbol, Real) for symbol in symbols)


def step_codes(
    steps: SequenceSteps, what: str, symbols: Sequence[Hashable] | None, end: bool = False
) -> tuple[Int[np.ndarray, " N"], bool]:
    """The code of each time step, or MISSING or UNKNOWN, and whether the time steps were codes already.

    Args:
        steps: of sequences.
        what: their name, for messages.
        symbols: the alphabet; None where it is not known.
        end: whether codes may hold the end, one more symbol.

    Raises:
        DataError: PADDING in a padded array, where it is a symbol; time steps after an end.
    """
    if not holds_codes(steps, symbols):
        assert symbols is not None
        _check_padding(steps, what, symbols)
        codes = codes_among(steps.values, symbols, what, "", "", takes_missing=True, takes_unknown=True)
        return codes, False
    if not steps.are_numbers:
        raise DataError(
            f"{what} has symbols such as {quote_some(distinct_values(steps.values, what), 3)}, and its distribution "
            "was not told what its codes stand for. Give it symbols=..., or give codes 0, 1, 2 and so on."
        )
    numbers = _as_floats(steps)
    num_codes = WHOLE_FLOATS if symbols is None else len(symbols) + end
    are_codes = (numbers >= 0) & (numbers < num_codes) & (numbers == np.floor(numbers))
    codes = np.full(len(numbers), UNKNOWN, np.int64)
    codes[np.isnan(numbers)] = MISSING
    codes[are_codes] = numbers[are_codes]
    if end and symbols is not None:
        _check_ends(steps, codes, what, len(symbols))
    return codes, True


def refuse_unknown(
    steps: SequenceSteps,
    codes: Int[np.ndarray, " N"],
    what: str,
    symbols: Sequence[Hashable] | None,
    end: bool = False,
    remedy: str = "Correct it, or the symbols.",
) -> NoReturn:
    """DataError that names the first unknown symbol, and others."""
    wrong = np.flatnonzero(codes == UNKNOWN)
    place = steps.place(int(wrong[0]))
    if holds_codes(steps, symbols):
        if symbols is None:
            codes_are = "a code is 0, 1, 2 and so on"
        else:
            codes_are = f"the codes of {quote_some(symbols)}{' and the end' * end} are 0 to {len(symbols) - 1 + end}"
        raise DataError(
            f"{what} has {quote_some([steps.values[wrong[0]]])} at {place}, and {codes_are}. Correct it, or give texts "
            "or lists of symbols."
        )
    unknown = list(dict.fromkeys(steps.values[wrong].tolist()))
    hint = " Codes are given as an array of them, bayesgen.data.CodedSequences(array)." if steps.are_numbers else ""
    assert symbols is not None
    raise DataError(
        f"{what} has {quote_some(unknown, 5)} (first at {place}), which is unknown. Its symbols are "
        f"{quote_some(symbols)}. {remedy}{hint}"
    )


def _as_floats(steps: SequenceSteps) -> Float[np.ndarray, " N"]:
    """Numbers, NaN where they are missing; those beyond all floats are infinite."""
    if steps.values.dtype.kind != "O":
        return steps.values.astype(np.float64)
    return np.fromiter(map(_as_float, steps.values.tolist()), np.float64, len(steps.values))


def _as_float(value: object) -> float:
    try:
        return float(value) if isinstance(value, Real) else np.nan
    except OverflowError:
        return np.inf


def _check_padding(steps: SequenceSteps, what: str, symbols: Sequence[Hashable]) -> None:
    """DataError for a padded array with PADDING, where that is a symbol, too."""
    if steps.padding is None or PADDING not in symbols:
        return
    row, step = steps.padding
    raise DataError(
        f"{what} has {PADDING} at row {row}, step {step}, which in a padded array stands past the ends of sequences, "
        f"and {PADDING} is one of its symbols. Give lists of symbols, or Padded(values, lengths)."
    )


def _check_ends(steps: SequenceSteps, codes: Int[np.ndarray, " N"], what: str, end: int) -> None:
    """DataError for time steps after the end."""
    last = np.cumsum(steps.lengths) - 1
    inside: Bool[np.ndarray, " N"] = codes == end
    inside[last[steps.lengths > 0]] = False
    if inside.any():
        place = steps.place(int(np.argmax(inside)))
        raise DataError(
            f"{what} has {end}, the code of the end, at {place}, and steps after it. Nothing follows the end but "
            f"{PADDING}."
        )


Padding: TypeAlias = tuple[Shaped[np.ndarray, "n T"], Bool[np.ndarray, "n T"]]


def padded_symbols(
    codes: Int[np.ndarray, " N"],
    lengths: Int[np.ndarray, " n"],
    missing: Bool[np.ndarray, " n"],
    end: int | None = None,
) -> Padding:
    """Codes (n, T), PADDING past the end, with a mask of the observed time steps: past the end all are.

    A missing sequence of unknown length is PADDING that is not observed.

    Args:
        codes: of the time steps of all sequences, MISSING or UNKNOWN where they have none.
        lengths: of the rows.
        missing: mask of the rows without a sequence, which have none of the codes.
        end: the code that follows each sequence, or None.
    """
    more = int(end is not None)
    within = np.arange(max(int(lengths.max(initial=0)) + more, 1)) < lengths[:, None]
    padded: Int[np.ndarray, "n T"] = np.full(within.shape, PADDING, np.int64)
    padded[within & ~missing[:, None]] = codes
    if end is not None:
        padded[np.arange(len(lengths)), lengths] = end
    observed = padded >= 0
    observed[np.arange(within.shape[1]) >= lengths[:, None] + more] = True
    padded[~observed] = 0
    if missing.any():
        padded[missing], observed[missing] = np.where(lengths[missing, None] > 0, 0, PADDING), False
    return padded, observed
