"""Normal distributions: centred moments, and densities of rows."""

import dataclasses
import math
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record, static
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import Cells, flatten_rows, inverse_lower, log_diagonal, namespace, patterns_of, precise
from .base import Parameters, Statistic
from .densities import Reference, RowDensity
from .mahalanobis import Ellipsoids, restricted
from .missing import filled
from .moments import class_moments
from .passes import Classes
from .summaries import Moments, PatternMoments, trailing

LOG_2PI = math.log(2 * math.pi)
MOST_FOR_MIDDLE = 101  # draws of which the middle is taken


@dataclasses.dataclass(frozen=True)
class NormalStatistic(Statistic):
    """Independent normal columns. Parameters: `loc`, `scale`, each (K, *extra).

    With `log_scale`, the columns are log-normal: the logarithms are normal, and the log-Jacobian is in the base.
    """

    log_scale: bool = False

    @property
    def takes_squares(self) -> bool:  # type: ignore[override]
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
        values = values if observed is None else filled(values, observed)
        rows = flatten_rows(namespace(values).log(precise(values)) if self.log_scale else values)
        mask = None if observed is None else flatten_rows(observed)
        moments = class_moments(rows, classes, num_classes, weights, observed=mask)
        base = moments.log_base - trailing(moments.count, 2) * moments.mean if self.log_scale else moments.log_base
        shape = (num_classes, *values.shape[1:])
        count = moments.count if observed is None else moments.count.reshape(shape)
        return Moments(count, moments.mean.reshape(shape), moments.scatter.reshape(shape), base.reshape(shape))

    def log_likelihood(self, parameters: Parameters, summary: Moments) -> Float[Array, " K *extra"]:  # type: ignore[override]
        """-n log(scale) - n/2 log(2 pi) - (scatter + n (mean - loc)^2) / (2 scale^2), per class and column."""
        loc, scale = parameters["loc"], parameters["scale"]
        count = trailing(summary.count, loc.ndim)
        residual = summary.scatter / scale**2 + count * ((summary.mean - loc) / scale) ** 2
        return summary.log_base - count * (jnp.log(scale) + 0.5 * LOG_2PI) - 0.5 * residual

    def density(self, parameters: Parameters) -> "NormalDensity":
        """Locations and scales, the columns in one axis."""
        loc, scale = (flatten_rows(parameters[name]) for name in ("loc", "scale"))
        return NormalDensity(loc, scale, self.log_scale)

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> "NormalReference":
        """Locations and scales in the middle of the draws."""
        loc, scale = _columns(parameters)
        return NormalReference(middle(loc), middle(scale), self.log_scale)


@record
class NormalDensity(RowDensity):
    """Densities of rows of independent normal (or log-normal) columns."""

    loc: Float[Array, "K m"]
    scale: Float[Array, "K m"]
    log_scale: bool = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        xp = namespace(self.loc, values, observed)
        rows, base = flatten_rows(values if observed is None else filled(values, observed)), 0.0
        mask = None if observed is None else flatten_rows(observed)
        if self.log_scale:
            rows = xp.log(rows)
            base = -(rows if mask is None else xp.where(mask, rows, 0.0)).sum(-1)
        constant = -xp.log(self.scale).sum(-1) - 0.5 * LOG_2PI * self.loc.shape[-1]
        if mask is not None:
            constant = -mask.astype(float) @ (xp.log(self.scale) + 0.5 * LOG_2PI).T
        columns = rows.T.copy()  # sums over columns are then sums of long vectors
        squares = [column_sums(scaled_squares(columns, *of_class), mask) for of_class in self._units()]
        return constant - 0.5 * xp.stack(squares, -1) + xp.reshape(base, (-1, 1))

    def _units(self) -> Iterator[tuple[Float[Array, " m"], Float[Array, " m"]]]:
        """What `scaled_squares` takes, class by class."""
        return zip(self.loc, 1 / self.scale, strict=True)


