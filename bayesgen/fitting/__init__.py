"""Training: a method turns a model and data into a `Fit`."""

from .data_sets import UNKNOWN_MOMENTS as UNKNOWN_MOMENTS
from .data_sets import SetsOfRows as SetsOfRows
from .data_sets import moments_of as moments_of
from .data_sets import num_sets_at_once as num_sets_at_once
from .data_sets import read_sets as read_sets
from .data_sets import with_moments as with_moments
from .exact import Exact
from .export import datatree as datatree
from .export import log_likelihoods as log_likelihoods
from .export import sampler_statistics as sampler_statistics
from .export import with_uneven_tails as with_uneven_tails
from .fit import Fit
from .fit_batch import FitBatch
from .many import SETS_AT_ONCE as SETS_AT_ONCE
from .many import fit_many
from .many import why_separate as why_separate
from .nuts import FALL_AT_MEAN as FALL_AT_MEAN
from .nuts import NUTS
from .nuts import about as about
from .nuts import fit_of_draws as fit_of_draws
from .point import MAP, MLE, Hybrid
from .problem import FiniteProblem as FiniteProblem
from .problem import Method
from .problem import Problem as Problem
from .problem import ProgramProblem as ProgramProblem
from .problem import why_not_closed as why_not_closed
from .summaries import Summaries, summarize
from .summaries import encoded_rows as encoded_rows
from .summaries import summaries_of_rows as summaries_of_rows
from .tables import Diagnosis
from .trained import Trained as Trained
from .training import fit
from .training import prepare as prepare
from .unobserved import HiddenStates

# public names; the other ones are for other rooms
__all__ = [
    "MAP",
    "MLE",
    "NUTS",
    "Diagnosis",
    "Exact",
    "Fit",
    "FitBatch",
    "HiddenStates",
    "Hybrid",
    "Method",
    "Summaries",
    "fit",
    "fit_many",
    "summarize",
]
