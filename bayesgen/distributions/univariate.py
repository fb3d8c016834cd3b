"""Univariate distributions: chi, and gamma-Poisson to all digits."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import promote_shapes, validate_sample

from bayesgen.statistics import log_rising
from bayesgen.typing import Array, Float, PRNGKeyArray, Real


class PreciseGammaPoisson(dist.GammaPoisson):
    """NumPyro's gamma-Poisson with log probabilities to all digits; NumPyro's are accurate to 1e-6 only."""

    def log_prob(self, value: Array) -> Array:
        shape, rate = jnp.asarray(self.concentration), self.rate
        ratio = log_rising(shape, value) - gammaln(value + 1.0)
        return ratio - shape * jnp.log1p(1.0 / rate) - value * jnp.log1p(rate)


class Chi(dist.Distribution):
    """A positive number whose square over scale^2 has a chi-squared distribution with df degrees of freedom.

    p(x) = 2 x^(df - 1) exp(-x^2 / (2 scale^2)) / (2^(df / 2) gamma(df / 2) scale^df).

    If a matrix of independent Normal(0, scale) entries has n columns and is made lower triangular, with a positive
    diagonal, by an orthogonal matrix from the right, the entries below the diagonal stay normal, and the j-th on it has
    n - j + 1 degrees of freedom (Bartlett 1933, On the theory of statistical regression).

    Args:
        df: degrees of freedom, > 0.
        scale: > 0.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive, "scale": constraints.positive}
    support = constraints.positive

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

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        assert key is not None
        shape = (*sample_shape, *self.batch_shape)
        return self.scale * jnp.sqrt(2 * jax.random.gamma(key, 0.5 * jnp.asarray(self.df), shape))

    @validate_sample
    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        standard, half = value / self.scale, 0.5 * self.df
        constant = (half - 1) * jnp.log(2.0) + gammaln(half) + jnp.log(self.scale)
        return (self.df - 1) * jnp.log(standard) - 0.5 * standard**2 - constant