@record
class NormalReference(Reference):
    """Independent normal columns: features are the columns in units of the reference, and their squares."""

    loc: Float[Array, "K m"]
    scale: Float[Array, "K m"]
    log_scale: bool = static()

    def natural_parameters(
        self, parameters: Mapping[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        """Of columns and of their squares; and the log-partitions with the sign turned."""
        loc, scale = _columns(parameters)
        shift, precision = (loc - self.loc) / self.scale, (self.scale / scale) ** 2
        constant = jnp.log(self.scale / scale).sum(-1) - 0.5 * (precision * shift**2).sum(-1)
        return jnp.concatenate([precision * shift, 0.5 - 0.5 * precision], -1), constant

    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        """Log densities of rows under the reference, and their features."""
        columns = flatten_rows(jnp.log(values) if self.log_scale else values).T
        whitened = (columns - self.loc[..., None]) / self.scale[..., None]
        base = columns.sum(0) if self.log_scale else 0.0
        return _standard(whitened, jnp.log(self.scale).sum(-1)) - base, jnp.concatenate([whitened, whitened**2], 1)


def few(draws: Float[Array, "draws ..."]) -> Float[Array, "few ..."]:
    """Some of the draws, spread evenly: enough to say where the middle is."""
    return draws[:: -(-len(draws) // MOST_FOR_MIDDLE)]


def middle(draws: Float[Array, " draws *shape"]) -> Float[Array, " *shape"]:
    """A value amid those of the draws: their median, which outliers do not move."""
    return jnp.median(few(draws), axis=0)


def scaled_squares(
    columns: Float[Array, "D n"],
    center: Float[Array, " D"],
    factor: Float[Array, " D"],
    out: Float[np.ndarray, "D n"] | None = None,
) -> Float[Array, "D n"]:
    """((columns - center) * factor) ** 2, in the memory of one array: `out`, if it is given."""
    squares = columns - center[:, None] if out is None else np.subtract(columns, center[:, None], out=out)
    squares *= factor[:, None]
    squares *= squares
    return squares


def column_sums(cells: Float[Array, "D n"], observed: Bool[Array, "n D"] | None) -> Float[Array, " n"]:
    """Sums over the columns that are there."""
    return (cells if observed is None else namespace(cells, observed).where(observed.T, cells, 0.0)).sum(0)


def _columns(
    parameters: Mapping[str, Float[Array, "draws K ..."]],
) -> tuple[Float[Array, "draws K m"], Float[Array, "draws K m"]]:
    """Locations and scales, the columns in one axis."""
    loc, scale = (parameters[name].reshape(*parameters[name].shape[:2], -1) for name in ("loc", "scale"))
    return loc, scale


def _standard(whitened: Float[Array, "K D n"], log_det: Float[Array, " K"]) -> Float[Array, "K n"]:
    """Log densities of columns that were whitened by a factor of this log-determinant."""
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
    ) -> Moments | PatternMoments:
        """Centred moments and cross products by class. See `Statistic.summarize`.

        Where cells are missing, they are those of each pattern of cells that are there; then the mask is a NumPy array,
        when this is traced, too.
        """
        if observed is not None:
            return self._by_pattern(filled(values, observed, 0.0), classes, num_classes, weights, observed)
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

    def _by_pattern(
        self,
        values: Real[Array, " n *cells"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None,
        observed: Bool[Array, " n *cells"],
    ) -> PatternMoments:
        """Summarise the rows of each pattern; zeros stand in for the missing cells."""
        patterns, of_row = patterns_of(observed)
        parts = []
        for index in range(len(patterns)):
            rows = np.flatnonzero(of_row == index)
            of_rows = None if weights is None else weights[rows]
            parts.append(self.summarize(values[rows], classes[rows], num_classes, of_rows))
        if not parts:
            parts, patterns = [self.summarize(values, classes, num_classes)], np.ones((1, *values.shape[1:]), bool)
        return PatternMoments(patterns, jax.tree.map(lambda *arrays: namespace(*arrays).stack(arrays), *parts))

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Moments | PatternMoments
    ) -> Float[Array, " K *extra"]:
        """Of the summarised cells, pattern by pattern where some are missing."""
        loc, scale_tril = (jnp.asarray(parameters[name]) for name in ("loc", "scale_tril"))
        if isinstance(summary, Moments):
            return self._log_likelihood(loc, scale_tril, summary, loc.shape[-1])

        def of_pattern(observed: Bool[Array, " *extra D"], moments: Moments) -> Float[Array, " K *extra"]:
            return self._log_likelihood(*restricted(loc, scale_tril, observed), moments, observed.sum(-1))

        return jax.vmap(of_pattern)(jnp.asarray(summary.observed), summary.moments).sum(0)

    def _log_likelihood(
        self,
        loc: Float[Array, " K *extra D"],
        scale_tril: Float[Array, " K *extra D D"],
        summary: Moments,
        dimension: int | Int[Array, " *extra"],
    ) -> Float[Array, " K *extra"]:
        """-n log|L| - nD/2 log(2 pi) - tr(inv(L) (scatter + n d d') inv(L)') / 2, with d = mean - loc."""
        whiten = inverse_lower(scale_tril)
        count = trailing(summary.count, whiten.ndim - 2)
        shift = jnp.einsum("...ij,...j->...i", whiten, summary.mean - loc)
        spread = jnp.einsum("...ij,...jk,...ik->...", whiten, summary.scatter, whiten)
        half_log_det = log_diagonal(scale_tril)
        constant = count * (half_log_det + 0.5 * LOG_2PI * dimension)
        return summary.log_base - constant - 0.5 * (spread + count * (shift**2).sum(-1))

    def density(self, parameters: Parameters) -> "MultivariateNormalDensity":
        """Invert the Cholesky factors once."""
        return MultivariateNormalDensity(Ellipsoids.of(parameters["loc"], parameters["scale_tril"]))

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> "MultivariateNormalReference":
        """Means in the middle of the draws, Cholesky factors there, and their inverses."""
        loc, scale_tril = (middle(draws) for draws in _joint(parameters))
        return MultivariateNormalReference(loc, scale_tril, inverse_lower(scale_tril))


@record
class MultivariateNormalDensity(RowDensity):
    """Densities of jointly normal rows, or of the columns of each that are there."""

    ellipsoids: Ellipsoids

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        distances = self.ellipsoids.distances(values, observed)
        return (-0.5 * (distances.squares + LOG_2PI * distances.dimension) - distances.half_log_det).sum(-1)


@record
class MultivariateNormalReference(Reference):
    """Jointly normal columns: features are the columns whitened by the reference, and products of two."""

    loc: Float[Array, "K m D"]
    scale_tril: Float[Array, "K m D D"]
    inverse: Float[Array, "K m D D"]

    def natural_parameters(
        self, parameters: Mapping[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        """Of columns and of products of two; and the log-partitions with the sign turned."""
        loc, factor = _joint(parameters)
        dimension = loc.shape[-1]
        maps = inverse_lower(factor) @ self.scale_tril  # from what the reference has whitened to what the process has
        shift = jnp.einsum("kmij,skmj->skmi", self.inverse, loc - self.loc)
        precision = jnp.einsum("skmij,skmil->skmjl", maps, maps)
        slope = jnp.einsum("skmij,skmj->skmi", precision, shift)
        constant = (log_diagonal(maps) - 0.5 * (slope * shift).sum(-1)).sum(-1)
        first, second, halves = _pairs(dimension)
        squares = halves * (jnp.eye(dimension) - precision)[..., first, second]
        return jnp.concatenate([part.reshape(*constant.shape, -1) for part in (slope, squares)], -1), constant

    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        """Log densities of rows under the reference, and their features."""
        num_classes, _, dimension = self.loc.shape
        columns = jnp.moveaxis(values.reshape(len(values), *self.loc.shape[1:]), 0, -1)
        whitened = jnp.einsum("kmij,kmjn->kmin", self.inverse, columns - self.loc[..., None])
        first, second, _ = _pairs(dimension)
        products = whitened[:, :, first] * whitened[:, :, second]
        whitened, products = (part.reshape(num_classes, -1, len(values)) for part in (whitened, products))
        return _standard(whitened, -log_diagonal(self.inverse).sum(-1)), jnp.concatenate([whitened, products], 1)


def _joint(
    parameters: Mapping[str, Float[Array, "draws K ..."]],
) -> tuple[Float[Array, "draws K m D"], Float[Array, "draws K m D D"]]:
    """Means and Cholesky factors, extra axes flattened into one."""
    loc, factor = parameters["loc"], parameters["scale_tril"]
    shape = (*loc.shape[:2], math.prod(loc.shape[2:-1]), loc.shape[-1])
    return loc.reshape(shape), factor.reshape(*shape, shape[-1])


def _pairs(dimension: int) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Pairs of columns, and by what a quadratic form weighs their products."""
    first, second = np.triu_indices(dimension)
    return first, second, np.where(first == second, 0.5, 1.0)
