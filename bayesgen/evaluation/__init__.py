"""Comparing models, methods and rules on test rows."""

from .answers import Answer
from .comparison import Comparison, compare

__all__ = ["Answer", "Comparison", "compare"]
