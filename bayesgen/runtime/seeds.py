"""Seeds: an integer or a JAX key, always explicit."""

from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError
from bayesgen.typing import Float, Int, PRNGKeyArray, Seed


def as_key(seed: Seed) -> PRNGKeyArray:
    """An integer seed or a JAX key as a key.

    Raises:
        DataError: another value.
    """
    check_seed(seed)
    if _is_key(seed):
        return jnp.asarray(seed) if isinstance(seed, np.ndarray) else seed
    with jax.enable_x64(True):  # else all but the lowest 32 bits would be dropped
        config: Any = jax.config
        if config.jax_default_prng_impl != "threefry2x32":
            return jax.random.key(int(seed))
        words = np.array([int(seed) >> 32 & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], np.uint32)
        # the same key, for which nothing is compiled
        return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def check_seed(seed: object) -> None:
    """Refuse a seed that is neither an integer of 64 bits nor a JAX key, without compiling."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and -(2**63) <= seed < 2**63:
        return
    if not _is_key(seed):
        raise DataError(f"seed must be an integer below 2**63 or one JAX key (jax.random.key), got {seed!r}.")


def _is_key(seed: object) -> TypeGuard[PRNGKeyArray]:
    """Whether this is one JAX key, of the new kind or of the old one (a vector of uint32)."""
    if not isinstance(seed, jax.Array | np.ndarray):
        return False
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return seed.ndim == 0
    return seed.dtype == "uint32" and seed.shape == jax.random.key_data(jax.random.key(0)).shape


def positions(
    rng: np.random.Generator, weights: Float[np.ndarray, "n S"], num_draws: int
) -> Int[np.ndarray, "draws n"]:
    """Draws of positions by weights, independent for each row of weights."""
    bounds = weights.cumsum(axis=1)
    uniform = rng.random((num_draws, len(weights))) * bounds[:, -1]
    draws = [np.searchsorted(limits, numbers, "right") for limits, numbers in zip(bounds, uniform.T, strict=True)]
    return np.minimum(np.array(draws, int).reshape(len(weights), num_draws).T, weights.shape[1] - 1)


def generator(key: PRNGKeyArray | np.random.Generator) -> np.random.Generator:
    """The NumPy generator seeded by a JAX key; a generator is returned as it is."""
    if isinstance(key, np.random.Generator):
        return key
    return np.random.Generator(np.random.PCG64(np.ravel(jax.random.key_data(key)).tolist()))
