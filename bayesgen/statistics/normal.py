"""Normal distributions: centred moments, and densities of rows."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from .arrays import flatten_rows, inverse_lower, log_diagonal, namespace, precise
from .base import Statistic
from .mahalanobis import squared_distances, with_whitening
from .moments import class_moments
from .summaries import Moments

LOG_2PI = math.log(2 * math.pi)


@dataclasses.dataclass(frozen=True)
class NormalStatistic(Statistic):
    """Independent normal columns. Parameters: `loc`, `scale`, each (K, *extra).

    With `log_scale`, the columns are log-normal: the logarithms are normal, and the log-Jacobian is in the base.
    """

    log_scale: bool = False

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Centred moments of each column by class. See `Statistic.summarize`."""
        rows = flatten_rows(np.log(precise(values)) if self.log_scale else values)
        moments = class_moments(rows, codes, num_classes, weights)
        base = moments.log_base - moments.count[:, None] * moments.mean if self.log_scale else moments.log_base
        shape = (num_classes, *values.shape[1:])
        return Moments(moments.count, moments.mean.reshape(shape), moments.scatter.reshape(shape), base.reshape(shape))

    def log_likelihood(self, parameters, summary):
        """-n log(scale) - n/2 log(2 pi) - (scatter + n (mean - loc)^2) / (2 scale^2), per class and column."""
        loc, scale = parameters["loc"], parameters["scale"]
        count = summary.count.reshape((-1,) + (1,) * (loc.ndim - 1))
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

    def row_log_prob_of_many(self, parameters, values):
        """Log density of rows, (draws, K, n): products of the columns and their squares with natural parameters."""
        xp = namespace(parameters["loc"], values)
        rows = flatten_rows(xp.log(values) if self.log_scale else values)
        shape = (*parameters["loc"].shape[:2], rows.shape[1])
        loc, scale = (parameters[name].reshape(shape) for name in ("loc", "scale"))
        base = -rows.sum(-1) if self.log_scale else 0.0
        return xp.stack([_of_one_class(loc[:, k], scale[:, k], rows) for k in range(shape[1])], 1) + base


def scaled_squares(columns, center, factor, out=None):
    """((columns - center) * factor) ** 2 of (D, n) columns, in the memory of one array: `out`, if it is given."""
    squares = columns - center[:, None] if out is None else np.subtract(columns, center[:, None], out=out)
    squares *= factor[:, None]
    squares *= squares
    return squares


def _of_one_class(loc, scale, rows):
    """Log densities of rows under many normal distributions of about one mean, (draws, n)."""
    xp, center = namespace(loc, rows), loc.mean(0)
    rows, shift, precision = rows - center, loc - center, 1 / scale**2
    constant = -xp.log(scale).sum(-1) - 0.5 * LOG_2PI * loc.shape[-1] - 0.5 * (precision * shift**2).sum(-1)
    weights = xp.concatenate([precision * shift, -0.5 * precision], 1)
    return weights @ xp.concatenate([rows, rows**2], 1).T + constant[:, None]


@dataclasses.dataclass(frozen=True)
class MultivariateNormalStatistic(Statistic):
    """Jointly normal columns. Parameters: `loc` (K, *extra, D) and `scale_tril` (K, *extra, D, D)."""

    def summarize(self, values, codes, num_classes, weights=None, inert=None):
        """Centred moments and cross products by class. See `Statistic.summarize`."""
        extra, dimension = values.shape[1:-1], values.shape[-1]
        blocks = values.reshape(len(values), math.prod(extra), dimension)
        parts = [
            class_moments(blocks[:, index], codes, num_classes, weights, matrix=True)
            for index in range(blocks.shape[1])
        ]
        mean, scatter = (np.stack([getattr(part, name) for part in parts], 1) for name in ("mean", "scatter"))
        return Moments(
            parts[0].count,
            mean.reshape(num_classes, *extra, dimension),
            scatter.reshape(num_classes, *extra, dimension, dimension),
            np.zeros((num_classes, *extra)),
        )

    def log_likelihood(self, parameters, summary):
        """-n log|L| - nD/2 log(2 pi) - tr(inv(L) (scatter + n d d') inv(L)') / 2, with d = mean - loc."""
        whiten = inverse_lower(jnp.asarray(parameters["scale_tril"]))
        count = summary.count.reshape((-1,) + (1,) * (whiten.ndim - 3))
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

    def row_log_prob_of_many(self, parameters, values):
        """Log density of rows, (draws, K, n): products of the columns, and of two of them, with natural parameters."""
        loc, scale_tril = parameters["loc"], parameters["scale_tril"]
        xp, dimension = namespace(loc, values), loc.shape[-1]
        shape = (*loc.shape[:2], math.prod(loc.shape[2:-1]), dimension)
        inverse = inverse_lower(scale_tril).reshape(*shape, dimension)
        loc, rows = loc.reshape(shape), values.reshape(len(values), *shape[2:])
        return xp.stack([_of_one_joint_class(loc[:, k], inverse[:, k], rows) for k in range(shape[1])], 1)


def _of_one_joint_class(loc, inverse, rows):
    """The same for multivariate normal distributions: means (draws, m, D), inverse Cholesky factors, rows (n, m, D)."""
    xp, center, dimension = namespace(loc, rows), loc.mean(0), loc.shape[-1]
    rows, shift = rows - center, loc - center
    precision = xp.einsum("smij,smik->smjk", inverse, inverse)
    linear = xp.einsum("smij,smj->smi", precision, shift)
    constant = log_diagonal(inverse) - 0.5 * (linear * shift).sum(-1) - 0.5 * LOG_2PI * dimension
    first, second = np.triu_indices(dimension)
    halves = np.where(first == second, -0.5, -1.0)
    features = xp.concatenate([rows, rows[..., first] * rows[..., second]], -1)
    weights = xp.concatenate([linear, halves * precision[..., first, second]], -1)
    return flatten_rows(weights) @ flatten_rows(features).T + constant.sum(-1)[:, None]
