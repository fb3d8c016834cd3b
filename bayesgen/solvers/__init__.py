"""Searches for modes and samplers. They take a `LogDensity`, and know neither programs nor data."""

from .attempts import Attempt, Chains, Settings, sample, unwhitened, whitened_at_mode
from .evaluator import evaluator_of
from .maximize import maximize

__all__ = ["Attempt", "Chains", "Settings", "evaluator_of", "maximize", "sample", "unwhitened", "whitened_at_mode"]
