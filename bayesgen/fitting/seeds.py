"""Seeds: an integer or a JAX key, always explicit."""

import jax
import numpy as np


def as_key(seed):
    """An integer seed or a JAX key as a key."""
    return jax.random.key(seed) if isinstance(seed, int | np.integer) else seed
