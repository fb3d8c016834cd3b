"""From NumPyro distributions to statistics: the open table, and the reading of a traced distribution."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from numpyro.distributions.distribution import ExpandedDistribution, Independent, MaskedDistribution

from .base import Statistic


@dataclasses.dataclass(frozen=True)
class Registration:
    """How one NumPyro distribution type is read.

    Attributes:
        statistic: a `Statistic`, or a function from the distribution to one.
        parameters: distribution -> dict of the arrays that are learned.
        inert: distribution -> dict of the arrays that enter the data's side only, or None.
        event_dims: number of event axes of each parameter (0 where not stated).
    """

    statistic: Statistic | Callable
    parameters: Callable
    inert: Callable | None = None
    event_dims: Mapping[str, int] = dataclasses.field(default_factory=dict)


_TABLE: dict[type, Registration] = {}


def register(distribution_type, statistic, parameters, *, inert=None, event_dims=None):
    """Teach bayesgen the sufficient statistic of a distribution type, so that programs with it are compressed.

    Args:
        distribution_type: a `numpyro.distributions.Distribution` subclass; subclasses of it are not covered.
        statistic: a `Statistic` such as `ExponentialFamily(...)`, or a function distribution -> `Statistic`.
        parameters: function distribution -> {name: array}, what `statistic` takes as parameters.
        inert: function distribution -> {name: array}, parameters of the base measure that may differ from row
            to row but must not depend on any latent (a binomial's total count).
        event_dims: number of event axes of each of these arrays, where that is not 0.

    The half-Cauchy is no exponential family; the Rayleigh distribution is:

    >>> import numpyro.distributions as dist, jax.numpy as jnp
    >>> from bayesgen.statistics import ExponentialFamily, register
    >>> rayleigh = ExponentialFamily(
    ...     statistics=lambda x, inert: (x**2,),
    ...     natural=lambda p: (-0.5 / p["scale"] ** 2,),
    ...     log_partition=lambda p: 2 * jnp.log(p["scale"]),
    ...     log_base=lambda x, inert: jnp.log(x),
    ... )
    >>> class Rayleigh(dist.Weibull):
    ...     def __init__(self, scale):
    ...         super().__init__(scale * 2**0.5, 2.0)
    >>> register(Rayleigh, rayleigh, lambda d: {"scale": d.scale / 2**0.5})
    """
    _TABLE[distribution_type] = Registration(statistic, parameters, inert, event_dims or {})


@dataclasses.dataclass(frozen=True)
class Conditional:
    """K class-conditional distributions (or n rowwise ones) of one site, read into arrays.

    Attributes:
        statistic: what can be done with them.
        parameters: name -> (K, *extra, *event).
        inert: name -> (K, *extra, *event), see `register`.
        mask: (K, *extra) booleans, or None.
    """

    statistic: Statistic
    parameters: dict[str, Any]
    inert: dict[str, Any]
    mask: Any = None

    def log_likelihood(self, summary):
        """Log-likelihood of a summary, a scalar."""
        each = self.statistic.log_likelihood(self.parameters, summary)
        return (each if self.mask is None else jnp.where(self.mask, each, 0.0)).sum()


def read_conditional(distribution, axis):
    """Read a site's distribution into a `Conditional`, or None where no statistic is registered for it.

    Args:
        distribution: NumPyro distribution, possibly wrapped by `to_event`, `expand` and `mask`.
        axis: position of the instance plate among the batch axes (negative).
    """
    leaf, mask = _unwrap(distribution)
    registration = _TABLE.get(type(leaf))
    if registration is None:
        return None
    num_extra = len(distribution.event_shape) - len(leaf.event_shape)
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape[:num_extra])
    position = len(distribution.batch_shape) + axis

    def arrange(array, event_dim=0):
        array = jnp.asarray(array)
        event = array.shape[array.ndim - event_dim :]
        return jnp.moveaxis(jnp.broadcast_to(array, shape + event), position, 0)

    def arrange_all(arrays):
        return {name: arrange(array, registration.event_dims.get(name, 0)) for name, array in arrays.items()}

    statistic = registration.statistic
    return Conditional(
        statistic if isinstance(statistic, Statistic) else statistic(leaf),
        arrange_all(registration.parameters(leaf)),
        arrange_all(registration.inert(leaf)) if registration.inert else {},
        None if mask is None else arrange(mask),
    )


def _unwrap(distribution):
    """Strip `to_event`, `expand` and `mask`; return the bare distribution and the mask (trailing axes added)."""
    mask = None
    while isinstance(distribution, Independent | ExpandedDistribution | MaskedDistribution):
        if isinstance(distribution, MaskedDistribution):
            mask = _combine(mask, distribution._mask)
        inner = distribution.base_dist
        if isinstance(distribution, Independent) and mask is not None:
            mask = jnp.reshape(mask, jnp.shape(mask) + (1,) * distribution.reinterpreted_batch_ndims)
        distribution = inner
    return distribution, mask


def _combine(mask, other):
    other = jnp.asarray(other)
    return other if mask is None else mask & other


def is_registered(distribution_type):
    """Whether a statistic is registered for exactly this type."""
    return distribution_type in _TABLE


def registered_types():
    """The NumPyro distribution types that have a statistic."""
    return tuple(_TABLE)
