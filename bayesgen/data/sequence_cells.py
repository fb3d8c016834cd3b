"""Columns of sequences to the padded arrays that a model sees, or an error that names column, row and step."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Bool, Int, Shaped

from .categories import UNKNOWN
from .encoding import Encoded, Wording, encode_numbers
from .levels import sorted_levels
from .sequence_codes import refuse_unknown, step_codes
from .sequences import PADDING, Cells, SequenceOf
from .steps import Steps, steps_of

Padding: TypeAlias = tuple[Shaped[np.ndarray, "n T"], Bool[np.ndarray, "n T"]]


def inferred_symbols(column: str, cells: Cells) -> tuple[Any, ...]:
    """The alphabet of a column of sequences: the symbols seen, sorted. DataError where there are none, or codes."""
    what = f"Column {column!r}"
    steps = steps_of(cells, column)
    if steps.are_codes:
        raise DataError(
            f"{what} has the codes of simulated sequences, which do not tell their alphabet. Declare it, "
            f"Schema(categories={{{column!r}: [...]}}), or give symbols, fit.schema.decode({column!r}, codes)."
        )
    distinct = steps.distinct(what)
    if not distinct:
        raise DataError(
            f"{what} has no symbol: every sequence is empty or missing. Drop it, or declare its alphabet, "
            f"Schema(categories={{{column!r}: [...]}})."
        )
    return sorted_levels(distinct, what)


def num_unknown_symbols(column: str, cells: Cells, kind: SequenceOf, symbols: Sequence[Any]) -> int:
    """How many steps are symbols that the alphabet lacks."""
    codes, _ = step_codes(steps_of(cells, column), f"Column {column!r}", symbols, kind.end)
    return int(np.count_nonzero(codes == UNKNOWN))


def encode_sequences(
    cells: Mapping[str, Cells],
    kinds: Mapping[str, SequenceOf],
    alphabets: Mapping[str, Sequence[Any]],
    *,
    takes_unknown: bool = False,
) -> Encoded:
    """The steps of columns of sequences in arrays of one length T, and which of them are there: None where all are.

    Of one column of symbols codes (n, T), PADDING past the end; of several, whose steps go together, (n, T, D); of
    columns of numbers (n, T, D), 0.0 past the end, where nothing is observed. T is the longest of these rows, at least
    1. Where the end is a symbol, its code follows each sequence. Missing steps are 0, and not observed; of symbols, a
    sequence that is missing altogether is PADDING, and not observed.

    Args:
        cells: column -> its raw cells.
        kinds: column -> its kind; all have symbols, or all numbers.
        alphabets: column -> its symbols, for columns of symbols.
        takes_unknown: whether unknown symbols are missing steps.

    Raises:
        DataError: cells that are no sequences, unknown symbols, what is no number; columns whose sequences differ in
            length; naming column, row and step.
    """
    if len({(kind.of_symbols, kind.end) for kind in kinds.values()}) != 1:
        raise DataError(f"Sequences whose steps go together are of one kind, and these are {dict(kinds)}.")
    of_symbols = next(iter(kinds.values())).of_symbols
    steps = {column: steps_of(values, column, of_symbols) for column, values in cells.items()}
    lengths = _common_lengths(steps)
    arrays, masks = [], []
    for column, of_column in steps.items():
        if of_symbols:
            array, mask = _symbols(of_column, column, kinds[column], alphabets[column], lengths, takes_unknown)
        else:
            array, mask = _numbers(of_column, column, kinds[column], lengths, takes_unknown)
        arrays.append(array)
        masks.append(mask)
    single = of_symbols and len(arrays) == 1
    values = arrays[0] if single else np.stack(arrays, axis=-1)
    observed = masks[0] if single else np.stack(masks, axis=-1)
    return values, None if observed.all() else observed


def padded_symbols(
    codes: Int[np.ndarray, " N"],
    lengths: Int[np.ndarray, " n"],
    missing: Bool[np.ndarray, " n"],
    end: int | None = None,
) -> Padding:
    """Codes (n, T), PADDING past the end, and which steps are there: past the end all are.

    A row that has no sequence, and whose length is not known either, is PADDING that is not there.

    Args:
        codes: of the steps of all sequences, MISSING or UNKNOWN where there is none.
        lengths: how many steps each row has.
        missing: which rows have no sequence, and so none of the codes.
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


