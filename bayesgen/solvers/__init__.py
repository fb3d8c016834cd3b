"""Searches for modes and samplers of log densities."""

from .adapted import sample_adapted
from .optimize import (
    as_arrays,
    constrain_draws,
    flatten,
    maximize,
    num_free,
    parameters_at,
    posterior_density,
    surface_of,
)
from .sampler import lowered, sample_whitened
from .stepping import surface_by_steps
from .whitening import SEVERAL_MODES, expected, identity, laplace

__all__ = [
    "SEVERAL_MODES",
    "as_arrays",
    "constrain_draws",
    "expected",
    "flatten",
    "identity",
    "laplace",
    "lowered",
    "maximize",
    "num_free",
    "parameters_at",
    "posterior_density",
    "sample_adapted",
    "sample_whitened",
    "surface_by_steps",
    "surface_of",
]
