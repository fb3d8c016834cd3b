"""The gamma-Poisson distribution to all digits."""

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln

from bayesgen.statistics import log_rising
from bayesgen.typing import Array


class PreciseGammaPoisson(dist.GammaPoisson):
    """NumPyro's gamma-Poisson with its log probability by log-gammas: `betaln` there is good to 1e-6 only."""

    def log_prob(self, value: Array) -> Array:
        """Log probability of counts."""
        shape, rate = jnp.asarray(self.concentration), self.rate
        ratio = log_rising(shape, value) - gammaln(value + 1.0)
        return ratio - shape * jnp.log1p(1.0 / rate) - value * jnp.log1p(rate)
