"""Posteriors, the results of training: points, conjugate posteriors, draws."""

from .base import (
    At,
    ParameterArrays,
    ParameterSummaries,
    Posterior,
    ProcessPosterior,
    chains_joined,
    chunk_table,
    numbers_per_row,
)
from .closed import ClosedPosterior
from .conjugate import ConjugatePosterior
from .draws import (
    MATCHED_ROWS,
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
from .finite import closed_posterior
from .point import Point

__all__ = [
    "MATCHED_ROWS",
    "At",
    "ClosedPosterior",
    "ConjugatePosterior",
    "Draws",
    "ExchangeableComponents",
    "ParameterArrays",
    "ParameterSummaries",
    "Point",
    "Posterior",
    "ProcessPosterior",
    "chains_joined",
    "chunk_table",
    "closed_posterior",
    "convergence_problems",
    "entry_names",
    "label_invariants",
    "matching_orders",
    "numbers_per_row",
    "random_pairs",
    "reordered",
    "warn_of_convergence",
    "warn_of_switching",
]
