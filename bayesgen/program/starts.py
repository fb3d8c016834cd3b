"""Where searches for modes, and chains, start."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesgen.runtime import OwnedJit, as_key, generator
from bayesgen.statistics import innermost
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Seed

from .arbitrary import arbitrary_numbers, arbitrary_trace, center_and_scale
from .messages import Message, base_support
from .structure import Program

STARTS_NEAR_ORIGIN, PRIOR_STARTS = 2, 8  # numbers of starts


def dispersed_starts(program: Program, seed: Seed, num_draws: int = PRIOR_STARTS) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it and points about the means of the prior.

    Points that know of the prior reach modes that climbs from the origin do not. Inside float64.
    """
    rng = generator(as_key(seed))
    points = [
        _about_prior_means.by_numpy(program, arbitrary_numbers(rng), rng.integers(2**31)) for _ in range(num_draws)
    ]
    return dispersed(np.stack(points), rng)


def dispersed(
    points: Float[np.ndarray, "points D"], key: PRNGKeyArray | np.random.Generator
) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it, and points that know of a prior."""
    rng = generator(key)
    around = rng.normal(size=(STARTS_NEAR_ORIGIN, points.shape[1]))
    # a value may round to the end of its support, where unconstrained coordinates are infinite
    points = np.where(np.isfinite(points), points, rng.normal(size=points.shape))
    return np.concatenate([np.zeros((1, points.shape[1])), around, points])


@OwnedJit
def _about_prior_means(program: Program, numbers: Float[Array, " numbers"], seed: Int[Array, ""]) -> Float[Array, " D"]:
    """Latents at random distances from their prior means, in NumPyro's unconstrained coordinates.

    Searches stretch some of these coordinates, which hardly moves points about a mean.
    """
    size = program.num_classes
    sites = arbitrary_trace(program, size, program.example_covariates(size), numbers)
    points = (_start_of(sites[name], seed + index) for index, name in enumerate(program.latents))
    return jnp.concatenate([jnp.ravel(point) for point in points])


def _start_of(site: Message, seed: Int[Array, ""]) -> Float[Array, "..."]:
    """An unconstrained value about the mean of a latent site; a draw from a mixture, whose mean may be far from modes.

    Samplers take seconds to compile, so that only mixtures are drawn from.
    """
    distribution, transform = site["fn"], biject_to(site["support"])
    if isinstance(innermost(distribution), dist.MixtureSameFamily | dist.MixtureGeneral):
        return transform.inv(distribution.sample(jax.random.key(seed)))
    free = transform.inv(site["value"])  # about the mean already where it is any real number
    if base_support(site["support"]) is constraints.real:
        return free
    mean, _ = center_and_scale(distribution)
    center = transform.inv(jnp.broadcast_to(mean, jnp.shape(site["value"])))
    return free + jnp.where(jnp.isfinite(center), center, 0.0)
