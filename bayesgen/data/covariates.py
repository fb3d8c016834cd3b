"""Covariates: what each row has and a program does not model, arrays of any shape and dtype."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Array, Bool, Shaped

# kind of a dtype -> the dtype that programs compute with, and what a message calls its numbers
_DTYPES: Final = {"b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.int64), "f": np.dtype(np.float64)}
_NUMBERS: Final = {"b": "truth values", "i": "whole numbers", "f": "real numbers"}


@dataclass(frozen=True)
class Covariate:
    """What is known of a covariate. One of which nothing is known yet is taken for one real number a row.

    Attributes:
        row_shape: the shape of its value in a row, () for one number.
        dtype: bool, int64 or float64, as the data have it.
    """

    row_shape: tuple[int, ...] = ()
    dtype: np.dtype = _DTYPES["f"]

    def __str__(self) -> str:
        return f"{_shown((*self.row_shape,))} of {_NUMBERS[self.dtype.kind]}"

    @classmethod
    def of(cls, values: Shaped[np.ndarray, "n ..."]) -> "Covariate":
        """What these values are."""
        return cls(values.shape[1:], values.dtype)

    def values(self, name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        """The values of rows of this covariate: those of `covariate_values`, in its dtype.

        Raises:
            DataError: rows of another shape; numbers that are others in this dtype.
        """
        values = covariate_values(name, cells)
        if values.shape[1:] != self.row_shape:
            raise DataError(
                f"Covariate {name!r} has the shape {_shown(values.shape[1:])}, and {_shown(self.row_shape)} in the "
                "data that were seen first. Give it the same in training and in prediction."
            )
        converted, differs = _converted(values, self.dtype)
        if differs.any():
            place = tuple(map(int, np.argwhere(differs)[0]))
            raise DataError(
                f"Covariate {name!r} has {values[place]} in row {place[0]}, and {_NUMBERS[self.dtype.kind]} in the "
                f"data that were seen first. If both are right, give the values seen first as {values.dtype}, too."
            )
        return converted


def covariate_values(name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
    """The cells of a covariate as they are: truth values, whole numbers (int64) or real ones (float64).

    Raises:
        DataError: cells that are missing, infinite or no numbers.
    """
    if cells.dtype.kind == "O":
        import pandas as pd

        _refuse_missing(name, np.asarray(pd.isna(cells)))
        cells = _of_objects(name, cells.tolist())
    if cells.dtype.kind not in _DTYPES:
        raise DataError(
            f"Covariate {name!r} holds no numbers, but {cells.dtype}. Encode them as the program computes with them; "
            "names of groups, say, as 0, 1, 2 and so on."
        )
    values, differs = _converted(cells, _DTYPES[cells.dtype.kind])
    if values.dtype.kind == "f":
        _refuse_missing(name, np.isnan(values))
        differs = np.isinf(values)
    if differs.any():
        place = tuple(map(int, np.argwhere(differs)[0]))
        raise DataError(f"Covariate {name!r} has {cells[place]} in row {place[0]}: correct it, or drop the row.")
    return values


def check_ranges(ranges: Mapping[str, tuple[int, int]], values: Mapping[str, Shaped[Array, "n ..."]]) -> None:
    """Refuse values of covariates, those that have a range, outside of it.

    Raises:
        DataError: naming the covariate and the first such row.
    """
    for name in sorted(ranges.keys() & values.keys()):
        lowest, highest = ranges[name]
        outside = (values[name] < lowest) | (values[name] > highest)
        if outside.any():
            place = tuple(map(int, np.argwhere(outside)[0]))
            raise DataError(
                f"Covariate {name!r} has {values[name][place]} in row {place[0]}, and {lowest} to {highest} in "
                "training; the program computes indexes from it and from other things, so that nothing shows whether "
                "there are such entries. If there are, train with rows that have it or declare "
                f"Schema(ranges={{{name!r}: (lowest, highest)}}), or let the program index by {name!r} alone, "
                f"table[y, {name}] for table[{name} * size + y]."
            )


def _converted(
    values: Shaped[np.ndarray, "*shape"], dtype: np.dtype
) -> tuple[Shaped[np.ndarray, "*shape"], Bool[np.ndarray, "*shape"]]:
    """The values in another dtype, and which of them it changes."""
    with np.errstate(invalid="ignore"):
        converted = values.astype(dtype, copy=False)
        changed = converted.astype(values.dtype, copy=False) != values
        return converted, changed | ((converted < 0) != (values < 0))


def _of_objects(name: str, cells: list[Any]) -> Shaped[np.ndarray, "..."]:
    try:
        return np.asarray(cells)
    except ValueError as error:
        raise DataError(f"Covariate {name!r} has rows of several shapes ({error}). Give all rows the same.") from None


def _refuse_missing(name: str, missing: Bool[np.ndarray, "..."]) -> None:
    if missing.any():
        row = int(np.argmax(missing.reshape(len(missing), -1).any(1)))
        raise DataError(
            f"Covariate {name!r} has {int(missing.sum())} missing cells, the first in row {row}. The program "
            "computes with covariates and has no distribution for them: drop these rows, or impute them."
        )


def _shown(row_shape: tuple[int, ...]) -> str:
    """The shape of all rows."""
    return f"(n{''.join(f', {size}' for size in row_shape)}{'' if row_shape else ','})"
