"""Generative programs: NumPyro functions that make data, and what can be computed from them."""

from .density import log_prior
from .evaluation import at_free, free_of, saturated_sites
from .generative import GenerativeProgram
from .hidden_states import (
    are_exchangeable,
    average_states,
    log_states_of_draws,
    shape_of_states,
    sites_with_states,
    states_at,
)
from .joint import (
    WHOLE,
    Reduction,
    finite_reference,
    log_joint_draws,
    program_table,
    ratio_of_batches,
    reduce_draws,
)
from .log_densities import (
    PRIOR_STARTS,
    AttributesDensity,
    ConditionalDensity,
    ParameterDensity,
    PosteriorDensity,
    ProgramDensity,
    ResponseDensity,
    dispersed,
    dispersed_starts,
    free_vector,
    slope_along,
    slopes_of_log_odds,
)
from .model import ConcreteModel, Model, Recipe, Response
from .pytree import PytreeFunction
from .rows import read_rows
from .structure import Plan

__all__ = [
    "PRIOR_STARTS",
    "WHOLE",
    "AttributesDensity",
    "ConcreteModel",
    "ConditionalDensity",
    "GenerativeProgram",
    "Model",
    "ParameterDensity",
    "Plan",
    "PosteriorDensity",
    "ProgramDensity",
    "PytreeFunction",
    "Recipe",
    "Reduction",
    "Response",
    "ResponseDensity",
    "are_exchangeable",
    "at_free",
    "average_states",
    "dispersed",
    "dispersed_starts",
    "finite_reference",
    "free_of",
    "free_vector",
    "log_joint_draws",
    "log_prior",
    "log_states_of_draws",
    "program_table",
    "ratio_of_batches",
    "read_rows",
    "reduce_draws",
    "saturated_sites",
    "shape_of_states",
    "sites_with_states",
    "slope_along",
    "slopes_of_log_odds",
    "states_at",
]
