"""Generative programs: NumPyro functions that make data, and what can be computed from them."""

from .conditional import AttributesDensity, ConditionalDensity, ResponseDensity, slope_along, slopes_of_log_odds
from .density import log_prior
from .generative import GenerativeProgram
from .hidden_states import average_states, log_states_of_draws, shape_of_states, sites_with_states, states_at
from .joint import finite
from .latent_space import at_free, free_of
from .log_densities import LikelihoodDensity, ParameterDensity, PosteriorDensity, ProgramDensity, free_vector
from .model import ConcreteModel, Model, Recipe
from .pytree import PytreeFunction
from .response import Response
from .rows import read_rows
from .rowwise import WHOLE, Reduction, log_joint_draws, program_table, reduce_draws
from .saturation import saturated_sites
from .starts import DRAWS, dispersed, dispersed_starts
from .state_names import are_exchangeable
from .structure import Plan

__all__ = [
    "DRAWS",
    "WHOLE",
    "AttributesDensity",
    "ConcreteModel",
    "ConditionalDensity",
    "GenerativeProgram",
    "LikelihoodDensity",
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
    "finite",
    "free_of",
    "free_vector",
    "log_joint_draws",
    "log_prior",
    "log_states_of_draws",
    "program_table",
    "read_rows",
    "reduce_draws",
    "saturated_sites",
    "shape_of_states",
    "sites_with_states",
    "slope_along",
    "slopes_of_log_odds",
    "states_at",
]
