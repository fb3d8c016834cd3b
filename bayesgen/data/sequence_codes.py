"""The one rule by which steps of sequences are symbols or codes: whatever reads sequences asks it."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import NoReturn

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Bool, Float, Int

from .categories import UNKNOWN
from .columns import WHOLE_FLOATS
from .sequences import PADDING
from .steps import MISSING, Steps


def holds_codes(steps: Steps, symbols: Sequence[Hashable] | None) -> bool:
    """Whether steps are codes 0, 1, ... and not symbols.

    They are where they say so (`CodedSequences`), and where no symbols are known. Else only numbers of a padded array
    can be codes, and are where no symbol is a number: lists always hold symbols.
    """
    if symbols is None or steps.are_codes:
        return True
    return steps.of_array and steps.are_numbers and not any(isinstance(symbol, Real) for symbol in symbols)


def step_codes(
    steps: Steps, what: str, symbols: Sequence[Hashable] | None, end: bool = False
) -> tuple[Int[np.ndarray, " N"], bool]:
    """The code of each step, MISSING or UNKNOWN where it has none, and whether the steps were codes already.

    Args:
        steps: of sequences.
        what: what messages call them.
        symbols: the alphabet, None where nothing names it.
        end: whether codes may hold the end, one more symbol.

    Raises:
        DataError: PADDING in a padded array, where it is a symbol; an end that steps follow.
    """
    if not holds_codes(steps, symbols):
        assert symbols is not None
        _check_padding(steps, what, symbols)
        return steps.codes(symbols, what), False
    if not steps.are_numbers:
        raise DataError(
            f"{what} has symbols such as {quote_some(steps.distinct(what), 3)}, and its distribution was not told what "
            "its codes stand for. Give it symbols=..., or give codes 0, 1, 2 and so on."
        )
    numbers = _as_floats(steps)
    num_codes = WHOLE_FLOATS if symbols is None else len(symbols) + end
    known = (numbers >= 0) & (numbers < num_codes) & (numbers == np.floor(numbers))
    codes = np.full(len(numbers), UNKNOWN, np.int64)
    codes[np.isnan(numbers)] = MISSING
    codes[known] = numbers[known]
    if end and symbols is not None:
        _check_ends(steps, codes, what, len(symbols))
    return codes, True


def refuse_unknown(
    steps: Steps,
    codes: Int[np.ndarray, " N"],
    what: str,
    symbols: Sequence[Hashable] | None,
    end: bool = False,
    remedy: str = "Correct it, or the symbols.",
) -> NoReturn:
    """DataError that names the first step without a code, and what else is unknown."""
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
    distinct = list(dict.fromkeys(steps.values[wrong].tolist()))
    unknown = [chr(point) for point in distinct] if steps.of_text else distinct
    hint = " Codes are given as an array of them, bayesgen.data.CodedSequences(array)." if steps.are_numbers else ""
    assert symbols is not None
    raise DataError(
        f"{what} has {quote_some(unknown, 5)} (first at {place}), which is unknown. Its symbols are "
        f"{quote_some(symbols)}. {remedy}{hint}"
    )


def _as_floats(steps: Steps) -> Float[np.ndarray, " N"]:
    """Numbers, NaN where they are missing; those beyond all floats are infinite."""
    if steps.values.dtype.kind != "O":
        return steps.values.astype(np.float64)
    return np.fromiter(map(_as_float, steps.values.tolist()), np.float64, len(steps.values))


def _as_float(value: object) -> float:
    try:
        return float(value) if isinstance(value, Real) else np.nan
    except OverflowError:
        return np.inf


def _check_padding(steps: Steps, what: str, symbols: Sequence[Hashable]) -> None:
    """DataError for a padded array with PADDING, where that is a symbol as well."""
    if steps.padding is None or PADDING not in symbols:
        return
    row, step = steps.padding
    raise DataError(
        f"{what} has {PADDING} at row {row}, step {step}, which in a padded array stands past the ends of sequences, "
        f"and {PADDING} is one of its symbols. Give lists of symbols, or Padded(values, lengths)."
    )


def _check_ends(steps: Steps, codes: Int[np.ndarray, " N"], what: str, end: int) -> None:
    """DataError for steps that follow the end."""
    last = np.cumsum(steps.lengths) - 1
    inside: Bool[np.ndarray, " N"] = codes == end
    inside[last[steps.lengths > 0]] = False
    if inside.any():
        place = steps.place(int(np.argmax(inside)))
        raise DataError(
            f"{what} has {end}, the code of the end, at {place}, and steps after it. Nothing follows the end but "
            f"{PADDING}."
        )
