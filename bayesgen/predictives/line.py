"""The line on which a response is looked for: its support, stretched so that tails of any weight have ends."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.transforms import IdentityTransform, Transform, biject_to

from bayesgen.runtime import over_chunks
from bayesgen.typing import Array, Float, Shaped

CHUNK_VALUES = 4096
MIDDLE_HALF = 1.349  # of a standard normal: what lies between its quartiles


@dataclasses.dataclass(frozen=True)
class Line:
    """y = f(center + scale sinh(u)), where f maps the real line to the support of y, and u is the coordinate.

    Attributes:
        transform: f.
        center, scale: where y is before x is known, roughly, in coordinates without constraints.
    """

    transform: Transform
    center: float
    scale: float

    @classmethod
    def of(cls, support: constraints.Constraint, values: Float[np.ndarray, " m"]) -> "Line":
        """The line of a support, about values that the response may take."""
        transform = biject_to(support)
        with jax.enable_x64(True):
            free = np.asarray(transform.inv(jnp.asarray(values, float)))
        free = free[np.isfinite(free)]
        if not len(free):
            return cls(transform, 0.0, 1.0)
        low, middle, high = np.quantile(free, [0.25, 0.5, 0.75])
        return cls(transform, float(middle), float((high - low) / MIDDLE_HALF or max(abs(middle), 1.0)))

    @property
    def is_real(self) -> bool:
        """Whether y may be any number."""
        return isinstance(self.transform, IdentityTransform)

    def values(self, u: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """y at coordinates, and log |dy/du|; -inf where y is beyond what floating point holds."""
        with np.errstate(over="ignore", invalid="ignore"):
            free = self.center + self.scale * np.sinh(u)
            log_slope = np.log(self.scale) + np.logaddexp(u, -u) - np.log(2.0)
            if self.is_real:
                return free, log_slope
            y, jacobian, possible = _mapped(self._constrained, free)
            inside = possible & np.isfinite(y)
            middle = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
            return np.where(inside, y, middle), np.where(inside, log_slope + jacobian, -np.inf)

    def _constrained(self, free: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        y = self.transform(free)
        return y, self.transform.log_abs_det_jacobian(free, y), self.transform.codomain(y)

    def coordinates(self, y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Coordinates of values; infinite ones beyond the support."""
        if self.is_real:
            return np.arcsinh((y - self.center) / self.scale)
        (possible,) = _mapped(lambda values: (self.transform.codomain(values),), y)
        middle = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
        (free,) = _mapped(lambda values: (self.transform.inv(values),), np.where(possible, y, middle))
        u = np.arcsinh((free - self.center) / self.scale)
        return np.where(possible, u, np.where(y < middle, -np.inf, np.inf))


def _mapped(
    function: Callable[[Array], tuple[Array, ...]], values: Float[np.ndarray, "*shape"]
) -> tuple[Shaped[np.ndarray, "*shape"], ...]:
    """What JAX makes of values, at one size, because it compiles for each."""
    flat = np.asarray(values, np.float64).ravel()
    with jax.enable_x64(True):
        found = over_chunks(lambda part: function(jnp.asarray(part)), flat, len(flat), CHUNK_VALUES, one_size=True)
    return tuple(array.reshape(values.shape) for array in found)
