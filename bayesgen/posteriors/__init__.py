"""What training gives: points, conjugate posteriors, draws, averages over structures."""

from .base import State, collect
from .convergence import entry_names, problems, quick_rhat, warn_of
from .state import Draws, Point, Posterior
from .structure import StructurePosterior

__all__ = [
    "Draws",
    "Point",
    "Posterior",
    "State",
    "StructurePosterior",
    "collect",
    "entry_names",
    "problems",
    "quick_rhat",
    "warn_of",
]
