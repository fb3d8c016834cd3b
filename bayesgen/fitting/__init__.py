"""Training: a method turns a model and data into a `Fit`."""

from .data import summarize
from .exact import Exact
from .export import datatree as datatree
from .fit import Fit
from .hidden_states import HiddenStates
from .map import MAP
from .mle import MLE
from .nuts import NUTS
from .nuts import about as about
from .objectives import Hybrid
from .problem import Method
from .problem import Problem as Problem
from .problem import ProgramProblem as ProgramProblem
from .summaries import Summaries
from .trained import Trained as Trained
from .training import fit
from .training import prepare as prepare

# what users see; other rooms may have the rest
__all__ = ["MAP", "MLE", "NUTS", "Exact", "Fit", "HiddenStates", "Hybrid", "Method", "Summaries", "fit", "summarize"]
