"""`SequenceOf`: the kind of columns of sequences, encoded as padded arrays; errors name column, row and time step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError, check_flag
from bayesgen.typing import Bool, Category, Int, Num, Shaped

from .categories import UNKNOWN, distinct_values, whole_codes
from .columns import sorted_categories
from .kinds import Columns, Decoded, Encoded, Kind, as_kind
from .number_kinds import Wording, encode_numbers
from .sequence_cells import SequenceSteps, padded_symbols, refuse_unknown, step_codes, steps_of
from .sequences import PADDING, SequenceCells
from .views import Table

SEQUENCE = "sequence"
KINDS_OF_STEPS = ("categorical", "real", "count", "binary")


@final
@dataclass(frozen=True)
class SequenceOf(Kind):
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

    name = SEQUENCE
    has_steps = True
    noun_for_values = ("symbols", "declare Schema(categories=...)")

    steps: str = "categorical"
    end: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.steps, str) or self.steps not in KINDS_OF_STEPS:
            raise DataError(f"SequenceOf: steps must be one of {quote_some(KINDS_OF_STEPS)}, got {self.steps!r}.")
        check_flag("SequenceOf: end", self.end, DataError)
        if self.end and not self.of_symbols:
            raise DataError(
                f"SequenceOf: end=True is one more symbol, and the steps are {self.steps}. Leave it out: sequences of "
                "numbers are modelled given their lengths."
            )

    @property
    def of_symbols(self) -> bool:
        """Whether the time steps are symbols, and not numbers."""
        return self.steps == "categorical"

    @property
    def has_categories(self) -> bool:
        return self.of_symbols

    def is_modelled_by(self, kind: Kind) -> bool:
        """Whether these are sequences of the same time steps, with an end or without."""
        return self == kind

    def infer_categories(self, column: str, table: Table, table_name: str) -> Sequence[Category]:
        """The symbols, sorted. DataError where there are none, or codes."""
        steps = steps_of(table.sequences(table_name), column)
        if steps.are_codes:
            raise DataError(
                f"Column {column!r} has the codes of simulated sequences, which do not tell their alphabet. Declare "
                f"it, Schema(categories={{{column!r}: [...]}}), or give symbols, fit.schema.decode({column!r}, codes)."
            )
        distinct = distinct_values(steps.values, f"Column {column!r}")
        if not distinct:
            raise DataError(
                f"Column {column!r} has no symbol: every sequence is empty or missing. Drop it, or declare its "
                f"alphabet, Schema(categories={{{column!r}: [...]}})."
            )
        return sorted_categories(distinct, f"Column {column!r}")

    def num_values(self, num_categories: int) -> int | None:
        """The number of symbols, and the end."""
        return num_categories + self.end if self.of_symbols else None

    def encode(self, columns: Columns) -> Encoded:
        """The time steps of columns of sequences in arrays of one length T.

        One column of symbols has codes (n, T), PADDING past the end; several, which run in parallel, (n, T, D); columns
        of numbers (n, T, D), 0.0 and not observed past the end. T is the longest of these rows, at least 1. Where the
        end is a symbol, its code follows each sequence. Missing time steps are 0, and not observed; a missing sequence
        of symbols is PADDING, and not observed.

        Raises:
            DataError: cells that are not sequences, unknown symbols, cells that are not numbers; columns whose
                sequences differ in length; naming column, row and time step.
        """
        kinds = {column: kind for column in columns.names if isinstance(kind := columns.kinds[column], SequenceOf)}
        if len({(kind.of_symbols, kind.end) for kind in kinds.values()}) != 1:
            raise DataError(f"Sequences whose steps go together are of one kind, and these are {kinds}.")
        names = zip(columns.names, columns.table_names, strict=True)
        steps = {c: steps_of(columns.table.sequences(name), c, self.of_symbols) for c, name in names}
        lengths = _common_lengths(steps)
        unknown: dict[str, int] = {}
        arrays, masks = [], []
        for column, cells in steps.items():
            if self.of_symbols:
                array, mask, number = _symbols(cells, column, kinds[column], columns, lengths)
            else:
                array, mask, number = _numbers(cells, column, kinds[column], lengths, columns.takes_unknown)
            arrays.append(array)
            masks.append(mask)
            unknown |= {column: number} if number else {}
        single = self.of_symbols and len(arrays) == 1
        values = arrays[0] if single else np.stack(arrays, axis=-1)
        observed = masks[0] if single else np.stack(masks, axis=-1)
        return Encoded(values, None if observed.all() else observed, unknown)

    def decode(self, column: str, categories: Sequence[Category], values: Num[np.ndarray, "n T"]) -> Decoded:
        """The time steps of each row up to its end, or the last observed one: texts, lists of symbols, or arrays.

        Raises:
            DataError: invalid codes, and rows without an end where sequences have one; naming the row.
        """
        if not self.of_symbols:
            last = [np.flatnonzero(~np.isnan(row)) for row in values]
            return [row[: place[-1] + 1 if len(place) else 0] for row, place in zip(values, last, strict=True)]
        end = len(categories)
        codes = whole_codes(column, values, PADDING, end - 1 + self.end)
        is_cut = ~(codes == end).any(1)
        if self.end and is_cut.any():
            raise DataError(
                f"Column {column!r}: row {int(np.argmax(is_cut))} has no end, {end}: the beginning of a sequence, cut "
                "where it was too long, and would be read as a whole one. Simulate with a larger max_length of the "
                f"family, or decode the rows that end alone, codes[(codes == {end}).any(1)]."
            )
        is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in categories)
        steps = [[categories[code] for code in row if PADDING < code < end] for row in codes.tolist()]
        return ["".join(row) for row in steps] if is_text else steps


def sequence_lengths(cells: Mapping[str, SequenceCells], of_symbols: bool) -> Int[np.ndarray, " n"]:
    """The length of each sequence of parallel columns; 0 where a sequence is missing altogether.

    Rows of an array of numbers have its full length, because no number marks an end.

    >>> sequence_lengths({"word": np.array(["abc", "", "ab"])}, of_symbols=True).tolist()
    [3, 0, 2]
    """
    return _common_lengths({column: steps_of(values, column, of_symbols) for column, values in cells.items()})


def _common_lengths(steps: Mapping[str, SequenceSteps]) -> Int[np.ndarray, " n"]:
    """The length of each row in the columns that observe it. DataError where these differ."""
    lengths = np.max([cells.lengths for cells in steps.values()], axis=0)
    for column, cells in steps.items():
        wrong = (cells.lengths != lengths) & ~cells.missing
        if wrong.any():
            row = int(np.argmax(wrong))
            longest = next(name for name, other in steps.items() if other.lengths[row] == lengths[row])
            raise DataError(
                f"Column {column!r} has {cells.lengths[row]} steps at row {row}, and column {longest!r} has "
                f"{lengths[row]}: the steps of the columns of one block go together. Mark steps that are not known by "
                "None or NaN, or put the columns into different blocks."
            )
    return lengths


def _symbols(
    steps: SequenceSteps, column: str, kind: SequenceOf, columns: Columns, lengths: Int[np.ndarray, " n"]
) -> tuple[Shaped[np.ndarray, "n T"], Bool[np.ndarray, "n T"], int]:
    """Codes (n, T), a mask of the observed time steps (past the end all are), and the number of unknown symbols."""
    symbols = columns.categories[column]
    codes, are_codes = step_codes(steps, f"Column {column!r}", symbols, kind.end)
    num_unknown = int(np.count_nonzero(codes == UNKNOWN))
    if num_unknown and not columns.takes_unknown:
        remedy = (
            f"Correct it, declare every symbol, Schema(categories={{{column!r}: [...]}}), or take such steps as "
            "missing, Schema(unknown='missing')."
        )
        refuse_unknown(steps, codes, f"Column {column!r}", symbols, kind.end, remedy)
    end = len(symbols) if kind.end and not are_codes else None
    return *padded_symbols(codes, lengths, steps.missing, end), num_unknown


def _numbers(
    steps: SequenceSteps, column: str, kind: SequenceOf, lengths: Int[np.ndarray, " n"], takes_unknown: bool
) -> tuple[Shaped[np.ndarray, "n T"], Bool[np.ndarray, "n T"], int]:
    """Numbers (n, T), a mask of the observed time steps (past the end none is), and the number of unknown ones."""
    if steps.values.dtype.kind == "U" and len(steps.values):
        raise DataError(
            f"Column {column!r} is of sequences of {kind.steps} steps, and has a text at {steps.place(0)}. Give lists "
            f"of numbers, or declare symbols, Schema(kinds={{{column!r}: 'sequence'}})."
        )
    values = steps.values if len(steps.values) else np.empty(0)
    wording, kind_of_steps = Wording(steps.place, lambda kind: repr(SequenceOf(kind))), as_kind(kind.steps, column)
    numbers, observed, unknown = encode_numbers(
        values[:, None], [column], kind_of_steps, takes_unknown=takes_unknown, wording=wording
    )
    within = np.arange(max(int(lengths.max(initial=0)), 1)) < lengths[:, None]
    is_given = within & ~steps.missing[:, None]
    padded = np.zeros(within.shape)
    mask = np.zeros(within.shape, bool)
    mask[is_given] = True if observed is None else observed[:, 0]
    padded[is_given] = np.where(mask[is_given], np.asarray(numbers)[:, 0], 0.0)
    return padded, mask, sum(unknown.values())
