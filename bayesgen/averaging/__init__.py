"""Averaging over structures: several fits of the same data become one."""

from .average import AverageModel, average
from .fit import AverageFit

__all__ = ["AverageFit", "AverageModel", "average"]
