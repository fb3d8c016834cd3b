"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .ascent import Ascent, Coordinates, ascend
from .attempts import Attempt, Chains, Settings, sample, unwhitened, whitened_at_mode
from .evaluator import evaluator_of
from .maximize import climb, maximize

__all__ = [
    "Ascent",
    "Attempt",
    "Chains",
    "Coordinates",
    "Settings",
    "ascend",
    "climb",
    "evaluator_of",
    "maximize",
    "sample",
    "unwhitened",
    "whitened_at_mode",
]
