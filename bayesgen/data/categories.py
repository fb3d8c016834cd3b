"""Labels and categories: their levels, and codes among them, or an error that names the culprit and the remedy."""

from collections import Counter
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.runtime import checked_chunks

from .columns import as_array, as_series

_BLOCK_ROWS = 1 << 20
_MISSING, _UNKNOWN = -1, -2
_LOOKUP_SIZE = 1 << 16
_SIDE_BY_SIDE = 64
_WHOLE_FLOATS = 2.0**53  # up to here every integer is a float


def factorize(values: np.ndarray, what: str) -> tuple[np.ndarray, list[Any]]:
    """Codes (n,), -1 where missing, and the distinct values in order of appearance, of their own type."""
    import pandas as pd

    if values.dtype.kind == "T":
        values = values.astype(object)
    text = values.dtype.kind == "U"
    hashed = _hash_text(values) if text else values
    try:
        codes, distinct = pd.factorize(hashed)
    except TypeError as error:
        raise DataError(f"{what} holds values that cannot be told apart by hashing: {error}.") from error
    if text:
        first_rows = np.empty(len(distinct), np.int64)
        first_rows[codes[::-1]] = np.arange(len(codes))[::-1]
        distinct = values[first_rows]
        if not np.array_equal(distinct[codes], values):  # two texts of one hash: a rare thing, so slow is fine
            codes, distinct = pd.factorize(values.astype(object))
    return np.asarray(codes, np.int64), _own_type(distinct)


def distinct_values(values: np.ndarray, what: str) -> tuple[list[Any], bool]:
    """The distinct values in order of appearance, and whether any is missing; without a code for every row."""
    found: dict[Any, None] = {}
    missing = False
    for start in range(0, len(values), _BLOCK_ROWS):
        codes, distinct = factorize(values[start : start + _BLOCK_ROWS], what)
        found |= dict.fromkeys(distinct)
        missing = missing or bool((codes == _MISSING).any())
    return list(found), missing


def sorted_levels(distinct: Sequence[Any], what: str) -> tuple[Any, ...]:
    """Distinct values, sorted. DataError where they are of types that have no common order."""
    types = {_family_of_type(value) for value in distinct}
    try:
        if len(types) > 1:
            raise TypeError
        return tuple(sorted(distinct))
    except TypeError:
        examples = {type(value): value for value in reversed(distinct)}
        shown = ", ".join(f"{quote_some([value])} ({kind.__name__})" for kind, value in examples.items())
        raise DataError(f"{what} has values with no common order: {shown}. Make them one type.") from None


def declared_levels(values: Any, what: str) -> tuple[Any, ...]:
    """Declared categories or classes. DataError: text, empty, repeated, missing or unhashable values."""
    if isinstance(values, str | bytes):
        raise DataError(f"The {what} are the text {values!r}. Give a list of values.")
    levels = tuple(_own_type(values) if isinstance(values, np.ndarray) else values)
    if not levels:
        raise DataError(f"The {what} are empty. List every value, or leave them out to have them inferred.")
    if any(_is_missing(level) for level in levels):
        raise DataError(f"The {what} contain a missing value: {quote_some(levels)}. Leave it out.")
    try:
        repeated = [level for level, count in Counter(levels).items() if count > 1]
    except TypeError as error:
        raise DataError(f"The {what} hold something that is no plain value: {error}.") from error
    if repeated:
        raise DataError(f"The {what} name {quote_some(repeated)} more than once. Name each once.")
    return levels


def as_level(value: Any, what: str) -> Any:
    """A value as a level of its own type. DataError where it is missing or unhashable."""
    own = _own_type(np.asarray([value]))[0] if isinstance(value, np.generic) else value
    return declared_levels([own], what)[0]


def with_level(levels: Sequence[Any], level: Any, what: str) -> tuple[Any, ...]:
    """Levels and one more: at its place where they are sorted, else at the end. DataError: sorted ones unlike it."""
    more = (*levels, level)
    return sorted_levels(more, what) if _are_sorted(levels) else more


def _are_sorted(levels: Sequence[Any]) -> bool:
    if len({_family_of_type(level) for level in levels}) > 1:
        return False
    try:
        return list(levels) == sorted(levels)
    except TypeError:  # of one type, which has no order
        return False


