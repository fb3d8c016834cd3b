"""What training gives: points, conjugate posteriors, draws, averages over structures."""

from .base import State
from .convergence import entry_names, problems, quick_rhat, warn_of
from .state import Draws, Point, Posterior

__all__ = [
    "Draws",
    "Point",
    "Posterior",
    "State",
    "entry_names",
    "problems",
    "quick_rhat",
    "warn_of",
]
