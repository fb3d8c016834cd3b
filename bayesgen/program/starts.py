"""Where searches for modes start: the origin of the unconstrained space, points around it, and draws from the prior."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesgen.runtime import OwnedJit, as_key, generator
from bayesgen.typing import Array, Float, PRNGKeyArray

from .arbitrary import arbitrary_value
from .evaluation import unconstrain
from .generative import GenerativeProgram
from .tracing import sites_of

AROUND, DRAWS = 2, 8  # starts around the origin, and from the prior
FAST_TO_COMPILE = {"xla_backend_optimization_level": 0}  # it runs once a fit, for milliseconds


def dispersed_starts(program: GenerativeProgram, seed: Any, num_draws: int = DRAWS) -> Float[np.ndarray, "starts D"]:
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
def _prior_draws(program: GenerativeProgram, key: PRNGKeyArray, num_draws: int) -> Float[Array, "draws D"]:
    """Draws from the prior in unconstrained coordinates."""
    return jax.vmap(functools.partial(_prior_draw, program))(jax.random.split(key, num_draws))


def _prior_draw(program: GenerativeProgram, key: PRNGKeyArray) -> Float[Array, " D"]:
    labels = jnp.arange(program.num_classes)
    covariates = program.example_covariates(program.num_classes)
    names = dict(program.structure.latents)

    def choose(site: dict[str, Any]) -> Any:
        """A draw of a latent site; anything for what follows from these, and where no draws can be made."""
        if site["type"] != "sample" or site["is_observed"]:
            return None
        if site["name"] in names:
            try:
                return site["fn"].sample(site["kwargs"]["rng_key"])
            except NotImplementedError:  # an improper prior
                pass
        return arbitrary_value(site, site["kwargs"]["rng_key"])

    function = handlers.substitute(handlers.seed(program.function, key), substitute_fn=choose)
    trace = sites_of(function, program.num_classes, covariates)
    latents = {name: trace[name]["value"] for name in names}
    free = unconstrain(program.function, program.structure, latents, labels, covariates)
    return jnp.concatenate([jnp.ravel(free[name]) for name in names])
