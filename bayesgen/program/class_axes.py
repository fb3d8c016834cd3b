"""The class axes of latents, found by changing entries one at a time."""

from typing import Any, NamedTuple

import jax
import numpy as np

from bayesgen.runtime import Traced
from bayesgen.typing import Array, Bool, Float

from .arbitrary import arbitrary_numbers
from .structure import Arrays
from .traces import Findings, Traces, arbitrary_covariates

DIFFERENT = 1e-9  # relative difference of numbers that count as changed


class Change(NamedTuple):
    """Another value at one entry, along one axis, of a latent."""

    name: str
    axis: int
    entry: int


def find_class_axes(traces: Traces) -> dict[str, int]:
    """Latent or deterministic site -> its class axis, if it has one. Inside float64.

    An axis of a latent is a class axis if its entry k changes the distributions of class k alone (of its attributes, or
    its probability). An axis of a deterministic site is a class axis if such changes of class k change its entry k
    alone.
    """
    num_classes = traces.program.num_classes
    first, second = (traces.draw(arbitrary_numbers(seed)) for seed in range(2))
    changes = [
        Change(name, axis, entry)
        for name, value in first.latents.items()
        for axis, size in enumerate(value.shape)
        if size == num_classes
        for entry in range(num_classes)
    ]
    if not changes or num_classes < 2:
        return {}
    changed = [_changed(first.latents, second.latents, change) for change in changes]
    latents = jax.tree.map(lambda *values: np.stack(values), first.latents, *changed)
    moved, deterministics_moved = _effects(traces, latents, traces.rows(first, num_classes))
    axes = {change.name: change.axis for change in changes if _is_class(moved, changes, {(change.name, change.axis)})}
    of_latents = set(axes.items())
    for name, values_moved in deterministics_moved.items():
        for axis in range(1, values_moved.ndim):
            if values_moved.shape[axis] == num_classes and _is_class(
                _any_along([values_moved], axis), changes, of_latents
            ):
                axes.setdefault(name, axis - 1)
    return axes


def _changed(latents: Arrays, other_latents: Arrays, change: Change) -> dict[str, Array]:
    """Latents with a change applied."""
    place = (slice(None),) * change.axis + (change.entry,)
    value = np.array(latents[change.name])
    value[place] = np.asarray(other_latents[change.name])[place]
    return {**latents, change.name: value}


def _effects(
    traces: Traces, latents: Arrays, rows: Arrays
) -> tuple[Bool[np.ndarray, "changes K"], dict[str, Bool[np.ndarray, "changes ..."]]]:
    """Which classes' distributions, and which entries of deterministic sites, differ from those of the first ones."""
    codes = np.arange(traces.program.num_classes)

    def distributions(findings: Findings) -> tuple[list[Any], dict[str, Any]]:
        return [*findings.log_probs.values(), *jax.tree.leaves(findings.label)], findings.deterministics

    function = traces.classes.function.only(distributions)
    arguments = rows, codes, arbitrary_covariates(traces.program, len(codes), same=True)
    of_many = Traced.of(jax.vmap(lambda latents: function.traceably(latents, *arguments)), latents)
    values, deterministics = jax.tree.map(lambda array: _differs(array[1:], array[:1]), of_many(latents))
    of_classes = [array for array in values if array.ndim > 1 and array.shape[-1:] == codes.shape]
    return _any_along(of_classes, -1), deterministics


def _differs(values: Float[np.ndarray, "changes ..."], before: Float[np.ndarray, "1 ..."]) -> Bool[np.ndarray, "..."]:
    return ~np.isclose(values, before, rtol=DIFFERENT, atol=0.0, equal_nan=True)


def _any_along(arrays: list[Bool[np.ndarray, "changes ..."]], axis: int) -> Bool[np.ndarray, "changes K"]:
    """Whether any array differs, for each change and entry along an axis."""
    flat = [np.moveaxis(array, axis, 1) for array in arrays]
    return np.any([array.reshape(*array.shape[:2], -1).any(-1) for array in flat], axis=0)


def _is_class(moved: Bool[np.ndarray, "changes K"], changes: list[Change], chosen: set[tuple[str, int]]) -> bool:
    """Whether, for every k, the chosen changes of entry k move k and nothing else."""
    entries: set[int] = set()
    for (name, axis, entry), row in zip(changes, moved, strict=True):
        if (name, axis) in chosen:
            if row.sum() > row[entry]:
                return False
            entries |= {entry} if row[entry] else set()
    return len(entries) == moved.shape[1]
