"""Columns: their names, cheap however many there are; values as arrays; kinds and categories that dtypes declare."""

import difflib
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import NoReturn, cast, final, overload

import narwhals as nw
import numpy as np
import pandas as pd

from bayesgen.describe import free_name, quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Category, Data, Float, Int, Shaped, Values

from .sequences import CodedSequences

WHOLE_FLOATS = 2.0**53  # up to here every integer is a float


@final
class PositionalNames(Sequence[str]):
    """The names "x0", "x1", ... of `size` columns, made one at a time, so that 50,000 of them cost nothing."""

    __hash__ = None  # type: ignore[assignment]  # equal to lists and tuples, which hash otherwise

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[str]: ...
    def __getitem__(self, position: int | slice) -> str | Sequence[str]:
        positions = range(self.size)[position]
        return f"x{positions}" if isinstance(positions, int) else tuple(map("x{}".format, positions))

    def position(self, name: object) -> int:
        """The position of a name, or KeyError."""
        digits = name[1:] if isinstance(name, str) and name[:1] == "x" else ""
        position = int(digits) if digits.isascii() and digits.isdigit() else -1
        if not 0 <= position < self.size or str(position) != digits:
            raise KeyError(name)
        return position

    def positions(self, names: Sequence[str]) -> slice | list[int]:
        """The positions of names: a slice where they are successive, so that indexing copies nothing."""
        if names is self or (isinstance(names, PositionalNames) and len(names) == self.size):
            return slice(0, self.size)
        positions = [self.position(name) for name in names]
        start = positions[0] if positions else 0
        are_successive = positions == list(range(start, start + len(positions)))
        return slice(start, start + len(positions)) if are_successive else positions

    def __contains__(self, name: object) -> bool:
        try:
            self.position(name)
        except KeyError:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PositionalNames):
            return self.size == other.size
        if isinstance(other, list | tuple):
            return self.size == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __repr__(self) -> str:
        return f"PositionalNames({self.size})"


def text_names(names: Iterable[Hashable]) -> tuple[str, ...]:
    """Column names as str. DataError where two are the same text."""
    originals = list(names)
    texts = tuple(name if type(name) is str else str(name) for name in originals)
    clashing = {text for text, count in Counter(texts).items() if count > 1}
    if clashing:
        culprits = [name for name, text in zip(originals, texts, strict=True) if text in clashing]
        raise DataError(f"Column names have to differ as text; these do not: {quote_some(culprits)}. Rename them.")
    return texts


def refuse_empty(shape: tuple[int, ...]) -> NoReturn:
    """DataError for data without rows or columns."""
    raise DataError(
        f"X is empty: {shape[0]} rows and {shape[1]} columns. Give at least one of each; n rows of a program that "
        "needs no columns are pandas.DataFrame(index=range(n))."
    )


