"""Densities of the cells of an event that are there, for distributions whose events may be seen in part."""

import math

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesgen.statistics import restricted
from bayesgen.typing import Array, Bool, Float, Shaped

from .sequences import SequenceDistribution

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
JOINTLY_NORMAL = dist.MultivariateNormal | dist.LowRankMultivariateNormal


def innermost(distribution: dist.Distribution) -> dist.Distribution:
    """A distribution without what was wrapped around it: events, expansion, masks."""
    while isinstance(distribution, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution


def whole_axes(distribution: dist.Distribution) -> int:
    """How many last axes of a value are one event that has a density only as a whole.

    None where events are numbers, where they are jointly normal, whose parts have marginals, and where they are
    sequences, any step of which may be missing; but a step may be one event.
    """
    leaf = innermost(distribution)
    if isinstance(leaf, SequenceDistribution):
        return leaf.whole_step_axes
    return 0 if isinstance(leaf, JOINTLY_NORMAL) else len(leaf.event_shape)


def log_prob_of_cells(
    distribution: dist.Distribution, value: Shaped[Array, "..."], observed: Bool[Array, "..."]
) -> Float[Array, "..."]:
    """Log density of the cells that are there, elementwise over batch axes.

    Args:
        distribution: of the values.
        value: in cells that are missing, one that the distribution can take.
        observed: mask of the cells that are there, of the shape of the value.
    """
    if isinstance(distribution, dist.Independent):
        of_cells = log_prob_of_cells(distribution.base_dist, value, observed)
        return of_cells.sum(tuple(range(-distribution.reinterpreted_batch_ndims, 0)))
    if isinstance(distribution, dist.ExpandedDistribution):
        return log_prob_of_cells(distribution.base_dist, value, observed)
    if isinstance(distribution, dist.MaskedDistribution):
        return jnp.where(distribution._mask, log_prob_of_cells(distribution.base_dist, value, observed), 0.0)
    if isinstance(distribution, SequenceDistribution):
        return distribution.log_prob_of_cells(value, observed)
    if isinstance(distribution, JOINTLY_NORMAL):
        return _marginal(distribution, value, observed)
    events = tuple(range(-len(distribution.event_shape), 0))
    return jnp.where(observed.all(events), distribution.log_prob(value), 0.0)


def _marginal(
    distribution: dist.MultivariateNormal | dist.LowRankMultivariateNormal,
    value: Float[Array, "..."],
    observed: Bool[Array, "..."],
) -> Float[Array, "..."]:
    """Log density of the columns that are there: the others are made standard normal, and at zero."""
    loc, scale_tril = restricted(distribution.loc, distribution.scale_tril, observed)
    whole = dist.MultivariateNormal(loc, scale_tril=scale_tril).log_prob(jnp.where(observed, value, 0.0))
    return whole + HALF_LOG_2PI * (~observed).sum(-1)
