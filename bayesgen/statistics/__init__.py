"""Sufficient statistics by NumPyro distribution type: summarize, merge, log-likelihood, row log-probabilities."""

from . import table as table
from .base import RowDensity, Statistic
from .exponential import ExponentialFamily
from .registry import Conditional, is_registered, read_conditional, register, registered_types
from .summaries import Moments, Summary, Sums

__all__ = [
    "Conditional",
    "ExponentialFamily",
    "Moments",
    "RowDensity",
    "Statistic",
    "Summary",
    "Sums",
    "is_registered",
    "read_conditional",
    "register",
    "registered_types",
]
