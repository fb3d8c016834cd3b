"""Hyperparameters of concepts: numbers, or NumPyro distributions of one continuous number each."""

import math
import numbers
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Float

Number: TypeAlias = float | int | np.number | Float[Array, ""]
Hyperparameter: TypeAlias = float | dist.Distribution
Range: TypeAlias = tuple[float, float]


def check_hyperparameters(
    hyperparameters: Mapping[str, Hyperparameter], ranges: Mapping[str, Range], *, closed: bool = False
) -> None:
    """Check several by name against their ranges: name -> (low, high), those that have any."""
    for name, value in hyperparameters.items():
        check_hyperparameter(name, value, *ranges.get(name, ()), closed=closed)


def check_hyperparameter(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, closed: bool = False
) -> None:
    """Refuse a number that is not between two bounds, and a distribution of anything but such numbers.

    Args:
        name: the hyperparameter's name.
        value: a number or a NumPyro distribution.
        low, high: the bounds.
        closed: whether a number may be equal to a bound.
    """
    between = f"between {low:g} and {high:g}" if np.isfinite(high) else f"a finite number above {low:g}"
    if not isinstance(value, dist.Distribution):
        number = isinstance(value, numbers.Real) and math.isfinite(value)
        if not number or not (low <= value <= high if closed else low < value < high):
            raise ModelError(f"{name} must be {between}, got {value!r}.")
        return
    if value.batch_shape or value.event_shape or value.support.is_discrete:
        raise ModelError(f"{name} must be one number: its distribution {value!r} is not of one continuous number.")
    lowest, highest = bounds(value)
    if lowest < low or highest > high:
        raise ModelError(f"{name} must be {between}: the support of its distribution reaches beyond.")


def bounds(prior: dist.Distribution) -> Range:
    """The ends of the support of a distribution of one number."""
    support = prior.support
    return float(getattr(support, "lower_bound", -np.inf)), float(getattr(support, "upper_bound", np.inf))


def unknown(hyperparameters: Mapping[str, Hyperparameter]) -> dict[str, dist.Distribution]:
    """Those that are distributions, by name."""
    return {name: value for name, value in hyperparameters.items() if isinstance(value, dist.Distribution)}


def sample_values(hyperparameters: Mapping[str, Hyperparameter]) -> dict[str, Number]:
    """Values by name inside a NumPyro program: distributions are sampled, numbers are as they are."""
    priors = unknown(hyperparameters)
    return {name: numpyro.sample(name, value) if name in priors else value for name, value in hyperparameters.items()}


def merge_hyperparameters(*groups: Mapping[str, Hyperparameter]) -> dict[str, Hyperparameter]:
    """Hyperparameters of several parts together; a name that means different things is refused."""
    merged: dict[str, Hyperparameter] = {}
    for name, value in (pair for group in groups for pair in group.items()):
        if name in merged and merged[name] is not value:
            raise ModelError(f"The hyperparameter {name!r} is given twice, with different values. Rename one of them.")
        merged[name] = value
    return merged


def merge_ranges(*groups: Mapping[str, Range]) -> dict[str, Range]:
    """Ranges of several parts together: what two of them bound is bounded by both."""
    merged: dict[str, Range] = {}
    for name, (low, high) in (pair for group in groups for pair in group.items()):
        lowest, highest = merged.get(name, (-np.inf, np.inf))
        merged[name] = max(low, lowest), min(high, highest)
    return merged
