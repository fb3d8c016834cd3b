"""Columns so large or so small that floating point does not hold their squares."""

from collections.abc import Callable

import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Array, Float

from .arrays import Cells
from .summaries import Moments

SMALLEST, LARGEST = 1e-152, 1e152  # what is in between has squares with all their digits, and sums of many of them
MOST_UNITS = 1e151  # standard deviations whose squares do not overflow, nor their sums


def check_magnitudes(moments: Moments, name_of: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse columns whose squares overflow or vanish: their variances would be infinite, missing or zero.

    Args:
        moments: `Moments` of the columns, with a class axis or without.
        name_of: the name of the column at an index tuple, as a sentence begins with it.

    Raises:
        DataError: names the first such column, and the magnitude of its values.
    """
    sizes = _magnitudes(moments)
    wrong = (sizes > LARGEST) | ((sizes > 0) & (sizes < SMALLEST))
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        size = sizes[place]
        happens = "overflow" if size > LARGEST else "vanish"
        raise DataError(
            f"{name_of(place)} has values of about {size:.0e}, whose squares {happens} in floating point, so it has no "
            f"variance that could be computed. Take it in other units (divide it by {size:.0e}), or drop it."
        )


def check_rows(values: Cells, units: Float[Array, "..."] | float, name_of: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse new rows so far away that the squares of their distances overflow: no density could be computed.

    Args:
        values: cells of columns with means and variances; NaN where they are missing.
        units: standard deviations of the columns, or 1 where they are not known.
        name_of: the name of the column at an index tuple, as a sentence begins with it.

    Raises:
        DataError: names the first such column, the row and the value.
    """
    values = np.asarray(values)
    limits = np.minimum(LARGEST, MOST_UNITS * np.asarray(units))
    least = limits.min(initial=LARGEST)
    if values.dtype.kind == "f" and np.finfo(values.dtype).max <= least:
        return
    largest = max(values.max(initial=0), -values.min(initial=0))
    if largest <= least:  # many times as fast as column by column
        return
    if np.isnan(largest):
        values = np.where(np.isnan(values), 0.0, values)
    wrong = np.maximum(values.max(0, initial=0), -values.min(0, initial=0)) > limits
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        cells = values.reshape(len(values), -1)[:, np.ravel_multi_index(place, values.shape[1:])]
        row = int(np.argmax(np.abs(cells)))
        raise DataError(
            f"{name_of(place)} has {cells[row]:.3g} at row {row}, so far from the training data that squares "
            "overflow in floating point and no density could be computed. Correct the cell, or drop the row."
        )


def _magnitudes(moments: Moments) -> Float[np.ndarray, "..."]:
    """Mean or standard deviation of each column, whichever is larger, in the class where it is largest."""
    largest = np.finfo(np.float64).max
    scatter = np.diagonal(moments.scatter, axis1=-2, axis2=-1) if moments.is_matrix else moments.scatter
    count = np.reshape(moments.count, np.shape(moments.count) + (1,) * (np.ndim(scatter) - np.ndim(moments.count)))
    scatter, mean = (np.nan_to_num(np.abs(values), nan=largest, posinf=largest) for values in (scatter, moments.mean))
    sizes = np.maximum(mean, np.sqrt(scatter) / np.sqrt(np.where(count > 0, count, 1.0)))
    return np.asarray(sizes.max(0) if np.ndim(moments.count) else sizes)
