"""Predictive distributions of a number, one a row: normal, Student-t, mixtures, and normalised on a grid."""

from .base import PredictiveDistribution, StackedPredictive, deferred, joined_predictives
from .grid import GridPredictive
from .parametric import MixturePredictive, NormalPredictive, StudentTPredictive
from .quadrature import LogFunction
from .supports import Line, Support, WholeNumbers

__all__ = [
    "GridPredictive",
    "Line",
    "LogFunction",
    "MixturePredictive",
    "NormalPredictive",
    "PredictiveDistribution",
    "StackedPredictive",
    "StudentTPredictive",
    "Support",
    "WholeNumbers",
    "deferred",
    "joined_predictives",
]