def dtype_levels(values: Any) -> tuple[Any, ...] | None:
    """The values that a dtype declares, in order: those of a pandas Categorical or a polars Enum. None for others.

    The categories of a polars Categorical or an Arrow dictionary are no declaration: they are what happened to be
    stored, in an order of no meaning.
    """
    import pandas as pd

    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        return tuple(_own_type(dtype.categories.to_numpy())) or None
    series = as_series(values)
    return None if series is None else tuple(getattr(series.dtype, "categories", ())) or None


def levels_array(levels: Sequence[Any]) -> np.ndarray:
    """Levels as an array (K,) of their own type; of objects where NumPy would change one, as it does with tuples."""
    try:
        array = np.asarray(levels)
    except ValueError:  # tuples of unequal lengths
        array = np.empty((0, 0))
    values = array.tolist() if array.dtype.kind == "f" else array  # Python compares integers with floats exactly
    if array.ndim == 1 and all(value == level for value, level in zip(values, levels, strict=True)):
        return array
    return np.fromiter(levels, object, len(levels))


def check_num_classes(classes: Sequence[Any] | None) -> None:
    """DataError where there are fewer than two classes."""
    if classes is not None and len(classes) < 2:
        raise DataError(
            f"There is only one class, {quote_some(classes)}, and a classifier needs two or more. If others "
            f"exist without rows here, declare them: Schema(classes=[...])."
        )


def inferred_classes(y: Any, labels: np.ndarray) -> tuple[Any, ...]:
    """The classes of labels that are there: those that the dtype of `y` declares, else the labels seen, sorted.

    Raises DataError where there are fewer than two, or no labels at all.
    """
    declared = dtype_levels(y)
    if declared is not None:
        check_num_classes(declared)
        return declared
    distinct, _ = distinct_values(labels, "y")
    if not distinct:
        raise DataError(
            "y has no labels, every one is missing, so the classes are not known. Declare them, "
            "Schema(classes=[...]), or give Mixture(model, num_components), whose components need no labels."
        )
    check_num_classes(distinct)
    return sorted_levels(distinct, "y")


def as_labels(y: Any) -> np.ndarray:
    """Labels (n,) as an array of their own type. DataError where y is empty or not 1-D."""
    labels = _of_masked(y) if isinstance(y, np.ma.MaskedArray) else as_array(y, "y")
    if labels.dtype.kind == "f" and _holds_integers(y, labels):
        labels = np.asarray(y if isinstance(y, list | tuple) else as_series(y).to_list(), object)
    if labels.ndim != 1:
        raise DataError(
            f"y has shape {labels.shape}, and has to be 1-D: y.ravel(), or a frame's one column; a pandas Series where "
            "the labels are tuples."
        )
    if len(labels) == 0:
        raise DataError("y is empty. Give one label a row.")
    return labels


def _of_masked(y: np.ma.MaskedArray) -> np.ndarray:
    """The labels of a masked array; None in masked places."""
    labels = np.asarray(y)
    if np.ma.is_masked(y):
        labels = labels.astype(object)
        labels[np.ma.getmaskarray(y)] = None
    return labels


def _holds_integers(y: Any, labels: np.ndarray) -> bool:
    """Whether integers became floats: beside missing ones, among floats or beyond 64 bits, where some become equal."""
    if isinstance(y, list | tuple):
        return not bool((np.abs(labels) < _WHOLE_FLOATS).all())  # NaN is not below
    series = as_series(y)
    return series is not None and bool(series.dtype.is_integer())


def encode_levels(
    values: np.ndarray, levels: Sequence[Any], what: str, known: str, remedy: str, *, takes_missing: bool = False
) -> np.ndarray:
    """Codes (n,), int64, of values (n,) among `levels`; -1 for missing ones where they are taken.

    Raises DataError where a value is missing and that is not so, or is none of the levels: `what` names the values
    ("column 'c'"), `known` the levels ("Its categories are"), `remedy` what to do.
    """
    codes = _small_integer_codes(values, levels)
    if codes is not None:
        return codes
    codes, distinct = factorize(values, what)
    place = {level: code for code, level in enumerate(levels)}
    # the last entry answers for code -1
    lookup = np.array([place.get(value, _UNKNOWN) for value in distinct] + [_MISSING], np.int64)
    if (lookup[:-1] == _UNKNOWN).any():
        unknown = [value for value in distinct if value not in place]
        row = int(np.argmax(lookup[codes] == _UNKNOWN))
        raise DataError(
            f"{what} has {quote_some(unknown, 5)} (first at row {row}), which is unknown. "
            f"{known} {quote_some(levels)}. {remedy}"
        )
    if not takes_missing:
        refuse_missing(codes, what)
    return lookup[codes]


