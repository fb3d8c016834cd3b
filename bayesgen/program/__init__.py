"""Generative programs: NumPyro functions that make data, and what can be computed from them."""

from .arbitrary import center_and_scale
from .cross_products import CrossProductsTerm, log_likelihoods
from .density import (
    LogLikelihood,
    LogPriorKind,
    ProgramDensity,
    RowsTerm,
    StatisticsTerm,
    free_vector,
    log_density_of_sites,
    slope_along,
    slopes_of_log_odds,
)
from .evaluation import at_free, free_of, saturated_sites
from .fingerprint import content_digest
from .generative import GenerativeProgram
from .hidden_states import (
    ResponseValues,
    are_exchangeable,
    average_states,
    log_states_of_draws,
    shape_of_states,
    sites_with_states,
    states_at,
)
from .joint import (
    ALL_DRAWS,
    Reduction,
    finite_reference,
    log_joint_draws,
    log_priors,
    log_probs_by_site,
    program_table,
    ratio_of_batches,
    reduce_draws,
    row_statistics,
    scores_of,
    scores_of_draws,
)
from .model import ConcreteModel, Model, Recipe, Response
from .pytree import PytreeFunction
from .row_latents import WithRowLatents, repeated_rows, row_digests
from .rows import read_covariates, read_rows
from .starts import PRIOR_STARTS, dispersed, dispersed_starts
from .structure import Plan, Program

__all__ = [
    "ALL_DRAWS",
    "PRIOR_STARTS",
    "ConcreteModel",
    "CrossProductsTerm",
    "GenerativeProgram",
    "LogLikelihood",
    "LogPriorKind",
    "Model",
    "Plan",
    "Program",
    "ProgramDensity",
    "PytreeFunction",
    "Recipe",
    "Reduction",
    "Response",
    "ResponseValues",
    "RowsTerm",
    "StatisticsTerm",
    "WithRowLatents",
    "are_exchangeable",
    "at_free",
    "average_states",
    "center_and_scale",
    "content_digest",
    "dispersed",
    "dispersed_starts",
    "finite_reference",
    "free_of",
    "free_vector",
    "log_density_of_sites",
    "log_joint_draws",
    "log_likelihoods",
    "log_priors",
    "log_probs_by_site",
    "log_states_of_draws",
    "program_table",
    "ratio_of_batches",
    "read_covariates",
    "read_rows",
    "reduce_draws",
    "repeated_rows",
    "row_digests",
    "row_statistics",
    "saturated_sites",
    "scores_of",
    "scores_of_draws",
    "shape_of_states",
    "sites_with_states",
    "slope_along",
    "slopes_of_log_odds",
    "states_at",
]
