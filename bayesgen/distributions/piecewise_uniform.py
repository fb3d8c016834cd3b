"""The distribution of a histogram: flat within bins, with exponential tails beyond the ends."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax
from numpy.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesgen.errors import ModelError
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
from bayesgen.typing import Array, Float, PRNGKeyArray

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
    known = not any(isinstance(array, jax.core.Tracer) for array in (edges, tails))
    if not known or max(edges.ndim, tails.ndim) > 2:
        return HistogramLikelihood(num_bins)
    return HistogramLikelihood(num_bins, np.asarray(edges), np.asarray(tails))


register(
    PiecewiseUniform,
    _likelihood,
    lambda d: {"log_probs": jnp.log(d.probs), "edges": jnp.asarray(d.edges), "tails": jnp.asarray(d.scales)},
    event_dims={"log_probs": 1, "edges": 1, "tails": 1},
)