def encode_integers(matrix: np.ndarray, levels: Sequence[Sequence[Any]]) -> np.ndarray | None:
    """Codes (n, D), int64, of a matrix (n, D) of integers, `levels` of a column being integers without gaps.

    None where a level or a cell is something else: then `encode_levels`, column by column, does what is to be done.
    Reading columns one by one out of long rows takes up to 1.4 times as long: `_categorical` in benchmarks/closed_form.
    """
    starts = [_start_without_gaps(column) for column in levels]
    if matrix.dtype.kind not in "iu" or matrix.dtype == np.uint64 or None in starts or not matrix.size:
        return None
    lowest, sizes = np.array(starts, np.int64), np.array([len(column) for column in levels])
    highest = lowest + (sizes - 1)
    for rows in checked_chunks(matrix.shape):
        if (_of_columns(np.min, matrix[rows]) < lowest).any() or (_of_columns(np.max, matrix[rows]) > highest).any():
            return None
    return matrix - lowest


def _of_columns(extreme: Callable[..., np.ndarray], block: np.ndarray) -> np.ndarray:
    """The least or the greatest cell of each column: rows laid side by side first, NumPy being slow with short ones.

    That is 1.3 times the time of a whole fit: `_categorical` in benchmarks/closed_form.
    """
    size, width = block.shape
    whole = size // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    if whole:
        wide = extreme(block[:whole].reshape(-1, _SIDE_BY_SIDE * width), axis=0)
        block = np.concatenate([wide.reshape(-1, width), block[whole:]])
    return extreme(block, axis=0)


def _start_without_gaps(levels: Sequence[Any]) -> int | None:
    """The first of levels that are 32-bit integers one after the other; None for others."""
    first = levels[0]
    if type(first) is not int or abs(first) >= 2**31 or any(type(level) is not int for level in levels):
        return None
    return first if list(levels) == list(range(first, first + len(levels))) else None


def _small_integer_codes(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray | None:
    """Codes of integers by look-up, several times as fast as hashing them; None where that is no way to find them."""
    if values.dtype.kind not in "iu" or not len(values) or any(type(level) is not int for level in levels):
        return None
    lowest, highest = min(levels), max(levels)
    values = np.ascontiguousarray(values)
    if highest - lowest >= _LOOKUP_SIZE or values.min() < lowest or values.max() > highest:
        return None
    places = np.subtract(levels, lowest)
    codes = np.subtract(values, lowest, dtype=np.int64, casting="unsafe")  # no value is outside the range of levels
    if np.array_equal(places, np.arange(len(levels))):
        return codes
    lookup = np.full(highest - lowest + 1, _UNKNOWN, np.int64)
    lookup[places] = np.arange(len(levels))
    codes = lookup[codes]
    return None if (codes == _UNKNOWN).any() else codes


def refuse_missing(codes: np.ndarray, what: str) -> None:
    """DataError where `factorize` found missing values."""
    missing = np.flatnonzero(codes == _MISSING)
    if missing.size:
        raise DataError(f"{what} has {missing.size} missing values (first at row {missing[0]}). Drop or impute them.")


def _hash_text(values: np.ndarray) -> np.ndarray:
    """A number for each text of a fixed-width array: three times as fast to factorize as the texts are."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize == 0:
        return np.zeros(len(values), np.uint64)
    word = np.uint64 if values.dtype.itemsize % 8 == 0 else np.uint32
    length = values.dtype.itemsize // word().itemsize
    words = values.view(word).reshape(len(values), length).astype(np.uint64, copy=False)
    multipliers = np.random.default_rng(0).integers(1, 2**63, words.shape[1], dtype=np.uint64) | np.uint64(1)
    return words @ multipliers


def _own_type(values: np.ndarray) -> list[Any]:
    """The values as a list that np.asarray makes the same array again; of Python's own types if it can."""
    plain = values.dtype in (np.int64, np.float64, np.bool_) or values.dtype.kind == "U"
    return values.tolist() if plain else list(values)


def _is_missing(level: Any) -> bool:
    # pandas.NA is not even comparable with itself; NaN and NaT differ from themselves
    return level is None or type(level).__name__ == "NAType" or bool(level != level)


def _family_of_type(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, Real) else type(value).__name__
