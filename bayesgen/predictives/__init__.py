"""Predictive distributions of a number, one a row: normal, Student-t, mixtures, and normalised on a grid."""

from .base import PredictiveDistribution, find_roots
from .grid import GridPredictive, Line, LogJoint, predictive_on_grid
from .joined import DeferredPredictive, JoinedPredictive, joined_predictives
from .location_scale import LocationScale, NormalPredictive, StudentTPredictive
from .mixture import MixturePredictive

__all__ = [
    "DeferredPredictive",
    "GridPredictive",
    "JoinedPredictive",
    "Line",
    "LocationScale",
    "LogJoint",
    "MixturePredictive",
    "NormalPredictive",
    "PredictiveDistribution",
    "StudentTPredictive",
    "find_roots",
    "joined_predictives",
    "predictive_on_grid",
]
