"""The unconstrained space of latent sites: the coordinates in which modes are looked for and posteriors are sampled.

They are NumPyro's own, but for probabilities and rates with small concentrations. Beta(0.01, 0.01) has most of its
mass within 1e-16 of 0 and of 1, where 1 - p cannot be told from 0; in log odds u it reaches out to hundreds, in tails
that fall by 0.01 a unit, beside walls that are as steep as there are data. So the densities of these sites are computed
from the logarithms of p and of 1 - p, which follow from the coordinate to the last digit, and the coordinate is v, with
u = v + v**3 / 3: in it, a tail that falls by b a unit falls like exp(-b v**3 / 3), and walls are not far away.
"""

import abc
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln
from numpyro.distributions.distribution import ExpandedDistribution, Independent
from numpyro.distributions.transforms import biject_to

from bayesgen.typing import Array, Bool, Float, Real

Fall: TypeAlias = Real[Array, "..."] | float  # by how much a tail falls a unit

STEEP = 0.25  # a tail that falls by this or more a unit needs no stretching
HALVINGS = 100
NEAR_ZERO, NEAR_ONE = -700.0, 36.0  # log odds beyond which a probability, or 1 less it, is no longer resolved


class LatentValue(NamedTuple):
    """A latent site at an unconstrained value.

    Attributes:
        value: that of the site.
        log_prob: log density of the value, summed over the site.
        log_jacobian: that of the value by the unconstrained one.
        at_pole: whether the value is so near to a pole of the density that it does not resolve how near.
    """

    value: Array
    log_prob: Float[Array, ""]
    log_jacobian: Float[Array, ""]
    at_pole: Bool[Array, ""] | bool = False


def at_free(distribution: dist.Distribution, free: Float[Array, "..."]) -> LatentValue:
    """The `LatentValue` of a site with this distribution at an unconstrained value."""
    transform, prior = biject_to(distribution.support), _with_poles(distribution)
    if prior is None:
        value = transform(free)
        return LatentValue(
            value, distribution.log_prob(value).sum(), jnp.sum(transform.log_abs_det_jacobian(free, value))
        )
    coordinate = prior.stretch(free)
    log_prob, log_jacobian = prior.log_density(coordinate)
    log_slope, at_pole = jnp.log(prior.stretch.slope(free)), jnp.any(prior.at_pole(coordinate))
    return LatentValue(transform(coordinate), log_prob.sum(), log_jacobian.sum() + log_slope.sum(), at_pole)


def free_of(distribution: dist.Distribution, value: Array) -> Float[Array, "..."]:
    """The unconstrained value at which a site with this distribution has a value; infinite at an edge of its range."""
    prior = _with_poles(distribution)
    if prior is None:
        return biject_to(distribution.support).inv(value)
    return prior.stretch.inverse(prior.coordinate_of(value))


