"""Posteriors, the results of training: points, conjugate posteriors, draws, averages of several."""

from .average import AveragePosterior, Mixes, log_conditional, rows_of_members
from .base import (
    At,
    Exported,
    ParameterArrays,
    Posterior,
    ProcessPosterior,
    chains_joined,
    chunk_table,
    numbers_per_row,
)
from .conjugate import ConjugatePosterior
from .draws import (
    Draws,
    ExchangeableComponents,
    convergence_problems,
    entry_names,
    label_invariants,
    matching_orders,
    random_pairs,
    reordered,
    warn_of_convergence,
    warn_of_switching,
)
from .point import Point

__all__ = [
    "At",
    "AveragePosterior",
    "ConjugatePosterior",
    "Draws",
    "ExchangeableComponents",
    "Exported",
    "Mixes",
    "ParameterArrays",
    "Point",
    "Posterior",
    "ProcessPosterior",
    "chains_joined",
    "chunk_table",
    "convergence_problems",
    "entry_names",
    "label_invariants",
    "log_conditional",
    "matching_orders",
    "numbers_per_row",
    "random_pairs",
    "reordered",
    "rows_of_members",
    "warn_of_convergence",
    "warn_of_switching",
]