def mismatch(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """A message on columns that `names` lack or add; None where both sets are the same."""
    schema_names, table_names = set(columns), set(names)
    if schema_names == table_names:
        return None
    missing = [name for name in columns if name not in table_names]
    extra = [name for name in names if name not in schema_names]
    return (
        f"The columns of X are not the schema's. Missing: {quote_some(missing) or 'none'}. Not in the schema:"
        f" {quote_some(extra) or 'none'}.{look_alikes(missing, extra)}"
    )


def look_alikes(missing: Sequence[str], names: Sequence[str]) -> str:
    """A hint for similar names; only the start of long lists is compared."""
    pairs = [(name, difflib.get_close_matches(name, names[:200], n=1)) for name in missing[:10]]
    return "".join(f" {match[0]!r} looks like {name!r}." for name, match in pairs if match)


def as_array(values: Values, what: str, *, takes_lists: bool = False) -> np.ndarray:
    """np.asarray, except that it refuses ragged lists, never turns numbers into text, and keeps masked cells missing.

    Masked cells are NaN among floats, and None among others, which then are objects. Where lists are taken, those of
    different lengths are objects (n,).
    """
    if isinstance(values, CodedSequences):
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        is_float = values.dtype.kind == "f"
        cells = values.data.copy() if is_float else values.data.astype(object)
        cells[np.ma.getmaskarray(values)] = np.nan if is_float else None
        return cells
    if isinstance(values, list | tuple) and any(isinstance(value, np.ma.MaskedArray) for value in values):
        values = as_objects(_unmasked(value, what) for value in values).tolist()  # NumPy would see under masks
    series = None if isinstance(values, np.ndarray | list | tuple) else as_series(values)
    if series is not None:
        array = values_of(series)
        # beside missing cells, integers become floats, which some integers share
        is_rounded = holds_integers(series.dtype, array) and bool((np.abs(array) >= WHOLE_FLOATS).any())
        return np.asarray(series.to_list(), object) if is_rounded else array
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
            # [1, "a"] and ["a", nan] became text, and NumPy drops U+0000 at the end of a text: keep what the user wrote
            objects = np.asarray(values, dtype=object)
            is_kept = all(isinstance(v, str | bytes) for v in objects.flat) and bool((objects == array).all())
            array = array if is_kept else objects
    except ValueError as error:
        if takes_lists:
            return as_objects(cast(Iterable[object], values))
        raise DataError(f"{what} cannot be made an array; are its rows of one length? ({error})") from error
    return array


def type_of_objects(array: np.ndarray) -> str:
    """The type of the objects in an array as pandas calls it, such as "string" or "floating"; without missing ones."""
    return pd.api.types.infer_dtype(array.ravel(), skipna=True)


def numbers_of_objects(array: np.ndarray) -> np.ndarray:
    """Objects that are all numbers, or truth values, as such, NaN where they are missing; other arrays as they are."""
    kind = type_of_objects(array) if array.dtype.kind == "O" else ""
    if kind not in ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"):
        return array
    missing = np.asarray(pd.isna(array))
    if missing.any() or kind == "decimal":
        return np.where(missing, np.nan, array).astype(float)
    return np.asarray(array.tolist())


def _unmasked(value: Values, what: str) -> Values | None:
    """A row, or a cell, without mask."""
    if value is np.ma.masked:
        return None
    return as_array(value, what) if isinstance(value, np.ma.MaskedArray) else value


def holds_integers(dtype: nw.dtypes.DType, array: np.ndarray) -> bool:
    """Whether integers of a series or column have become floats, as they do beside missing cells."""
    return array.dtype.kind == "f" and bool(dtype.is_integer())


def as_integers(array: np.ndarray) -> np.ndarray:
    """Floats that are integers or NaN as objects: integers, and None."""
    return np.asarray([None if np.isnan(value) else int(value) for value in array.tolist()], object)


MOST_WEIGHT = 1e100  # so that sums of weighted squares stay finite


def as_weights(sample_weight: Values | None, num_rows: int, name: str = "sample_weight") -> np.ndarray | None:
    """Frequency weights (n,) as float64; None stays None.

    Raises DataError for a wrong length, and for weights that are negative, not finite, or above `MOST_WEIGHT`.
    """
    if sample_weight is None:
        return None
    weights = numbers_of_objects(as_array(sample_weight, name))
    if weights.shape != (num_rows,):
        raise DataError(f"{name} has shape {weights.shape}, and the data have {num_rows} rows. Give one weight a row.")
    if weights.dtype.kind not in "biuf":
        raise DataError(f"{name} has dtype {weights.dtype}. Give it numbers.")
    weights = weights.astype(np.float64, copy=False)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{name} has {np.count_nonzero(wrong)} entries that are negative, missing or infinite; "
            f"the first is {weights[row].item()} at row {row}. A weight says how often its row counts."
        )
    if num_rows and weights.max() > MOST_WEIGHT:
        raise DataError(
            f"{name} has {weights.max()} at row {int(weights.argmax())}, and a row cannot count more than "
            f"{MOST_WEIGHT:g} times: sums of squares would overflow. Give smaller weights."
        )
    return weights


def check_index(X: Data, values: Values | None, name: str, of: str = "X") -> None:
    """DataError where `values` and X are pandas objects of one length whose indexes differ, so that rows are ambiguous.

    The columns of a mapping X are checked one by one.
    """
    if isinstance(X, Mapping):
        for column, cells in X.items():
            check_index(cells, values, name, f"{of}[{column!r}]")
        return
    index, row_index = index_of(values), index_of(X)
    if index is None or row_index is None or len(index) != len(row_index) or index.equals(row_index):
        return
    row = int(np.argmax(index.to_numpy(object) != row_index.to_numpy(object)))
    raise DataError(
        f"{name} has another index than {of}: at row {row} {of} has {quote_some([row_index[row]])} and {name} has "
        f"{quote_some([index[row]])}. Pair them by index, {name}.loc[{of}.index], or by position, {name}.to_numpy()."
    )


def index_of(values: object) -> pd.Index | None:
    """The index of a frame or series of pandas; None for anything else."""
    index = getattr(values, "index", None)
    return index if isinstance(index, pd.Index) else None


