"""Labels and categorical cells as codes of classes and categories, or an error that names culprit and remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import final

import numpy as np
import pandas as pd

from bayesgen.describe import quote_some
from bayesgen.errors import DataError, warn
from bayesgen.runtime import CACHED_CELLS, THREAD_CELLS, chunks
from bayesgen.typing import Category, Int, Num, Shaped, Values

from .columns import WHOLE_FLOATS, as_array, as_series, category_array, own_type, sorted_categories
from .kinds import Columns, Encoded, Kind
from .sequences import PADDING
from .views import ArrayTable, Table

MISSING, UNKNOWN = -1, -2  # codes
# pandas before 3 hashes texts as C strings, which end at U+0000
_MERGES_TEXTS = len(pd.unique(np.array(["a", "a\0"], object))) < 2


def factorize(values: np.ndarray, what: str) -> tuple[np.ndarray, list[Category]]:
    """Codes (n,), -1 where missing, and the distinct values, of their own type, in order of appearance.

    Single characters, of which sequences have many, are in order and are not hashed: a tenth of the time.
    """
    if values.dtype == "<U1" and len(values):
        points = np.ascontiguousarray(values).view(np.uint32)
        present = np.flatnonzero(np.bincount(points))
        codes = np.zeros(int(present[-1]) + 1, np.int64)
        codes[present] = np.arange(len(present))
        return codes[points], present.astype(np.uint32).view("<U1").tolist()
    if values.dtype.kind == "T":
        values = values.astype(object)
    text = values.dtype.kind == "U"
    try:
        codes, distinct = pd.factorize(_hash_text(values) if text else values)
    except TypeError as error:
        raise DataError(
            f"{what} holds values that cannot be told apart by hashing: {error}. Turn them into plain values; a column "
            "whose cells are lists of steps is declared as such, Schema(kinds={column: 'sequence'})."
        ) from error
    if text:
        first_rows = np.empty(len(distinct), np.int64)
        first_rows[codes[::-1]] = np.arange(len(codes))[::-1]
        distinct = values[first_rows]
    may_merge = _MERGES_TEXTS and codes.min(initial=0) >= 0 and all(isinstance(value, str) for value in distinct)
    if (text or may_merge) and not np.array_equal(distinct[codes], values):  # so rarely that the rest may be slow
        code_by_text: dict[Category, int] = {}
        codes = np.array([code_by_text.setdefault(value, len(code_by_text)) for value in values.tolist()])
        return codes, list(code_by_text)
    return np.asarray(codes, np.int64), own_type(distinct)


def distinct_values(values: np.ndarray, what: str) -> list[Category]:
    """The distinct values in order of appearance, without a code for every row."""
    distinct: dict[Category, None] = {}
    for rows in chunks(len(values), THREAD_CELLS):
        distinct |= dict.fromkeys(factorize(values[rows], what)[1])
    return list(distinct)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Categorical(Kind):
    """Values out of a finite set. They are encoded as codes 0..r-1 in its order, int64; missing cells have code 0."""

    name = "categorical"
    noun_for_values = ("values", "declare Schema(categories=...)")

    @property
    def has_categories(self) -> bool:
        return True

    def infer_categories(self, column: str, table: Table, table_name: str) -> Sequence[Category]:
        """The categories that the dtype of the column declares, or its values. DataError: every cell is missing."""
        declared = table.declared_categories(table_name)
        if declared is not None:
            return declared
        return categories_among(distinct_values(table.column(table_name).reshape(-1), f"Column {column!r}"), column)

    def encode(self, columns: Columns) -> Encoded:
        """Unknown values are missing, if they are taken, else a DataError."""
        table, categories = columns.table, [columns.categories[column] for column in columns.names]
        if isinstance(table, ArrayTable):
            integers = encode_integers(table.matrix(columns.table_names), categories)
            if integers is not None:
                return Encoded(integers, None)
        codes = np.empty((len(categories), table.num_rows), np.int64)  # column by column, as they are read and counted
        for j, (column, table_name) in enumerate(zip(columns.names, columns.table_names, strict=True)):
            codes[j] = _codes(column, table.flat_column(table_name), categories[j], takes_unknown=columns.takes_unknown)
        if codes.min(initial=0) >= 0:
            return Encoded(codes.T, None)
        observed, counts = codes.T >= 0, np.count_nonzero(codes == UNKNOWN, axis=1)
        unknown = {columns.names[j]: int(counts[j]) for j in np.flatnonzero(counts).tolist()}
        return Encoded(np.maximum(codes, 0, out=codes).T, observed, unknown)

    def decode(self, column: str, categories: Sequence[Category], values: Num[np.ndarray, "n ..."]) -> np.ndarray:
        return category_array(categories)[whole_codes(column, values, 0, len(categories) - 1)]


CATEGORICAL = Categorical()


def categories_among(distinct: Sequence[Category], column: str) -> tuple[Category, ...]:
    """The distinct values of a column, sorted. DataError: every cell is missing."""
    if not distinct:
        raise DataError(
            f"Column {column!r} is categorical, and every cell is missing. Drop it, or declare its values: "
            f"Schema(categories={{{column!r}: [...]}})."
        )
    return sorted_categories(distinct, f"Column {column!r}")


def _codes(
    column: str, values: Shaped[np.ndarray, " n"], categories: Sequence[Category], *, takes_unknown: bool = False
) -> np.ndarray:
    """Codes (n,) of the cells of a column, -1 where they are missing; unknown values are -2, if they are taken."""
    remedy = (
        f"Correct it, declare every value, Schema(categories={{{column!r}: [...]}}), or take such cells as missing, "
        "Schema(unknown='missing')."
    )
    owner, opening = f"Column {column!r}", "Its categories are"
    return codes_among(values, categories, owner, opening, remedy, takes_missing=True, takes_unknown=takes_unknown)


def whole_codes(column: str, values: Num[np.ndarray, "n ..."], least: int, most: int) -> Int[np.ndarray, "n ..."]:
    """The values as integers. DataError where one is not a whole number from `least` to `most`."""
    wrong = ~((values >= least) & (values <= most) & (values == np.floor(values)))
    if wrong.any():
        cell = tuple(map(int, np.argwhere(wrong)[0]))
        place = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "step"), cell, strict=False))
        past = f", and {PADDING} past an end" if least == PADDING else ""
        raise DataError(f"Column {column!r}: {values[cell]:g} in {place}, is no code: they are 0 to {most}{past}.")
    return values.astype(np.int64)


def check_num_classes(classes: Sequence[Category] | None) -> None:
    """DataError where there are fewer than two classes."""
    if classes is not None and len(classes) < 2:
        raise DataError(
            f"There is only one class, {quote_some(classes)}, and a classifier needs two or more. If others "
            f"exist without rows here, declare them: Schema(classes=[...])."
        )


def inferred_classes(labels: np.ndarray, num_labels: int | None = None) -> tuple[Category, ...]:
    """The classes of labels: the distinct ones, sorted; `num_labels` where each label stands for several of so many.

    Warns where the labels look like a quantity. Raises DataError where there are fewer than two, or no labels.
    """
    distinct = distinct_values(labels, "y")
    if not distinct:
        raise DataError(
            "y has no labels, every one is missing, so the classes are not known. Declare them, "
            "Schema(classes=[...]), or give Mixture(model, num_components), whose components need no labels."
        )
    check_num_classes(distinct)
    _warn_of_quantity(distinct, int(np.count_nonzero(~pd.isna(labels))) if num_labels is None else num_labels)
    return sorted_categories(distinct, "y")


def _warn_of_quantity(distinct: Sequence[Category], num_labels: int) -> None:
    """Warn where labels look like a quantity, not like classes.

    They do where they are numbers, truth values not being any, and one is not whole; or where they are whole numbers,
    more than ten different ones and more than half as many as there are labels. So digits from 0 to 9 never do.
    """
    numbers = [
        value
        for value in distinct
        if isinstance(value, Real | Decimal) and not isinstance(value, bool | np.timedelta64)
    ]
    if len(numbers) < len(distinct):
        return
    broken = [value for value in numbers if value % 1 != 0]
    if broken or len(distinct) > max(10, num_labels / 2):  # ten digits may be classes
        example = f", such as {quote_some(broken[:1])}, which is not whole" if broken else ""
        warn(
            f"y has {len(distinct)} different numbers in {num_labels} rows{example}, and a classifier takes each of "
            "them for a class. If y is a quantity, fit a regression model: LinearRegression(), "
            "JointGaussianRegression() or NaiveBayesRegression(). If it is not, declare its values, "
            "Schema(classes=[...])."
        )


def as_labels(y: Values) -> np.ndarray:
    """Labels (n,) as an array of their own type. DataError where y is empty or not 1-D."""
    labels = as_array(y, "y")
    if labels.dtype.kind == "f":
        # integers became floats: beside missing ones, among floats or beyond 64 bits, where some become equal
        if isinstance(y, list | tuple) and not (np.abs(labels) < WHOLE_FLOATS).all():  # NaN is not below
            labels = np.asarray(y, object)
        elif (series := as_series(y)) is not None and series.dtype.is_integer():
            labels = np.asarray(series.to_list(), object)
    if labels.ndim != 1:
        raise DataError(
            f"y has shape {labels.shape}, and has to be 1-D: y.ravel(), or a frame's one column; a pandas Series where "
            "the labels are tuples."
        )
    if len(labels) == 0:
        raise DataError("y is empty. Give one label a row.")
    return labels


def codes_among(
    values: np.ndarray,
    categories: Sequence[Category],
    what: str,
    opening: str,
    remedy: str,
    *,
    takes_missing: bool = False,
    takes_unknown: bool = False,
) -> np.ndarray:
    """Codes (n,), int64, of values (n,) among `categories`; -1 for missing and -2 for unknown values, if taken.

    Raises DataError for missing or unknown values that are not taken; in its message `what` names the values ("column
    'c'"), `opening` begins the list of categories ("Its categories are"), and `remedy` says what to do.
    """
    codes = _small_integer_codes(values, categories)
    if codes is not None:
        return codes
    codes, distinct = factorize(values, what)
    code_of = {category: code for code, category in enumerate(categories)}
    # the last entry is that of code -1
    lookup = np.array([code_of.get(value, UNKNOWN) for value in distinct] + [MISSING], np.int64)
    if (lookup[:-1] == UNKNOWN).any() and not takes_unknown:
        unknown = [value for value in distinct if value not in code_of]
        row = int(np.argmax(lookup[codes] == UNKNOWN))
        raise DataError(
            f"{what} has {quote_some(unknown, 5)} (first at row {row}), which is unknown. "
            f"{opening} {quote_some(categories)}. {remedy}"
        )
    missing = np.flatnonzero(codes == MISSING)
    if missing.size and not takes_missing:
        raise DataError(f"{what} has {missing.size} missing values (first at row {missing[0]}). Drop these rows.")
    return lookup[codes]


def encode_integers(matrix: np.ndarray, categories: Sequence[Sequence[Category]]) -> np.ndarray | None:
    """Codes (n, D), int64, of a matrix (n, D) of integers, where the categories of each column have no gaps.

    None where they have, or where cells or categories are not integers; then `codes_among` applies, column by column.
    Reading columns one by one out of long rows takes twice as long: `_categorical` in benchmarks/closed_form.
    """
    starts = [_start_without_gaps(column) for column in categories]
    if matrix.dtype.kind not in "iu" or matrix.dtype == np.uint64 or None in starts or not matrix.size:
        return None
    lowest, sizes = np.array(starts, np.int64), np.array([len(column) for column in categories])
    highest = lowest + (sizes - 1)
    for rows in chunks(len(matrix), CACHED_CELLS // matrix.shape[1]):
        block = matrix[rows]
        if (block.min(axis=0) < lowest).any() or (block.max(axis=0) > highest).any():
            return None
    return matrix - lowest


def _start_without_gaps(categories: Sequence[Category]) -> int | None:
    """The first of categories that are successive 32-bit integers; None for others."""
    first = categories[0]
    if type(first) is not int or abs(first) >= 2**31 or set(map(type, categories)) != {int}:
        return None
    return first if list(categories) == list(range(first, first + len(categories))) else None


def _small_integer_codes(values: np.ndarray, categories: Sequence[Category]) -> np.ndarray | None:
    """Codes of integers by look-up, several times as fast as hashing; None where it does not apply."""
    if values.dtype.kind not in "iu" or not len(values) or set(map(type, categories)) != {int}:
        return None
    integers = np.array(categories, object)
    lowest, highest = integers.min(), integers.max()
    values = np.ascontiguousarray(values)
    if highest - lowest >= 1 << 16 or values.min() < lowest or values.max() > highest:
        return None
    offsets = (integers - lowest).astype(np.int64)
    start = np.uint64(lowest % 2**64).astype(np.int64)  # differences are exact modulo 2^64, and all values are in range
    codes = np.subtract(values, start, dtype=np.int64, casting="unsafe")
    if np.array_equal(offsets, np.arange(len(categories))):
        return codes
    lookup = np.full(highest - lowest + 1, UNKNOWN, np.int64)
    lookup[offsets] = np.arange(len(categories))
    codes = lookup[codes]
    return None if (codes == UNKNOWN).any() else codes


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
