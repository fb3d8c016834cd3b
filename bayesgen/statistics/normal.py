"""Normal distributions: centred moments, and densities of rows."""

import dataclasses
import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Bool, Real

from .arrays import flatten_rows, inverse_lower, log_diagonal, namespace, precise
from .base import Statistic
from .linear import middle
from .mahalanobis import squared_distances, with_whitening
from .missing import fill, refuse_missing
from .moments import class_moments
from .passes import Classes
from .summaries import Moments, trailing

LOG_2PI = math.log(2 * math.pi)


@dataclasses.dataclass(frozen=True)
class NormalStatistic(Statistic):
    """Independent normal columns. Parameters: `loc`, `scale`, each (K, *extra).

    With `log_scale`, the columns are log-normal: the logarithms are normal, and the log-Jacobian is in the base.
    """

    log_scale: bool = False

    @property
    def takes_squares(self):  # type: ignore[override]
        """Of the values, not of their logarithms."""
        return not self.log_scale

    def summarize(
        self,
        values: Real[Array, " n *extra"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, " n *extra"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Moments:
        """Centred moments of each column by class. See `Statistic.summarize`."""
        values = values if observed is None else fill(values, observed)
        rows = flatten_rows(namespace(values).log(precise(values)) if self.log_scale else values)
        mask = None if observed is None else flatten_rows(observed)
        moments = class_moments(rows, classes, num_classes, weights, observed=mask)
        base = moments.log_base - trailing(moments.count, 2) * moments.mean if self.log_scale else moments.log_base
        shape = (num_classes, *values.shape[1:])
        count = moments.count if observed is None else moments.count.reshape(shape)
        return Moments(count, moments.mean.reshape(shape), moments.scatter.reshape(shape), base.reshape(shape))

    def log_likelihood(self, parameters, summary):
        """-n log(scale) - n/2 log(2 pi) - (scatter + n (mean - loc)^2) / (2 scale^2), per class and column."""
        loc, scale = parameters["loc"], parameters["scale"]
        count = trailing(summary.count, loc.ndim)
        residual = summary.scatter / scale**2 + count * ((summary.mean - loc) / scale) ** 2
        return summary.log_base - count * (jnp.log(scale) + 0.5 * LOG_2PI) - 0.5 * residual

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        xp = namespace(parameters["loc"], values)
        rows, base = flatten_rows(values), 0.0
        if self.log_scale:
            rows = xp.log(rows)
            base = -rows.sum(-1)
        loc, scale = (flatten_rows(parameters[name]) for name in ("loc", "scale"))
        constant = -xp.log(scale).sum(-1) - 0.5 * LOG_2PI * loc.shape[-1]
        columns = rows.T.copy()  # sums over columns are then sums of long vectors
        squares = [scaled_squares(columns, loc[k], 1 / scale[k]).sum(0) for k in range(len(loc))]
        return constant - 0.5 * xp.stack(squares, -1) + xp.reshape(base, (-1, 1))

    def frame(self, parameters):
        """Locations and scales in the middle of the draws."""
        return tuple(middle(each) for each in _flat(parameters))

    def weights(self, frame, parameters):
        """Of columns, and of their squares, in units of the frame."""
        (center, unit), (loc, scale) = frame, _flat(parameters)
        shift, precision = (loc - center) / unit, (unit / scale) ** 2
        constant = jnp.log(unit / scale).sum(-1) - 0.5 * (precision * shift**2).sum(-1)
        weights = jnp.concatenate([precision * shift, 0.5 - 0.5 * precision], -1)
        return weights, constant

    def features(self, frame, values):
        """Columns in units of the frame, and their squares."""
        center, unit = frame
        columns = flatten_rows(jnp.log(values) if self.log_scale else values).T
        whitened = (columns - center[..., None]) / unit[..., None]
        base = columns.sum(0) if self.log_scale else 0.0
        return _standard(whitened, jnp.log(unit).sum(-1)) - base, jnp.concatenate([whitened, whitened**2], 1)


def scaled_squares(columns, center, factor, out=None):
    """((columns - center) * factor) ** 2 of (D, n) columns, in the memory of one array: `out`, if it is given."""
    squares = columns - center[:, None] if out is None else np.subtract(columns, center[:, None], out=out)
    squares *= factor[:, None]
    squares *= squares
    return squares


def _flat(parameters):
    """Locations and scales, (draws, K, columns)."""
    return tuple(parameters[name].reshape(*parameters[name].shape[:2], -1) for name in ("loc", "scale"))


def _standard(whitened, log_det):
    """Log densities (K, n) of columns (K, D, n) that were whitened by a factor of this log-determinant (K,)."""
    return -0.5 * ((whitened**2).sum(1) + LOG_2PI * whitened.shape[1]) - log_det[:, None]


@dataclasses.dataclass(frozen=True)
class MultivariateNormalStatistic(Statistic):
    """Jointly normal columns. Parameters: `loc` (K, *extra, D) and `scale_tril` (K, *extra, D, D)."""

    takes_squares = True

    def summarize(
        self,
        values: Real[Array, "n *extra D"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n *extra D"] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Moments:
        """Centred moments and cross products by class. See `Statistic.summarize`."""
        if observed is not None:
            refuse_missing("a multivariate normal distribution")
        extra, dimension = values.shape[1:-1], values.shape[-1]
        blocks = values.reshape(len(values), math.prod(extra), dimension)
        parts = [
            class_moments(blocks[:, index], classes, num_classes, weights, matrix=True)
            for index in range(blocks.shape[1])
        ]
        xp = namespace(parts[0].mean)
        mean, scatter = (xp.stack(arrays, 1) for arrays in zip(*((p.mean, p.scatter) for p in parts), strict=True))
        return Moments(
            parts[0].count,
            mean.reshape(num_classes, *extra, dimension),
            scatter.reshape(num_classes, *extra, dimension, dimension),
            xp.zeros((num_classes, *extra)),
        )

    def log_likelihood(self, parameters, summary):
        """-n log|L| - nD/2 log(2 pi) - tr(inv(L) (scatter + n d d') inv(L)') / 2, with d = mean - loc."""
        whiten = inverse_lower(jnp.asarray(parameters["scale_tril"]))
        count = trailing(summary.count, whiten.ndim - 2)
        shift = jnp.einsum("...ij,...j->...i", whiten, summary.mean - parameters["loc"])
        spread = jnp.einsum("...ij,...jk,...ik->...", whiten, summary.scatter, whiten)
        half_log_det = log_diagonal(parameters["scale_tril"])
        constant = count * (half_log_det + 0.5 * LOG_2PI * shift.shape[-1])
        return summary.log_base - constant - 0.5 * (spread + count * (shift**2).sum(-1))

    def prepare(self, parameters):
        """Invert the Cholesky factors once."""
        return with_whitening(parameters)

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        squares, half_log_det, dimension = squared_distances(parameters, values)
        return (-0.5 * (squares + LOG_2PI * dimension) - half_log_det[None]).sum(-1)

    def frame(self, parameters):
        """Means in the middle of the draws, Cholesky factors there, and their inverses."""
        center, unit = (middle(each) for each in _joint(parameters))
        return center, unit, inverse_lower(unit)

    def weights(self, frame, parameters):
        """Of columns, and of products of two, whitened by the frame."""
        (center, unit, whiten), (loc, factor) = frame, _joint(parameters)
        dimension = loc.shape[-1]
        maps = inverse_lower(factor) @ unit  # from what the frame has whitened to what the process has
        shift = jnp.einsum("kmij,skmj->skmi", whiten, loc - center)
        precision = jnp.einsum("skmij,skmil->skmjl", maps, maps)
        slope = jnp.einsum("skmij,skmj->skmi", precision, shift)
        constant = (log_diagonal(maps) - 0.5 * (slope * shift).sum(-1)).sum(-1)
        first, second, halves = _pairs(dimension)
        squares = halves * (jnp.eye(dimension) - precision)[..., first, second]
        return jnp.concatenate([part.reshape(*constant.shape, -1) for part in (slope, squares)], -1), constant

    def features(self, frame, values):
        """Columns whitened by the frame, and products of two."""
        center, _, whiten = frame
        num_classes, _, dimension = center.shape
        columns = jnp.moveaxis(values.reshape(len(values), *center.shape[1:]), 0, -1)
        whitened = jnp.einsum("kmij,kmjn->kmin", whiten, columns - center[..., None])
        first, second, _ = _pairs(dimension)
        products = whitened[:, :, first] * whitened[:, :, second]
        whitened, products = (part.reshape(num_classes, -1, len(values)) for part in (whitened, products))
        return _standard(whitened, -log_diagonal(whiten).sum(-1)), jnp.concatenate([whitened, products], 1)


def _joint(parameters):
    """Means (draws, K, m, D) and Cholesky factors (draws, K, m, D, D), extra axes flattened into one."""
    loc, factor = parameters["loc"], parameters["scale_tril"]
    shape = (*loc.shape[:2], math.prod(loc.shape[2:-1]), loc.shape[-1])
    return loc.reshape(shape), factor.reshape(*shape, shape[-1])


def _pairs(dimension):
    """Pairs of columns, and by what a quadratic form weighs their products."""
    first, second = np.triu_indices(dimension)
    return first, second, np.where(first == second, 0.5, 1.0)
