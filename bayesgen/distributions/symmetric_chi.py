"""The chi distribution with a sign: diagonals of triangular factors of normal matrices."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import promote_shapes, validate_sample

from bayesgen.typing import Array, Float, PRNGKeyArray, Real


class SymmetricChi(dist.Distribution):
    """A number of either sign whose square over scale^2 has a chi-squared distribution with df degrees of freedom.

    p(x) = |x|^(df - 1) exp(-x^2 / (2 scale^2)) / (2^(df / 2) gamma(df / 2) scale^df); with df = 1 it is normal.

    If a matrix of independent Normal(0, scale) entries has n rows and is made lower triangular by an orthogonal matrix
    from the right, the entries below the diagonal stay normal, and the j-th on it has n - j + 1 degrees of freedom; its
    sign is arbitrary (Bartlett 1933, On the theory of statistical regression).

    Args:
        df: degrees of freedom, > 0.
        scale: > 0.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive, "scale": constraints.positive}
    support = constraints.real

    def __init__(
        self,
        df: Real[Array, "*#batch"] | float,
        scale: Real[Array, "*#batch"] | float = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.scale = promote_shapes(df, scale)
        batch_shape = jnp.broadcast_shapes(jnp.shape(df), jnp.shape(scale))
        super().__init__(batch_shape=batch_shape, event_shape=(), validate_args=validate_args)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        """Zero."""
        return jnp.zeros(self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """df * scale^2."""
        return jnp.broadcast_to(self.df * self.scale**2, self.batch_shape)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws of this shape, and then that of the batch."""
        assert key is not None
        of_sign, of_size = jax.random.split(key)
        shape = (*sample_shape, *self.batch_shape)
        sizes = jnp.sqrt(2 * jax.random.gamma(of_size, 0.5 * jnp.asarray(self.df), shape))
        return self.scale * jax.random.rademacher(of_sign, shape) * sizes

    @validate_sample
    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        """Log density; -inf at zero where there is more than one degree of freedom."""
        standard = value / self.scale
        half = 0.5 * self.df
        size = jnp.where(self.df == 1, 1.0, jnp.abs(standard))  # normal, with a slope at zero
        return (
            (self.df - 1) * jnp.log(size)
            - 0.5 * standard**2
            - half * jnp.log(2.0)
            - gammaln(half)
            - jnp.log(self.scale)
        )
