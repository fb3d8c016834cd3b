"""Matrices some rows at a time, so that looking at them takes no second matrix."""

from collections.abc import Iterator

import numpy as np

_BLOCK_CELLS = 1 << 18


def blocks_of_rows(matrix: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of a matrix, some at a time, with the number of the first."""
    rows = max(1, _BLOCK_CELLS // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        yield start, matrix[start : start + rows]
