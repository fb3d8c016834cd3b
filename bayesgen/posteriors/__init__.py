"""What training gives: points, conjugate posteriors, draws, mixtures of several."""

from .base import At, Exported, Parameters, Posterior, ProcessPosterior
from .closed import chunk_table
from .conjugate import ConjugatePosterior
from .convergence import entry_names, problems, warn_of
from .draws import Draws
from .mixture import Mixture, log_conditional, rows_of_members
from .point import Point

__all__ = [
    "At",
    "ConjugatePosterior",
    "Draws",
    "Exported",
    "Mixture",
    "Parameters",
    "Point",
    "Posterior",
    "ProcessPosterior",
    "chunk_table",
    "entry_names",
    "log_conditional",
    "problems",
    "rows_of_members",
    "warn_of",
]
