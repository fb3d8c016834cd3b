"""Columns so large or so small that floating point does not hold their squares."""

import numpy as np

from ..errors import DataError

SMALLEST, LARGEST = 1e-152, 1e152  # what is in between has squares with all their digits, and sums of many of them


def check_magnitudes(moments, name_of):
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


def _magnitudes(moments):
    """Mean or standard deviation of each column, whichever is larger, in the class where it is largest."""
    largest = np.finfo(np.float64).max
    scatter = np.diagonal(moments.scatter, axis1=-2, axis2=-1) if moments.is_matrix else moments.scatter
    count = np.reshape(moments.count, np.shape(moments.count) + (1,) * (np.ndim(scatter) - np.ndim(moments.count)))
    scatter, mean = (np.nan_to_num(np.abs(values), nan=largest, posinf=largest) for values in (scatter, moments.mean))
    sizes = np.maximum(mean, np.sqrt(scatter) / np.sqrt(np.where(count > 0, count, 1.0)))
    return sizes.max(0) if np.ndim(moments.count) else sizes
