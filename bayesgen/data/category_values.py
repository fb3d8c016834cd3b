"""Categories of columns and classes of labels: their possible values, in order, each of its own type."""

from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Category, Float, Int, Shaped, Values

from .columns import as_series


def sorted_categories(distinct: Sequence[Category], what: str) -> tuple[Category, ...]:
    """Distinct values, sorted. DataError where they are of types that have no common order."""
    types = {_family_of_type(value) for value in distinct}
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
    if any(_is_missing(category) for category in categories):
        raise DataError(f"The {what} contain a missing value: {quote_some(categories)}. Leave it out.")
    try:
        repeated = [category for category, count in Counter(categories).items() if count > 1]
    except TypeError as error:
        raise DataError(f"The {what} hold something that is no plain value: {error}.") from error
    if repeated:
        raise DataError(f"The {what} name {quote_some(repeated)} more than once. Name each once.")
    return categories


def as_category(value: Category, what: str) -> Category:
    """A value as a category or class of its own type. DataError where it is missing or unhashable."""
    own = own_type(np.asarray([value]))[0] if isinstance(value, np.generic) else value
    return declared_values([own], what)[0]


def with_category(categories: Sequence[Category], category: Category, what: str) -> tuple[Category, ...]:
    """The categories and one more: in order where they are sorted, else at the end. DataError: no common order."""
    more = (*categories, category)
    return sorted_categories(more, what) if _are_sorted(categories) else more


def _are_sorted(categories: Sequence[Category]) -> bool:
    if len({_family_of_type(category) for category in categories}) > 1:
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
    import pandas as pd

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


def own_type(values: np.ndarray) -> list[Category]:
    """The values as a list that np.asarray makes the same array again; of Python's own types if it can."""
    plain = values.dtype in (np.int64, np.float64, np.bool_) or values.dtype.kind == "U"
    return values.tolist() if plain else list(values)


def _is_missing(category: Category) -> bool:
    # pandas.NA is not even comparable with itself; NaN and NaT differ from themselves
    return category is None or type(category).__name__ == "NAType" or bool(category != category)


def _family_of_type(value: Category) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, Real) else type(value).__name__
