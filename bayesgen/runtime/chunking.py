"""Padding rows to few sizes, so that what is compiled for a number of rows is compiled for few numbers."""

import numpy as np

from bayesgen.typing import Shaped


def padded_size(size: int) -> int:
    """The next size that row-wise functions are compiled for: 2^k or 3 * 2^(k-1)."""
    power = 1 << max(size - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


def pad(array: Shaped[np.ndarray, "n ..."], size: int) -> Shaped[np.ndarray, "size ..."]:
    """The array with its first row repeated, or ones where there is none, until there are `size` rows."""
    first = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(first, size - len(array), axis=0)])
