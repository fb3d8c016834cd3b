"""Histograms: numbers in bins, flat within them, with exponential tails beyond the ends; and a Dirichlet prior."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax
from numpy.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesgen.data import Binned, Kind, Schema
from bayesgen.errors import ModelError, as_numbers
from bayesgen.records import fill, record, static
from bayesgen.runtime import compiled
from bayesgen.statistics import (
    HistogramLikelihood,
    bin_moments,
    bin_widths,
    excess,
    flat_edges,
    precise,
    quantiles,
    register,
)
from bayesgen.typing import Array, Category, Float, Int, PRNGKeyArray

from .base import ParameterTables, default_family
from .dirichlet import DirichletFamily
from .hyperparameters import Hyperparameter, Scale, Stated, as_number, check_positive, shown

_quantiles = jax.jit(quantiles)


class PiecewiseUniform(dist.Distribution):
    """Numbers in bins: a bin is chosen by its probability, and then a number evenly within it.

    Generative story::

        bin ~ Categorical(probs)
        x   ~ Uniform(edges[bin], edges[bin + 1])

    With `tails`, the density of an end bin is flat up to the end, and beyond it falls off as exp(-distance / tail). The
    tail of an infinite end starts at the inner edge of its bin. The density of bin j is
    probs[j] / (flat width + tail), so that each bin has its probability. Bins are half-open: an edge is in the bin that
    begins there, and the last edge in the last bin.

    Args:
        edges: (..., r + 1), increasing; with tails, the two ends may be infinite. In programs, give them as numbers
            (NumPy, a list): a site whose edges are computed by JAX has no sufficient statistics.
        probs: (..., r), probabilities of the bins.
        tails: (..., 2), scales of the tails at both ends; None means no tails, and a bounded support.

    Raises:
        ModelError: a number of probabilities that is not one less than that of the edges; tails that are not two finite
            numbers from 0; infinite ends without tails above 0.

    >>> x = PiecewiseUniform([0.0, 1.0, 3.0], np.array([0.5, 0.5]))
    >>> jnp.exp(x.log_prob(jnp.array([0.5, 1.0, 2.9]))).tolist()
    [0.5, 0.25, 0.25]
    """

    arg_constraints = {"probs": constraints.simplex}  # noqa: RUF012 - of a library that reads it
    pytree_data_fields = ("edges", "probs", "tails")

    def __init__(
        self, edges: ArrayLike, probs: ArrayLike, tails: ArrayLike | None = None, *, validate_args: bool | None = None
    ) -> None:
        # NumPy arrays stay NumPy arrays while a program is traced, so that rows can be summarised by them
        self.edges, self.tails = precise(edges), None if tails is None else precise(tails)
        self.probs = precise(probs)
        if not (self.edges.ndim and self.probs.ndim):
            raise ModelError("PiecewiseUniform: edges and probs are arrays, got a number.")
        if self.edges.shape[-1] != self.probs.shape[-1] + 1:
            raise ModelError(
                f"PiecewiseUniform: {self.edges.shape[-1]} edges are those of {self.edges.shape[-1] - 1} bins, and "
                f"there are {self.probs.shape[-1]} probabilities. Give one edge more than probabilities."
            )
        if isinstance(self.edges, np.ndarray) and not (np.diff(self.edges) > 0).all():
            raise ModelError("PiecewiseUniform: edges must increase.")
        self._check_tails()
        shapes = [self.edges.shape[:-1], self.probs.shape[:-1], () if self.tails is None else self.tails.shape[:-1]]
        super().__init__(batch_shape=lax.broadcast_shapes(*shapes), event_shape=(), validate_args=validate_args)

    def _check_tails(self) -> None:
        """Refuse invalid tails, unless they are traced."""
        if self.tails is not None and self.tails.shape[-1:] != (2,):
            raise ModelError("PiecewiseUniform: tails are two numbers, of both ends.")
        if isinstance(self.scales, jax.core.Tracer):
            return
        tails = np.asarray(self.scales)
        wrong = tails[~((tails >= 0) & (tails < np.inf))]
        if wrong.size:
            raise ModelError(f"PiecewiseUniform: tails must be finite and not negative, got {wrong[0]:g}.")
        if not isinstance(self.edges, jax.core.Tracer):
            ends = np.asarray(self.edges)[..., [0, -1]]
            if (np.isinf(ends) & (tails == 0)).any():
                raise ModelError(
                    "PiecewiseUniform: a bin with an infinite end needs a tail above 0. Give tails, or finite ends."
                )

    @property
    def scales(self) -> Float[Array, "... 2"]:
        """The tails, 0 where there are none."""
        return np.zeros(2) if self.tails is None else self.tails

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The real numbers, or an interval where there are no tails."""
        return (
            constraints.real
            if self.tails is not None
            else constraints.interval(self.edges[..., 0], self.edges[..., -1])
        )

    @validate_sample
    @compiled
    def log_prob(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        value, edges, scales = jnp.asarray(value), jnp.asarray(self.edges), jnp.asarray(self.scales)
        shape = jnp.broadcast_shapes(value.shape, self.batch_shape)
        heights = jnp.log(self.probs) - jnp.log(bin_widths(edges, scales))
        code = (value[..., None] >= edges[..., 1:-1]).sum(-1)
        heights = jnp.broadcast_to(heights, (*shape, heights.shape[-1]))
        chosen = jnp.take_along_axis(heights, jnp.broadcast_to(code, shape)[..., None], -1)[..., 0]
        return chosen - excess(value, edges, scales)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        assert key is not None
        return self.icdf(jax.random.uniform(key, (*sample_shape, *self.batch_shape)))

    @compiled
    def icdf(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        levels = jnp.broadcast_to(q, jnp.broadcast_shapes(jnp.shape(q), self.batch_shape))
        return _quantiles(levels, jnp.asarray(self.edges), jnp.asarray(self.probs), jnp.asarray(self.scales))

    @compiled
    def cdf(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        value, edges, scales = jnp.asarray(value), jnp.asarray(self.edges), jnp.asarray(self.scales)
        flat, heights = flat_edges(edges), self.probs / bin_widths(edges, scales)
        inside = jnp.clip(value[..., None] - flat[..., :-1], 0.0, jnp.diff(flat, axis=-1))
        left, right = scales[..., 0], scales[..., 1]
        below, above = (jnp.where(scale > 0, scale, 1.0) for scale in (left, right))
        in_left = left * jnp.exp(jnp.minimum(value - flat[..., 0], 0.0) / below)
        in_right = -right * jnp.expm1(-jnp.maximum(value - flat[..., -1], 0.0) / above)
        return (heights * inside).sum(-1) + heights[..., 0] * in_left + heights[..., -1] * in_right

    @property
    @compiled
    def mean(self) -> Float[Array, "..."]:
        means, _ = bin_moments(jnp.asarray(self.edges), jnp.asarray(self.scales))
        return (self.probs * means).sum(-1)

    @property
    @compiled
    def variance(self) -> Float[Array, "..."]:
        means, variances = bin_moments(jnp.asarray(self.edges), jnp.asarray(self.scales))
        return (self.probs * (variances + (means - self.mean[..., None]) ** 2)).sum(-1)


def _likelihood(distribution: PiecewiseUniform) -> HistogramLikelihood:
    """The likelihood, with edges and tails where these are numbers that all rows share."""
    edges, tails = distribution.edges, distribution.scales
    num_bins = distribution.probs.shape[-1]
    are_numbers = not any(isinstance(array, jax.core.Tracer) for array in (edges, tails))
    if not are_numbers or max(edges.ndim, tails.ndim) > 2:
        return HistogramLikelihood(num_bins)
    return HistogramLikelihood(num_bins, np.asarray(edges), np.asarray(tails))


register(
    PiecewiseUniform,
    _likelihood,
    lambda d: {"log_probs": jnp.log(d.probs), "edges": jnp.asarray(d.edges), "tails": jnp.asarray(d.scales)},
    event_dims={"log_probs": 1, "edges": 1, "tails": 1},
)


NO_EDGES = (
    "DirichletHistogram used alone has no training columns to find bins for: give edges, and tails where an end is "
    "infinite."
)


@record
class DirichletHistogram(DirichletFamily):
    """Columns of numbers in bins with a Dirichlet prior on the probabilities of the bins.

    Generative story::

        probs ~ Dirichlet(concentration)
        x     ~ PiecewiseUniform(edges, probs, tails)

    Densities and evidences refer to the numbers, not to their bins, so they can be compared with those of normal
    columns.

    Args:
        num_bins: number of bins, each with about the same number of training rows, where no edges are stated; None
            means 10.
        concentration: pseudo-counts, > 0; a scalar means equal ones.
        edges: the edges of the bins, the two ends included; None takes them from the training columns. A schema may
            declare them in place of the family, see `Binned`.
        tails: the scales of the exponential tails beyond both ends; None takes them from the training columns; a family
            used alone then has no tails.

    A family used alone needs edges, because no model tells it the bins.

    Raises:
        DataError: edges and tails that `Binned` refuses.
        ModelError: a family used alone without edges; edges or tails that differ from those of the schema.

    Source: Dougherty, Kohavi and Sahami (1995), Supervised and unsupervised discretization of continuous features.

    >>> posterior = DirichletHistogram(edges=[0, 1, 4]).update([0.2, 0.4, 3.0])
    >>> posterior.mean()["probs"].tolist()
    [0.6, 0.4]
    >>> round(float(posterior.predictive().log_prob(2.0)), 4)  # log(0.4 / 3)
    -2.0149
    """

    concentration: Hyperparameter
    edges: Hyperparameter
    tails: Hyperparameter
    num_bins: int = static()
    kind = Binned()

    def __init__(
        self,
        num_bins: int | None = None,
        concentration: Stated = 1.0,
        *,
        edges: Any = None,
        tails: Any = None,
    ) -> None:
        check_positive("DirichletHistogram", concentration=concentration)
        is_stated = num_bins is not None or edges is not None  # else a schema may say another number than the default
        table = None if edges is None else as_numbers("DirichletHistogram: edges", edges)
        if table is None or table.ndim < 2:  # else it is a table, one of a fit
            bins = Binned(num_bins, edges, tails)
            num_bins, edges, tails = bins.num_bins, bins.edges, bins.tails
        elif table.shape[-1] < 3:
            raise ModelError(f"DirichletHistogram: edges are at least three numbers, got the shape {table.shape}.")
        size, value = np.shape(edges)[-1] - 1 if num_bins is None else num_bins, as_number(concentration)
        if is_stated and isinstance(value, np.ndarray) and value.ndim and value.shape[-1] != size:
            raise ModelError(f"DirichletHistogram: concentration has length {value.shape[-1]}, of {size} bins.")
        if edges is not None and isinstance(value, np.ndarray) and not value.ndim:
            value = np.full(size, value)
        fill(self, concentration=value, edges=as_number(edges), tails=as_number(tails), num_bins=size)

    def __repr__(self) -> str:
        stated = [] if self.edges is not None else [str(self.num_bins)]
        stated += [f"{name}={shown(value)}" for name, value in self.hyperparameters.items() if value is not None]
        return f"DirichletHistogram({', '.join(stated)})"

    def kind_of_column(self, index: int) -> Kind:
        """The bins of a column of the block, as far as they are stated."""
        if np.ndim(self.edges) < 2:
            return Binned(self.num_bins, self.edges, self.tails)
        edges, tails = (table.reshape(-1, *table.shape[-2:])[0, index] for table in (self.edges, self.tails))
        return Binned(edges=edges, tails=tails)

    @property
    def unresolved(self) -> list[str]:
        return []

    def require_numbers(self, verb: str) -> None:
        """Refuse what every family refuses, and bins without edges."""
        super().require_numbers(verb)
        if self.edges is None:
            raise ModelError(NO_EDGES)

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D, r), and edges and tails likewise."""
        edges, tails = self._bins(scale)
        shape, length = scale.batch_shape, edges.shape[-1] - 1
        edges, tails = np.broadcast_to(edges, (*shape, length + 1)), np.broadcast_to(tails, (*shape, 2))
        return self._resolved(shape, length).replace(edges=edges, tails=tails, num_bins=length)

    def _bins(self, scale: Scale) -> tuple[Array, Array]:
        """The edges and tails: those of the columns, or those of the family where it is used alone."""
        if {"edges", "tails"}.intersection(self.hierarchical):
            self.require_numbers("a density within bins")
        if scale.edges is None or scale.tails is None:
            if self.edges is None:
                raise ModelError(NO_EDGES)
            if self.tails is None and np.isinf(self.edges).any():
                raise ModelError(
                    "DirichletHistogram used alone with an infinite end needs tails: its bin has no other width."
                )
            return self.edges, np.zeros(2) if self.tails is None else self.tails
        for name, stated, column_table in (("edges", self.edges, scale.edges), ("tails", self.tails, scale.tails)):
            if stated is not None and not _agree(stated, column_table):
                raise ModelError(
                    f"DirichletHistogram: its {name} are not those of its columns in the schema. State them once, in "
                    "Schema(kinds={column: Binned(...)}) or in the family."
                )
        return scale.edges, scale.tails

    @property
    def _bins_of_columns(self) -> tuple[Array, Array]:
        """Edges and tails without the axis of classes, which share them."""
        has_classes = len(self.batch_shape) == 3
        return (self.edges[0], self.tails[0]) if has_classes else (self.edges, self.tails)

    @property
    def likelihood(self) -> HistogramLikelihood:
        """Counts of each bin."""
        family = self if self.batch_shape is not None else self.resolve(Scale())
        edges, tails = family._bins_of_columns
        return HistogramLikelihood(self.num_bins, edges, tails)

    def predictive(self) -> dist.Distribution:
        """Piecewise uniform with the mean probabilities (exact for one row)."""
        self.require_numbers("predictive")
        probs, family = self.mean()["probs"], self if self.batch_shape is not None else self.resolve(Scale())
        has_tails = bool((family.tails > 0).any())
        return PiecewiseUniform(family.edges, probs, family.tails if has_tails else None)

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        edges, tails = self._bins_of_columns
        return PiecewiseUniform(edges, parameters["probs"][labels], tails).to_event(1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities, edges and tails of the bins."""
        return {**super().likelihood_parameters(parameters), "edges": self.edges, "tails": self.tails}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("class", "feature", "bin")}

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """The bins of a single column; numbers of bins where several columns have different ones."""
        bins = schema.bins(columns[0])
        names = range(bins.num_bins) if columns[1:] else list(bins.names)
        return {**super().axis_names(schema, columns), "bin": names}


def _agree(stated: Float[Array, "... edges"], of_columns: Float[Array, "D edges"]) -> bool:
    """Whether edges or tails, stated for all columns or for each, equal those of the columns."""
    columns = stated.shape[-2] if stated.ndim > 1 else 1
    same_shape = stated.shape[-1] == of_columns.shape[-1] and columns in (1, len(of_columns))
    return same_shape and bool((stated == of_columns).all())


default_family.register(Binned, lambda kind, is_sparse: DirichletHistogram())
