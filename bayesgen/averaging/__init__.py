"""Averaging over structures: several fits of the same data become one."""

from .average import average
from .fit import AverageFit
from .model import AverageModel

__all__ = ["AverageFit", "AverageModel", "average"]
