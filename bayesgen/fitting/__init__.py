"""Training: a method turns a model and data into a `Fit`."""

from .data_sets import DataSets as DataSets
from .data_sets import num_sets_at_once as num_sets_at_once
from .data_sets import read_sets as read_sets
from .data_sets import schema_moments as schema_moments
from .data_sets import statistics_of_set as statistics_of_set
from .data_sets import with_moments as with_moments
from .data_sets import without_moments as without_moments
from .exact import Exact
from .export import datatree as datatree
from .export import sampler_statistics as sampler_statistics
from .fit import Diagnosis, Fit
from .fit import frame_of_rows as frame_of_rows
from .many import FitBatch, fit_many
from .many import why_separate as why_separate
from .nuts import FALL_AT_MEAN as FALL_AT_MEAN
from .nuts import NUTS
from .nuts import chain_attributes as chain_attributes
from .nuts import fit_of_draws as fit_of_draws
from .point import MAP, MLE, Hybrid
from .problem import Method
from .problem import Problem as Problem
from .problem import ProgramProblem as ProgramProblem
from .problem import why_not_closed as why_not_closed
from .reading import summarize
from .sampling import log_likelihoods_by_site as log_likelihoods_by_site
from .sampling import with_uneven_tails as with_uneven_tails
from .summaries import Summaries
from .summaries import encoded_rows as encoded_rows
from .summaries import summaries_of_rows as summaries_of_rows
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
