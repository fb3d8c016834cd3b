"""Generative programs: NumPyro functions that make data, and what can be computed from them."""

from .compiled import first_rows, padded, padded_size, summarize_rows
from .density import (
    Evidence,
    at_classes,
    density_work,
    log_density,
    parameter_log_density,
    unconstrained_log_density,
)
from .evaluation import unconstrain
from .generative import GenerativeProgram
from .joint import finite
from .log_densities import ParameterDensity, ProgramDensity, ProgramLikelihood, ProgramPosterior, free_vector
from .model import ConcreteModel, Model, Recipe
from .pytree import PytreeFunction
from .recognition import Plan
from .rows import read_rows
from .rowwise import Reduction, log_joint_draws, program_table, reduce_draws
from .saturation import saturated_sites
from .starts import DRAWS, dispersed_starts
from .structure import Site, Structure, covariate_names

__all__ = [
    "DRAWS",
    "ConcreteModel",
    "Evidence",
    "GenerativeProgram",
    "Model",
    "ParameterDensity",
    "Plan",
    "ProgramDensity",
    "ProgramLikelihood",
    "ProgramPosterior",
    "PytreeFunction",
    "Recipe",
    "Reduction",
    "Site",
    "Structure",
    "at_classes",
    "covariate_names",
    "density_work",
    "dispersed_starts",
    "finite",
    "first_rows",
    "free_vector",
    "log_density",
    "log_joint_draws",
    "padded",
    "padded_size",
    "parameter_log_density",
    "program_table",
    "read_rows",
    "reduce_draws",
    "saturated_sites",
    "summarize_rows",
    "unconstrain",
    "unconstrained_log_density",
]
