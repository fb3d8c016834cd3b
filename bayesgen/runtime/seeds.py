"""Seeds: an integer or a JAX key, always explicit."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError

SMALLEST, LARGEST = -(2**63), 2**63 - 1


def as_key(seed):
    """An integer seed or a JAX key as a key.

    Raises:
        DataError: what is neither.
    """
    check_seed(seed)
    if _is_key(seed):
        return seed
    with jax.enable_x64(True):  # else all but the lowest 32 bits would be dropped
        return jax.random.key(int(seed))


def check_seed(seed):
    """Refuse what is neither an integer of 64 bits nor a JAX key; nothing is compiled for it."""
    is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not _is_key(seed) and not (is_integer and SMALLEST <= seed <= LARGEST):
        raise DataError(f"seed must be an integer below 2**63 or one JAX key (jax.random.key), got {seed!r}.")


def _is_key(seed):
    """Whether this is one JAX key, of the new kind or of the old one (a vector of uint32)."""
    if not isinstance(seed, jax.Array | np.ndarray):
        return False
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return seed.ndim == 0
    return seed.dtype == "uint32" and seed.shape == jax.random.key_data(jax.random.key(0)).shape


def generator(key):
    """The NumPy generator that a JAX key stands for; a generator passes, so that several draws can share one."""
    if isinstance(key, np.random.Generator):
        return key
    return np.random.Generator(np.random.PCG64(np.ravel(jax.random.key_data(key)).tolist()))
