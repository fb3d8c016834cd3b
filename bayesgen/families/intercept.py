"""The prior of an intercept given all else: normal, or flat where it weighs nothing."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import AffineTransform, Transform, biject_to

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray, Real


class RealAbout(Constraint):
    """The real numbers, whose unconstrained coordinate is the distance from a point."""

    is_discrete = False
    event_dim = 0

    def __init__(self, point: Real[Array, "..."]) -> None:
        self.point = point

    def __call__(self, x: Real[Array, "..."]) -> Bool[Array, "..."]:
        """Whether they are numbers, and finite."""
        return constraints.real(x)

    def feasible_like(self, prototype: Real[Array, "..."]) -> Float[Array, "..."]:
        """Zeros."""
        return jnp.zeros_like(prototype)

    def tree_flatten(self) -> tuple[tuple[Array], tuple[tuple[str], dict[str, str]]]:
        """The point is a leaf."""
        return (self.point,), (("point",), {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RealAbout) and self.point is other.point

    __hash__ = object.__hash__


@biject_to.register(RealAbout)
def _from_distance(support: RealAbout) -> Transform:
    return AffineTransform(support.point, 1.0, domain=constraints.real)


class InterceptPrior(dist.Distribution):
    """Normal(loc, variance / kappa), and where kappa is 0 flat, with density 1: of that there are no draws.

    Args:
        loc: its mean.
        variance: of the noise.
        kappa: what it weighs, in rows.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real,
        "noise_variance": constraints.positive,
        "kappa": constraints.nonnegative,
    }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """All numbers, looked at from the location: far from 0, what coefficients say of it counts for nothing then."""
        return RealAbout(self.loc)

    def __init__(
        self, loc: Real[Array, "*#batch"], noise_variance: Float[Array, "*#batch"], kappa: Float[Array, "*#batch"]
    ) -> None:
        self.loc, self.noise_variance, self.kappa = loc, noise_variance, kappa
        super().__init__(jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(noise_variance), jnp.shape(kappa)))

    @property
    def mean(self) -> Float[Array, "*batch"]:
        """Its location, where there is a mean and where it is flat."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """Its variance; where it is flat, that of one row, by which to tell its scale."""
        return jnp.broadcast_to(self.noise_variance / jnp.where(self.kappa > 0, self.kappa, 1.0), self.batch_shape)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws of this shape, and then that of the batch."""
        assert key is not None
        if not isinstance(self.kappa, jax.core.Tracer) and (jnp.asarray(self.kappa) == 0).any():
            raise ModelError(
                "The intercept is flat (kappa=0), and of a flat prior there are no draws. Give kappa a positive "
                "number, or simulate from a fit."
            )
        normal = jax.random.normal(key, (*sample_shape, *self.batch_shape))
        return jnp.where(self.kappa > 0, self.loc + jnp.sqrt(self.variance) * normal, jnp.nan)

    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        """Log density: 0 where it is flat."""
        variance = self.variance
        normal = -0.5 * ((value - self.loc) ** 2 / variance + jnp.log(variance) + math.log(2 * math.pi))
        return jnp.where(self.kappa > 0, normal, 0.0)