def as_objects(values: Iterable[object]) -> np.ndarray:
    """Values as an array (n,) of objects, whatever they are."""
    cells = list(values)
    return np.fromiter(cells, object, len(cells))


def values_of(series: nw.Series) -> np.ndarray:
    """The values of a narwhals series. The nulls of Arrow dictionaries stay missing.

    Lists are objects (n,): nulls within them stay apart from numbers.
    """
    if holds_lists(series.dtype):
        return as_objects(series.to_list())
    if series.implementation.is_pyarrow():
        import pyarrow

        native = series.to_native()
        if pyarrow.types.is_dictionary(native.type):
            return native.cast(native.type.value_type).to_numpy()
    array = series.to_numpy()
    if array.dtype.kind == "U" and series.str.ends_with("\0").any():  # which NumPy drops
        return as_objects(series.to_list())
    return array


def as_series(values: Values) -> nw.Series | None:
    """A series, or an extension array of pandas, as a narwhals series; None for anything else."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if isinstance(values, pd.api.extensions.ExtensionArray):
        values = pd.Series(values)
    if isinstance(values, pd.DataFrame):  # which narwhals refuses where two columns have one name
        return None
    view = nw.from_native(values, pass_through=True, allow_series=True)
    return view if isinstance(view, nw.Series) else None


DECLARED = "where a row is a sequence of steps, declare Schema(kinds={{{!r}: 'sequence'}})."


def refuse_lists(name: str) -> NoReturn:
    """DataError for an undeclared column of lists."""
    raise DataError(
        f"Column {name!r} holds lists, which are not of one length or are of no kind by themselves. Give arrays of one "
        f"length; {DECLARED.format(name)}"
    )


def holds_objects(series: nw.Series) -> bool:
    """Whether the cells are Python objects by the dtype, which tells nothing of their kind."""
    # narwhals judges objects of pandas by their first hundred
    is_pandas = series.implementation.is_pandas_like()
    return bool(series.dtype == nw.Object or (is_pandas and series.to_native().dtype == object))


def holds_lists(dtype: nw.dtypes.DType) -> bool:
    """Whether the cells of a narwhals series are lists, by its dtype."""
    return bool(dtype == nw.List or dtype == nw.Array)


def kind_of_objects(cells: np.ndarray, name: str) -> str | None:
    """The name of the kind of Python objects by the types of those that are observed; None where none is.

    Numbers of whatever types are real, truth values binary, and all else is categorical, mixtures of types included.
    DataError: lists.
    """
    types = set(map(type, cells[~pd.isna(cells)]))
    if any(issubclass(cell_type, list | tuple | np.ndarray) for cell_type in types):
        refuse_lists(name)
    if not types:
        return None
    if all(issubclass(cell_type, bool | np.bool_) for cell_type in types):
        return "binary"
    are_numbers = all(issubclass(cell_type, Real | Decimal) and cell_type is not bool for cell_type in types)
    return "real" if are_numbers else "categorical"


def kind_of_dtype(dtype: nw.dtypes.DType, name: str) -> str:
    """The name of the kind of a frame's column of this dtype. DataError where it has none."""
    if dtype == nw.Boolean:
        return "binary"
    if dtype.is_numeric():
        return "real"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "categorical"
    if holds_lists(dtype):
        refuse_lists(name)
    raise DataError(
        f"Column {name!r} has dtype {dtype}, which has no kind. Turn it into numbers, booleans or strings, or drop it."
    )


def sorted_categories(distinct: Sequence[Category], what: str) -> tuple[Category, ...]:
    """Distinct values, sorted. DataError where they are of types that have no common order."""
    types = set(map(_family_of_type, distinct))
    try:
        if len(types) > 1:
            raise TypeError
        return tuple(sorted(distinct))  # type: ignore[type-var]  # those without order are refused
    except TypeError:
        examples = {type(value): value for value in reversed(distinct)}
        shown = ", ".join(f"{quote_some([value])} ({kind.__name__})" for kind, value in examples.items())
        raise DataError(
            f"{what} has values with no common order: {shown}. Make them one type, and cells that hold no value None."
        ) from None


