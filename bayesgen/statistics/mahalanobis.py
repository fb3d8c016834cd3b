"""Squared Mahalanobis distances of rows from all classes at once: one matrix product a site."""

from typing import Any, NamedTuple

from .arrays import inverse_lower, log_diagonal, namespace


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
    """Parameters with their `Whitening` added, for evaluation on many chunks of rows."""
    return {**parameters, "whitening": _whitening(parameters)}


def squared_distances(parameters, values):
    """Squared distances (n, K, m) of rows, half log-determinants (K, m), and the dimension D.

    `parameters` hold `loc` (K, *extra, D) and `scale_tril` (K, *extra, D, D); prepared ones their `Whitening` too.
    """
    xp = namespace(parameters["loc"], values)
    center, maps, half_log_det = parameters["whitening"] if "whitening" in parameters else _whitening(parameters)
    (extra, dimension), num_classes = center.shape, len(half_log_det)
    rows = values.reshape(-1, extra, dimension) - center
    ones = xp.ones((len(rows), 1))
    squares = []
    for index in range(extra):
        whitened = xp.concatenate([rows[:, index], ones], 1) @ maps[index]
        whitened = whitened.reshape(-1, num_classes, dimension)
        squares.append(xp.einsum("nkd,nkd->nk", whitened, whitened))
    return xp.stack(squares, -1), half_log_det, dimension


def _whitening(parameters):
    xp = namespace(parameters["loc"])
    num_classes, dimension = len(parameters["loc"]), parameters["loc"].shape[-1]
    loc = parameters["loc"].reshape(num_classes, -1, dimension)
    inverse = inverse_lower(parameters["scale_tril"]).reshape(*loc.shape, dimension)
    center = loc.mean(0)
    shift = xp.einsum("kmij,kmj->mki", inverse, center - loc)
    linear = xp.transpose(inverse, (1, 3, 0, 2))  # (m, D, K, D), the last axis whitened
    maps = xp.concatenate([linear, shift[:, None]], 1)
    return Whitening(center, maps.reshape(*maps.shape[:2], -1), -log_diagonal(inverse))
