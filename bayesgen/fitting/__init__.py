"""Training: a method turns a model and data into a `Fit`."""

from .data import Summaries, summarize
from .exact import Exact
from .fit import Fit
from .map import MAP
from .method import Method, Problem, fit, prepare, train
from .mle import MLE
from .nuts import NUTS
from .structures import StructurePosterior

__all__ = [
    "MAP",
    "MLE",
    "NUTS",
    "Exact",
    "Fit",
    "Method",
    "Problem",
    "StructurePosterior",
    "Summaries",
    "fit",
    "prepare",
    "summarize",
    "train",
]