class _Stretch(NamedTuple):
    """The map v -> v + c v**3 / 3, elementwise, with a coefficient c from 0 to 1 on either side of zero."""

    left: Real[Array, "..."]
    right: Real[Array, "..."]

    @classmethod
    def of_tails(cls, left: Fall, right: Fall) -> "_Stretch":
        """The map for tails that fall by so much a unit: steep ones stay as they are."""
        return cls(*(jnp.maximum(1 - jnp.minimum(fall, STEEP) / STEEP, 0.0) for fall in (left, right)))

    def _coefficient(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.where(free < 0, self.left, self.right)

    def __call__(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return free + self._coefficient(free) * free**3 / 3

    def slope(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The derivative."""
        return 1 + self._coefficient(free) * free**2

    def inverse(self, coordinate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """By bisection: the map takes everything away from zero, and leaves infinity where it is."""
        end = jnp.abs(coordinate)

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            above = self(middle) > coordinate
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        halved = jax.lax.fori_loop(0, HALVINGS, halve, (-end, end))[0]
        return jnp.where(jnp.isinf(coordinate), coordinate, halved)


class _WithPoles(abc.ABC):
    """A distribution whose density may have poles at the ends of its range, in a coordinate without ends."""

    fall: tuple[Fall, Fall]
    """By how much the tails fall a unit of the coordinate, on the left and on the right; below 1 there is a pole."""

    @property
    def stretch(self) -> _Stretch:
        """From unconstrained values to the coordinate."""
        return _Stretch.of_tails(*self.fall)

    def at_pole(self, coordinate: Float[Array, "..."]) -> Bool[Array, "..."]:
        """Whether the value at a coordinate is nearer to a pole than floating point resolves."""
        left, right = self.fall
        return ((left < 1) & (coordinate < NEAR_ZERO)) | ((right < 1) & (coordinate > NEAR_ONE))

    @abc.abstractmethod
    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        """The coordinate of a value: infinite at an end of the range, NaN where a value leaves it open."""

    @abc.abstractmethod
    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Log density of the value at a coordinate, and the log-Jacobian of the value by the coordinate."""


class _Beta(_WithPoles):
    """The coordinate is the log odds."""

    def __init__(self, prior: dist.Beta) -> None:
        self.fall = prior.concentration1, prior.concentration0

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        return jnp.log(value) - jnp.log1p(-value)

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        a, b = self.fall
        log_p, log_1_p = log_sigmoid(coordinate), log_sigmoid(-coordinate)
        constant = gammaln(a + b) - gammaln(a) - gammaln(b)
        return (a - 1) * log_p + (b - 1) * log_1_p + constant, log_p + log_1_p


class _Dirichlet(_WithPoles):
    """The coordinates are the log odds of breaking a stick, which NumPyro shifts: zeros are equal parts."""

    def __init__(self, prior: dist.Dirichlet) -> None:
        self.alpha = prior.concentration
        left = jnp.flip(jnp.cumsum(jnp.flip(self.alpha, -1), -1), -1)
        self.fall = self.alpha[..., :-1], left[..., 1:]

    def _shifts(self) -> Float[Array, " r"]:
        return jnp.log(jnp.arange(self.alpha.shape[-1] - 1, 0, -1))

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        left = jnp.flip(jnp.cumsum(jnp.flip(value, -1), -1), -1)
        return jnp.log(value[..., :-1]) - jnp.log(left[..., 1:]) + self._shifts()

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        log_odds = coordinate - self._shifts()
        log_broken, log_left = log_sigmoid(log_odds), log_sigmoid(-log_odds)
        edge = [(0, 0)] * (coordinate.ndim - 1)
        log_probs = jnp.pad(log_broken, [*edge, (0, 1)]) + jnp.pad(jnp.cumsum(log_left, -1), [*edge, (1, 0)])
        constant = gammaln(self.alpha.sum(-1)) - gammaln(self.alpha).sum(-1)
        return ((self.alpha - 1) * log_probs).sum(-1) + constant, log_probs[..., :-1] + log_left


class _Gamma(_WithPoles):
    """The coordinate is the logarithm. Its right tail falls ever faster."""

    def __init__(self, prior: dist.Gamma) -> None:
        self.shape, self.rate = prior.concentration, prior.rate
        self.fall = self.shape, jnp.inf

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        return jnp.log(value)

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        constant = self.shape * jnp.log(self.rate) - gammaln(self.shape)
        return (self.shape - 1) * coordinate - self.rate * jnp.exp(coordinate) + constant, coordinate


_WITH_POLES: dict[type[dist.Distribution], type[_WithPoles]] = {
    dist.Beta: _Beta,
    dist.Dirichlet: _Dirichlet,
    dist.Gamma: _Gamma,
}


def _with_poles(distribution: dist.Distribution) -> _WithPoles | None:
    """A distribution whose density may have poles, in a coordinate that resolves them; None for others."""
    while isinstance(distribution, Independent | ExpandedDistribution):
        distribution = distribution.base_dist
    coordinates: Any = _WITH_POLES.get(type(distribution))
    return None if coordinates is None else coordinates(distribution)
