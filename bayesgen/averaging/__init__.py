"""Averaging over structures: several fits of the same data become one."""

from .average import average
from .mixture import AverageFit

__all__ = ["AverageFit", "average"]
