"""The columns of blocks: their kinds, how many values they have, their means and variances."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.data import BINNED, SEQUENCE, Kind, Schema
from bayesgen.describe import quote_some
from bayesgen.errors import FitError, ModelError
from bayesgen.families import Family
from bayesgen.statistics import Moments, check_magnitudes
from bayesgen.typing import Array, Float


def check_sequences(column: str, kind: Kind, family: Family) -> None:
    """Refuse sequences of other steps than those that their family models, or with an end where it has none.

    Raises:
        ModelError: naming the column, and what to declare.
    """
    if not family.takes_kind(kind):
        raise ModelError(
            f"Column {column!r} is of kind {kind!r}, and its family {family!r} models {family.kind_of_column(0)!r}. "
            "Leave the kind out of the schema, or choose a family of such sequences."
        )


def with_alphabets(declared: Schema, families: Mapping[str, Family]) -> Schema:
    """The schema, in which columns have the symbols that their families say they have.

    Raises:
        ModelError: a column for which others are declared.
    """
    implied = {column: family.alphabet for column, family in families.items() if family.alphabet is not None}
    for column, symbols in implied.items():
        stated = declared.categories.get(column)
        if stated is not None and tuple(stated) != symbols:
            raise ModelError(
                f"Column {column!r} is declared to have the symbols {quote_some(stated)}, and its family "
                f"{type(families[column]).__name__} has {quote_some(symbols)}. Leave Schema(categories=...) out."
            )
    if not implied:
        return declared
    return dataclasses.replace(declared, categories={**declared.categories, **implied})


def known_moments(schema: Schema) -> tuple[dict[str, int], Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The place of each column, the response after them, and their means and variances as far as they are known."""
    columns, response = list(schema.columns or ()), schema.response
    unknown = np.full(len(columns), np.nan)
    moments = [unknown if known is None else known for known in (schema.mean, schema.variance)]
    if response is not None:
        columns.append(response.name)
        of_response = [np.nan if known is None else known for known in (response.mean, response.variance)]
        moments = [np.append(known, last) for known, last in zip(moments, of_response, strict=True)]
    return {name: index for index, name in enumerate(columns)}, moments[0].copy(), moments[1].copy()


# kind of columns with finitely many values -> what these are, and how to have as many in all columns
_FINITE = {
    "categorical": ("values", "declare Schema(categories=...)"),
    BINNED: ("bins", "state edges"),
    SEQUENCE: ("symbols", "declare Schema(categories=...)"),
}


def num_values(schema: Schema, name: str, family: Family, columns: Sequence[str]) -> int | None:
    """How many values, or bins, each column of a block has; None where they are of a kind without such a number."""
    if family.kind not in _FINITE or schema.num_values(columns[0]) is None:
        return None
    sizes = [schema.num_values(column) or 0 for column in columns]
    what, remedy = _FINITE[family.kind]
    if family.num_values is not None:
        for column, size in zip(columns, sizes, strict=True):
            if size != family.num_values:
                ties = ", because equal values are in one bin" if what == "bins" and size < family.num_values else ""
                raise FitError(
                    f"Block {name!r}: concentration has length {family.num_values}, and column {column!r} has {size} "
                    f"{what}{ties}. Give one number for all of them, or {remedy}."
                )
    numbers = set(sizes)
    if len(numbers) != 1:
        raise ModelError(
            f"Block {name!r}: its columns have {sorted(numbers)} numbers of {what}. Put columns with different "
            f"numbers of {what} into different blocks, or {remedy}."
        )
    return numbers.pop()


def column_name(columns: Sequence[str], place: tuple[int, ...]) -> str:
    """The name of a column, as a sentence begins with it; of columns of sequences the step comes first in the place."""
    *step, column = place
    return f"Column {columns[column]!r}" + (f", step {step[0]}," if step else "")


def column_moments(summary: Any, columns: Sequence[str]) -> tuple[Float[Array, " D"], Float[Array, " D"] | float]:
    """Means and variances (denominator N) of a block's columns over all classes, of the cells that are there.

    The mean is 0, and the variance NaN, where a column has none: its prior, whatever it is, says all of it.
    """
    summary = summary.by_column()
    if isinstance(summary, Moments):
        check_magnitudes(summary, functools.partial(column_name, columns))
    pooled = summary.pooled().of_class(0)
    count = np.where(pooled.count > 0, pooled.count, 1.0)
    if not isinstance(pooled, Moments):
        return pooled.totals[0] / count, np.nan
    scatter = np.diagonal(pooled.scatter) if pooled.is_matrix else pooled.scatter
    return pooled.mean, np.where(pooled.count > 0, scatter / count, np.nan)
