"""Centred moments by the plain formulas, class by class: means first, then what is squared are residuals."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Bool, Float, Real

from .arrays import namespace
from .passes import Classes, class_weights
from .summaries import Moments


def two_pass_moments(
    values: Real[Array, "n m"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    matrix: bool = False,
    observed: Bool[Array, "n m"] | None = None,
) -> Moments:
    """`class_moments` by the plain formulas, class by class: means first, then what is squared are residuals."""
    xp = namespace(values, classes, weights, observed)
    if not len(values):
        values, classes = xp.zeros((1, values.shape[1])), xp.zeros((1, num_classes))
        weights, observed = None, None if observed is None else xp.zeros(values.shape, bool)
    rows = values.astype(float) if observed is None else xp.where(observed, values, 0.0)
    if xp is jnp:
        row_weights = class_weights(jnp.asarray(classes), num_classes, weights).T
        count, mean, scatter = jax.lax.map(lambda of_rows: _of_class(rows, of_rows, observed, matrix), row_weights)
    else:
        parts = [_of_class(*arrays, matrix) for arrays in _by_class(rows, classes, num_classes, weights, observed)]
        count, mean, scatter = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    count = count[:, 0] if observed is None else count
    return Moments(count, mean, scatter, xp.zeros(mean.shape[:1] if matrix else mean.shape))


def _by_class(
    rows: Float[Array, "n m"],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n m"] | None,
) -> Iterator[tuple[Float[Array, "k m"], Real[Array, " k"], Bool[Array, "k m"] | None]]:
    """What `_of_class` takes, for each class: of codes, only the rows of the class."""
    for index in range(num_classes):
        if classes.ndim == 2:
            of_rows = classes[:, index] if weights is None else classes[:, index] * weights
            yield rows, of_rows, observed
            continue
        members = np.flatnonzero(classes == index)
        members = members if len(members) else np.zeros(1, int)
        of_rows = (classes[members] == index) * (1.0 if weights is None else weights[members])
        yield rows[members], of_rows, None if observed is None else observed[members]


def _of_class(
    rows: Float[Array, "n m"], weights: Real[Array, " n"], observed: Bool[Array, "n m"] | None, matrix: bool
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, "..."]]:
    """Count, mean and scatter of the columns, where rows have these weights."""
    xp = namespace(rows, weights, observed)
    cells = xp.broadcast_to(weights[:, None], rows.shape) if observed is None else weights[:, None] * observed
    count = cells.sum(0)
    origin = xp.take_along_axis(rows, cells.argmax(0)[None], 0)
    shift = (cells * (rows - origin)).sum(0) / xp.where(count > 0, count, 1.0)
    mean = xp.where(count > 0, origin[0] + shift, 0.0)
    residuals = xp.where(cells > 0, rows - mean, 0.0)
    weighted = cells * residuals
    if not matrix:
        return count, mean, (weighted * residuals).sum(0)
    return count, mean, xp.matmul(weighted.T, residuals)
