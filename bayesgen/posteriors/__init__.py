"""What training gives: points, conjugate posteriors, draws, averages of several."""

from .average import AveragePosterior, Mixes, log_conditional, rows_of_members
from .base import At, Exported, Parameters, Posterior, ProcessPosterior, chains_joined, chunk_table, numbers_per_row
from .conjugate import ConjugatePosterior
from .draws import (
    Draws,
    UnnamedComponents,
    entry_names,
    in_order,
    invariants,
    matching_orders,
    problems,
    some_pairs,
    warn_of,
    warn_of_switching,
)
from .point import Point

__all__ = [
    "At",
    "AveragePosterior",
    "ConjugatePosterior",
    "Draws",
    "Exported",
    "Mixes",
    "Parameters",
    "Point",
    "Posterior",
    "ProcessPosterior",
    "UnnamedComponents",
    "chains_joined",
    "chunk_table",
    "entry_names",
    "in_order",
    "invariants",
    "log_conditional",
    "matching_orders",
    "numbers_per_row",
    "problems",
    "rows_of_members",
    "some_pairs",
    "warn_of",
    "warn_of_switching",
]
