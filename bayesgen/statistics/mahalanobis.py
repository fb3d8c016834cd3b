"""Squared Mahalanobis distances of rows from all classes at once: one matrix product a site."""

import math
from typing import Any, NamedTuple

import numpy as np

from .arrays import inverse_lower, log_diagonal, namespace
from .passes import chunks

PRODUCT_CELLS, MIN_ROWS = 1 << 18, 64  # of rows x classes x columns, which are to stay in the processor's cache
FAR = 1e3  # standard deviations between classes that cost three digits of sixteen


class Whitening(NamedTuple):
    """Affine maps that whiten rows for each of K classes. The site's extra axes are flattened into one, m.

    Attributes:
        center: (m, D), the mean of the classes' means: rows are taken from it first, so that offsets cost no digits.
        maps: (m, D + 1, K * D), what (row - center, 1) is multiplied with.
        half_log_det: (K, m), half the log-determinants of the covariances.
    """

    center: Any
    maps: Any
    half_log_det: Any


def with_whitening(parameters):
    """NumPy parameters with what is worth computing once for many chunks of rows.

    That is a `Whitening`, or inverse Cholesky factors where classes lie so far apart that a common center costs digits.
    """
    loc, inverse = _flat(parameters)
    center = loc.mean(0)
    shift = namespace(loc).einsum("kmij,kmj->mki", inverse, center - loc)
    if not abs(shift).max(initial=0.0) <= FAR:
        return {**parameters, "inverse": inverse}
    return {**parameters, "whitening": _whitening(center, inverse, shift)}


def squared_distances(parameters, values):
    """Squared distances (n, K, m) of rows, half log-determinants (K, m), and the dimension D.

    `parameters` hold `loc` (K, *extra, D), `scale_tril` (K, *extra, D, D), and what `with_whitening` adds.
    """
    dimension = parameters["loc"].shape[-1]
    rows = values.reshape(len(values), -1, dimension)
    if "whitening" in parameters:
        whitening = parameters["whitening"]
        parts = chunks(len(rows), max(PRODUCT_CELLS // whitening.maps[0, 0].size, MIN_ROWS))
        squares = np.concatenate([_at_once(whitening, rows[part]) for part in parts])
        return squares, whitening.half_log_det, dimension
    loc, inverse = _flat(parameters)
    return _class_by_class(loc, inverse, rows), -log_diagonal(inverse), dimension


def _at_once(whitening, rows):
    num_classes, dimension = len(whitening.half_log_det), rows.shape[-1]
    rows, ones = rows - whitening.center, np.ones((len(rows), 1))
    squares = []
    for index, maps in enumerate(whitening.maps):
        whitened = np.concatenate([rows[:, index], ones], 1) @ maps
        whitened = whitened.reshape(-1, num_classes, dimension)
        squares.append(np.einsum("nkd,nkd->nk", whitened, whitened))
    return np.stack(squares, -1)


def _class_by_class(loc, inverse, rows):
    xp = namespace(rows, loc)
    classes = [xp.einsum("nmd,med->nme", rows - loc[k], inverse[k]) for k in range(len(loc))]
    return xp.stack([(whitened**2).sum(-1) for whitened in classes], 1)


def _flat(parameters):
    """Means (K, m, D) and inverse Cholesky factors (K, m, D, D)."""
    num_classes, *extra, dimension = parameters["loc"].shape
    loc = parameters["loc"].reshape(num_classes, math.prod(extra), dimension)
    if "inverse" in parameters:
        return loc, parameters["inverse"]
    return loc, inverse_lower(parameters["scale_tril"]).reshape(*loc.shape, dimension)


def _whitening(center, inverse, shift):
    xp = namespace(center, inverse)
    linear = xp.transpose(inverse, (1, 3, 0, 2))  # (m, D, K, D), the last axis whitened
    maps = xp.concatenate([linear, shift[:, None]], 1)
    return Whitening(center, maps.reshape(*maps.shape[:2], -1), -log_diagonal(inverse))
