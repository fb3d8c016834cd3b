"""From NumPyro distributions to statistics: the open table, and the reading of a traced distribution."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from numpyro.distributions.distribution import Distribution, ExpandedDistribution, Independent, MaskedDistribution

from bayesgen.typing import Array, Bool, Float, Real, Shaped

from .base import Statistic
from .summaries import Summary


@dataclasses.dataclass(frozen=True)
class Registration:
    """How one NumPyro distribution type is read.

    Attributes:
        statistic: a `Statistic`, or a function from the distribution to one, or to None where it has none.
        parameters: distribution -> dict of the arrays that are learned.
        inert: distribution -> dict of the arrays that enter the data's side only, or None.
        event_dims: number of event axes of each parameter (0 where not stated), or a function from the distribution
            to these numbers.
    """

    statistic: Statistic | Callable[[Any], Statistic | None]
    parameters: Callable[[Any], dict[str, Any]]
    inert: Callable[[Any], dict[str, Any]] | None = None
    event_dims: Mapping[str, int] | Callable[[Any], Mapping[str, int]] = dataclasses.field(default_factory=dict)


_TABLE: dict[type, Registration] = {}


def register(
    distribution_type: type[Distribution],
    statistic: Statistic | Callable[[Any], Statistic | None],
    parameters: Callable[[Any], dict[str, Any]],
    *,
    inert: Callable[[Any], dict[str, Any]] | None = None,
    event_dims: Mapping[str, int] | Callable[[Any], Mapping[str, int]] | None = None,
) -> None:
    """Teach bayesgen the sufficient statistic of a distribution type, so that programs with it are compressed.

    Args:
        distribution_type: a `numpyro.distributions.Distribution` subclass; subclasses of it are not covered.
        statistic: a `Statistic` such as `ExponentialFamily(...)`, or a function distribution -> `Statistic`, or None
            where this distribution, because of what it is made of, has no statistic.
        parameters: function distribution -> {name: array}, what `statistic` takes as parameters.
        inert: function distribution -> {name: array}, parameters of the base measure that may differ from row
            to row but must not depend on any latent (a binomial's total count).
        event_dims: number of event axes of each of these arrays, where that is not 0; or a function distribution ->
            these numbers.

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
        parameters: by name; then extra axes, then those of events.
        inert: likewise, see `register`.
        mask: of what counts; None where all does.
    """

    statistic: Statistic
    parameters: dict[str, Real[Array, "K ..."]]
    inert: dict[str, Shaped[Array, "K ..."]]
    mask: Bool[Array, " K *extra"] | None = None

    def log_likelihood(self, summary: Summary) -> Float[Array, ""]:
        """Log-likelihood of a summary."""
        terms = self.statistic.log_likelihood(self.parameters, summary)
        return jnp.asarray(terms if self.mask is None else jnp.where(self.mask, terms, 0.0)).sum()


def read_conditional(distribution: Distribution, axis: int) -> Conditional | None:
    """Read a site's distribution into a `Conditional`, or None where it has no registered statistic.

    Args:
        distribution: NumPyro distribution, possibly wrapped by `to_event`, `expand` and `mask`.
        axis: position of the instance plate among the batch axes (negative).
    """
    leaf, mask = _unwrap(distribution)
    registration = _TABLE.get(type(leaf))
    if registration is None:
        return None
    known = registration.statistic
    statistic = known if isinstance(known, Statistic) else known(leaf)
    if statistic is None:
        return None
    event_dims = registration.event_dims(leaf) if callable(registration.event_dims) else registration.event_dims
    num_extra = len(distribution.event_shape) - len(leaf.event_shape)
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape[:num_extra])
    position = len(distribution.batch_shape) + axis

    def arrange(array: Shaped[Array, "..."], event_dim: int = 0) -> Any:
        array = jnp.asarray(array)
        event = array.shape[array.ndim - event_dim :]
        return jnp.moveaxis(jnp.broadcast_to(array, shape + event), position, 0)

    def arrange_all(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: arrange(array, event_dims.get(name, 0)) for name, array in arrays.items()}

    return Conditional(
        statistic,
        arrange_all(registration.parameters(leaf)),
        arrange_all(registration.inert(leaf)) if registration.inert else {},
        None if mask is None else arrange(mask),
    )


def _unwrap(distribution: Distribution) -> tuple[Any, Any]:
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


def _combine(mask: Any, other: Any) -> Bool[Array, "..."]:
    return jnp.asarray(other) if mask is None else mask & jnp.asarray(other)


def is_registered(distribution_type: type) -> bool:
    """Whether a statistic is registered for exactly this type."""
    return distribution_type in _TABLE


def registered_types() -> tuple[type, ...]:
    """The NumPyro distribution types that have a statistic."""
    return tuple(_TABLE)
