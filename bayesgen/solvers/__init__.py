"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .ascent import Ascent, FreeCoordinates, ascend
from .attempts import Chains, Settings, laplace, sample, sample_together
from .curvature import AffineMap, Whitened, constrained, curvature_at
from .maximize import FAR_OUT, MOST_DECOMPOSED, Optimum, Status, climb, find_supremum, maximize
from .quasi_newton import CoordinateAxes as CoordinateAxes
from .quasi_newton import advance_climb, along, begin_climb, evaluator_of
from .sampler import ChainDraws
from .trajectory import MAX_DEPTH as MAX_DEPTH

__all__ = [
    "FAR_OUT",
    "MOST_DECOMPOSED",
    "AffineMap",
    "Ascent",
    "ChainDraws",
    "Chains",
    "FreeCoordinates",
    "Optimum",
    "Settings",
    "Status",
    "Whitened",
    "advance_climb",
    "along",
    "ascend",
    "begin_climb",
    "climb",
    "constrained",
    "curvature_at",
    "evaluator_of",
    "find_supremum",
    "laplace",
    "maximize",
    "sample",
    "sample_together",
]
