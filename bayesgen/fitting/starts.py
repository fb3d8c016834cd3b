"""Where to start looking for the classes of rows without labels: as users say, or at rows chosen at random."""

import dataclasses
from typing import Any

import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.errors import DataError
from bayesgen.records import fill, record
from bayesgen.statistics import Classes
from bayesgen.typing import Int, Shaped

SUM_TO_ONE = 1e-6  # by how much responsibilities may miss it


@record
class Starts:
    """Classes of the rows to start from, as users give them.

    Attributes:
        given: labels or responsibilities of the rows as given to `fit`, those of rows with labels included.
    """

    given: tuple[Shaped[np.ndarray, "n ..."], ...]

    def __init__(self, starts: Any) -> None:
        several = isinstance(starts, list | tuple) and len(starts) > 0 and all(np.ndim(each) > 0 for each in starts)
        several = several and any(hasattr(each, "shape") for each in starts)
        fill(self, given=tuple(map(_as_array, starts if several else [starts])))

    def __hash__(self) -> int:
        """By shapes: labels may be any objects."""
        return hash(tuple(array.shape for array in self.given))

    def __repr__(self) -> str:
        return f"<{len(self.given)} of {', '.join(sorted({str(array.shape) for array in self.given}))}>"

    def classes(self, schema: Schema, num_rows: int, places: Int[np.ndarray, " m"]) -> list[Classes]:
        """The codes or responsibilities of the rows at these places, for each start.

        Args:
            schema: of the training data.
            num_rows: how many rows there are, with and without labels.
            places: of those without.

        Raises:
            DataError: another number of rows or classes; labels of no class, or missing there; numbers that are no
                responsibilities.
        """
        return [_classes(array, schema, num_rows, places) for array in self.given]


def _as_array(start: Any) -> np.ndarray:
    array = np.asarray(start)
    if array.ndim not in (1, 2) or not array.size:
        raise DataError(
            f"starts= takes labels (n,), responsibilities (n, K), or a list of arrays of these, and this has shape "
            f"{array.shape}."
        )
    return array


def _classes(array: np.ndarray, schema: Schema, num_rows: int, places: Int[np.ndarray, " m"]) -> Classes:
    if len(array) != num_rows:
        raise DataError(
            f"starts= has {len(array)} rows, and X has {num_rows}. Give one for each row, whether y has its label or "
            "not."
        )
    if array.ndim == 2:
        return _responsibilities(array, len(schema.classes or ()), places)
    codes = schema.label_codes(array, "starts=")
    assert codes is not None
    if (codes[places] < 0).any():
        row = int(places[np.argmax(codes[places] < 0)])
        raise DataError(f"starts= has no label at row {row}, and y neither. Give one wherever y has none.")
    return codes[places]


def _responsibilities(array: np.ndarray, num_classes: int, places: Int[np.ndarray, " m"]) -> Classes:
    if array.shape[1] != num_classes or array.dtype.kind not in "biuf":
        raise DataError(
            f"starts= has {array.shape[1]} columns of dtype {array.dtype}, and there are {num_classes} classes: give "
            "responsibilities, one number for each class."
        )
    shares = array[places].astype(np.float64)
    bad = ~((shares >= 0).all(1) & (np.abs(shares.sum(1) - 1) <= SUM_TO_ONE))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"starts= has {shares[row].tolist()} at row {int(places[row])}. Responsibilities are nonnegative, and "
            "those of a row sum to 1."
        )
    return shares / shares.sum(1, keepdims=True)


def rows_of_classes(rows: Rows, classes: Classes) -> Rows:
    """Rows with these classes; where responsibilities are given, each row once in every class, with its share."""
    if classes.ndim == 1:
        return dataclasses.replace(rows, labels=classes)
    num_rows, num_classes = classes.shape
    copies = rows.take(np.tile(np.arange(num_rows), num_classes))
    assert rows.weights is not None
    weights = (classes * np.asarray(rows.weights)[:, None]).T.ravel()
    return dataclasses.replace(copies, labels=np.repeat(np.arange(num_classes), num_rows), weights=weights)
