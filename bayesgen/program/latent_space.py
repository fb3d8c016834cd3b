"""The unconstrained space of latent sites: the coordinates in which modes are looked for and posteriors are sampled.

They are NumPyro's own, but for probabilities and rates with small concentrations. Beta(0.01, 0.01) has most of its
mass within 1e-16 of 0 and of 1, where 1 - p cannot be told from 0; in log odds u it reaches out to hundreds, in tails
that fall by 0.01 a unit, beside walls that are as steep as there are data. So the densities of these sites are computed
from the logarithms of p and of 1 - p, which follow from the coordinate to the last digit, and the coordinate is v, with
u = v + v**3 / 3: in it, a tail that falls by b a unit falls like exp(-b v**3 / 3), and walls are not far away.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln
from numpyro.distributions.distribution import ExpandedDistribution, Independent
from numpyro.distributions.transforms import biject_to

STEEP = 0.25  # a tail that falls by this or more a unit needs no stretching
HALVINGS = 100
NEAR_ZERO, NEAR_ONE = -700.0, 36.0  # log odds beyond which a probability, or 1 less it, is no longer resolved


class Point(NamedTuple):
    """A latent site at an unconstrained value.

    Attributes:
        value: that of the site.
        log_prob: log density of the value, summed over the site.
        log_jacobian: that of the value by the unconstrained one.
        at_pole: whether the value is so near to a pole of the density that it does not resolve how near.
    """

    value: Any
    log_prob: Any
    log_jacobian: Any
    at_pole: Any = False


def at_free(distribution: dist.Distribution, free: Any) -> Point:
    """The `Point` of a site with this distribution at an unconstrained value."""
    transform, prior = biject_to(distribution.support), _with_poles(distribution)
    if prior is None:
        value = transform(free)
        log_jacobian = jnp.sum(transform.log_abs_det_jacobian(free, value))
        return Point(value, distribution.log_prob(value).sum(), log_jacobian)
    coordinate = prior.stretch(free)
    log_prob, log_jacobian = prior.log_density(coordinate)
    slope, at_pole = jnp.log(prior.stretch.slope(free)), prior.at_pole(coordinate).any()
    return Point(transform(coordinate), log_prob.sum(), log_jacobian.sum() + slope.sum(), at_pole)


def free_of(distribution: dist.Distribution, value: Any) -> Any:
    """The unconstrained value at which a site with this distribution has a value."""
    coordinate, prior = biject_to(distribution.support).inv(value), _with_poles(distribution)
    return coordinate if prior is None else prior.stretch.inverse(coordinate)


class _Stretch(NamedTuple):
    """The map v -> v + c v**3 / 3, elementwise, with a coefficient c from 0 to 1 on either side of zero."""

    left: Any
    right: Any

    @classmethod
    def of_tails(cls, left, right):
        """The map for tails that fall by so much a unit: steep ones stay as they are."""
        return cls(*(jnp.maximum(1 - jnp.minimum(fall, STEEP) / STEEP, 0.0) for fall in (left, right)))

    def _coefficient(self, free):
        return jnp.where(free < 0, self.left, self.right)

    def __call__(self, free):
        return free + self._coefficient(free) * free**3 / 3

    def slope(self, free):
        """The derivative."""
        return 1 + self._coefficient(free) * free**2

    def inverse(self, coordinate):
        """By bisection: the map takes everything away from zero."""
        end = jnp.abs(coordinate)

        def halve(_, ends):
            low, high = ends
            middle = 0.5 * (low + high)
            above = self(middle) > coordinate
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        return jax.lax.fori_loop(0, HALVINGS, halve, (-end, end))[0]


class _WithPoles(abc.ABC):
    """A distribution whose density may have poles at the ends of its range, in a coordinate without ends."""

    fall: tuple[Any, Any]
    """By how much the tails fall a unit of the coordinate, on the left and on the right; below 1 there is a pole."""

    @property
    def stretch(self):
        """From unconstrained values to the coordinate."""
        return _Stretch.of_tails(*self.fall)

    def at_pole(self, coordinate):
        """Whether the value at a coordinate is nearer to a pole than floating point resolves."""
        left, right = self.fall
        return ((left < 1) & (coordinate < NEAR_ZERO)) | ((right < 1) & (coordinate > NEAR_ONE))

    @abc.abstractmethod
    def log_density(self, coordinate):
        """Log density of the value at a coordinate, and the log-Jacobian of the value by the coordinate."""


class _Beta(_WithPoles):
    """The coordinate is the log odds."""

    def __init__(self, prior: dist.Beta):
        self.one, self.zero = prior.concentration1, prior.concentration0
        self.fall = self.one, self.zero

    def log_density(self, coordinate):
        log_one, log_zero = log_sigmoid(coordinate), log_sigmoid(-coordinate)
        constant = gammaln(self.one + self.zero) - gammaln(self.one) - gammaln(self.zero)
        return (self.one - 1) * log_one + (self.zero - 1) * log_zero + constant, log_one + log_zero


class _Dirichlet(_WithPoles):
    """The coordinates are the log odds of breaking a stick, which NumPyro shifts: zeros are equal parts."""

    def __init__(self, prior: dist.Dirichlet):
        self.alpha = prior.concentration
        left = jnp.flip(jnp.cumsum(jnp.flip(self.alpha, -1), -1), -1)
        self.fall = self.alpha[..., :-1], left[..., 1:]

    def log_density(self, coordinate):
        size = coordinate.shape[-1]
        log_odds = coordinate - jnp.log(size - jnp.arange(size))
        log_broken, log_left = log_sigmoid(log_odds), log_sigmoid(-log_odds)
        edge = [(0, 0)] * (coordinate.ndim - 1)
        log_probs = jnp.pad(log_broken, [*edge, (0, 1)]) + jnp.pad(jnp.cumsum(log_left, -1), [*edge, (1, 0)])
        constant = gammaln(self.alpha.sum(-1)) - gammaln(self.alpha).sum(-1)
        return ((self.alpha - 1) * log_probs).sum(-1) + constant, log_probs[..., :-1] + log_left


class _Gamma(_WithPoles):
    """The coordinate is the logarithm. Its right tail falls ever faster."""

    def __init__(self, prior: dist.Gamma):
        self.shape, self.rate = prior.concentration, prior.rate
        self.fall = self.shape, jnp.inf

    def log_density(self, coordinate):
        constant = self.shape * jnp.log(self.rate) - gammaln(self.shape)
        return (self.shape - 1) * coordinate - self.rate * jnp.exp(coordinate) + constant, coordinate


_WITH_POLES: dict[type[dist.Distribution], type] = {dist.Beta: _Beta, dist.Dirichlet: _Dirichlet, dist.Gamma: _Gamma}


def _with_poles(distribution) -> _WithPoles | None:
    """What is known of a distribution whose density may have poles; None for others."""
    leaf = distribution
    while isinstance(leaf, Independent | ExpandedDistribution):
        leaf = leaf.base_dist
    known = _WITH_POLES.get(type(leaf))
    return None if known is None else known(leaf)
