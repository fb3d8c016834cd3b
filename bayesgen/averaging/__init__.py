"""Averaging over structures: several fits of the same data become one."""

from .average import AverageModel, average
from .fit import AverageFit
from .left_out import check_trained_on as check_trained_on

__all__ = ["AverageFit", "AverageModel", "average"]
