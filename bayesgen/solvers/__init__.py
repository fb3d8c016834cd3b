"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .ascent import Ascent, Coordinates, ascend
from .attempts import Attempt, Chains, Settings, sample, unwhitened, whitened_at_mode
from .curvature import curvature_at, evaluator_of
from .maximize import climb, maximize
from .supremum import Supremum, find_supremum
from .whitening import AffineMap, Whitened

__all__ = [
    "AffineMap",
    "Ascent",
    "Attempt",
    "Chains",
    "Coordinates",
    "Settings",
    "Supremum",
    "Whitened",
    "ascend",
    "climb",
    "curvature_at",
    "evaluator_of",
    "find_supremum",
    "maximize",
    "sample",
    "unwhitened",
    "whitened_at_mode",
]
