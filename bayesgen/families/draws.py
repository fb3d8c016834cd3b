"""Independent draws from NumPyro distributions, in float64, as NumPy arrays."""

import jax
import numpy as np


def sample_distribution(make, key, shape):
    """Draw `shape` samples from the distribution that `make()` builds inside float64."""
    with jax.enable_x64(True):
        return np.asarray(make().sample(key, tuple(shape)))