def declared_values(values: Iterable[Category], what: str) -> tuple[Category, ...]:
    """Declared categories or classes. DataError: text, empty, repeated, missing or unhashable values."""
    if isinstance(values, str | bytes):
        raise DataError(f"The {what} are the text {values!r}. Give a list of values.")
    categories = tuple(own_type(values) if isinstance(values, np.ndarray) else values)
    if not categories:
        raise DataError(f"The {what} are empty. List every value, or leave them out to have them inferred.")
    try:
        counts = Counter(categories)
    except TypeError as error:
        raise DataError(f"The {what} hold something that is no plain value: {error}.") from error
    if any(map(_is_missing, categories)):
        raise DataError(f"The {what} contain a missing value: {quote_some(categories)}. Leave it out.")
    if len(counts) < len(categories):
        repeated = [category for category, count in counts.items() if count > 1]
        raise DataError(f"The {what} name {quote_some(repeated)} more than once. Name each once.")
    return categories


def as_category(value: Category, what: str) -> Category:
    """A value as a category or class of its own type. DataError where it is missing or unhashable."""
    plain = own_type(np.asarray([value]))[0] if isinstance(value, np.generic) else value
    return declared_values([plain], what)[0]


def with_category(categories: Sequence[Category], category: Category, what: str) -> tuple[Category, ...]:
    """The categories and one more: in order where they are sorted, else at the end. DataError: no common order."""
    more = (*categories, category)
    return sorted_categories(more, what) if _are_sorted(categories) else more


def _are_sorted(categories: Sequence[Category]) -> bool:
    if len(set(map(_family_of_type, categories))) > 1:
        return False
    try:
        return list(categories) == sorted(categories)  # type: ignore[type-var]
    except TypeError:  # of one type, which has no order
        return False


def dtype_categories(values: Values) -> tuple[Category, ...] | None:
    """The values that a dtype declares, in order: those of a pandas Categorical or a polars Enum. None for others.

    The categories of a polars Categorical or an Arrow dictionary declare nothing: they are the stored values, in an
    arbitrary order.
    """
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        return tuple(own_type(dtype.categories.to_numpy())) or None
    series = as_series(values)
    return None if series is None else tuple(getattr(series.dtype, "categories", ())) or None


def category_array(categories: Sequence[Category]) -> np.ndarray:
    """Categories as an array (K,) of their own type; of objects where NumPy would change one, such as tuples."""
    try:
        array = np.asarray(categories)
    except ValueError:  # tuples of unequal lengths
        array = np.empty((0, 0))
    values = array.tolist() if array.dtype.kind == "f" else array  # Python compares integers with floats exactly
    if array.ndim == 1 and all(value == category for value, category in zip(values, categories, strict=True)):
        return array
    return np.fromiter(categories, object, len(categories))


def labelled(codes: Int[np.ndarray, " n"], categories: Shaped[np.ndarray, " K"]) -> Shaped[np.ndarray, " n"]:
    """The categories of codes, of their own type; objects, with None for -1, where some code is -1.

    >>> labelled(np.array([1, -1]), np.array(["ape", "bear"])).tolist()
    ['bear', None]
    """
    if (codes >= 0).all():
        return categories[codes]
    labels = categories.astype(object)[codes]
    labels[codes < 0] = None
    return labels


def named_classes(log_probabilities: Float[np.ndarray, "*sets n K"]) -> Int[np.ndarray, "*sets n"]:
    """The index of the most probable class of each row, the first of equals; -1 for a row of NaN."""
    return np.where(np.isnan(log_probabilities).any(axis=-1), -1, np.argmax(log_probabilities, axis=-1))


def probability_names(classes: Sequence[Category]) -> list[Category]:
    """The names of columns of class probabilities beside a column "label": the classes, but "p[label]" for "label"."""
    return [free_name("p[label]", classes) if label == "label" else label for label in classes]


def check_distinct(names: Iterable[str]) -> None:
    """DataError for columns of an engine, beside an answer, whose names are the same or differ by case alone."""
    for first, second in itertools.pairwise(sorted(names, key=str.lower)):
        if first.lower() == second.lower():
            raise DataError(
                f"The answer would have the columns {first!r} and {second!r}, and engines tell no names apart by case. "
                "Rename the column that keep= names, or the class."
            )


def own_type(values: np.ndarray) -> list[Category]:
    """The values as a list that np.asarray makes the same array again; of Python's own types if it can."""
    plain = values.dtype in (np.int64, np.float64, np.bool_) or values.dtype.kind == "U"
    return values.tolist() if plain else list(values)


def _is_missing(category: Category) -> bool:
    # pandas.NA is not even comparable with itself; NaN and NaT differ from themselves
    if category is None or type(category).__name__ == "NAType":
        return True
    differs = category != category
    return isinstance(differs, bool | np.bool_) and bool(differs)


def _family_of_type(value: Category) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, Real) else type(value).__name__
