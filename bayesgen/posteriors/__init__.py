"""What training gives: points, conjugate posteriors, draws, mixtures of several."""

from .base import At, Exported, Parameters, Posterior, ProcessPosterior
from .conjugate import ConjugatePosterior
from .convergence import entry_names, problems, warn_of
from .draws import Draws
from .mixture import MemberRows, Mixture, log_conditional
from .point import Point

__all__ = [
    "At",
    "ConjugatePosterior",
    "Draws",
    "Exported",
    "MemberRows",
    "Mixture",
    "Parameters",
    "Point",
    "Posterior",
    "ProcessPosterior",
    "entry_names",
    "log_conditional",
    "problems",
    "warn_of",
]
