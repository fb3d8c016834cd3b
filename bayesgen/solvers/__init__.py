"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .ascent import Ascent, Coordinates, ascend
from .attempts import Chains, Settings, sample
from .curvature import AffineMap, Whitened, curvature_at
from .maximize import FAR_OUT, MOST_DECOMPOSED, Optimum, Status, climb, find_supremum, maximize
from .quasi_newton import evaluator_of

__all__ = [
    "FAR_OUT",
    "MOST_DECOMPOSED",
    "AffineMap",
    "Ascent",
    "Chains",
    "Coordinates",
    "Optimum",
    "Settings",
    "Status",
    "Whitened",
    "ascend",
    "climb",
    "curvature_at",
    "evaluator_of",
    "find_supremum",
    "maximize",
    "sample",
]
