"""Training: a method turns a model and data into a `Fit`."""

from .data import Summaries, summarize
from .exact import Exact
from .export import datatree
from .fit import Fit
from .map import MAP
from .mle import MLE
from .nuts import NUTS, about
from .problem import Method, Problem, ProgramProblem
from .trained import Trained
from .training import fit, prepare

__all__ = [
    "MAP",
    "MLE",
    "NUTS",
    "Exact",
    "Fit",
    "Method",
    "Problem",
    "ProgramProblem",
    "Summaries",
    "Trained",
    "about",
    "datatree",
    "fit",
    "prepare",
    "summarize",
]
