"""Priors over hypotheses, with hyperparameters that weight groups of hypotheses.

A prior is p(h) = exp(base[h] + log_factors(hyperparameters)[group[h]]). A group is a family of hypotheses, or those of
one size, so the cost of a prior grows with the groups, not with the hypotheses. Factors hold no arrays and compare by
value, so equal spaces share compiled functions.
"""

import dataclasses
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpyro.distributions as dist

from bayesgen.errors import ModelError, as_numbers
from bayesgen.records import record, static
from bayesgen.statistics import namespace
from bayesgen.typing import Array, Float, Int

Number: TypeAlias = float | int | np.number | Float[Array, ""]
Hyperparameter: TypeAlias = float | dist.Distribution
Range: TypeAlias = tuple[float, float]
LogFactors: TypeAlias = Callable[[Mapping[str, Number]], Float[Array, " G"]]  # of groups, at hyperparameters; traceable


def check_hyperparameters(
    hyperparameters: Mapping[str, Any], ranges: Mapping[str, Range], *, closed: bool = False
) -> None:
    """Refuse numbers outside of their ranges, and distributions of anything but such numbers.

    Args:
        hyperparameters: name -> a number or a NumPyro distribution.
        ranges: name -> (low, high), for those that have one.
        closed: whether a number may be equal to a bound.
    """
    for name, value in hyperparameters.items():
        low, high = ranges.get(name, (-np.inf, np.inf))
        between = f"between {low:g} and {high:g}" if np.isfinite(high) else f"a finite number above {low:g}"
        if not isinstance(value, dist.Distribution):
            number = isinstance(value, numbers.Real) and bool(np.isfinite(as_numbers(name, value)))
            if not number or not (low <= value <= high if closed else low < value < high):
                raise ModelError(f"{name} must be {between}, got {value!r}.")
        elif value.batch_shape or value.event_shape or value.support.is_discrete:
            raise ModelError(f"{name} must be one number: its distribution {value!r} is not of one continuous number.")
        elif bounds(value)[0] < low or bounds(value)[1] > high:
            raise ModelError(f"{name} must be {between}: the support of its distribution reaches beyond.")


def bounds(prior: dist.Distribution) -> Range:
    """The ends of the support of a distribution of one number."""
    support = prior.support
    return float(getattr(support, "lower_bound", -np.inf)), float(getattr(support, "upper_bound", np.inf))


def unknown(hyperparameters: Mapping[str, Hyperparameter]) -> dict[str, dist.Distribution]:
    """The hyperparameters that are distributions, by name."""
    return {name: value for name, value in hyperparameters.items() if isinstance(value, dist.Distribution)}


def merge_hyperparameters(*groups: Mapping[str, Hyperparameter]) -> dict[str, Hyperparameter]:
    """Hyperparameters of several parts together; a name with different values is refused."""
    merged: dict[str, Hyperparameter] = {}
    for name, value in (pair for group in groups for pair in group.items()):
        if name in merged and merged[name] is not value:
            raise ModelError(f"The hyperparameter {name!r} is given twice, with different values. Rename one of them.")
        merged[name] = value
    return merged


def merge_ranges(*groups: Mapping[str, Range]) -> dict[str, Range]:
    """Ranges of several parts together: the intersection of ranges of one name."""
    together = {
        name: np.asarray([group[name] for group in groups if name in group]) for group in groups for name in group
    }
    return {name: (float(ends[:, 0].max()), float(ends[:, 1].min())) for name, ends in together.items()}


@dataclasses.dataclass(frozen=True)
class BySize:
    """Log prior factors of groups of hypotheses, one for each size.

    Attributes:
        function: function(sizes, **hyperparameters) of log prior weights; they need not be normalised. Give a
            module-level function: each new function is compiled.
        names: its hyperparameters.
        sizes: the G sizes.
        counts: number of hypotheses of each size.
    """

    function: Callable[..., Array]
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]

    def __call__(self, values: Mapping[str, Number]) -> Float[Array, " G"]:
        logs = self.function(np.asarray(self.sizes, np.float64), **{name: values[name] for name in self.names})
        return logs - weighted_log_sum_exp(logs, np.asarray(self.counts, np.float64))