def sequence_lengths(cells: Mapping[str, Cells], of_symbols: bool) -> Int[np.ndarray, " n"]:
    """How many steps each sequence has, of columns whose steps go together; 0 where a sequence is missing altogether.

    A row of an array of numbers has all its steps, as no number says where it ends.

    >>> sequence_lengths({"word": np.array(["abc", "", "ab"])}, of_symbols=True).tolist()
    [3, 0, 2]
    """
    return _common_lengths({column: steps_of(values, column, of_symbols) for column, values in cells.items()})


def _common_lengths(steps: Mapping[str, Steps]) -> Int[np.ndarray, " n"]:
    """The length of each row, that of the columns in which it is there. DataError where they differ."""
    lengths = np.max([of_column.lengths for of_column in steps.values()], axis=0)
    for column, of_column in steps.items():
        wrong = (of_column.lengths != lengths) & ~of_column.missing
        if wrong.any():
            row = int(np.argmax(wrong))
            longest = next(name for name, other in steps.items() if other.lengths[row] == lengths[row])
            raise DataError(
                f"Column {column!r} has {of_column.lengths[row]} steps at row {row}, and column {longest!r} has "
                f"{lengths[row]}: the steps of the columns of one block go together. Mark steps that are not known by "
                "None or NaN, or put the columns into different blocks."
            )
    return lengths


def _symbols(
    steps: Steps,
    column: str,
    kind: SequenceOf,
    symbols: Sequence[Any],
    lengths: Int[np.ndarray, " n"],
    takes_unknown: bool,
) -> Padding:
    """Codes (n, T) and which steps are there; past the end all are."""
    codes, are_codes = step_codes(steps, f"Column {column!r}", symbols, kind.end)
    if not takes_unknown and (codes == UNKNOWN).any():
        remedy = (
            f"Correct it, declare every symbol, Schema(categories={{{column!r}: [...]}}), or take such steps as "
            "missing, Schema(unknown='missing')."
        )
        refuse_unknown(steps, codes, f"Column {column!r}", symbols, kind.end, remedy)
    return padded_symbols(codes, lengths, steps.missing, len(symbols) if kind.end and not are_codes else None)


def _numbers(
    steps: Steps, column: str, kind: SequenceOf, lengths: Int[np.ndarray, " n"], takes_unknown: bool
) -> Padding:
    """Numbers (n, T), and which steps are there; past the end none is."""
    if steps.of_text and len(steps.values):
        raise DataError(
            f"Column {column!r} is of sequences of {kind.steps} steps, and has a text at {steps.place(0)}. Give lists "
            f"of numbers, or declare symbols, Schema(kinds={{{column!r}: 'sequence'}})."
        )
    values = steps.values if len(steps.values) else np.empty(0)
    numbers, observed = encode_numbers(
        values[:, None], [column], kind.steps, takes_unknown=takes_unknown, wording=Wording(steps.place, _as_steps)
    )
    within = np.arange(max(int(lengths.max(initial=0)), 1)) < lengths[:, None]
    there = within & ~steps.missing[:, None]
    padded = np.zeros(within.shape)
    mask = np.zeros(within.shape, bool)
    mask[there] = True if observed is None else observed[:, 0]
    padded[there] = np.where(mask[there], np.asarray(numbers)[:, 0], 0.0)
    return padded, mask


def _as_steps(kind: str) -> str:
    return repr(SequenceOf(kind))
