"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .ascent import Ascent, Coordinates, ascend
from .attempts import Attempt, Chains, Settings, sample, unwhitened, whitened_at_mode
from .curvature import curvature_at, evaluator_of
from .maximize import climb, maximize
from .rise import Rise, rise
from .whitening import Whitened, Whitening

__all__ = [
    "Ascent",
    "Attempt",
    "Chains",
    "Coordinates",
    "Rise",
    "Settings",
    "Whitened",
    "Whitening",
    "ascend",
    "climb",
    "curvature_at",
    "evaluator_of",
    "maximize",
    "rise",
    "sample",
    "unwhitened",
    "whitened_at_mode",
]
