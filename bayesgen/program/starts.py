"""Where searches for modes start: the origin of the unconstrained space, points around it, and draws from the prior."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.runtime import OwnedJit, as_key, generator
from bayesgen.typing import Array, Float, PRNGKeyArray, Seed, Shaped

from .arbitrary import arbitrary_value
from .base import Program
from .evaluation import unconstrain
from .messages import Message
from .tracing import sites_of

AROUND, DRAWS = 2, 8  # starts around the origin, and from the prior
FAST_TO_COMPILE = {"xla_backend_optimization_level": 0}  # it runs once a fit, for milliseconds


def dispersed_starts(program: Program, seed: Seed, num_draws: int = DRAWS) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it and draws from the prior. Inside float64.

    The prior knows of modes that are too far from the origin to be seen from there.
    """
    rng = generator(as_key(seed))
    draws = np.asarray(_prior_draws(program, jax.random.key(int(rng.integers(2**31))), num_draws))
    return dispersed(draws, rng)


def dispersed(
    draws: Float[np.ndarray, "draws D"], key: PRNGKeyArray | np.random.Generator
) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it, and draws from a prior."""
    rng = generator(key)
    around = rng.normal(size=(AROUND, draws.shape[1]))
    # a draw may round to the end of its support, which is infinitely far away in unconstrained coordinates
    draws = np.where(np.isfinite(draws), draws, rng.normal(size=draws.shape))
    return np.concatenate([np.zeros((1, draws.shape[1])), around, draws])


@functools.partial(OwnedJit, static_argnames="num_draws", compiler_options=FAST_TO_COMPILE)
def _prior_draws(program: Program, key: PRNGKeyArray, num_draws: int) -> Float[Array, "draws D"]:
    """Draws from the prior in unconstrained coordinates."""
    return jax.vmap(functools.partial(_prior_draw, program))(jax.random.split(key, num_draws))


def _prior_draw(program: Program, key: PRNGKeyArray) -> Float[Array, " D"]:

    def choose(message: Message) -> Shaped[Array, "..."]:
        """A draw of a latent site; anything for what follows from these, and where no draws can be made."""
        distribution, key_of_site = message["fn"], message["kwargs"]["rng_key"]
        if message["name"] in program.latents:
            try:
                return distribution.sample(key_of_site)
            except NotImplementedError:  # an improper prior
                pass
        return arbitrary_value(distribution, key_of_site)

    num_classes = program.num_classes
    trace = sites_of(program.unchanged_function, num_classes, program.example_covariates(num_classes), key, choose)
    free = unconstrain(program, {name: trace[name]["value"] for name in program.latents})
    return jnp.concatenate([jnp.ravel(free[name]) for name in program.latents])