@dataclasses.dataclass(frozen=True)
class Union:
    """Log prior factors of the concatenated groups of several priors, each prior with a weight.

    Attributes:
        weights: a number, or a function of the hyperparameters, for each part; they need not be normalised.
        names: the hyperparameters that these functions take.
        parts: the factors of the priors.
    """

    weights: tuple[Any, ...]
    names: tuple[str, ...]
    parts: tuple[LogFactors, ...]

    def __call__(self, values: Mapping[str, Number]) -> Float[Array, " G"]:
        arguments = {name: values[name] for name in self.names}
        weights = [weight(**arguments) if callable(weight) else weight for weight in self.weights]
        xp = namespace(*weights)
        with np.errstate(divide="ignore"):
            logs = xp.log(xp.stack([xp.asarray(weight, float) for weight in weights]))
        logs = logs - weighted_log_sum_exp(logs)
        parts = [log + part(values) for log, part in zip(logs, self.parts, strict=True)]
        return namespace(*parts).concatenate(parts)


@record
class HypothesisPrior:
    """A prior over H hypotheses.

    Attributes:
        base: log prior probability up to the factor of the group.
        groups: the group of each hypothesis, 0..G-1.
        factors: the groups' log factors.
    """

    base: Float[np.ndarray, " H"]
    groups: Int[np.ndarray, " H"]
    factors: LogFactors = static()

    @classmethod
    def fixed(cls, weights: Float[np.ndarray, " H"]) -> "HypothesisPrior":
        """The prior of fixed weights."""
        logs = np.log(weights)
        return cls(logs - weighted_log_sum_exp(logs), np.zeros(len(weights), np.int64), BySize(_even, (), (1,), (1,)))

    @classmethod
    def by_size(
        cls, function: Callable[..., Array], names: Iterable[str], sizes: Int[np.ndarray, " H"]
    ) -> "HypothesisPrior":
        """Log weights as a function of size and hyperparameters."""
        distinct, groups, counts = np.unique(sizes, return_inverse=True, return_counts=True)
        factors = BySize(function, tuple(names), tuple(distinct.tolist()), tuple(counts.tolist()))
        return cls(np.zeros(len(sizes)), groups, factors)

    @classmethod
    def union(
        cls, weights: Sequence[Any], names: Iterable[str], parts: Sequence["HypothesisPrior"]
    ) -> "HypothesisPrior":
        """The union of priors, with weights that are numbers or functions of hyperparameters."""
        for weight in weights:
            positive = isinstance(weight, int | float | np.number) and np.isfinite(weight) and weight > 0
            if not callable(weight) and not positive:
                raise ModelError(f"The weights of a union must be positive and finite, got {weight!r}.")
        starts = np.cumsum([0, *(part.groups.max() + 1 for part in parts)])
        groups = np.concatenate([start + part.groups for start, part in zip(starts, parts, strict=False)])
        factors = Union(tuple(weights), tuple(names), tuple(part.factors for part in parts))
        return cls(np.concatenate([part.base for part in parts]), groups, factors)

    def log_probabilities(self, values: Mapping[str, Number]) -> Float[Array, " H"]:
        """Log prior probabilities at hyperparameters by name. Traceable by JAX."""
        return self.base + self.factors(values)[self.groups]


def _even(sizes: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
    """Log prior weights that do not depend on the size."""
    return np.zeros(len(sizes))


def weighted_log_sum_exp(
    logs: Float[Array, " G"], counts: Float[Array, " G"] | float = 1.0
) -> Float[Array, ""] | float:
    """Log of the sum of counts times exponentials."""
    xp = namespace(logs)
    top = logs.max()
    return top + xp.log((counts * xp.exp(logs - top)).sum())
